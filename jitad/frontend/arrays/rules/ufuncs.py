"""Ufuncs that are not operators, and functions that select between values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ir.builder import Builder
from ....ir.evaluate.fold import whole as whole_number
from ....ir.graph import Value
from ....ir.types import F64, I8, I64, Scalar, dtype_of
from ...values.values import Context, Sym
from . import lengths, promotion
from .dtypes import float_loop
from .lifting import lift
from .operators import bool_value, emit, number, operands, power
from .promotion import NO, Rule, as_dtype, inexact, promote, rank, refuse, static_int


def float_unary(op: str, least: type = np.float16) -> Rule:
    """The rule of a function computed in floats; ``least`` is the narrowest float dtype of its NumPy or SciPy loops."""
    def rule(t: Context, x: Any) -> Sym:
        x = lift(t, x)
        return Sym(emit(t, op, as_dtype(t, x, float_loop(t, x, least=least))), False)
    return rule


def float_binary(op: str, least: type = np.float16) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        return Sym(emit(t, op, *operands(t, float_loop(t, x, y, least=least), x, y)), False)
    return rule


def rounding(op: str) -> Rule:
    """The rule of floor, ceil and trunc: ints are returned as they are."""
    def rule(t: Context, x: Any) -> Sym:
        x = promotion.strong(lift(t, x))
        return Sym(emit(t, op, x.value), False) if dtype_of(x.value.type).is_float else x
    return rule


def classify(op: str, of_ints: bool) -> Rule:
    def rule(t: Context, x: Any) -> Sym:
        v = lift(t, x).value
        if not dtype_of(v.type).is_float:
            return full_like(t, v, t.builder.const(of_ints))
        return Sym(emit(t, op, v), False)
    return rule


def full_like(t: Context, v: Value, scalar: Value) -> Sym:
    """``scalar`` broadcast to the shape of ``v``."""
    return Sym(t.builder.fill(scalar, *lengths.sizes(t, v)) if promotion.rank(v) else scalar, False)


def of_numpy(rule: Rule) -> Rule:
    """The NumPy function of an operator: if all operands are Python scalars, they and the result count as NumPy's."""
    def strict(t: Context, *xs: Any) -> Any:
        lifted = [lift(t, x) for x in xs]
        if all(x.weak for x in lifted):
            lifted = [promotion.strong(x) for x in lifted]
        return rule(t, *lifted)
    return strict


def extremum(op: str) -> Rule:
    """The rule of maximum and minimum, which propagate NaN as in NumPy."""
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, weak = promote(x, y)
        return Sym(emit(t, op, *operands(t, dtype, x, y)), weak)
    return rule


def extremum_but_nan(op: str) -> Rule:
    """The rule of fmax and fmin, which ignore NaN if the other operand is a number."""
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, _ = promote(x, y)
        a, b = operands(t, dtype, x, y)
        both = emit(t, op, a, b)
        if not dtype.is_float:
            return Sym(both, False)
        e = t.builder
        return Sym(e.select(e.isnan(a), b, e.select(e.isnan(b), a, both)), False)
    return rule


def square(t: Context, x: Any) -> Sym:
    v = _bools_as_int8(t, x)
    return Sym(t.builder.mul(v, v), False)


def power_operator(t: Context, x: Any, y: Any) -> Sym:
    """``x ** y``; that of an array of bools and the number 2 is ``np.square``, unlike ``np.power``."""
    squared = static_int(y) == 2 and (base := lift(t, x)).scalar.is_bool and rank(base.value) > 0 and lift(t, y).weak
    return square(t, x) if squared else power(t, x, y)


def _bools_as_int8(t: Context, x: Any) -> Value:
    x = promotion.strong(lift(t, x))
    return promotion.cast(t, x.value, I8) if x.scalar.is_bool else x.value


def conjugate(t: Context, x: Any) -> Sym:
    return Sym(_bools_as_int8(t, x), False)


def reciprocal(t: Context, x: Any) -> Sym:
    v = _bools_as_int8(t, x)
    e, dtype = t.builder, dtype_of(v.type)
    if dtype.is_float:
        return Sym(e.div(e.const(1, dtype), v), False)
    of_zero = e.const(whole_number(math.inf, dtype), dtype)
    whole = e.select(e.eq(e.abs(v), 1), v, e.const(0, dtype))
    return Sym(e.select(e.eq(v, 0), of_zero, whole), False)


def sign(t: Context, x: Any) -> Sym:
    return Sym(t.builder.sign(number(t, promotion.strong(lift(t, x)), "sign")), False)


def fmod(t: Context, x: Any, y: Any) -> Sym:
    """The remainder with the sign of ``x``."""
    x, y = lift(t, x), lift(t, y)
    dtype, weak = promote(x, y)
    if dtype.is_bool:
        dtype = I8
    e = t.builder
    a, b = operands(t, dtype, x, y)
    if dtype.is_float:
        return Sym(rest_like(e, a, b), weak)
    rest = e.mod(a, b)
    if not dtype.is_signed:
        return Sym(rest, weak)
    opposed = e.and_(e.ne(rest, 0), e.ne(e.lt(a, 0), e.lt(b, 0)))
    return Sym(e.select(opposed, e.sub(rest, b), rest), weak)


def rest_like(e: Builder, a: Value, b: Value) -> Value:
    """The exact remainder of floats with the sign of ``a``: ``mod`` of the absolute values, times the sign.

    The absolute value of ``a`` is a product with its sign, since the derivative of ``abs`` is 0 at 0.
    """
    sign = e.copysign(e.const(1.0, dtype_of(a.type)), a)
    return e.mul(e.mod(e.mul(a, sign), e.abs(b)), sign)


def logaddexp(t: Context, x: Any, y: Any) -> Sym:
    return _log_add(t, x, y, "exp", 1.0)


def logaddexp2(t: Context, x: Any, y: Any) -> Sym:
    return _log_add(t, x, y, "exp2", 1.0 / math.log(2.0))


def _log_add(t: Context, x: Any, y: Any, exp: str, scale: float) -> Sym:
    """larger + log(1 + exp(smaller − larger)), by ``exp`` or ``exp2``.

    For equal operands either may count as the larger; value and derivatives are the same.  The difference of equal
    infinities is taken to be 0.
    """
    x, y = lift(t, x), lift(t, y)
    a, b = operands(t, float_loop(t, x, y), x, y)
    e = t.builder
    first = e.ge(a, b)
    high, low = e.select(first, a, b), e.select(first, b, a)
    endless = e.and_(e.eq(a, b), e.isinf(a))
    distance = e.select(endless, e.const(0.0, dtype_of(a.type)), e.sub(low, high))
    return Sym(e.add(high, e.mul(e.log1p(emit(t, exp, distance)), scale)), False)


def scaled(factor: float) -> Rule:
    def rule(t: Context, x: Any) -> Sym:
        x = lift(t, x)
        return Sym(t.builder.mul(as_dtype(t, x, float_loop(t, x)), factor), False)
    return rule


def heaviside(t: Context, x: Any, at_zero: Any) -> Sym:
    x, h = lift(t, x), lift(t, at_zero)
    e = t.builder
    a, h0 = operands(t, float_loop(t, x, h), x, h)
    step = e.select(e.gt(a, 0), e.const(1, dtype_of(a.type)), e.const(0, dtype_of(a.type)))
    return Sym(e.select(e.eq(a, 0), h0, e.select(e.isnan(a), a, step)), False)


def float_power(t: Context, x: Any, y: Any) -> Sym:
    x, y = lift(t, x), lift(t, y)
    return promotion.strong(power(t, Sym(as_dtype(t, x, F64), False), Sym(as_dtype(t, y, F64), False)))


def sinc(t: Context, x: Any) -> Sym:
    """Uses a power series near zero, where the quotient is 0 / 0 and its derivatives lose accuracy."""
    x = lift(t, x)
    e = t.builder
    angle = e.mul(as_dtype(t, x, inexact(dtype_of(x.value.type))), math.pi)
    near = e.lt(e.mul(angle, angle), 0.01)
    safe = e.select(near, e.const(1, dtype_of(angle.type)), angle)
    small = e.select(near, angle, e.const(0, dtype_of(angle.type)))
    square = e.mul(small, small)
    series = e.mul(square, 1 / math.factorial(13))
    for n in (11, 9, 7, 5, 3):
        series = e.mul(e.add(e.neg(series), 1 / math.factorial(n)), square)
    return Sym(e.select(near, e.sub(1.0, series), e.div(e.sin(safe), safe)), False)


def relu(t: Context, x: Any) -> Sym:
    """``x`` where it is positive or NaN, else 0; at 0 the derivative is that of the constant."""
    x = lift(t, x)
    dtype, e = dtype_of(x.value.type), t.builder
    return x if dtype.is_bool else Sym(e.select(e.le(x.value, 0), e.const(0, dtype), x.value), x.weak)


def expit(t: Context, x: Any) -> Sym:
    """The logistic function, scaled so that nothing overflows; the scale cancels in value and derivative."""
    x = lift(t, x)
    v = as_dtype(t, x, float_loop(t, x, least=np.float32))
    e = t.builder
    scale = e.minimum(v, e.const(0, dtype_of(v.type)))
    above = e.exp(scale)
    return Sym(e.div(above, e.add(above, e.exp(e.sub(scale, v)))), False)


def xlogy(t: Context, x: Any, y: Any) -> Sym:
    x, y = lift(t, x), lift(t, y)
    e = t.builder
    a, b = operands(t, float_loop(t, x, y, least=np.float32), x, y)
    zero = e.and_(e.eq(a, 0), e.or_(e.le(b, 0), e.eq(b, math.inf)))       # otherwise 0·log y is already 0
    one = e.const(1, dtype_of(a.type))
    return Sym(e.mul(a, e.log(e.select(zero, one, b))), False)


# --- choosing -------------------------------------------------------------------------------------

def choose(t: Context, condition: Any, x: Any, y: Any) -> Sym:
    """``np.where`` with three arguments."""
    c = bool_value(t, condition)
    x, y = lift(t, x), lift(t, y)
    dtype, _ = promote(x, y)
    a, b = (promotion.cast(t, v.value, dtype) for v in (x, y))                     # ints wrap, unlike in arithmetic
    c, a, b = promotion.agreeing(t, c, a, b)
    return Sym(t.builder.select(c, a, b), False)


def clip(t: Context, a: Any, a_min: Any = NO, a_max: Any = NO, *, min: Any = NO, max: Any = NO) -> Sym:
    if a_min is NO and a_max is NO:
        return clip_method(t, a, None if min is NO else min, None if max is NO else max)
    if a_min is NO or a_max is NO:
        raise TypeError(f"clip() missing 1 required positional argument: 'a_{'min' if a_min is NO else 'max'}'")
    if min is not NO or max is not NO:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    return clip_method(t, a, a_min, a_max)


def clip_method(t: Context, a: Any, min: Any = None, max: Any = None) -> Sym:
    low, high, out = min, max, lift(t, a)
    if low is not None:
        out = extremum("maximum")(t, out, _in_range(t, "maximum", low, out.scalar))
    if high is not None:
        out = extremum("minimum")(t, out, _in_range(t, "minimum", high, out.scalar))
    return promotion.strong(out)


def _in_range(t: Context, op: str, bound: Any, dtype: Scalar) -> Any:
    """The bound clamped to the integer dtype, since a Python int beyond its range does not bound anything."""
    b = lift(t, bound)
    if not b.weak or not b.scalar.is_int or not dtype.is_int or dtype is I64:
        return bound
    end = dtype.low if op == "maximum" else min(dtype.high, I64.high)
    return Sym(t.builder.emit(op, b.value, end), True)


def isclose(t: Context, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Sym:
    x, y = lift(t, a), lift(t, b)
    u, v = operands(t, inexact(promote(x, y)[0]), x, y)
    e = t.builder
    near = e.le(e.abs(e.sub(u, v)), e.add(e.mul(e.abs(v), rtol), atol))
    out = e.or_(e.and_(near, e.isfinite(v)), e.eq(u, v))
    return Sym(e.or_(out, e.and_(e.isnan(u), e.isnan(v))) if equal_nan else out, False)


def nan_to_num(t: Context, x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Sym:
    v = promotion.strong(lift(t, x)).value
    if not copy and not promotion.rank(v):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if not copy:
        refuse(t, "np.nan_to_num with copy=False", "a[...] = np.nan_to_num(a)")
    dtype = dtype_of(v.type)
    if not dtype.is_float:
        return Sym(t.builder.copy(v) if promotion.rank(v) else v, False)
    e, largest = t.builder, float(np.finfo(dtype.np).max)
    high = e.const(largest if posinf is None else posinf, dtype)
    low = e.const(-largest if neginf is None else neginf, dtype)
    bounded = e.select(e.eq(v, math.inf), high, e.select(e.eq(v, -math.inf), low, v))
    return Sym(e.select(e.isnan(v), e.const(nan, dtype), bounded), False)


def round_(t: Context, a: Any, decimals: int = 0) -> Sym:
    """Rounds half to even; with ``decimals``, scales, rounds and scales back, as NumPy does."""
    x = promotion.strong(lift(t, a))
    if x.scalar.is_bool:
        refuse(t, "rounding NumPy bools gives a float16, which is not supported", ".astype(float) first")
    decimals = promotion.must_be_static(t, decimals, "the number of decimals")
    if x.scalar.is_float:
        return Sym(rounded(t, x.value, decimals), False)
    if decimals >= 0:
        return x
    return Sym(promotion.cast(t, rounded(t, promotion.cast(t, x.value, F64), decimals), x.scalar), False)


def rounded(t: Context, v: Value, decimals: int) -> Value:
    e = t.builder
    if decimals == 0:
        return e.round(v)
    scale = 10.0 ** abs(decimals)
    return e.div(e.round(e.mul(v, scale)), scale) if decimals > 0 else e.mul(e.round(e.div(v, scale)), scale)
