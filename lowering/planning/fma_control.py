"""Sums that loops carry, one term an iteration: the addition is all that the next iteration waits for.

``s += x * y`` contracted into one operation makes it wait for a multiplication and an addition (four cycles on many
processors, where an addition alone takes three), although the product could be there before.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...ir.types import Scalar
from ...ir.uses import ops_of, users
from ...passes.analysis.loops import LoopForest


def carried_sums(forest: LoopForest) -> set[Op]:
    """The additions to (and subtractions from) a float that its loop carries and reads nowhere else."""
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
