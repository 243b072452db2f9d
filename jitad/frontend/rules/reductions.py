"""Reductions and scans along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.graph import Value
from ...ir.types import BOOL, F64, Scalar, dtype_of
from ..values import Context, Sym
from . import core
from .core import Rule, axes_arg, axis_arg, dtype_arg, inexact, part, rank, refuse, size, sizes
from .dtypes import accumulator
from .lifting import lift
from .ufuncs import choose, isclose


def _no_out(t: Context, out: Any) -> None:
    if out is not None:
        refuse(t, "the argument out=", "assign the result: a[...] = ...")


def _shaped(t: Context, out: Value, like: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """A reduction's result with its axes kept at size 1."""
    if not keepdims or not axes:
        return out
    one = t.builder.const(1)
    shape = [one if i in axes else size(t, like, i) for i in range(rank(like))]
    return t.builder.reshape(out, *shape) if rank(out) else t.builder.fill(out, *shape)


def reduce(t: Context, op: str, v: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """One reduction op; of a scalar, and along no axes, the value itself."""
    if not axes:
        return v
    return _shaped(t, t.builder.emit(op, v, axes=tuple(axes)), v, axes, keepdims)


def adding(op: str) -> Rule:
    """``sum`` and ``prod``."""
    def rule(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
             initial: Any = None, where: Any = None) -> Sym:
        _no_out(t, out)
        x = lift(t, a)
        if where is not None:
            x = choose(t, where, x, Sym(t.builder.const(op == "prod", dtype_of(x.value.type)), False))
        kind = dtype_arg(t, dtype) or accumulator(dtype_of(x.value.type))
        v = core.cast(t, x.value, kind)
        name, step = ("sum", "add") if op == "sum" else ("prod", "mul")
        if kind.is_bool:
            name, step = ("any", "or") if op == "sum" else ("all", "and")
        total = reduce(t, name, v, axes_arg(t, axis, rank(v)), keepdims)
        if op == "sum" and kind.is_float and not rank(v):
            total = t.builder.add(total, 0.0)                # sums begin with 0, and 0 + -0 is 0
        if initial is not None:
            start = core.as_dtype(t, lift(t, initial), kind)
            total = t.builder.emit(step, total, start)
        return Sym(total, False)
    return rule


def extreme(op: str) -> Rule:
    """``max`` and ``min``; of nothing they raise."""
    def rule(t: Context, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False,
             initial: Any = None, where: Any = None) -> Sym:
        _no_out(t, out)
        if where is not None:
            refuse(t, f"the argument where= of {op}", "np.where first")
        v = lift(t, a).value
        axes = axes_arg(t, axis, rank(v))
        if initial is None:
            name = "maximum" if op == "max" else "minimum"
            not_empty(t, v, axes, f"zero-size array to reduction operation {name} which has no identity")
            return Sym(reduce(t, op, v, axes, keepdims), False)
        start = core.as_dtype(t, lift(t, initial), dtype_of(v.type))
        wide = core.flat(t, v) if len(axes) == rank(v) > 1 else v
        return Sym(_extreme_from(t, op, wide, (0,) if wide is not v else axes, start, v, axes, keepdims), False)
    return rule


def _extreme_from(t: Context, op: str, v: Value, axes: Sequence[int], start: Value, like: Value,
                  kept: Sequence[int], keepdims: bool) -> Value:
    """With an initial value: one more element on each axis reduced, of which any may be empty."""
    if not axes:
        return t.builder.emit("maximum" if op == "max" else "minimum", v, start)
    for axis in reversed(axes):
        shape = sizes(t, v)
        shape[axis] = t.builder.const(1)
        longer = t.builder.concat(t.builder.fill(start, *shape), v, axis=axis)
        v = t.builder.emit(op, longer, axes=(axis,))
    return _shaped(t, v, like, kept, keepdims)


def not_empty(t: Context, v: Value, axes: Sequence[int], message: str) -> None:
    for axis in axes:
        t.check(t.builder.ne(size(t, v, axis), 0), "ValueError", message)


def arg_extreme(op: str) -> Rule:
    """``argmax`` and ``argmin``: the first of equals; of all elements when no axis is given."""
    def rule(t: Context, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Sym:
        _no_out(t, out)
        whole = lift(t, a).value
        if not rank(whole):
            return Sym(t.builder.const(0), False)
        v = core.flat(t, whole) if axis is None else whole
        along = 0 if axis is None else axis_arg(t, axis, rank(v))
        not_empty(t, v, (along,), f"attempt to get {op} of an empty sequence")
        found = t.builder.emit(op, v, axis=along)
        kept = range(rank(whole)) if axis is None else (along,)
        return Sym(_shaped(t, found, whole, kept, keepdims), False)
    return rule


def testing(op: str) -> Rule:
    """``any`` and ``all``."""
    def rule(t: Context, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Sym:
        _no_out(t, out)
        v = core.cast(t, lift(t, a).value, BOOL)
        return Sym(reduce(t, op, v, axes_arg(t, axis, rank(v)), keepdims), False)
    return rule


# --- moments --------------------------------------------------------------------------------------

def _float_dtype(t: Context, dtype: Any, of: Scalar) -> Scalar:
    """The dtype in which a mean is computed."""
    kind = dtype_arg(t, dtype) or inexact(of)
    if not kind.is_float:
        refuse(t, f"a mean or a variance of dtype {kind.np}", "dtype=float, and .astype of the result")
    return kind


def _mean(t: Context, v: Value, axes: Sequence[int], keepdims: bool, ddof: Any = 0) -> Value:
    n = core.count(t, v, axes)
    if ddof:
        n = t.builder.maximum(t.builder.sub(n, core.int_value(t, ddof)), 0)
    total = reduce(t, "sum", v, axes, keepdims)
    return t.builder.div(total, core.cast(t, n, dtype_of(v.type)))


def mean(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Sym:
    _no_out(t, out)
    x = lift(t, a)
    v = core.cast(t, x.value, _float_dtype(t, dtype, dtype_of(x.value.type)))
    return Sym(_mean(t, v, axes_arg(t, axis, rank(v)), keepdims), False)


def var(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: bool = False) -> Sym:
    _no_out(t, out)
    x = lift(t, a)
    v = core.cast(t, x.value, _float_dtype(t, dtype, dtype_of(x.value.type)))
    axes = axes_arg(t, axis, rank(v))
    centred = t.builder.sub(v, _mean(t, v, axes, True))
    return Sym(_mean(t, t.builder.mul(centred, centred), axes, keepdims, ddof), False)


def std(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: bool = False) -> Sym:
    return Sym(t.builder.sqrt(var(t, a, axis, dtype, out, ddof, keepdims).value), False)


def average(t: Context, a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            *, keepdims: bool = False) -> Sym:
    if weights is None:
        return mean(t, a, axis, keepdims=keepdims)
    if returned:
        refuse(t, "the argument returned= of average", "np.sum(weights)")
    x, w = lift(t, a), lift(t, weights)
    dtype = F64 if not x.scalar.is_float else inexact(core.promote(x, w)[0])
    v, u = core.as_dtype(t, x, dtype), core.as_dtype(t, w, dtype)
    axes = axes_arg(t, axis, rank(v))
    if rank(u) == 1 and len(axes) == 1 and rank(v) > 1:
        one = t.builder.const(1)
        u = core.reshape(t, u, [size(t, u, 0) if i == axes[0] else one for i in range(rank(v))])
    shape = core.broadcast(t, v, u)
    u = core.broadcast_to(t, u, shape)
    total = reduce(t, "sum", t.builder.mul(v, u), axes, keepdims)
    whole = reduce(t, "sum", u, axes, keepdims)
    zero = t.builder.eq(whole, 0)
    none = reduce(t, "any", zero, tuple(range(rank(zero))))
    t.check(t.builder.not_(none), "ZeroDivisionError", "Weights sum to zero, can't be normalized")
    return Sym(t.builder.div(total, whole), False)


def ptp(t: Context, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Sym:
    if lift(t, a).scalar.is_bool:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported")
    high, low = extreme("max")(t, a, axis, out, keepdims), extreme("min")(t, a, axis, out, keepdims)
    return Sym(t.builder.sub(high.value, low.value), False)


def count_nonzero(t: Context, a: Any, axis: Any = None, *, keepdims: bool = False) -> Sym:
    return adding("sum")(t, Sym(core.cast(t, lift(t, a).value, BOOL), False), axis, keepdims=keepdims)


def skipping_nan(rule: Rule, instead: float) -> Rule:
    """``nansum`` and its like: NaN counts as ``instead``."""
    def skipping(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                 keepdims: bool = False) -> Sym:
        v = lift(t, a).value
        if dtype_of(v.type).is_float:
            v = t.builder.select(t.builder.isnan(v), t.builder.const(instead, dtype_of(v.type)), v)
        return rule(t, Sym(v, False), axis, dtype, out, keepdims)
    return skipping


def nanmean(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Sym:
    v = lift(t, a).value
    if not dtype_of(v.type).is_float:
        return mean(t, a, axis, dtype, out, keepdims)
    kept = t.builder.not_(t.builder.isnan(v))
    n = adding("sum")(t, Sym(core.cast(t, kept, dtype_of(v.type)), False), axis, keepdims=keepdims)
    total = skipping_nan(adding("sum"), 0.0)(t, a, axis, dtype, out, keepdims)
    return Sym(t.builder.div(total.value, core.cast(t, n.value, dtype_of(total.value.type))), False)


def along_first(rule: Rule) -> Rule:
    """``ufunc.reduce`` and ``ufunc.accumulate``: axis 0 unless told otherwise."""
    return lambda t, a, axis=0, **options: rule(t, a, axis, **options)


def allclose(t: Context, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Sym:
    return Sym(testing("all")(t, isclose(t, a, b, rtol, atol, equal_nan)).value, True)


def _shifted(t: Context, a: Any, axis: Any) -> tuple[Value, Value, tuple[int, ...]]:
    """The values, their largest along the axes (a constant to differentiation), the axes."""
    x = lift(t, a)
    v = core.cast(t, x.value, inexact(dtype_of(x.value.type)))
    axes = axes_arg(t, axis, rank(v))
    e = t.builder
    top = e.stop(extreme("max")(t, Sym(v), axes, keepdims=True).value)
    return v, e.select(e.isfinite(top), top, e.const(0, dtype_of(v.type))), axes


def logsumexp(t: Context, a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Sym:
    if b is not None:
        refuse(t, "logsumexp with weights", "np.log(np.sum(b * np.exp(a)))")
    v, top, axes = _shifted(t, a, axis)
    e = t.builder
    out = e.add(e.log(reduce(t, "sum", e.exp(e.sub(v, top)), axes, True)), top)
    if keepdims or not axes:
        return Sym(out, False)
    left = [n for i, n in enumerate(sizes(t, out)) if i not in axes]
    return Sym(e.reshape(out, *left) if left else e.get(out, *[e.const(0)] * rank(out)), False)


def softmax(t: Context, x: Any, axis: Any = None) -> Sym:
    v, top, axes = _shifted(t, x, axis)
    e = t.builder
    weights = e.exp(e.sub(v, top))
    return Sym(e.div(weights, reduce(t, "sum", weights, axes, True)), False)


def log_softmax(t: Context, x: Any, axis: Any = None) -> Sym:
    v, top, axes = _shifted(t, x, axis)
    e = t.builder
    shifted = e.sub(v, top)
    return Sym(e.sub(shifted, e.log(reduce(t, "sum", e.exp(shifted), axes, True))), False)


# --- scans ----------------------------------------------------------------------------------------

def scan(op: str) -> Rule:
    """``cumsum`` and ``cumprod``."""
    def rule(t: Context, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Sym:
        _no_out(t, out)
        x = lift(t, a)
        kind = dtype_arg(t, dtype) or accumulator(dtype_of(x.value.type))
        if kind.is_bool:
            refuse(t, f"{op} of dtype bool", "dtype=int, and .astype(bool) of the result")
        v = core.cast(t, x.value, kind)
        if not rank(v):
            v = core.with_axis(t, v, 0)
        if axis is None:
            v = core.flat(t, v)
        return Sym(t.builder.emit(op, v, axis=axis_arg(t, 0 if axis is None else axis, rank(v))), False)
    return rule


def diff(t: Context, a: Any, n: int = 1, axis: int = -1) -> Sym:
    v = lift(t, a).value
    along = axis_arg(t, axis, rank(v))
    for _ in range(core.must_be_static(t, n, "the order of diff")):
        shorter = t.builder.maximum(t.builder.sub(size(t, v, along), 1), 0)
        first = t.builder.minimum(size(t, v, along), 1)
        upper = part(t, v, along, first, shorter)
        lower = part(t, v, along, t.builder.const(0), shorter)
        v = t.builder.emit("xor" if dtype_of(v.type).is_bool else "sub", upper, lower)
    return Sym(v, False)


def trapezoid(t: Context, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Sym:
    given = [lift(t, v).scalar for v in (y, x) if v is not None]
    if any(dtype.is_narrow or dtype.is_bool for dtype in given):
        refuse(t, "trapezoid of bools or narrow integers, which NumPy adds in their own dtype", ".astype(float) first")
    v = core.as_dtype(t, lift(t, y), inexact(lift(t, y).scalar))
    along = axis_arg(t, axis, rank(v))
    e = t.builder
    shorter = e.maximum(e.sub(size(t, v, along), 1), 0)
    upper = part(t, v, along, e.minimum(size(t, v, along), 1), shorter)
    middle = e.mul(e.add(upper, part(t, v, along, e.const(0), shorter)), 0.5)
    if x is None:
        return Sym(reduce(t, "sum", e.mul(middle, core.as_dtype(t, lift(t, dx), dtype_of(v.type))), (along,)), False)
    steps = diff(t, x, axis=-1).value
    if rank(steps) == 1 and rank(v) > 1:
        one = e.const(1)
        steps = core.reshape(t, steps, [size(t, steps, 0) if i == along else one for i in range(rank(v))])
    steps = core.cast(t, steps, dtype_of(v.type))
    core.broadcast(t, middle, steps)
    return Sym(reduce(t, "sum", e.mul(middle, steps), (along,)), False)
