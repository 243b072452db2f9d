"""Reductions and scans along axes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ....ir.graph import Value
from ....ir.types import BOOL, F64, Scalar, dtype_of
from ...values.values import Context, Sym
from . import lengths, promotion
from .dtypes import accumulator
from .joining import concatenate
from .lengths import size, sizes
from .lifting import lift
from .operators import BINARY
from .promotion import NO, Rule, SymRule, axes_arg, axis_arg, dtype_arg, inexact, part, rank, reduced_axes, refuse
from .ufuncs import choose, full_like, isclose


def _shaped(t: Context, out: Value, like: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The result of a reduction, with the reduced axes at size 1 if ``keepdims``."""
    if not keepdims or not axes:
        return out
    one = t.builder.const(1)
    shape = [one if i in axes else size(t, like, i) for i in range(rank(like))]
    return t.builder.reshape(out, *shape) if rank(out) else t.builder.fill(out, *shape)


def reduce(t: Context, op: str, v: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """Emits one reduction op; returns ``v`` itself if there are no axes."""
    if not axes:
        return v
    return _shaped(t, t.builder.emit(op, v, axes=tuple(axes)), v, axes, keepdims)


def adding(op: str) -> SymRule:
    """The rule of ``sum`` and ``prod``."""
    def rule(t: Context, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = NO,
             where: Any = True) -> Sym:
        x = promotion.strong(lift(t, a))
        if where is not True:
            x = choose(t, where, x, Sym(t.builder.const(op == "prod", dtype_of(x.value.type)), False))
        kind = dtype_arg(t, dtype) or accumulator(dtype_of(x.value.type))
        v = promotion.cast(t, x.value, kind)
        name, step = ("sum", "add") if op == "sum" else ("prod", "mul")
        if kind.is_bool:
            name, step = ("any", "or") if op == "sum" else ("all", "and")
        axes = reduced_axes(t, axis, rank(v))
        if initial is None:
            not_empty(t, v, axes, f"zero-size array to reduction operation {op} which has no identity")
        total = reduce(t, name, v, axes, keepdims)
        if op == "sum" and kind.is_float and not rank(v):
                total = t.builder.add(total, 0.0)                # sums start at 0, and 0 + -0 is 0
        if initial is not None and initial is not NO:
            start = promotion.as_dtype(t, lift(t, initial), kind)
            total = t.builder.emit(step, total, start)
        return Sym(total, False)
    return rule


def extreme(op: str) -> SymRule:
    """The rule of ``max`` and ``min``, which raise for an empty array."""
    def rule(t: Context, a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None,
             where: Any = True) -> Sym:
        if where is not True:
            refuse(t, f"the argument `where` of `np.{op}`", "np.where first")
        v = lift(t, a).value
        axes = reduced_axes(t, axis, rank(v))
        if initial is None:
            name = "maximum" if op == "max" else "minimum"
            not_empty(t, v, axes, f"zero-size array to reduction operation {name} which has no identity")
            return Sym(reduce(t, op, v, axes, keepdims), False)
        start = promotion.as_dtype(t, lift(t, initial), dtype_of(v.type))
        if dtype_of(v.type).is_int and len(axes) == rank(v) and not keepdims:
            return Sym(_extreme_of_integers(t, op, v, start), False)
        wide = promotion.flat(t, v) if len(axes) == rank(v) > 1 else v
        return Sym(_extreme_from(t, op, wide, (0,) if wide is not v else axes, start, v, axes, keepdims), False)
    return rule


def _extreme_of_integers(t: Context, op: str, v: Value, start: Value) -> Value:
    """A ``max`` or ``min`` of all elements and an initial value, which have no derivative."""
    b, empty = t.builder, t.builder.const(False)
    for n in sizes(t, v):
        empty = b.or_(empty, b.eq(n, 0))
    found = b.emit("maximum" if op == "max" else "minimum", b.emit(op, v, axes=tuple(range(rank(v)))), start)
    return b.select(empty, start, found)


def _extreme_from(t: Context, op: str, v: Value, axes: Sequence[int], start: Value, like: Value,
                  kept: Sequence[int], keepdims: bool) -> Value:
    """A ``max`` or ``min`` with an initial value: prepends it on each reduced axis, any of which may be empty."""
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
    """The rule of ``argmax`` and ``argmin``: the first of equal elements; without an axis, of the flattened array."""
    def rule(t: Context, a: Any, axis: Any = None, keepdims: bool = False) -> Sym:
        whole = lift(t, a).value
        if not rank(whole):
            if axis is not None:
                axis_arg(t, axis, 1)
            return Sym(t.builder.const(0), False)
        v = promotion.flat(t, whole) if axis is None else whole
        along = 0 if axis is None else axis_arg(t, axis, rank(v))
        not_empty(t, v, (along,), f"attempt to get {op} of an empty sequence")
        found = t.builder.emit(op, v, axis=along)
        kept = range(rank(whole)) if axis is None else (along,)
        return Sym(_shaped(t, found, whole, kept, keepdims), False)
    return rule


def testing(op: str) -> Rule:
    """The rule of ``any`` and ``all``."""
    def rule(t: Context, a: Any, axis: Any = None, keepdims: bool = False, *, where: Any = True) -> Sym:
        v = promotion.cast(t, lift(t, a).value, BOOL)
        if where is not True:
            v = choose(t, where, Sym(v), Sym(t.builder.const(op == "all"), False)).value
        return Sym(reduce(t, op, v, reduced_axes(t, axis, rank(v)), keepdims), False)
    return rule


# --- moments --------------------------------------------------------------------------------------

def _float_dtype(t: Context, dtype: Any, of: Scalar) -> Scalar:
    """The dtype in which a mean is computed; refuses one that is not a float."""
    kind = dtype_arg(t, dtype) or inexact(of)
    if not kind.is_float:
        refuse(t, f"a mean or a variance of dtype {kind.np}", "dtype=float, and .astype of the result")
    return kind


def _mean(t: Context, v: Value, axes: Sequence[int], keepdims: bool, ddof: Any = 0) -> Value:
    n = lengths.count(t, v, axes)
    if ddof:
        n = t.builder.maximum(t.builder.sub(n, promotion.int_value(t, ddof)), 0)
    total = reduce(t, "sum", v, axes, keepdims)
    return t.builder.div(total, promotion.cast(t, n, dtype_of(v.type)))


def mean(t: Context, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Sym:
    x = lift(t, a)
    v = promotion.cast(t, x.value, _float_dtype(t, dtype, dtype_of(x.value.type)))
    return Sym(_mean(t, v, axes_arg(t, axis, rank(v)), keepdims), False)


def var(t: Context, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False, *,
        correction: Any = None) -> Sym:
    if correction is not None:
        if not (isinstance(ddof, int) and ddof == 0):
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    x = promotion.strong(lift(t, a))
    kind = _float_dtype(t, dtype, x.scalar)
    axes = axes_arg(t, axis, rank(x.value))
    mean_ = Sym(_mean(t, promotion.cast(t, x.value, kind), axes, True), False)
    centred = BINARY["sub"](t, x, mean_).value
    return Sym(_mean(t, promotion.cast(t, t.builder.mul(centred, centred), kind), axes, keepdims, ddof), False)


def std(t: Context, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False, *,
        correction: Any = None) -> Sym:
    return Sym(t.builder.sqrt(var(t, a, axis, dtype, ddof, keepdims, correction=correction).value), False)


def average(t: Context, a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            *, keepdims: bool = False) -> Any:
    if weights is None:
        found = mean(t, a, axis, keepdims=keepdims)
        if not returned and not rank(found.value):
            return found
        v, n = lift(t, a).value, lengths.count(t, found.value)
        t.check(t.builder.ne(n, 0), "ZeroDivisionError", "division by zero")
        each = promotion.cast(t, t.builder.floordiv(lengths.count(t, v), n), found.scalar)
        return (found, full_like(t, found.value, each)) if returned else found
    x, w = lift(t, a), lift(t, weights)
    dtype = F64 if not x.scalar.is_float else inexact(promotion.promote(x, w)[0])
    v, u = promotion.as_dtype(t, x, dtype), promotion.as_dtype(t, w, dtype)
    axes = axes_arg(t, axis, rank(v))
    given = [axis_arg(t, i, rank(v)) for i in axis] if isinstance(axis, (tuple, list)) else list(axes)
    if rank(u) == rank(v) == len(axes) and given != list(axes):
        refuse(t, "np.average with weights along axes that are not in order", "`axis` in order, the weights transposed")
    if rank(u) != rank(v):
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if rank(u) != len(axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        u = t.builder.transpose(u, perm=tuple([given.index(i) for i in axes])) if given != list(axes) else u
    kept = axes if rank(u) != rank(v) else tuple(range(rank(v)))
    for i, k in enumerate(kept):
        if (same := lengths.equal_sizes(t, size(t, u, i), size(t, v, k))) is not None:
            t.check(same, "TypeError" if axis is None else "ValueError",
                    "Axis must be specified when shapes of a and weights differ." if axis is None else
                    "Shape of weights must be consistent with shape of a along specified axis.")
    one, shape = t.builder.const(1), sizes(t, v)
    if rank(u) != rank(v):
        u = promotion.reshape(t, u, [shape[i] if i in axes else one for i in range(rank(v))])
    u = promotion.broadcast_to(t, u, shape)
    total = reduce(t, "sum", t.builder.mul(v, u), axes, keepdims)
    whole = reduce(t, "sum", u, axes, keepdims)
    zero = t.builder.eq(whole, 0)
    none = reduce(t, "any", zero, tuple(range(rank(zero))))
    t.check(t.builder.not_(none), "ZeroDivisionError", "Weights sum to zero, can't be normalized")
    mean_ = Sym(t.builder.div(total, whole), False)
    return (mean_, Sym(whole, False)) if returned else mean_


def ptp(t: Context, a: Any, axis: Any = None, keepdims: bool = False) -> Sym:
    reduced_axes(t, axis, rank(lift(t, a).value))
    if lift(t, a).scalar.is_bool:
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported")
    high, low = extreme("max")(t, a, axis, keepdims), extreme("min")(t, a, axis, keepdims)
    return Sym(t.builder.sub(high.value, low.value), False)


def count_nonzero(t: Context, a: Any, axis: Any = None, *, keepdims: bool = False) -> Sym:
    return adding("sum")(t, Sym(promotion.cast(t, lift(t, a).value, BOOL), False), axis, keepdims=keepdims)


def skipping_nan(rule: SymRule, instead: float) -> SymRule:
    """The rule of ``nansum`` and similar functions: replaces NaN by ``instead``."""
    def skipping(t: Context, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = NO,
                 where: Any = True) -> Sym:
        v = lift(t, a).value
        if dtype_of(v.type).is_float:
            v = t.builder.select(t.builder.isnan(v), t.builder.const(instead, dtype_of(v.type)), v)
        return rule(t, Sym(v, False), axis, dtype, keepdims, initial, where)
    return skipping


def nanmean(t: Context, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Sym:
    v = lift(t, a).value
    if not dtype_of(v.type).is_float:
        return mean(t, a, axis, dtype, keepdims)
    asked = dtype_arg(t, dtype)
    if asked is not None and not asked.is_float:
        raise TypeError("If a is inexact, then dtype must be inexact")
    kept = t.builder.not_(t.builder.isnan(v))
    n = adding("sum")(t, Sym(promotion.cast(t, kept, dtype_of(v.type)), False), axis, keepdims=keepdims)
    total = skipping_nan(adding("sum"), 0.0)(t, a, axis, dtype, keepdims)
    return Sym(t.builder.div(total.value, promotion.cast(t, n.value, dtype_of(total.value.type))), False)


def along_first(rule: Rule, of_scalars: bool = True) -> Rule:
    """The rule of ``ufunc.reduce`` and ``ufunc.accumulate``, whose default axis is 0."""
    def first(t: Context, array: Any, axis: Any = 0, **options: Any) -> Any:
        if not of_scalars:
            n = rank(lift(t, array).value)
            if axis is None and n > 1:
                raise ValueError("accumulate does not allow multiple axes")
            axis_arg(t, 0 if axis is None else axis, max(n, 1))
            if n == 0:
                raise TypeError("cannot accumulate on a scalar")
        return rule(t, array, axis, **options)
    takes = list(inspect.signature(rule).parameters.values())[3:]
    own = list(inspect.signature(first).parameters.values())[:3]
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in takes]
    first.__signature__ = inspect.Signature([*own, *named])                  # type: ignore[attr-defined]
    return first


def allclose(t: Context, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Sym:
    return Sym(testing("all")(t, isclose(t, a, b, rtol, atol, equal_nan)).value, True)


def _shifted(t: Context, a: Any, axis: Any) -> tuple[Value, Value, tuple[int, ...]]:
    """The values, their maximum along the axes (constant to differentiation), and the axes."""
    x = lift(t, a)
    v = promotion.cast(t, x.value, inexact(dtype_of(x.value.type)))
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
    """The rule of ``cumsum`` and ``cumprod``."""
    def rule(t: Context, a: Any, axis: Any = None, dtype: Any = None) -> Sym:
        x = lift(t, a)
        kind = dtype_arg(t, dtype) or accumulator(dtype_of(x.value.type))
        if kind.is_bool:
            refuse(t, f"{op} of dtype bool", "dtype=int, and .astype(bool) of the result")
        v = promotion.cast(t, x.value, kind)
        if not rank(v):
            v = promotion.with_axis(t, v, 0)
        if axis is None:
            v = promotion.flat(t, v)
        elif isinstance(axis, (tuple, list)) and len(axis) != 1:
            raise ValueError("accumulate does not allow multiple axes")
        return Sym(t.builder.emit(op, v, axis=axis_arg(t, 0 if axis is None else axis, rank(v))), False)
    return rule


def diff(t: Context, a: Any, n: int = 1, axis: int = -1, prepend: Any = NO, append: Any = NO) -> Sym:
    times = promotion.must_be_static(t, n, "the order of diff")
    if times == 0:
        return promotion.strong(lift(t, a))
    if times < 0:
        raise ValueError(f"order must be non-negative but got {times}")
    if not rank(lift(t, a).value):
        raise ValueError("diff requires input that is at least one dimensional")
    along = axis_arg(t, axis, rank(lift(t, a).value))
    v = _between(t, promotion.strong(lift(t, a)), along, prepend, append).value
    for _ in range(times):
        shorter = t.builder.maximum(t.builder.sub(size(t, v, along), 1), 0)
        first = t.builder.minimum(size(t, v, along), 1)
        upper = part(t, v, along, first, shorter)
        lower = part(t, v, along, t.builder.const(0), shorter)
        v = t.builder.emit("xor" if dtype_of(v.type).is_bool else "sub", upper, lower)
    return Sym(v, False)


def _between(t: Context, x: Sym, axis: int, first: Any, last: Any) -> Sym:
    """``x`` with elements prepended and appended along an axis; a scalar is broadcast to one element for each lane."""
    parts = []
    for y in (first, x, last):
        if y is not NO:
            y = promotion.strong(lift(t, y))
            shape = [t.builder.const(1) if i == axis else n for i, n in enumerate(sizes(t, x.value))]
            parts.append(y if rank(y.value) else Sym(t.builder.fill(y.value, *shape), False))
    return concatenate(t, parts, axis) if len(parts) > 1 else x


def trapezoid(t: Context, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Sym:
    """Sums of neighbours and their products with the steps are of NumPy's dtype, in which integers wrap."""
    v = promotion.strong(lift(t, y)).value
    along = axis_arg(t, axis, rank(v))
    e = t.builder
    shorter = e.maximum(e.sub(size(t, v, along), 1), 0)
    upper = part(t, v, along, e.minimum(size(t, v, along), 1), shorter)
    lower = part(t, v, along, e.const(0), shorter)
    step = dx if x is None else _steps(t, lift(t, x), along, rank(v))
    area = BINARY["mul"](t, step, BINARY["add"](t, Sym(upper, False), Sym(lower, False)))
    return Sym(reduce(t, "sum", e.mul(promotion.cast(t, area.value, inexact(area.scalar)), 0.5), (along,)), False)


def _steps(t: Context, x: Sym, axis: int, n: int) -> Sym:
    """The differences of places, which are those along an axis or of an array of ``n`` axes."""
    if rank(x.value) != 1:
        return diff(t, x, axis=axis)
    steps, one = diff(t, x).value, t.builder.const(1)
    return Sym(promotion.reshape(t, steps, [size(t, steps, 0) if i == axis else one for i in range(n)]), False)
