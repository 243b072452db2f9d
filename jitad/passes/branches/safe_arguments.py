"""Functions whose result a selection drops get an argument that takes no longer than others.

::

    x = log a                                  b = select c, a, 1
    y = select c, x, 0            becomes      x = log b
                                               y = select c, x, 0

``if_conversion`` and ``outer_loop`` compute both sides of a branch, and so does ``np.where``.  Vector functions of the
C library compute most numbers at once, but others one by one, as the logarithm of a negative one: where half of the
numbers were negative, ``if x[i] > 0.0: s += math.log(x[i])`` took eight times as long (AMD Zen 3, glibc).
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Type, dtype_of
from ...ir.uses import ops_of, users

SAFE = {**dict.fromkeys(("log", "log2", "log10", "acosh", "pow"), 1.0),
        **dict.fromkeys(("log1p", "asin", "acos", "atanh", "exp", "exp2", "expm1", "sinh", "cosh"), 0.0)}
"""An argument at which each function is fast; of ``pow``, the base."""
LARGEST = 200
"""The most ops of a block that is examined, once for each condition."""


def safe_arguments(module: Module) -> bool:
    """Replace the arguments in all blocks; returns True if there were any."""
    changed = False
    for func in module.functions.values():
        blocks = [b for b in func.blocks if len(b.ops) <= LARGEST and any(op.name in SAFE for op in b.ops)
                  and any(op.name == "select" for op in b.ops)]
        readers = users(ops_of(func.blocks)) if blocks else {}
        for block in blocks:
            for condition in dict.fromkeys(op.operands[0] for op in block.ops if op.name == "select"):
                sides = _sides(block, condition, readers)
                for op in [op for op in sides if op.name in SAFE]:
                    changed = _replace(block, op, condition, sides[op]) or changed
    return changed


def _sides(block: Block, condition: Value, readers: dict[Value, list[Op]]) -> dict[Op, int]:
    """The ops whose results are read only where ``condition`` holds, with 1, or only where it does not, with 2."""
    sides = dict[Op, int]()
    for op in reversed(block.ops):
        if not OPS[op.name].elementwise:
            continue
        found = set[int]()
        for user in readers.get(op.result, ()):
            if user.block is block and user.name == "select" and user.operands[0] is condition:
                found |= {k for k, v in enumerate(user.operands) if v is op.result}
            else:
                found.add(sides.get(user, 0))
        if found in ({1}, {2}):
            sides[op] = found.pop()
    return sides


def _replace(block: Block, op: Op, condition: Value, side: int) -> bool:
    x, at = op.operands[0], block.ops.index(op)
    if not dtype_of(x.type).is_float or x.const is not None or _dims(x.type) != _dims(condition.type):
        return False
    if condition.op in block.ops[at:] or x.op is not None and x.op.name == "select" and x.op.operands[0] is condition:
        return False
    block.ops, behind = block.ops[:at], block.ops[at:]
    b = Builder(block, op.loc)
    safe = b.const(SAFE[op.name], dtype_of(x.type))
    op.operands[0] = b.select(condition, *((x, safe) if side == 1 else (safe, x)))
    block.ops += behind
    return True


def _dims(t: Type) -> tuple[int | None, ...]:
    return t.dims if isinstance(t, Array) else ()
