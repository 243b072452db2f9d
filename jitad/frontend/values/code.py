"""The code of a function as hooks, and its activation frame."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import Loc
from ..captured.places import MISSING
from ..captured.user_classes import trusted
from .protocol import Trace
from .values import Edge, Obj, Slot

Names = frozenset[str]
Hook = Callable[["Frame"], Any]


@dataclass
class Loop:
    """A loop that is being traced: the paths that have left it by ``break`` and ``continue``."""

    breaks: list[Edge | None] = field(default_factory=list)
    continues: list[Edge | None] = field(default_factory=list)


class Captures(Protocol):
    """The values that a function captures besides its code (``closures.Fn``)."""

    slots: dict[str, Slot]
    cells: dict[str, Any]
    defaults: tuple[Any, ...]
    kw_defaults: dict[str, Any]
    globals: dict[str, Any]


class Frame:
    """One activation: its variables, and the loops around the current statement."""

    __slots__ = ("t", "code", "slots", "globals", "loops", "hidden", "trusted")

    def __init__(self, t: Trace, code: Code, slots: dict[str, Slot], globals: dict[str, Any]) -> None:
        self.t, self.code, self.slots, self.globals = t, code, slots, globals
        self.loops: list[Loop] = []
        self.hidden: list[Slot] = []                 # values that loops iterate over: live, but without a name
        self.trusted = trusted(globals.get("__name__"))                  # its captured state is trusted never to change

    def roots(self, live: Names) -> list[Obj]:
        """The objects that are reachable after a join at which these names are live."""
        slots = self.slots
        named: list[Obj] = [slots[n] for n in sorted(live | self.code.cells) if n in slots]
        return named + self.hidden + self.t.pinned


@dataclass(eq=False)
class Code:
    """The code of a function as hooks."""

    name: str
    args: ast.arguments
    body: Hook
    locals: Names
    free: Names
    cells: Names
    defaults: list[Hook]
    kw_defaults: list[Hook | None]
    loc: Loc
    rebound: Names = frozenset()                     # captured variables that may be assigned later
    in_range: bool = False                           # by construction (``arrays.library.marks``)

    def frame(self, t: Trace, fn: Captures, bound: dict[str, Any]) -> Frame:
        """A frame with bound parameters."""
        slots = dict(fn.slots)
        for name, cell in fn.cells.items():
            slots[name] = Slot(name)
            value = t.cell_value(fn.globals, cell)
            if value is not MISSING:
                t.state[slots[name]] = value
        for name in self.free - slots.keys():
            slots[name] = Slot(name)
        for name in self.locals:
            slots[name] = Slot(name)
        for name, value in bound.items():
            t.state[slots[name]] = value
        return Frame(t, self, slots, fn.globals)

    def bind(self, t: Trace, fn: Captures, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter name, bound as in Python."""
        spec, rest = self.args, dict(kwargs)
        bound: dict[str, Any] = {}
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        bound.update(zip(names, args))
        if spec.vararg:
            bound[spec.vararg.arg] = tuple(args[len(names):])
        elif len(args) > len(names):
            takes = f"{len(names)} positional argument{'' if len(names) == 1 else 's'}"
            given = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
            raise TypeError(f"{self.name}() takes {takes} but {given}")
        allowed = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
        for key in [k for k in rest if k in allowed]:
            if key in bound:
                raise TypeError(f"{self.name}() got multiple values for argument '{key}'")
            bound[key] = rest.pop(key)
        if spec.kwarg:
            bound[spec.kwarg.arg] = t.new_dict(rest)
        elif rest:
            raise TypeError(f"{self.name}() got an unexpected keyword argument '{next(iter(rest))}'")
        if fn.defaults:
            for name, value in zip(names[-len(fn.defaults):], fn.defaults):
                bound.setdefault(name, value)
        for name, value in fn.kw_defaults.items():
            bound.setdefault(name, value)
        missing = [n for n in parameters(spec) if n not in bound]
        if missing:
            raise TypeError(f"{self.name}() missing required argument: '{missing[0]}'")
        return {n: bound[n] for n in parameters(spec)}


def parameters(args: ast.arguments) -> list[str]:
    """All parameter names, including ``*args`` and ``**kwargs``."""
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return names + [a.arg for a in (args.vararg, args.kwarg) if a is not None]
