"""Python's ``min`` and ``max`` of floats take the operand that the next iteration waits for last.

::

    ^loop(i, left, …):                                 ^loop(i, left, …):
      v = add left, one                                  v = add left, one
      best = select (lt v, above), v, above    becomes   m = select (lt t, above), t, above
      next = select (lt t, best), t, best                next = select (lt v, m), v, m
      branch …, ^loop(j, next, …)                        branch …, ^loop(j, next, …)

Both are NaN if ``above`` is, and pass over a NaN in ``v`` or ``t``.  Where ``v`` and ``t`` are equal and less than
``above``, the one form yields the one and the other the other.  These are the same, unless one is +0 and the other −0;
so neither may be −0, as no sum is in which one term is not.
"""

from __future__ import annotations

import math
from collections import Counter

from ...ir.graph import Block, Op, Value
from ...ir.types import is_float_scalar

DEEP = 6
"""The deepest expression that is looked into for −0."""
TESTS = ("lt", "gt")


def late_extremes(order: list[Block], late: set[Value], read: Counter[Value]) -> None:
    """Rewrite such selections in the blocks of a loop.

    ``late``: what an iteration waits for; ``read``: the number of uses of each value.
    """
    late = set(late)
    for block in order:
        for op in list(block.ops):
            if op.name == "select" and is_float_scalar(op.result.type) and op.block is block:
                _pull(op, block, late, read)
            if not late.isdisjoint(op.operands):
                late.update(op.results)


def _pull(op: Op, block: Block, late: set[Value], read: Counter[Value]) -> None:
    outer = _extreme(op)
    if outer is None or outer[1] in late or outer[2] not in late:
        return
    kind, t, best = outer
    below, test = best.op, op.operands[0].op
    inner = _extreme(below) if below is not None and below.block is block and below.name == "select" else None
    assert test is not None
    if below is None or inner is None or inner[0] != kind or inner[1] not in late or inner[2] in late \
            or test.block is not block or read[best] != 2 or read[op.operands[0]] != 1:
        return
    _, v, above = inner
    first = below.operands[0].op
    if first is None or first.block is not block or read[first.result] != 1 or is_minus_zero(v) or is_minus_zero(t):
        return
    at = block.ops.index(test)
    early_test = Op(kind, [t, above], [test.result.type], loc=op.loc)
    early = Op("select", [early_test.result, t, above], [op.result.type], loc=op.loc)
    early_test.block = early.block = block
    block.ops[at:at] = [early_test, early]
    test.name, test.operands = kind, [v, early.result]
    op.operands = [test.result, v, early.result]
    block.ops.remove(below)
    block.ops.remove(first)
    read.update({t: 2, above: 2, early_test.result: 1, early.result: 2})


def _extreme(op: Op) -> tuple[str, Value, Value] | None:
    """For ``x if x < y else y`` the comparison by which ``x`` replaces ``y``, ``x`` and ``y``."""
    condition, x, y = op.operands
    test = condition.op
    if test is None or test.name not in TESTS or x is y:
        return None
    if test.operands == [x, y]:
        return test.name, x, y
    return (TESTS[test.name == "lt"], x, y) if test.operands == [y, x] else None


def is_minus_zero(v: Value, depth: int = DEEP) -> bool:
    """False if ``v`` is certainly not −0."""
    if v.const is not None:
        return v.const == 0 and math.copysign(1.0, v.const) < 0
    op = v.op
    if op is None or not depth:
        return True
    if op.name == "add":
        return all(is_minus_zero(x, depth - 1) for x in op.operands)
    if op.name == "sub":                                  # −0 is −0 − 0 alone
        return is_minus_zero(op.operands[0], depth - 1)
    if op.name == "select":
        return any(is_minus_zero(x, depth - 1) for x in op.operands[1:])
    if op.name == "cast":
        t = op.operands[0].type
        return not (getattr(t, "is_int", False) or getattr(t, "is_bool", False))
    if op.name == "mul":
        return op.operands[0] is not op.operands[1]
    return op.name not in ("abs", "exp")
