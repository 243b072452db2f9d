"""Finds checks of floats that become indices, which the check of the index makes superfluous on x86.

The front end writes ``a[int(x)]`` as::

    check not isnan(x)                          ; ValueError
    check x >= -2**63 and x < 2**63             ; OverflowError
    k = cast x
    check of k as an index of n elements        ; IndexError (``wrapped_indices.py``)

``cvttsd2si`` returns the least integer for NaN and for what is out of range.  That is no index, also if it counts from
the end.  So the first two checks are left until the third one, or another check in between, has failed, which then
tests them, in their order.  Three comparisons of floats and as many branches become none: a histogram of two columns
took 1.8 times the time of C.

The index may be what a minimum or a constant summand makes of ``k``: the least integer remains no index.

A reverse sweep computes such indices again, without checks.  Without AVX-512 there is no conversion of vectors to i64:
LLVM takes them apart for it, compares each element and loads it by itself.  The instruction, which cannot be part of
vectors, takes half of the time, unless the loop calls vector functions too.
"""

from __future__ import annotations

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, dtype_of
from .wrapped_indices import WrappedIndex

LOW, HIGH = -(2.0 ** 63), 2.0 ** 63
NEAR = 2**30
"""The largest constant summand: the sum with the least integer stays far from all indices."""


def deferred_casts(blocks: list[Block], wrapped: dict[Op, WrappedIndex]) -> tuple[dict[Op, Op], set[Op]]:
    """The checks of ranges, each with the check of the index that implies it, and the casts to such indices."""
    deferred: dict[Op, Op] = {}
    casts: set[Op] = set()
    for block in blocks:
        later = [op for op in block.ops if op in wrapped]
        ranges = {}
        for op in block.ops if later else ():
            if op.name == "check" and (x := _ranged(op)) is not None:
                ranges[x] = op
            elif _is_whole(op):
                index = next((w for w in later if _comes_of(wrapped[w].index, op.result)
                              and block.ops.index(w) > block.ops.index(op)), None)
                if index is not None:
                    casts.add(op)
                    if (check := ranges.get(op.operands[0])) is not None:
                        deferred.setdefault(check, index)
    return deferred, casts


def index_casts(blocks: list[Block]) -> set[Op]:
    """The casts of floats from which indices are computed, in blocks that call no vector functions."""
    found: set[Op] = set()
    for block in blocks:
        scalar = [op for op in block.ops if OPS[op.name].indices] if any(map(_is_whole, block.ops)) else []
        if any(OPS[op.name].vector for op in block.ops):
            continue
        todo, seen = [v for op in scalar for v in op.operands[OPS[op.name].indices:]], set[Op]()
        while todo:
            op = todo.pop().op
            if op is not None and op.block is block and op not in seen and op.results[0].type == I64:
                seen.add(op)
                todo += op.operands if op.name != "get" else ()
        found |= {op for op in seen if _is_whole(op)}
    return found


def _is_whole(op: Op) -> bool:
    return op.name == "cast" and op.result.type == I64 and dtype_of(op.operands[0].type).is_float


def _ranged(check: Op) -> Value | None:
    """The scalar float ``x`` of a check ``x >= -2**63 and x < 2**63``."""
    both = check.operands[0].op
    if both is None or both.name != "and":
        return None
    low, high = (v.op for v in both.operands)
    if low is None or high is None or low.name != "ge" or high.name != "lt" or low.operands[0] is not high.operands[0]:
        return None
    return low.operands[0] if low.operands[1].const == LOW and high.operands[1].const == HIGH else None


def _comes_of(index: Value, cast: Value) -> bool:
    """True if ``index`` is the cast value, or a minimum of it, or a sum with a small constant."""
    op = index.op
    if index is cast or op is None:
        return index is cast
    if op.name == "minimum":
        return any(_comes_of(v, cast) for v in op.operands)
    if op.name in ("add", "sub"):
        x, y = op.operands
        return y.const is not None and abs(y.const) <= NEAR and _comes_of(x, cast)
    test = op.operands[0].op if op.name == "select" else None
    return (test is not None and test.name in ("gt", "ge") and test.operands[0] is op.operands[2]
            and _comes_of(op.operands[2], cast))
