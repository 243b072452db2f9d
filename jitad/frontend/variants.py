"""Which variants a choice has where paths meet, and which of them are possible on a path (see ``choice``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.types import Array, Scalar
from . import lattice
from .closures import Fn
from .lattice import UNBOUND, is_scalar, is_structure, same
from .values import ArrayRef, Choice, Instance, ListObj, Obj, Sym

# In a state: tag → the variants that it may stand for on this path; reference → the classes of its node (``records``),
# a tuple → what has been read or computed, once for all.
FACTS = Obj()
MOST = 24                       # variants of one value
LENGTHS = 4                     # tuples of so many lengths that a loop may give a variable
Facts = dict[Any, Any]


def possible(c: Choice, state: dict[Obj, Any]) -> frozenset[int]:
    """The variants that the choice may be on a path that ends in this state."""
    facts: Facts = state.get(FACTS, {})
    known: frozenset[int] | None = facts.get(c.tag.value)
    return known if known is not None else frozenset(range(len(c.variants)))


def narrowed(v: Any, state: dict[Obj, Any]) -> Any:
    """The value, or the only variant that a choice can be."""
    while type(v) is Choice and len(left := possible(v, state)) == 1:
        v = v.variants[min(left)]
    return v


def reaches(state: dict[Obj, Any], obj: Obj) -> bool:
    """Whether anything in a state refers to the object, but for variants that are not there."""
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
    """What holds of tags where these paths meet."""
    first, *rest = (s.get(FACTS, {}) for s in states)
    return {key: known.union(*(other[key] for other in rest)) if isinstance(known, frozenset) else known
            for key, known in first.items()
            if all(key in other and (isinstance(known, frozenset) or other[key] is known) for other in rest)}


class Constant:
    """A kind of its own: a value known while tracing."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Constant and same(self.value, other.value)

    __hash__ = None                                  # type: ignore[assignment]


def kind(state: dict[Obj, Any], v: Any, in_loop: bool) -> Any:
    """What must be equal for two values to have a common type.

    Lists of different lengths have one where a loop meets its entry: their contents are a conflict, or they would
    grow with every iteration.
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
    """Whether parts of different kinds become choices within the structure: of tuples, and what functions captured.

    A method and its object, or what ``zip`` walks, go together.
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
    """The variants of a merged value: what each edge brings for them.

    ``places[e]``: (variant on edge ``e``, variant of the result); two variants of one edge never become one.
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


def renumbered(t: Any, c: Any, places: Sequence[tuple[int, int]]) -> Any:
    """The tag of a value under the numbers of another choice; emitted where ``t`` stands."""
    if type(c) is not Choice or len(places) == 1:
        return places[0][1]
    if all(i == place for i, place in places):
        return c.tag
    b, tag = t.builder, c.tag.value
    value = b.const(places[-1][1])
    for i, place in places[:-1]:
        value = b.select(b.eq(tag, i), b.const(place), value)
    return Sym(value, True)
