"""NumPy functions that read and write elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.graph import Value
from ....ir.types import BOOL, I64, U64, Scalar, dtype_of
from ...values.values import Context, Sym
from . import basic_indexing, lengths, promotion
from .dtypes import of_python
from .indexing import getitem, in_range, index_items, positions, setitem
from .lengths import size, sizes
from .lifting import as_stored, lift
from .promotion import axis_arg, int_value, rank, refuse
from .ufuncs import choose

MOST_LISTED = 1024            # the limit on elements of an array that ``tolist`` converts


# --- functions ------------------------------------------------------------------------------------

def where(t: Context, condition: Any, *choices: Any) -> Any:
    if not choices:
        return nonzero(t, condition)
    if len(choices) != 2:
        raise ValueError("either both or neither of x and y should be given")
    return choose(t, condition, *choices)


def nonzero(t: Context, a: Any) -> tuple[Sym, ...]:
    mask = promotion.cast(t, lift(t, a).value, BOOL)
    if not rank(mask):
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    return tuple(Sym(v, False) for v in positions(t, mask))


def flatnonzero(t: Context, a: Any) -> Sym:
    return Sym(positions(t, promotion.flat(t, promotion.cast(t, lift(t, a).value, BOOL)))[0], False)


def argwhere(t: Context, a: Any) -> Sym:
    if not rank(lift(t, a).value):
        refuse(t, "np.argwhere of a number", "an array")
    columns = [promotion.with_axis(t, x.value, 1) for x in nonzero(t, a)]
    return Sym(columns[0] if len(columns) == 1 else t.builder.concat(*columns, axis=1), False)


def take(t: Context, a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Sym:
    v = promotion.with_an_axis(t, lift(t, a).value, axis)
    _check_mode(mode)
    chosen = lift(t, indices)
    if mode != "raise":
        n = lengths.count(t, v) if axis is None else size(t, v, axis_arg(t, axis, rank(v)))
        indices = chosen = _brought_inside(t, chosen, n, mode, "cannot do a non-empty take from an empty axes.")
    indices = Sym(promotion.cast(t, chosen.value, I64), False) if chosen.scalar.is_bool else indices       # not a mask
    if axis is None:
        return getitem(t, Sym(promotion.flat(t, v)), indices)
    return getitem(t, Sym(v), (slice(None),) * axis_arg(t, axis, rank(v)) + (indices,))


def _check_mode(mode: str) -> None:
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got '{mode}')")


def _brought_inside(t: Context, indices: Sym, n: Value, mode: str, of_nothing: str) -> Sym:
    """Maps indices into ``[0, n)``: modulo ``n`` (``wrap``), or to the nearest valid index (``clip``)."""
    e, k = t.builder, promotion.cast(t, indices.value, I64)
    t.check(e.or_(e.ne(n, 0), e.eq(lengths.count(t, k), 0)), "IndexError", of_nothing)
    return Sym(e.mod(k, n) if mode == "wrap" else e.maximum(e.minimum(k, e.sub(n, 1)), 0), False)


def take_along_axis(t: Context, arr: Any, indices: Any, axis: Any = -1) -> Sym:
    v, index = lift(t, arr).value, lift(t, indices).value
    if axis is None:
        if rank(index) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        return getitem(t, Sym(promotion.flat(t, v)), Sym(index))
    return getitem(t, Sym(v), along_axis(t, v, index, axis_arg(t, axis, rank(v))))


def along_axis(t: Context, v: Value, index: Value, axis: int) -> tuple[Any, ...]:
    """An index tuple that is ``index`` on one axis and enumerates the others."""
    if rank(index) != rank(v):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    one = t.builder.const(1)
    out = []
    for i in range(rank(v)):
        counted = t.builder.iota(size(t, v, i))
        shape = [one] * i + [size(t, counted, 0)] + [one] * (rank(v) - 1 - i)
        out.append(Sym(index if i == axis else promotion.reshape(t, counted, shape)))
    return tuple(out)


def compress(t: Context, condition: Any, a: Any, axis: Any = None) -> Sym:
    if rank(lift(t, condition).value) != 1:
        raise ValueError("condition must be a 1-d array")
    where_true = flatnonzero(t, condition)
    return take(t, a, where_true, axis)


# --- functions that write into their first argument: the rules return its new value ----------------

def add_at(t: Context, a: Any, indices: Any, b: Any = promotion.NO) -> Sym:
    """``np.add.at``: contributions to equal indices accumulate."""
    if b is promotion.NO:
        raise ValueError("second operand needed for ufunc")
    v = lift(t, a).value
    new = _addend(t, promotion.strong(lift(t, b)), dtype_of(v.type))
    items = index_items(t, indices)
    if len(items) != 1 or not isinstance(items[0], Sym) or items[0].scalar.is_bool:
        return _add_at_flat(t, v, items, new)
    index = in_range(t, items[0], size(t, v, 0), 0)
    index = index if rank(index) else promotion.with_axis(t, index, 0)
    value = basic_indexing.fitted(t, new, [*sizes(t, index), *sizes(t, v)[1:]])
    return Sym(t.builder.add_put(v, value, index), False)


def _addend(t: Context, x: Sym, dtype: Scalar) -> Value:
    """The addend of ``np.add.at`` in the dtype of the elements; integers wrap as the sums do."""
    if dtype.is_int and promotion.promote(x, Sym(t.builder.const(0, dtype), False))[0].is_float:
        refuse(t, f"np.add.at of {x.scalar.np} to {dtype.np}, which NumPy adds in float64",
               f"np.{dtype.np}(...) of what is added")
    return promotion.cast(t, x.value, dtype)


def _add_at_flat(t: Context, v: Value, items: tuple[Any, ...], new: Value) -> Sym:
    e = t.builder
    linear = promotion.reshape(t, e.iota(lengths.count(t, v)), sizes(t, v))
    index = getitem(t, Sym(linear), items).value
    index = index if rank(index) else promotion.with_axis(t, index, 0)
    value = basic_indexing.fitted(t, new, sizes(t, index))
    out = e.add_put(promotion.flat(t, v), promotion.flat(t, value), promotion.flat(t, index))
    return Sym(promotion.reshape(t, out, sizes(t, v)), False)


def fill(t: Context, a: Any, value: Any) -> Sym:
    return setitem(t, a, Ellipsis, value)


def copyto(t: Context, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Sym:
    given, into = lift(t, src), lift(t, dst).scalar
    have, want = given.scalar.np, into.np
    of_kind = into.is_float and not given.scalar.is_bool or into.is_int and given.scalar.is_int
    allowed = np.can_cast(have, want, casting)                           # type: ignore[arg-type]
    if not allowed and not (given.weak and of_kind and casting != "equiv"):
        raise TypeError(f"Cannot cast array data from {have!r} to {want!r} according to the rule '{casting}'")
    new = promotion.as_dtype(t, given, into)
    if where is True:
        return setitem(t, dst, Ellipsis, Sym(new, False))
    v = lift(t, dst).value
    c = promotion.cast(t, lift(t, where).value, BOOL)
    shape = sizes(t, v)
    return Sym(t.builder.select(promotion.broadcast_to(t, c, shape), promotion.broadcast_to(t, new, shape), v), False)


def put(t: Context, a: Any, ind: Any, v: Any, mode: str = "raise") -> Sym:
    _check_mode(mode)
    if (places := lift(t, ind).scalar) is U64:
        raise TypeError(f"Cannot cast array data from {places.np!r} to {I64.np!r} according to the rule 'safe'")
    whole = lift(t, a).value
    if mode != "raise":
        ind = _brought_inside(t, lift(t, ind), lengths.count(t, whole), mode,
                              "cannot replace elements of an empty array")
    out = setitem(t, Sym(promotion.flat(t, whole)), ind, v).value
    return Sym(promotion.reshape(t, out, sizes(t, whole)), False)


def put_method(t: Context, a: Any, indices: Any, values: Any, mode: str = "raise") -> Sym:
    return put(t, a, indices, values, mode)


def fill_diagonal(t: Context, a: Any, val: Any, wrap: bool = False) -> Sym:
    v = lift(t, a).value
    if rank(v) != 2 or wrap:
        refuse(t, "np.fill_diagonal of anything but a matrix", "a[i, i] = v in a loop")
    e = t.builder
    n = e.minimum(size(t, v, 0), size(t, v, 1))
    index = e.mul(e.iota(n), e.add(size(t, v, 1), 1))
    dtype = dtype_of(v.type)
    value = basic_indexing.fitted(t, promotion.as_dtype(t, as_stored(t, val, dtype), dtype), [n])
    return Sym(promotion.reshape(t, e.put(promotion.flat(t, v), value, index), sizes(t, v)), False)


def item(t: Context, a: Any, *index: Any) -> Sym:
    """``a.item(i)`` as a Python scalar."""
    v = lift(t, a).value
    if not rank(v):
        return of_python(t, v)
    where = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
    if len(where) == 1 and rank(v) > 1:
        v = promotion.flat(t, v)
    if not where:
        e = t.builder
        t.check(e.eq(lengths.count(t, v), 1), "ValueError", "can only convert an array of size 1 to a Python scalar")
        return of_python(t, e.get(v, *[e.const(0)] * rank(v)))
    return of_python(t, getitem(t, Sym(v), tuple(Sym(int_value(t, i), True) for i in where)).value)


def tolist(t: Context, a: Any) -> Any:
    """``a.tolist()``: nested lists of Python scalars; the sizes must be known while tracing."""
    v = lift(t, a).value
    have = [n.const for n in sizes(t, v)]
    if None in have or math.prod(have) > MOST_LISTED:
        refuse(t, "`tolist` of an array whose sizes are only known at run time" if None in have else
               f"`tolist` of more than {MOST_LISTED} elements", "the array itself; `a[i]` is a number")
    return _listed(t, v, have, ())


def _listed(t: Context, v: Value, have: Sequence[int], index: tuple[int, ...]) -> Any:
    if len(index) == len(have):
        return of_python(t, t.builder.get(v, *map(t.builder.const, index)) if index else v)
    return [_listed(t, v, have, (*index, i)) for i in range(have[len(index)])]


def compress_method(t: Context, a: Any, condition: Any, axis: Any = None) -> Sym:
    return compress(t, condition, a, axis)
