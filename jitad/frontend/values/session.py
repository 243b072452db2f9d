"""What the functions of one module have in common while they are traced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...ir.graph import Module
from ...ir.types import Type
from ..captured.captures import Captures
from ..captured.places import Place
from ..columns.layouts import Layout
from ..columns.recursive_types import Family
from .values import Obj, Options


@dataclass(eq=False)
class Outcome:
    """What a function returns: a value over its own objects, and those of the caller's objects that it changed.

    ``objs[i]`` is the callee's object for the caller's ``Packer.refs[i]``: each round of tracing has its own.
    """

    value: Any
    objs: list[Obj]
    changed: list[Obj]
    state: dict[Obj, Any]
    types: list[Type]
    shape: Any                                       # the key of all this, to compare rounds


@dataclass(eq=False)
class Specialisation:
    """One IR function; ``objs`` as in ``Outcome``, of the round of tracing that is going on."""

    name: str
    key: Any
    level: int
    args: Any                                        # what it was called with, to see what changes on recursion
    objs: list[Obj] = field(default_factory=list)
    outcome: Outcome | None = None
    consts: list[Place] = field(default_factory=list)
    const_objs: dict[Place, Obj] = field(default_factory=dict)     # the callee's objects for arrays among them
    done: bool = False
    hit: bool = False                                # called while it was being traced
    depends: set[Specialisation] = field(default_factory=set)      # unfinished functions whose result it used


@dataclass
class Session:
    """What the functions of one module have in common."""

    module: Module
    options: Options
    functions: dict[Any, Specialisation] = field(default_factory=dict)
    stack: list[Specialisation] = field(default_factory=list)
    variants: dict[Any, int] = field(default_factory=dict)    # specialisations of each code
    keep: dict[int, Any] = field(default_factory=dict)        # objects whose ids stand in keys
    heaps: dict[Family, Layout] = field(default_factory=dict)      # the families of which the program makes nodes
    layouts: dict[Family, Layout] = field(default_factory=dict)    # of the trees among the arguments
    customs: dict[str, Any] = field(default_factory=dict)     # ``rule_wrappers.Entry`` of functions with rules
    inside_rules: list[Any] = field(default_factory=list)     # whose rules are being traced: their codes
    captures: Captures = field(default_factory=Captures)      # what the program reads of captured state
    long_lists: dict[int, Any] = field(default_factory=dict)  # constant lists as columns, by their ids
