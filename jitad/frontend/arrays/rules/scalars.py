"""Builtins and the ``math`` module on run-time values; results are Python scalars.

``math`` functions raise ``ValueError`` outside their domain, as in Python.  There are two departures: ``math.sin(inf)``
is nan and ``math.exp`` overflows to inf.  ``int``, ``round``, ``floor`` … raise for NaN and infinities at run time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.builder import Builder
from ....ir.graph import Value
from ....ir.types import BOOL, F32, F64, I64, dims_of, dtype_of
from ...values.closures import Template
from ...values.lattice import join_scalars
from ...values.values import Context, Sym
from . import basic_indexing, lengths, promotion
from .lifting import lift
from .operators import BINARY, COMPARE, divide, ones, power, truth
from .promotion import Rule, SymRule, rank, refuse
from .reductions import not_empty, reduce
from .shape import length
from .ufuncs import rest_like, round_, rounded

_LIMIT = 2.0 ** 63


def _scalar(t: Context, x: Any, name: str) -> Value:
    if isinstance(x, Template):
        x.refused(t, f"`{name}` of")
    v = lift(t, x).value
    if rank(v):
        if any(d != 1 for d in dims_of(v.type)):
            raise TypeError(f"{name}: only arrays with one element can be converted to Python scalars")
        v = basic_indexing.scalar_of(t, v)
    return v


# --- conversions ----------------------------------------------------------------------------------

def to_float(t: Context, x: Any = 0.0) -> Sym:
    return Sym(promotion.cast(t, _scalar(t, x, "float"), F64), True)


def to_int(t: Context, x: Any = 0) -> Sym:
    v = _scalar(t, x, "int")
    return Sym(_whole(t, v) if dtype_of(v.type).is_float else promotion.to_i64(t, v), True)


def to_bool(t: Context, x: Any = False) -> Any:
    return truth(t, x)


def _whole(t: Context, v: Value) -> Value:
    """A float as an i64, truncated; NaN and values out of range raise as in Python.

    Floats near the limits are integral, so those that fit are the same before and after truncation.
    """
    e = t.builder
    t.check(e.not_(e.isnan(v)), "ValueError", "cannot convert float NaN to integer")
    fits = e.and_(e.ge(v, -_LIMIT), e.lt(v, _LIMIT))
    t.check(fits, "OverflowError", "cannot convert float {} to a 64-bit integer", v)
    return promotion.cast(t, v, I64)


def bit_length(t: Context, x: Any) -> Sym:
    e = t.builder
    return Sym(e.sub(64, e.clz(e.abs(_of_class(t, x, int, "bit_length")))), True)


def bit_count(of: type) -> Rule:
    """The rule of the method of ``int`` or of one of NumPy's integers."""
    def rule(t: Context, x: Any) -> Sym:
        return Sym(promotion.cast(t, ones(t, _of_class(t, x, of, "bit_count")), I64), True)
    return rule


def _of_class(t: Context, x: Any, of: type, name: str) -> Value:
    """An integer of a class, an i64 if that is ``int``; the same error as Python's for another value."""
    v = lift(t, x)
    found = v.scalar.np.type if not v.weak else float if v.scalar.is_float else bool if v.scalar.is_bool else int
    if v.is_array or not issubclass(found, of):
        what = "numpy.ndarray" if v.is_array else found.__name__
        raise TypeError(f"descriptor '{name}' for '{of.__name__}' objects doesn't apply to a '{what}' object")
    return promotion.to_i64(t, v.value) if of is int else v.value


def rounding(op: str) -> Rule:
    """The rule of ``math.floor`` and similar functions, whose result is a Python int."""
    def rule(t: Context, x: Any) -> Sym:
        v = _scalar(t, x, f"math.{op}")
        if not dtype_of(v.type).is_float:
            return Sym(promotion.to_i64(t, v), True)
        return Sym(_whole(t, v if op == "trunc" else t.builder.emit(op, v)), True)
    return rule


def round_builtin(t: Context, number: Any, ndigits: Any = None) -> Sym:
    x = lift(t, number)
    if rank(x.value) or not (x.weak or x.scalar.is_float or x.scalar.is_bool or ndigits is None):
        return round_(t, number, 0 if ndigits is None else _digits(t, ndigits))
    if not x.scalar.is_float:
        whole = promotion.to_i64(t, x.value)
        return Sym(whole if ndigits is None else _to_tens(t, whole, _digits(t, ndigits)), True)
    if ndigits is None:
        return Sym(_whole(t, t.builder.round(x.value)), True)
    way = _rounded if x.weak and x.value.type == F64 else rounded
    return Sym(way(t, x.value, _digits(t, ndigits)), x.weak)


def _to_tens(t: Context, v: Value, digits: int) -> Value:
    """A Python int rounded to tens (-1), hundreds (-2), …, half to even."""
    e = t.builder
    if digits >= 0:
        return v
    if digits < -18:                                         # 5 · 10¹⁸ and more: no number is half of that
        return e.mul(v, 0)
    unit = 10 ** -digits
    tens = e.floordiv(v, unit)
    rest = e.sub(v, e.mul(tens, unit))
    up = e.or_(e.gt(rest, unit // 2), e.and_(e.eq(rest, unit // 2), e.eq(e.mod(tens, 2), 1)))
    return e.mul(e.add(tens, promotion.cast(t, up, I64)), unit)


def _digits(t: Context, ndigits: Any) -> int:
    return operator.index(promotion.must_be_static(t, ndigits, "the number of digits"))


def _rounded(t: Context, v: Value, digits: int) -> Value:
    """A Python float rounded to a number of digits.

    Python rounds the exact value of the float.  ``rounded`` rounds its product with a power of ten, which is itself
    rounded: the float 2.675 is less than 2.675, but its product is exactly 267.5, which is half-way.  So if the product
    is half-way, its rounding error decides.  Beyond 22 digits powers of ten are not exact, and the last bit may differ.
    """
    e, x = t.builder, t.builder.stop(v)
    if abs(digits) > _MOST_DIGITS:
        return x if digits > 0 else e.select(e.isfinite(x), e.copysign(0.0, x), x)
    if digits == 0:
        return e.round(v)
    scale = 10.0 ** abs(digits)
    p, product = (e.mul(x, scale), e.mul(v, scale)) if digits > 0 else (e.div(x, scale), e.div(v, scale))
    low = e.floor(p)
    lost = _lost(t, x, scale, p) if digits > 0 else e.neg(_lost(t, e.add(low, 0.5), scale, x))
    half_way = e.and_(e.eq(e.sub(p, low), 0.5), e.ne(lost, 0.0))
    decided = e.copysign(e.select(e.gt(lost, 0.0), e.add(low, 1.0), low), p)
    whole = e.select(half_way, decided, e.round(product))
    there = e.div(whole, scale) if digits > 0 else e.mul(whole, scale)
    return e.select(e.ge(e.abs(p), 2.0 ** 53), x, there)                     # the float has no digits left to round


def _lost(t: Context, x: Value, y: float, product: Value) -> Value:
    """The rounding error of ``product`` = ``x * y``, by exact products of half-width factors (Dekker 1971)."""
    e = t.builder
    if y > _MOST_HALVED:
        return e.sub(e.mul(x, y), product)
    high = e.cast(e.cast(x, dtype=F32), dtype=F64)
    low = e.sub(x, high)
    y_high = float(np.float32(y))
    found = e.add(e.sub(e.mul(high, y_high), product), e.mul(low, y_high))
    if y == y_high:
        return found
    return e.add(e.add(found, e.mul(high, y - y_high)), e.mul(low, y - y_high))


_MOST_DIGITS = 308                                           # larger powers of ten are not floats
_MOST_HALVED = 1e22                                          # larger powers of ten are rounded or exceed f32


# --- builtins over values and sequences -----------------------------------------------------------

def sum_builtin(t: Context, iterable: Any, start: Any = 0) -> Any:
    if isinstance(iterable, (list, tuple)):
        return functools.reduce(lambda x, y: _operator(t, "add", x, y), iterable, start)
    x = lift(t, iterable)
    v = promotion.cast(t, x.value, I64) if x.scalar.is_bool else x.value
    if not rank(v):
        raise TypeError("'float' object is not iterable")
    return BINARY["add"](t, Sym(reduce(t, "sum", v, (0,)), False), start)


def _operator(t: Context, op: str, x: Any, y: Any) -> Any:
    """Applies an operator to two values, neither of which has to be a stand-in."""
    if isinstance(x, Sym) or isinstance(y, Sym):
        return BINARY[op](t, x, y)
    return x + y if op == "add" else x * y


def extremum(name: str, op: str, better: str) -> Rule:
    """The rule of ``max`` and ``min``: the first of equal values, by comparison, as in Python."""
    def rule(t: Context, *args: Any, key: Any = None, **default: Any) -> Any:
        if key is not None:
            refuse(t, f"{name} with key= of run-time values", "np.argmax, or a loop")
        if len(args) > 1 or isinstance(args[0], (list, tuple)):
            items = args if len(args) > 1 else args[0]
            if not items:
                if default:
                    return default["default"]
                raise ValueError(f"{name}() iterable argument is empty")
            return functools.reduce(functools.partial(_better, t, better), items)
        v = lift(t, args[0]).value
        if rank(v) != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous." if rank(v)
                             else "object is not iterable")
        if default:
            refuse(t, f"{name} of an array with default=", "a test of its length")
        not_empty(t, v, (0,), f"{name}() iterable argument is empty")
        return Sym(reduce(t, op, v, (0,)), False)
    return rule


def _better(t: Context, better: str, best: Any, x: Any) -> Any:
    if not isinstance(best, Sym) and not isinstance(x, Sym):
        return x if (x > best if better == "gt" else x < best) else best
    a, b = lift(t, best), lift(t, x)
    if rank(a.value) or rank(b.value):
        refuse(t, "the builtin max or min between arrays", "np.maximum, np.minimum")
    chosen = COMPARE[better](t, b, a).value
    joined = join_scalars((a, b), False)
    if not joined:
        return t.choose_value(Sym(chosen), x, best)
    dtype, _ = promotion.promote(a, b)
    return Sym(t.builder.select(chosen, promotion.as_dtype(t, b, dtype), promotion.as_dtype(t, a, dtype)), joined[1])


def testing(op: str) -> Rule:
    """The rule of the builtins ``any`` and ``all``, of a list or an array."""
    def rule(t: Context, iterable: Any) -> Any:
        if not isinstance(iterable, (list, tuple)):
            v = promotion.cast(t, lift(t, iterable).value, BOOL)
            if rank(v) != 1:
                refuse(t, f"the builtin {op} of an array that has not one axis", f"np.{op}")
            return Sym(reduce(t, op, v, (0,)), True)
        known, unknown = _truths(t, iterable)
        if (op == "any" and True in known) or (op == "all" and False in known):
            return op == "any"
        if not unknown:
            return op == "all"
        emit = t.builder.or_ if op == "any" else t.builder.and_
        return Sym(functools.reduce(emit, unknown), True)
    return rule


def _truths(t: Context, items: Sequence[Any]) -> tuple[list[bool], list[Value]]:
    truths = [truth(t, x) for x in items]
    return [x for x in truths if isinstance(x, bool)], [x.value for x in truths if isinstance(x, Sym)]


def pow_builtin(t: Context, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is not None:
        refuse(t, "pow with a modulus", "a loop")
    return power(t, base, exp)


# --- math -----------------------------------------------------------------------------------------

Domain = Callable[[Builder, Value], Value] | None


def _outside(op: str, bound: float) -> Callable[[Builder, Value], Value]:
    """The test ``x op bound``; NaN passes."""
    opposite = {"ge": "lt", "gt": "le", "le": "gt"}[op]
    return lambda e, v: e.not_(e.emit(opposite, v, bound))


def _within_one(e: Builder, v: Value) -> Value:
    return e.not_(e.gt(e.abs(v), 1.0))


def _inside_one(e: Builder, v: Value) -> Value:
    return e.not_(e.ge(e.abs(v), 1.0))


def _no_pole(e: Builder, v: Value) -> Value:
    return e.not_(e.and_(e.and_(e.le(v, 0.0), e.eq(v, e.floor(v))), e.isfinite(v)))


def function(op: str, domain: Domain = None) -> SymRule:
    """The rule of a ``math`` function that is one op; it raises outside its domain."""
    def rule(t: Context, x: Any) -> Sym:
        v = _float(t, x, op)
        if domain is not None:
            t.check(domain(t.builder, v), "ValueError", "math domain error")
        return Sym(t.builder.emit(op, v), True)
    return rule


def _float(t: Context, x: Any, name: str) -> Value:
    return promotion.cast(t, _scalar(t, x, f"math.{name}"), F64)


def binary(op: str) -> Rule:
    def rule(t: Context, x: Any, y: Any) -> Sym:
        return Sym(t.builder.emit(op, _float(t, x, op), _float(t, y, op)), True)
    return rule


def log(t: Context, x: Any, base: Any = None) -> Sym:
    plain = function("log", POSITIVE)(t, x)
    return plain if base is None else divide(t, plain, function("log", POSITIVE)(t, base))


def hypot(t: Context, *coordinates: Any) -> Sym:
    vs = [_float(t, x, "hypot") for x in coordinates]
    if not vs:
        return lift(t, 0.0)
    return Sym(functools.reduce(t.builder.hypot, vs[1:], t.builder.abs(vs[0])) if len(vs) != 2
               else t.builder.hypot(*vs), True)


def dist(t: Context, p: Any, q: Any) -> Sym:
    if isinstance(p, (list, tuple)) and isinstance(q, (list, tuple)):
        if len(p) != len(q):
            raise ValueError("both points must have the same number of dimensions")
        return hypot(t, *[BINARY["sub"](t, x, y) for x, y in zip(p, q)])
    u, v = (promotion.as_dtype(t, lift(t, x), F64) for x in (p, q))
    if rank(u) != 1 or rank(v) != 1:
        raise TypeError("both points must be sequences of numbers")
    if (same := lengths.equal_sizes(t, lengths.size(t, u, 0), lengths.size(t, v, 0))) is not None:
        t.check(same, "ValueError", "both points must have the same number of dimensions")
    d = t.builder.sub(u, v)
    return Sym(t.builder.sqrt(reduce(t, "sum", t.builder.mul(d, d), (0,))), True)


def prod(t: Context, iterable: Any, *, start: Any = 1) -> Any:
    if isinstance(iterable, (list, tuple)):
        return functools.reduce(lambda x, y: _operator(t, "mul", x, y), iterable, start)
    v = lift(t, iterable).value
    v = promotion.cast(t, v, I64) if dtype_of(v.type).is_bool else v
    return BINARY["mul"](t, Sym(reduce(t, "prod", v, (0,)), False), start)


def fmod(t: Context, x: Any, y: Any) -> Sym:
    e = t.builder
    a, b = _float(t, x, "fmod"), _float(t, y, "fmod")
    outside = e.or_(e.and_(e.eq(b, 0.0), e.not_(e.isnan(a))), e.and_(e.isinf(a), e.not_(e.isnan(b))))
    t.check(e.not_(outside), "ValueError", "math domain error")
    return Sym(rest_like(e, a, b), True)


def math_pow(t: Context, x: Any, y: Any) -> Sym:
    e, base = t.builder, to_float(t, x)
    n = to_float(t, y) if isinstance(y, Sym) else float(y)
    if isinstance(n, Sym) or n < 0 or not n.is_integer():
        a, b = base.value, lift(t, n).value
        root = e.and_(e.lt(a, 0.0), e.ne(b, e.floor(b)))
        pole = e.and_(e.eq(a, 0.0), e.lt(b, 0.0))
        outside = e.and_(e.and_(e.isfinite(a), e.isfinite(b)), e.or_(root, pole))
        t.check(e.not_(outside), "ValueError", "math domain error")
    return power(t, base, n)


def classify(op: str) -> Rule:
    def rule(t: Context, x: Any) -> Sym:
        return Sym(t.builder.emit(op, _float(t, x, op)), True)
    return rule


def scaled(factor: float) -> Rule:
    """The rule of ``degrees`` and ``radians``."""
    return lambda t, x: Sym(t.builder.mul(_float(t, x, "degrees"), factor), True)


def isclose(t: Context, a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Sym:
    e = t.builder
    x, y = _float(t, a, "isclose"), _float(t, b, "isclose")
    rel, least = _float(t, rel_tol, "isclose"), _float(t, abs_tol, "isclose")
    t.check(e.not_(e.or_(e.lt(rel, 0.0), e.lt(least, 0.0))), "ValueError", "tolerances must be non-negative")
    gap = e.abs(e.sub(x, y))
    bound = e.maximum(e.mul(rel, e.maximum(e.abs(x), e.abs(y))), least)
    near = e.and_(e.le(gap, bound), e.and_(e.isfinite(x), e.isfinite(y)))
    return Sym(e.or_(e.eq(x, y), near), True)


POSITIVE = _outside("gt", 0.0)
DOMAINS: dict[str, Domain] = {
    "sqrt": _outside("ge", 0.0), "log": POSITIVE, "log2": POSITIVE, "log10": POSITIVE,
    "log1p": _outside("gt", -1.0), "asin": _within_one, "acos": _within_one,
    "acosh": _outside("ge", 1.0), "atanh": _inside_one, "lgamma": _no_pole,
}


def length_builtin(t: Context, x: Any) -> Any:
    return len(x) if isinstance(x, (list, tuple, dict, str)) else length(t, x)


def is_integer(t: Context, x: Any) -> Sym:
    v = promotion.cast(t, _scalar(t, x, "is_integer"), F64)
    return Sym(t.builder.and_(t.builder.isfinite(v), t.builder.eq(v, t.builder.floor(v))), True)
