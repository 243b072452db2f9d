"""Dot products of vectors in loops, such as ``np.sum(a[i] * b[j])`` and ``a[i] @ b[j]``, as products of factors.

They are what an innermost loop over ``k`` would add up.  Its body is emitted here, but put into no block: the ops are
the formula of a factor (``factors.py``), for which the counter ``k`` need not be anywhere else either.
"""

from __future__ import annotations

from ...ir.graph import Block, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Array, Scalar
from ..analysis.loops import Loop
from .factors import is_size

DEEPEST = 4
"""The most ops on vectors, one on the result of another, in a factor."""


def dot_product(op: Op) -> tuple[Value, Value] | None:
    """The vectors whose products an op adds up."""
    x = op.operands[0]
    if not isinstance(x.type, Array) or x.type.rank != 1 or not x.type.dtype.is_float or x.type.dims[0] == 1:
        return None
    if op.name == "matmul":
        x, y = op.operands
        same = isinstance(y.type, Array) and y.type.rank == 1 and not op.attrs.get("ta") and not op.attrs.get("tb")
        return (x, y) if same else None
    if op.name != "sum" or x.op is None or x.op.name != "mul" or op.result.type is not x.type.dtype:
        return None
    x, y = x.op.operands
    return x, y


class Elements:
    """Emits elements of vectors at the index ``k``, in a loop inside of ``rows``."""

    def __init__(self, block: Block, rows: Loop) -> None:
        self.block, self.rows = block, rows
        self.k = Value(I64, block, 0)
        self.matrix: tuple[Value, int] | None = None
        """A matrix of which a vector is a row or a column, and the axis of ``k``."""

    def of(self, v: Value, depth: int = DEEPEST) -> Value | None:
        """The element of ``v``; None if it is not cheap, or not made of matrices and vectors from outside."""
        if isinstance(v.type, Scalar):
            return v
        if not isinstance(v.type, Array) or v.type.rank != 1 or v.type.dims[0] == 1:
            return None
        if v.block not in self.rows.blocks:
            return self._emit("get", [v, self.k], v.type.dtype)
        op = v.op
        if op is None or not depth:
            return None
        if op.name == "get" and len(op.operands) == 2:
            return self._of_matrix(op.operands[0], 1, op.operands[1])
        if op.name == "reshape" and op.operands[0].op is not None and op.operands[0].op.name == "slice":
            return self._of_column(op.operands[0].op)
        if op.name in ("broadcast_to", "fill"):
            return self.of(op.operands[0]) if isinstance(op.operands[0].type, Scalar) else None
        if not OPS[op.name].elementwise or OPS[op.name].cost >= EXPENSIVE:
            return None
        parts = [self.of(x, depth - 1) for x in op.operands]
        known = [x for x in parts if x is not None]
        return self._emit(op.name, known, v.type.dtype, op.attrs) if len(known) == len(parts) else None

    def _of_column(self, op: Op) -> Value | None:
        """``a[:, i]`` is a slice of one column."""
        a, *spec = op.operands
        if len(spec) != 6 or not isinstance(op.result.type, Array) or op.result.type.dims[1] != 1:
            return None
        start, size, step, column = spec[:4]
        whole = start.const == 0 and step.const == 1 and is_size(size, a, 0)
        return self._of_matrix(a, 0, column) if whole else None

    def _of_matrix(self, a: Value, axis: int, at: Value) -> Value | None:
        assert isinstance(a.type, Array)
        if a.type.rank != 2:
            return None
        self.matrix = a, axis
        return self._emit("get", [a, at, self.k] if axis else [a, self.k, at], a.type.dtype)

    def _emit(self, name: str, operands: list[Value], t: Scalar, attrs: dict[str, object] | None = None) -> Value:
        op = Op(name, operands, [t], dict(attrs or {}))
        op.block = self.block
        return op.result
