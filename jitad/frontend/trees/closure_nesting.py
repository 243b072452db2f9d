"""Functions that capture others of their own kind, as many as a program makes at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..values import lattice
from ..values.closures import Fn
from ..values.protocol import Trace
from ..values.values import Choice, Instance, ListObj, Maybe, Obj, Operators, Slot

DEPTH = 3                       # so many functions of one code inside each other are taken for a sign of more to come


def depth(t: Trace) -> int:
    """How deep functions are nested that are taken for nested without bound: rules within rules end by themselves."""
    return DEPTH + len(t.session.inside_rules)


def check(t: Trace, state: dict[Obj, Any], values: Iterable[Any]) -> None:
    """Begin anew with functions as data in memory (``boxes``) if those in here are nested without bound."""
    for v in values:
        if nested(state, v, depth(t)) is not None:
            t.box_functions(functions(state, v, set()))


def functions(state: dict[Obj, Any], v: Any, seen: set[Any]) -> Iterator[Any]:
    """All functions in a value, those that they capture included."""
    if isinstance(v, Obj):
        if v in seen:
            return
        seen.add(v)
    if isinstance(v, Fn) or (callable(v) and not isinstance(v, (type, Operators))):
        yield v
    for x in _within(state, v):
        yield from functions(state, x, seen)


def nested(state: dict[Obj, Any], v: Any, most: int) -> Fn | None:
    """A function that captures one of its own code, which captures another, …, ``most`` of them: the outermost."""
    return _search(state, v, {}, set(), most)


def _search(state: dict[Obj, Any], v: Any, around: dict[Any, int], inside: set[Any], most: int) -> Fn | None:
    """``around``: how often each code occurs around this value; ``inside``: the objects that we are in."""
    if isinstance(v, Obj):
        if v in inside:
            return None
        inside = inside | {v}
    if isinstance(v, Fn):
        deep = around.get(v.code, 0) + 1
        if deep >= most:
            return v
        around = {**around, v.code: deep}
    for x in _within(state, v):
        found = _search(state, x, around, inside, most)
        if found is not None:
            return found
    return None


def _within(state: dict[Obj, Any], v: Any) -> Iterable[Any]:
    if isinstance(v, Maybe):
        return (v.value,)
    if isinstance(v, Slot):
        return (state.get(v),)
    if isinstance(v, ListObj):
        content = state.get(v)
        return content if isinstance(content, tuple) else ()
    if isinstance(v, Instance):
        content = state.get(v)
        return tuple(content.values()) if isinstance(content, dict) else ()
    if isinstance(v, Choice):
        return v.variants
    return lattice.parts(v) if lattice.is_structure(v) else ()
