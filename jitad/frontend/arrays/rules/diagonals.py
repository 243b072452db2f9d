"""Diagonals, traces and norms."""

from __future__ import annotations

import functools
from typing import Any

from ....ir.types import I64, dtype_of
from ...values.values import Context, Sym
from . import promotion
from .lengths import check_room, size, sizes
from .lifting import lift
from .promotion import axes_arg, axis_arg, inexact, must_be_static, rank, refuse
from .reductions import adding, extreme, reduce


def diagonal(t: Context, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Sym:
    """The diagonals along two axes; they become the last axis of the result."""
    v = lift(t, a).value
    if rank(v) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = axis_arg(t, axis1, rank(v)), axis_arg(t, axis2, rank(v))
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    perm = tuple([k for k in range(rank(v)) if k not in (i, j)] + [i, j])
    v = v if perm == tuple(range(rank(v))) else t.builder.transpose(v, perm=perm)
    e, (*around, rows, cols) = t.builder, sizes(t, v)
    k = promotion.int_value(t, offset)
    down, right = e.maximum(e.sub(0, k), 0), e.maximum(k, 0)
    n = e.maximum(e.minimum(e.sub(rows, down), e.sub(cols, right)), 0)
    start = e.add(e.mul(down, cols), right)
    on = e.add(e.mul(e.iota(n), e.add(cols, 1)), start)
    if not around:
        return Sym(e.take(promotion.flat(t, v), on), False)
    lanes = e.transpose(promotion.reshape(t, v, [functools.reduce(e.mul, around), e.mul(rows, cols)]), perm=(1, 0))
    return Sym(promotion.reshape(t, e.transpose(e.take(lanes, on), perm=(1, 0)), [*around, n]), False)


def diag(t: Context, v: Any, k: Any = 0) -> Sym:
    x = lift(t, v).value
    if rank(x) == 2:
        return diagonal(t, v, k)
    if rank(x) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    e, n = t.builder, size(t, x, 0)
    off = promotion.int_value(t, k)
    if off.const is None or abs(off.const) >= 1 << 44:       # the array cannot fit in memory, and the sum may overflow
        t.check(e.and_(e.lt(off, 1 << 44), e.gt(off, -1 << 44)), "MemoryError", "Unable to allocate an array")
    side = e.add(n, e.abs(off) if off.const is None else e.const(abs(off.const)))
    check_room(t, [side, side])
    start = e.add(e.mul(e.maximum(e.sub(0, off), 0), side), e.maximum(off, 0))
    on = e.add(e.mul(e.iota(n), e.add(side, 1)), start)
    zero = e.fill(e.const(0, dtype_of(x.type)), e.mul(side, side))
    return Sym(e.reshape(e.put(zero, x, on), side, side), False)


def trace(t: Context, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Sym:
    return adding("sum")(t, diagonal(t, a, offset, axis1, axis2), -1, dtype)


def norm(t: Context, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Sym:
    value = lift(t, x)
    v = promotion.as_dtype(t, value, inexact(dtype_of(value.value.type)))
    e = t.builder
    axes = axes_arg(t, axis, rank(v))
    if ord == "fro" and len(axes) != 2:
        raise ValueError("Invalid norm order 'fro' for vectors")
    if ord is None or ord == "fro" or (ord == 2 and len(axes) == 1):
        return Sym(e.sqrt(reduce(t, "sum", e.mul(v, v), axes, keepdims)), False)
    size_of = Sym(e.abs(v), False)
    ord = must_be_static(t, ord, "the order of a norm")
    if len(axes) == 1:
        if ord == float("inf"):
            return extreme("max")(t, size_of, axes, keepdims=keepdims)
        if ord == -float("inf"):
            return extreme("min")(t, size_of, axes, keepdims=keepdims)
        if ord == 0:
            nonzero = reduce(t, "sum", promotion.cast(t, e.ne(v, 0), I64), axes, keepdims)
            return Sym(promotion.cast(t, nonzero, dtype_of(v.type)))
        if ord == 1:
            return adding("sum")(t, size_of, axes, keepdims=keepdims)
        if isinstance(ord, (int, float)):
            return Sym(e.pow(reduce(t, "sum", e.pow(size_of.value, float(ord)), axes, keepdims), 1.0 / ord), False)
    if len(axes) > 2 or not axes:
        raise ValueError("Improper number of dimensions to norm.")
    if len(axes) == 1 or ord not in (1, -1, 2, -2, float("inf"), -float("inf"), "nuc"):
        raise ValueError(f"Invalid norm order {ord!r} for vectors" if len(axes) == 1 else
                         "Invalid norm order for matrices.")
    if ord in (2, -2, "nuc"):
        of = {2: "the largest", -2: "the smallest", "nuc": "the sum"}[ord]
        refuse(t, f"np.linalg.norm of a matrix with ord={ord!r}", f"{of} of np.linalg.svd(a, compute_uv=False)")
    rows, columns = axes if axis is None else (axis_arg(t, i, rank(v)) for i in axis)
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    total = Sym(reduce(t, "sum", size_of.value, (summed,), keepdims), False)
    along = other if keepdims or other < summed else other - 1
    return extreme("max" if ord > 0 else "min")(t, total, along, keepdims=keepdims)
