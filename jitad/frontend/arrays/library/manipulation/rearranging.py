"""Functions that rotate, split and repeat arrays, ``np.delete``, ``np.insert``; views are views where NumPy's are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import axis_of, in_range
from .joining import with_axes


def whole(axis: int) -> tuple[Any, ...]:
    """A full slice for each axis before ``axis``."""
    return (slice(None),) * axis


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    m = np.asarray(m)
    axes = tuple(axes)
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == m.ndim:
        raise ValueError("Axes must be different.")
    if max(axes) >= m.ndim or min(axes) < -m.ndim:
        raise ValueError(f"Axes={axes} out of range for array of ndim={m.ndim}.")
    first, second = axis_of(axes[0], m.ndim), axis_of(axes[1], m.ndim)
    turns = k % 4
    if turns == 0:
        return m[:]
    if turns == 2:
        return _backwards(_backwards(m, first), second)
    if turns == 1:
        return np.swapaxes(_backwards(m, second), first, second)
    return _backwards(np.swapaxes(m, first, second), second)


def _backwards(m: Any, axis: int) -> Any:
    return m[whole(axis) + (slice(None, None, -1),)]


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    n = np.ndim(a)
    axis = axis_of(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start < n + 1:
        raise np.exceptions.AxisError(f"'start' arg requires {-n} <= start < {n + 1}, but {start} was passed in")
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    ary = np.asarray(ary)
    axis = axis_of(axis, ary.ndim)
    n = ary.shape[axis]
    if isinstance(indices_or_sections, (list, tuple)):
        bounds = [0, *indices_or_sections, n]
    else:
        parts = indices_or_sections
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        bounds = [k * (n // parts) + min(k, n % parts) for k in range(parts + 1)]
    return [ary[whole(axis) + (slice(low, high),)] for low, high in zip(bounds, bounds[1:])]


def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    ary = np.asarray(ary)
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    if not isinstance(indices_or_sections, (list, tuple)) and ary.shape[2] % indices_or_sections != 0:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> Any:
    if np.ndim(x) == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(np.moveaxis(np.asarray(x), axis, 0))


def resize(a: Any, new_shape: Any) -> Any:
    """The elements in order, repeated cyclically until the new shape is filled."""
    flat = np.ravel(a)
    shape = tuple(new_shape) if isinstance(new_shape, (list, tuple)) else (new_shape,)
    size = 1
    for n in shape:
        size *= n
        if n < 0:
            raise ValueError("all elements of `new_shape` must be non-negative")
    out = np.zeros(size, flat.dtype)
    for start in range(0, size if len(flat) > 0 else 0, max(len(flat), 1)):
        n = min(len(flat), size - start)
        out[start:start + n] = flat[:n]
    return out.reshape(shape)


def diagflat(v: Any, k: int = 0) -> Any:
    return np.diag(np.ravel(v), k)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    arr = np.ravel(arr) if axis is None else np.asarray(arr)
    axis = axis_of(0 if axis is None else axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, (list, tuple)) and len(obj) == 0:
        return arr.copy()
    if isinstance(obj, bool):
        raise ValueError("boolean array argument obj to delete must be one dimensional and match the axis length "
                         f"of {n}")
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        i = _position(obj, n, n, axis)
        return np.concatenate((arr[whole(axis) + (slice(None, i),)], arr[whole(axis) + (slice(i + 1, None),)]), axis)
    if not isinstance(obj, slice):
        obj = np.asarray(obj)
        if obj.dtype == np.bool and (obj.ndim != 1 or len(obj) != n):
            raise ValueError("boolean array argument obj to delete must be one dimensional and match the axis length "
                             f"of {n}")
    kept = np.ones(n, bool)
    kept[obj] = False
    return arr[whole(axis) + (kept,)]


def _position(i: int, last: int, n: int, axis: int) -> int:
    """Index ``i`` counted from the front; ``last`` is the first index that is out of range."""
    if i < -n or i >= last:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Inserts any number of values before a single position, or one value before each of several positions."""
    arr = np.ravel(arr) if axis is None else np.asarray(arr)
    axis = axis_of(0 if axis is None else axis, arr.ndim)
    n = arr.shape[axis]
    values = np.asarray(values, arr.dtype)
    if isinstance(obj, (list, tuple)) and len(obj) == 1 and np.ndim(obj) == 1:
        return _inserted(arr, _position(obj[0], n + 1, n, axis), with_axes(values, arr.ndim), axis)
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        values = np.moveaxis(with_axes(values, arr.ndim), 0, axis)
        return _inserted(arr, _position(obj, n + 1, n, axis), values, axis)
    return _spread(arr, _positions(obj, n, axis), values, axis)


def _inserted(arr: Any, i: int, values: Any, axis: int) -> Any:
    shape = list(arr.shape)
    shape[axis] = values.shape[axis]
    before, behind = arr[whole(axis) + (slice(None, i),)], arr[whole(axis) + (slice(i, None),)]
    return np.concatenate((before, np.broadcast_to(values, shape), behind), axis)


def _positions(obj: Any, n: int, axis: int) -> Any:
    """Several positions as an index array, counted from the front."""
    if isinstance(obj, slice):
        return np.arange(n)[obj]
    places = np.asarray(obj)
    if places.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if places.dtype == np.bool:
        places = np.flatnonzero(places)
    elif not np.issubdtype(places.dtype, np.integer) and not (isinstance(obj, (list, tuple)) and len(obj) == 0):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    places = places.astype(int)
    for i in places:
        _position(i, n + 1, n, axis)
    return np.where(places < 0, places + n, places)


@in_range
def _spread(arr: Any, places: Any, values: Any, axis: int) -> Any:
    """Inserts ``values`` before ``places``, equal positions in the order given.

    A counting sort finds the targets: ``moved[i]`` is the offset of element ``i`` in the result.
    """
    n = arr.shape[axis]
    moved = np.zeros(n + 2, int)
    for i in places:
        moved[i + 1] += 1
    moved = np.cumsum(moved)
    target = np.empty_like(places)
    for j in range(len(places)):
        target[j] = places[j] + moved[places[j]]
        moved[places[j]] += 1
    shape = list(arr.shape)
    shape[axis] = n + len(places)
    out = np.empty(shape, arr.dtype)
    out[whole(axis) + (np.arange(n) + moved[:n],)] = arr
    out[whole(axis) + (target,)] = values
    return out
