"""Nested loops of which each iteration of the inner loop is recomputed, instead of each iteration of the outer one.

::

    for i in range(m):                      for i:
        for j in range(n):                      for j:
            total += f(i, j)                        f(i, j), then its reverse sweep

``recompute_plan.py`` chooses the outer loop.  Its inner loop would run twice in a recomputed iteration, forward and in
reverse, and save what both need for one row.  It runs once, merged with its reverse loop, if nothing between the two
needs its values but that reverse loop, which reads no more than its own iteration.

It pays for innermost loops, for loops around these, and where data end an inner loop or tell what the reverse loop adds
to: a pixel of splats, with an inner loop that ends where nothing shines through, or of a turned image.  The merged
loop adds up in order, so it is not vectorised.  Where the reverse loop alone could become vectors, that costs more than
one pass saves, unless there is little to compute, which is done while each addition waits for the one before.

*Late*: a value of the outer iteration that depends on values of the merged inner loop.  It is known only when the
reverse sweep of the iteration ends, where ``recompute_copy.py`` computes what the next iteration receives of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...ir.clone import clone_op
from ...ir.graph import Block, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar, is_float_scalar
from ...ir.uses import ops_of
from ...passes.analysis.cost import op_cost
from ...passes.analysis.loops import Loop, counted, raising_blocks
from ...passes.analysis.ssa import Reaching
from ..reverse import ThereAndBack

LIGHT = 24
"""The highest cost of an iteration that is merged though its reverse loop could become vectors.  By this, layer
normalisation (16) takes 0.89 of the time, a pooling layer (21) 0.79; pairs within a cutoff (32) would take 1.11, a
radial basis function with its exponential 1.27 (AMD EPYC)."""

MOST = 8
"""The most inner loops of a loop, from the last on, that are tried: each takes a walk over the outer loop."""


def pays(sweep: ThereAndBack, loop: Loop) -> bool:
    """True if merging an innermost loop saves time: there is little to compute, or it accesses what data tell."""
    ops = list(ops_of(b for b in sweep.forward if b in loop.blocks))
    costs = [op_cost(op) for op in ops]
    return sum(costs) <= LIGHT and max(costs) < EXPENSIVE or _is_scattered(ops)


def stays_scalar(sweep: ThereAndBack, loop: Loop) -> bool:
    """True if the reverse loop of a loop around others becomes no vectors anyway.

    Data tell how long an inner loop runs, whose iterations are saved on a stack, or what the reverse loop adds to.
    """
    inner = [x for x in sweep.forest.loops if x is not loop and x.head in loop.blocks]
    return any(counted(x) is None for x in inner) or _is_scattered(
        list(ops_of(b for b in sweep.forward if b in loop.blocks)))


def _is_scattered(ops: Sequence[Op]) -> bool:
    """True if an index is computed from data: LLVM does not make vectors of the reverse loop, which adds there."""
    data: set[Value] = set()
    for op in ops:
        first = OPS[op.name].indices if op.name in OPS else 0
        if first and any(v in data for v in op.operands[first:]):
            return True
        loaded = op.name == "get" or op.name == "cast" and is_float_scalar(op.operands[0].type)
        if op.results and isinstance(op.results[0].type, Scalar) and not is_float_scalar(op.results[0].type) and (
                loaded or any(v in data for v in op.operands)):
            data.update(op.results)
    return False


def is_separate(sweep: ThereAndBack, reads: Mapping[Block, list[tuple[Value, Block]]], outer: Loop,
                inner: Collection[Loop], carried: bool) -> bool:
    """True if the loops ``inner`` of ``outer`` can be left out of its forward iteration.

    ``reads``: for each forward block, its values that reverse blocks read, with the block that reads.  ``carried``:
    the outer loop is merged, so what it carries must be computable at the end of its reverse iteration.
    """
    late = late_values(sweep, outer, inner)
    if any(a in late for loop in inner for a in loop.entry_edge().args):
        return False
    loop_of = {b: loop for loop in inner for b in loop.blocks}
    for block, loop in loop_of.items():                      # a merged loop runs ahead of those that come before it
        if any(v in late or v.block in loop_of for op in block.all_ops() for v in op.used()
               if v.block not in loop.blocks):
            return False
    for block in _outside(sweep, outer, inner):
        level = sweep.forest.loop_of(block)
        for op in block.all_ops():
            if not any(v in late for v in op.operands):
                continue
            if op is block.term or level is not outer or OPS[op.name].effect or OPS[op.name].consumes:
                return False
        for edge in block.term.edges if block.term else ():
            into = sweep.forest.loop_of(edge.block)
            if into is not outer and edge.block in outer.blocks and any(a in late for a in edge.args):
                return False
    for block in outer.blocks:
        for v, bar in reads.get(block, ()):
            if v in late or loop_of.get(block) not in (None, loop_of.get(sweep.home[bar])):
                return False
    wanted = [*outer.back_edge().args, *outer.exit_edge().args]
    return not carried or all(_is_computable(sweep, outer, inner, late, v) for v in wanted)


def _outside(sweep: ThereAndBack, outer: Loop, inner: Collection[Loop]) -> set[Block]:
    """The blocks of ``outer`` that are not in ``inner``, and the blocks that these can reach which only raise."""
    raising = raising_blocks(sweep.forest.dom)
    return outer.region(raising) - {b for loop in inner for b in loop.region(raising)}


def late_values(sweep: ThereAndBack, outer: Loop, inner: Collection[Loop]) -> set[Value]:
    """The values of ``outer``, outside the loops ``inner``, that depend on values of these."""
    inside, outside = {b for loop in inner for b in loop.blocks}, _outside(sweep, outer, inner)
    found = {p for loop in inner if loop.exit is not None for p in loop.exit.params}
    found |= {v for op in ops_of(outside) for v in op.used() if v.block in inside}
    grown = True
    while grown:
        grown = False
        for block in outside:
            new = {r for op in block.ops if any(v in found for v in op.operands) for r in op.results}
            for edge in block.term.edges if block.term else ():
                if edge.block in outside and edge.block is not outer.head:
                    new |= {p for p, a in edge.passed() if a in found}
            grown |= not new <= found
            found |= new
    return found


def around(sweep: ThereAndBack, loop: Loop) -> tuple[Block, Block] | None:
    """The join behind a loop, and the block on the path that bypasses the loop, if it has that form."""
    if loop.exit is None or loop.exit.term is None or loop.exit.term.name != "jump":
        return None
    join = loop.exit.term.edges[0].block
    others = [p for p, _ in sweep.preds[join] if p is not loop.exit]
    if len(others) != 1 or others[0] not in sweep.bar or others[0].term is None or others[0].term.name != "jump":
        return None
    return join, others[0]


def _is_computable(sweep: ThereAndBack, outer: Loop, inner: Collection[Loop], late: set[Value], v: Value) -> bool:
    """True if a late value is an exit's parameter, that of the join behind it, or computed from such in every case."""
    assert outer.latch is not None
    exits = {loop.exit for loop in inner}
    joins = {found[0]: (loop, found[1]) for loop in inner if (found := around(sweep, loop)) is not None}
    todo, seen = [v], {v}
    while todo:
        u = todo.pop()
        if u not in late:
            continue
        if u.block not in outer.blocks or not sweep.forest.dom.dominates(u.block, outer.latch):
            return False
        following: list[Value] = []
        if u.op is not None:
            following = u.op.operands
        elif u.block in joins:
            loop, bypass = joins[u.block]
            passed = argument(loop.exit, u)
            if argument(bypass, u) in late or passed.owner is not loop.exit or loop.preheader not in sweep.bar:
                return False
        elif u.block not in exits:
            return False
        todo += [w for w in following if w not in seen]
        seen.update(following)
    return True


def argument(pred: Block | None, p: Value) -> Value:
    assert pred is not None and pred.term is not None
    return pred.term.edges[0].args[p.index]


def may_move(sweep: ThereAndBack, outer: Loop, loop: Loop) -> bool:
    """True if the iterations of ``loop`` may run after the rest of the outer iteration.

    It carries scalars only, and if it may raise, nothing that runs after it does, or takes for ever.
    """
    known = counted(loop)
    if known is None or loop.exit is None or not all(p is known.iv or isinstance(p.type, Scalar)
                                                     for p in loop.head.params):
        return False
    if not any(op.name in ("check", "call") for op in ops_of(loop.blocks)) and all(
            s in loop.blocks or s is loop.exit for b in loop.blocks for s in b.successors()):
        return True
    behind, todo = {loop.exit}, [loop.exit]
    while todo:
        for s in todo.pop().successors():
            if s not in behind and s is not outer.head and s in outer.blocks:
                behind.add(s)
                todo.append(s)
    return not any(op.name in ("check", "call", "raise") for op in ops_of(behind)) and all(
        s in outer.blocks or s is outer.exit for b in behind for s in b.successors()) and all(
        counted(child) is not None for child in outer.children if child.head in behind)


class AtEnd:
    """Calling it with a value of ``outer`` yields that value at the end of the reverse iteration, in block ``end``.

    ``left``: for each merged inner loop, what its exit's parameters are.  ``values``: the values of the iteration's
    copy.  Late values are computed at the end of ``end``.
    """

    def __init__(self, sweep: ThereAndBack, outer: Loop, left: Mapping[Loop, Mapping[Value, Value]],
                 values: Mapping[Value, Value], end: Block) -> None:
        self.sweep, self.left, self.values, self.end = sweep, left, values, end
        self.late = late_values(sweep, outer, left)
        self.exits = {loop.exit: loop for loop in left}
        self.joins = {found[0]: (loop, found[1]) for loop in left if (found := around(sweep, loop)) is not None}
        self.top = sweep.loops[outer].top
        self.known: dict[Value, Value] = {}

    def __call__(self, v: Value) -> Value:
        if v not in self.late:
            return self.values.get(v, v)
        if v not in self.known:
            self.known[v] = self._compute(v)
        return self.known[v]

    def _compute(self, v: Value) -> Value:
        op = v.op
        if op is not None:
            copy = clone_op(op, {u: self(u) for u in op.operands})
            copy.block = self.end
            self.end.ops.append(copy)
            return copy.results[op.results.index(v)]
        if v.block in self.exits:
            return self._left(self.exits[v.block], v)
        loop, bypass = self.joins[v.block]
        assert loop.preheader is not None and self.top is not None
        outside = argument(bypass, v)
        defs = {self.sweep.bar[loop.preheader]: self._left(loop, argument(loop.exit, v)),
                self.sweep.bar[bypass]: self.values.get(outside, outside)}
        skipped = {self.sweep.bar[x.preheader]: self.sweep.bar[x.exit] for x in self.sweep.loops
                   if x.preheader in self.sweep.bar and x.exit in self.sweep.bar}
        skipped = {at: to for at, to in skipped.items() if at not in defs}
        return Reaching(self.sweep.func.predecessors(), defs, [self.top], skipped).at_end(self.end)

    def _left(self, loop: Loop, p: Value) -> Value:
        v = self.left[loop][p]
        return self.values.get(v, v)
