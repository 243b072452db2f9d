"""Loop-invariant code motion: moves ops with loop-invariant operands to the preheader of a rotated loop.

The preheader runs only if the loop does.  Cheap scalar arithmetic may always be moved, and costly arithmetic, as an
exponential, also if an inner loop needs it and nothing but its trip count decides whether it is executed: that loop
seldom has no iteration at all, and the exponential is computed once at most.  ``speculative``: an exponential also
moves if some iterations of a counted loop execute it.  In a program that is still to be differentiated it is marked
as ``speculated``: the condition may protect an infinite derivative, which a cotangent of zero must not multiply.  Ops
that rely on a ``check`` (reads with indices in bounds, array ops with sizes that agree) move only if each iteration
executes them, and if no effect that stays in the loop precedes them.  The same holds for checks.

As long as every read still has its own check (``checks_in_place``: before ``check_elimination``), a check that raises
``IndexError`` may move past another one.  So an invariant read and its check are not held back by checks of other
reads.  If two checks fail in the first iteration, the invariant one is reported.  Ops whose result is updated in place
are not moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from enum import IntEnum

from ...ir.aliasing.consumption import consumed_values
from ...ir.dominance import Dominators
from ...ir.expression_keys import key
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ..analysis.loops import Loop, counted, loop_forest, raising_blocks

FIXED = frozenset("push pop stack_empty".split())
"""Ops that do not move: a push and a pop are paired by their positions."""
FREE = frozenset(name for name, op in OPS.items() if op.cost == 0 and not op.effect)
"""Ops that always move."""


class Before(IntEnum):
    """The worst effect that stays in the loop before a given point."""

    NOTHING = 0
    INDEX_CHECKS = 1
    ANYTHING = 2


FEW = 4
"""A loop with fewer iterations, times the branches that need an op, may execute none of these."""


def licm(module: Module, checks_in_place: bool = False, speculative: bool = False) -> bool:
    """Move invariant ops out of the loops of all functions; returns True if one moved that only a branch needs."""
    index_errors = {i for i, e in enumerate(module.exceptions) if e.kind == "IndexError"} if checks_in_place else set()
    marks: dict[str, bool] | None = None if not speculative else {"speculated": True} if module.underived() else {}
    return any([hoist(func, index_errors, marks) for func in module.functions.values()])


def hoist(func: Function, index_errors: set[int], marks: dict[str, bool] | None = None) -> bool:
    """Move invariant ops out of every loop of a function, inner loops first.

    ``index_errors``: numbers of the exceptions whose checks may be moved past each other.  ``marks``: attributes of
    what moves although only a branch needs it; None if that stays.
    """
    forest = loop_forest(func)
    dom = forest.dom
    if not forest.loops:
        return False
    consumed = consumed_values(func)
    raising = raising_blocks(dom)
    return any([_Hoister(loop, dom, consumed, raising, index_errors, marks).run() for loop in forest.loops
                if loop.preheader is not None and loop.latch is not None])


class _Hoister:
    def __init__(self, loop: Loop, dom: Dominators, consumed: set[Value], raising: set[Block],
                 index_errors: set[int], marks: dict[str, bool] | None) -> None:
        self.loop, self.dom, self.consumed, self.raising = loop, dom, consumed, raising
        self.index_errors, self.marks = index_errors, marks or {}
        self.before = Before.NOTHING
        known = counted(loop) if marks is not None else None
        self.trip = 0 if known is None else FEW if known.trip.const is None else known.trip.const
        self.copies: Mapping[Hashable, int] = self._costly() if 0 < self.trip < FEW else {}
        self.speculated = False

    def run(self) -> bool:
        preheader, latch = self.loop.preheader, self.loop.latch
        assert preheader is not None and latch is not None
        for block in sorted(self.loop.blocks, key=self.dom.number.__getitem__):
            always = self.dom.dominates(block, latch)
            needed = always or self._enters_loop(block, latch)
            kept = []
            for op in block.ops:
                if self._invariant(op) and self._may_move(op, always, needed):
                    op.block = preheader
                    preheader.ops.append(op)
                    continue
                kept.append(op)
                if op.name == "check":
                    self._stays(Before.INDEX_CHECKS if op.attrs["exc"] in self.index_errors else Before.ANYTHING)
            block.ops = kept
            assert block.term is not None
            if block.term.name in ("call", "raise") or any(s in self.raising for s in block.successors()):
                self._stays(Before.ANYTHING)
        return self.speculated

    def _costly(self) -> Counter[Hashable]:
        """The number of times that each transcendental function occurs with the same operands."""
        return Counter(key(op) for b in self.loop.blocks for op in b.ops if OPS[op.name].transcendental)

    def _stays(self, effect: Before) -> None:
        self.before = max(self.before, effect)

    def _invariant(self, op: Op) -> bool:
        blocks = self.loop.blocks
        return all(v.block not in blocks for v in op.operands)

    def _enters_loop(self, block: Block, latch: Block) -> bool:
        """True for the preheader of an inner loop that each iteration enters, unless it has no iteration."""
        inner = next((x for x in self.loop.children if x.preheader is block), None)
        known = counted(inner) if inner is not None else None
        if known is None or len(self.dom.preds[block]) != 1:
            return False
        guard = self.dom.preds[block][0]
        term = guard.term
        if term is None or term.name != "branch" or term.edges[0].block is not block:
            return False
        holds = term.operands[0].op
        return (self.dom.dominates(guard, latch) and holds is not None and holds.name == "lt"
                and holds.operands[0].const == 0 and holds.operands[1] is known.trip)

    def _may_move(self, op: Op, always: bool, needed: bool) -> bool:
        definition = OPS[op.name]
        if op.name in FREE:
            return True
        if definition.consumes or op.name in FIXED or any(r in self.consumed for r in op.results):
            return False
        if op.name == "check":
            limit = Before.INDEX_CHECKS if op.attrs["exc"] in self.index_errors else Before.NOTHING
            return always and self.before <= limit
        if definition.elementwise and all(isinstance(v.type, Scalar) for v in op.operands):
            if not needed and definition.cost >= EXPENSIVE:
                often = self.trip * self.copies.get(key(op), 1) >= FEW
                speculated = often and definition.transcendental
                if speculated:
                    op.attrs = {**op.attrs, **self.marks}
                    self.speculated = True
                return speculated
            return True
        return always and self.before < Before.ANYTHING
