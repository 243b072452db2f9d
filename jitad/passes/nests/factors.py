"""Factors of products: an element of a matrix, or a formula of elements, in a loop that adds up products.

In the loop with the counter ``k``, inside that with the counter ``i``, a *factor* is made of elements ``a[i, k]`` (or
``a[k, i]``, the same way round in all of it), ``u[i]`` and ``w[k]`` of arrays from outside, of scalars from there, and
of elementwise arithmetic.  All its values together are a matrix, which the same formula computes from matrices and
vectors::

    (x[k, i] - mean[i]) * weight[k]          (x[0:n, first:first+m] - mean[None, first:first+m]) * weight[0:n, None]

A product is needed only if all loops around have iterations.  Otherwise the arrays may be smaller than the loops, so
what is read of them is limited to their sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, is_float_scalar
from ..analysis.loops import Loop

MOST = 8
"""The most ops of a formula."""
SHORTEST = 8
"""The least number of products in a sum, if it is known: shorter sums take less time than to store them."""


Outside = Callable[[Value, list[Value]], Value | None]
"""For an array of the loops and an index, the array from outside that has the same element there."""


@dataclass
class Factor:
    """``ops``: those of the formula, operands first, each access with its array from outside the loops.

    ``turned``: the counter of the sum, ``k``, is the first index.
    """

    value: Value
    ops: dict[Op, Value | None]
    counter: Value
    k: Value
    turned: bool

    @staticmethod
    def of(value: Value, rows: Loop, counter: Value, k: Value) -> Factor | None:
        """The factor that ``value`` is in a loop inside of ``rows``, if it is one."""
        def outside(array: Value, at: list[Value]) -> Value | None:
            return array if array.block not in rows.blocks else None

        found = Factor.formula(value, rows, counter, k, outside)
        return found if found is not None and found.matrices() else None

    @staticmethod
    def formula(value: Value, rows: Loop, counter: Value, k: Value, outside: Outside) -> Factor | None:
        """The same, also if no matrix is in the formula."""
        ops: dict[Op, Value | None] = {}
        if not _collect(value, rows, {counter, k}, ops, outside):
            return None
        ways = {op.operands[1] is k for op in ops if op.name == "get" and len(op.operands) == 3}
        return Factor(value, ops, counter, k, True in ways) if len(ways) < 2 else None

    def matrices(self) -> list[Value]:
        return [array for op, array in self.ops.items() if array is not None and len(op.operands) == 3]

    def _axis(self, of_sums: bool) -> int:
        return int(of_sums is not self.turned)

    def size(self, b: Builder, of_sums: bool = False) -> Value:
        """The number of sums, or of products in a sum, if all elements of a matrix are taken."""
        return b.emit("dim", self.matrices()[0], axis=self._axis(of_sums))

    def is_short(self) -> bool:
        """True if sums are known to be few, or of few products."""
        t = self.matrices()[0].type
        return isinstance(t, Array) and any(n is not None and n < SHORTEST for n in t.dims)

    def exact(self, size: Value) -> bool:
        """True if all matrices have a vector for each of ``size`` iterations."""
        return all(is_size(size, a, self._axis(False)) for a in self.matrices())

    def limited(self, b: Builder, n: Value, first: Value | None = None, of_sums: bool = False) -> Value:
        """The number of iterations, at most as many as there are elements from ``first`` on."""
        for a in self.matrices():
            axis = self._axis(of_sums)
            if not is_size(n, a, axis):
                size = b.emit("dim", a, axis=axis)
                n = b.minimum(n, size if first is None else b.maximum(b.sub(size, first), 0))
        return n

    def vectors(self, b: Builder, size: Value, depth: Value) -> dict[Op, Value]:
        """The vectors of the formula, with just so many elements."""
        return {op: of_size(b, array, (depth if op.operands[1] is self.k else size,))
                for op, array in self.ops.items() if array is not None and len(op.operands) == 2}

    def matrix(self, b: Builder, vectors: dict[Op, Value], first: Value, size: Value, depth: Value) -> Value:
        """The values for ``size`` iterations from ``first`` on, each with ``depth`` of the sum."""
        zero, one = b.const(0), b.const(1)
        spec = {self.counter: (first, size, one), self.k: (zero, depth, one)}
        order = (self.k, self.counter) if self.turned else (self.counter, self.k)
        made: dict[Value, Value] = {}
        for op, array in self.ops.items():
            if op in vectors:
                at = op.operands[1]
                part = b.slice(vectors[op], *spec[at])
                made[op.result] = b.reshape(part, *(spec[v][1] if v is at else one for v in order))
            elif array is not None:
                whole = first.const == 0 and all(is_size(spec[v][1], array, axis) for axis, v in enumerate(order))
                made[op.result] = array if whole else b.slice(array, *(x for v in order for x in spec[v]))
            else:
                made[op.result] = b.emit_op(op.name, [made.get(v, v) for v in op.operands], **op.attrs).result
        return made.get(self.value, self.value)


def _collect(v: Value, rows: Loop, counters: set[Value], ops: dict[Op, Value | None], outside: Outside) -> bool:
    """Enter the ops of a formula, operands first; False if it is none."""
    if v.block not in rows.blocks:
        return is_float_scalar(v.type)
    op = v.op
    if op is None or len(ops) > MOST or not isinstance(v.type, Scalar) or not v.type.is_float:
        return False
    if op in ops:
        return True
    array = None
    if op.name == "get":
        at = op.operands[1:]
        if len(at) > 2 or len(set(at)) != len(at) or not counters.issuperset(at):
            return False
        array = outside(op.operands[0], at)
        if array is None:
            return False
    elif op.name != "const" and (not OPS[op.name].elementwise
                                 or not all(_collect(x, rows, counters, ops, outside) for x in op.operands)):
        return False
    ops[op] = array
    return True


def of_size(b: Builder, a: Value, sizes: tuple[Value, ...]) -> Value:
    """The array, which has these sizes if the product is needed; in any case an array of these sizes."""
    if all(is_size(n, a, axis) for axis, n in enumerate(sizes)):
        return a
    zero, one = b.const(0), b.const(1)
    part = b.slice(a, *(x for n, size in zip(sizes, b.dims(a)) for x in (zero, b.minimum(n, size), one)))
    assert isinstance(part.type, Array)
    zeros = b.emit("fill", b.const(0.0, part.type.dtype), *sizes)
    return b.set_slice(zeros, part, *(x for _ in sizes for x in (zero, one)))


def is_size(n: Value, a: Value, axis: int) -> bool:
    """True if ``a`` is known to have the size ``n`` along ``axis``."""
    assert isinstance(a.type, Array)
    if n.const is not None:
        return bool(a.type.dims[axis] == n.const)
    return n.op is not None and n.op.name == "dim" and n.op.operands[0] is a and n.op.attrs["axis"] == axis
