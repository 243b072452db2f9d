"""NumPy's functions that search in sorted arrays.

Positions are integers and have no derivative; values read or weighted by position are differentiated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import constant, in_range
from .sorting import ordered


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The insertion positions of ``v`` (a scalar or an array of any shape), int64.  NaN is last, as in sorting."""
    a = constant(np.asarray(a))
    if a.ndim != 1:
        raise ValueError("object too deep for desired array" if a.ndim > 1 else "object of too small depth")
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got '{side}')")
    if sorter is not None:
        a = a[_checked_sorter(np.asarray(sorter), len(a))]
    return _positions(a, constant(np.asarray(v)), side == "right")


def _checked_sorter(sorter: Any, n: int) -> Any:
    if len(sorter) != n:
        raise ValueError("sorter.size must equal a.size")
    if n > 0 and (np.min(sorter) < 0 or np.max(sorter) >= n):
        raise ValueError("Sorter index out of range.")
    return sorter


def _positions(a: Any, v: Any, after: bool) -> Any:
    if v.ndim == 0:
        return np.int64(position(a, v, after))
    flat = v.ravel()
    out = np.empty(len(flat), np.int64)
    for i in range(len(flat)):
        out[i] = position(a, flat[i], after)
    return out.reshape(v.shape)


def position(a: Any, x: Any, after: bool) -> int:
    """The number of elements of ``a`` before ``x``, including equal ones if ``after``.  NaN is last in ``a``."""
    if x != x:
        return len(a) if after else _count_before(a, math.inf, True)
    return _count_before(a, x, after)


@in_range
def _count_before(a: Any, x: Any, equal_too: bool) -> int:
    """Binary search: how many steps it takes depends on the length alone.

    Each step is a selection.  A branch would be mispredicted half of the time.
    """
    if len(a) == 0:
        return 0
    low, size = 0, len(a)
    while size > 1:
        half = size >> 1
        low = low + half if _is_before(a[low + half - 1], x, equal_too) else low
        size -= half
    return low + int(_is_before(a[low], x, equal_too))


def _is_before(element: Any, x: Any, equal_too: bool) -> bool:
    return bool(element <= x if equal_too else element < x)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The index of the bin that contains each ``x``; the edges may increase or decrease."""
    x, bins = constant(np.asarray(x)), constant(np.asarray(bins))
    rising, falling = not np.any(bins[:-1] > bins[1:]), not np.any(bins[:-1] < bins[1:])     # NaN may be the last
    if not (rising or falling):
        raise ValueError("bins must be monotonically increasing or decreasing")
    if rising:
        return _positions(bins, x, not right)
    return len(bins) - _positions(bins[::-1], x, not right)


# --- between points -------------------------------------------------------------------------------

def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Piecewise linear interpolation between the points ``(xp, fp)``, float64.

    Differentiable in ``x``, ``xp`` and ``fp``; at a point of ``xp``, the derivative is that of the piece to its right.
    """
    x, xp, fp = (np.asarray(v).astype(np.float64) for v in (x, xp, fp))
    if xp.ndim != 1 or fp.ndim != 1:
        raise ValueError("Data points must be 1-D sequences" if period is not None else
                         "object of too small depth for desired array")
    if len(xp) == 0:
        raise ValueError("array of sample points is empty")
    if len(xp) != len(fp):
        raise ValueError("fp and xp are not of the same length.")
    if period is not None:
        left = right = None
        x, xp, fp = _unrolled(x, xp, fp, period)
    below, above = fp[0] if left is None else left, fp[-1] if right is None else right
    if x.ndim == 0:
        return _between(x, xp, fp, below, above)
    flat = x.ravel()
    out = np.empty(len(flat))
    for i in range(len(flat)):
        out[i] = _between(flat[i], xp, fp, below, above)
    return out.reshape(x.shape)


def _unrolled(x: Any, xp: Any, fp: Any, period: Any) -> Any:
    """The points of one period in order, preceded by the last one and followed by the first one."""
    if period == 0:
        raise ValueError("period must be a non-zero value")
    period = abs(period)
    x, xp = x % period, xp % period
    order = ordered(constant(xp))
    xp, fp = xp[order], fp[order]
    return (x, np.concatenate((xp[-1:] - period, xp, xp[:1] + period)), np.concatenate((fp[-1:], fp, fp[:1])))


@in_range
def _between(x: Any, xp: Any, fp: Any, below: Any, above: Any) -> Any:
    last = len(xp) - 1
    if x < xp[0]:
        return below
    if x > xp[last]:
        return above
    if x == xp[last] or last == 0:
        return fp[last]
    if math.isnan(x):
        return x
    j = max(position(xp, x, True) - 1, 0)
    x0, x1, y0, y1 = xp[j], xp[min(j + 1, last)], fp[j], fp[min(j + 1, last)]
    slope = (y1 - y0) / (x1 - x0)
    y = slope * (x - x0) + y0
    if math.isnan(y):                                # one of the two points is infinite
        y = y0 if x == x0 or y0 == y1 else slope * (x - x1) + y1
    return y
