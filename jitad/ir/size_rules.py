"""Size rules: the origin of each size of an op's result; ``ops.py`` assigns them to the ops.

A rule takes the op and an axis of its result.  It returns the value that is the size, the axis of an operand that has
the same size, or None if the op itself determines the size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .types import Array, dims_of

SizeRule = Callable[[Any, int], Any]        # (ir.graph.Op, axis) -> Value | tuple[Value, int] | None


def operand(first: int, step: int = 1) -> SizeRule:
    """The sizes are operands: ``first``, and every ``step``-th after it."""
    return lambda op, axis: op.operands[first + step * axis]


def same_shape(op: Any, axis: int) -> Any:
    """The shape of the first operand."""
    return op.operands[0], axis


def permuted(op: Any, axis: int) -> Any:
    return op.operands[0], op.attrs["perm"][axis]


def subarray(op: Any, axis: int) -> Any:
    """``a[i, …]``: the axes after those that have an index."""
    return op.operands[0], axis + len(op.operands) - 1


def joined(op: Any, axis: int) -> Any:
    return None if axis == op.attrs["axis"] else (op.operands[0], axis)


def gathered(op: Any, axis: int) -> Any:
    """``a[index]``: the shape of the index array, then the rest of the array's."""
    n = len(dims_of(op.operands[1].type))
    return (op.operands[1], axis) if axis < n else (op.operands[0], axis - n + 1)


def reduced(op: Any, axis: int) -> Any:
    array = op.operands[0]
    axes = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return array, [i for i in range(len(dims_of(array.type))) if i not in axes][axis]


def product(op: Any, axis: int) -> Any:
    """Rows come from the first operand, columns from the second, and the batch axis from the first."""
    a, b = op.operands
    n, m = len(dims_of(a.type)), len(dims_of(b.type))
    if n == 3 and axis == 0:
        return a, 0
    row = n > 1 and axis == n - 2
    return (a, n - 1 if op.attrs.get("ta") else n - 2) if row else (b, m - 2 if op.attrs.get("tb") else m - 1)


def broadcast(op: Any, axis: int) -> Any:
    """An operand that has the axis and is not broadcast along it."""
    n = len(dims_of(op.result.type))
    for v in op.operands:
        if isinstance(v.type, Array):
            own = axis - (n - v.type.rank)
            if own >= 0 and v.type.dims[own] is None:
                return v, own
    return None
