"""Where a size comes from, by the size rule of the op that makes the array."""

from __future__ import annotations

from .graph import Value
from .ops import OPS

Axis = tuple[Value, int]


def size_origin(v: Value, axis: int) -> Value | Axis | None:
    """The value that a size is, the axis of an operand that has it, or ``None`` where the array itself makes it."""
    definition = OPS.get(v.op.name) if v.op is not None else None
    if definition is None or definition.sizes is None:
        return None
    found: Value | Axis | None = definition.sizes(v.op, axis)
    return found
