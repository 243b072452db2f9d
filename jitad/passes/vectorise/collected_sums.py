"""Sums that inner loops continue, for the lanes of an outer loop.

The order of the additions is the program's: all terms of one iteration come before those of the next.  So a chunk
stores the terms of all lanes, and adds them lane by lane at its end.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Op, Value
from ...ir.types import I64, Array, dtype_of
from ..analysis.loops import counted
from .lane_kinds import NoLanes
from .lane_rules import Lanes


def _terms_type(p: Value, width: int) -> Array:
    return Array(dtype_of(p.type), (None, width))


class CollectedSums:
    """The sums that inner loops continue: the terms of all lanes are stored, and added up at the end of a chunk.

    ``terms``: a value of such a sum → the array of terms, and their number so far.  ``before`` emits ahead of the loop.
    """

    def __init__(self, lanes: Lanes, before: Builder) -> None:
        self.lanes, self.before = lanes, before
        self.terms = {p: self._no_terms(adds) for p, adds in lanes.kinds.collected.items()}

    def _no_terms(self, adds: list[Op]) -> tuple[Value, Value]:
        """Emit the array for the terms of an iteration: there are as many as the loops around the additions tell."""
        before, loop, room = self.before, self.lanes.kinds.loop, self.before.const(0)
        for op in adds:
            assert op.block is not None
            inner, trips = self.lanes.kinds.forest.innermost[op.block], []
            while inner is not loop:
                known = counted(inner)
                if known is None:
                    raise NoLanes
                trips.append(known.trip if known.trip.const is None else before.const(known.trip.const))
                inner = inner.parent or loop
            if any(t.block in loop.blocks for t in trips):
                raise NoLanes
            self.lanes.made.append(trips)
            most = before.const(1)
            for t in trips:
                most = before.mul(most, before.maximum(t, 0))
            room = before.add(room, most)
        b, kind = self.lanes.b, _terms_type(adds[0].result, self.lanes.width)
        terms = b.emit_op("empty", [room, b.const(self.lanes.width)], dtype=kind.dtype).result
        return b.as_type(terms, type=kind), b.const(0)

    def enter(self, p: Value, block: Block) -> None:
        """Give a block the parameters for ``p``, a value of such a sum."""
        self.terms[p] = block.add_param(_terms_type(p, self.lanes.width), "terms"), block.add_param(I64, "count")

    def add(self, op: Op) -> None:
        """Store the terms, if ``op`` adds to such a sum."""
        s, at = self.lanes, op.operands[0] not in self.terms
        if op.operands[at] in self.terms:
            terms, count = self.terms[op.operands[at]]
            stored = s.b.set(terms, s.term(op, s.of(op.operands[1 - at])), count)
            self.terms[op.result] = stored, s.b.add(count, 1)

    def total(self, start: Value, v: Value) -> Value:
        """Emit the loops that add the terms of ``v``, one lane after the other; returns the sum."""
        b, (terms, count) = self.lanes.b, self.terms[v]
        func = b.block.func
        enter, lane, term = (func.new_block(name) for name in ("preheader", "lane", "term"))
        behind, after = func.new_block("exit"), func.new_block("after")
        total = after.add_param(start.type)
        b.branch(b.lt(0, count), enter, [], after, [start])
        b.at(enter)
        b.jump(lane, [b.const(0), start])
        i, before = lane.add_param(I64, "lane"), lane.add_param(start.type)
        b.at(lane)
        at = b.sub(self.lanes.width - 1, i) if self.lanes.backwards else i
        b.jump(term, [b.const(0), before])
        k, so_far = term.add_param(I64, "it"), term.add_param(start.type)
        b.at(term)
        following, more = b.add(k, 1), b.add(so_far, b.get(terms, k, at))
        b.branch(b.lt(following, count), term, [following, more], behind, [more])
        done = behind.add_param(start.type)
        b.at(behind)
        following = b.add(i, 1)
        b.branch(b.lt(following, self.lanes.width), lane, [following, done], after, [done])
        b.at(after)
        return total
