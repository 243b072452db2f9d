"""Basic indexing: integers, slices, ``None`` and ``...``, for reading and writing.

A ``Window`` describes the selected elements of an array: an index or a span for each axis, and the order of the axes
in the result, including new axes of size 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.graph import Value
from ....ir.types import dtype_of
from ...values.values import Context, Sym
from . import lengths, promotion
from .lengths import nonnegative, range_length, size
from .promotion import int_value, rank, refuse, static_int

Span = tuple[Value, Value, Value]                   # start, length, step


@dataclass(frozen=True)
class Window:
    """``axes``: an index or a span for each axis; ``shown``: the axes of the result, ``None`` for a new axis."""

    axes: tuple[Value | Span, ...]
    shown: tuple[int | None, ...]


def is_basic(item: Any) -> bool:
    """True if an index item is an integer, a slice, ``None`` or ``...``."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return True
    if isinstance(item, Sym):
        return not rank(item.value) and not (item.scalar.is_bool and not item.weak) and not item.scalar.is_float
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def expand(items: tuple[Any, ...], n: int) -> list[Any]:
    """``items`` with ``...`` and missing axes replaced by full slices; raises ``IndexError`` if there are too many."""
    used = sum(axes_taken(i) for i in items)
    if used > n:
        raise IndexError(f"too many indices for array: array is {n}-dimensional, but {used} were indexed")
    full = [slice(None)] * (n - used)
    for at, item in enumerate(items):
        if item is Ellipsis:
            return [*items[:at], *full, *items[at + 1:]]
    return [*items, *full]


def axes_taken(item: Any) -> int:
    """The number of axes that one index item consumes; a mask consumes as many as its rank."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Sym) and item.scalar.is_bool:
        return rank(item.value)
    return 1


def window(t: Context, v: Value, items: list[Any]) -> Window:
    """The window of ``v`` that expanded basic index items select; emits bounds checks."""
    axes: list[Value | Span] = []
    shown: list[int | None] = []
    for item in items:
        if item is None:
            shown.append(None)
            continue
        axis = len(axes)
        n = size(t, v, axis)
        if isinstance(item, slice):
            axes.append(span(t, item, n))
            shown.append(axis)
        else:
            axes.append(element(t, item, n, axis))
    return Window(tuple(axes), tuple(shown))


def element(t: Context, item: Any, n: Value, axis: int) -> Value:
    """An integer index in ``[0, n)``: negative indices count from the end; emits a bounds check."""
    i = int_value(t, item)
    if t.options.in_range:
        return i
    e = t.builder
    if i.const is not None:
        at = e.add(n, i) if i.const < 0 else i
        inside = e.ge(at, 0) if i.const < 0 else e.lt(at, n)
    elif nonnegative(i):
        at, inside = i, e.lt(i, n)
    else:
        at = e.select(e.lt(i, 0), e.add(i, n), i)
        inside = e.and_(e.ge(at, 0), e.lt(at, n))
    if t.options.boundscheck:
        t.check(inside, "IndexError", f"index {{}} is out of bounds for axis {axis} with size {{}}", i, n)
    return at


def span(t: Context, s: slice, n: Value) -> Span:
    """Start, length and step of a slice of ``n`` elements, clipped as in Python."""
    e = t.builder
    if s.step is None or (known := static_int(s.step)) == 1:
        return _forward(t, s, n)
    if known is None:
        return _either_way(t, s, n)
    if known == 0:
        raise ValueError("slice step cannot be zero")
    step = e.const(known)
    if known > 0:
        low, high = e.const(0), n
        start = low if s.start is None else _clip(t, s.start, n, low, high)
        stop = high if s.stop is None else _clip(t, s.stop, n, low, high)
    else:
        low, high = e.const(-1), e.sub(n, 1)
        start = high if s.start is None else _clip(t, s.start, n, low, high)
        stop = low if s.stop is None else _clip(t, s.stop, n, low, high)
        if s.start is None and s.stop is None and known == -1:
            return start, n, step
    return start, range_length(t, start, stop, step), step


def _either_way(t: Context, s: slice, n: Value) -> Span:
    """The span of a slice whose step is known at run time only."""
    e = t.builder
    step = int_value(t, s.step, "a slice step")
    t.check(e.ne(step, 0), "ValueError", "slice step cannot be zero")
    forward = e.gt(step, 0)
    low, high = e.select(forward, e.const(0), e.const(-1)), e.select(forward, n, e.sub(n, 1))
    start = e.select(forward, low, high) if s.start is None else _clip(t, s.start, n, low, high)
    stop = e.select(forward, high, low) if s.stop is None else _clip(t, s.stop, n, low, high)
    return start, range_length(t, start, stop, step), step


def _forward(t: Context, s: slice, n: Value) -> Span:
    """The span of a slice with step 1, the common case, with as little arithmetic as possible."""
    e = t.builder
    one, low = e.const(1), e.const(0)
    if s.start is None and s.stop is None:
        return low, n, one
    first = None if s.start is None else static_int(s.start)
    last = None if s.stop is None else static_int(s.stop)
    if s.start is None and last == 0:
        return low, low, one
    if s.start is None and last is not None and last < 0:
        return low, e.maximum(e.add(n, last), 0), one
    if s.stop is None and first is not None and first >= 0:
        return e.minimum(n, first), e.maximum(e.add(n, -first), 0), one
    start = low if s.start is None else _clip(t, s.start, n, low, n)
    stop = n if s.stop is None else _clip(t, s.stop, n, low, n)
    length = range_length(t, start, stop, one)
    return start, e.minimum(length, one) if _one_long(s) and not lengths.none_or_one(length) else length, one


WRITTEN_TWICE = 6
"""Depth to which the expressions for the bounds of a slice are compared."""


def _one_long(s: slice) -> bool:
    """True if a slice provably has at most one element: ``a[3:4]``, ``a[-1:]``, ``a[i:i + 1]``, ``a[i - 1:i]``.

    ``i`` may be two equal expressions.
    """
    first, last = static_int(s.start), static_int(s.stop)
    if first is not None:
        return first == -1 if s.stop is None else last is not None and last - first == 1 and (first < 0) == (last < 0)
    if not isinstance(s.start, Sym) or not isinstance(s.stop, Sym):
        return False
    low, high = s.start.value, s.stop.value
    return _is_op(high, "add", low, 1) or _is_op(low, "sub", high, 1) or _is_op(low, "add", high, -1)


def _is_op(v: Value, name: str, x: Value, by: int) -> bool:
    return (v.op is not None and v.op.name == name and v.op.operands[1].const == by
            and _same(v.op.operands[0], x, WRITTEN_TWICE))


def _same(v: Value, x: Value, depth: int) -> bool:
    """True if two values are the same or computed by equal expressions, such as ``2 * i`` in both bounds."""
    if v is x or v.op is None or x.op is None:
        return v is x
    return (depth > 0 and v.op.name == x.op.name and v.op.attrs == x.op.attrs and len(v.op.results) == 1
            and v.type == x.type and len(v.op.operands) == len(x.op.operands)
            and all(_same(a, b, depth - 1) for a, b in zip(v.op.operands, x.op.operands)))


def _clip(t: Context, bound: Any, n: Value, low: Value, high: Value) -> Value:
    """A slice bound clipped to ``[low, high]``; negative bounds count from the end."""
    e = t.builder
    i = int_value(t, bound, "a slice bound")
    if i.const is not None:
        return e.minimum(i, high) if i.const >= 0 else e.maximum(e.add(n, i), low)
    if nonnegative(i):
        return e.minimum(i, high)
    return e.minimum(e.maximum(e.select(e.lt(i, 0), e.add(i, n), i), low), high)


def refuse_zero_d(t: Context, items: tuple[Any, ...], w: Window) -> None:
    """Refuses ``a[i, ...]`` of a vector: in NumPy it is a 0-d view, which is not supported here."""
    if not w.shown and any(i is Ellipsis for i in items):
        refuse(t, "an index with `...` that leaves no axis", "a[i]")


# --- reading and writing --------------------------------------------------------------------------

def _whole(t: Context, v: Value, axis: int, part: Value | Span) -> bool:
    """True if a span covers the whole axis."""
    return (isinstance(part, tuple) and part[0].const == 0 and part[2].const == 1
            and lengths.equal_sizes(t, part[1], size(t, v, axis)) is None)


def _prefix(w: Window) -> int:
    """The number of leading axes that are indexed by an integer."""
    n = 0
    while n < len(w.axes) and isinstance(w.axes[n], Value):
        n += 1
    return n


def shape_of(t: Context, w: Window) -> list[Value]:
    """The shape of the window, including new axes."""
    one = t.builder.const(1)
    return [one if axis is None else w.axes[axis][1] for axis in w.shown]     # type: ignore[index]


def read(t: Context, v: Value, w: Window) -> Value:
    """The elements of ``v`` in the window."""
    e, k = t.builder, _prefix(w)
    indices = [a for a in w.axes[:k] if isinstance(a, Value)]
    out = e.get(v, *indices) if k else v
    rest = w.axes[k:]
    if not all(_whole(t, v, k + i, part) for i, part in enumerate(rest)):
        spec: list[Value] = []
        for part in rest:
            spec += part if isinstance(part, tuple) else [part, e.const(1), e.const(1)]
        out = e.slice(out, *spec)
    if list(w.shown) == list(range(k, len(w.axes))):
        return out
    shape = shape_of(t, w)
    return e.reshape(out, *shape) if rank(out) else e.fill(out, *shape)


def write(t: Context, v: Value, w: Window, new: Sym) -> Value:
    """``v`` with the window set to ``new``, which is broadcast to its shape and cast to the dtype of ``v``."""
    e, k = t.builder, _prefix(w)
    value = fitted(t, promotion.as_element(t, new, dtype_of(v.type)), shape_of(t, w))
    indices = [a for a in w.axes[:k] if isinstance(a, Value)]
    rest = w.axes[k:]
    if k and all(_whole(t, v, k + i, part) for i, part in enumerate(rest)):
        inner = [part[1] for part in rest if isinstance(part, tuple)]
        if rank(value) != len(inner):
            value = e.reshape(value, *inner) if inner else scalar_of(t, value)
        return e.set(v, value, *indices)
    shape = [part[1] if isinstance(part, tuple) else e.const(1) for part in w.axes]
    value = promotion.reshape(t, value, shape) if rank(value) else e.fill(value, *shape)
    spec: list[Value] = []
    for part in w.axes:
        spec += [part[0], part[2]] if isinstance(part, tuple) else [part, e.const(1)]
    return e.set_slice(v, value, *spec)


def scalar_of(t: Context, v: Value) -> Value:
    """The single element of an array of size 1; a scalar is returned as it is."""
    return t.builder.get(v, *[t.builder.const(0)] * rank(v)) if rank(v) else v


def fitted(t: Context, v: Value, shape: list[Value]) -> Value:
    """``v`` in the shape that it is assigned to: broadcast, with extra leading axes of size 1 dropped."""
    extra = rank(v) - len(shape)
    if extra > 0:
        if any(n.const != 1 for n in lengths.sizes(t, v)[:extra]):
            raise ValueError("could not broadcast input array from a shape with more axes")
        v = promotion.reshape(t, v, lengths.sizes(t, v)[extra:]) if shape else scalar_of(t, v)
    if not rank(v) and shape:
        return t.builder.broadcast_to(v, *shape)
    return promotion.broadcast_to(t, v, shape)


def index_of(t: Context, part: Value | Span) -> Value:
    """The positions that a part of a window selects on its axis: a scalar, or a vector for a span."""
    if isinstance(part, Value):
        return part
    e = t.builder
    steps = e.mul(e.iota(part[1]), part[2])
    return e.add(steps, part[0]) if part[0].const != 0 else steps
