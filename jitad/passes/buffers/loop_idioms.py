"""Recognises loops that store one value to every element of an array, or that copy an array.

::

    ^loop(i, a):                                     b = fill(0, n)
      b = set(a, 0, i)                   becomes     ^loop(i): …
      branch …, ^loop(i + 1, b), ^exit(b)              branch …, ^loop(i + 1), ^exit(b)

A scratch array that is cleared by a loop is then what ``np.zeros`` makes: passes that look for sums that begin with
zeros find them, and what the array held before is no longer needed.  LLVM's pass of this name makes calls of ``memset``
and ``memcpy`` of such loops.

The *nest* has a loop for each axis, and its loops may do other things besides.  It stores to ``a[i, j]`` for all ``i``
and ``j`` below the sizes of ``a`` a value from outside, or ``x[i, j]`` of an array ``x`` from outside, whose first
elements, or a row of which, then take the place of ``a``.  Nothing else in the nest uses ``a``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ...ir.uses import users
from ..analysis.cfg import reached
from ..analysis.facts import Walk
from ..analysis.loops import Counted, Loop, always_runs, counted, loop_forest
from ..analysis.sizes import Size, Sizes


def loop_idioms(module: Module) -> bool:
    """Rewrite all such nests; expects normal form.  Returns True if there was one."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    stores = [op for op in func.all_ops() if op.name == "set" and isinstance(op.operands[1].type, Scalar)]
    search = _Search(func) if stores else None
    nests = [nest for store in stores if search is not None and (nest := search.nest(store)) is not None]
    if not nests:
        return False
    long = _LongEnough(func, nests)
    long.run()
    found = False
    for store in (nest.store for nest in nests if nest.store not in long.wanted or nest.store in long.proved):
        search = _Search(func)                               # of what the nests ahead have become
        nest = search.nest(store)
        if nest is not None:
            search.rewrite(nest)
            found = True
    return found


@dataclass
class _Nest:
    """A nest, outermost loop first, and the parameters that carry the array ``store`` updates."""

    store: Op
    loops: list[Loop]
    known: list[Counted]
    params: list[Value]

    def source(self) -> tuple[Value, list[Value]] | None:
        """The array that is copied, and the indices of the row, if the nest copies one."""
        load = self.store.operands[1].op
        if load is None or load.name != "get" or load.block not in self.loops[0].blocks:
            return None
        array, *rows = load.operands[:-len(self.known)]
        return array, rows


class _LongEnough(Walk):
    """Proves where nests copy from arrays that have as many elements, though their sizes are not the same value.

    ``wanted``: for the store of a nest, the sizes, and the numbers of elements that are copied.
    """

    def __init__(self, func: Function, nests: list[_Nest]) -> None:
        super().__init__(func)
        sizes = Sizes(func)
        dims: dict[Size, Value] = {}
        for op in func.all_ops():
            if op.name == "dim":
                dims.setdefault(sizes.of(op.result), op.result)
        self.wanted: dict[Op, list[tuple[Value | None, Value]]] = {}
        self.proved: set[Op] = set()
        for nest in nests:
            source = nest.source()
            if source is not None:
                array, rows = source
                axes = [((array, len(rows) + axis), k.trip) for axis, k in enumerate(nest.known)]
                goals = [(dims.get(sizes.of(axis)), trip) for axis, trip in axes if not sizes.are_same(axis, trip)]
                if goals:
                    self.wanted[nest.store] = goals

    def op(self, op: Op) -> bool:
        if op in self.wanted and all(
                n is not None and self.prover.proves(self.ranges.form(n).minus(self.ranges.form(trip)))
                for n, trip in self.wanted[op]):
            self.proved.add(op)
        return super().op(op)


class _Search:
    def __init__(self, func: Function) -> None:
        self.func, self.forest = func, loop_forest(func)
        self.readers = users(func.all_ops())
        self.sizes = Sizes(func)

    def nest(self, store: Op) -> _Nest | None:
        """The nest in which ``store`` is all that happens to its array, if it fills it."""
        found = self._loops(store)
        if found is None:
            return None
        loops, known = found
        if not self._is_value(store, loops[0], known) or \
                any(k.trip.const is None and k.trip.block in loops[0].blocks for k in known):
            return None
        params = self._params(store, loops)
        if params is None:
            return None
        array = params[0]
        if not all(self.sizes.are_same((array, axis), k.trip) for axis, k in enumerate(known)):
            return None
        runs = all(always_runs(self.forest, inner, outer.latch) for outer, inner in zip(loops, loops[1:])
                   if outer.latch is not None)
        return _Nest(store, loops, known, params) if runs else None

    def _loops(self, store: Op) -> tuple[list[Loop], list[Counted]] | None:
        """The loops whose counters are the indices of ``store``, one in the other."""
        assert store.block is not None
        loop, loops, known = self.forest.loop_of(store.block), list[Loop](), list[Counted]()
        for index in reversed(store.operands[2:]):
            k = counted(loop) if loop is not None else None
            if loop is None or k is None or loop.exit is None or k.iv is not index:
                return None
            loops.insert(0, loop)
            known.insert(0, k)
            loop = loop.parent
        latch = loops[-1].latch if loops else None
        if latch is None or not self.forest.dom.dominates(store.block, latch):
            return None
        return loops, known

    def _params(self, store: Op, loops: list[Loop]) -> list[Value] | None:
        """The parameters that carry the array into each loop, if it goes nowhere else but through the store."""
        now, outwards = store.operands[0], list[Value]()
        left: set[Value] = {store.result}
        for loop in reversed(loops):
            if now.owner is not loop.head or loop.back_edge().argument(now) not in left:
                return None
            outwards.append(now)
            if loop is loops[0]:
                break
            around = loop.parent
            assert around is not None
            before, now = now, loop.entry_edge().args[now.index]
            found = self._behind(loop, around, left, now)
            if found is None or not self._is_used_by(now, {before}, found):
                return None
            left = found
        if self.readers.get(store.result) and any(not op.edges for op in self.readers[store.result]):
            return None
        return outwards[::-1] if self._is_used_by(outwards[0], set(), set(), store) else None

    def _behind(self, inner: Loop, around: Loop, left: set[Value], untouched: Value) -> set[Value] | None:
        """What the array is behind ``inner``, up to the end of an iteration of ``around``; None if it may be read."""
        assert inner.exit is not None
        behind = reached([inner.exit], lambda b: [s for s in b.successors() if s is not around.head])
        found, todo = set[Value](), [q for q, a in inner.exit_edge().passed() if a in left]
        while todo:
            v = todo.pop()
            if v in found or v.block is around.head or v.block not in around.blocks:
                continue
            found.add(v)
            for op in self.readers.get(v, ()):
                if not op.edges or op.name == "call":
                    return None
                todo += [q for e in op.edges for q, a in e.passed() if a is v]
        for v in found:
            for source in self.forest.dom.preds[v.block]:
                assert source.term is not None
                for e in (e for e in source.term.edges if e.block is v.block):
                    a = e.argument(v)
                    inside = a in found or a in left and e is inner.exit_edge()
                    if not inside and not (a is untouched and source not in behind):
                        return None
        return found

    def _is_used_by(self, v: Value, params: set[Value], joins: set[Value], store: Op | None = None) -> bool:
        """True if ``v`` is only passed to the inner loop and around it, or updated by ``store``."""
        for op in self.readers.get(v, ()):
            if op is store:
                if op.operands.count(v) > 1:
                    return False
            elif not op.edges:
                if op.name != "dim":
                    return False
            elif op.name == "call" or any(a is v and q not in params and q not in joins
                                          for e in op.edges for q, a in e.passed()) or v in op.operands:
                return False
        return True

    def _is_value(self, store: Op, outer: Loop, known: list[Counted]) -> bool:
        """True if the stored value is from outside the nest, or an element of an array from there at the same place."""
        value = store.operands[1]
        if value.const is not None or value.block not in outer.blocks:
            return True
        load = value.op
        if load is None or load.name != "get" or load.operands[0].block in outer.blocks or \
                load.operands[-len(known):] != [k.iv for k in known]:
            return False
        source, kind = load.operands[0], store.result.type
        rows = len(load.operands) - 1 - len(known)
        return isinstance(source.type, Array) and isinstance(kind, Array) and source.type.dtype == kind.dtype and \
            all(self._is_row(source, axis, v, outer) for axis, v in enumerate(load.operands[1:1 + rows]))

    def _is_row(self, source: Value, axis: int, index: Value, outer: Loop) -> bool:
        """True if an array has a row of number ``index``, which a loop around the nest counts."""
        loop = outer.parent
        while loop is not None:
            known = counted(loop)
            if known is not None and known.iv is index:
                return self.sizes.are_same((source, axis), known.trip)
            loop = loop.parent
        return False

    # --- the rewrite ----------------------------------------------------------------------------------

    def rewrite(self, nest: _Nest) -> None:
        """Make the array ahead of the nest, and ahead of the test whether that has an iteration."""
        outer, array = nest.loops[0], nest.params[0]
        assert outer.preheader is not None
        entered = outer.entry_edge().args[array.index]
        before = self._guard(outer, nest.known[0], nest)
        made = self._array(before or outer.preheader, nest)
        exits, back = outer.exit_edge(), outer.back_edge().argument(array)
        exits.args = [made if v is back else v for v in exits.args]
        if before is not None:
            assert before.term is not None
            around = before.term.edges[1]
            around.args = [made if v is entered else v for v in around.args]
            for b in reached([around.block]) if len(self.forest.dom.preds[around.block]) == 1 else ():
                if self.forest.dom.dominates(around.block, b) and b.term is not None:
                    for e in b.term.edges:
                        e.args = [made if v is entered else v for v in e.args]
        outer.entry_edge().args[array.index] = made
        store = nest.store
        assert store.block is not None
        for op in store.block.all_ops():
            op.replace_uses({store.result: store.operands[0]})
        store.block.ops.remove(store)

    def _guard(self, outer: Loop, known: Counted, nest: _Nest) -> Block | None:
        """The block that tests whether the nest has an iteration, if all that the array depends on is known there."""
        assert outer.preheader is not None
        guard = self.forest.dom.idom[outer.preheader]
        if guard is None or guard.term is None or guard.term.name != "branch" or \
                guard.term.edges[0].block is not outer.preheader:
            return None
        test = guard.term.operands[0].op
        if test is None or test.name != "lt" or test.operands[0].const != 0 or test.operands[1] is not known.trip:
            return None
        source, value = nest.source(), nest.store.operands[1]
        needed = [k.trip for k in nest.known if k.trip.const is None]
        needed += [source[0], *source[1]] if source is not None else [value] if value.const is None else []
        return guard if all(self.forest.dom.dominates(v.block, guard) for v in needed) else None

    def _array(self, block: Block, nest: _Nest) -> Value:
        """The array that the nest makes, at the end of ``block``."""
        source, t = nest.source(), nest.store.result.type
        assert isinstance(t, Array)
        if source is not None and not source[1]:
            block = self._outside(nest.loops[0], block, [source[0], *(k.trip for k in nest.known)])
        term, block.term = block.term, None
        b = Builder(block, nest.store.loc)
        trips = [b.again(k.trip) for k in nest.known]
        if source is None:
            made = b.fill(b.again(nest.store.operands[1]), *trips)
        else:
            made, rows = source
            exact = all(self.sizes.are_same((made, axis + len(rows)), n) for axis, n in enumerate(trips))
            made = b.get(made, *rows) if rows else made
            if not exact:
                made = b.slice(made, *(v for n in trips for v in (b.const(0), n, b.const(1))))
        made = b.as_type(made, type=t) if made.type != t else made
        block.term = term
        return made

    def _outside(self, loop: Loop, block: Block, needed: list[Value]) -> Block:
        """The preheader of the outermost loop around, in which no value that is needed changes, or else ``block``."""
        dom = self.forest.dom
        while loop.parent is not None and loop.parent.preheader is not None and all(
                v.const is not None or dom.dominates(v.block, loop.parent.preheader) for v in needed):
            loop = loop.parent
            assert loop.preheader is not None
            block = loop.preheader
        return block
