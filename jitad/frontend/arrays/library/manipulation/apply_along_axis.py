"""``np.apply_along_axis`` and ``np.apply_over_axes``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import axis_of


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``func1d`` in a loop over the lanes; its first result determines the shape and dtype of the output."""
    arr = np.asarray(arr)
    axis = axis_of(axis, arr.ndim)
    moved = np.moveaxis(arr, axis, -1)
    around = moved.shape[:-1]
    n = 1
    for m in around:
        n *= m
    if n == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    lanes = moved.reshape(n, moved.shape[-1])
    first = np.asarray(func1d(lanes[0], *args, **kwargs))
    out = np.empty((n, *first.shape), first.dtype)
    out[0] = first
    for i in range(1, n):
        out[i] = func1d(lanes[i], *args, **kwargs)
    out = out.reshape(around + first.shape)
    made = tuple(range(len(around), out.ndim))
    return np.moveaxis(out, made, tuple([axis + k for k in range(len(made))]))


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """Applies ``func`` along one axis after the other; an axis that ``func`` removes is inserted again."""
    out = np.asarray(a)
    n = out.ndim
    for axis in axes if isinstance(axes, (list, tuple)) else (axes,):
        axis = axis + n if axis < 0 else axis
        reduced = func(out, axis)
        if np.ndim(reduced) < n:
            reduced = np.expand_dims(reduced, axis)
        if np.ndim(reduced) != n:
            raise ValueError("function is not returning an array of the correct shape")
        out = reduced
    return out
