"""NumPy's sorting functions.

There is one algorithm: a stable merge sort that moves the numbers and their indices together, on a GPU all those of a
level at once.  It sees constants; only
the gather of the elements in sorted order is differentiated.  So a derivative saves the indices and no intermediate
steps.  It goes to the element at each position, and among equal elements to the first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import axis_of, constant, in_range, on_device

SHORT = 7
KINDS = ("quicksort", "mergesort", "heapsort", "stable")


def sort(a: Any, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
         ) -> Any:
    """A sorted copy along an axis (``None``: of all elements), NaN last; every kind is stable."""
    check_kind(kind, order, stable)
    a, axis = along(a, axis)
    return np.take_along_axis(a, order_along(a, axis), axis)


def argsort(a: Any, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
            ) -> Any:
    """The indices that sort, int64; equal elements keep their order, NaN comes last."""
    check_kind(kind, order, stable)
    a, axis = along(np.atleast_1d(a), axis)
    return order_along(a, axis)


def sort_in_place(a: Any, axis: int = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
                  ) -> None:
    a[...] = sort(a, numbered(axis), kind, order, stable=stable)


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Any:
    """A sorted copy, which is partitioned at every position."""
    check_selection(kind)
    a, axis = along(a, axis)
    check_places(kth, a.shape[axis])
    return sort(a, axis, None, order)


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Any:
    check_selection(kind)
    a, axis = along(np.atleast_1d(a), axis)
    check_places(kth, a.shape[axis])
    return argsort(a, axis, None, order)


def partition_in_place(a: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: None = None) -> None:
    a[...] = partition(a, kth, numbered(axis), kind, order)


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by the last key; ties are broken by the key before it, and so on."""
    if len(keys) == 0:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    first = np.asarray(keys[0])
    axis = axis_of(numbered(axis), max(first.ndim, 1))
    if first.ndim == 0:
        return np.int64(0)
    order = order_along(first, axis)
    for k in range(1, len(keys)):
        key = np.asarray(keys[k])
        if key.shape != first.shape:
            raise ValueError("all keys need to be the same shape")
        finer = order_along(np.take_along_axis(key, order, axis), axis)
        order = np.take_along_axis(order, finer, axis)
    return order


# --- arguments ------------------------------------------------------------------------------------

def check_kind(kind: str | None, order: None, stable: bool | None) -> None:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind is not None and stable is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time. Use only one of them.")
    if kind is not None and kind not in KINDS:
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got '{kind}')")


def check_selection(kind: str) -> None:
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got '{kind}')")


def numbered(axis: Any) -> Any:
    """The axis of an in-place sort; None raises ``TypeError``."""
    if axis is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer")
    return axis


def check_places(kth: Any, n: int) -> None:
    if n == 0:
        return
    for k in np.atleast_1d(np.asarray(kth)):
        place = k + n if k < 0 else k
        if place < 0 or place >= n:
            raise ValueError(f"kth(={place}) out of bounds ({n})")


def along(a: Any, axis: int | None) -> tuple[Any, int]:
    """Returns the array and the axis to sort along; if ``axis`` is None, the flattened array and 0."""
    a = np.asarray(a)
    if axis is None:
        return a.ravel(), 0
    return a, axis_of(axis, a.ndim)


# --- the order of the elements --------------------------------------------------------------------

def order_along(a: Any, axis: int) -> Any:
    """``argsort`` along a valid axis."""
    a = constant(a.astype(np.int64) if a.dtype == np.bool_ else a)
    if a.ndim == 1:
        return ordered_at_once(a.reshape(1, a.shape[0])).reshape(a.shape[0]) if on_device() else ordered(a)
    lanes = np.moveaxis(a, axis, -1)
    rows = lanes.reshape(math.prod(lanes.shape[:-1]), lanes.shape[-1])
    order = ordered_at_once(rows) if on_device() else order_of_rows(rows)
    return np.moveaxis(order.reshape(lanes.shape), -1, axis)


def order_of_rows(a: Any) -> Any:
    order = np.empty(a.shape, np.int64)
    for i in range(a.shape[0]):
        order[i] = ordered(a[i])
    return order


@in_range
def ordered(a: Any) -> Any:
    """The indices that sort an array of rank 1: first the numbers, by merging, then NaN in the given order.

    One half of ``keys`` and of ``order`` is the source of a merge level, the other half is its target.  The parts of a
    level differ in length by at most one, which ``merge`` relies on; at the lowest level they have at most ``SHORT``
    elements.
    """
    n = len(a)
    keys, order = np.empty(2 * n, a.dtype), np.empty(2 * n, np.int64)
    count = 0
    for i in range(n):
        keys[count] = a[i]
        order[count] = i
        count += 1 if a[i] == a[i] else 0
    levels = 0
    while count >> levels > SHORT:
        levels += 1
    for k in range(1 << levels):
        place(keys, order, n, count * k >> levels, count * (k + 1) >> levels)
    source = n
    for level in range(levels - 1, -1, -1):
        for k in range(1 << level):
            merge(keys, order, source, n - source, count * (2 * k) >> level + 1, count * (2 * k + 1) >> level + 1,
                  count * (2 * k + 2) >> level + 1)
        source = n - source
    for i in range(count, n):
        order[source + i] = 0                    # a valid index, even if another thread replaces a NaN meanwhile
    for i in range(n if count < n else 0):
        if a[i] != a[i] and count < n:
            order[source + count] = i
            count += 1
    return order[source:source + n]


@in_range
def place(keys: Any, order: Any, target: int, low: int, high: int) -> None:
    """Sorts a short part by counting: the position of an element is the number of elements before it.

    Counting does not branch on the data.  Insertion sort does, and takes more than twice as long.
    """
    for i in range(low, high):
        x, at = keys[i], target + low
        for j in range(low, i):
            at += int(keys[j] <= x)
        for j in range(i + 1, high):
            at += int(keys[j] < x)
        keys[at] = x
        order[at] = order[i]


@in_range
def merge(keys: Any, order: Any, source: int, target: int, low: int, middle: int, high: int) -> None:
    """Merges two neighbouring sorted parts from both ends.

    The two halves of the result are independent, so a processor computes both at once.  Neither part can be exhausted
    before its half of the result is complete, since the parts differ in length by at most one.
    """
    i, j, p, q = source + low, source + middle, source + middle - 1, source + high - 1
    half = (high - low) // 2
    for k in range(half):
        x, y = keys[i], keys[j]
        right = y < x
        keys[target + low + k] = y if right else x
        order[target + low + k] = order[j if right else i]
        i, j = i + (0 if right else 1), j + (1 if right else 0)
        x, y = keys[p], keys[q]
        left = y < x
        keys[target + high - 1 - k] = x if left else y
        order[target + high - 1 - k] = order[p if left else q]
        p, q = p - (1 if left else 0), q - (0 if left else 1)
    if low + half + half < high:
        rest = i if i <= p else j
        keys[target + low + half] = keys[rest]
        order[target + low + half] = order[rest]


# --- all elements at once -------------------------------------------------------------------------

@in_range
def ordered_at_once(a: Any) -> Any:
    """The indices that sort each row: levels of merges, in each of which every place finds its element by itself."""
    rows, n = a.shape
    keys = a.reshape(rows * n)
    order = np.arange(rows * n) % max(n, 1)
    width = 1
    while width < n:
        source = np.empty(rows * n, np.int64)
        for at in range(rows * n):
            source[at] = merged_from(keys, n, width, at)
        keys, order = keys[source], order[source]
        width *= 2
    return order.reshape(rows, n)


@in_range
def merged_from(keys: Any, n: int, width: int, at: int) -> Any:
    """The place from which a merge of neighbouring parts of ``width`` elements takes the element for the place ``at``.

    Of the first k elements of a merge, those from the first part are found by bisection.
    """
    inside = at % n
    k = inside % (2 * width)
    first = at - k
    size = min(width, n - (inside - k))
    second, other = first + size, min(2 * width, n - (inside - k)) - size
    low, high = max(0, k - other), min(k, size)
    while low < high:
        middle = (low + high) // 2
        x, y = keys[first + middle], keys[second + k - 1 - middle]
        if x <= y or y != y:
            low = middle + 1
        else:
            high = middle
    j = k - low
    left = low < size
    if left and j < other:
        x, y = keys[first + low], keys[second + j]
        left = x <= y or y != y
    return first + low if left else second + j
