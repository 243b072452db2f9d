"""``np.gradient``, ``np.ediff1d``, ``np.unwrap``, ``np.cumulative_sum`` and ``np.cumulative_prod``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..marks import axis_of, refuse

SIZE = "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
OF_BOOLS = ("numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` operator, or the "
            "logical_xor function instead.")


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Differences of second order in the interior and of order ``edge_order`` at both ends of each axis.

    Returns an array, or a tuple of arrays if there are several axes.
    """
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    f = np.asarray(f)
    kind = f.dtype
    if not np.issubdtype(f.dtype, np.floating):
        f = f.astype(float)
    axes = tuple(range(f.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple([axis_of(i, f.ndim) for i in axes])
    if len(set(axes)) < len(axes):
        raise ValueError("repeated axis")
    if kind == np.bool and len(axes) > 0:
        raise TypeError(OF_BOOLS)
    found = tuple([_along(f, i, h, edge_order) for i, h in zip(axes, _spacings(varargs, len(axes)))])
    return found[0] if len(found) == 1 else found


def _numbers(a: Any) -> Any:
    a = np.asarray(a)
    if a.dtype == np.bool and a.ndim > 0:
        raise TypeError(OF_BOOLS)
    return a


def _spacings(given: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """The spacing of each axis: a distance, or a vector of coordinates."""
    if len(given) == 0:
        return (1.0,) * n
    if len(given) == 1 and np.ndim(given[0]) == 0:
        return given * n
    if len(given) != n:
        raise TypeError("invalid number of arguments")
    return given


def _along(f: Any, axis: int, h: Any, edge_order: int) -> Any:
    moved = np.moveaxis(f, axis, -1)
    n = moved.shape[-1]
    h = np.asarray(h)
    if h.ndim > 1:
        raise ValueError("distances must be either scalars or 1d")
    if h.ndim == 1 and len(h) != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if n < edge_order + 1:
        raise ValueError(SIZE)
    out = _uneven(moved, np.diff(h), edge_order) if h.ndim == 1 else _even(moved, h, edge_order)
    return np.moveaxis(np.asarray(out, f.dtype), -1, axis)


def _even(f: Any, h: Any, edge_order: int) -> Any:
    inside = (f[..., 2:] - f[..., :-2]) / (2.0 * h)
    if edge_order < 2:
        return np.concatenate(((f[..., 1:2] - f[..., :1]) / h, inside, (f[..., -1:] - f[..., -2:-1]) / h), -1)
    first = _edge(f[..., :1], f[..., 1:2], f[..., 2:3], h, h)
    last = -_edge(f[..., -1:], f[..., -2:-1], f[..., -3:-2], h, h)
    return np.concatenate((first, inside, last), -1)


def _uneven(f: Any, d: Any, edge_order: int) -> Any:
    """Gradient along the last axis; ``d`` is the vector of distances between neighbours."""
    p, q = d[:-1], d[1:]
    inside = (p / (q * (p + q)) * f[..., 2:] + (q - p) / (p * q) * f[..., 1:-1] - q / (p * (p + q)) * f[..., :-2])
    if edge_order < 2:
        first, last = (f[..., 1:2] - f[..., :1]) / d[:1], (f[..., -1:] - f[..., -2:-1]) / d[-1:]
    else:
        first = _edge(f[..., :1], f[..., 1:2], f[..., 2:3], d[:1], d[1:2])
        last = -_edge(f[..., -1:], f[..., -2:-1], f[..., -3:-2], d[-1:], d[-2:-1])
    return np.concatenate((first, inside, last), -1)


def _edge(f0: Any, f1: Any, f2: Any, p: Any, q: Any) -> Any:
    """The slope at ``f0`` of the parabola through three points; ``p`` and ``q`` are the distances between them."""
    return (p + q) / (p * q) * f1 - (2.0 * p + q) / (p * (p + q)) * f0 - p / (q * (p + q)) * f2


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    ary = _numbers(np.ravel(ary))
    parts = [np.diff(ary)]
    if to_begin is not None:
        parts.insert(0, _edge_of("to_begin", to_begin, ary))
    if to_end is not None:
        parts.append(_edge_of("to_end", to_end, ary))
    return np.concatenate(parts)


def _edge_of(name: str, values: Any, ary: Any) -> Any:
    values = np.ravel(values)
    if not np.can_cast(values.dtype, ary.dtype, "same_kind"):
        raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return values.astype(ary.dtype)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2.0 * math.pi) -> Any:
    """Replaces steps above ``discont`` (default: half a period) by their complement modulo ``period``."""
    p = np.asarray(p)
    steps = np.diff(p, axis=axis)
    dtype = np.result_type(steps, period)
    if np.issubdtype(dtype, np.unsignedinteger):
        refuse("`np.unwrap` of integers without a sign with a period that is one", ".astype(np.int64) first")
    if np.issubdtype(dtype, np.integer):
        half, ambiguous = period // 2, period % 2 == 0
    else:
        half, ambiguous = period / 2, True
    wrapped = np.mod(steps + half, period) - half
    if ambiguous:
        wrapped = np.where((wrapped == -half) & (steps > 0), half, wrapped)
    added = np.where(np.abs(steps) < (half if discont is None else discont), 0, wrapped - steps)
    first = np.moveaxis(np.moveaxis(p, axis, 0)[:1], 0, axis)
    rest = np.moveaxis(np.moveaxis(p, axis, 0)[1:], 0, axis) + np.cumsum(added, axis)
    return np.concatenate((first, rest), axis, dtype=dtype)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _cumulated(np.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _cumulated(np.cumprod, 1, x, axis, dtype, include_initial)


def _cumulated(scan: Callable[..., Any], start: int, x: Any, axis: Any, dtype: Any, include_initial: bool) -> Any:
    x = np.atleast_1d(x)
    if axis is None:
        if x.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    out = scan(x, axis, dtype)
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    return np.concatenate((np.full(shape, start, out.dtype), out), axis)
