"""The merge of trace states at a join.

All mutable state of a trace is one map from objects (local variables, arrays, lists, …) to their contents.  A path that
ends at a join leaves an ``Edge``: its last block and its state.

``Merger`` makes one state from several edges: contents that differ become parameters of the joined block.  Values
without a common type become a union (``union_merge``).  ``loop_match`` checks that the back edge of a loop fits its
header.

*Aliasing.*  If a variable holds array A on one path and B on the other, the merged variable is a new array object that
represents the pair.  If another live variable still holds A, the two may or may not be the same array.  Such a stand-in
is marked ``readonly`` and records the objects that it may be the same as (``maybe``).  A write through it is refused,
and so is a read after one of those objects has been written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import is_, is_not
from typing import Any

from ...ir.graph import Block, Value
from ...ir.types import F64, Type, join
from ..objects import list_elements
from ..trees import references
from ..values import lattice
from ..values.growing import Growing
from ..values.lattice import UNBOUND, describe, is_scalar, is_structure, same
from ..values.protocol import Trace
from ..values.union_merge import (
    FACTS,
    LENGTHS,
    MOST,
    Alternatives,
    either,
    kind,
    merges_by_parts,
    narrowed,
    reaches,
    renumbered,
)
from ..values.values import (
    CONSTANT,
    ROW,
    SEVERAL,
    ArrayObj,
    ArrayRef,
    Choice,
    Conflict,
    DictObj,
    Edge,
    Instance,
    ListObj,
    Maybe,
    Obj,
    Slot,
    State,
    Sym,
    Weak,
)

STALE = object()                # equals no content: in `maybe`, it means that the stand-in must not be read any more
AMBIGUOUS = "it may be one of several arrays here, depending on the path taken"


class Merger:
    """Merges the states of several edges into parameters of ``block``.

    ``args[e]`` are the arguments of edge ``e``: user values that are still to be converted to ``types``.  ``in_loop``:
    the block is the header of a loop.
    """

    def __init__(self, t: Trace, block: Block, edges: Sequence[Edge], in_loop: bool = False) -> None:
        self.t, self.block, self.edges, self.in_loop = t, block, edges, in_loop
        self.args: list[list[Any]] = [[] for _ in edges]
        self.types: list[Type] = []
        self.params: dict[Value, int] = {}
        self.state: State = {}
        self._merged: dict[tuple[Any, ...], Obj] = {}
        self._stands_for: list[dict[Obj, list[Obj]]] = [{} for _ in edges]
        self.new: dict[Obj, list[tuple[int, Obj]]] = {}      # objects made here → (edge, object that it represents)

    def run(self, roots: Iterable[Obj] | None) -> State:
        """Merges the contents reachable from ``roots`` (None: all); keeps contents that no path has changed."""
        n = len(self.edges)
        if roots is None:
            roots = dict.fromkeys(k for e in self.edges for k in e.state)
        self.state[FACTS] = either([e.state for e in self.edges])
        first, *rest = states = [e.state for e in self.edges]
        for root in roots:
            if root is not FACTS and any(root in s for s in states):
                self._obj((root,) * n, getattr(root, "name", ""))
        left = dict(first)                                   # what no path has changed
        for key in self.state:
            left.pop(key, None)
        for s in rest:
            for key in changed(left, s):
                if not same(s.get(key, UNBOUND), left[key]):
                    del left[key]
        self.state.update(left)
        self._mark_ambiguous()
        found = dict(self.state)
        for key in list(compress(found, map(is_, found.values(), repeat(UNBOUND)))):
            del found[key]
        return found

    def jump(self) -> None:
        """Ends every edge with a jump to the block."""
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
        """Merges values; ``UNBOUND`` marks a path on which the result is not used."""
        vals = references.alike(vals)
        some = [v for v in vals if v is not UNBOUND]
        first = some[0]
        if any(type(v) is Choice for v in some):
            return self._choice(vals, some, hint)
        if all(is_scalar(v) for v in some):
            constant = type(first) is not Sym or len(some) == len(vals)
            if constant and all(same(v, first) for v in some):
                return first
            joined = lattice.join_scalars(some, self.in_loop)
            if joined is None:
                return self._kinds(vals, some, hint)
            new = self._param(*joined, vals, hint)
            if new.type is F64 and not new.weak and all(lattice.is_narrower(v, self.t.widened) for v in some):
                self.t.widened.add(new.value)
            return new
        if isinstance(first, Obj) and all(v is first for v in some):
            return self._obj(tuple(vals), hint)
        if all(isinstance(v, ArrayRef) for v in some) and self._one_kind(vals):
            return self._array(vals, some, hint)
        if is_structure(first) and all(
                is_structure(v) and lattice.static_of(v) == lattice.static_of(first) for v in some):
            if merges_by_parts(first) or self._one_kind(vals):
                return self._columns(vals, first, hint)
        if all(same(v, first) for v in some) and not isinstance(first, ArrayRef):
            return first
        return self._kinds(vals, some, hint)

    def _columns(self, vals: Sequence[Any], first: Any, hint: str) -> Any:
        """Merges structures part by part."""
        columns = zip(*(lattice.parts(v) if v is not UNBOUND else (UNBOUND,) * len(lattice.parts(first))
                        for v in vals))
        new = tuple(self._bound(list(c), hint) for c in columns)
        bad = next((v for v in new if isinstance(v, Conflict)), None)
        return bad or lattice.rebuild(first, new)

    def _choice(self, vals: Sequence[Any], some: Sequence[Any], hint: str) -> Any:
        """Merges values at least one of which is a union."""
        first = some[0]
        if all(type(v) is Choice and v.tag.value is first.tag.value for v in some) and \
                len({len(v.variants) for v in some}) == 1 and len(some) == len(vals):
            return self._columns(vals, first, hint)
        left = [v if v is UNBOUND else narrowed(v, e.state) for v, e in zip(vals, self.edges)]
        if any(type(v) is Choice for v in left):
            return self._kinds(left, [v for v in left if v is not UNBOUND], hint)
        return self._bound(left, hint)

    def _kinds(self, vals: Sequence[Any], some: Sequence[Any], hint: str) -> Any:
        """Merges values of several kinds: each kind becomes a variant of a union."""
        found = Alternatives(self.edges, vals, self.in_loop)
        lengths = {k for k in found.kinds if isinstance(k, tuple) and isinstance(k[0], tuple) and k[0][0] is tuple}
        if len(found.kinds) > MOST or (self.in_loop and len(lengths) > LENGTHS):
            return Conflict(" or ".join(dict.fromkeys(describe(v) for v in some)) + ", depending on the path taken")
        new = [self._kind(column, hint) for column in found.columns]
        bad = next((v for v in new if isinstance(v, Conflict)), None)
        if bad is not None or len(new) == 1:
            return bad or new[0]
        tags: list[Any] = []
        for edge, v, places in zip(self.edges, vals, found.places):
            with self.t.on(edge):
                tags.append(renumbered(self.t, v, places) if places else UNBOUND)
        tag = self._bound(tags, hint and f"{hint}_kind")
        return Choice(self.t.sym(tag), tuple(new))

    def _kind(self, vals: Sequence[Any], hint: str) -> Any:
        """Merges values of one kind."""
        some = [v for v in vals if v is not UNBOUND]
        if isinstance(some[0], ArrayRef):
            return self._array(vals, some, hint)
        if isinstance(some[0], Obj):
            return self._obj(tuple(vals), hint)
        return self._bound(vals, hint)

    def _param(self, type: Type, weak: Weak, vals: Sequence[Any], hint: str) -> Sym:
        value = self.block.add_param(type, hint)
        self.params[value] = len(self.types)
        self.types.append(type)
        for args, v in zip(self.args, vals):
            args.append(v)
        return Sym(value, weak)

    def _one_kind(self, vals: Sequence[Any]) -> bool:
        """True if the values have a common type."""
        kinds = [kind(e.state, v, self.in_loop) for e, v in zip(self.edges, vals) if v is not UNBOUND]
        return all(k == kinds[0] for k in kinds)

    def _array(self, vals: Sequence[Any], some: Sequence[ArrayRef], hint: str) -> Any:
        first = some[0]
        whole = len(some) == len(vals) or not first.steps
        alike = whole and all(same_steps(v, first) for v in some)
        if alike and (not first.steps or all(v.obj is first.obj for v in some)):
            obj = self._obj(tuple(v if v is UNBOUND else v.obj for v in vals), hint)
            if isinstance(obj, Conflict):
                return obj
            return first if obj is first.obj else ArrayRef(obj, first.steps)
        scattered = any(not all(s.is_element for s in v.steps) for v in some)
        out = ArrayObj(AMBIGUOUS, scattered)            # views of different places
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
        """The object that represents ``objs[e]`` on edge ``e``."""
        some = objs if _one(objs) else [o for o in objs if o is not UNBOUND]
        first, alike = some[0], some is objs or _one(some)
        if alike:
            objs = (first,) * len(objs)
        if objs in self._merged:
            return self._merged[objs]
        out = first if alike else self._stand_in(some)
        self._merged[objs] = out
        self._represent(out, objs)
        contents = [UNBOUND if o is UNBOUND else e.state.get(o, UNBOUND) for o, e in zip(objs, self.edges)]
        if alike and first.readonly is CONSTANT:                     # it also exists on paths that have not used it yet
            contents = [next((c for c in contents if c is not UNBOUND), UNBOUND)] * len(contents)
        if type(contents[0]) is Sym and _one(contents):              # the common case: no path has changed it
            self.state[out] = contents[0]
            return out
        if isinstance(out, (ListObj, DictObj)) and len({_shape(c) for c in contents if c is not UNBOUND}) > 1:
            contents = self._where_reached(out, objs, contents)
        self.state[out] = UNBOUND
        content = self._slot(out, contents, hint) if isinstance(out, Slot) else \
            self._content(type(out), contents, hint)
        self.state[out] = content
        if isinstance(content, Conflict) and isinstance(out, ArrayObj):
            return content
        return out

    def _where_reached(self, out: Obj, objs: Sequence[Any], contents: list[Any]) -> list[Any]:
        """The contents of a list or dict, with ``UNBOUND`` for paths on which only absent variants refer to it."""
        reached = [o is not UNBOUND and reaches(e.state, o) for o, e in zip(objs, self.edges)]
        if out in self.t.pinned or not any(reached):
            return contents
        return [c if there else UNBOUND for c, there in zip(contents, reached)]

    def _slot(self, out: Slot, contents: Sequence[Any], hint: str) -> Any:
        """The value of a variable, which may be unbound on some path."""
        some = [c for c in contents if c is not UNBOUND]
        if out.bound and some and not any(isinstance(c, (Maybe, Conflict)) for c in some):
            return self._bound(contents, hint)
        return self._merge(contents, hint)

    def _stand_in(self, objs: Sequence[Any]) -> Obj:
        first = objs[0]
        if isinstance(first, Instance):
            return type(first)(first.cls)
        return Slot(first.name, all(o.bound for o in objs)) if isinstance(first, Slot) else type(first)()

    def _represent(self, out: Obj, objs: Sequence[Any]) -> None:
        """Records that ``out`` represents ``objs[e]`` on edge ``e``."""
        sources = [(e, o) for e, o in enumerate(objs) if o is not UNBOUND]
        other = False
        for e, o in sources:
            self._stands_for[e].setdefault(o, []).append(out)
            other = other or o is not out
        if other:
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
            if any(type(c) is Growing or len(c) != len(first) for c in some):
                return self._growing(contents, some, hint)
            rows = [(UNBOUND,) * len(first) if c is UNBOUND else c for c in contents]
            return tuple(merge(list(c), hint) for c in zip(*rows))
        if cls is DictObj and any(list(c) != list(first) for c in some):
            return Conflict("a dict with different keys, depending on the path taken")
        keys = dict.fromkeys(k for c in some for k in c)
        return {k: merge([UNBOUND if c is UNBOUND else c.get(k, UNBOUND) for c in contents], str(k)) for k in keys}

    def _growing(self, contents: Sequence[Any], some: Sequence[Any], hint: str) -> Any:
        """Merges the contents of a list of different or unknown lengths."""
        if len(some) == len(contents) and _one(some):
            return some[0]
        to = list_elements.common_kind(self.t, zip(self.edges, contents), self.in_loop)
        if to is None:
            lengths = " or ".join(dict.fromkeys("unknown" if type(c) is Growing else str(len(c)) for c in some))
            return Conflict(f"a list of length {lengths}, depending on the path taken")
        grown: list[Any] = []
        for edge, content in zip(self.edges, contents):
            with self.t.on(edge):
                grown.append(content if content is UNBOUND else list_elements.grown(self.t, content, to))
        rows = [(UNBOUND,) * (2 + len(to.cells)) if c is UNBOUND else c.parts() for c in grown]
        counts, versions, *columns = zip(*rows)
        return Growing(to, self._bound(counts, hint and f"{hint}_length"),
                       tuple(self._column(c, hint) for c in columns), self._bound(versions, ""))

    def _column(self, vals: Sequence[Any], hint: str) -> Sym:
        some: list[Sym] = [v for v in vals if v is not UNBOUND]
        if len(some) == len(vals) and all(v.value is some[0].value for v in some):
            return some[0]
        type_: Type | None = some[0].type
        for v in some[1:]:
            type_ = join(type_, v.type) if type_ is not None else None
        assert type_ is not None
        return self._param(type_, False, vals, hint)

    def _mark_ambiguous(self) -> None:
        """Freezes each new object that may be the same as another live one."""
        for out, sources in self.new.items():
            others: dict[Obj, None] = {}
            stale = False
            for e, o in sources:
                others.update(dict.fromkeys(self._stands_for[e][o]))
                out.readonly = ROW if o.readonly is ROW else out.readonly or o.readonly
                if isinstance(out, ArrayObj):
                    out.scattered = out.scattered or o.scattered
                for other, then in o.maybe:
                    stale = stale or not same(self.edges[e].state.get(other, UNBOUND), then)
                    others.update(dict.fromkeys(self._stands_for[e].get(other, ())))
            others.pop(out, None)
            if others or stale:
                out.readonly = out.readonly or (AMBIGUOUS if isinstance(out, ArrayObj) else SEVERAL)
                out.maybe = tuple((o, STALE if stale else self.state.get(o, UNBOUND)) for o in others or {out: None})


def changed(state: State, other: State) -> list[Any]:
    """The keys of ``state`` for which ``other`` has another object or none.

    Most variables are the same on all paths, and there may be thousands of them at each of thousands of loops, so
    that no Python runs for these.
    """
    return list(compress(state, map(is_not, state.values(), map(other.get, state, repeat(UNBOUND)))))


def _one(values: Sequence[Any]) -> bool:
    """True if all values are the same object."""
    first = values[0]
    for v in values:
        if v is not first:
            return False
    return True


def _shape(content: Any) -> Any:
    """The part of a list's or dict's contents that must agree on all paths: its length or its keys."""
    if type(content) is Growing:
        return Growing, content.kind
    return len(content) if isinstance(content, tuple) else tuple(content) if isinstance(content, dict) else None


def same_steps(a: ArrayRef, b: ArrayRef) -> bool:
    """True if two views apply the same steps to their base."""
    return len(a.steps) == len(b.steps) and all(x is y for x, y in zip(a.steps, b.steps))
