"""Finds conversions of integers to float64 in loops whose integers are far from 2**51: counters, sizes and indices.

Such an integer is added to the bits of 2**52 + 2**51, and that number is subtracted from the sum as a float, which is
exact.  x86's ``cvtsi2sd`` keeps the upper half of a register, so it waits for whatever wrote that register last.  LLVM
takes one that was written long ago, which without AVX-512, with 16 registers, may be that of a sum from iteration to
iteration: the gradient of a turned image took 2.1 times the time of C.  Vectors of i64 have no conversion there at all.
"""

from __future__ import annotations

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import F64, I64, Scalar
from ...passes.analysis.loops import LoopForest, counted

MOST = 50
"""Bits of the largest integers that are converted so."""
ADDRESS, COUNTER = 47, 48
"""Bits of sizes and indices, which memory bounds, and of counters: a loop of 2**48 iterations runs for days."""


def small_integers(forest: LoopForest) -> set[Op]:
    """The conversions in loops that may be done so."""
    counters = {v for known in map(counted, forest.loops) if known is not None for v in (known.iv, known.next)}
    return {op for block in forest.innermost for op in _in_block(block, counters)}


def _in_block(block: Block, counters: set[Value]) -> set[Op]:
    """Those in a block, from its end: what is an index later, with nothing between that may raise, is in bounds."""
    found, indices = set[Op](), set[Value]()
    for op in reversed(block.ops):
        if op.name == "check":
            indices.clear()
        elif op.name in ("get", "set", "add_at"):
            indices.update(op.operands[OPS[op.name].indices:])
        elif op.name == "cast" and op.result.type == F64 and op.operands[0].type == I64 and \
                _bits(op.operands[0], counters, indices) <= MOST:
            found.add(op)
    return found


def _bits(v: Value, counters: set[Value], indices: set[Value], depth: int = 4) -> int:
    """Bits of the magnitude of an integer; 64 if nothing is known."""
    op = v.op
    if v.const is not None:
        return int(v.const).bit_length()
    if v in counters:
        return COUNTER
    if v in indices or op is not None and op.name == "dim":
        return ADDRESS
    if op is None or not depth:
        return 64

    def bits(x: Value) -> int:
        return _bits(x, counters, indices, depth - 1)
    if op.name in ("add", "sub"):
        return max(map(bits, op.operands)) + 1
    if op.name in ("minimum", "maximum"):
        return max(map(bits, op.operands))
    if op.name == "select":
        return max(map(bits, op.operands[1:]))
    if op.name == "mod":
        return bits(op.operands[1])
    if op.name == "cast" and isinstance(t := op.operands[0].type, Scalar) and (t.is_bool or t.is_int and t.bits <= 32):
        return 32
    return 64


def truncated_float(whole: Value) -> Value | None:
    """The float64 whose integer part a small integer is."""
    op = whole.op
    return op.operands[0] if op is not None and op.name == "cast" and op.operands[0].type == F64 else None
