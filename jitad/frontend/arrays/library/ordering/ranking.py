"""Selection: the elements of given ranks, without sorting all others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import in_range
from .sorting import ordered

FEW = 500                                     # selection is not faster than sorting up to this number of elements


@in_range
def ranked(a: Any, count: int, first: int, last: int) -> tuple[Any, int]:
    """Returns indices in the order of their elements, and the rank of the first index.

    The indices include all those of rank ``first`` to ``last``.  Equal elements are ordered as in sorting.  ``a`` has
    rank 1 and ``count`` elements that are not NaN.

    A sorted sample gives two bounds for these ranks, with a margin of three standard deviations of a random sample.
    Only the elements between the bounds are sorted (Floyd and Rivest, *Expected time bounds for selection*, 1975).  If
    the ranks are not between the bounds after all, everything is sorted.
    """
    n = len(a)
    if n <= FEW or count <= FEW:
        return ordered(a), 0
    m = int(np.cbrt(n)) ** 2
    sample = np.empty(m, a.dtype)
    for i in range(m):
        sample[i] = a[i * n // m]
    sample = sample[ordered(sample)]
    numbers = int(np.sum(sample == sample))
    margin = 1 + int(1.5 * math.sqrt(m))
    below, above = first * numbers // count - margin, last * numbers // count + 1 + margin
    low = sample[below] if below >= 0 else -math.inf
    high = sample[above] if above < numbers else math.inf
    between = np.empty(n, np.int64)
    found, start = 0, 0
    for i in range(n):
        x = a[i]
        between[found] = i
        found += 1 if low <= x and x <= high else 0
        start += 1 if x < low else 0
    if first < start or last >= start + found:
        return ordered(a), 0
    between = between[:found]
    return between[ordered(a[between])], start
