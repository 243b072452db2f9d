"""Floats that cannot be negative.  The check that guards ``math.sqrt(x * x + y * y)`` is then removed.

NaN is allowed everywhere: a comparison with NaN is false, and false is what is concluded here.  −0 counts as negative,
since 1 / −0 is −inf.
"""

from __future__ import annotations

import math

from ...ir.graph import Op, Value
from ...ir.types import Scalar

DEEP = 12
"""The deepest expression that is looked into.  The cost is paid in every round of ``simplify``."""


def never(op: Op) -> bool:
    """True if ``op`` compares a float with 0 or less (``<``, ``<=``, ``==``) and is false for all that it may be."""
    x, y = op.operands
    name = op.name
    if x.const is not None:
        x, y, name = y, x, {"gt": "lt", "ge": "le"}.get(name, name if name == "eq" else "")
    if y.const is None or not isinstance(x.type, Scalar) or not x.type.is_float or not y.const <= 0:
        return False
    if name == "lt" or y.const < 0:
        return name in ("lt", "le", "eq") and has_no_sign(x)
    return name in ("le", "eq") and is_positive(x)


def has_no_sign(v: Value, depth: int = DEEP) -> bool:
    """True if ``v`` is +0, positive, or NaN."""
    op = v.op
    if v.const is not None:
        return math.copysign(1.0, v.const) > 0
    if op is None or not depth:
        return False
    if op.name in ("abs", "exp", "exp2", "cosh"):
        return True
    xs = op.operands
    if op.name == "mul" and xs[0] is xs[1]:
        return True
    if op.name in ("add", "mul", "div", "minimum", "sqrt"):
        return all(has_no_sign(x, depth - 1) for x in xs)
    if op.name == "select":
        return all(has_no_sign(x, depth - 1) for x in xs[1:])
    return op.name == "maximum" and (all(has_no_sign(x, depth - 1) for x in xs) or is_positive(v, depth))


def is_positive(v: Value, depth: int = DEEP) -> bool:
    """True if ``v`` is greater than 0, or NaN.  Products and quotients do not count, since they may underflow to 0."""
    op = v.op
    if v.const is not None:
        return bool(v.const > 0)
    if op is None or not depth:
        return False
    xs = op.operands
    if op.name == "add":
        return any(is_positive(x, depth - 1) and has_no_sign(y, depth - 1) for x, y in (xs, xs[::-1]))
    if op.name in ("sqrt", "minimum"):
        return all(is_positive(x, depth - 1) for x in xs)
    if op.name == "select":
        return all(is_positive(x, depth - 1) for x in xs[1:])
    return op.name == "cosh" or (op.name == "maximum" and any(is_positive(x, depth - 1) for x in xs))
