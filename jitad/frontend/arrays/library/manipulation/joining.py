"""Functions that join arrays: ``np.dstack``, ``np.block``, ``np.r_`` and ``np.c_``; ``np.atleast_3d``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import refuse


def with_axes(values: Any, ndim: int) -> Any:
    """Prepends axes of size 1 until there are ``ndim``."""
    return values.reshape((1,) * (ndim - values.ndim) + values.shape) if values.ndim < ndim else values


def atleast_3d(*arys: Any) -> Any:
    found = tuple([_with_three(np.asarray(a)) for a in arys])
    return found[0] if len(found) == 1 else found


def _with_three(a: Any) -> Any:
    if a.ndim == 0:
        return a.reshape(1, 1, 1)
    if a.ndim == 1:
        return a[None, :, None]
    return a[:, :, None] if a.ndim == 2 else a


def dstack(tup: Any) -> Any:
    return np.concatenate([_with_three(np.asarray(a)) for a in tup], 2)


def block(arrays: Any) -> Any:
    """Joins the innermost lists along the last axis, the lists around them along the axis before it, and so on."""
    out = _joined_blocks(arrays, max(_depth(arrays), _most_axes(arrays)))
    return out if isinstance(arrays, list) else out.copy()


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError("arrays is a tuple. Only lists can be used to arrange blocks, and np.block does not allow "
                        "implicit conversion from tuple to ndarray.")
    if not isinstance(arrays, list):
        return 0
    if len(arrays) == 0:
        raise ValueError("List at arrays cannot be empty")
    depths = [_depth(x) for x in arrays]
    if min(depths) != max(depths):
        raise ValueError("List depths are mismatched.")
    return depths[0] + 1


def _most_axes(arrays: Any) -> int:
    return max([_most_axes(x) for x in arrays]) if isinstance(arrays, list) else np.ndim(arrays)


def _joined_blocks(arrays: Any, ndim: int) -> Any:
    if not isinstance(arrays, list):
        return with_axes(np.asarray(arrays), ndim)
    return np.concatenate([_joined_blocks(x, ndim) for x in arrays], -_depth(arrays))


def along_rows(items: Any) -> Any:
    """``np.r_[items]``."""
    return _joined(items, 1)


def along_columns(items: Any) -> Any:
    """``np.c_[items]``."""
    return _joined(items, 2)


def _joined(items: Any, ndmin: int) -> Any:
    """Joins ``items``; with ``ndmin`` 2, vectors become columns.  Python scalars take the dtype of the arrays."""
    parts = [_part(x, ndmin) for x in (items if isinstance(items, tuple) else (items,))]
    dtype = np.result_type(*parts)
    arrays = [np.asarray(x, dtype) for x in parts]
    return np.concatenate([x.reshape((1,) * ndmin) if x.ndim == 0 else x for x in arrays], 0 if ndmin == 1 else -1)


def _part(item: Any, ndmin: int) -> Any:
    if isinstance(item, str):
        refuse("`np.r_` and `np.c_` with a directive", "np.concatenate or np.stack, with an axis")
    if isinstance(item, (int, float)):
        return item
    if isinstance(item, slice):
        start, step = 0 if item.start is None else item.start, 1 if item.step is None else item.step
        if isinstance(step, complex):
            item = np.linspace(start, item.stop, int(abs(step.imag)))
        else:
            item = np.arange(start, item.stop, step)
    array = np.asarray(item)
    return array[:, None] if array.ndim == 1 and ndmin == 2 else array
