"""Writes sums along a short axis of literal size as sums of slices, and products with a short vector too.

``np.sum((x[:, None] - y) ** 2, axis=2)`` of points in a plane has an innermost loop of two iterations, and its
derivative stores arrays with such an axis.  By coordinates, all loops are over the points::

    d := sub(x, y)                       x0, x1 := slices of x        y0, y1 := slices of y
    s := mul(d, d)           becomes     d0 := sub(x0, y0)            d1 := sub(x1, y1)
    t := sum {axes = (2,)} s             t  := add(mul(d0, d0), mul(d1, d1))

The operand must be arithmetic that only the sum reads; rows at indices, ``p[at] - q[to]``, are taken by coordinates
too.  The order of additions is free.  ``p @ d`` of points and a direction is ``p0 * d0 + p1 * d1 + p2 * d2``, one nest
with what reads it, instead of a call.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from ...ir.uses import users
from ..analysis.cfg import substitute

SIZES = range(2, 5)
"""The sizes of a short axis: coordinates, colours and quaternions."""
MOST_OPS = 12
"""The largest expression of which there will be a copy for each slice."""

Readers = Mapping[Value, list[Op]]


def short_axes(module: Module) -> bool:
    """Rewrite all such sums; returns True if there were any."""
    return any([_rewrite(func) for func in module.functions.values() if any(map(_is_short, func.all_ops()))])


def _is_short(op: Op) -> bool:
    """True for a sum along one axis of a short literal size, if the array has other axes that are not."""
    if op.name == "matmul":
        return _is_short_product(op)
    if op.name != "sum" or len(op.attrs["axes"]) != 1 or not isinstance(t := op.operands[0].type, Array):
        return False
    (axis,) = op.attrs["axes"]
    return t.dtype.is_float and t.dims[axis] in SIZES and None in t.dims


def _is_short_product(op: Op) -> bool:
    """True for a product of a matrix and a vector of a short literal size, or of a vector and a matrix."""
    ranks = [v.type.rank for v in op.operands if isinstance(v.type, Array) and v.type.dtype.is_float]
    if sorted(ranks) != [1, 2] or op.attrs.get("ordered"):
        return False
    vector, matrix = op.operands[ranks.index(1)].type, op.operands[ranks.index(2)].type
    assert isinstance(vector, Array) and isinstance(matrix, Array)
    return vector.dims[0] in SIZES and matrix.dims[1 - _behind(op)] == vector.dims[0] and None in matrix.dims


def _behind(op: Op) -> int:
    """The number of axes behind that along which a matrix is multiplied with a vector."""
    first = isinstance(t := op.operands[0].type, Array) and t.rank == 2
    return int(bool(op.attrs.get("ta")) if first else not op.attrs.get("tb"))


def _rewrite(func: Function) -> bool:
    readers, values = users(func.all_ops()), dict[Value, Value]()
    for block in func.blocks:
        ops, term, block.ops, block.term = block.ops, block.term, [], None
        for op in ops:
            if _is_short(op) and ((tree := _tree(op, readers)) or op.name == "matmul"):
                values[op.result] = (_product if op.name == "matmul" else _sum)(Builder(block, op.loc), op, tree)
            else:
                block.ops.append(op)
        block.term = term
    substitute(func, values)
    return bool(values)


def _tree(op: Op, readers: Readers) -> set[Op]:
    """The arithmetic that computes the operand of a sum, and that nothing else reads; none if it is not worthwhile."""
    found: set[Op] = set()
    todo = list(op.operands)
    while todo:
        v = todo.pop()
        if v.op is None or v.op in found or not isinstance(v.type, Array):
            continue
        rows = v.op.name == "take" and op.name == "sum" and op.attrs["axes"] == (v.type.rank - 1,) \
            and isinstance(t := v.op.operands[0].type, Array) and t.rank > 1
        if (rows or OPS[v.op.name].elementwise) and v.block is op.block \
                and all(reader is op or reader in found for reader in readers[v]):
            found.add(v.op)
            todo += v.op.operands[:1] if rows else v.op.operands
    return found if len(found) <= MOST_OPS else set()


def _sum(b: Builder, op: Op, tree: set[Op]) -> Value:
    """Emit the sum of the slices; it begins with 0, since a sum of −0 is 0."""
    v = op.operands[0]
    assert isinstance(v.type, Array)
    (axis,), rank = op.attrs["axes"], v.type.rank
    total = b.const(0.0, v.type.dtype)
    for k in range(v.type.dims[axis] or 0):
        total = b.emit("add", total, _Slice(b, tree, rank - 1 - axis, k).of(v), acc=True)
    return b.typed(total, op.result.type)


def _product(b: Builder, op: Op, tree: set[Op]) -> Value:
    """Emit the sum of the products of slices and elements, in order: that of −0 alone is 0."""
    types = [v.type for v in op.operands if isinstance(v.type, Array)]
    total = b.const(0.0, types[0].dtype)
    for k in range(next(t.dims[0] for t in types if t.rank == 1) or 0):
        x, y = (_Slice(b, tree, _behind(op) if t.rank == 2 else 0, k).of(v) for t, v in zip(types, op.operands))
        total = b.add(total, b.mul(x, y))
    return b.typed(total, op.result.type)


class _Slice:
    """Emits slice ``k`` of arrays along the axis that has ``behind`` axes behind it, without that axis."""

    def __init__(self, b: Builder, tree: set[Op], behind: int, k: int) -> None:
        self.b, self.tree, self.behind, self.k = b, tree, behind, k
        self.known: dict[Value, Value] = {}

    def of(self, v: Value) -> Value:
        if v not in self.known:
            self.known[v] = self._emit(v)
        return self.known[v]

    def _emit(self, v: Value) -> Value:
        b, t = self.b, v.type
        if not isinstance(t, Array) or t.rank <= self.behind:
            return v
        if v.op in self.tree and v.op.name == "take":
            return b.emit("take", self.of(v.op.operands[0]), v.op.operands[1])
        if v.op in self.tree:
            return b.emit(v.op.name, *map(self.of, v.op.operands), **v.op.attrs)
        axis = t.rank - 1 - self.behind
        k = b.const(0 if t.dims[axis] == 1 else self.k)
        if t.rank == 1:
            return b.get(v, k)
        left = [n for i, n in enumerate(b.dims(v)) if i != axis]
        if v.op is not None and v.op.name == "reshape" and (source := _without_ones(v.op.operands[0], t)) is not None:
            if t.dims[axis] == 1:                        # the source has no such axis
                return b.reshape(source, *left)
            v, axis = source, sum(n != 1 for n in t.dims[:axis])
        spec = [x for i, n in enumerate(b.dims(v)) for x in ((k, 1, 1) if i == axis else (0, n, 1))]
        return b.reshape(b.slice(v, *spec), *left)


def _without_ones(v: Value, t: Array) -> Value | None:
    """An array that ``t`` is with more axes of size 1, as ``p[:, None]``; ``None`` if it is not such a one."""
    return v if isinstance(v.type, Array) and v.type.dims == tuple(n for n in t.dims if n != 1) else None
