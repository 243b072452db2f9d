"""Products of vectors in loops, such as ``np.sum(a[i] * b[j])``, ``a[i] @ b[j]`` and ``b @ a[i]``, as sums of products.

They are what an innermost loop over ``k`` would add up, and for ``b @ a[i]`` a loop over ``j`` around it.  The body of
such loops is emitted here, but put into no block: its ops are the formulas of the factors (``factors.py``), for which
the counters need not be anywhere else either.
"""

from __future__ import annotations

from ...ir.graph import Block, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Array, Scalar
from ..analysis.loops import Loop
from .factors import is_size

DEEPEST = 4
"""The most ops on vectors, one on the result of another, in a factor."""


class Elements:
    """Emits elements of vectors at the index ``k``, in a loop inside of ``rows``."""

    def __init__(self, block: Block, rows: Loop) -> None:
        self.block, self.rows = block, rows
        self.k, self.j = Value(I64, block, 0), Value(I64, block, 0)

    def of_dot_product(self, op: Op) -> tuple[Value, Value] | None:
        """The factors that ``op`` multiplies and adds up, if it is a dot product."""
        if isinstance(op.result.type, Array):
            return None
        x, y = op.operands[0], op.operands[-1]
        if op.name == "sum":
            product = x.op
            if product is None or product.name != "mul" or not isinstance(x.type, Array) or x.type.rank != 1:
                return None
            x, y = product.operands
        return self._both(self.of(x), self.of(y))

    def of_matrix_and_vector(self, op: Op) -> tuple[Value, Value] | None:
        """The factors of element ``j`` of the product of a matrix from outside and a vector."""
        t = op.result.type
        if op.name != "matmul" or not isinstance(t, Array) or t.rank != 1:
            return None
        x, y = op.operands
        by_rows = x.type.rank == 2 if isinstance(x.type, Array) else False
        matrix, vector = (x, y) if by_rows else (y, x)
        if matrix.block in self.rows.blocks or not isinstance(matrix.type, Array):
            return None
        along = by_rows is not bool(op.attrs.get("ta" if by_rows else "tb"))       # element [j, k]
        at = [self.j, self.k] if along else [self.k, self.j]
        return self._both(self._emit("get", [matrix, *at], matrix.type.dtype), self.of(vector))

    @staticmethod
    def _both(x: Value | None, y: Value | None) -> tuple[Value, Value] | None:
        return None if x is None or y is None or x.type is not y.type else (x, y)

    def of(self, v: Value, depth: int = DEEPEST) -> Value | None:
        """The element of ``v``; None if it is not cheap, or not made of matrices and vectors from outside."""
        if isinstance(v.type, Scalar):
            return v
        if not isinstance(v.type, Array) or v.type.rank != 1 or v.type.dims[0] == 1 or not v.type.dtype.is_float:
            return None
        if v.block not in self.rows.blocks:
            return self._emit("get", [v, self.k], v.type.dtype)
        op = v.op
        if op is None or not depth:
            return None
        if op.name == "get" and len(op.operands) == 2:
            return self._of_matrix(op.operands[0], [op.operands[1], self.k])
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
        return self._of_matrix(a, [self.k, column]) if whole else None

    def _of_matrix(self, a: Value, at: list[Value]) -> Value | None:
        assert isinstance(a.type, Array)
        return self._emit("get", [a, *at], a.type.dtype) if a.type.rank == 2 else None

    def _emit(self, name: str, operands: list[Value], t: Scalar, attrs: dict[str, object] | None = None) -> Value:
        op = Op(name, operands, [t], dict(attrs or {}))
        op.block = self.block
        return op.result
