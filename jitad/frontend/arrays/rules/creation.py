"""Array creation: from sizes, from scalars, or in the shape of another array; copies and ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ir.graph import Value
from ....ir.types import ALL, F64, I64, U64, Scalar, dtype_of
from ...values.values import Context, Sym
from . import lengths, promotion
from .lengths import MOST, check_room, nonnegative, range_length, size
from .lifting import as_stored, from_list, lift
from .operators import BINARY
from .promotion import NO, Rule, dtype_arg, inexact, int_value, promote, refuse


def shape_arg(t: Context, shape: Any) -> list[Value]:
    """The sizes of a new array as values; emits a check that they are not negative."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    out = [int_value(t, n, "a size") for n in items]
    for n in out:
        if not nonnegative(n):
            t.check(t.builder.ge(n, 0), "ValueError", "negative dimensions are not allowed")
    return out


def new_shape(t: Context, shape: Any) -> list[Value]:
    """The sizes of a new array; emits a check that it fits in memory, even if the array is optimised away."""
    sizes = shape_arg(t, shape)
    check_room(t, sizes)
    return sizes


def _filled(t: Context, shape: Any, scalar: Value) -> Sym:
    sizes = new_shape(t, shape)
    return Sym(t.builder.fill(scalar, *sizes) if sizes else scalar, False)


def filled_with(number: int) -> Rule:
    def rule(t: Context, shape: Any, dtype: Any = None, order: str = "C") -> Sym:
        return _filled(t, shape, t.builder.const(number, dtype_arg(t, dtype) or F64))
    return rule


def empty(t: Context, shape: Any, dtype: Any = None, order: str = "C") -> Sym:
    element = dtype_arg(t, dtype) or F64
    sizes = new_shape(t, shape)
    return Sym(t.builder.empty(*sizes, dtype=element) if sizes else t.builder.const(0, element), False)


def full(t: Context, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Sym:
    x = lift(t, fill_value)
    value = promotion.as_dtype(t, x, dtype_arg(t, dtype) or dtype_of(x.value.type))
    if promotion.rank(value):
        return Sym(promotion.broadcast_to(t, value, new_shape(t, shape)), False)
    return _filled(t, shape, value)


def like(number: int | None) -> Rule:
    """The rule of ``zeros_like``, ``ones_like`` (``number``) and ``empty_like`` (None)."""
    def rule(t: Context, prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True,
             shape: Any = None) -> Sym:
        v = lift(t, prototype).value
        element = dtype_arg(t, dtype) or dtype_of(v.type)
        sizes = lengths.sizes(t, v) if shape is None else new_shape(t, shape)
        if number is None and sizes:
            return Sym(t.builder.empty(*sizes, dtype=element), False)
        scalar = t.builder.const(number or 0, element)
        return Sym(t.builder.fill(scalar, *sizes) if sizes else scalar, False)
    return rule


def full_like(t: Context, prototype: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None) -> Sym:
    v = lift(t, prototype).value
    value = promotion.as_dtype(t, lift(t, fill_value), dtype_arg(t, dtype) or dtype_of(v.type))
    sizes = lengths.sizes(t, v) if shape is None else new_shape(t, shape)
    if promotion.rank(value):
        return Sym(promotion.broadcast_to(t, value, sizes), False)
    return Sym(t.builder.fill(value, *sizes) if sizes else value, False)


# --- copies ---------------------------------------------------------------------------------------

def array(t: Context, object: Any, dtype: Any = None, copy: Any = True, order: str = "K", ndmin: int = 0) -> Sym:
    """``np.array``: a new array with the same elements."""
    element = dtype_arg(t, dtype)
    if isinstance(object, (list, tuple)):
        return _with_least_axes(t, asarray(t, object, dtype, copy=None if copy else copy), ndmin)
    if copy is not True:
        refuse(t, f"np.array with copy={copy}", "np.asarray")
    x = lift(t, object)
    v = x.value if element is None else promotion.as_dtype(t, x, element)
    return _with_least_axes(t, Sym(t.builder.copy(v) if promotion.rank(v) and v is x.value else v, False), ndmin)


def _with_least_axes(t: Context, x: Sym, ndmin: int) -> Sym:
    v = x.value
    while promotion.rank(v) < promotion.must_be_static(t, ndmin, "the number of axes"):
        v = promotion.with_axis(t, v, 0)
    return Sym(v, False)


def asarray(t: Context, a: Any, dtype: Any = None, order: str | None = None, *, copy: Any = None) -> Sym:
    """``np.asarray``: the same array if its dtype is right, otherwise a converted copy."""
    element = dtype_arg(t, dtype)
    x = from_list(t, a, element) if isinstance(a, (list, tuple)) else lift(t, a)
    v = x.value if element is None else promotion.as_dtype(t, x, element)
    if copy is False and (v is not x.value or isinstance(a, (list, tuple)) or not promotion.rank(v)):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return Sym(t.builder.copy(v) if copy and v is x.value and promotion.rank(v) else v, False)


def contiguous(t: Context, a: Any, dtype: Any = None) -> Sym:
    """``np.ascontiguousarray``, whose result has at least one axis."""
    x = asarray(t, a, dtype)
    return x if promotion.rank(x.value) else Sym(promotion.with_axis(t, x.value, 0), False)


def real(t: Context, val: Any) -> Sym:
    return asarray(t, val)


def real_if_close(t: Context, a: Any, tol: Any = 100) -> Sym:
    return asarray(t, a)


def copy(t: Context, a: Any, order: str = "K") -> Sym:
    return array(t, a)


def copy_in_order(t: Context, a: Any, order: str = "C") -> Sym:
    return copy(t, a, order)


def astype(t: Context, a: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
           copy: bool = True) -> Sym:
    v = lift(t, a).value
    element = dtype_arg(t, F64.np if dtype is None else dtype)
    assert element is not None
    if not np.can_cast(dtype_of(v.type).np, element.np, casting):        # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {dtype_of(v.type).np!r} to {element.np!r} according to the rule "
                        f"'{casting}'")
    out = promotion.cast(t, v, element)
    return Sym(t.builder.copy(v) if copy and out is v and promotion.rank(v) else out, False)


def itself(t: Context, a: Any) -> Sym:
    """``a.conj()``."""
    return lift(t, a)


def astype_function(t: Context, x: Any, dtype: Any, *, copy: bool = True) -> Sym:
    """``np.astype``, which accepts only NumPy values."""
    if not isinstance(x, Sym):
        raise TypeError("Input should be a NumPy array. It is a number or a list.")
    return astype(t, x, dtype, copy=copy)


# --- ranges ---------------------------------------------------------------------------------------

def arange(t: Context, start: Any = NO, stop: Any = None, step: Any = None, dtype: Any = None) -> Sym:
    if start is NO:
        if stop is None:
            raise TypeError("arange() requires stop to be specified.")
        start = 0
    lo, hi = (lift(t, 0), lift(t, start)) if stop is None else (lift(t, start), lift(t, stop))
    by = lift(t, 1 if step is None else step)
    if any(promotion.rank(x.value) for x in (lo, hi, by)):
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    if U64 in (lo.scalar, hi.scalar, by.scalar):
        refuse(t, "arange with a bound of uint64", "int(...) of the bound")
    natural = F64 if promote(lo, hi, by)[0].is_float else I64              # as in NumPy, for narrow bounds too
    if natural is I64:
        _check_difference(t, hi, lo, by)
    first, end, step_by = (promotion.as_dtype(t, x, natural) for x in (lo, hi, by))
    element = dtype_arg(t, dtype) or natural
    if element.is_bool:
        numbers = _range(t, first, end, step_by, natural)
        t.check(t.builder.le(size(t, numbers, 0), 2), "TypeError",
                "arange() is only supported for booleans when the result has at most length 2.")
        return Sym(promotion.cast(t, numbers, element), False)
    return Sym(_range(t, first, end, step_by, element), False)


def _range(t: Context, lo: Value, hi: Value, by: Value, element: Scalar) -> Value:
    """The elements of a range, as NumPy computes them: from the first two elements, converted to ``element``."""
    e = t.builder
    n = _float_length(t, lo, hi, by) if dtype_of(lo.type).is_float else _int_length(t, lo, hi, by)
    if element.is_int and element is not I64:
        for k, v in enumerate((lo, e.add(lo, by))):
            _check_element(t, e.le(n, k), v, element)
    start = promotion.cast(t, lo, element)
    if element == I64 == lo.type:
        step = by
    else:
        step = e.sub(promotion.cast(t, e.add(lo, by), element), start)
    return e.add(e.mul(promotion.cast(t, e.iota(n), element), step), start)


def _check_difference(t: Context, hi: Sym, lo: Sym, by: Sym) -> None:
    """Check that the difference of bounds that are NumPy's, of which it computes the length, does not wrap."""
    if all(x.weak or x.scalar is I64 or x.scalar.is_bool for x in (hi, lo)) or lo.value.const == 0:
        return
    e = t.builder
    wrapped = BINARY["sub"](t, hi, lo)
    promotion.as_dtype(t, by, promote(wrapped, by)[0])
    exact = e.sub(promotion.cast(t, hi.value, I64), promotion.cast(t, lo.value, I64))
    t.check(e.eq(promotion.cast(t, wrapped.value, I64), exact), "OverflowError",
            f"the difference of arange's bounds does not fit {wrapped.scalar.np}")


def _check_element(t: Context, absent: Value, v: Value, element: Scalar) -> None:
    """Check that one of the first two elements, if it is there, is in the range of the dtype."""
    message = f"Python integer {{}} out of bounds for {element.np}"
    t.check(t.builder.or_(absent, promotion.fits(t, v, element)), "OverflowError", message, promotion.cast(t, v, I64))


def _int_length(t: Context, lo: Value, hi: Value, by: Value) -> Value:
    t.check(t.builder.ne(by, 0), "ZeroDivisionError", "division by zero")
    n = range_length(t, lo, hi, by)
    check_room(t, [n])
    return n


def _float_length(t: Context, lo: Value, hi: Value, by: Value) -> Value:
    e = t.builder
    t.check(e.ne(by, 0), "ZeroDivisionError", "float division by zero")
    steps = e.ceil(e.div(e.sub(hi, lo), by))
    t.check(e.isfinite(steps), "ValueError", "arange: cannot compute length")
    t.check(e.lt(steps, MOST), "MemoryError", "Unable to allocate an array of {} elements", steps)
    return e.maximum(promotion.cast(t, steps, I64), 0)


def linspace(t: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0) -> Any:
    e = t.builder
    promotion.axis_arg(t, axis, 1)
    bounds = [lift(t, x) for x in (start, stop)]
    kind = inexact(promote(*bounds)[0])
    lo, hi = (promotion.as_dtype(t, x, kind) for x in bounds)
    if promotion.rank(lo) or promotion.rank(hi):
        refuse(t, "linspace between arrays", "start + np.linspace(0, 1, n)[:, None] * (stop - start)")
    n = int_value(t, num, "a size")
    if not nonnegative(n):
        t.check(e.ge(n, 0), "ValueError", "Number of samples, {}, must be non-negative.", n)
    check_room(t, [n])
    intervals = e.maximum(e.sub(n, 1), 1) if endpoint else e.maximum(n, 1)
    step = e.div(e.sub(hi, lo), e.cast(intervals, dtype=kind))
    i = e.iota(n)
    out = e.add(e.mul(e.cast(i, dtype=kind), step), lo)
    if endpoint:
        out = e.select(e.and_(e.eq(i, e.sub(n, 1)), e.gt(i, 0)), hi, out)
    element = dtype_arg(t, dtype) or kind
    out = promotion.cast(t, e.floor(out) if element.is_int else out, element)
    if not retstep:
        return Sym(out, False)
    step = e.select(e.gt(n, 1 if endpoint else 0), step, e.const(math.nan, kind))
    return Sym(out, False), Sym(step, False)


def logspace(t: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0,
             dtype: Any = None, axis: int = 0) -> Sym:
    exponents = linspace(t, start, stop, num, endpoint, axis=axis)
    b = lift(t, base)
    kind = promote(b, exponents)[0]
    out = t.builder.pow(promotion.as_dtype(t, b, kind), promotion.as_dtype(t, exponents, kind))
    return Sym(promotion.cast(t, out, dtype_arg(t, dtype) or kind), False)


# --- patterns -------------------------------------------------------------------------------------

def eye(t: Context, N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C") -> Sym:
    element = dtype_arg(t, dtype) or F64
    rows, = shape_arg(t, N)
    cols = rows if M is None else shape_arg(t, M)[0]
    check_room(t, [rows, cols])
    e = t.builder
    on = e.eq(row_plus(t, rows, int_value(t, k)), e.iota(cols))
    return Sym(e.select(on, e.const(1, element), e.const(0, element)), False)


def identity(t: Context, n: Any, dtype: Any = None) -> Sym:
    return eye(t, n, dtype=dtype)


def row_plus(t: Context, rows: Value, k: Value) -> Value:
    """A column vector of the row indices, each plus ``k``."""
    return promotion.with_axis(t, t.builder.add(t.builder.iota(rows), k), 1)


def triangle(t: Context, rows: Value, cols: Value, k: Any) -> Value:
    """The boolean matrix of ``column <= row + k``."""
    return t.builder.ge(row_plus(t, rows, int_value(t, k)), t.builder.iota(cols))


def tri(t: Context, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Sym:
    rows, = shape_arg(t, N)
    cols = rows if M is None else shape_arg(t, M)[0]
    check_room(t, [rows, cols])
    below = triangle(t, rows, cols, k)
    return Sym(promotion.cast(t, below, dtype_arg(t, dtype) or F64), False)


def tril(t: Context, m: Any, k: Any = 0) -> Sym:
    v = _with_rows(lift(t, m).value)
    below = triangle(t, size(t, v, -2 + promotion.rank(v)), size(t, v, -1 + promotion.rank(v)), k)
    return Sym(t.builder.select(below, v, t.builder.const(0, dtype_of(v.type))), False)


def _with_rows(v: Value) -> Value:
    if not promotion.rank(v):
        raise TypeError("tril and triu take an array of one axis or more")
    return v


def triu(t: Context, m: Any, k: Any = 0) -> Sym:
    v = _with_rows(lift(t, m).value)
    k1 = t.builder.sub(int_value(t, k), 1)
    below = triangle(t, size(t, v, -2 + promotion.rank(v)), size(t, v, -1 + promotion.rank(v)), Sym(k1))
    return Sym(t.builder.select(below, t.builder.const(0, dtype_of(v.type)), v), False)


def meshgrid(t: Context, *xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Sym, ...]:
    vs = [promotion.strong(lift(t, x)).value for x in xi]
    n = len(vs)
    place = list(range(n))
    if indexing == "xy" and n > 1:
        place[0], place[1] = 1, 0
    counts = [lengths.count(t, v) for v in vs]
    shape = [counts[place.index(axis)] for axis in range(n)]
    out = []
    for i, v in enumerate(vs):
        ones = [t.builder.const(1)] * n
        ones[place[i]] = counts[i]
        grid = promotion.reshape(t, v if promotion.rank(v) else t.builder.fill(v, t.builder.const(1)), ones)
        out.append(Sym(grid if sparse else promotion.broadcast_to(t, grid, shape), False))
    return tuple(out)


def constructor(scalar: Scalar) -> Rule:
    """The rule of ``np.float64(x)`` and the other scalar types."""
    def rule(t: Context, x: Any = 0, /) -> Sym:
        return Sym(promotion.as_dtype(t, as_stored(t, x, scalar), scalar), False)
    return rule


CONSTRUCTORS = {scalar.np.type: scalar.name for scalar in ALL}
