"""Powers under fast math: of a constant by the exponential, and by half an odd number by the square root.

``10.0 ** y`` becomes ``exp(y * log(10))``, and ``x ** -1.5`` becomes ``1 / (x * sqrt(x))``.  Results differ by some
units in the last place; those of ``c ** y`` by more, the larger ``y * log(c)`` is.  A negative power is 0 or infinite
where the positive one is out of range.
"""

from __future__ import annotations

import math

from ...ir.builder import Builder
from ...ir.graph import Block, Module, Op, Value
from ...ir.types import dtype_of
from ..analysis.cfg import substitute

LARGEST = 9
"""The largest odd number by half of which powers are products of a square root."""


def powers(module: Module) -> bool:
    """Rewrite such powers; returns True if there were any."""
    changed = False
    for func in module.functions.values():
        replaced: dict[Value, Value] = {}
        for block in func.blocks:
            ops: list[Op] = []
            for op in block.ops:
                b = Builder(Block(func), op.loc)
                new = _power(b, *op.operands) if op.name == "pow" and dtype_of(op.result.type).is_float else None
                if new is not None:
                    replaced[op.result] = new
                    for made in b.block.ops:
                        made.block = block
                    ops += b.block.ops
                else:
                    ops.append(op)
            block.ops = ops
        if replaced:
            substitute(func, replaced)
            changed = True
    return changed


def _is_whole(n: Value) -> bool:
    """True for an integer as a float, or sums, products and selections of such: powers of 2 by it stay exact."""
    todo, seen = [n], set[Value]()
    while todo:
        v = todo.pop()
        op = v.op
        if v in seen or v.const is not None and v.const == round(v.const):
            continue
        seen.add(v)
        if op is None or len(seen) > LARGEST:
            return False
        if op.name in ("add", "sub", "mul", "neg"):
            todo += op.operands
        elif op.name == "select":
            todo += op.operands[1:]
        elif op.name == "broadcast_to":
            todo.append(op.operands[0])
        elif op.name not in _WHOLE and not (op.name == "cast" and not dtype_of(op.operands[0].type).is_float):
            return False
    return True


_WHOLE = ("floor", "ceil", "trunc", "round")


def _power(b: Builder, x: Value, n: Value) -> Value | None:
    """``x ** n`` by other functions; ``None`` if it is none of these powers."""
    t = dtype_of(x.type)
    if x.const is not None and 0.0 < x.const < math.inf and x.const != 1.0 and n.const is None and not _is_whole(n):
        return b.emit("exp", b.mul(n, b.const(math.log(x.const), t)))
    if n.const is None or x.const is not None:
        return None
    halves = 2.0 * n.const
    if halves % 2.0 != 1.0 or abs(halves) > LARGEST:
        return None
    power = b.emit("sqrt", x)
    for _ in range(int(abs(halves)) // 2):
        power = b.mul(power, x)
    return power if halves > 0.0 else b.emit("div", b.const(1.0, t), power)
