"""Minima and maxima in recurrences: what the next iteration waits for is the second operand."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.types import Scalar
from ..llvm import types
from ..llvm.code import Code


def extreme_behind(c: Code, name: str, t: Scalar, xs: Sequence[str]) -> str:
    """Emit a minimum or maximum whose second operand comes late: NaN and zeros of the first are examined ahead.

    Behind the second operand are a selection, for which there is an instruction, and logic on bits: those of NaN are
    added, and the first zero's sign decides.  LLVM's lowering is two selections longer, and tests the sign in a
    register of integers, through which it may join the recurrence: an edit distance took 4 times as long.
    """
    (x, late), of, n = xs, types.register(t), f"i{t.bits}"
    zero, ones = types.literal(0.0, t), c.cast("bitcast", n, "-1", of)

    def logic(kind: str, v: str, w: str) -> str:
        return c.cast("bitcast", n, c.arith(kind, n, *(c.cast("bitcast", of, y, n) for y in (v, w))), of)

    def where(test: str, v: str, w: str) -> str:
        return c.select(c.fcmp(test, of, x, zero), of, v, w)

    if name == "minimum":
        return logic("or", c.select(c.fcmp("olt", of, x, late), of, x, late), where("ueq", x, zero))
    unsigned = logic("xor", x, c.cast("bitcast", n, str(~(-1 << t.bits - 1)), of))      # of +0, all bits but the sign
    chosen = c.select(c.fcmp("ogt", of, x, late), of, x, late)
    return logic("or", logic("and", chosen, where("oeq", unsigned, ones)), where("uno", x, zero))
