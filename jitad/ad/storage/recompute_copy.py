"""Copies the blocks of an iteration to the start of the reverse iteration, which recomputes it.

``recompute_plan.py`` decides for which loops this is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Edge, Op, Value
from ...passes.analysis.loops import Loop, raising_blocks
from ..control_tape import LoopBack
from ..reverse import ThereAndBack
from .nests import AtEnd
from .recompute_plan import Plan


class Rerun:
    """The copy of a loop's iteration at the start of the reverse iteration.

    ``values`` maps forward values to those of the copy.  ``level`` represents the copy as a loop level (its ``head``
    and ``latch`` are the first and last block).  ``original`` maps blocks of the copy to those of the loop, and of its
    exits that only raise.  ``loops`` are the copies of the inner loops, paired with their reverse loops.  ``nested``:
    those that were merged with their reverse loops before, and are not part of the copy.
    """

    def __init__(self, sweep: ThereAndBack, plan: Plan, nested: Sequence[Rerun] = ()) -> None:
        back = plan.back
        self.sweep, self.back, self.loop, self.nested = sweep, back, back.loop, nested
        assert back.top is not None and back.index is not None and back.count is not None
        self.values: dict[Value, Value] = {back.iv: back.count if plan.merged or plan.upwards else back.index}
        taint = set() if plan.merged else plan.taint
        if plan.merged:
            self._carry_on()
        self.left: dict[Value, Value] = {}
        self.original: dict[Block, Block] = {}
        self.copies: dict[Block, Block] = {}
        self._copy_blocks(taint)
        first, last = self.copies[self.loop.head], self.copies[self._latch()]
        inside = {new for new, old in self.original.items() if old in self.loop.blocks}
        self.level = Loop(first, inside, [last], parent=self.loop.parent, latch=last)
        self.levels: dict[Loop, Loop] = {self.loop: self.level}
        self.loops: list[LoopBack] = []
        gone = {loop for rerun in nested for loop in (rerun.loop, *_inside(rerun.loop))}
        for inner in (loop for loop in _inside(self.loop) if loop not in gone):
            if inner in sweep.loops:
                self.loops.append(self._inner(sweep.loops[inner]))
            else:
                self._inner_level(inner)
        for old, new in self.levels.items():
            if old is not self.loop and old.parent is not None:
                new.parent = self.levels[old.parent]
        for rerun in nested:
            rerun.level.parent = self.level
        if plan.merged:
            self._pass_on()
        self._join(first, last)
        self._redirect()

    def _carry_on(self) -> None:
        """Make the values that the forward loop carries parameters of the reverse loop."""
        assert self.back.top is not None and self.back.entry is not None
        for p, start in zip(self.loop.head.params, self.loop.entry_edge().args):
            if p is not self.back.iv:
                self.values[p] = self.back.top.add_param(p.type, p.hint)
                self.back.entry[1].args.append(start)

    def _pass_on(self) -> None:
        """Pass these values to the next iteration.  ``left`` maps the exit's parameters to their final values."""
        assert self.back.back is not None and self.loop.exit is not None
        at_end = self._at_end()
        for p, a in zip(self.loop.head.params, self.loop.back_edge().args):
            if p is not self.back.iv:
                self.back.back[1].args.append(at_end(a))
        self.left = {p: at_end(a) for p, a in zip(self.loop.exit.params, self.loop.exit_edge().args)}

    def _at_end(self) -> Callable[[Value], Value]:
        """The values of this iteration at its end, where those that depend on nested loops are computed."""
        if not self.nested:
            return lambda v: self.values.get(v, v)
        assert self.back.back is not None
        return AtEnd(self.sweep, self.loop, {r.loop: r.left for r in self.nested}, self.values, self.back.back[0])

    def _latch(self) -> Block:
        assert self.loop.latch is not None
        return self.loop.latch

    def _copy_blocks(self, taint: set[Value]) -> None:
        func = self.sweep.func
        region = _region(self.sweep, self.loop)
        order = [b for b in self.sweep.forward if b in region]
        for old in order:
            new = self.copies[old] = func.new_block(f"{old.name}_again")
            self.original[new] = old
            if old is not self.loop.head:
                for p in old.params:
                    self.values[p] = new.add_param(p.type, p.hint)
        b = Builder(self.copies[self.loop.head])
        gone: dict[Value, Value] = {}
        for v in taint:
            if v not in self.values:                          # parameters of inner blocks remain, and receive undef
                gone[v] = b.undef(v.type)
        unknown = set(taint)                                  # and values computed from them in blocks that raise
        for old in order:
            new = self.copies[old]
            for op in old.ops:
                if any(v in unknown for v in op.operands):
                    unknown.update(op.results)
                else:
                    self._append(new, clone_op(op, self.values))
            if old is not self._latch():
                assert old.term is not None
                new.term = clone_op(old.term, self.values | gone, self.copies)
                new.term.block = new

    @staticmethod
    def _append(block: Block, op: Op) -> None:
        op.block = block
        block.ops.append(op)

    def _inner_level(self, old: Loop) -> Loop:
        at = self.copies
        self.levels[old] = Loop(at[old.head], {at[b] for b in old.blocks}, [at[b] for b in old.latches],
                                depth=old.depth, latch=at[old.latch] if old.latch else None,
                                preheader=at[old.preheader] if old.preheader else None,
                                exit=at[old.exit] if old.exit else None)
        return self.levels[old]

    def _inner(self, back: LoopBack) -> LoopBack:
        """The copy of an inner loop, paired with the reverse loop of the original."""
        new = self._inner_level(back.loop)
        twin = LoopBack(new, self.values.get(back.iv, back.iv), self.values.get(back.trip, back.trip))
        twin.top, twin.count, twin.index, twin.carried = back.top, back.count, back.index, back.carried
        twin.entry, twin.back, twin.outside = back.entry, back.back, back.outside
        return twin

    def _join(self, first: Block, last: Block) -> None:
        """Insert the copy in ``latch_bar`` between the computation of the index and the remaining ops."""
        top, index = self.back.top, self.back.index
        assert top is not None and index is not None and index.op is not None
        rest = self.sweep.func.new_block(f"{top.name}_rest")
        at = top.ops.index(index.op) + 1
        rest.ops, top.ops = top.ops[at:], top.ops[:at]
        rest.term, top.term = top.term, None
        for op in rest.all_ops():
            op.block = rest
        self.sweep.home[rest] = self.sweep.home[top]
        for pair in (self.back.entry, self.back.back):
            assert pair is not None
        if self.back.back is not None and self.back.back[0] is top:      # a loop of one block
            self.back.back = (rest, self.back.back[1])
        Builder(top).jump(first)
        last.term = Op("jump", (), edges=[Edge(rest)])
        last.term.block = last

    def _redirect(self) -> None:
        """Make the reverse sweep of this loop read the copy."""
        mine = {b for b, f in self.sweep.home.items() if f in self.loop.blocks}
        mine |= {b for rerun in self._all_nested() for b in rerun.original}
        for block in mine:
            for op in block.all_ops():
                op.replace_uses(self.values)


    def _all_nested(self) -> list[Rerun]:
        return [x for rerun in self.nested for x in (rerun, *rerun._all_nested())]


def _region(sweep: ThereAndBack, loop: Loop) -> set[Block]:
    """The blocks of a loop, and the blocks that it can reach which only raise."""
    return loop.region(raising_blocks(sweep.forest.dom))


def _inside(loop: Loop) -> list[Loop]:
    """The loops in ``loop``, inner loops first."""
    found: list[Loop] = []
    for child in loop.children:
        found += [*_inside(child), child]
    return found


def remove_forward(sweep: ThereAndBack, loop: Loop) -> None:
    """Remove the forward loop, which is not needed; the preheader jumps to its exit with the values from before it."""
    assert loop.preheader is not None and loop.exit is not None
    b = Builder(loop.preheader)
    loop.preheader.term = None
    args = [b.undef(a.type) if a.block in loop.blocks else a for a in loop.exit_edge().args]
    b.at(loop.preheader)
    b.jump(loop.exit, args)
    gone = _region(sweep, loop)
    sweep.func.blocks = [x for x in sweep.func.blocks if x not in gone]
    sweep.forward = [x for x in sweep.forward if x not in gone]
