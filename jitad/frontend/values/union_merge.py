"""Variants of a union at a join, and those possible on a path (see ``unions``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.types import Array, Scalar
from . import lattice
from .closures import Fn
from .lattice import UNBOUND, is_scalar, is_structure, same
from .protocol import Trace
from .values import ArrayRef, Choice, Instance, ListObj, Obj, Sym

# The key of the facts in a state.  They map a tag to its possible variants on this path, a reference to the possible
# classes of its node (``references``), and a tuple to a value that has been read or computed once.
FACTS = Obj()
MOST = 24                       # limit on the variants of one value
LENGTHS = 4                     # limit on the tuple lengths of a variable at a loop header
Facts = dict[Any, Any]


def possible(c: Choice, state: dict[Obj, Any]) -> frozenset[int]:
    """The possible variants of a union on a path that ends in this state."""
    facts: Facts = state.get(FACTS, {})
    known: frozenset[int] | None = facts.get(c.tag.value)
    return known if known is not None else frozenset(range(len(c.variants)))


def narrowed(v: Any, state: dict[Obj, Any]) -> Any:
    """The value, or the only possible variant of a union."""
    while type(v) is Choice and len(left := possible(v, state)) == 1:
        v = v.variants[min(left)]
    return v


def reaches(state: dict[Obj, Any], obj: Obj) -> bool:
    """True if anything in a state refers to the object, not counting absent variants."""
    def refers(v: Any) -> bool:
        v = narrowed(v, state)
        if isinstance(v, Obj):
            return v is obj
        if isinstance(v, ArrayRef):
            return v.obj is obj
        if type(v) is Choice:
            return any(refers(v.variants[i]) for i in possible(v, state))
        if isinstance(v, dict):
            return any(map(refers, v.values()))
        return is_structure(v) and any(map(refers, lattice.parts(v)))
    return any(refers(v) for k, v in state.items() if k is not FACTS)


def either(states: Sequence[dict[Obj, Any]]) -> Facts:
    """The facts that hold on all of these paths."""
    first, *rest = (s.get(FACTS, {}) for s in states)
    return {key: known.union(*(other[key] for other in rest)) if isinstance(known, frozenset) else known
            for key, known in first.items()
            if all(key in other and (isinstance(known, frozenset) or other[key] is known) for other in rest)}


class Constant:
    """The kind of a value that is known while tracing: two are equal if the values are the same."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Constant and same(self.value, other.value)

    __hash__ = None                                  # type: ignore[assignment]


def kind(state: dict[Obj, Any], v: Any, in_loop: bool) -> Any:
    """A key that is equal for two values with a common type.

    At a loop header, lists of different lengths have equal keys.  So their contents become a conflict instead of
    variants, whose number would grow with every iteration.
    """
    if is_scalar(v):
        t = lattice.scalar_type(v)[0]
        return ("number", t) if isinstance(t, Scalar) and t.is_narrow else "number"
    if isinstance(v, ArrayRef):
        return _array_kind(state, v)
    if isinstance(v, Instance):
        return (Instance, v.cls)
    if isinstance(v, Obj):
        content = state.get(v)
        if in_loop or not isinstance(content, (tuple, dict)):
            return (type(v), None)
        return (type(v), len(content) if isinstance(v, ListObj) else tuple(content))
    if is_structure(v):
        whole = merges_by_parts(v)
        return (lattice.static_of(v), *(() if whole else [kind(state, x, in_loop) for x in lattice.parts(v)]))
    return Constant(v)


def merges_by_parts(v: Any) -> bool:
    """True if parts of different kinds become unions within the structure: for tuples and captured variables.

    In other structures, such as a method with its object or the operands of ``zip``, the parts vary together.
    """
    return isinstance(v, (tuple, Fn))


def _array_kind(state: dict[Obj, Any], v: ArrayRef) -> Any:
    content = state.get(v.obj)
    if not isinstance(content, Sym):
        return (ArrayRef, None)
    shown = v.cache[1].type if v.steps and v.cache is not None else content.type
    assert isinstance(shown, Array)
    if v.steps and v.cache is None:
        return (ArrayRef, shown.dtype, (False,) * v.steps[-1].rank)
    return (ArrayRef, shown.dtype, tuple(d == 1 for d in shown.dims))


class Alternatives:
    """The variants of a merged value, and the values of each edge for them.

    ``places[e]``: (variant on edge ``e``, variant of the result); two variants of one edge are never merged.
    """

    def __init__(self, edges: Sequence[Any], vals: Sequence[Any], in_loop: bool) -> None:
        self.count = len(vals)
        self.kinds: list[Any] = []
        self.places: list[list[tuple[int, int]]] = []
        self.columns: list[list[Any]] = []
        for e, (edge, v) in enumerate(zip(edges, vals)):
            self.places.append([])
            if v is UNBOUND:
                continue
            brought = [(i, v.variants[i]) for i in sorted(possible(v, edge.state))] if type(v) is Choice else [(0, v)]
            for i, variant in brought:
                place = self._place(e, kind(edge.state, variant, in_loop))
                self.places[e].append((i, place))
                self.columns[place][e] = variant

    def _place(self, e: int, k: Any) -> int:
        taken = {place for _, place in self.places[e]}
        for place, known in enumerate(self.kinds):
            if known == k and place not in taken:
                return place
        self.kinds.append(k)
        self.columns.append([UNBOUND] * self.count)
        return len(self.kinds) - 1


def renumbered(t: Trace, c: Any, places: Sequence[tuple[int, int]]) -> Any:
    """The tag of a value renumbered for another union; emitted at the current position of ``t``."""
    if type(c) is not Choice or len(places) == 1:
        return places[0][1]
    if all(i == place for i, place in places):
        return c.tag
    b, tag = t.builder, c.tag.value
    value = b.const(places[-1][1])
    for i, place in places[:-1]:
        value = b.select(b.eq(tag, i), b.const(place), value)
    return Sym(value, True)
