"""Detection of functions that capture others of the same code without a static bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..values import lattice
from ..values.closures import Fn
from ..values.protocol import Trace
from ..values.values import Choice, Instance, ListObj, Maybe, Obj, Operators, Slot

DEPTH = 3                       # this many nested functions of one code are taken as nesting without bound


def depth(t: Trace) -> int:
    """The nesting depth that is taken as unbounded; nested rules end by themselves, so each one adds a level."""
    return DEPTH + len(t.session.inside_rules)


def check(t: Trace, state: dict[Obj, Any], values: Iterable[Any]) -> None:
    """Restarts the trace with boxed functions (``boxed_closures``) if functions in ``values`` nest without bound."""
    for v in values:
        if nested(state, v, depth(t)) is not None:
            t.box_functions(functions(state, v, set()))


def functions(state: dict[Obj, Any], v: Any, seen: set[Any]) -> Iterator[Any]:
    """All functions in a value, including those that they capture."""
    if isinstance(v, Obj):
        if v in seen:
            return
        seen.add(v)
    if isinstance(v, Fn) or (callable(v) and not isinstance(v, (type, Operators))):
        yield v
    for x in _within(state, v):
        yield from functions(state, x, seen)


def nested(state: dict[Obj, Any], v: Any, most: int) -> Fn | None:
    """The outermost of ``most`` functions of one code that capture one another, or None."""
    return _search(state, v, {}, set(), most)


def _search(state: dict[Obj, Any], v: Any, around: dict[Any, int], inside: set[Any], most: int) -> Fn | None:
    """``around``: the number of enclosing functions of each code; ``inside``: the enclosing objects."""
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
