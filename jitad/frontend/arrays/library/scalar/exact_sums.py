"""``math.fsum`` and ``math.sumprod``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import constant

PARTIALS = 1100


def fsum(items: Any) -> Any:
    """Shewchuk's sum, as CPython writes it: exact, and rounded once, at the end."""
    partials, so_far = no_partials()
    for item in items:
        so_far = added_exactly(partials, so_far, float(item))
    return added_up(partials, so_far)


def counted(n: int, count: int) -> int:
    """How many of ``n`` items ``np.fromiter`` takes."""
    if count > n:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {n} items.")
    return n if count == -1 else count


def no_partials() -> Any:
    """``partials`` hold by size what has been added, exactly and without common bits; with more of them than there are
    exponents of floats two would be adjacent.  Beside them: how many, the sum of NaN and infinities, of infinities,
    and 0.0, whose derivative is the sum's.
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
    """What ``n`` partials add up to; half-way between two floats the next partial decides."""
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
