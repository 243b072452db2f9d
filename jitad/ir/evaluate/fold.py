"""Folding: the value of an op if it is known without running it, by constants and identities that hold exactly.

Only identities that are true for every float are used (``x * 1`` but not ``x + 0``: −0 + 0 is 0; not ``x * 0``: NaN).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import Value
from ..ops import size_origin
from ..types import BOOL, I32, I64, U64, Array, Scalar, dtype_of

_COMPARE = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}
_INT: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "maximum": max, "minimum": min,
    "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
}
_ON_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
            "shr": np.right_shift}
_FLOAT = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative}

Known = Value | tuple[Any, Scalar] | None
Rule = Callable[[Sequence[Value], dict[str, Any]], Known]


def fold(name: str, vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    """A value, or ``(constant, type)``, or None if the op must be emitted."""
    rule = _RULES.get(name)
    return None if rule is None else rule(vs, attrs)


def wrap(x: int, t: Scalar) -> int:
    """``x`` reduced to the range of an integer type."""
    return (x - t.low) % (1 << t.bits) + t.low


def _arithmetic(name: str, neutral: Callable[[Sequence[Value], list[Any]], Known] | None = None) -> Rule:
    """A rule that folds constants; ``neutral`` is tried first if some operand is constant, which is rare."""
    def rule(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
        if not any_constant(vs):
            return None
        xs = [v.const for v in vs]
        if neutral is not None and (known := neutral(vs, xs)) is not None:
            return known
        return None if None in xs else _constant(name, vs, xs)
    return rule


def _constant(name: str, vs: Sequence[Value], xs: list[Any]) -> Known:
    t = dtype_of(vs[0].type)
    if name in _COMPARE:
        return bool(_COMPARE[name](*xs)), BOOL
    if t.is_int and name in _INT:
        return wrap(_INT[name](*xs), t), t
    if t.is_float and name in _FLOAT:
        with np.errstate(all="ignore"):
            return float(_FLOAT[name](*(t.np.type(x) for x in xs))), t
    return None


def integer(name: str, xs: Sequence[Any], t: Scalar) -> Any:
    """The result of an op on integers or bools ``xs`` of type ``t``; None if the op has no rule for them."""
    if name in _COMPARE:
        return bool(_COMPARE[name](*xs))
    if name in _ON_BITS and name not in ("shl", "shr"):
        return t.np.type(_ON_BITS[name](*(t.np.type(x) for x in xs))).item()
    if name == "not" and t.is_bool:
        return not xs[0]
    return wrap(_INT[name](*xs), t) if t.is_int and name in _INT else None


def _is(c: Any, number: float) -> bool:
    return c is not None and c == number and not (c == 0 and math.copysign(1, c) < 0)


def _keeps(v: Value, other: Value) -> bool:
    """True if broadcasting ``v`` against ``other`` leaves the type of ``v`` unchanged."""
    return isinstance(other.type, Scalar) or v.type == other.type


def _mul(vs: Sequence[Value], xs: list[Any]) -> Known:
    (x, y), (a, b) = vs, xs
    return x if _is(b, 1) and _keeps(x, y) else y if _is(a, 1) and _keeps(y, x) else None


def _add(vs: Sequence[Value], xs: list[Any]) -> Known:
    (x, y), (a, b) = vs, xs
    if not dtype_of(x.type).is_int:
        return None
    return x if _is(b, 0) and _keeps(x, y) else y if _is(a, 0) and _keeps(y, x) else None


def _sub(vs: Sequence[Value], xs: list[Any]) -> Known:
    return vs[0] if _is(xs[1], 0) and _keeps(*vs) else None


def _div(vs: Sequence[Value], xs: list[Any]) -> Known:
    return vs[0] if _is(xs[1], 1) and _keeps(*vs) else None


def _select(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    c, x, y = vs
    if x is y and _keeps(x, c):
        return x
    if c.const is None or x.type != y.type:
        return None
    return x if c.const else y


def _bits(name: str) -> Rule:
    """A rule that folds an op on the bits of integers as NumPy computes it, whatever the number of bits of a shift."""
    compute = _ON_BITS[name]

    def rule(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
        (x, y), t = vs, dtype_of(vs[0].type)
        if not t.is_int or y.const is None:
            return None
        if x.const is not None:
            return int(compute(t.np.type(x.const), t.np.type(y.const))), t
        return x if y.const == 0 and name != "and" and _keeps(x, y) else None
    return rule


def _and(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    x, y = vs
    if x.type != BOOL or y.type != BOOL:
        return _BITS["and"](vs, attrs)
    if x.const is not None:
        return y if x.const else x
    return None if y.const is None else x if y.const else y


def _or(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    x, y = vs
    if x.type != BOOL or y.type != BOOL:
        return _BITS["or"](vs, attrs)
    if x.const is not None:
        return x if x.const else y
    return None if y.const is None else y if y.const else x


def _not(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    return (not vs[0].const, BOOL) if vs[0].type == BOOL and vs[0].const is not None else None


def _leading_zeros(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    x, t = vs[0].const, dtype_of(vs[0].type)
    return None if x is None else (0 if x < 0 else t.bits - int(x).bit_length(), t)


def _ones(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    x, t = vs[0].const, dtype_of(vs[0].type)
    return None if x is None else ((int(x) & (1 << t.bits) - 1).bit_count(), t)


def _abs(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    x, t = vs[0].const, dtype_of(vs[0].type)
    return (wrap(abs(int(x)), t), t) if x is not None and t.is_int else None


def _cast(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    v, t = vs[0], attrs["dtype"]
    if dtype_of(v.type) == t:
        return v
    c = v.const
    if c is None:
        return None
    if t.is_float:
        return float(t.np.type(c)), t
    return (bool(c), t) if t.is_bool else (whole(c, t) if isinstance(c, float) else wrap(int(c), t), t)


def whole(x: float, t: Scalar) -> int:
    """A float as an integer, as the machine converts it.

    It is converted to 32 or 64 bits first, where a value out of range becomes the least integer; the result has the low
    bits of that.
    """
    if t is U64 and x >= 2.0**63:
        return wrap(whole(x - 2.0**63, I64) + I64.low, t)
    first = I32 if t.bits < 32 or t is I32 else I64
    return wrap(int(x) if first.low <= x < first.high + 1 else first.low, t)


def _dim(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    """The literal size, or the value that is the size, so that equal sizes are equal values."""
    a: Value = vs[0]
    axis: int = attrs["axis"]
    while True:
        assert isinstance(a.type, Array)
        if a.type.dims[axis] is not None:
            return a.type.dims[axis], I64
        origin = size_origin(a, axis)
        if origin is None or isinstance(origin, Value):
            return origin
        a, axis = origin


def _same_type(vs: Sequence[Value], attrs: dict[str, Any]) -> Known:
    return vs[0] if vs[0].type == attrs["type"] else None


def any_constant(vs: Sequence[Value]) -> bool:
    """True if an operand is a constant."""
    for v in vs:
        op = v.op
        if op is not None and op.name == "const":
            return True
    return False


_NEUTRAL = {"mul": _mul, "add": _add, "sub": _sub, "div": _div}
_BITS = {name: _bits(name) for name in _ON_BITS}
ARITHMETIC = frozenset((*_COMPARE, *_INT, *_FLOAT, "shl", "shr"))
"""The ops that ``fold`` folds only if an operand is a constant."""
_RULES: dict[str, Rule] = {
    **{name: _arithmetic(name, _NEUTRAL.get(name)) for name in ARITHMETIC}, **_BITS,
    "select": _select, "and": _and, "or": _or, "not": _not, "cast": _cast, "dim": _dim, "as_type": _same_type,
    "clz": _leading_zeros, "popcount": _ones, "abs": _abs,
}
FOLDED = frozenset(_RULES)
"""The ops that ``fold`` may fold."""


def same(x: Value, y: Value) -> bool:
    """True if two values are known to be equal: the same value, or equal constants (0.0 and -0.0 differ)."""
    if x is y:
        return True
    a = x.const
    if a is None:
        return False
    b = y.const
    if a != b or x.type != y.type:
        return False
    return a != 0 or math.copysign(1, a) == math.copysign(1, b)

