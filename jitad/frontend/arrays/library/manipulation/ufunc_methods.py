"""``accumulate``, ``reduceat`` and ``at`` of NumPy's binary functions, except those that are ops of the IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..marks import axis_of, refuse


def accumulate_of(combine: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    """``ufunc.accumulate``: the results of ``combine`` over the first 1, 2, … elements along an axis."""
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
        array = np.asarray(array)
        if axis is None and array.ndim > 1:
            raise ValueError("accumulate does not allow multiple axes")
        axis = axis_of(0 if axis is None else axis, max(array.ndim, 1))
        if array.ndim == 0:
            raise TypeError("cannot accumulate on a scalar")
        if dtype is not None:
            array = array.astype(dtype)
        rows = np.moveaxis(array, axis, 0)
        kind = combine(np.zeros(1, rows.dtype), np.zeros(1, rows.dtype)).dtype
        if kind != rows.dtype:
            if dtype is not None:
                raise TypeError(f"No loop matching the specified signature and casting was found for ufunc {name}")
            rows = rows.astype(kind)
        out = np.empty(rows.shape, kind)
        if len(rows) > 0:
            last = rows[0]
            out[0] = last
            for i in range(1, len(rows)):
                last = combine(last, rows[i])
                out[i] = last
        return np.moveaxis(out, 0, axis)
    return accumulate


def reduceat_of(reduce: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``ufunc.reduceat``: row i reduces the rows ``indices[i]`` to ``indices[i + 1]``, the last one those to the end.

    Where the second index is not above the first, the result is the row at the first.
    """
    def reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
        array, indices = np.asarray(array), np.asarray(indices)
        axis = axis_of(axis, max(array.ndim, 1))
        if array.ndim == 0:
            raise TypeError("cannot reduceat on a scalar")
        if indices.ndim != 1:
            raise ValueError(f"object {'too deep' if indices.ndim > 1 else 'of too small depth'} for desired array")
        if not np.issubdtype(indices.dtype, np.integer):
            raise TypeError(f"Cannot cast array data from {indices.dtype!r} to {np.dtype(int)!r} according to the rule "
                            "'safe'")
        rows = np.moveaxis(array, axis, 0)
        for start in indices:
            if start < 0 or start >= len(rows):
                raise IndexError(f"index {start} out-of-bounds in {name}.reduceat [0, {len(rows)})")
        if dtype is not None:
            rows = rows.astype(dtype)
            if rows.dtype == np.bool and name in ("add", "multiply"):
                refuse(f"`np.{name}.reduceat` of dtype bool", "dtype=int, and `> 0` of the result")
        kind = reduce(np.zeros(1, rows.dtype)).dtype
        out = np.empty((len(indices), *rows.shape[1:]), kind)
        for i in range(len(indices)):
            start = indices[i]
            end = indices[i + 1] if i + 1 < len(indices) else len(rows)
            out[i] = reduce(rows[start:max(end, start + 1)], axis=0)
        return np.moveaxis(out, 0, axis)
    return reduceat


def at_of(combine: Callable[[Any, Any], Any]) -> Callable[..., None]:
    """``ufunc.at``: combines elements with operands one after the other, so that equal indices all count."""
    def at(a: Any, indices: Any, b: Any = None, /) -> None:
        if b is None:
            raise ValueError("second operand needed for ufunc")
        if not isinstance(indices, tuple):
            indices = (indices,)
        if any([isinstance(i, slice) or np.asarray(i).dtype == np.bool for i in indices]):
            a[indices] = combine(a[indices], b)          # each element is there once
            return
        places = np.broadcast_arrays(*indices)
        flat, rest = [np.ravel(p) for p in places], a.shape[len(places):]
        b = np.broadcast_to(b, (*places[0].shape, *rest)).reshape((len(flat[0]), *rest))
        for k in range(len(flat[0])):
            place = tuple([p[k] for p in flat])
            a[place] = combine(a[place], b[k])
    return at
