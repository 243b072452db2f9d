"""Arrays made from nothing, from numbers, or in the shape of another."""

from __future__ import annotations

import math
from typing import Any

from ...ir.graph import Value
from ...ir.types import ALL, F64, I64, U64, Scalar, dtype_of
from ..values import Context, Sym
from . import core
from .core import Rule, dtype_arg, inexact, int_value, promote, refuse, size
from .lengths import MOST, check_room, nonnegative, range_length
from .lifting import from_list, lift


def shape_arg(t: Context, shape: Any) -> list[Value]:
    """The sizes of a new array; a negative one raises."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    out = [int_value(t, n, "a size") for n in items]
    for n in out:
        if not nonnegative(n):
            t.check(t.builder.ge(n, 0), "ValueError", "negative dimensions are not allowed")
    return out


def new_shape(t: Context, shape: Any) -> list[Value]:
    """The sizes of an array that is made; those for which there is no room raise, even if it would not be stored."""
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
    value = core.as_dtype(t, x, dtype_arg(t, dtype) or dtype_of(x.value.type))
    if core.rank(value):
        return Sym(core.broadcast_to(t, value, new_shape(t, shape)), False)
    return _filled(t, shape, value)


def like(number: int | None) -> Rule:
    """``zeros_like``, ``ones_like``, ``empty_like``."""
    def rule(t: Context, prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True,
             shape: Any = None) -> Sym:
        v = lift(t, prototype).value
        element = dtype_arg(t, dtype) or dtype_of(v.type)
        sizes = core.sizes(t, v) if shape is None else new_shape(t, shape)
        if number is None and sizes:
            return Sym(t.builder.empty(*sizes, dtype=element), False)
        scalar = t.builder.const(number or 0, element)
        return Sym(t.builder.fill(scalar, *sizes) if sizes else scalar, False)
    return rule


def full_like(t: Context, prototype: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None) -> Sym:
    v = lift(t, prototype).value
    value = core.as_dtype(t, lift(t, fill_value), dtype_arg(t, dtype) or dtype_of(v.type))
    sizes = core.sizes(t, v) if shape is None else new_shape(t, shape)
    if core.rank(value):
        return Sym(core.broadcast_to(t, value, sizes), False)
    return Sym(t.builder.fill(value, *sizes) if sizes else value, False)


# --- copies ---------------------------------------------------------------------------------------

def array(t: Context, obj: Any, dtype: Any = None, copy: Any = True, order: str = "K") -> Sym:
    """A new array of the same elements."""
    element = dtype_arg(t, dtype)
    if isinstance(obj, (list, tuple)):
        return from_list(t, obj, element)
    x = lift(t, obj)
    v = x.value if element is None else core.as_dtype(t, x, element)
    return Sym(t.builder.copy(v) if core.rank(v) and v is x.value else v, False)


def asarray(t: Context, a: Any, dtype: Any = None, order: str = "K") -> Sym:
    """The array itself where dtype allows."""
    element = dtype_arg(t, dtype)
    if isinstance(a, (list, tuple)):
        return from_list(t, a, element)
    x = lift(t, a)
    return core.strong(x) if element is None else Sym(core.as_dtype(t, x, element), False)


def copy(t: Context, a: Any, order: str = "K") -> Sym:
    return array(t, a)


def copy_in_order(t: Context, a: Any, order: str = "C") -> Sym:
    return copy(t, a, order)


def astype(t: Context, a: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
           copy: bool = True) -> Sym:
    v = lift(t, a).value
    element = dtype_arg(t, dtype)
    assert element is not None
    out = core.cast(t, v, element)
    return Sym(t.builder.copy(v) if out is v and core.rank(v) else out, False)


# --- ranges ---------------------------------------------------------------------------------------

def arange(t: Context, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Sym:
    lo, hi = (lift(t, 0), lift(t, start)) if stop is None else (lift(t, start), lift(t, stop))
    by = lift(t, 1 if step is None else step)
    if U64 in (lo.scalar, hi.scalar, by.scalar):
        refuse(t, "arange with a bound of uint64", "int(...) of the bound")
    natural = F64 if promote(lo, hi, by)[0].is_float else I64              # NumPy's, of smaller bounds too
    first, end, step_by = (core.as_dtype(t, x, natural) for x in (lo, hi, by))
    element = dtype_arg(t, dtype) or natural
    if element.is_bool:
        return Sym(core.cast(t, _range(t, first, end, step_by, natural), element), False)
    return Sym(_range(t, first, end, step_by, element), False)


def _range(t: Context, lo: Value, hi: Value, by: Value, element: Scalar) -> Value:
    """As NumPy fills: the first two elements are converted, and the others follow from these."""
    e = t.builder
    n = _float_length(t, lo, hi, by) if dtype_of(lo.type).is_float else _int_length(t, lo, hi, by)
    if element.is_int and element is not I64:
        for k, v in enumerate((lo, e.add(lo, by))):
            _check_element(t, e.le(n, k), v, element)
    start = core.cast(t, lo, element)
    if element == I64 == lo.type:
        step = by
    else:
        step = e.sub(core.cast(t, e.add(lo, by), element), start)
    return e.add(e.mul(core.cast(t, e.iota(n), element), step), start)


def _check_element(t: Context, absent: Value, v: Value, element: Scalar) -> None:
    """Check that one of the first two elements, if it is there, is in the range of the dtype."""
    e = t.builder
    fits = e.ge(v, element.low)
    if element is not U64 or dtype_of(v.type).is_float:
        fits = e.and_(fits, e.lt(v, element.high + 1))
    message = f"Python integer {{}} out of bounds for {element.np}"
    t.check(e.or_(absent, fits), "OverflowError", message, core.cast(t, v, I64))


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
    return e.maximum(core.cast(t, steps, I64), 0)


def linspace(t: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
             dtype: Any = None, axis: int = 0) -> Any:
    e = t.builder
    bounds = [lift(t, x) for x in (start, stop)]
    kind = inexact(promote(*bounds)[0])
    lo, hi = (core.as_dtype(t, x, kind) for x in bounds)
    if core.rank(lo) or core.rank(hi):
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
    out = core.cast(t, e.floor(out) if element.is_int else out, element)
    if not retstep:
        return Sym(out, False)
    step = e.select(e.gt(n, 1 if endpoint else 0), step, e.const(math.nan, kind))
    return Sym(out, False), Sym(step, False)


def logspace(t: Context, start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0) -> Sym:
    exponents = linspace(t, start, stop, num, endpoint)
    b = lift(t, base)
    kind = promote(b, exponents)[0]
    return Sym(t.builder.pow(core.as_dtype(t, b, kind), core.as_dtype(t, exponents, kind)), False)


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
    """A column of the row numbers, each plus ``k``."""
    return core.with_axis(t, t.builder.add(t.builder.iota(rows), k), 1)


def triangle(t: Context, rows: Value, cols: Value, k: Any) -> Value:
    """Where ``column <= row + k``."""
    return t.builder.ge(row_plus(t, rows, int_value(t, k)), t.builder.iota(cols))


def tri(t: Context, N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Sym:
    rows, = shape_arg(t, N)
    cols = rows if M is None else shape_arg(t, M)[0]
    check_room(t, [rows, cols])
    below = triangle(t, rows, cols, k)
    return Sym(core.cast(t, below, dtype_arg(t, dtype) or F64), False)


def tril(t: Context, m: Any, k: Any = 0) -> Sym:
    v = lift(t, m).value
    below = triangle(t, size(t, v, -2 + core.rank(v)), size(t, v, -1 + core.rank(v)), k)
    return Sym(t.builder.select(below, v, t.builder.const(0, dtype_of(v.type))), False)


def triu(t: Context, m: Any, k: Any = 0) -> Sym:
    v = lift(t, m).value
    k1 = t.builder.sub(int_value(t, k), 1)
    below = triangle(t, size(t, v, -2 + core.rank(v)), size(t, v, -1 + core.rank(v)), Sym(k1))
    return Sym(t.builder.select(below, t.builder.const(0, dtype_of(v.type)), v), False)


def meshgrid(t: Context, *xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Sym, ...]:
    vs = [core.strong(lift(t, x)).value for x in xi]
    n = len(vs)
    place = list(range(n))
    if indexing == "xy" and n > 1:
        place[0], place[1] = 1, 0
    counts = [core.count(t, v) for v in vs]
    shape = [counts[place.index(axis)] for axis in range(n)]
    out = []
    for i, v in enumerate(vs):
        ones = [t.builder.const(1)] * n
        ones[place[i]] = counts[i]
        grid = core.reshape(t, v if core.rank(v) else t.builder.fill(v, t.builder.const(1)), ones)
        out.append(Sym(grid if sparse else core.broadcast_to(t, grid, shape), False))
    return tuple(out)


def constructor(scalar: Scalar) -> Rule:
    """``np.float64(x)`` and its like."""
    def rule(t: Context, x: Any = 0) -> Sym:
        return Sym(core.as_dtype(t, lift(t, x), scalar), False)
    return rule


CONSTRUCTORS = {scalar.np.type: scalar.name for scalar in ALL}
