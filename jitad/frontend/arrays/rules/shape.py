"""Functions that move elements or change shapes without arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....ir.graph import Value
from ....ir.types import dtype_of
from ...values.values import Context, Sym
from . import basic_indexing, promotion
from .creation import new_shape, shape_arg
from .lengths import check_room, true_product
from .lifting import lift, same_shape
from .lifting import stack as stack_values
from .promotion import Rule, axes_arg, axis_arg, must_be_static, part, rank, refuse, size, sizes, static_int


def _value(t: Context, a: Any) -> Value:
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
    v, wanted = _value(t, a), shape
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
    total = promotion.count(t, v)
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
    elif (same := promotion.equal_sizes(t, total, product)) is not None:
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
    v = _value(t, a)
    return Sym(promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0), False)


def flatten(t: Context, a: Any, order: str = "C") -> Sym:
    return Sym(t.builder.copy(ravel(t, a, order).value), False)


def transpose_method(t: Context, a: Any, *axes: Any) -> Sym:
    """``a.transpose(...)`` with separate axes, a tuple of axes, or none."""
    return transpose(t, a, (axes[0] if len(axes) == 1 else axes) if axes else None)


def transpose(t: Context, a: Any, axes: Any = None) -> Sym:
    v = _value(t, a)
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
    v = _value(t, a)
    perm = list(range(rank(v)))
    i, j = axis_arg(t, axis1, rank(v)), axis_arg(t, axis2, rank(v))
    perm[i], perm[j] = perm[j], perm[i]
    return Sym(_permuted(t, v, perm), False)


def moveaxis(t: Context, a: Any, source: Any, destination: Any) -> Sym:
    v = _value(t, a)
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
    v = promotion.with_an_axis(t, _value(t, a), axis if isinstance(axis, int) else None)
    lengths = sizes(t, v)
    if axis is None:
        dropped = tuple(i for i, n in enumerate(lengths) if n.const == 1 or promotion.none_or_one(n))
        others = [n for i, n in enumerate(lengths) if i not in dropped and n.const is None]
    else:
        dropped, others = axes_arg(t, axis, rank(v)), []
    for n in others:
        t.check(t.builder.ne(n, 1), "ValueError", "squeeze drops an axis of size 1 only where that is known while "
                "compiling: name the axis")
    for i in dropped:
        t.check(t.builder.eq(lengths[i], 1), "ValueError",
                "cannot select an axis to squeeze out which has size not equal to one")
    left = [n for i, n in enumerate(lengths) if i not in dropped]
    return Sym(promotion.reshape(t, v, left) if left else basic_indexing.scalar_of(t, v), False)


def expand_dims(t: Context, a: Any, axis: Any) -> Sym:
    v = _value(t, a)
    n = rank(v) + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    for i in axes_arg(t, axis, n):
        v = promotion.with_axis(t, v, i)
    return Sym(v, False)


def at_least(n: int) -> Rule:
    """The rule of ``atleast_1d`` and ``atleast_2d``."""
    def rule(t: Context, *arrays: Any) -> Any:
        out = []
        for a in arrays:
            v = _value(t, a)
            while rank(v) < n:
                v = promotion.with_axis(t, v, 0)
            out.append(Sym(v, False))
        return out[0] if len(out) == 1 else tuple(out)
    return rule


def broadcast_to(t: Context, array: Any, shape: Any, subok: bool = False) -> Sym:
    v, wanted = _value(t, array), new_shape(t, shape)
    if rank(v) > len(wanted):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    return Sym(promotion.broadcast_to(t, v, wanted) if rank(v) else t.builder.broadcast_to(v, *wanted), False)


def broadcast_arrays(t: Context, *arrays: Any) -> tuple[Sym, ...]:
    vs = promotion.agreeing(t, *[_value(t, a) for a in arrays])
    shape = promotion.broadcast(t, *vs)
    return tuple(Sym(promotion.broadcast_to(t, v, shape), False) for v in vs)


# --- joining --------------------------------------------------------------------------------------

def _common(t: Context, arrays: Any, dtype: Any = None, weak: bool = False) -> list[Value]:
    """The arrays in one dtype, on which numbers of Python's have no say where they are ``weak``."""
    if isinstance(arrays, Sym):
        refuse(t, "joining the rows of one array", "reshape, or a list of arrays")
    xs = [lift(t, a) if weak else promotion.strong(lift(t, a)) for a in arrays]
    if not xs:
        raise ValueError("need at least one array to concatenate")
    asked = promotion.dtype_arg(t, dtype) or promotion.promote(*xs)[0]
    for x in xs:
        whole = x.weak and x.scalar.is_int and asked.is_int                                     # it wraps
        if not whole and not np.can_cast(have := x.scalar.np, asked.np, "same_kind"):
            raise TypeError(f"Cannot cast array data from {have!r} to {asked.np!r} according to the rule 'same_kind'")
    return [promotion.cast(t, x.value, asked) for x in xs]


def concatenate(t: Context, arrays: Any, axis: Any = 0, *, dtype: Any = None) -> Sym:
    vs = _common(t, arrays, dtype, weak=axis is None)
    if axis is None:
        vs, axis = [promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0) for v in vs], 0
    if not all(map(rank, vs)):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if len(set(map(rank, vs))) > 1:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
    along = axis_arg(t, axis, rank(vs[0]))
    same_shape(t, vs, "all the input array dimensions except for the concatenation axis must match exactly", but=along)
    return Sym(t.builder.concat(*vs, axis=along), False)


def stack(t: Context, arrays: Any, axis: Any = 0, *, dtype: Any = None) -> Sym:
    vs = _common(t, arrays, dtype)
    return Sym(stack_values(t, vs, axis_arg(t, axis, rank(vs[0]) + 1)), False)


def vstack(t: Context, tup: Any, *, dtype: Any = None) -> Sym:
    return concatenate(t, [at_least(2)(t, a) for a in tup], 0, dtype=dtype)


def hstack(t: Context, tup: Any, *, dtype: Any = None) -> Sym:
    rows = [at_least(1)(t, a) for a in tup]
    return concatenate(t, rows, 0 if rank(rows[0].value) == 1 else 1, dtype=dtype)


def column_stack(t: Context, tup: Any) -> Sym:
    columns = [at_least(1)(t, a) for a in tup]
    return concatenate(t, [expand_dims(t, c, 1) if rank(c.value) == 1 else c for c in columns], 1)


def append(t: Context, arr: Any, values: Any, axis: Any = None) -> Sym:
    return concatenate(t, [promotion.strong(lift(t, x)) for x in (arr, values)], axis)


# --- splitting ------------------------------------------------------------------------------------

def split(t: Context, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Sym]:
    v = _value(t, ary)
    along = axis_arg(t, axis, rank(v))
    e, n = t.builder, size(t, v, along)
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [e.const(0), *[basic_indexing._clip(t, i, n, e.const(0), n) for i in indices_or_sections], n]
        lengths = [e.maximum(e.sub(hi, lo), 0) for lo, hi in zip(bounds, bounds[1:])]
        return [Sym(part(t, v, along, lo, length), False) for lo, length in zip(bounds, lengths)]
    parts = must_be_static(t, indices_or_sections, "the number of parts")
    if parts == 0:
        raise ZeroDivisionError("integer modulo by zero")
    if parts < 0:
        raise ValueError("number sections must be larger than 0.")
    t.check(e.eq(e.mod(n, parts), 0), "ValueError", "array split does not result in an equal division")
    length = e.floordiv(n, parts)
    return [Sym(part(t, v, along, e.mul(length, i), length), False) for i in range(parts)]


def split_along(axis: int) -> Rule:
    """The rule of ``vsplit`` and ``hsplit``."""
    def rule(t: Context, ary: Any, indices_or_sections: Any) -> list[Sym]:
        n = rank(_value(t, ary))
        if n < (1 if axis else 2):
            raise ValueError("vsplit and hsplit only work on arrays of 2 or more, and of 1 or more dimensions")
        return split(t, ary, indices_or_sections, min(axis, n - 1))
    return rule


# --- repeating ------------------------------------------------------------------------------------

def repeat(t: Context, a: Any, repeats: Any, axis: Any = None) -> Sym:
    v = promotion.with_an_axis(t, _value(t, a), axis)
    if axis is None:
        v, axis = promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0), 0
    if promotion.is_array(repeats) or isinstance(repeats, (list, tuple)):
        refuse(t, "np.repeat with a count for each element", "index with an array that repeats the positions")
    along = axis_arg(t, axis, rank(v))
    times, = shape_arg(t, repeats)
    shape = sizes(t, v)
    check_room(t, [*shape, times])
    wide = promotion.with_axis(t, v, along + 1)
    spread = t.builder.broadcast_to(wide, *shape[:along + 1], times, *shape[along + 1:])
    longer = t.builder.mul(shape[along], times)
    return Sym(t.builder.reshape(spread, *shape[:along], longer, *shape[along + 1:]), False)


def tile(t: Context, A: Any, reps: Any) -> Sym:
    v = _value(t, A)
    counts = shape_arg(t, reps)
    if not rank(v) and not counts:
        return Sym(v, False)
    while rank(v) < len(counts):
        v = promotion.with_axis(t, v, 0)
    e, one = t.builder, t.builder.const(1)
    counts = [one] * (rank(v) - len(counts)) + counts
    shape = sizes(t, v)
    check_room(t, [*counts, *shape])
    narrow = [n for s in shape for n in (one, s)]
    spread = [n for c, s in zip(counts, shape) for n in (c, s)]
    out = e.broadcast_to(promotion.reshape(t, v, narrow), *spread)
    return Sym(e.reshape(out, *[e.mul(c, s) for c, s in zip(counts, shape)]), False)


def flip(t: Context, m: Any, axis: Any = None) -> Sym:
    v = _value(t, m)
    e = t.builder
    for i in axes_arg(t, axis, rank(v)):
        v = part(t, v, i, e.sub(size(t, v, i), 1), size(t, v, i), -1)
    return Sym(v, False)


def flip_along(axis: int) -> Rule:
    """The rule of ``flipud`` and ``fliplr``."""
    return lambda t, m: flip(t, m, axis)


def roll(t: Context, a: Any, shift: Any, axis: Any = None) -> Sym:
    v = _value(t, a)
    if axis is None:
        rolled = roll(t, Sym(promotion.flat(t, v), False), shift, 0)
        return Sym(promotion.reshape(t, rolled.value, sizes(t, v)), False) if rank(v) else Sym(v, False)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    n = max(len(axes), len(shifts)) if axes and shifts else 0
    if any(len(x) not in (1, n) for x in (axes, shifts)):
        raise ValueError("shape mismatch: the shifts and axes of roll cannot be broadcast to a single shape")
    for k in range(n):
        v = _rolled(t, v, shifts[k % len(shifts)], axis_arg(t, axes[k % len(axes)], rank(v)))
    return Sym(v, False)


def _rolled(t: Context, v: Value, shift: Any, axis: int) -> Value:
    e, n = t.builder, size(t, v, axis)
    k = e.mod(promotion.int_value(t, shift), n)
    cut = e.sub(n, k)
    return e.concat(part(t, v, axis, cut, k), part(t, v, axis, e.const(0), cut), axis=axis)


def pad(t: Context, array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Sym:
    if mode != "constant":
        refuse(t, f"np.pad with mode={mode!r}", "mode='constant', or np.concatenate")
    v = _value(t, array)
    if not rank(v):
        return Sym(v, False)
    e = t.builder
    widths = _pad_widths(t, pad_width, rank(v))
    old = sizes(t, v)
    for w in (w for pair in widths for w in pair if w.const is None or w.const >= 1 << 44):    # their sum may overflow
        t.check(e.lt(w, 1 << 44), "MemoryError", "Unable to allocate an array")
    new = [e.add(e.add(before, n), after) for (before, after), n in zip(widths, old)]
    check_room(t, new)
    filler = promotion.as_element(t, promotion.strong(lift(t, constant_values)), dtype_of(v.type))
    if rank(filler):
        refuse(t, "np.pad with a value for each side", "one value, or np.concatenate")
    spec = [x for before, _ in widths for x in (before, e.const(1))]
    return Sym(e.set_slice(e.fill(filler, *new), v, *spec), False)


def _pad_widths(t: Context, width: Any, n: int) -> list[tuple[Value, Value]]:
    """The widths for each axis, from ``w``, ``(before, after)``, ``((before, after),)`` or one pair for each axis."""
    if not isinstance(width, (tuple, list)):
        width = ((width, width),) * n
    elif not isinstance(width[0], (tuple, list)):
        width = (tuple(width) if len(width) == 2 else (width[0], width[0]),) * n
    elif len(width) == 1:
        width = tuple(width) * n
    if len(width) != n:
        raise ValueError(f"operands could not be broadcast together with remapped shapes: {n} axes to pad")
    out = []
    for pair in width:
        before, after = shape_arg(t, tuple(pair) if len(pair) == 2 else (pair[0], pair[0]))
        out.append((before, after))
    return out


# --- properties of arrays -------------------------------------------------------------------------

def shape_of(t: Context, a: Any) -> tuple[Any, ...]:
    """``a.shape``; sizes known while tracing are Python ints, the others are stand-ins."""
    return tuple(_python_int(n) for n in sizes(t, lift(t, a).value))


def size_of(t: Context, a: Any, axis: Any = None) -> Any:
    v = lift(t, a).value
    return _python_int(promotion.count(t, v, axes_arg(t, axis, rank(v))))


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
