"""Functions that read and write elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...ir.types import BOOL, I64, dtype_of
from ..values import Context, Sym
from . import core, windows
from .core import axis_arg, int_value, rank, refuse, size, sizes
from .dtypes import of_python
from .indexing import getitem, in_range, index_items, positions, setitem
from .lifting import lift
from .ufuncs import choose

MOST_LISTED = 1024            # elements of an array that becomes a list


# --- functions ------------------------------------------------------------------------------------

def where(t: Context, condition: Any, *choices: Any) -> Any:
    if not choices:
        return nonzero(t, condition)
    if len(choices) != 2:
        raise ValueError("either both or neither of x and y should be given")
    return choose(t, condition, *choices)


def nonzero(t: Context, a: Any) -> tuple[Sym, ...]:
    mask = core.cast(t, lift(t, a).value, BOOL)
    if not rank(mask):
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(Sym(v, False) for v in positions(t, mask))


def flatnonzero(t: Context, a: Any) -> Sym:
    return Sym(positions(t, core.flat(t, core.cast(t, lift(t, a).value, BOOL)))[0], False)


def argwhere(t: Context, a: Any) -> Sym:
    if not rank(lift(t, a).value):
        refuse(t, "np.argwhere of a number", "an array")
    columns = [core.with_axis(t, x.value, 1) for x in nonzero(t, a)]
    return Sym(columns[0] if len(columns) == 1 else t.builder.concat(*columns, axis=1), False)


def take(t: Context, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Sym:
    v = lift(t, a).value
    if out is not None or mode != "raise":
        refuse(t, "np.take with out= or mode=", "index with np.clip(indices, 0, n - 1)")
    chosen = lift(t, indices)
    indices = Sym(core.cast(t, chosen.value, I64), False) if chosen.scalar.is_bool else indices       # no mask
    if axis is None:
        return getitem(t, Sym(core.flat(t, v)), indices)
    return getitem(t, Sym(v), (slice(None),) * axis_arg(t, axis, rank(v)) + (indices,))


def take_along_axis(t: Context, arr: Any, indices: Any, axis: Any = -1) -> Sym:
    v, index = lift(t, arr).value, lift(t, indices).value
    if axis is None:
        return getitem(t, Sym(core.flat(t, v)), Sym(index))
    return getitem(t, Sym(v), along_axis(t, v, index, axis_arg(t, axis, rank(v))))


def along_axis(t: Context, v: Value, index: Value, axis: int) -> tuple[Any, ...]:
    """An index tuple that follows ``index`` on one axis and counts on the others."""
    if rank(index) != rank(v):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    one = t.builder.const(1)
    out = []
    for i in range(rank(v)):
        counted = t.builder.iota(size(t, v, i))
        shape = [one] * i + [size(t, counted, 0)] + [one] * (rank(v) - 1 - i)
        out.append(Sym(index if i == axis else core.reshape(t, counted, shape)))
    return tuple(out)


def compress(t: Context, condition: Any, a: Any, axis: Any = None) -> Sym:
    where_true = flatnonzero(t, condition)
    return take(t, a, where_true, axis)


# --- functions that write into their first argument: they give its new value -----------------------

def add_at(t: Context, a: Any, indices: Any, b: Any) -> Sym:
    """``np.add.at``: equal indices add up."""
    v, new = lift(t, a).value, lift(t, b)
    items = index_items(t, indices)
    if len(items) != 1 or not isinstance(items[0], Sym) or items[0].scalar.is_bool:
        return _add_at_flat(t, v, items, new)
    index = in_range(t, items[0], size(t, v, 0), 0)
    index = index if rank(index) else core.with_axis(t, index, 0)
    value = windows.fitted(t, core.as_dtype(t, new, dtype_of(v.type)), [*sizes(t, index), *sizes(t, v)[1:]])
    return Sym(t.builder.add_put(v, value, index), False)


def _add_at_flat(t: Context, v: Value, items: tuple[Any, ...], new: Sym) -> Sym:
    e = t.builder
    linear = core.reshape(t, e.iota(core.count(t, v)), sizes(t, v))
    index = getitem(t, Sym(linear), items).value
    index = index if rank(index) else core.with_axis(t, index, 0)
    value = windows.fitted(t, core.as_dtype(t, new, dtype_of(v.type)), sizes(t, index))
    out = e.add_put(core.flat(t, v), core.flat(t, value), core.flat(t, index))
    return Sym(core.reshape(t, out, sizes(t, v)), False)


def fill(t: Context, a: Any, value: Any) -> Sym:
    return setitem(t, a, Ellipsis, value)


def copyto(t: Context, dst: Any, src: Any, where: Any = True) -> Sym:
    given, v = lift(t, src), lift(t, dst).value
    want = dtype_of(v.type).np
    if not given.weak and not np.can_cast(given.scalar.np, want, "same_kind"):
        raise TypeError(f"Cannot cast array data from {given.scalar.np!r} to {want!r} "
                        "according to the rule 'same_kind'")
    if where is True:
        return setitem(t, dst, Ellipsis, src)
    new = core.as_dtype(t, given, dtype_of(v.type))
    c = core.cast(t, lift(t, where).value, BOOL)
    return Sym(t.builder.select(core.broadcast_to(t, c, sizes(t, v)), core.broadcast_to(t, new, sizes(t, v)), v), False)


def put(t: Context, a: Any, ind: Any, v: Any, mode: str = "raise") -> Sym:
    if mode != "raise":
        refuse(t, "np.put with mode=", "a[...] = v")
    whole = lift(t, a).value
    out = setitem(t, Sym(core.flat(t, whole)), ind, v).value
    return Sym(core.reshape(t, out, sizes(t, whole)), False)


def fill_diagonal(t: Context, a: Any, val: Any, wrap: bool = False) -> Sym:
    v = lift(t, a).value
    if rank(v) != 2 or wrap:
        refuse(t, "np.fill_diagonal of anything but a matrix", "a[i, i] = v in a loop")
    e = t.builder
    n = e.minimum(size(t, v, 0), size(t, v, 1))
    index = e.mul(e.iota(n), e.add(size(t, v, 1), 1))
    value = windows.fitted(t, core.as_dtype(t, lift(t, val), dtype_of(v.type)), [n])
    return Sym(core.reshape(t, e.put(core.flat(t, v), value, index), sizes(t, v)), False)


def item(t: Context, a: Any, *index: Any) -> Sym:
    """``a.item(i)``: a Python scalar."""
    v = lift(t, a).value
    if not rank(v):
        return of_python(t, v)
    where = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
    if len(where) == 1 and rank(v) > 1:
        v = core.flat(t, v)
    if not where:
        e = t.builder
        t.check(e.eq(core.count(t, v), 1), "ValueError", "can only convert an array of size 1 to a Python scalar")
        return of_python(t, e.get(v, *[e.const(0)] * rank(v)))
    return of_python(t, getitem(t, Sym(v), tuple(Sym(int_value(t, i), True) for i in where)).value)


def tolist(t: Context, a: Any) -> Any:
    """Nested lists of Python's numbers, as many as the sizes that are known while tracing tell."""
    v = lift(t, a).value
    lengths = [n.const for n in sizes(t, v)]
    if None in lengths or math.prod(lengths) > MOST_LISTED:
        refuse(t, "`tolist` of an array whose sizes are only known at run time" if None in lengths else
               f"`tolist` of more than {MOST_LISTED} elements", "the array itself; `a[i]` is a number")
    return _listed(t, v, lengths, ())


def _listed(t: Context, v: Value, lengths: Sequence[int], index: tuple[int, ...]) -> Any:
    if len(index) == len(lengths):
        return of_python(t, t.builder.get(v, *map(t.builder.const, index)) if index else v)
    return [_listed(t, v, lengths, (*index, i)) for i in range(lengths[len(index)])]


def compress_method(t: Context, a: Any, condition: Any, axis: Any = None) -> Sym:
    return compress(t, condition, a, axis)
