"""The check that the back edge of a loop fits its header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir.types import Array, join
from ..trees import references
from ..values import lattice
from ..values.growing import Growing
from ..values.lattice import UNBOUND, is_scalar, is_structure, same
from ..values.protocol import Trace
from ..values.union_merge import FACTS, narrowed, possible, renumbered
from ..values.values import ArrayObj, ArrayRef, Choice, Conflict, Edge, Instance, Maybe, Obj, Slot, State, Sym
from .path_merge import Merger, same_steps


class Matcher:
    """Compares a back edge with the header state and collects the arguments of the back edge."""

    def __init__(self, t: Trace, header: Merger, state: State, edge: Edge) -> None:
        self.t, self.header, self.state, self.edge = t, header, state, edge
        self.args: list[Any] = [UNBOUND] * len(header.types)
        self._there: dict[Obj, Obj] = {}
        self._back: dict[Obj, Obj] = {}
        self._frozen: list[tuple[Obj, Obj]] = []

    def run(self, roots: Iterable[Obj]) -> bool:
        """True if the edge fits; then ``args`` are its arguments."""
        fits = all(self._obj(root, root) for root in roots
                   if root is not FACTS and (root in self.header.state or root in self.edge.state))
        return fits and all(self._alias_known(frozen, obj) for frozen, obj in self._frozen)

    def _alias_known(self, frozen: Obj, obj: Obj) -> bool:
        """True if a frozen stand-in lists each live object that it may be the same as."""
        for o in (obj, *(o for o, _ in obj.maybe)):
            twin = self._back.get(o)
            if twin is None or twin is frozen or twin.readonly:
                continue
            if all(k is not twin for k, _ in frozen.maybe):
                return False
        return True

    def _value(self, h: Any, b: Any) -> bool:
        if isinstance(h, Conflict):
            return True
        if h is UNBOUND or b is UNBOUND or isinstance(b, Maybe) or isinstance(h, Maybe):
            return self._maybe(h, b)
        if isinstance(b, Conflict):
            return False
        if type(h) is Choice:
            return self._choice(h, b)
        b = narrowed(b, self.edge.state)
        if type(h) is Sym and h.value in self.header.params:
            return self._param(h, b)
        if isinstance(h, ArrayRef):
            return isinstance(b, ArrayRef) and self._ref(h, b)
        if isinstance(h, Obj):
            return self._obj(h, b)
        if is_structure(h):
            b = references.alike((h, b))[1]
            return (is_structure(b) and lattice.static_of(h) == lattice.static_of(b)
                    and self._fits_all(lattice.parts(h), lattice.parts(b)))
        return same(h, b)

    def _choice(self, h: Choice, b: Any) -> bool:
        """True if each variant of the edge's value fits a different variant of the header's."""
        if type(b) is Choice and b.tag.value is h.tag.value:
            return self._fits_all(h.parts(), b.parts())
        brought = [(i, b.variants[i]) for i in sorted(possible(b, self.edge.state))] if type(b) is Choice else [(0, b)]
        places: list[tuple[int, int]] = []
        for i, variant in brought:
            free = (k for k in range(len(h.variants)) if all(k != place for _, place in places))
            place = next((k for k in free if self._try(h.variants[k], variant)), None)
            if place is None:
                return False
            places.append((i, place))
        with self.t.on(self.edge):
            tag = renumbered(self.t, b, places)
        return self._value(h.tag, tag)

    def _fits_all(self, hs: Iterable[Any], bs: Iterable[Any]) -> bool:
        return all(map(self._value, hs, bs))

    def _try(self, h: Any, b: Any) -> bool:
        """True if the two fit; otherwise leaves no side effects."""
        kept = list(self.args), dict(self._there), dict(self._back), list(self._frozen)
        if self._value(h, b):
            return True
        self.args, self._there, self._back, self._frozen = kept
        return False

    def _maybe(self, h: Any, b: Any) -> bool:
        if h is UNBOUND or not isinstance(h, Maybe):
            return h is b
        if b is UNBOUND:
            return self._value(h.flag, False)
        if isinstance(b, Maybe):
            return self._value(h.flag, b.flag) and self._value(h.value, b.value)
        return self._value(h.flag, True) and self._value(h.value, b)

    def _param(self, h: Sym, b: Any) -> bool:
        if isinstance(h.type, Array):
            if type(b) is not Sym or join(h.type, b.type) != h.type:
                return False
        elif not is_scalar(b) or lattice.join_scalars([h, b], True) != (h.type, h.weak):
            return False
        self.args[self.header.params[h.value]] = b
        return True

    def _ref(self, h: ArrayRef, b: ArrayRef) -> bool:
        if h.obj.readonly and h.obj in self.header.new and not h.steps:
            self._frozen.append((h.obj, b.obj))
            with self.t.on(self.edge):
                return self._value(self.state[h.obj], self.t.read(b))
        if not same_steps(h, b):
            return False
        return self._obj(h.obj, b.obj)

    def _obj(self, h: Obj, b: Any) -> bool:
        if h in self._there:
            return self._there[h] is b
        if type(h) is not type(b) or b in self._back or (h not in self.header.new and h is not b):
            return False
        if isinstance(h, Instance) and h.cls is not b.cls or isinstance(h, ArrayObj) and b.scattered > h.scattered:
            return False
        if h is not b and (h.readonly or b.readonly or b.maybe):
            if not h.readonly:
                return False
            self._frozen.append((h, b))
        self._there[h], self._back[b] = b, h
        x, y = self.state.get(h, UNBOUND), self.edge.state.get(b, UNBOUND)
        if isinstance(h, (Slot, ArrayObj)) or isinstance(x, Conflict):
            return self._value(x, y)
        if isinstance(y, Conflict) or x is UNBOUND or y is UNBOUND:
            return x is y
        if type(x) is Growing or type(y) is Growing:
            return type(x) is type(y) and x.kind is y.kind and self._fits_all(x.parts(), y.parts())
        if isinstance(x, tuple):
            return len(x) == len(y) and all(map(self._value, x, y))
        return list(x) == list(y) and all(map(self._value, x.values(), y.values()))
