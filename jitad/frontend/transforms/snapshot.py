"""Snapshot of a function: a copy with copies of the captured variables and their contents.

Functions capture variables, not values, so a later call sees later assignments.  ``linearize`` needs the derivative at
the moment of its call.
"""

from __future__ import annotations

from typing import Any

from ..values.lattice import is_structure, parts, rebuild
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, Instance, ListObj, Obj, Slot, Store, Sym

KEPT = "linearize keeps it"


def as_now(t: Trace, v: Any) -> Any:
    """A copy of a value, which later assignments and changes do not affect."""
    return _copy(t, v, {})


def _copy(t: Trace, v: Any, made: dict[Obj, Any]) -> Any:
    """Copies ``v``; ``made`` maps objects to the copies so far, so that cycles are copied once."""
    if isinstance(v, ArrayRef):
        if v.obj.readonly == KEPT and not v.steps:           # already a copy
            return v
        return t.new_array(Sym(t.builder.copy(t.read(v).value)), KEPT)
    if isinstance(v, Store) and v.readonly:
        return v
    if isinstance(v, (Slot, ListObj, DictObj, Instance)):
        if v not in made:
            made[v] = _empty(t, v)
            if v in t.state:
                t.state[made[v]] = _contents(t, v, made)
        return made[v]
    return rebuild(v, tuple([_copy(t, x, made) for x in parts(v)])) if is_structure(v) else v


def _empty(t: Trace, v: Obj) -> Any:
    if isinstance(v, Slot):
        return Slot(v.name, bound=v in t.state)
    if isinstance(v, Instance):
        return type(v)(v.cls)
    return t.new_list([]) if isinstance(v, ListObj) else t.new_dict({})


def _contents(t: Trace, v: Obj, made: dict[Obj, Any]) -> Any:
    content = t.state[v]
    if isinstance(v, ListObj):
        return tuple([_copy(t, x, made) for x in content])
    if isinstance(v, (DictObj, Instance)):
        return {k: _copy(t, x, made) for k, x in content.items()}
    return _copy(t, content, made)
