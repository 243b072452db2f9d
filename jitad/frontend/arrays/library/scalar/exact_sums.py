"""``math.fsum`` and ``math.sumprod``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import constant

PARTIALS = 1100


def fsum(items: Any) -> Any:
    """Shewchuk's algorithm, as in CPython: the sum is exact and rounded once, at the end."""
    partials, so_far = no_partials()
    for item in items:
        so_far = added_exactly(partials, so_far, float(item))
    return added_up(partials, so_far)


def counted(n: int, count: int) -> int:
    """The number of items that ``np.fromiter`` takes of ``n``."""
    if count > n:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {n} items.")
    return n if count == -1 else count


def no_partials() -> Any:
    """Returns an empty array of partial sums and the state of the accumulation.

    ``partials`` are ordered by magnitude; their sum is exact and no two have bits in common.  So there cannot be more
    of them than exponents of floats.  The state is: the number of partials, the sum of NaN and infinities, the sum of
    infinities, and 0.0, which carries the derivative of the sum.
    """
    return np.empty(PARTIALS), (0, 0.0, 0.0, 0.0)


def added_exactly(partials: Any, so_far: Any, given: float) -> Any:
    n, special, infinite, slope = so_far
    x = whole = constant(given)
    slope += given - x if math.isfinite(x) else 0.0
    kept = 0
    for j in range(n):
        y = partials[j]
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0:
            partials[kept] = low
            kept += 1
        x = high
    if x != 0 and math.isfinite(x):
        partials[kept] = x
        kept += 1
    elif x != 0:
        if math.isfinite(whole):
            raise OverflowError("intermediate overflow in fsum")
        infinite += whole if math.isinf(whole) else 0.0
        special += whole
        kept = 0
    return kept, special, infinite, slope


def added_up(partials: Any, so_far: Any) -> Any:
    n, special, infinite, slope = so_far
    if special != 0:
        if math.isnan(infinite):
            raise ValueError("-inf + inf in fsum")
        return special + slope
    return rounded_sum(partials, n) + slope


def rounded_sum(partials: Any, n: int) -> Any:
    """The rounded sum of ``n`` partials; half-way between two floats the next partial decides the rounding."""
    if n == 0:
        return 0.0
    n -= 1
    total, low = partials[n] + 0.0, 0.0
    while n > 0 and low == 0:
        n -= 1
        x, y = total, partials[n]
        total = x + y
        low = y - (total - x)
    if n > 0 and (low < 0 and partials[n - 1] < 0 or low > 0 and partials[n - 1] > 0):
        twice = low * 2.0
        further = total + twice
        if twice == further - total:
            total = further
    return total


def sumprod(p: Any, q: Any) -> Any:
    return sum(x * y for x, y in zip(p, q, strict=True))
