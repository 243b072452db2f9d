"""Functions that join, split, repeat and shift arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.builder import Builder
from ....ir.graph import Value
from ....ir.types import dtype_of
from ...values.values import Context, Sym
from . import basic_indexing, promotion
from .creation import arange, shape_arg
from .indexing import getitem
from .lengths import check_room, size, sizes
from .lifting import lift, same_shape
from .lifting import stack as stack_values
from .promotion import Rule, axes_arg, axis_arg, must_be_static, part, rank, refuse
from .shape import at_least, expand_dims, moveaxis, strong_value

# --- joining --------------------------------------------------------------------------------------

def _common(t: Context, arrays: Any, dtype: Any = None, weak: bool = False) -> list[Value]:
    """The arrays in one dtype, on which numbers of Python's have no say where they are ``weak``."""
    xs = [lift(t, a) if weak else promotion.strong(lift(t, a)) for a in arrays]
    if not xs:
        raise ValueError("need at least one array to concatenate")
    asked = promotion.dtype_arg(t, dtype) or promotion.promote(*xs)[0]
    for x in xs:
        whole = x.weak and x.scalar.is_int and asked.is_int                                     # it wraps
        if not whole and not np.can_cast(have := x.scalar.np, asked.np, "same_kind"):
            raise TypeError(f"Cannot cast array data from {have!r} to {asked.np!r} according to the rule 'same_kind'")
    return [promotion.cast(t, x.value, asked) for x in xs]


def _rows_of(t: Context, a: Any, axis: int, dtype: Any, verb: str) -> Value:
    """The rows of one array, of which there must be some, with their number as axis ``axis``."""
    v = strong_value(t, a)
    t.check(t.builder.gt(size(t, v, 0), 0), "ValueError", f"need at least one array to {verb}")
    asked = promotion.dtype_arg(t, dtype)
    return moveaxis(t, Sym(v if asked is None else promotion.cast(t, v, asked)), 0, axis).value


def _concatenated_rows(t: Context, a: Sym, axis: Any, dtype: Any) -> Sym:
    n = rank(a.value)
    if n < 2 and axis is not None:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    along = 0 if axis is None else axis_arg(t, axis, n - 1)
    v = _rows_of(t, a, along, dtype, "concatenate")
    if axis is None:
        return Sym(promotion.flat(t, v))
    shape = sizes(t, v)
    return Sym(promotion.reshape(t, v, [*shape[:along], t.builder.mul(*shape[along:along + 2]), *shape[along + 2:]]))


def concatenate(t: Context, arrays: Any, axis: Any = 0, *, dtype: Any = None) -> Sym:
    if isinstance(arrays, Sym) and arrays.is_array:
        return _concatenated_rows(t, arrays, axis, dtype)
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
    if isinstance(arrays, Sym) and arrays.is_array:
        return Sym(_rows_of(t, arrays, axis_arg(t, axis, rank(arrays.value)), dtype, "stack"))
    vs = _common(t, arrays, dtype)
    return Sym(stack_values(t, vs, axis_arg(t, axis, rank(vs[0]) + 1)), False)


def vstack(t: Context, tup: Any, *, dtype: Any = None) -> Sym:
    if isinstance(tup, Sym) and tup.is_array and rank(tup.value) > 1:
        return stack(t, tup, dtype=dtype) if rank(tup.value) == 2 else concatenate(t, tup, dtype=dtype)
    return concatenate(t, [at_least(2)(t, a) for a in tup], 0, dtype=dtype)


def hstack(t: Context, tup: Any, *, dtype: Any = None) -> Sym:
    if isinstance(tup, Sym) and tup.is_array and rank(tup.value) > 1:
        return concatenate(t, tup, 0 if rank(tup.value) == 2 else 1, dtype=dtype)
    rows = [at_least(1)(t, a) for a in tup]
    return concatenate(t, rows, 0 if rank(rows[0].value) == 1 else 1, dtype=dtype)


def column_stack(t: Context, tup: Any) -> Sym:
    if isinstance(tup, Sym) and tup.is_array and rank(tup.value) > 1:
        return stack(t, tup, 1) if rank(tup.value) == 2 else concatenate(t, tup, 1)
    columns = [at_least(1)(t, a) for a in tup]
    return concatenate(t, [expand_dims(t, c, 1) if rank(c.value) == 1 else c for c in columns], 1)


def append(t: Context, arr: Any, values: Any, axis: Any = None) -> Sym:
    return concatenate(t, [promotion.strong(lift(t, x)) for x in (arr, values)], axis)


# --- splitting ------------------------------------------------------------------------------------

def split(t: Context, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Sym]:
    v = strong_value(t, ary)
    along = axis_arg(t, axis, rank(v))
    e, n = t.builder, size(t, v, along)
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [e.const(0), *[basic_indexing._clip(t, i, n, e.const(0), n) for i in indices_or_sections], n]
        spans = [e.maximum(e.sub(hi, lo), 0) for lo, hi in zip(bounds, bounds[1:])]
        return [Sym(part(t, v, along, lo, length), False) for lo, length in zip(bounds, spans)]
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
        n = rank(strong_value(t, ary))
        if n < (1 if axis else 2):
            raise ValueError("vsplit and hsplit only work on arrays of 2 or more, and of 1 or more dimensions")
        return split(t, ary, indices_or_sections, min(axis, n - 1))
    return rule


# --- repeating ------------------------------------------------------------------------------------

def repeat(t: Context, a: Any, repeats: Any, axis: Any = None) -> Sym:
    v = promotion.with_an_axis(t, strong_value(t, a), axis)
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
    v = strong_value(t, A)
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
    v = strong_value(t, m)
    e = t.builder
    for i in axes_arg(t, axis, rank(v)):
        v = part(t, v, i, e.sub(size(t, v, i), 1), size(t, v, i), -1)
    return Sym(v, False)


def flip_along(axis: int) -> Rule:
    """The rule of ``flipud`` and ``fliplr``."""
    return lambda t, m: flip(t, m, axis)


def roll(t: Context, a: Any, shift: Any, axis: Any = None) -> Sym:
    v = strong_value(t, a)
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
    if mode != "constant" and mode not in _SOURCES:
        refuse(t, f"np.pad with mode={mode!r}", f"mode='constant', {', '.join(map(repr, _SOURCES))}, or np.concatenate")
    v = strong_value(t, array)
    if not rank(v):
        return Sym(v, False)
    e = t.builder
    widths = _pad_widths(t, pad_width, rank(v))
    old = sizes(t, v)
    for w in (w for pair in widths for w in pair if w.const is None or w.const >= 1 << 44):    # their sum may overflow
        t.check(e.lt(w, 1 << 44), "MemoryError", "Unable to allocate an array")
    new = [e.add(e.add(before, n), after) for (before, after), n in zip(widths, old)]
    check_room(t, new)
    if mode != "constant":
        for axis, (before, after) in enumerate(widths):
            v = _extended(t, v, before, after, axis, mode)
        return Sym(v, False)
    filler = promotion.as_element(t, promotion.strong(lift(t, constant_values)), dtype_of(v.type))
    if rank(filler):
        refuse(t, "np.pad with a value for each side", "one value, or np.concatenate")
    spec = [x for before, _ in widths for x in (before, e.const(1))]
    return Sym(e.set_slice(e.fill(filler, *new), v, *spec), False)


# The index of the element that stands at ``k``, outside of an axis of size ``n``, by the mode of ``np.pad``.
_SOURCES: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "edge": lambda e, k, n: e.maximum(e.minimum(k, e.sub(n, 1)), 0),
    "wrap": lambda e, k, n: e.mod(k, n),
    "reflect": lambda e, k, n: _folded(e, k, e.maximum(e.mul(e.sub(n, 1), 2), 1), 0),
    "symmetric": lambda e, k, n: _folded(e, k, e.mul(n, 2), 1),
}


def _folded(e: Builder, k: Value, period: Value, gap: int) -> Value:
    """The index of a walk to and fro; ``gap``: 1 if it stays at each end for two steps."""
    at = e.mod(k, period)
    return e.minimum(at, e.sub(e.sub(period, gap), at))


def _extended(t: Context, v: Value, before: Value, after: Value, axis: int, mode: str) -> Value:
    """The array with elements of its own on both sides of an axis."""
    e, n = t.builder, size(t, v, axis)
    t.check(e.or_(e.ne(n, 0), e.eq(e.or_(before, after), 0)), "ValueError",
            f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")

    def taken(start: Value, count: Value) -> Value:
        places = e.add(arange(t, Sym(count, True)).value, start)
        return getitem(t, Sym(v), (slice(None),) * axis + (Sym(_SOURCES[mode](e, places, n), False),)).value
    sides = [(e.neg(before), before), None, (n, after)]
    return e.concat(*(v if s is None else taken(*s) for s in sides if s is None or s[1].const != 0), axis=axis)


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
