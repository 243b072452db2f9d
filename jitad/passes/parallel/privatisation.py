"""Gives each iteration of a loop a scratch array of its own, if it overwrites the array before it reads it.

A scratch array that is made once, outside the loop, is carried from iteration to iteration although no iteration reads
what an earlier one has left there.  Then iterations depend on each other: they cannot run side by side, and the
derivative saves what is overwritten.  ::

    a0 = fill(0, n)                                  ^loop(i, a):
    ^loop(i, a):                                       e = empty(n)
      ^fill(j, b):  … c = set(b, v, j)    becomes      ^fill(j, b):  … c = set(b, v, j)      entered with e
      … get c, k                                       … get c, k
      again ^loop(i + 1, c)                            again ^loop(i + 1, c)

Nothing reads the parameter ``a`` any more, so ``dce`` drops it.

Notation.  The *members* are the values that the array has within an iteration: along edges, and after updates.  An
*untouched* member is what the iteration began with.  A *complete* member has been overwritten as a whole: by a slice,
or by an inner loop, the *filling* loop, which stores to ``a[j]`` for each ``j`` from 0 to the size.  A path around the
filling loop is taken only if the size is 0, and then there is nothing to read.  An array of two dimensions is filled
row by row, or by a loop in the filling loop that stores to ``a[j, k]``; the filling loop then reads nothing of it.

The array is private if every use outside the filling loop is of a complete member; if the filling loop reads only what
it has stored, at ``a[k]`` with ``k <= j`` behind the store or ``k < j`` ahead of it (``ranges`` proves it); and if
nothing reads the array behind the loop.

It may also be filled in part (``Part``): by a loop that stores to ``a[low + j]`` for each ``j`` below any trip count,
as for the scores of earlier words, or a column below the diagonal.  Then every element that is read must provably be
one of these, and the array that an iteration gets ends behind them.
"""

from __future__ import annotations

from typing import Any

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import CONSUMING
from ...ir.types import I64, Array, Type, dims_of
from ...ir.uses import ops_of
from ..analysis.affine import Affine
from ..analysis.facts import Walk
from ..analysis.loops import Counted, Loop, counted, loop_forest
from ..analysis.ranges import Prover, Ranges
from ..analysis.sizes import Sizes
from .scratch_uses import Left, Region

MOST_AXES = 2


def privatisation(module: Module) -> bool:
    """Make scratch arrays private, in every loop of normal form; returns True if there are any."""
    changed = False
    for func in module.functions.values():
        forest = loop_forest(func)
        loops = [loop for loop in forest.loops if loop.preheader is not None and loop.exit is not None
                 and any(map(_may_be_scratch, loop.head.params))]
        sizes = Sizes(func) if loops else None
        found: list[Scratch] = []
        for loop in loops:
            region = Region(forest, loop)
            assert sizes is not None
            candidates = [Scratch(region, p, sizes) for p in loop.head.params if _may_be_scratch(p)]
            whole = [s for s in candidates if s.may_be_private()]
            parts = [Part(region, s.param, sizes) for s in candidates if s not in whole]
            private = [*whole, *(s for s in parts if s.may_be_private())]
            kept = {p for p in loop.head.params if isinstance(p.type, Array)} - {s.param for s in private}
            if module.derived or not kept:
                found += private
            else:                            # iterations stay in order: an array of their own only costs time
                found += [s for s in private if not s.again]
        for s in _proved(func, found):
            s.make_private()
            changed = True
    return changed


def _may_be_scratch(p: Value) -> bool:
    return isinstance(p.type, Array) and 1 <= p.type.rank <= MOST_AXES


class Scratch:
    """A parameter of a loop's head that may be private.

    ``members`` of ``param``; ``untouched`` and ``complete`` are some of these.  ``filling``: the filling loop,
    ``known`` its counter, ``store`` its store.  ``reads``: for each op that reads an element in the filling loop, 1 if
    its index must be below the counter, 0 if it may be the counter.
    """

    def __init__(self, region: Region, param: Value, sizes: Sizes) -> None:
        self.region, self.param, self.sizes = region, param, sizes
        assert isinstance(param.type, Array)
        self.rank = param.type.rank
        self.members: dict[Value, None] = {param: None}
        self.untouched: set[Value] = {param}
        self.complete: set[Value] = set()
        self.filling: Loop | None = None
        self.known: Counted | None = None
        self.store: Op | None = None
        self.reads: dict[Op, int] = {}
        self.origin: Value | None = None
        self.again = False

    def may_be_private(self) -> bool:
        """True if the array may be private but for what is to be proved of ``reads``."""
        if not self._find_members():
            return False
        self._find_untouched()
        self._find_filling()
        self._find_complete()
        users = self.region.users
        return bool(self.complete) and all(self._is_fine(op) for v in self.members for op in users.get(v, ()))

    # --- members ------------------------------------------------------------------------------------

    def _find_members(self) -> bool:
        """Find the members; returns False if one is read behind the loop, changes places, or meets another array."""
        region, todo = self.region, [self.param]
        leaving: list[Value] = []
        while todo:
            v = todo.pop()
            found = [op.result for op in region.users.get(v, ()) if op.name in CONSUMING and op.operands[0] is v]
            for e, q in region.passed.get(v, ()):
                if e.block is region.loop.head and q is not self.param:
                    return False
                (found if e.block in region.blocks else leaving).append(q)
            new = [q for q in found if q not in self.members]
            self.members.update(dict.fromkeys(new))
            todo += new
        left = Left(region, self.param, self.members, leaving)
        self.origin, self.again = left.origin, left.again
        return self.origin is not None and region.loop.back_edge().argument(self.param) in self.members and \
            all(e.argument(v) in self.members for v in self._params() for _, e in region.incoming[v.block])

    def _params(self) -> list[Value]:
        """The members that are parameters of other blocks than the head, in the order of the blocks."""
        number = self.region.dom.number
        return sorted((v for v in self.members if v.op is None and v is not self.param), key=lambda v: number[v.block])

    def _find_untouched(self) -> None:
        heads = {loop.head for loop in self.region.forest.loops}
        for v in self._params():
            if v.block not in heads and all(e.argument(v) in self.untouched for _, e in self.region.incoming[v.block]):
                self.untouched.add(v)

    # --- the filling loop ---------------------------------------------------------------------------

    def _find_filling(self) -> None:
        """Find the filling loop: an inner loop that begins with an untouched member and stores to each element."""
        size = self.sizes.of((self.param, 0))
        for inner in self.region.loop.children:
            known = counted(inner) if inner.exit is not None else None
            if known is None or self.sizes.of(known.trip) != size:
                continue
            entered = (q for q in inner.head.params if q in self.members)
            if any(inner.entry_edge().argument(q) in self.untouched for q in entered):
                self.store = self._store(inner, known)
                if self.store is not None:
                    self.filling, self.known = inner, known
                    return

    def _store(self, inner: Loop, known: Counted) -> Op | None:
        """The first store to the element, or row, of the counter that every iteration executes."""
        for deep in inner.children if self.rank > 1 else ():
            within = counted(deep) if deep.exit is not None and self._passes(inner, deep) else None
            if within is not None and self.sizes.of(within.trip) == self.sizes.of((self.param, 1)):
                found = self._first_store(deep, [known.iv, within.iv])
                if found is not None:
                    return found
        return self._first_store(inner, [known.iv])

    def _passes(self, inner: Loop, deep: Loop) -> bool:
        """True if each iteration of ``inner`` executes the loop ``deep`` in it, unless that has no iteration."""
        dom, before, known = self.region.dom, deep.preheader, counted(deep)
        if before is None or known is None or inner.latch is None:
            return False
        guard = dom.idom[before]
        if guard is not None and guard.term is not None and guard.term.name == "branch":
            test = guard.term.operands[0].op
            if test is not None and test.name == "lt" and test.operands[0].const == 0 \
                    and test.operands[1] is known.trip and guard.term.edges[0].block is before:
                before = guard
        return dom.dominates(before, inner.latch)

    def _first_store(self, inner: Loop, at: list[Value]) -> Op | None:
        assert inner.latch is not None
        forest, dom = self.region.forest, self.region.dom
        stores = [op for v in self.members for op in self.region.users.get(v, ())
                  if op.name == "set" and op.operands[0] is v and op.operands[2:] == at]
        stores = [op for op in stores if op.block is not None and forest.loop_of(op.block) is inner
                  and dom.dominates(op.block, inner.latch)]
        return min(stores, key=lambda op: (dom.number[op.block], op.block.ops.index(op)) if op.block else (0, 0),
                   default=None)

    # --- complete members ---------------------------------------------------------------------------

    def _find_complete(self) -> None:
        """Find the complete members, as the largest set that is consistent."""
        inside = self.filling.blocks if self.filling is not None else set()
        self.complete = {v for v in self.members if v not in self.untouched and v.block not in inside}
        changed = True
        while changed:
            wrong = {v for v in self.complete if not self._is_complete(v)}
            self.complete -= wrong
            changed = bool(wrong)

    def _is_complete(self, v: Value) -> bool:
        """True if a member is overwritten as a whole, or comes from complete members."""
        if v.op is not None:
            return v.op.operands[0] in self.complete or self._overwrites(v.op)
        for source, e in self.region.incoming[v.block]:
            a = e.argument(v)
            filled = self.filling is not None and e is self.filling.exit_edge()
            if a not in self.complete and not filled and not (a in self.untouched and self._is_empty(source)):
                return False
        return True

    def _overwrites(self, op: Op) -> bool:
        """True if a slice of the same size takes the place of all elements."""
        if op.name != "set_slice" or not isinstance(op.operands[1].type, Array):
            return False
        _, value, *part = op.operands
        if any(v.const != i % 2 for i, v in enumerate(part)):
            return False
        sizes = [self.sizes.of((value, axis)) for axis in range(self.rank)]
        return 1 not in sizes and sizes == [self.sizes.of((self.param, axis)) for axis in range(self.rank)]

    def _is_empty(self, block: Block) -> bool:
        """True if control reaches ``block`` only where the filling loop is passed by, since the array is empty."""
        dom = self.region.dom
        before = self.filling.preheader if self.filling is not None else None
        guard = dom.idom[before] if before is not None else None
        if guard is None or self.known is None or guard.term is None or guard.term.name != "branch":
            return False
        test, around = guard.term.operands[0].op, guard.term.edges[1].block
        return guard in self.region.loop.blocks and test is not None and test.name == "lt" and \
            test.operands[0].const == 0 and test.operands[1] is self.known.trip and \
            len(dom.preds[around]) == 1 and dom.dominates(around, block)

    def _is_fine(self, op: Op) -> bool:
        """True if an op may use the members that it uses; notes what is to be proved for it."""
        assert op.block is not None
        used = [v for v in op.operands if v in self.members]
        if op.name == "dim" or all(v in self.complete for v in used):
            return True
        if self.filling is None or op.block not in self.filling.blocks:
            return op.name in CONSUMING and self._overwrites(op) and used == op.operands[:1]
        if op is self.store:
            return True
        if self.rank > 1 or op.name not in ("get", "set", "add_at") or used != op.operands[:1]:
            return False
        if op.name != "set":
            assert self.store is not None
            self.reads[op] = 0 if self.region.dom.comes_first(self.store, op) else 1
        return True

    def holds(self, op: Op, ranges: Ranges, prover: Prover) -> bool:
        """True if what is to be proved of a read holds there."""
        assert self.known is not None
        return prover.proves(ranges.form(self.known.iv).minus(ranges.form(_index(op))).plus(Affine(-self.reads[op])))

    # --- the rewrite --------------------------------------------------------------------------------

    def make_private(self) -> None:
        """Begin each iteration with an array that has no contents."""
        p, loop, outside = self.param, self.region.loop, self.origin
        assert loop.preheader is not None and outside is not None and isinstance(p.type, Array)
        users = [op for op in ops_of(self.region.blocks) if p in op.used()]
        before, after = loop.preheader, loop.head
        sizes = [_emit(before, len(before.ops), "dim", [outside], I64, axis=axis) for axis in range(self.rank)]
        own = _emit(after, 0, "empty", sizes, Array(p.type.dtype, (None,) * self.rank), dtype=p.type.dtype)
        if own.type != p.type:
            own = _emit(after, 1, "as_type", [own], p.type, type=p.type)
        for op in users:
            op.replace_uses({p: own})


class Part(Scratch):
    """A scratch array of one axis of which an iteration stores a part, and reads nothing else.

    ``low``: the first element of the part, 0 if None; it has as many elements as the filling loop has iterations.
    ``reads`` has the accesses behind the filling loop as well.
    """

    def __init__(self, region: Region, param: Value, sizes: Sizes) -> None:
        super().__init__(region, param, sizes)
        self.low: Value | None = None

    def may_be_private(self) -> bool:
        return dims_of(self.param.type) == (None,) and super().may_be_private()

    def _find_filling(self) -> None:
        for inner in self.region.loop.children:
            known = counted(inner) if inner.exit is not None else None
            entered = (q for q in inner.head.params if q in self.members)
            if known is None or not any(inner.entry_edge().argument(q) in self.untouched for q in entered):
                continue
            sets = (op for v in self.members for op in self.region.users.get(v, ()) if op.name == "set")
            for index in dict.fromkeys(op.operands[2] for op in sets if op.block in inner.blocks):
                low = _beyond(index, known.iv, inner)
                store = self._first_store(inner, [index]) if low or index is known.iv else None
                if store is not None:
                    self.filling, self.known, self.store, self.low = inner, known, store, low
                    return

    def _overwrites(self, op: Op) -> bool:
        return False

    def _is_fine(self, op: Op) -> bool:
        if op.name == "dim" or op is self.store:
            return True
        used = [v for v in op.operands if v in self.members]
        if self.filling is None or op.name not in ("get", "set", "add_at") or used != op.operands[:1]:
            return False
        inside = op.block in self.filling.blocks
        assert self.store is not None
        self.reads[op] = 1 if inside and not self.region.dom.comes_first(self.store, op) else 0
        return inside or used[0] in self.complete

    def holds(self, op: Op, ranges: Ranges, prover: Prover) -> bool:
        """True if an element is in the part, and in the filling loop has been stored; one that is only stored may be
        ahead of the part."""
        assert self.known is not None and self.filling is not None
        index, low = ranges.form(_index(op)), Affine(0) if self.low is None else ranges.form(self.low)
        stored = op.name != "set" and op.block in self.filling.blocks
        end = ranges.form(self.known.iv).plus(Affine(1 - self.reads[op])) if stored else ranges.form(self.known.trip)
        return prover.proves(low.plus(end).minus(index).plus(Affine(-1))) and \
            (op.name == "set" or prover.proves(index.minus(low)))

    def make_private(self) -> None:
        """Enter the filling loop with an array that ends behind the part, and pass by with an empty one."""
        assert self.filling is not None and self.filling.preheader is not None and self.known is not None
        outside, before = self.origin, self.filling.preheader
        assert outside is not None and isinstance(self.param.type, Array)
        for op in dict.fromkeys(op for v in self.members for op in self.region.users.get(v, ()) if op.name == "dim"):
            op.replace_uses({op.operands[0]: outside})
        room = _emit(before, len(before.ops), "dim", [outside], I64, axis=0)
        if self.low is not None:
            room = _emit(before, len(before.ops), "sub", [room, self.low], I64)
        size = _emit(before, len(before.ops), "minimum", [self.known.trip, room], I64)
        if self.low is not None:
            size = _emit(before, len(before.ops), "add", [self.low, size], I64)
        entry = self.filling.entry_edge()
        for q in self.filling.head.params:
            if q in self.members:
                entry.args[q.index - entry.offset] = self._empty(before, size)
        for v in self.complete:
            for source, e in self.region.incoming[v.block] if v.op is None else ():
                if e.argument(v) in self.untouched:
                    zero = _emit(source, len(source.ops), "const", [], I64, value=0, type=I64)
                    e.args[v.index - e.offset] = self._empty(source, zero)

    def _empty(self, block: Block, size: Value) -> Value:
        kind = self.param.type
        assert isinstance(kind, Array)
        return _emit(block, len(block.ops), "empty", [size], kind, dtype=kind.dtype)


def _index(op: Op) -> Value:
    return op.operands[1 if op.name == "get" else 2]


def _beyond(index: Value, iv: Value, inner: Loop) -> Value | None:
    """``low`` of an index ``iv + low`` with ``low`` from outside the loop."""
    if index.op is None or index.op.name != "add" or iv not in index.op.operands:
        return None
    low = index.op.operands[index.op.operands[0] is iv]
    return low if low.block not in inner.blocks else None


def _emit(block: Block, at: int, name: str, operands: list[Value], result: Type, /, **attrs: Any) -> Value:
    op = Op(name, operands, [result], attrs)
    op.block = block
    block.ops.insert(at, op)
    return op.result


# --- proofs ---------------------------------------------------------------------------------------

def _proved(func: Function, found: list[Scratch]) -> list[Scratch]:
    """The arrays whose filling loops provably read only what they have stored."""
    if not any(s.reads for s in found):
        return found
    proofs = _Proofs(func, found)
    proofs.run()
    return [s for s in found if all((s, op) in proofs.proved for op in s.reads)]


class _Proofs(Walk):
    """Proves, at each of the ``reads``, that the index is short of the filling loop's counter."""

    def __init__(self, func: Function, found: list[Scratch]) -> None:
        super().__init__(func)
        self.goals: dict[Op, list[Scratch]] = {}
        for s in found:
            for op in s.reads:
                self.goals.setdefault(op, []).append(s)
        self.proved: set[tuple[Scratch, Op]] = set()

    def op(self, op: Op) -> bool:
        for s in self.goals.get(op, ()):
            if s.holds(op, self.ranges, self.prover):
                self.proved.add((s, op))
        return super().op(op)
