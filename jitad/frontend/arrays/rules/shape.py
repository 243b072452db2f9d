"""Functions that move elements or change shapes without arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ....ir.graph import Value
from ....ir.types import dtype_of
from ...values.values import Context, Sym
from . import basic_indexing, lengths, promotion
from .creation import new_shape, shape_arg
from .lengths import size, sizes, true_product
from .lifting import lift
from .promotion import Rule, axes_arg, axis_arg, rank, refuse, static_int


def strong_value(t: Context, a: Any) -> Value:
    return promotion.strong(lift(t, a)).value


def _order(t: Context, order: str) -> None:
    if order not in ("C", "K", "A"):
        refuse(t, f"the order {order!r}", "arrays are in C order: use .T")


# --- shape ----------------------------------------------------------------------------------------

def reshape_method(t: Context, a: Any, *shape: Any, order: str = "C", copy: Any = None) -> Sym:
    if not shape:
        raise TypeError("reshape() takes exactly 1 argument (0 given)")
    return reshape(t, a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def reshape(t: Context, a: Any, shape: Any, order: str = "C", *, copy: Any = None) -> Sym:
    _order(t, order)
    if copy is not None:
        refuse(t, f"reshape with copy={copy}", "`.copy()` before" if copy else "leave it out")
    v, wanted = strong_value(t, a), shape
    items = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    new = _with_rest(t, v, items)
    if not new:
        return Sym(basic_indexing.scalar_of(t, v), False)
    if not rank(v):
        return Sym(t.builder.fill(v, *new), False)
    return Sym(promotion.reshape(t, v, new), False)


def _with_rest(t: Context, v: Value, items: Sequence[Any]) -> list[Value]:
    """The requested sizes, with -1 replaced; emits a check that the number of elements does not change."""
    e = t.builder
    total = lengths.count(t, v)
    unknown = [i for i, n in enumerate(items) if static_int(n) == -1]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    known = [e.const(1) if i in unknown else n for i, n in enumerate(_given(t, items, unknown))]
    product = e.const(1)
    for n in known:
        product = e.mul(product, n)
    message, shown = _reshape_message(known, unknown)
    if _may_wrap(known):
        fits = e.lt(true_product(t, known), float(1 << 62))
        t.check(fits, "ValueError", message, total, *shown)
    if unknown:
        if product.const is None or product.const == 0:
            t.check(e.ne(product, 0), "ValueError", message, total, *shown)
        known[unknown[0]] = e.floordiv(total, product) if product.const != 1 else total
        t.check(e.eq(e.mul(known[unknown[0]], product), total), "ValueError", message, total, *shown)
    elif (same := lengths.equal_sizes(t, total, product)) is not None:
        t.check(same, "ValueError", message, total, *shown)
    return known


def _may_wrap(sizes: Sequence[Value]) -> bool:
    """True if the product of arbitrary sizes may overflow 64 bits."""
    known = prod(n.const for n in sizes if n.const is not None)
    rest = [n for n in sizes if n.const is None]
    if not rest:
        return bool(known >= 1 << 62)
    of_array = rest[0].op is not None and rest[0].op.name == "dim"
    return len(rest) > 1 or bool(known > (1 << 16 if of_array else 2))


def _reshape_message(sizes: Sequence[Value], unknown: Sequence[int]) -> tuple[str, list[Value]]:
    """The message for a shape that does not fit, and the sizes that it interpolates (at most three)."""
    parts: list[str] = []
    shown: list[Value] = []
    for i, n in enumerate(sizes):
        if i in unknown or n.const is not None:
            parts.append("-1" if i in unknown else str(n.const))
        else:
            parts.append("{}" if len(shown) < 3 else "?")
            shown.append(n)
    return f"cannot reshape array of size {{}} into shape ({','.join(parts)}{',' * (len(parts) == 1)})", shown[:3]


def _given(t: Context, items: Sequence[Any], unknown: Sequence[int]) -> list[Value]:
    return shape_arg(t, [1 if i in unknown else n for i, n in enumerate(items)])


def ravel(t: Context, a: Any, order: str = "C") -> Sym:
    _order(t, order)
    v = strong_value(t, a)
    return Sym(promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0), False)


def flatten(t: Context, a: Any, order: str = "C") -> Sym:
    return Sym(t.builder.copy(ravel(t, a, order).value), False)


def transpose_method(t: Context, a: Any, *axes: Any) -> Sym:
    """``a.transpose(...)`` with separate axes, a tuple of axes, or none."""
    return transpose(t, a, (axes[0] if len(axes) == 1 else axes) if axes else None)


def transpose(t: Context, a: Any, axes: Any = None) -> Sym:
    v = strong_value(t, a)
    axes = (axes,) if isinstance(axes, int) else axes
    perm = tuple(reversed(range(rank(v)))) if axes is None else tuple([axis_arg(t, x, rank(v)) for x in axes])
    if sorted(perm) != list(range(rank(v))):
        raise ValueError("axes don't match array")
    return Sym(_permuted(t, v, perm), False)


def _permuted(t: Context, v: Value, perm: Sequence[int]) -> Value:
    return v if tuple(perm) == tuple(range(rank(v))) else t.builder.transpose(v, perm=tuple(perm))


def matrix_transpose(t: Context, a: Any) -> Sym:
    return swapaxes(t, a, -1, -2)


def swapaxes(t: Context, a: Any, axis1: Any, axis2: Any) -> Sym:
    v = strong_value(t, a)
    perm = list(range(rank(v)))
    i, j = axis_arg(t, axis1, rank(v)), axis_arg(t, axis2, rank(v))
    perm[i], perm[j] = perm[j], perm[i]
    return Sym(_permuted(t, v, perm), False)


def moveaxis(t: Context, a: Any, source: Any, destination: Any) -> Sym:
    v = strong_value(t, a)
    sources, targets = ([axis_arg(t, i, rank(v)) for i in (x if isinstance(x, (tuple, list)) else [x])]
                        for x in (source, destination))
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    if len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
        raise ValueError("repeated axis in `source` or `destination` argument")
    perm = [i for i in range(rank(v)) if i not in sources]
    for target, origin in sorted(zip(targets, sources)):
        perm.insert(target, origin)
    return Sym(_permuted(t, v, perm), False)


def squeeze(t: Context, a: Any, axis: Any = None) -> Sym:
    """Drops axes of size 1; without ``axis``, those whose size is static, since the rank is static."""
    v = promotion.with_an_axis(t, strong_value(t, a), axis if isinstance(axis, int) else None)
    have = sizes(t, v)
    if axis is None:
        dropped = tuple(i for i, n in enumerate(have) if n.const == 1 or lengths.none_or_one(n))
        others = [n for i, n in enumerate(have) if i not in dropped and n.const is None]
    else:
        dropped, others = axes_arg(t, axis, rank(v)), []
    for n in others:
        t.check(t.builder.ne(n, 1), "ValueError", "squeeze drops an axis of size 1 only where that is known while "
                "compiling: name the axis")
    for i in dropped:
        t.check(t.builder.eq(have[i], 1), "ValueError",
                "cannot select an axis to squeeze out which has size not equal to one")
    left = [n for i, n in enumerate(have) if i not in dropped]
    return Sym(promotion.reshape(t, v, left) if left else basic_indexing.scalar_of(t, v), False)


def expand_dims(t: Context, a: Any, axis: Any) -> Sym:
    v = strong_value(t, a)
    n = rank(v) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    for i in axes_arg(t, axis, n):
        v = promotion.with_axis(t, v, i)
    return Sym(v, False)


def at_least(n: int) -> Rule:
    """The rule of ``atleast_1d`` and ``atleast_2d``."""
    def rule(t: Context, *arrays: Any) -> Any:
        out = []
        for a in arrays:
            v = strong_value(t, a)
            while rank(v) < n:
                v = promotion.with_axis(t, v, 0)
            out.append(Sym(v, False))
        return out[0] if len(out) == 1 else tuple(out)
    return rule


def broadcast_to(t: Context, array: Any, shape: Any, subok: bool = False) -> Sym:
    v, wanted = strong_value(t, array), new_shape(t, shape)
    if rank(v) > len(wanted):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return Sym(promotion.broadcast_to(t, v, wanted) if rank(v) else t.builder.broadcast_to(v, *wanted), False)


def broadcast_arrays(t: Context, *arrays: Any) -> tuple[Sym, ...]:
    vs = promotion.agreeing(t, *[strong_value(t, a) for a in arrays])
    shape = promotion.broadcast(t, *vs)
    return tuple(Sym(promotion.broadcast_to(t, v, shape), False) for v in vs)


# --- properties of arrays -------------------------------------------------------------------------

def shape_of(t: Context, a: Any) -> tuple[Any, ...]:
    """``a.shape``; sizes known while tracing are Python ints, the others are stand-ins."""
    return tuple(_python_int(n) for n in sizes(t, lift(t, a).value))


def size_of(t: Context, a: Any, axis: Any = None) -> Any:
    v = lift(t, a).value
    return _python_int(lengths.count(t, v, axes_arg(t, axis, rank(v))))


def ndim(t: Context, a: Any) -> int:
    return rank(lift(t, a).value)


def length(t: Context, a: Any) -> Any:
    v = lift(t, a).value
    if not rank(v):
        raise TypeError("object of type 'float' has no len()" if dtype_of(v.type).is_float
                        else "object of type 'int' has no len()")
    return _python_int(size(t, v, 0))


def _python_int(n: Value) -> Any:
    return n.const if n.const is not None else Sym(n, True)
