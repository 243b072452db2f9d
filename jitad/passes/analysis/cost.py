"""A rough estimate of the cost of one iteration of a loop, in units of one addition."""

from __future__ import annotations

from math import prod

from ...ir.builder import Builder
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from .loops import Loop, counted

SOME = 16
"""The assumed number of iterations or elements where it is not known."""
MOST, LARGEST = 1 << 20, 1 << 40
"""Bounds of trip counts and of costs, so that the estimate cannot wrap."""


def estimate(b: Builder, loop: Loop, outer: Loop | None = None) -> Value:
    """The cost of one iteration of ``loop``, emitted at ``b``, which is before ``outer`` (default: before ``loop``).

    An inner loop is counted with its trip count if that is known at ``b``, otherwise with ``SOME`` iterations.
    """
    outer = outer or loop
    inner = {x for child in loop.children for x in child.blocks}
    total = b.const(sum(_cost(op) for x in loop.blocks - inner for op in x.all_ops()))
    for child in loop.children:
        known = counted(child)
        trip = b.const(SOME)
        if known is not None and (known.trip.const is not None or known.trip.block not in outer.blocks):
            trip = b.const(known.trip.const) if known.trip.const is not None else known.trip
        total = b.add(total, b.minimum(b.mul(b.minimum(trip, MOST), estimate(b, child, outer)), LARGEST))
    return total


def _cost(op: Op) -> int:
    if op.name == "call":
        return 64
    definition = OPS.get(op.name)
    if definition is None or definition.cost == 0:
        return 0
    elements = 1
    if not definition.view:
        for v in (*op.operands, *op.results):
            if isinstance(v.type, Array) and op.name not in ("set", "add_at"):
                elements = max(elements, prod(SOME if d is None else d for d in v.type.dims))
    return elements * definition.cost
