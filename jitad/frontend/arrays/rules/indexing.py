"""``a[index]`` and ``a[index] = value`` with every kind of index.

Integers and slices select a window (``basic_indexing.py``).  Index arrays are combined into one linear index over their
axes.  Masks are converted to the positions of their true elements, or to a ``select`` if a scalar is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.graph import Value
from ....ir.types import I64, dtype_of
from ...values.closures import Range
from ...values.values import Context, Sym
from . import basic_indexing, lengths, promotion
from .basic_indexing import Window
from .lengths import size, sizes
from .lifting import as_stored, lift
from .promotion import rank, refuse


def getitem(t: Context, a: Any, index: Any) -> Sym:
    """``a[index]``: a scalar, or the current elements of the selected part."""
    v = lift(t, a).value
    if not rank(v):
        raise IndexError("invalid index to scalar variable.")
    items = index_items(t, index)
    if all(map(basic_indexing.is_basic, items)):
        w = basic_indexing.window(t, v, basic_indexing.expand(items, rank(v)))
        basic_indexing.refuse_zero_d(t, items, w)
        return Sym(basic_indexing.read(t, v, w), False)
    return Sym(_Advanced(t, v, items).read(), False)


def setitem(t: Context, a: Any, index: Any, value: Any) -> Sym:
    """The new value of the array after ``a[index] = value``."""
    v = lift(t, a).value
    new = as_stored(t, value, dtype_of(v.type))
    items = index_items(t, index)
    if all(map(basic_indexing.is_basic, items)):
        w = basic_indexing.window(t, v, basic_indexing.expand(items, rank(v)))
        return Sym(basic_indexing.write(t, v, w, new), False)
    mask = _single_mask(items)
    if mask is not None and not rank(new.value):
        return Sym(_write_where(t, v, mask, new), False)
    return Sym(_Advanced(t, v, items).write(new), False)


def index_items(t: Context, index: Any) -> tuple[Any, ...]:
    """The index as a tuple in which lists and constant arrays are stand-ins; raises for invalid items."""
    items = index if isinstance(index, tuple) else (index,)
    out = []
    for item in items:
        if isinstance(item, (list, np.ndarray, tuple)):
            item = lift(t, item) if len(item) else Sym(t.builder.empty(t.builder.const(0), dtype=I64))
        elif isinstance(item, (range, Range)):
            item = lift(t, item)
        elif isinstance(item, (bool, np.bool_)):
            item = lift(t, np.bool_(item))
        if isinstance(item, Sym) and item.scalar.is_float and rank(item.value):
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if not basic_indexing.is_basic(item) and not (isinstance(item, Sym) and not item.scalar.is_float):
            raise IndexError("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
                             "boolean arrays are valid indices")
        if isinstance(item, Sym) and item.scalar.is_bool and not rank(item.value):
            refuse(t, "an index that is one bool", "`if`, or np.where")
        out.append(item)
    return tuple(out)


# --- masks ----------------------------------------------------------------------------------------

def _single_mask(items: tuple[Any, ...]) -> Value | None:
    rest = [i for i in items if i is not Ellipsis]
    if len(rest) == 1 and isinstance(rest[0], Sym) and rest[0].scalar.is_bool and items[0] is not Ellipsis:
        return rest[0].value
    return None


def _write_where(t: Context, v: Value, mask: Value, new: Sym) -> Value:
    """``v`` with a scalar stored where a mask over the leading axes is true."""
    _check_mask(t, v, mask, 0)
    one = t.builder.const(1)
    extra = rank(v) - rank(mask)
    if extra:
        mask = promotion.reshape(t, mask, [*sizes(t, mask), *[one] * extra])
    return t.builder.select(mask, promotion.as_dtype(t, new, dtype_of(v.type)), v)


def _check_mask(t: Context, v: Value, mask: Value, first: int) -> None:
    for i in range(rank(mask)):
        n, m = size(t, v, first + i), size(t, mask, i)
        if (same := lengths.equal_sizes(t, n, m)) is not None:
            t.check(same, "IndexError", f"boolean index did not match indexed array along axis {first + i}; size of "
                                        "axis is {} but size of corresponding boolean axis is {}", n, m)


def positions(t: Context, mask: Value) -> list[Value]:
    """``np.nonzero``: one vector of the indices of the true elements for each axis."""
    e = t.builder
    if not rank(mask):
        mask = promotion.with_axis(t, mask, 0)
    linear = e.nonzero(promotion.flat(t, mask))
    out = []
    for axis in range(rank(mask) - 1, 0, -1):
        n = size(t, mask, axis)
        out.append(e.mod(linear, n))
        linear = e.floordiv(linear, n)
    return [linear, *reversed(out)]


# --- index arrays ---------------------------------------------------------------------------------

class _Advanced:
    """An index that contains arrays: a window for the slices, and the index arrays by axis."""

    def __init__(self, t: Context, v: Value, items: tuple[Any, ...]) -> None:
        self.t, self.v = t, v
        expanded = basic_indexing.expand(items, rank(v))
        self.checked = [i for i in expanded if isinstance(i, Sym) and i.scalar.is_bool]
        self._split(_without_masks(t, v, expanded))

    def _split(self, items: list[Any]) -> None:
        """Separates slices from index arrays; as in NumPy, integers count as index arrays and broadcast with them."""
        t = self.t
        self.arrays: dict[int, Value] = {}                  # by axis of v
        basic: list[Any] = []
        places: list[int] = []
        axis = 0
        for at, item in enumerate(items):
            if item is None:
                basic.append(None)
                continue
            if isinstance(item, slice):
                basic.append(item)
            else:
                self.arrays[axis] = in_range(t, item, size(t, self.v, axis), axis)
                basic.append(slice(None))
                places.append(at)
            axis += 1
        self.window: Window = basic_indexing.window(t, self.v, basic)
        self.shape = promotion.broadcast(t, *self.arrays.values())
        self.adjacent = places == list(range(places[0], places[-1] + 1))
        self.lead = places[0] if self.adjacent else 0          # position of the index arrays' axes in the result
        self.front = list(self.arrays) == list(range(len(self.arrays)))

    def read(self) -> Value:
        t, e = self.t, self.t.builder
        shown = [a for a in self.window.shown if a is not None]
        x = basic_indexing.read(t, self.v, Window(self.window.axes, tuple(shown)))
        chosen = list(self.arrays)
        others = [a for a in range(rank(self.v)) if a not in self.arrays]
        if chosen + others != list(range(rank(x))):
            x = e.transpose(x, perm=tuple(chosen + others))
        shape = sizes(t, x)
        k = len(chosen)
        if k > 1:
            x = e.reshape(x, lengths.count(t, x, range(k)), *shape[k:])
        taken = e.take(x, self._linear(shape[:k]))
        return self._place(taken)

    def _linear(self, shape: Sequence[Value]) -> Value:
        """One row-major index over the axes that have index arrays."""
        t, e = self.t, self.t.builder
        out: Value | None = None
        for v, n in zip(self.arrays.values(), shape):
            out = v if out is None else e.add(e.mul(out, n), v)
        assert out is not None
        full = promotion.broadcast_to(t, out, self.shape) if self.shape else promotion.with_axis(t, out, 0)
        return full

    def _place(self, taken: Value) -> Value:
        """Moves the index arrays' axes, which come first, to their position in NumPy, and inserts new axes."""
        t, e, k = self.t, self.t.builder, len(self.shape)
        shown = list(self.window.shown)
        plain = [a for a in shown if a is not None and a not in self.arrays]
        before = len([a for a in shown[:self.lead] if a is not None]) if self.adjacent else 0
        if before:
            rest = list(range(k, k + len(plain)))
            taken = e.transpose(taken, perm=(*rest[:before], *range(k), *rest[before:]))
        if None not in shown:
            return taken
        return promotion.reshape(t, taken, self._result_shape())

    def _result_shape(self) -> list[Value]:
        """The sizes of the result, with those of the index arrays at their position."""
        one, out, put = self.t.builder.const(1), [], False
        for axis in self.window.shown:
            if axis is not None and axis in self.arrays:
                if self.adjacent and not put:
                    out += self.shape
                    put = True
                continue
            part = one if axis is None else self.window.axes[axis]
            out.append(part if isinstance(part, Value) else part[1])
        return out if self.adjacent else [*self.shape, *out]

    def write(self, new: Sym) -> Value:
        t, e, v = self.t, self.t.builder, self.v
        value = promotion.as_dtype(t, new, dtype_of(v.type))
        shape = self._result_shape()
        if self.checked and rank(value) == len(shape):
            self._check_count(value, shape)
        if self.front and None not in self.window.shown and self._rest_is_whole():
            k = len(self.arrays)
            rows = v if k == 1 else e.reshape(v, lengths.count(t, v, range(k)), *sizes(t, v)[k:])
            out = e.put(rows, basic_indexing.fitted(t, value, shape), self._linear(sizes(t, v)[:k]))
            return out if k == 1 else e.reshape(out, *sizes(t, v))
        given = promotion.flat(t, basic_indexing.fitted(t, value, shape))
        out = e.put(promotion.flat(t, v), given, promotion.flat(t, self._elements(shape)))
        return promotion.reshape(t, out, sizes(t, v))

    def _rest_is_whole(self) -> bool:
        return all(basic_indexing._whole(self.t, self.v, a, self.window.axes[a])
                   for a in range(rank(self.v)) if a not in self.arrays)

    def _check_count(self, value: Value, shape: Sequence[Value]) -> None:
        have, want = size(self.t, value, self.lead), shape[self.lead]
        if have.const != 1 and (same := lengths.equal_sizes(self.t, have, want)) is not None:
            self.t.check(same, "ValueError", "NumPy boolean array indexing assignment cannot assign {} input values to "
                                             "the {} output values where the mask is true", have, want)

    def _elements(self, shape: Sequence[Value]) -> Value:
        """The position of each selected element in the flattened array, in the shape of the result."""
        t, e, one = self.t, self.t.builder, self.t.builder.const(1)
        total: Value | None = None
        spots = self._spots(len(shape))
        for axis in range(rank(self.v)):
            if axis in self.arrays:
                index, at = self.arrays[axis], spots[axis]
                if rank(index):
                    index = promotion.reshape(t, index, [*sizes(t, index), *[one] * (len(shape) - at)])
            else:
                index = basic_indexing.index_of(t, self.window.axes[axis])
                index = promotion.reshape(t, index, [size(t, index, 0), *[one] * (len(shape) - 1 - spots[axis])])
            scaled = e.mul(index, lengths.count(t, self.v, range(axis + 1, rank(self.v))))
            total = scaled if total is None else e.add(total, scaled)
        assert total is not None
        return promotion.broadcast_to(t, total, shape)

    def _spots(self, n: int) -> dict[int, int]:
        """The position in the result of each axis of v; for an indexed axis, the end of the index arrays' axes."""
        spots: dict[int, int] = {}
        k = len(self.shape)
        at = 0 if self.adjacent else k
        end = None if self.adjacent else k
        for axis in self.window.shown:
            if axis is not None and axis in self.arrays:
                if end is None:
                    at += k
                    end = at
                spots[axis] = end
            else:
                if axis is not None:
                    spots[axis] = at
                at += 1
        return spots


def _without_masks(t: Context, v: Value, items: list[Any]) -> list[Any]:
    """Replaces masks by the indices of their true elements."""
    out: list[Any] = []
    axis = 0
    for item in items:
        if isinstance(item, Sym) and item.scalar.is_bool:
            _check_mask(t, v, item.value, axis)
            out += [_Positions(i) for i in positions(t, item.value)]
        else:
            out.append(item)
        axis += basic_indexing.axes_taken(item)
    return out


class _Positions:
    """Index values that are known to be in range."""

    def __init__(self, value: Value) -> None:
        self.value = value


def in_range(t: Context, item: Any, n: Value, axis: int) -> Value:
    """An index array with negative indices resolved; emits bounds checks."""
    if isinstance(item, _Positions):
        return item.value
    if basic_indexing.is_basic(item):
        return basic_indexing.element(t, item, n, axis)
    e = t.builder
    index = promotion.cast(t, lift(t, item).value, I64)
    if t.options.in_range:
        return index
    if t.options.boundscheck:
        _check_indices(t, index, n, axis)
    return e.select(e.lt(index, 0), e.add(index, n), index)


def _check_indices(t: Context, index: Value, n: Value, axis: int) -> None:
    """Checks the largest and the smallest index; passes if there are no indices."""
    e = t.builder
    axes = tuple(range(rank(index)))
    none = e.eq(lengths.count(t, index), 0)
    message = f"index {{}} is out of bounds for axis {axis} with size {{}}"
    high, low = e.max(index, axes=axes), e.min(index, axes=axes)
    t.check(e.or_(none, e.lt(high, n)), "IndexError", message, high, n)
    t.check(e.or_(none, e.ge(low, e.neg(n))), "IndexError", message, low, n)
