"""Medians, quantiles and percentiles, which propagate or skip NaN.

A lane is all elements that one number of the result depends on.  Each lane is ordered as in ``sorting``, and the result
is computed from the elements themselves.  So a median of an even number of elements passes half of its derivative to
each of the two middle elements.  A quantile passes it to its two neighbours according to their weights, and to ``q``
the slope between them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import axis_of, constant, in_range, refuse
from .ranking import ranked

OFFSETS = {                   # (α, β) of Hyndman and Fan, *Sample Quantiles in Statistical Packages*, 1996
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}
STEPS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "lower", "higher", "midpoint", "nearest")
FEW, MANY = 4, 3000                           # up to FEW quantiles of more than MANY elements are selected one by one
Axis = int | tuple[int, ...] | None


def median(a: Any, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle element along axes, or the mean of the two middle ones; NaN if a lane has a NaN or is empty."""
    return _median(a, axis, keepdims, False)


def nanmedian(a: Any, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False,
              ) -> Any:
    return _median(a, axis, keepdims, True)


def quantile(a: Any, q: Any, axis: Axis = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: None = None) -> Any:
    """The quantile ``q`` along axes; the axes of an array ``q`` come first in the result.

    Supports the methods that interpolate (``OFFSETS``); refuses the others (``STEPS``) and weights.
    """
    return _quantile(a, q, axis, method, keepdims, weights, False, "Quantiles must be in the range [0, 1]")


def nanquantile(a: Any, q: Any, axis: Axis = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: None = None) -> Any:
    return _quantile(a, q, axis, method, keepdims, weights, True, "Quantiles must be in the range [0, 1]")


def percentile(a: Any, q: Any, axis: Axis = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: None = None) -> Any:
    return _quantile(a, _parts(a, q), axis, method, keepdims, weights, False,
                     "Percentiles must be in the range [0, 100]")


def nanpercentile(a: Any, q: Any, axis: Axis = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False, *, weights: None = None) -> Any:
    return _quantile(a, _parts(a, q), axis, method, keepdims, weights, True,
                     "Percentiles must be in the range [0, 100]")


def _parts(a: Any, q: Any) -> Any:
    """Percentages as fractions; Python numbers take the dtype of ``a``."""
    dtype = np.asarray(a).dtype
    return np.true_divide(q, dtype.type(100) if np.issubdtype(dtype, np.floating) else 100)


# --- lanes ----------------------------------------------------------------------------------------

def lanes(a: Any, axis: Axis) -> Any:
    """Returns the lanes along ``axis`` as float rows, the sizes of the other axes, and the sizes with ``keepdims``."""
    a = np.asarray(a)
    a = a if np.issubdtype(a.dtype, np.floating) else a.astype(np.float64)
    every = tuple(range(a.ndim))
    given = every if axis is None else axis if isinstance(axis, tuple) else (axis,)
    along = tuple([axis_of(k, a.ndim) for k in given])
    if len(set(along)) != len(along):
        raise ValueError("repeated axis")
    kept = tuple([k for k in every if k not in along])
    sizes = tuple([a.shape[k] for k in kept])
    shape = tuple([1 if k in along else a.shape[k] for k in every])
    rows = a.transpose(kept + along) if a.ndim > 1 else a
    return rows.reshape(math.prod(sizes), math.prod([a.shape[k] for k in along])), sizes, shape


def shaped(a: Any, shape: tuple[int, ...]) -> Any:
    """``a`` in this shape; a scalar if the shape is empty."""
    return a.reshape(shape) if len(shape) > 0 else a.ravel()[0]


# --- the middle -----------------------------------------------------------------------------------

def _median(a: Any, axis: Axis, keepdims: bool, skip: bool) -> Any:
    rows, sizes, shape = lanes(a, axis)
    out = np.empty(len(rows), rows.dtype)
    for i in range(len(rows)):
        out[i] = _middle(rows[i], skip)
    return shaped(out, shape if keepdims else sizes)


@in_range
def _middle(row: Any, skip: bool) -> Any:
    count = _numbers(row)
    if count == 0 or (count < len(row) and not skip):
        return row.dtype.type(np.nan)
    middle = count // 2
    order, first = ranked(constant(row), count, max(middle - 1, 0), middle)
    upper = row[order[middle - first]]
    return upper if count % 2 == 1 else (row[order[middle - 1 - first]] + upper) / 2


def _numbers(row: Any) -> int:
    """The number of elements that are not NaN."""
    return int(np.sum(row == row))


# --- any quantile ---------------------------------------------------------------------------------

def _quantile(a: Any, q: Any, axis: Axis, method: str, keepdims: bool, weights: None, skip: bool, message: str) -> Any:
    if method not in (*OFFSETS, *STEPS):
        raise ValueError(f"'{method}' is not a valid method. Use one of: {', '.join((*OFFSETS, *STEPS))}")
    if method in STEPS or weights is not None:
        refuse("a quantile by a method that does not interpolate, or with weights", "np.sort, and an index into it")
    a = np.asarray(a)
    if skip and np.ndim(q) > 0 and a.size == 0:
        raise ValueError("several quantiles of no elements: NumPy's result has no axis for them")
    rows, sizes, shape = lanes(a, axis)
    if a.dtype == np.bool and (not skip or a.size > 0):
        raise TypeError("numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the `^` "
                        "operator, or the logical_xor function instead.")
    weak = type(q) in (int, float)
    q = np.asarray(q)
    if not np.issubdtype(a.dtype, np.floating) and np.result_type(a, q) != np.float64:
        refuse("a quantile of integers that NumPy computes in a dtype other than float64", "`q` as a float64")
    double = rows.dtype == np.float64 or not (weak or q.dtype == np.float32)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(message)
    if rows.shape[1] == 0 and not skip:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    most = np.iinfo(a.dtype).max if np.issubdtype(a.dtype, np.signedinteger) else None
    found = _quantiles(rows, q.ravel(), np.float64 if double else np.float32, method, skip, most)
    return shaped(found.T, q.shape + (shape if keepdims else sizes))


def _quantiles(rows: Any, q: Any, dtype: Any, method: str, skip: bool, most: int | None) -> Any:
    """A matrix with a row for each lane in ``rows`` and a column for each of ``q``.

    ``most``: the largest integer of their dtype.
    """
    out = np.empty((len(rows), len(q)), dtype)
    for i in range(len(rows)):
        row = rows[i]
        count = _numbers(row)
        if count == 0 or (count < len(row) and not skip):
            out[i] = np.nan
        else:
            together = 1 if len(q) <= FEW and count > MANY else max(len(q), 1)
            for start in range(0, len(q), together):
                some = q[start:start + together]
                lowest, highest = _place(np.min(some), count, method), _place(np.max(some), count, method)
                order, first = ranked(constant(row), count, int(lowest), min(int(highest) + 1, count - 1))
                for j in range(len(some)):
                    out[i, start + j] = dtype(_at(row, order, first, count, _place(some[j], count, method), most))
    return out


def _place(q: Any, count: int, method: str) -> Any:
    """The fractional rank of quantile ``q``, within ``[0, count - 1]``."""
    if method == "linear":
        return (count - 1) * q
    before, behind = OFFSETS[method]
    return np.clip(count * q + (before + q * (1 - before - behind)) - 1, 0, count - 1)


@in_range
def _at(row: Any, order: Any, first: int, count: int, place: Any, most: int | None) -> Any:
    """Interpolates at rank ``place`` of a row with ``count`` numbers; ``order`` starts at rank ``first``."""
    k = int(place)
    low, high = row[order[k - first]], row[order[min(k + 1, count - 1) - first]]
    share, step = place - k, high - low
    if most is not None and step >= most + 1.0:
        raise OverflowError("a quantile between integers whose difference wraps in NumPy: .astype(float) first")
    return high - step * (1 - share) if share >= 0.5 else low + step * share
