"""Finds the loop-carried sums whose additions must not be contracted into a fused multiply-add.

The next iteration waits for the addition only.  If ``s += x * y`` is contracted, it waits for the fused operation,
which takes four cycles on many processors.  An addition takes three, and the product can be computed beforehand.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...ir.types import Scalar
from ...ir.uses import ops_of, users
from ...passes.analysis.loops import LoopForest


def carried_sums(forest: LoopForest) -> set[Op]:
    """The float additions and subtractions that update a loop-carried scalar which nothing else reads."""
    found: dict[Value, Op] = {}
    for loop in forest.loops:
        for p, a in zip(loop.head.params, loop.back_edge().args) if loop.latch is not None else ():
            op = a.op
            if op is None or op.name not in ("add", "sub") or not isinstance(p.type, Scalar) or not p.type.is_float:
                continue
            if (op.operands[0] is p) != (op.name == "add" and op.operands[1] is p):
                found[p] = op
    readers = users(ops_of(forest.dom.order)) if found else {}
    return {op for p, op in found.items() if len(readers.get(p, ())) == 1}
