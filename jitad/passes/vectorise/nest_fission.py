"""Fission of nests: a nest that reads nothing the loop changes moves into a loop before it, whose lanes are vectors.

::

    for i in range(n):                                for each chunk:
        for p in range(k):    best, at = …              for i in the chunk:  best, at = …; b[i], a[i] = best, at
        if best < limit:                        →       for i in the chunk:  if b[i] < limit: counts[a[i]] += 1
            counts[at] += 1

``outer_loop`` refuses the loop as a whole: its iterations branch each its own way, or update elements at indices that
are data.  The nearest of several points, the force of others on a particle, or what a reverse sweep computes again
ahead of its updates are such nests.  Both loops are strip-mined together (``fission.Chunks``).
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import I64, Array, Scalar, dtype_of
from ...ir.uses import ops_of
from ..analysis.cfg import append, set_term
from ..analysis.loops import Counted, Loop
from .fission import Chunks
from .nest_regions import Region
from .speculate import CHUNK


class NestFission(Chunks):
    """The two loops.  ``prepare`` adds the loop before, ``finish`` removes the region from the other, or ``undo``."""

    def __init__(self, func: Function, loop: Loop, known: Counted, region: Region) -> None:
        self.count = len(func.blocks)
        super().__init__(func, loop, known, [], [], [])
        self.region = region
        self.types = [Array(v.type, (CHUNK,)) for v in region.stored if isinstance(v.type, Scalar)]

    def prepare(self) -> None:
        """Add the loop before: the program is valid, and computes the region twice."""
        preheader, b = self.loop.preheader, Builder(self.chunk, self.loc)
        assert preheader is not None and preheader.term is not None
        self.preheader, self.before_it = preheader, (list(preheader.ops), preheader.term)
        args = list(preheader.term.edges[0].args[1:])
        self.carried = [self.chunk.add_param(p.type, p.hint) for p in self.loop.head.params[1:]]
        arrays = [self.chunk.add_param(t) for t in self.types]
        self._enter(preheader, args, None)
        self.length = b.minimum(b.sub(self.known.trip, self.start), CHUNK)
        b.jump(self.before, [b.const(0), *arrays])
        self._fill(self.length)
        self._go_on(self.carried, None)

    def undo(self) -> None:
        self.preheader.ops[:], self.preheader.term = self.before_it
        del self.func.blocks[self.count:]

    def _fill(self, length: Value) -> None:
        """Emit the region as a loop that stores its values."""
        region, before = self.region, self.before
        first, *others = region.blocks
        j = before.add_param(I64, self.known.iv.hint)
        arrays = [before.add_param(t) for t in self.types]
        b = Builder(before, self.loc)
        values = {self.known.iv: b.add(self.start, j)}
        for op in (*region.ahead, *(op for op in first.ops if self._moves(op))):
            append(before, clone_op(op, values))
        end = self.func.new_block("stores")
        stored = [end.add_param(v.type, v.hint) for v in region.stored]
        blocks = clone_blocks(others, self.func, values)
        for old, new in blocks.items():
            new.ops = [copy for op, copy in zip(old.ops, new.ops) if self._moves(op)]
        assert first.term is not None
        before.term = clone_op(first.term, values, blocks)
        before.term.block = before
        nothing = [b.const(0, dtype_of(v.type)) for v in region.stored]
        for edge in (e for op in ops_of([before, *blocks.values()]) for e in op.edges):
            if edge.block is region.end:
                edge.args = [edge.args[v.index] if v in region.end.params else values[v] for v in region.stored]
                edge.block = end
            elif edge.block not in blocks.values():             # the other side of a branch
                edge.block, edge.args = end, nothing
        b.at(end)
        nexts = [b.set(a, v, j) for a, v in zip(arrays, stored)]
        following = b.add(j, 1)
        for v in arrays:
            self.between.add_param(v.type)
        b.branch(b.lt(following, length), before, [following, *nexts], self.between, nexts)

    def _moves(self, op: Op) -> bool:
        return self.region.bound.isdisjoint([*op.operands, *op.results])

    def finish(self) -> None:
        """Let the loop read the arrays in place of the region."""
        loop, region, known, leave = self.loop, self.region, self.known, self.loop.exit
        first, *others = region.blocks
        assert leave is not None and first.term is not None
        reads = dict(zip(region.stored, self.between.params))
        self._skip()
        values: dict[Value, Value] = {}
        top = Builder(Block(self.func), self.loc)
        for v, array in reads.items():
            values[v] = top.get(array, known.iv)
        for op in region.again:
            append(top.block, clone_op(op, values))
        sunk = [op for b in others for op in b.ops if not self._moves(op)]
        region.end.ops[:0] = [*top.block.ops, *sunk]
        for op in region.end.ops:
            op.block = region.end
        gone = set(others)
        if known.next.block in gone:
            assert known.next.op is not None
            for made in (*(v.op for v in known.next.op.operands), known.next.op):
                if made is not None and made.block in gone:
                    append(first, made)
        self.func.blocks[:] = [b for b in self.func.blocks if b not in gone]
        loop.blocks -= gone
        for op in ops_of(loop.blocks):
            op.replace_uses(values)
        loads = {op for op in top.block.ops if op.name == "get" and op.operands[0] in self.between.params}
        states, leaving = self._restart(self.length)
        for op in loads:
            op.operands[1] = known.iv
        b = Builder(self.onward, self.loc)
        again = b.add(self.start, CHUNK)
        b.branch(b.lt(again, known.trip), self.chunk, [again, *states], leave, leaving)

    def _skip(self) -> None:
        """Let the region's first block go to its end, whose parameters that move are removed."""
        (first, *others), end = self.region.blocks, self.region.end
        edge = next(e for op in ops_of(self.region.blocks) for e in op.edges if e.block is end)
        moving = [p for p in end.params if p in self.region.moving]
        args = [a for p, a in edge.passed() if p not in moving]
        for p in reversed(moving):
            end.remove_param(p.index)
        assert first.term is not None
        for e in [e for e in first.term.edges if e.block in others]:
            e.block, e.args = end, args
        if all(e.block is end for e in first.term.edges):
            set_term(first, "jump", edges=[Edge(end, args)])
