"""The trace state where paths meet.

All that can change while tracing is one map from objects (local variables, arrays, lists, …) to their
contents.  A path that ends at a join leaves an ``Edge``: its last block and its state.

``Merger``   one state for several edges: what differs becomes a parameter of the joined block
``match``    whether a loop's back edge fits the parameters of its header, and the arguments it passes

*Aliasing.*  Where one variable holds array A on one path and B on the other, the merged variable is a
new array object standing for the pair.  If another live variable still holds A, it may or may not be that
array: such a stand-in is marked ``readonly`` and remembers what it may be the same as (``maybe``), so that a
write through it is refused, and so is a read after one of the others has been written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.graph import Block, Value
from ..ir.types import Array, Type, join
from . import lattice
from .lattice import UNBOUND, describe, is_scalar, is_structure, same
from .values import ArrayObj, ArrayRef, Conflict, DictObj, Instance, ListObj, Maybe, Obj, Slot, Sym

State = dict[Obj, Any]
STALE = object()                # what no object holds: in `maybe`, the stand-in may not be read any more
AMBIGUOUS = "it may be one of several arrays here, depending on the path taken"


@dataclass(eq=False, slots=True)
class Edge:
    """The end of a path: where it stands and what it knows."""

    block: Block
    state: State


class Merger:
    """Merges the states of several edges into parameters of ``block``.

    ``args[e]`` are edge ``e``'s arguments, user values still to be converted to ``types``.
    """

    def __init__(self, t: Any, block: Block, edges: Sequence[Edge]) -> None:
        self.t, self.block, self.edges = t, block, edges
        self.args: list[list[Any]] = [[] for _ in edges]
        self.types: list[Type] = []
        self.params: dict[Value, int] = {}
        self.state: State = {}
        self._merged: dict[tuple[Any, ...], Obj] = {}
        self._stands_for: list[dict[Obj, list[Obj]]] = [{} for _ in edges]
        self.new: dict[Obj, list[tuple[int, Obj]]] = {}      # objects made here: the edges and objects they stand for

    def run(self, roots: Iterable[Obj] | None) -> State:
        """Merge what can be reached from ``roots`` (``None``: everything), keep what no path changed."""
        n = len(self.edges)
        if roots is None:
            roots = dict.fromkeys(k for e in self.edges for k in e.state)
        for root in roots:
            if any(root in e.state for e in self.edges):
                self._obj((root,) * n, getattr(root, "name", ""))
        first, rest = self.edges[0].state, [e.state for e in self.edges[1:]]
        for key, content in first.items():
            if key not in self.state and all(same(s.get(key, UNBOUND), content) for s in rest):
                self.state[key] = content
        self._mark_ambiguous()
        return {k: v for k, v in self.state.items() if v is not UNBOUND}

    def jump(self) -> None:
        """End every edge with a jump to the block."""
        for edge, args in zip(self.edges, self.args):
            with self.t.on(edge):
                values = [self.t.convert(a, ty) for a, ty in zip(args, self.types)]
                self.t.builder.jump(self.block, values)

    # --- values -----------------------------------------------------------------------------------

    def _merge(self, vals: Sequence[Any], hint: str) -> Any:
        for v in vals:
            if isinstance(v, Conflict):
                return v
        if all(v is UNBOUND for v in vals):
            return UNBOUND
        if not any(v is UNBOUND or isinstance(v, Maybe) for v in vals):
            return self._bound(vals, hint)
        value = self._bound([v.value if isinstance(v, Maybe) else v for v in vals], hint)
        if isinstance(value, Conflict):
            return value
        flags = [v is not UNBOUND if not isinstance(v, Maybe) else v.flag for v in vals]
        return Maybe(value, self._bound(flags, hint and f"{hint}_bound"))

    def _bound(self, vals: Sequence[Any], hint: str) -> Any:
        """Merge values; ``UNBOUND`` among them is a path on which nothing looks at the result."""
        some = [v for v in vals if v is not UNBOUND]
        first = some[0]
        if all(is_scalar(v) for v in some):
            constant = type(first) is not Sym or len(some) == len(vals)
            if constant and all(same(v, first) for v in some):
                return first
            t, weak = lattice.join_scalars(some)
            return self._param(t, weak, vals, hint)
        if all(isinstance(v, ArrayRef) for v in some):
            return self._array(vals, some, hint)
        if all(type(v) is type(first) for v in some):
            if isinstance(first, Obj):
                return self._obj(tuple(vals), hint)
            if is_structure(first) and all(lattice.static_of(v) == lattice.static_of(first) for v in some):
                columns = zip(*(lattice.parts(v) if v is not UNBOUND else (UNBOUND,) * len(lattice.parts(first))
                                for v in vals))
                new = tuple(self._bound(list(c), hint) for c in columns)
                bad = next((v for v in new if isinstance(v, Conflict)), None)
                return bad or lattice.rebuild(first, new)
            if all(same(v, first) for v in some):
                return first
        return Conflict(" or ".join(dict.fromkeys(describe(v) for v in some)) + ", depending on the path taken")

    def _param(self, type: Type, weak: bool, vals: Sequence[Any], hint: str) -> Sym:
        value = self.block.add_param(type, hint)
        self.params[value] = len(self.types)
        self.types.append(type)
        for args, v in zip(self.args, vals):
            args.append(v)
        return Sym(value, weak)

    def _array(self, vals: Sequence[Any], some: Sequence[ArrayRef], hint: str) -> Any:
        first = some[0]
        whole = len(some) == len(vals) or not first.steps
        alike = whole and all(_same_steps(v, first) for v in some)
        if alike and (not first.steps or all(v.obj is first.obj for v in some)):
            obj = self._obj(tuple(v if v is UNBOUND else v.obj for v in vals), hint)
            if isinstance(obj, Conflict):
                return obj
            return first if obj is first.obj else ArrayRef(obj, first.steps)
        out = ArrayObj(AMBIGUOUS)                       # views of different places
        self._represent(out, [v if v is UNBOUND else v.obj for v in vals])
        contents = []
        for edge, v in zip(self.edges, vals):
            with self.t.on(edge):
                contents.append(v if v is UNBOUND else self.t.read(v))
        content = self._content(ArrayObj, contents, hint)
        self.state[out] = content
        return content if isinstance(content, Conflict) else ArrayRef(out)

    # --- objects ----------------------------------------------------------------------------------

    def _obj(self, objs: tuple[Any, ...], hint: str) -> Any:
        """The object that stands for ``objs[e]`` on edge ``e``."""
        some = [o for o in objs if o is not UNBOUND]
        first = some[0]
        if all(o is first for o in some):
            objs = (first,) * len(objs)
        if objs in self._merged:
            return self._merged[objs]
        out = first if all(o is first for o in some) else self._stand_in(first)
        self._merged[objs] = out
        self._represent(out, objs)
        contents = [UNBOUND if o is UNBOUND else e.state.get(o, UNBOUND) for o, e in zip(objs, self.edges)]
        self.state[out] = UNBOUND
        content = self._merge(contents, hint) if isinstance(out, Slot) else self._content(type(out), contents, hint)
        self.state[out] = content
        if isinstance(content, Conflict) and isinstance(out, ArrayObj):
            return content
        return out

    def _stand_in(self, first: Any) -> Obj:
        if isinstance(first, Instance):
            return Instance(first.cls)
        return Slot(first.name) if isinstance(first, Slot) else type(first)()

    def _represent(self, out: Obj, objs: Sequence[Any]) -> None:
        """Note that ``out`` stands for ``objs[e]`` on edge ``e``."""
        sources = [(e, o) for e, o in enumerate(objs) if o is not UNBOUND]
        for e, o in sources:
            self._stands_for[e].setdefault(o, []).append(out)
        if any(o is not out for _, o in sources):
            self.new[out] = sources

    def _content(self, cls: type, contents: Sequence[Any], hint: str) -> Any:
        some = [c for c in contents if c is not UNBOUND]
        for c in some:
            if isinstance(c, Conflict):
                return c
        if not some:
            return UNBOUND
        first = some[0]
        merge = self._merge if len(some) == len(contents) else self._bound
        if cls is ArrayObj:
            if len(some) == len(contents) and all(c.value is first.value for c in some):
                return first
            t: Type | None = first.type
            for c in some[1:]:
                t = join(t, c.type) if t is not None else None
            if t is None:
                kinds = " or ".join(dict.fromkeys(str(c.type) for c in some))
                return Conflict(f"an array {kinds}, depending on the path taken")
            return self._param(t, False, contents, hint)
        if cls is ListObj:
            if any(len(c) != len(first) for c in some):
                lengths = " or ".join(dict.fromkeys(str(len(c)) for c in some))
                return Conflict(f"a list of length {lengths}, depending on the path taken")
            rows = [(UNBOUND,) * len(first) if c is UNBOUND else c for c in contents]
            return tuple(merge(list(c), hint) for c in zip(*rows))
        if cls is DictObj and any(list(c) != list(first) for c in some):
            return Conflict("a dict with different keys, depending on the path taken")
        keys = dict.fromkeys(k for c in some for k in c)
        return {k: merge([UNBOUND if c is UNBOUND else c.get(k, UNBOUND) for c in contents], str(k)) for k in keys}

    def _mark_ambiguous(self) -> None:
        """Freeze each new object that may be the same as another live one."""
        for out, sources in self.new.items():
            if isinstance(out, Slot):
                continue
            others: dict[Obj, None] = {}
            stale = False
            for e, o in sources:
                others.update(dict.fromkeys(self._stands_for[e][o]))
                out.readonly = out.readonly or o.readonly
                for other, then in o.maybe:
                    stale = stale or self.edges[e].state.get(other, UNBOUND) is not then
                    others.update(dict.fromkeys(self._stands_for[e].get(other, ())))
            others.pop(out, None)
            if others or stale:
                out.readonly = out.readonly or AMBIGUOUS
                out.maybe = tuple((o, STALE if stale else self.state.get(o, UNBOUND)) for o in others or {out: None})


def _same_steps(a: ArrayRef, b: ArrayRef) -> bool:
    return len(a.steps) == len(b.steps) and all(x is y for x, y in zip(a.steps, b.steps))


class Matcher:
    """Compares a back edge with the header state and collects the header's arguments."""

    def __init__(self, t: Any, header: Merger, state: State, edge: Edge) -> None:
        self.t, self.header, self.state, self.edge = t, header, state, edge
        self.args: list[Any] = [UNBOUND] * len(header.types)
        self._there: dict[Obj, Obj] = {}
        self._back: dict[Obj, Obj] = {}
        self._frozen: list[tuple[Obj, Obj]] = []

    def run(self, roots: Iterable[Obj]) -> bool:
        """Whether the edge fits; if so ``args`` are its arguments."""
        fits = all(self._obj(root, root) for root in roots if root in self.header.state or root in self.edge.state)
        return fits and all(self._alias_known(frozen, obj) for frozen, obj in self._frozen)

    def _alias_known(self, frozen: Obj, obj: Obj) -> bool:
        """Whether a frozen stand-in knows each live object that it would be the same as."""
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
        if type(h) is Sym and h.value in self.header.params:
            return self._param(h, b)
        if isinstance(h, ArrayRef):
            return isinstance(b, ArrayRef) and self._ref(h, b)
        if isinstance(h, Obj):
            return self._obj(h, b)
        if is_structure(h):
            return (is_structure(b) and lattice.static_of(h) == lattice.static_of(b)
                    and all(map(self._value, lattice.parts(h), lattice.parts(b))))
        return same(h, b)

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
        elif not is_scalar(b) or lattice.join_scalars([h, b]) != (h.type, h.weak):
            return False
        self.args[self.header.params[h.value]] = b
        return True

    def _ref(self, h: ArrayRef, b: ArrayRef) -> bool:
        if h.obj.readonly and h.obj in self.header.new and not h.steps:
            self._frozen.append((h.obj, b.obj))
            with self.t.on(self.edge):
                return self._value(self.state[h.obj], self.t.read(b))
        if not _same_steps(h, b):
            return False
        return self._obj(h.obj, b.obj)

    def _obj(self, h: Obj, b: Any) -> bool:
        if h in self._there:
            return self._there[h] is b
        if type(h) is not type(b) or b in self._back or (h not in self.header.new and h is not b):
            return False
        if isinstance(h, Instance) and h.cls is not b.cls:
            return False
        if h is not b and (h.readonly or b.readonly or b.maybe) and not isinstance(h, Slot):
            if not h.readonly:
                return False
            self._frozen.append((h, b))
        self._there[h], self._back[b] = b, h
        x, y = self.state.get(h, UNBOUND), self.edge.state.get(b, UNBOUND)
        if isinstance(h, (Slot, ArrayObj)) or isinstance(x, Conflict):
            return self._value(x, y)
        if isinstance(y, Conflict) or x is UNBOUND or y is UNBOUND:
            return x is y
        if isinstance(x, tuple):
            return len(x) == len(y) and all(map(self._value, x, y))
        return list(x) == list(y) and all(map(self._value, x.values(), y.values()))
