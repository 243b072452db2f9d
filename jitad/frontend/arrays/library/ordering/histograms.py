"""``np.bincount`` and ``np.histogram``: counts are integers; sums of weights and bin edges are differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import constant, in_range, refuse
from .searching import position

LARGEST = 2**63 - 1


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """The number of occurrences of each integer, or the sums of their weights (float64), which are differentiated."""
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError("object too deep for desired array" if x.ndim > 1 else
                         "object of too small depth for desired array")
    if np.issubdtype(x.dtype, np.floating):
        raise TypeError("Cannot cast array data from dtype('float64') to dtype('int64') according to the rule 'safe'")
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    x = np.asarray(x, np.int64)
    if np.min(x, initial=0) < 0:                         # without a branch, which would keep equal tests from being one
        raise ValueError("'list' argument must have no negative elements")
    most = int(np.max(x, initial=-1))
    if most == LARGEST:
        raise MemoryError("Unable to allocate an array of 2**63 elements")
    n = max(most + 1, minlength)
    if weights is None:
        return _counted(x, n)
    weights = np.asarray(weights, np.float64)
    if len(weights) != len(x) and len(x) > 0:
        raise ValueError("The weights and list don't have the same length.")
    return _summed(x, weights, n)


@in_range
def _counted(x: Any, n: int) -> Any:
    out = np.zeros(n, np.int64)
    for i in range(len(x)):
        out[x[i]] += 1
    return out


@in_range
def _summed(x: Any, weights: Any, n: int) -> Any:
    """Sums of ``weights`` by bin, in the dtype of ``weights``; every ``x`` is below ``n``."""
    out = np.zeros(n, weights.dtype)
    for i in range(len(x)):
        out[x[i]] += weights[i]
    return out


# --- histogram ------------------------------------------------------------------------------------

def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Returns (counts or sums of weights, bin edges) for a number of equally wide bins or for given edges."""
    a = np.asarray(a)
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = weights.ravel()
    edges = histogram_bin_edges(a, bins, range)
    a = _floats(a).ravel()
    if np.ndim(bins) == 0:
        which = _even_bins(constant(a), constant(edges))
    else:
        which = _bins(constant(a), constant(edges))
    n = max(len(edges) - 1, 0)
    if weights is None:
        found = _counted(which, n + 1)[:n]
    else:
        found = _summed(which, weights.astype(np.float64), n + 1)[:n].astype(weights.dtype)
    if density:
        found = found / np.diff(edges).astype(np.float64) / np.sum(found)
    return found, edges


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The bin edges that ``histogram`` uses."""
    if isinstance(bins, str):
        refuse(f"`bins={bins!r}`, an estimate of the number of bins", "give their number or their edges")
    if np.ndim(bins) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    if np.ndim(bins) == 1:
        edges = np.asarray(bins)
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges
    if np.issubdtype(np.asarray(bins).dtype, np.floating):
        raise TypeError("`bins` must be an integer, a string, or an array")
    if bins < 1:
        raise ValueError("`bins` must be positive, when an integer")
    a = np.asarray(a)
    dtype = np.result_type(a, *(() if range is None else range))
    dtype = dtype if np.issubdtype(dtype, np.floating) else np.result_type(dtype, float)
    first, last = _outer_edges(_floats(a), range)
    edges = np.linspace(first, last, bins + 1).astype(dtype)
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {bins} finite-sized bins.")
    return edges


def _floats(a: Any) -> Any:
    return a if np.issubdtype(a.dtype, np.floating) else a.astype(np.float64)


def _outer_edges(a: Any, range: Any) -> Any:
    number = a.dtype.type
    if range is not None:
        first, last = range
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
        if not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"supplied range of [{first}, {last}] is not finite")
        first, last = number(first), number(last)
    elif a.size == 0:
        first, last = number(0), number(1)
    else:
        first, last = np.min(a), np.max(a)
        if not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"autodetected range of [{first}, {last}] is not finite")
    if first == last:
        return first - number(0.5), last + number(0.5)
    return first, last


@in_range
def _even_bins(a: Any, edges: Any) -> Any:
    """The bin of each element, ``len(edges) - 1`` if outside; computed by division, then corrected by the edges."""
    n = len(edges) - 1
    first, last = edges[0], edges[n]
    out = np.empty(len(a), np.int64)
    for i in range(len(a)):
        x = a[i]
        k = n
        if first <= x <= last:
            k = min(max(int((x - first) / (last - first) * n), 0), n - 1)
            if x < edges[k] and k > 0:
                k -= 1
            elif x >= edges[k + 1] and k < n - 1:
                k += 1
        out[i] = k
    return out


@in_range
def _bins(a: Any, edges: Any) -> Any:
    """The bin of each element by binary search; the last bin includes its right edge."""
    n = max(len(edges) - 1, 0)
    out = np.empty(len(a), np.int64)
    for i in range(len(a)):
        k = position(edges, a[i], True) - 1
        out[i] = k if 0 <= k < n else n - 1 if n > 0 and a[i] == edges[n] else n
    return out
