"""The elements of given ranks, without putting all others in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import in_range
from .sorting import ordered

FEW = 500                                     # up to so many elements it is no faster than to sort them


@in_range
def ranked(a: Any, count: int, first: int, last: int) -> tuple[Any, int]:
    """Some indices in the order of their elements, and the rank of the first of them: those of the ranks from ``first``
    to ``last`` are there.  Equals are in order as in sorting.  Of ``a`` (rank 1) ``count`` elements are not NaN.

    A sample in order tells two elements between which these ranks lie, with a margin of three standard deviations of
    a random sample; what lies between them is put in order (Floyd and Rivest, *Expected time bounds for selection*,
    1975).  Where they lie outside after all, everything is.
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
