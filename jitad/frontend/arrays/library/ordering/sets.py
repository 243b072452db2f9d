"""``np.unique`` and the set functions built on it.  Values are read from the arguments, so they are differentiated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import axis_of, constant, in_range
from .searching import position
from .sorting import order_along, ordered


def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    """The distinct elements in order, each at its first occurrence; then the requested index, inverse and counts."""
    ar = np.asarray(ar)
    if axis is not None:
        axis = axis_of(axis, ar.ndim)
    if axis is not None and ar.ndim > 1:
        return _unique_along(np.moveaxis(ar, axis, 0), axis_of(axis, ar.ndim), return_index, return_inverse,
                             return_counts)
    flat = ar.ravel()
    order = order_along(flat, 0)
    first = _differs(constant(flat)[order], equal_nan)
    found, *more = _chosen(order, first, return_index, return_inverse, return_counts)
    if return_inverse:
        more[int(return_index)] = more[int(return_index)].reshape(ar.shape)
    return (flat[found], *more) if len(more) > 0 else flat[found]


def _unique_along(a: Any, axis: int, return_index: bool, return_inverse: bool, return_counts: bool) -> Any:
    """``np.unique`` of the parts along the first axis, which was axis ``axis``.

    Parts are ordered lexicographically.  A part with NaN differs from all others.
    """
    rows = a.reshape(len(a), math.prod(a.shape[1:]))
    known = constant(rows.astype(np.int64) if rows.dtype == np.bool_ else rows)
    order = np.arange(len(a))
    for j in range(rows.shape[1] - 1, -1, -1):
        order = order[ordered(known[order, j])]
    differs = np.any(known[order[1:]] != known[order[:-1]], axis=1)
    first = np.concatenate((np.ones(min(len(a), 1), np.bool_), differs))
    found, *more = _chosen(order, first, return_index, return_inverse, return_counts)
    values = np.moveaxis(a[found], 0, axis)
    return (values, *more) if len(more) > 0 else values


def _chosen(order: Any, first: Any, return_index: bool, return_inverse: bool, return_counts: bool) -> Any:
    """The elements of ``order`` whose flag in ``first`` is set; then the requested index, inverse and counts."""
    places = np.flatnonzero(first)
    index = order[places]
    out: tuple[Any, ...] = (index,)
    if return_index:
        out += (index,)
    if return_inverse:
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.cumsum(first) - 1
        out += (inverse,)
    if return_counts:
        out += (np.diff(np.append(places, len(order))),)
    return out


def _differs(a: Any, equal_nan: bool) -> Any:
    """Marks the elements that differ from their predecessor; the first element is always marked."""
    differs = a[1:] != a[:-1]
    if equal_nan and np.issubdtype(a.dtype, np.floating):
        differs = differs & ~(np.isnan(a[1:]) & np.isnan(a[:-1]))
    return np.concatenate((np.ones(min(len(a), 1), np.bool_), differs))


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: str | None = None) -> Any:
    """Marks the elements that occur in ``test_elements``, by binary search: bool, of the shape of ``element``."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    element, tested = _numbers(constant(np.asarray(element))), _numbers(constant(np.asarray(test_elements)).ravel())
    tested = tested[order_along(tested, 0)]
    if element.ndim == 0:
        return _is_among(element, tested) != invert
    return _are_among(element.ravel(), tested, invert).reshape(element.shape)


def _numbers(a: Any) -> Any:
    return a.astype(np.int64) if a.dtype == np.bool_ else a


@in_range
def _is_among(x: Any, tested: Any) -> bool:
    k = position(tested, x, False)
    return bool(tested[k] == x) if k < len(tested) else False


def _are_among(a: Any, tested: Any, invert: bool) -> Any:
    out = np.empty(len(a), np.bool_)
    for i in range(len(a)):
        out[i] = _is_among(a[i], tested) != invert
    return out


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The common elements in order; with ``return_indices``, also their indices in both arrays."""
    ar1, ar2 = np.asarray(ar1).ravel(), np.asarray(ar2).ravel()
    first, second = np.arange(len(ar1)), np.arange(len(ar2))
    if not assume_unique:
        ar1, first = unique(ar1, return_index=True)
        ar2, second = unique(ar2, return_index=True)
    both = np.concatenate((ar1, ar2))
    order = order_along(both, 0)
    inside = constant(both)[order]
    places = np.flatnonzero(inside[1:] == inside[:-1])
    found = both[order[places]]
    if return_indices:
        return found, first[order[places]], second[order[places + 1] - len(ar1)]
    return found


def union1d(ar1: Any, ar2: Any) -> Any:
    return unique(np.concatenate((ar1, ar2), axis=None))


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    ar1 = np.asarray(ar1).ravel() if assume_unique else unique(ar1)
    return ar1[isin(ar1, ar2, invert=True)]
