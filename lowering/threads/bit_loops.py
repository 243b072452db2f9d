"""Loops over the bits or the digits of a number, which end after at most 64 iterations.

::

    while n:            while n > 0:          while n > 0:
        n &= n - 1          n >>= 1               n //= 10

They need no safepoint.  LLVM then recognises loops that count bits, and makes one instruction of each, or a vector of
them in a loop over an array.  ``while n: n >>= 1`` is none: it does not end for a negative number.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...passes.analysis.loops import Loop

LEAST = {"shr": 1, "floordiv": 2}
"""The ops that take a bit or a digit away, and the least second operand with which they do."""


def ends_soon(loop: Loop) -> bool:
    """True for a loop of one block, left when a number that loses a bit or a digit in each iteration is 0."""
    term = loop.head.term
    if loop.blocks != {loop.head} or term is None or term.name != "branch" or term.edges[0].block is not loop.head:
        return False
    test = term.operands[0].op
    if test is None or test.name not in ("ne", "gt", "lt"):
        return False
    left, right = test.operands if test.name != "lt" else test.operands[::-1]
    back = loop.back_edge().args
    carried = next((p for p, v in zip(loop.head.params, back) if v is left), None)
    if carried is None or left.op is None or right.const != 0:
        return False
    return _loses_a_bit(left.op, carried) or (test.name != "ne" and _shrinks(left.op, carried))


def _loses_a_bit(op: Op, v: Value) -> bool:
    """True for ``v & (v - 1)``."""
    if op.name != "and" or v not in op.operands:
        return False
    other = op.operands[1 if op.operands[0] is v else 0].op
    if other is None or other.operands[:1] != [v] or other.name not in ("sub", "add"):
        return False
    return bool(other.operands[1].const == (1 if other.name == "sub" else -1))


def _shrinks(op: Op, v: Value) -> bool:
    """True for ``v >> k`` and ``v // k`` that are less than half of a positive ``v``, rounded up."""
    by = op.operands[1].const if len(op.operands) == 2 and op.operands[0] is v else None
    least = LEAST.get(op.name)
    return least is not None and isinstance(by, int) and bool(least <= by)
