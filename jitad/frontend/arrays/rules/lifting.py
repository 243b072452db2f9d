"""Conversion of Python scalars, lists and constant arrays to stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import TypeInferenceError
from ....ir.graph import Value
from ....ir.types import F64, Scalar, dtype_of
from ...values.closures import Range
from ...values.lattice import describe
from ...values.values import Context, Sym
from . import lengths, promotion
from .lengths import check_room, range_length

_MATERIALISED = 4096        # larger constant arrays are refused: they should be arguments


def lift(t: Context, x: Any) -> Sym:
    """A stand-in for any scalar, array, range, or nested list of them."""
    if isinstance(x, Sym):
        return x
    if isinstance(x, np.generic):
        return Sym(t.builder.const(x.item(), _dtype(t, x.dtype)), False)
    if isinstance(x, (bool, int, float)):
        return Sym(t.builder.const(_in_range(t, x)), True)
    if isinstance(x, np.ndarray):
        return constant(t, x)
    if isinstance(x, (list, tuple)):
        return from_list(t, x)
    if isinstance(x, (range, Range)):
        return _of_range(t, x)
    raise TypeInferenceError(f"{describe(x)} is neither a number nor an array", t.loc)


def _in_range(t: Context, x: Any) -> Any:
    if isinstance(x, int) and not -2**63 <= x < 2**63:
        promotion.refuse(t, f"the integer {x} does not fit 64 bits", "float(...)")
    return x


def _dtype(t: Context, dtype: np.dtype) -> Scalar:
    found = promotion.dtype_arg(t, dtype)
    assert found is not None
    return found


def constant(t: Context, x: np.ndarray) -> Sym:
    """An array that is known while tracing, as constants in the IR."""
    if x.ndim == 0:
        return lift(t, x[()])
    dtype = _dtype(t, x.dtype)
    shape = [t.builder.const(n) for n in x.shape]
    flat = x.ravel()
    if x.size and (flat == flat[0]).all() and not np.signbit(flat).any():
        return Sym(t.builder.fill(t.builder.const(flat[0].item(), dtype), *shape), False)
    if x.size > _MATERIALISED:
        promotion.refuse(t, f"a constant array of {x.size} elements", "pass it as an argument")
    elements = [t.builder.const(v.item(), dtype) for v in flat]
    return Sym(promotion.reshape(t, vector(t, elements, dtype), shape), False)


def _of_range(t: Context, x: range | Range) -> Sym:
    e, given = t.builder, (x.start, x.stop, x.step) if isinstance(x, range) else x.parts()
    start, stop, step = (promotion.to_i64(t, lift(t, v).value) for v in given)
    t.check(e.ne(step, 0), "ValueError", "range() arg 3 must not be zero")
    n = range_length(t, start, stop, step)
    check_room(t, [n])
    return Sym(e.add(e.mul(e.iota(n), step), start), False)


def vector(t: Context, elements: Sequence[Value], dtype: Scalar) -> Value:
    """A new vector of these scalars."""
    out = t.builder.empty(t.builder.const(len(elements)), dtype=dtype)
    for i, v in enumerate(elements):
        out = t.builder.set(out, v, t.builder.const(i))
    return out


def from_list(t: Context, xs: Sequence[Any], dtype: Scalar | None = None) -> Sym:
    """``np.array`` of a nested list: one axis for each level, one dtype for all elements."""
    if not xs:
        return Sym(t.builder.empty(t.builder.const(0), dtype=dtype or F64), False)
    items = [from_list(t, x) if isinstance(x, (list, tuple)) else lift(t, x) for x in xs]
    common = dtype or promotion.promote(*map(promotion.strong, items))[0]
    return Sym(stack(t, [promotion.as_element(t, x, common) for x in items], 0), False)


def as_stored(t: Context, x: Any, dtype: Scalar) -> Sym:
    """A value that is written into elements of ``dtype``: a list becomes an array of that dtype."""
    return from_list(t, x, dtype) if isinstance(x, (list, tuple)) else lift(t, x)


def stack(t: Context, vs: Sequence[Value], axis: int) -> Value:
    """Joins values of equal shape along a new axis."""
    if len({promotion.rank(v) for v in vs}) > 1:
        raise ValueError("setting an array element with a sequence. The requested array has an inhomogeneous shape")
    if not promotion.rank(vs[0]):
        return vector(t, vs, dtype_of(vs[0].type))
    same_shape(t, vs, "all input arrays must have the same shape")
    return t.builder.concat(*[promotion.with_axis(t, v, axis) for v in vs], axis=axis)


def same_shape(t: Context, vs: Sequence[Value], message: str, but: int | None = None) -> None:
    """Checks that the arrays agree in all sizes, except on axis ``but``."""
    for axis in range(promotion.rank(vs[0])):
        if axis == but:
            continue
        first, *rest = [lengths.size(t, v, axis) for v in vs]
        for other in rest:
            if (c := lengths.equal_sizes(t, first, other)) is not None:
                t.check(c, "ValueError", message)
