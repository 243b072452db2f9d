"""The state that the functions of one module share while they are traced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...ir.graph import Module
from ...ir.types import Type
from ..captured.captures import Captures
from ..captured.options import Options
from ..captured.places import Place
from ..columns.inferred_types import Seen
from ..columns.layouts import Layout
from ..columns.recursive_types import Family
from .values import Obj


@dataclass(eq=False)
class Outcome:
    """The result of a function: a value over its own objects, and the caller's objects that it has changed.

    ``objs[i]`` is the callee's object for the caller's ``Packer.refs[i]``: each round of tracing has its own objects.
    """

    value: Any
    objs: list[Obj]
    changed: list[Obj]
    state: dict[Obj, Any]
    frozen: tuple[tuple[int, str], ...]              # the places in ``objs`` of what must not change, and why
    types: list[Type]
    shape: Any                                       # key of the outcome, to compare rounds


@dataclass(eq=False)
class Specialisation:
    """One IR function; ``objs`` as in ``Outcome``, of the current round of tracing."""

    name: str
    key: Any
    level: int
    args: Any                                        # its arguments, to find those that change in recursive calls
    lists: dict[str, Any] = field(default_factory=dict)            # the contents of its lists, for the same reason
    contents: list[Any] = field(default_factory=list)              # those of the objects that it is given, likewise
    objs: list[Obj] = field(default_factory=list)
    outcome: Outcome | None = None
    consts: list[Place] = field(default_factory=list)
    const_objs: dict[Place, Obj] = field(default_factory=dict)     # the callee's objects for captured arrays
    done: bool = False
    hit: bool = False                                # called while it is being traced
    depends: set[Specialisation] = field(default_factory=set)      # unfinished functions whose results it has used


@dataclass
class Session:
    """The state that the functions of one module share while they are traced."""

    module: Module
    options: Options
    functions: dict[Any, Specialisation] = field(default_factory=dict)
    stack: list[Specialisation] = field(default_factory=list)
    jitted: dict[Any, Any] = field(default_factory=dict)      # compiled functions that are called, by their codes
    shared: dict[str, Any] = field(default_factory=dict)      # the same, by the names of their IR functions
    variants: dict[Any, int] = field(default_factory=dict)    # number of specialisations of each code
    keep: dict[int, Any] = field(default_factory=dict)        # objects whose ids are used in keys
    heaps: dict[Family, Layout] = field(default_factory=dict)      # families of the nodes that the program allocates
    layouts: dict[Family, Layout] = field(default_factory=dict)    # families of the trees among the arguments
    customs: dict[str, Any] = field(default_factory=dict)     # ``rule_wrappers.Entry`` of functions with rules
    inside_rules: list[Any] = field(default_factory=list)     # codes of the functions whose rules are being traced
    captures: Captures = field(default_factory=Captures)      # the captured state that the program reads
    frozen: list[Obj] = field(default_factory=list)           # what must not change since a list of columns holds it
    attributes: Seen = field(default_factory=dict)            # what attributes of the objects that it makes have held
    unmoved: frozenset[Obj] = frozenset()                     # lists that are not in another list yet (``ROW``)
    rows: int = 0                                             # short lists are rows: 1: of equal types, 2: any numbers
    long_lists: dict[int, Any] = field(default_factory=dict)  # constant lists as columns, by id
