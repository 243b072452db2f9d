"""Rewrites secondary induction variables as functions of the loop's counter: ``L = L0 + it * c``.

``L += 1`` in a counted loop carries ``L`` from one iteration to the next.  Without this pass, the reverse sweep needs
``L`` saved in every iteration, and ``loop_versioning`` cannot test its check before the loop.

A *wrap-around variable* is what the counter was, as the corner before in a walk around a polygon (``j = k`` at the end
of an iteration): ``L0`` in the first iteration, which ``peel`` takes out, and then ``it - 1``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...ir.builder import Builder
from ...ir.graph import Module, Op, Value
from ...ir.types import I64
from ..analysis.affine import AffineForms, atom
from ..analysis.loops import Counted, Loop, counted, loop_forest, stepped


def induction_variables(module: Module) -> None:
    """Replace every such integer; expects normal form.  The old additions are dead then."""
    for func in module.functions.values():
        for loop in loop_forest(func).loops:
            known = counted(loop)
            if known is not None:
                for p in (p for p in loop.head.params if p is not known.iv and p.type == I64):
                    if (step := stepped(loop, p)) is not None:
                        _replace(loop, p, partial(_moved, loop, known, p, *step))
                    elif (ahead := _ahead(loop, known, p)) is not None:
                        _replace(loop, p, partial(_wrapped, loop, known, p, ahead))


def _ahead(loop: Loop, known: Counted, p: Value) -> int | None:
    """By how much the next ``p`` is ahead of the counter, if by the same number in each iteration."""
    difference = AffineForms().of(loop.back_edge().args[p.index]).minus(atom(known.iv))
    return difference.constant if not difference.terms else None


def _moved(loop: Loop, known: Counted, p: Value, amount: Value, sign: int, b: Builder) -> Value:
    start = loop.entry_edge().args[p.index]
    if amount.const is not None:
        amount = b.const(amount.const)
    moved = b.mul(known.iv, amount)
    return b.add(start, moved) if sign > 0 else b.sub(start, moved)


def _wrapped(loop: Loop, known: Counted, p: Value, ahead: int, b: Builder) -> Value:
    start, later = loop.entry_edge().args[p.index], b.add(known.iv, ahead - 1)
    return later if start.const == ahead - 1 else b.select(b.eq(known.iv, 0), start, later)


def _replace(loop: Loop, p: Value, emit: Callable[[Builder], Value]) -> None:
    head = loop.head
    b = Builder(head, head.ops[0].loc if head.ops else loop.head.func.loc)
    ops, head.ops = head.ops, []
    value = emit(b)
    head.ops += ops
    for block in loop.blocks:
        for op in block.all_ops():
            if not _is_step(op, loop, p):
                op.replace_uses({p: value})


def _is_step(op: Op, loop: Loop, p: Value) -> bool:
    """True for the op that steps ``p``.  It is not rewritten: it feeds the back edge until ``dce`` removes both."""
    return bool(op.results) and op.results[0] is loop.back_edge().args[p.index]
