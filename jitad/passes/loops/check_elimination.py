"""Decides conditions that control flow, earlier checks and loop counters imply, mostly bounds checks.

A walk down the dominator tree collects the facts that hold at each point (``ranges.Prover``): the condition of a branch
on each of its sides, the condition of a ``check`` after it, and the bounds of loop counters (``induction``).  Integer
comparisons that follow from the facts become constants.  Checks whose condition holds are removed.  An integer maximum
or minimum becomes the operand that it is known to be.  If the condition of ``select(i < 0, i + n, i)`` is known, the
result is treated as equal to the chosen operand.  A quotient or remainder of integers that are not negative is marked
as ``unsigned``, which saves the rounding towards minus infinity.
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import BOOL, I64
from ..analysis.facts import COMPARISONS, Walk


def check_elimination(module: Module) -> None:
    for func in module.functions.values():
        if any(op.name in COMPARISONS or op.name == "check" for op in func.all_ops()):
            _Decider(func).run()


class _Decider(Walk):
    """Removes checks that hold, and replaces decided conditions by constants, extremes by the operand that they are."""

    def __init__(self, func: Function) -> None:
        super().__init__(func)
        self.same: dict[Value, Value] = {}

    def run(self) -> None:
        super().run()
        for op in self.func.all_ops() if self.same else ():
            op.replace_uses(self.same)

    def is_extreme(self, op: Op, operand: Value) -> None:
        super().is_extreme(op, operand)
        self.same[op.result] = self.same.get(operand, operand)

    def is_reduced(self, op: Op, times: int) -> None:
        super().is_reduced(op, times)
        if times:
            op.name = "add" if times > 0 else "sub"
        else:
            self.same[op.result] = self.same.get(op.operands[0], op.operands[0])

    def op(self, op: Op) -> bool:
        if op.name == "check" and self._decide(op.operands[0]) is True:
            return False
        if op.name in COMPARISONS and op.result.type == BOOL:
            truth = self._decide(op.result)
            if truth is not None:
                op.name, op.operands, op.attrs = "const", [], {"value": truth, "type": BOOL}
        kept = super().op(op)
        if op.name in ("mod", "floordiv") and op.result.type == I64 and all(
                self.prover.proves(self.ranges.form(v)) for v in op.operands):
            op.attrs = op.attrs | {"unsigned": True}
        return kept

    def end(self, block: Block) -> None:
        term = block.term
        assert term is not None
        if term.name != "branch" or term.operands[0].const is not None:
            return
        truth = self._decide(term.operands[0])
        if truth is not None:
            op = Op("const", (), [BOOL], {"value": truth, "type": BOOL})
            op.block = block
            block.ops.append(op)
            term.operands = [op.result]
