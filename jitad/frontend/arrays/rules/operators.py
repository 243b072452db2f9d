"""Python's operators on numbers and arrays.

Weak operands follow Python where its scalars differ from NumPy's.  The language reference documents the departures from
both: Python float division by zero gives inf or nan; a power with a small constant integer exponent is computed by
multiplications.
"""

from __future__ import annotations

from typing import Any

from ....ir.graph import Value
from ....ir.types import BOOL, F64, I8, I64, U8, U64, Array, Scalar, dtype_of
from ...values.values import Context, Sym, Weak
from . import promotion
from .lifting import lift
from .promotion import Rule, as_dtype, inexact, promote, refuse, static_int

_LEAST_POWER, _SMALL_POWER = -8, 16
"""Constant exponents in this range are products.  ``x ** 16`` takes 4 multiplications and has an error of up to 8 ulp;
``pow`` takes 12 ns, ten times as long, and has one of 0.5."""


def operands(t: Context, dtype: Scalar, *xs: Sym) -> list[Value]:
    return promotion.agreeing(t, *[as_dtype(t, x, dtype) for x in xs])


def emit(t: Context, op: str, *vs: Value) -> Value:
    return t.builder.emit(op, *vs)


# --- arithmetic -----------------------------------------------------------------------------------

_OF_BOOLS = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}


def _arithmetic(op: str) -> Rule:
    """``+ - *``: logical on NumPy bools, integer arithmetic on Python bools."""
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, weak = promote(x, y)
        name = op
        if dtype.is_bool and weak:
            dtype = I64
        elif dtype.is_bool:
            if op not in _OF_BOOLS:
                raise TypeError("numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, "
                                "the `^` operator, or the logical_xor function instead.")
            name = _OF_BOOLS[op]
        return Sym(emit(t, name, *operands(t, dtype, x, y)), weak)
    return rule


def divide(t: Context, x: Any, y: Any) -> Sym:
    x, y = lift(t, x), lift(t, y)
    dtype, weak = promote(x, y)
    return Sym(emit(t, "div", *operands(t, inexact(dtype), x, y)), weak)


def _whole_division(op: str) -> Rule:
    """``//`` and ``%``: raises at zero for Python ints, and for what may be one; gives 0 for NumPy ints."""
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, weak = promote(x, y)
        if dtype.is_bool:
            dtype = I64 if weak else I8
        a, b = operands(t, dtype, x, y)
        if weak is not False and dtype.is_int:
            t.check(t.builder.ne(b, 0), "ZeroDivisionError", "integer division or modulo by zero")
        return Sym(emit(t, op, a, b), weak)
    return rule


def divmod_(t: Context, x: Any, y: Any) -> tuple[Sym, Sym]:
    return BINARY["floordiv"](t, x, y), BINARY["mod"](t, x, y)


# --- powers ---------------------------------------------------------------------------------------

def power(t: Context, x: Any, y: Any) -> Sym:
    y = t.compiled_in(y, _is_short_exponent)
    whole = static_int(y)
    x, y = lift(t, x), lift(t, y)
    dtype, weak = promote(x, y)
    if dtype.is_bool:
        dtype = I64 if weak else I8
    if dtype.is_int:
        return _int_power(t, x, y, whole, dtype, weak)
    if x.value.const == -1 and (n := dtype_of(y.value.type)).is_int:
        return Sym(_alternating(t, y.value, n, dtype), weak)
    exponent = float(whole) if whole is not None else y.value.const
    if exponent is not None and (short := _short_power(t, as_dtype(t, x, dtype), exponent, dtype)) is not None:
        return Sym(short, weak)
    return Sym(emit(t, "pow", *operands(t, dtype, x, y)), weak)


def _int_power(t: Context, x: Sym, y: Sym, whole: int | None, dtype: Scalar, weak: Weak) -> Sym:
    message = "Integers to negative integer powers are not allowed."
    if weak and whole is not None and whole < 0:
        return power(t, Sym(as_dtype(t, x, F64), True), float(whole))
    a, n = operands(t, dtype, x, y)
    if whole is not None and whole < 0:
        raise ValueError(message)
    if whole is None and dtype.is_signed:
        negative = t.builder.lt(n, 0)
        if isinstance(n.type, Array):
            negative = t.builder.any(negative, axes=tuple(range(promotion.rank(n))))
        t.check(t.builder.not_(negative), "ValueError", message)
    elif whole is not None and 0 < whole <= _SMALL_POWER:
        return Sym(_by_squaring(t, a, whole), weak)
    if x.value.const == -1:
        return Sym(_alternating(t, n, dtype, dtype), weak)
    return Sym(emit(t, "pow", a, n), weak)


def _alternating(t: Context, n: Value, of: Scalar, dtype: Scalar) -> Value:
    """``(-1) ** n`` for integers ``n`` of type ``of``: a float exponent that is too large to be odd counts as even."""
    b = t.builder
    odd = b.ne(b.and_(n, 1), 0)
    if dtype.is_float and of.bits > (digits := 53 if dtype.bits == 64 else 24):
        odd = b.and_(odd, b.lt(b.abs(n), 1 << digits))
    return b.select(odd, b.const(-1, dtype), b.const(1, dtype))


def _is_short_exponent(n: float) -> bool:
    """True for exponents that ``_short_power`` writes without ``pow``."""
    return n == 0.5 or n.is_integer() and _LEAST_POWER <= n <= _SMALL_POWER


def _short_power(t: Context, x: Value, n: float, dtype: Scalar) -> Value | None:
    """``x ** n`` without ``pow``, or None if the constant exponent does not allow that."""
    if n == 0.5 and isinstance(x.type, Array):
        return t.builder.sqrt(x)
    if not n.is_integer():
        return None
    if 0 < n <= _SMALL_POWER:
        return _by_squaring(t, x, int(n))
    if _LEAST_POWER <= n < 0:
        return t.builder.div(1, _by_squaring(t, x, -int(n)))
    return None


def _by_squaring(t: Context, x: Value, n: int) -> Value:
    """``x ** n`` for n ≥ 1, from the squares that the digits of n in base 2 select."""
    square, product = x, x if n % 2 else None
    while n > 1:
        n //= 2
        square = t.builder.mul(square, square)
        if n % 2:
            product = square if product is None else t.builder.mul(square, product)
    assert product is not None
    return product


# --- comparison and logic -------------------------------------------------------------------------

def _comparison(op: str) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        if U64 in (x.scalar, y.scalar) and (x.scalar.is_signed or y.scalar.is_signed):
            return _beyond_signed(t, op, x, y)
        dtype, weak = promote(x, y)
        if dtype.is_int and dtype is not U64 and (x.weak or y.weak):
            dtype = I64                      # compares a Python int by value even if the dtype cannot hold it
        return Sym(emit(t, op, *operands(t, dtype, x, y)), weak)
    return rule


def _beyond_signed(t: Context, op: str, x: Sym, y: Sym) -> Sym:
    """Compares u64 with a signed integer by value: a negative number is less than every unsigned one."""
    swapped = y.scalar is U64
    a, b = promotion.agreeing(t, x.value, y.value)
    signed = promotion.cast(t, a if swapped else b, I64)
    same = emit(t, op, promotion.cast(t, a, U64), promotion.cast(t, b, U64))
    below = op == "ne" or op in (("lt", "le") if swapped else ("gt", "ge"))
    e = t.builder
    negative = e.lt(signed, 0)
    return Sym(e.or_(negative, same) if below else e.and_(e.not_(negative), same), False)


def _bits(op: str) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, weak = promote(x, y)
        if dtype.is_float:
            raise TypeError(f"bitwise {op} is not defined for floats")
        return Sym(emit(t, op, *operands(t, dtype, x, y)), weak)
    return rule


def _shift(op: str) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        x, y = lift(t, x), lift(t, y)
        dtype, weak = promote(x, y)
        if dtype.is_float:
            raise TypeError("shifts are not defined for floats")
        if dtype.is_bool:
            dtype = I64 if weak else I8
        a, b = operands(t, dtype, x, y)
        if weak:
            t.check(t.builder.ge(b, 0), "ValueError", "negative shift count")
        return Sym(emit(t, op, a, b), weak)
    return rule


def bool_value(t: Context, x: Any) -> Value:
    return promotion.cast(t, lift(t, x).value, BOOL)


def logical(op: str) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        a, b = promotion.agreeing(t, bool_value(t, x), bool_value(t, y))
        return Sym(emit(t, op, a, b), False)
    return rule


def logical_not(t: Context, x: Any) -> Sym:
    return Sym(t.builder.not_(bool_value(t, x)), False)


def invert(t: Context, x: Any) -> Sym:
    x = lift(t, x)
    dtype = dtype_of(x.value.type)
    if dtype.is_float:
        raise TypeError("ufunc 'invert' is not defined for floats")
    value = promotion.cast(t, x.value, I64) if dtype.is_bool and x.weak else x.value
    return Sym(t.builder.not_(value), x.weak)


def ones(t: Context, v: Value) -> Value:
    """The number of ones of the absolute value of integers."""
    e = t.builder
    return e.popcount(e.abs(v) if dtype_of(v.type).is_signed else v)


def bitwise_count(t: Context, x: Any) -> Sym:
    v = lift(t, x).value
    if dtype_of(v.type).is_float:
        raise TypeError("ufunc 'bitwise_count' is not defined for floats")
    return Sym(promotion.cast(t, ones(t, promotion.cast(t, v, I8) if dtype_of(v.type).is_bool else v), U8), False)


def truth(t: Context, x: Any) -> Sym | bool:
    """``bool(x)``: a stand-in of type bool, or a Python bool if it is known."""
    if not isinstance(x, Sym):
        return bool(x)
    v = x.value
    if isinstance(v.type, Array):
        if any(d != 1 for d in v.type.dims):
            refuse(t, "the truth value of an array with more than one element is ambiguous", "a.any() or a.all()")
        v = t.builder.get(v, *[0] * v.type.rank)
    v = promotion.cast(t, v, BOOL)
    return bool(v.const) if v.const is not None else Sym(v, True)


# --- sign and size --------------------------------------------------------------------------------

def negative(t: Context, x: Any) -> Sym:
    x = lift(t, x)
    return Sym(t.builder.neg(number(t, x, "negative")), x.weak)


def positive(t: Context, x: Any) -> Sym:
    x = lift(t, x)
    return Sym(number(t, x, "positive"), x.weak)


def absolute(t: Context, x: Any) -> Sym:
    v = lift(t, x)
    if not v.weak and not v.scalar.is_float and not v.scalar.is_signed:
        return v
    return Sym(t.builder.abs(number(t, v, "absolute")), v.weak)


def number(t: Context, x: Sym, name: str) -> Value:
    """The value of an operand, with a Python bool as an int; raises for NumPy bools."""
    if not dtype_of(x.value.type).is_bool:
        return x.value
    if not x.weak:
        raise TypeError(f"ufunc '{name}' is not defined for NumPy bools")
    return promotion.cast(t, x.value, I64)



# --- operators by name ----------------------------------------------------------------------------

BINARY: dict[str, Rule] = {
    "add": _arithmetic("add"), "sub": _arithmetic("sub"), "mul": _arithmetic("mul"), "truediv": divide,
    "floordiv": _whole_division("floordiv"), "mod": _whole_division("mod"), "pow": power,
    "and": _bits("and"), "or": _bits("or"), "xor": _bits("xor"), "lshift": _shift("shl"), "rshift": _shift("shr"),
}
COMPARE: dict[str, Rule] = {op: _comparison(op) for op in ("eq", "ne", "lt", "le", "gt", "ge")}
UNARY: dict[str, Rule] = {"neg": negative, "pos": positive, "invert": invert, "abs": absolute}
