"""Finds the loop-carried sums whose additions must not be contracted into a fused multiply-add, and products for which
each addition becomes one.

The next iteration waits for the addition only.  If ``s += x * y`` is contracted, it waits for the fused operation,
which takes four cycles on many processors.  An addition takes three, and the product can be computed beforehand.
Rows of a sparse matrix are too short for this: the processor computes several at once, and a fused operation is one
instruction less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir.graph import Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar, is_float_scalar
from ...ir.uses import ops_of, users
from ...passes.analysis.loops import Loop, LoopForest, reads_trip_count

FEW = 8
"""The most float ops of a loop that waits for its sum: with more, an iteration takes as long as the addition anyway."""
SMALL = 24
"""The most ops of a loop that has several vectors of partial sums."""


def carried_sums(forest: LoopForest, fastmath: bool = False) -> set[Op]:
    """The float additions and subtractions that update a loop-carried scalar which nothing else reads.

    Under ``fastmath`` those in loops that wait for them: others are vectorised as several sums, or do more besides.
    """
    found: dict[Value, Op] = {}
    for loop in forest.loops:
        if fastmath and not _waits(loop) or reads_trip_count(loop):
            continue
        for p, a in zip(loop.head.params, loop.back_edge().args) if loop.latch is not None else ():
            op = a.op
            if op is None or op.name not in ("add", "sub") or not isinstance(p.type, Scalar) or not p.type.is_float:
                continue
            if (op.operands[0] is p) != (op.name == "add" and op.operands[1] is p):
                found[p] = op
    readers = users(ops_of(forest.dom.order)) if found else {}
    return {op for p, op in found.items() if len(readers.get(p, ())) == 1}


def has_free_sums(loop: Loop, fastmath: bool) -> bool:
    """True if an innermost loop does little but add to carried floats, in an order that is free, and writes nothing.

    Each of several vectors of partial sums is then waited for less often: the gradient of a layer normalisation takes
    0.8 of the time (Intel Xeon with AVX-512).
    """
    if loop.blocks != {loop.head} or reads_trip_count(loop) or sum(op.name != "const" for op in loop.head.ops) > SMALL:
        return False
    if any(OPS[op.name].consumes for op in loop.head.ops):
        return False
    sums = [back.op for p, back in loop.back_edge().passed() if is_float_scalar(p.type)]
    return bool(sums) and all(op is not None and op.name in ("add", "sub") and (fastmath or op.attrs.get("acc"))
                              for op in sums)


def repeated_products(ops: Iterable[Op], apart: Collection[Op]) -> set[Op]:
    """The products that are added to the cotangent of an element, or subtracted, and to something else too.

    LLVM multiplies once and adds twice; a fused operation each is one less.  The forces of springs take 0.93 of the
    time.
    """
    added = {op.operands[1] for op in ops if op.name == "add_at" and op.attrs.get("acc")}
    terms = {v if v.op.name != "neg" else v.op.operands[0]: v.block for v in added if v.op is not None}
    found = {v: v.op for v, block in terms.items() if v.op is not None and v.op.name == "mul" and v.block is block
             and not v.op.attrs and v.op not in apart and is_float_scalar(v.type)}
    readers = users(ops) if found else {}
    return {op for v, op in found.items() if len(readers[v]) > 1}


def _waits(loop: Loop) -> bool:
    """True if a loop is not vectorised, as it has checks, and does little but add."""
    ops = list(ops_of(loop.blocks))
    floats = [OPS[op.name].cost for op in ops if len(op.results) == 1 and isinstance(op.result.type, Scalar)
              and op.result.type.is_float and OPS[op.name].elementwise]
    return any(op.name == "check" for op in ops) and len(floats) <= FEW and max(floats, default=0) < EXPENSIVE
