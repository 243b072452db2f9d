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

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ..analysis.cfg import reached
from ..analysis.facts import Walk
from ..analysis.loops import Counted, Loop, counted
from ..analysis.sizes import Size, Sizes
from .filled_nests import Nest, Nests


def loop_idioms(module: Module) -> bool:
    """Rewrite all such nests; expects normal form.  Returns True if there was one."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    stores = [op for op in func.all_ops() if op.name == "set" and isinstance(op.operands[1].type, Scalar)]
    if not stores:
        return False
    search = _Search(func)
    nests = [nest for store in stores if (nest := search.filling(store)) is not None]
    if not nests:
        return False
    long = _LongEnough(func, nests)
    long.run()
    chosen = [nest for nest in nests if nest.store not in long.wanted or nest.store in long.proved]
    for nest in chosen:                                      # each changes nothing in the nest of another one
        search.rewrite(nest)
    return bool(chosen)


def _source(nest: Nest) -> tuple[Value, list[Value]] | None:
    """The array that a nest copies, and the indices of the row, if it copies one."""
    load = nest.store.operands[1].op
    if load is None or load.name != "get" or load.block not in nest.loops[0].blocks:
        return None
    array, *rows = load.operands[:-len(nest.known)]
    return array, rows


class _LongEnough(Walk):
    """Proves where nests copy from arrays that have as many elements, though their sizes are not the same value.

    ``wanted``: for the store of a nest, the sizes, and the numbers of elements that are copied.
    """

    def __init__(self, func: Function, nests: list[Nest]) -> None:
        super().__init__(func)
        sizes = Sizes(func)
        dims: dict[Size, Value] = {}
        for op in func.all_ops():
            if op.name == "dim":
                dims.setdefault(sizes.of(op.result), op.result)
        self.wanted: dict[Op, list[tuple[Value | None, Value]]] = {}
        self.proved: set[Op] = set()
        for nest in nests:
            source = _source(nest)
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


class _Search(Nests):
    def filling(self, store: Op) -> Nest | None:
        """The nest in which ``store`` is all that happens to its array, if it replaces each element as above."""
        nest = self.nest(store)
        if nest is None or any(nest.offsets) or not self._is_value(store, nest.loops[0], nest.known):
            return None
        fills = all(self.sizes.are_same((nest.params[0], axis), k.trip) for axis, k in enumerate(nest.known))
        return nest if fills else None

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

    def rewrite(self, nest: Nest) -> None:
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

    def _guard(self, outer: Loop, known: Counted, nest: Nest) -> Block | None:
        """The block that tests whether the nest has an iteration, if all that the array depends on is known there."""
        assert outer.preheader is not None
        guard = self.forest.dom.idom[outer.preheader]
        if guard is None or guard.term is None or guard.term.name != "branch" or \
                guard.term.edges[0].block is not outer.preheader:
            return None
        test = guard.term.operands[0].op
        if test is None or test.name != "lt" or test.operands[0].const != 0 or test.operands[1] is not known.trip:
            return None
        source, value = _source(nest), nest.store.operands[1]
        needed = [k.trip for k in nest.known if k.trip.const is None]
        needed += [source[0], *source[1]] if source is not None else [value] if value.const is None else []
        return guard if all(self.forest.dom.dominates(v.block, guard) for v in needed) else None

    def _array(self, block: Block, nest: Nest) -> Value:
        """The array that the nest makes, at the end of ``block``."""
        source, t = _source(nest), nest.store.result.type
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
