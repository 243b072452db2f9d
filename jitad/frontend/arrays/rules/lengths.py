"""Numbers of elements: lengths of ranges, and checks that arrays fit in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ....ir.graph import Value
from ....ir.types import F64
from ...values.values import Context

MOST = float(1 << 44)         # a limit on the number of elements, above every address space


def check_room(t: Context, sizes: Sequence[Value]) -> None:
    """Emits a ``MemoryError`` check for sizes beyond all memory; sizes of existing arrays are not checked."""
    if all(n.op is not None and n.op.name == "dim" or n.const is not None and 0 <= n.const < 1 << 20 for n in sizes):
        return
    e = t.builder
    shape = ", ".join(["{}"] * len(sizes)) + ("," if len(sizes) == 1 else "")
    named = sizes if len(sizes) <= 4 else ()
    message = "Unable to allocate an array" + (f" with shape ({shape})" if named else "")
    t.check(e.lt(true_product(t, sizes), MOST), "MemoryError", message, *named)


def true_product(t: Context, sizes: Sequence[Value]) -> Value:
    """The product of sizes as a float, which does not overflow."""
    return functools.reduce(t.builder.mul, [t.builder.cast(n, dtype=F64) for n in sizes])


def nonnegative(v: Value, depth: int = 4) -> bool:
    """True if an integer is provably at least 0."""
    if v.const is not None:
        return bool(v.const >= 0)
    op = v.op
    if op is None or not depth:
        return False
    if op.name == "dim":
        return True
    if op.name in ("add", "mul", "minimum", "select"):
        return all(nonnegative(o, depth - 1) for o in op.operands[op.name == "select":])
    if op.name == "maximum":
        return any(nonnegative(o, depth - 1) for o in op.operands)
    if op.name in ("mod", "floordiv"):
        divisor = op.operands[1].const
        return divisor is not None and divisor > 0 and (op.name == "mod" or nonnegative(op.operands[0], depth - 1))
    return False


def range_length(t: Context, lo: Value, hi: Value, by: Value) -> Value:
    """``len(range(lo, hi, by))``; ``by`` must not be 0."""
    e = t.builder
    if by.const == 1:
        steps = e.sub(hi, lo)
    else:
        steps = e.sub(0, e.floordiv(e.sub(lo, hi), by))
    return steps if nonnegative(steps) else e.maximum(steps, 0)
