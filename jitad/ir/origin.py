"""Where a size comes from: the ops that keep, give or move the sizes of arrays, in one place."""

from __future__ import annotations

from .graph import Op, Value
from .ops import OPS
from .types import Array, dims_of

Axis = tuple[Value, int]

SAME_SHAPE = frozenset("set add_at set_slice add_slice put add_put copy as_type cast stop cumsum cumprod".split())
_REDUCTIONS = frozenset("sum prod max min all any argmax argmin".split())


def size_origin(v: Value, axis: int) -> Value | Axis | None:
    """The value that a size is, the axis of an operand that has it, or ``None`` where the array itself makes it."""
    op = v.op
    if op is None:
        return None
    if op.name in ("fill", "broadcast_to", "reshape"):
        return op.operands[1 + axis]
    if op.name == "slice":
        return op.operands[2 + 3 * axis]
    if op.name in ("empty", "iota"):
        return op.operands[axis]
    if op.name in SAME_SHAPE or (op.name == "concat" and axis != op.attrs["axis"]):
        return op.operands[0], axis
    if op.name == "transpose":
        return op.operands[0], op.attrs["perm"][axis]
    if op.name == "get":
        return op.operands[0], axis + len(op.operands) - 1
    if op.name == "take":
        n = len(dims_of(op.operands[1].type))
        return (op.operands[1], axis) if axis < n else (op.operands[0], axis - n + 1)
    if op.name in _REDUCTIONS:
        return _reduced(op, axis)
    if op.name == "matmul":
        return _product(op, axis)
    return _elementwise(op, axis) if OPS[op.name].elementwise else None


def _reduced(op: Op, axis: int) -> Axis:
    array = op.operands[0]
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return array, [i for i in range(len(dims_of(array.type))) if i not in axes][axis]


def _product(op: Op, axis: int) -> Axis:
    """Rows are the first operand's, columns the second's, and both have the axis that counts products."""
    a, b = op.operands
    n, m = len(dims_of(a.type)), len(dims_of(b.type))
    if n == 3 and axis == 0:
        return a, 0
    row = n > 1 and axis == n - 2
    return (a, n - 1 if op.attrs.get("ta") else n - 2) if row else (b, m - 2 if op.attrs.get("tb") else m - 1)


def _elementwise(op: Op, axis: int) -> Axis | None:
    """An operand that has the axis and is not broadcast along it."""
    n = len(dims_of(op.result.type))
    for v in op.operands:
        if isinstance(v.type, Array):
            own = axis - (n - v.type.rank)
            if own >= 0 and v.type.dims[own] is None:
                return v, own
    return None
