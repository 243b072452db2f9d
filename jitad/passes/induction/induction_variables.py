"""Rewrites secondary induction variables as functions of the loop's counter: ``L = L0 + it * c``.

``L += 1`` in a counted loop carries ``L`` from one iteration to the next.  Without this pass, the reverse sweep needs
``L`` saved in every iteration, and ``loop_versioning`` cannot test its check before the loop.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Module, Op, Value
from ...ir.types import I64
from ..analysis.loops import Counted, Loop, counted, loop_forest, stepped


def induction_variables(module: Module) -> None:
    """Replace every such integer; expects normal form.  The old additions are dead then."""
    for func in module.functions.values():
        for loop in loop_forest(func).loops:
            known = counted(loop)
            if known is not None:
                for p in loop.head.params:
                    if p is not known.iv and p.type == I64 and (step := stepped(loop, p)) is not None:
                        _replace(loop, known, p, *step)


def _replace(loop: Loop, known: Counted, p: Value, amount: Value, sign: int) -> None:
    head, start = loop.head, loop.entry_edge().args[p.index]
    b = Builder(head, head.ops[0].loc if head.ops else loop.head.func.loc)
    ops, head.ops = head.ops, []
    if amount.const is not None:
        amount = b.const(amount.const)
    moved = b.mul(known.iv, amount)
    value = b.add(start, moved) if sign > 0 else b.sub(start, moved)
    head.ops += ops
    for block in loop.blocks:
        for op in block.all_ops():
            if not _is_step(op, loop, p):
                op.replace_uses({p: value})


def _is_step(op: Op, loop: Loop, p: Value) -> bool:
    """True for the op that steps ``p``.  It is not rewritten: it feeds the back edge until ``dce`` removes both."""
    return bool(op.results) and op.results[0] is loop.back_edge().args[p.index]
