"""Helpers of all rules: dtype promotion, casts, sizes, broadcasting.

*Weak* values are Python scalars (int, float, bool).  Combined with a NumPy value they take its dtype (NEP 50).  Two
weak operands follow Python's rules and give a weak result.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ....errors import ShapeError, TypeInferenceError, UnsupportedError
from ....ir.graph import Value
from ....ir.types import BOOL, F64, I64, INSTEAD, U64, Array, Dim, Scalar, broadcast_dims, dims_of, dtype_of, from_numpy
from ...values.values import Context, Sym, Weak
from .lengths import alike, count, equal_sizes, none_or_one, size, sizes

Rule = Callable[..., Any]
SymRule = Callable[..., Sym]              # a rule with a single stand-in as its result
NO: Any = np._NoValue                            # NumPy's default where ``None`` has a meaning


def refuse(t: Context, message: str, hint: str = "") -> NoReturn:
    """Raises ``UnsupportedError`` at the user's line."""
    raise UnsupportedError(message, t.loc, hint)


# --- dtypes ---------------------------------------------------------------------------------------

def dtype_arg(t: Context, dtype: Any) -> Scalar | None:
    """The element type that a ``dtype=`` argument names; None if none is given."""
    if dtype is None:
        return None
    found = from_numpy(np.dtype(dtype))
    if found is None:
        refuse(t, f"the dtype {np.dtype(dtype)} is not supported", INSTEAD)
    return found


def promote(*xs: Sym) -> tuple[Scalar, Weak]:
    """The common dtype of the operands, and True if the result is weak, which requires all operands to be weak; None if
    it may be weak.
    """
    return _promote(tuple([(dtype_of(x.value.type), x.weak) for x in xs]))


@functools.lru_cache(maxsize=1024)
def _promote(kinds: tuple[tuple[Scalar, Weak], ...]) -> tuple[Scalar, Weak]:
    specimens = [dtype.np.type(0).item() if weak else dtype.np for dtype, weak in kinds]
    common = from_numpy(np.result_type(*specimens))
    assert common is not None
    seen = {weak for _, weak in kinds}
    return common, False if False in seen else None if None in seen else True


def inexact(dtype: Scalar) -> Scalar:
    """The float dtype of quotients and means: ``dtype`` if it is a float, otherwise f64."""
    return dtype if dtype.is_float else F64


def cast(t: Context, v: Value, dtype: Scalar) -> Value:
    """``v`` converted to another element type, as ``astype`` does."""
    if dtype.is_bool and not dtype_of(v.type).is_bool:
        return t.builder.ne(v, 0)
    return t.builder.cast(v, dtype=dtype)


def as_dtype(t: Context, x: Sym, dtype: Scalar) -> Value:
    """An operand converted to the dtype of its operation; checks that a Python number fits an integer dtype."""
    if x.weak and dtype.is_int and dtype is not I64 and not dtype_of(x.value.type).is_bool:
        _check_fits(t, x.value, dtype)
    return cast(t, x.value, dtype)


def as_element(t: Context, x: Sym, dtype: Scalar) -> Value:
    """A value as it is stored: a number of NumPy's must fit elements with a sign as one of Python's must, and wraps in
    those without.
    """
    own = x.scalar
    if x.weak or rank(x.value) or own.is_bool or not dtype.is_signed or (own.is_float and dtype is I64):
        return as_dtype(t, x, dtype)
    if own.is_float or own.high > dtype.high or own.low < dtype.low:
        _check_fits(t, x.value, dtype)
    return cast(t, x.value, dtype)


def _check_fits(t: Context, v: Value, dtype: Scalar) -> None:
    """Checks that an integer, or a truncated float, is in the range of ``dtype``."""
    b = t.builder
    message = f"Python integer {{}} out of bounds for {dtype.np}"
    if v.const is not None:
        if not dtype.low <= int(v.const) <= dtype.high:
            raise OverflowError(message.format(int(v.const)))
        return
    whole = v
    if dtype_of(v.type).is_float:
        t.check(b.not_(b.isnan(v)), "ValueError", "cannot convert float NaN to integer")
        t.check(b.not_(b.isinf(v)), "OverflowError", "cannot convert float infinity to integer")
        v, whole = b.trunc(v), b.cast(v, dtype=I64)
    t.check(fits(t, v, dtype), "OverflowError", message, to_i64(t, whole))


def fits(t: Context, v: Value, dtype: Scalar) -> Value:
    """The test that a whole number, of a type that has others too, is in the range of ``dtype``."""
    b, own = t.builder, dtype_of(v.type)
    tests = [b.ge(v, dtype.low)] if own.is_float or own.is_signed else []
    if own.is_float or dtype.high < own.high:
        tests.append(b.lt(v, dtype.high + 1))
    return functools.reduce(b.and_, tests)


def to_i64(t: Context, v: Value) -> Value:
    """An integer or a bool as i64, the type of Python's ``int``; checks that a u64 fits."""
    if dtype_of(v.type) is U64:
        t.check(t.builder.le(v, I64.high), "OverflowError", "Python int too large to convert to C long")
    return cast(t, v, I64)


def strong(x: Sym) -> Sym:
    """The same value with NumPy's promotion rules (not weak)."""
    return Sym(x.value, False) if x.weak else x


def is_array(x: Any) -> bool:
    return isinstance(x, Sym) and isinstance(x.value.type, Array)


def rank(v: Value) -> int:
    return len(dims_of(v.type))


# --- numbers that describe shapes -----------------------------------------------------------------

def static_int(x: Any) -> int | None:
    """The value of an integer that is known while tracing, or None."""
    if isinstance(x, (int, np.integer)):
        return int(x)
    if isinstance(x, Sym) and dtype_of(x.value.type).is_int and isinstance(x.value.const, int):
        return x.value.const
    return None


def int_value(t: Context, x: Any, what: str = "an index") -> Value:
    """An integer, constant or not, as an i64 value."""
    if (known := static_int(x)) is not None:
        return t.builder.const(known)
    if isinstance(x, Sym) and isinstance(x.value.type, Scalar) and x.value.type.is_int:
        return to_i64(t, x.value)
    if isinstance(x, Sym) and x.value.type == BOOL and x.weak:
        return cast(t, x.value, I64)
    kind = str(x.value.type) if isinstance(x, Sym) else type(x).__name__
    raise TypeInferenceError(f"{what} must be an integer, not {kind}", t.loc)


def must_be_static(t: Context, x: Any, what: str) -> Any:
    """The Python value of an argument; refused if it is not known while tracing."""
    known = static_int(x) if isinstance(x, Sym) else x
    if known is None and isinstance(x, Sym):
        refuse(t, f"{what} must be known while tracing", "a constant, or a parameter named in static=")
    return known


def axis_arg(t: Context, axis: Any, n: int) -> int:
    """An axis counted from the front; raises ``AxisError`` as NumPy does."""
    number = operator.index(must_be_static(t, axis, "an axis"))
    if not -n <= number < n:
        raise np.exceptions.AxisError(number, n)
    return number % n


def axes_arg(t: Context, axis: Any, n: int) -> tuple[int, ...]:
    """The axes that an ``axis=`` argument names, sorted; ``None`` means all of them."""
    if axis is None:
        return tuple(range(n))
    axes = [axis_arg(t, a, n) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def reduced_axes(t: Context, axis: Any, n: int) -> tuple[int, ...]:
    """The axes of a ufunc's reduction, which accepts 0 and -1 for a scalar too."""
    if n == 0 and axis is not None and not isinstance(axis, (tuple, list)):
        axis_arg(t, axis, 1)
        return ()
    return axes_arg(t, axis, n)


def with_an_axis(t: Context, v: Value, axis: Any) -> Value:
    """``v``; a scalar becomes a vector of one element if an axis is given, which 0 and -1 name."""
    return v if rank(v) or axis is None else with_axis(t, v, 0)


# --- broadcasting ---------------------------------------------------------------------------------

def agreeing(t: Context, *vs: Value) -> list[Value]:
    """The operands of an elementwise op, with sizes checked; slices of at most one element are made to broadcast."""
    n = max(map(rank, vs), default=0)
    narrowed, agree = list(vs), True
    for axis in range(-n, 0):
        have = {i: size(t, v, rank(v) + axis) for i, v in enumerate(vs)
                if rank(v) >= -axis and dims_of(v.type)[axis] != 1}
        if len(set(have.values())) < 2:
            continue
        agree = False
        none = any(m.const == 0 for m in have.values())         # sizes 0 and 1 both broadcast to size 0
        longer = next((m for m in have.values() if not none_or_one(m)), None)
        for i, m in have.items():
            if not none_or_one(m):
                continue
            if none:
                narrowed[i] = part(t, narrowed[i], rank(vs[i]) + axis, t.builder.const(0), t.builder.const(0))
            elif longer is not None:
                _check_shapes(t, vs, [(_fits(t, m, longer), m, longer)])
                narrowed[i] = _with_one(t, narrowed[i], rank(vs[i]) + axis)
    if not agree:
        broadcast(t, *narrowed)
    return narrowed


def _fits(t: Context, m: Value, n: Value) -> Value:
    """The condition that a size ``m`` of 0 or 1 broadcasts to ``n``: if it is 0, that is 0 too."""
    return t.builder.or_(t.builder.eq(m, 1), t.builder.eq(n, 0))


def _with_one(t: Context, v: Value, axis: int) -> Value:
    """``v`` with a static size of 1 along an axis of at most one element: zeros if it has none."""
    e = t.builder
    one, start = e.const(1), e.const(0)
    zeros = e.fill(e.const(0, dtype_of(v.type)), *[one if i == axis else n for i, n in enumerate(sizes(t, v))])
    return e.set_slice(zeros, v, *[x for _ in range(rank(v)) for x in (start, one)])


def broadcast(t: Context, *vs: Value) -> list[Value]:
    """The sizes that the operands broadcast to; emits checks for sizes that may differ."""
    try:
        functools.reduce(broadcast_dims, [dims_of(v.type) for v in vs])
    except ValueError:
        shapes = " ".join(_shape_text(dims_of(v.type)) for v in vs if rank(v))
        raise ShapeError(f"operands could not be broadcast together with shapes {shapes}", t.loc) from None
    n = max(map(rank, vs), default=0)
    out, tests = [], []
    for axis in range(-n, 0):
        picked, more = _agree(t, vs, axis)
        out.append(picked)
        tests += more
    if tests:
        _check_shapes(t, vs, tests)
    return out


def _agree(t: Context, vs: Sequence[Value], axis: int) -> tuple[Value, list[tuple[Value, Value, Value]]]:
    """The size of one axis of the result (from the back), and tests (c, x, y), where c is the condition x == y."""
    have = [v for v in vs if rank(v) >= -axis and dims_of(v.type)[axis] != 1]
    if not have:
        return t.builder.const(1), []
    have.sort(key=lambda v: dims_of(v.type)[axis] is None)      # a static size, if any, comes first
    first, *rest = [size(t, v, rank(v) + axis) for v in have]
    tests = [(c, first, other) for other in rest if (c := equal_sizes(t, first, other)) is not None]
    return first, tests


def _check_shapes(t: Context, vs: Sequence[Value], tests: list[tuple[Value, Value, Value]]) -> None:
    text = "operands could not be broadcast together with shapes "
    shaped = [v for v in vs if rank(v)]
    if sum(map(rank, shaped)) <= 4:
        condition = functools.reduce(t.builder.and_, [c for c, _, _ in tests])
        text += " ".join(_shape_text(("{}",) * rank(v)) for v in shaped)
        t.check(condition, "ValueError", text, *[s for v in shaped for s in sizes(t, v)])
        return
    for condition, x, y in tests:
        t.check(condition, "ValueError", text.replace("shapes ", "sizes {} and {}"), x, y)


def _shape_text(dims: Sequence[Dim | str]) -> str:
    inside = ", ".join("?" if d is None else str(d) for d in dims)
    return f"({inside},)" if len(dims) == 1 else f"({inside})"


def broadcast_to(t: Context, v: Value, shape: Sequence[Value]) -> Value:
    """``v`` broadcast to exactly these sizes; emits checks for sizes that may not fit."""
    if not shape:
        return v
    have = sizes(t, v)
    if len(have) == len(shape) and all(alike(x, y) for x, y in zip(have, shape)):
        return v
    for axis, (x, y) in enumerate(zip(reversed(have), reversed(shape)), 1):
        if x.const == 1:
            continue
        if none_or_one(x) and y.const == 0:
            v = part(t, v, len(have) - axis, t.builder.const(0), t.builder.const(0))
            continue
        if none_or_one(x) and y.const != 1 and not none_or_one(y):
            t.check(_fits(t, x, y), "ValueError", "could not broadcast an array with size {} to size {}", x, y)
            v = _with_one(t, v, len(have) - axis)
            continue
        if (condition := equal_sizes(t, x, y)) is not None:
            t.check(condition, "ValueError", "could not broadcast an array with size {} to size {}", x, y)
    return t.builder.broadcast_to(v, *shape)


def part(t: Context, v: Value, axis: int, start: Value, length: Value, step: int = 1) -> Value:
    """A slice of ``length`` elements from ``start`` along one axis."""
    e, spec = t.builder, []
    for i in range(rank(v)):
        spec += [start, length, e.const(step)] if i == axis else [e.const(0), size(t, v, i), e.const(1)]
    return e.slice(v, *spec)


def reshape(t: Context, v: Value, shape: Sequence[Value]) -> Value:
    """The same elements in another shape; emits no check."""
    have = sizes(t, v)
    if len(have) == len(shape) and all(alike(x, y) for x, y in zip(have, shape)):
        return v
    return t.builder.reshape(v, *shape)


def flat(t: Context, v: Value) -> Value:
    """All elements as a vector; a scalar becomes a vector of one element."""
    return v if rank(v) == 1 else reshape(t, v, [count(t, v)]) if rank(v) else with_axis(t, v, 0)


def with_axis(t: Context, v: Value, axis: int) -> Value:
    """``v`` with an axis of size 1 inserted; a scalar becomes a vector of one element."""
    one = t.builder.const(1)
    if not rank(v):
        return t.builder.fill(v, one)
    shape = sizes(t, v)
    return t.builder.reshape(v, *shape[:axis], one, *shape[axis:])
