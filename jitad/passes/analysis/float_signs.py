"""Floats that cannot be negative.  The check that guards ``math.sqrt(x * x + y * y)`` is then removed.

NaN is allowed everywhere: a comparison with NaN is false, and false is what is concluded here.  −0 counts as negative,
since 1 / −0 is −inf.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...ir.graph import Block, Op, Value
from ...ir.types import Scalar

DEEP = 12
"""The deepest expression that is looked into.  The cost is paid in every round of ``simplify``."""


def never(op: Op, given: Collection[Value] = ()) -> bool:
    """True if ``op`` compares a float with 0 or less (``<``, ``<=``, ``==``) and is false for all that it may be.

    ``given``: values that are known to be positive.
    """
    x, y = op.operands
    name = op.name
    if x.const is not None:
        x, y, name = y, x, {"gt": "lt", "ge": "le"}.get(name, name if name == "eq" else "")
    if y.const is None or not isinstance(x.type, Scalar) or not x.type.is_float or not y.const <= 0:
        return False
    if name == "lt" or y.const < 0:
        return name in ("lt", "le", "eq") and has_no_sign(x, DEEP, given)
    return name in ("le", "eq") and is_positive(x, DEEP, given)


def positive_inputs(op: Op, inside: set[Block]) -> list[Value] | None:
    """Values from outside the blocks ``inside``, such as arguments, for which ``never(op)`` holds if they are positive.

    ``None`` if that does not follow from any.
    """
    todo, found = list(op.operands), dict[Value, None]()
    for v in todo:                                       # grows
        if v.const is not None or not isinstance(v.type, Scalar) or not v.type.is_float:
            continue
        if v.block not in inside:
            found[v] = None
        elif v.op is not None and len(todo) < 2 * DEEP and not has_no_sign(v):
            todo += v.op.operands
    return list(found) if found and never(op, found) else None


def has_no_sign(v: Value, depth: int = DEEP, given: Collection[Value] = ()) -> bool:
    """True if ``v`` is +0, positive, or NaN."""
    op = v.op
    if v in given:
        return True
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
        return all(has_no_sign(x, depth - 1, given) for x in xs)
    if op.name == "select":
        return all(has_no_sign(x, depth - 1, given) for x in xs[1:])
    return op.name == "maximum" and (all(has_no_sign(x, depth - 1, given) for x in xs) or is_positive(v, depth, given))


def is_positive(v: Value, depth: int = DEEP, given: Collection[Value] = ()) -> bool:
    """True if ``v`` is greater than 0, or NaN.  Products and quotients do not count, since they may underflow to 0."""
    op = v.op
    if v in given:
        return True
    if v.const is not None:
        return bool(v.const > 0)
    if op is None or not depth:
        return False
    xs = op.operands
    if op.name == "add":
        return any(is_positive(x, depth - 1, given) and has_no_sign(y, depth - 1, given) for x, y in (xs, xs[::-1]))
    if op.name in ("sqrt", "minimum"):
        return all(is_positive(x, depth - 1, given) for x in xs)
    if op.name == "select":
        return all(is_positive(x, depth - 1, given) for x in xs[1:])
    return op.name == "cosh" or (op.name == "maximum" and any(is_positive(x, depth - 1, given) for x in xs))
