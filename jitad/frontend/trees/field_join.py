"""Kinds of field values and their joins.

The layout of a heap is initialised from the annotations, and from the arguments if they contain trees.  The values that
a program stores may need wider kinds: an int where ``None`` may be, a float, a node of another class.
"""

from __future__ import annotations

from typing import Any

from ...ir.types import Array
from ..columns.layouts import Block, Kind, Nothing, Number, Parts, Perhaps, Ref, Refs, Text
from ..values import lattice
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Instance, ListObj
from .references import NodeList, Reference, TextOf, possible


def kind_of(t: Trace, v: Any) -> Kind | None:
    """The kind of a value; None if nodes cannot hold it."""
    if v is None:
        return Nothing()
    if isinstance(v, Reference):
        return Ref(possible(t, v))
    if lattice.is_scalar(v):
        dtype, weak = lattice.scalar_type(v)
        return Number(dtype, bool(weak))
    if isinstance(v, (str, TextOf)):
        return Text()
    if isinstance(v, ArrayRef):
        shown = t.read(v).type
        assert isinstance(shown, Array)
        return Block(shown.dtype, shown.rank)
    if isinstance(v, NodeList):
        return Refs(v.classes)
    if isinstance(v, ListObj):
        return _list_kind(t, t.contents(v))
    if isinstance(v, Choice):
        return _all(kind_of(t, x) for x in v.variants)
    if isinstance(v, tuple):
        names = getattr(v, "_fields", None)
        return _parts(t, type(v), names, v)
    if isinstance(v, Instance):
        content = t.contents(v)
        return _parts(t, v.cls, tuple(content), tuple(content.values()))
    return None


def _parts(t: Trace, cls: type, names: tuple[str, ...] | None, values: tuple[Any, ...]) -> Kind | None:
    kinds = [kind_of(t, x) for x in values]
    return None if any(k is None for k in kinds) else Parts(cls, names, tuple(k for k in kinds if k is not None))


def _list_kind(t: Trace, items: tuple[Any, ...]) -> Kind | None:
    found: frozenset[int] = frozenset()
    for x in items:
        kind = kind_of(t, x)
        if kind == Nothing():
            kind = Ref(frozenset([-1]))
        if not isinstance(kind, Ref):
            return None
        found |= kind.classes
    return Refs(found)


def _all(kinds: Any) -> Kind | None:
    first, *rest = kinds
    for k in rest:
        first = None if first is None or k is None else wider(first, k)
    result: Kind | None = first
    return result


def wider(a: Kind, b: Kind) -> Kind | None:
    """The join of two kinds; None if there is none."""
    if a == b or b.unknown:
        return a
    if a.unknown:
        return b
    if isinstance(a, Nothing) or isinstance(b, Nothing):
        return _with_none(b if isinstance(a, Nothing) else a)
    if isinstance(a, Perhaps) or isinstance(b, Perhaps):
        inner = wider(a.inner if isinstance(a, Perhaps) else a, b.inner if isinstance(b, Perhaps) else b)
        return inner and _with_none(inner)
    match a, b:
        case Number(), Number():
            return _wider_number(a, b)
        case Ref(), Ref():
            return Ref(a.classes | b.classes)
        case Refs(), Refs():
            return Refs(a.classes | b.classes)
        case Parts(), Parts() if (a.cls, a.names, len(a.kinds)) == (b.cls, b.names, len(b.kinds)):
            kinds = [wider(x, y) for x, y in zip(a.kinds, b.kinds)]
            return None if any(k is None for k in kinds) else Parts(a.cls, a.names, tuple(k for k in kinds if k))
    return None


def _with_none(kind: Kind) -> Kind:
    if isinstance(kind, Ref):
        return Ref(kind.classes | {-1})
    return kind if isinstance(kind, (Perhaps, Nothing)) else Perhaps(kind)


def _wider_number(a: Number, b: Number) -> Number | None:
    """The join of two number kinds; a Python number adapts to a NumPy dtype."""
    weak = a.weak and b.weak
    if a.weak != b.weak and not (a.dtype.is_narrow or b.dtype.is_narrow):
        strong, other = (b, a) if a.weak else (a, b)
        if strong.dtype.is_float or not other.dtype.is_float:
            return strong
    found = lattice.promoted(a.dtype, b.dtype)
    return None if found is None else Number(found, weak)
