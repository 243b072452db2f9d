"""Binary searches in all phrasings: the same results and the same exceptions as in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def inside(a: Any, x: float, lo: int, hi: int) -> int:
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if a[mid] > x:
            hi = mid
        else:
            lo = mid
    return lo


def half_open(a: Any, x: float, lo: int, hi: int) -> int:
    while lo < hi:
        mid = lo + (hi - lo) // 2
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo


def closed(a: Any, x: float, lo: int, hi: int) -> int:
    while lo <= hi:
        mid = (hi + lo) >> 1
        if a[mid] == x:
            return mid
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid - 1
    return -1 - lo


def beyond(a: Any, x: float, lo: int, hi: int) -> int:
    """Steps that may leave the interval: indices need their checks."""
    while lo <= hi:
        mid = (lo + hi) // 2
        if a[mid + 1] > x:
            hi = mid - 1
        else:
            lo = mid + 2
    return lo


def upwards(a: Any, x: float, lo: int, hi: int) -> int:
    """The upper end moves away from the mean: no bisection."""
    steps = 0
    while lo < hi and steps < 9:
        mid = (lo + hi) // 2
        steps += 1
        if a[mid] > x:
            hi = mid + 3
        else:
            lo = mid + 1
    return lo


@pytest.mark.slow
@pytest.mark.parametrize("f", [inside, half_open, closed, beyond, upwards], ids=lambda f: f.__name__)
def test_searches(f: Callable[..., int]) -> None:
    g = jit(f)
    within = jit(lambda a, x: f(a, x, 0, len(a) - 1))
    whole = jit(lambda a, x: f(a, x, 0, len(a)))
    rng = np.random.default_rng(0)
    for n in range(12):
        a = np.sort(rng.normal(size=n))
        for x in (-9.0, *a, *rng.normal(size=3), 9.0):
            assert _result(within, a, x) == _result(f, a, x, 0, n - 1)
            assert _result(whole, a, x) == _result(f, a, x, 0, n)
            for lo, hi in ((-2, n), (0, n + 3), (2, n - 2), (n, 0), (-n, -1)):
                assert _result(g, a, x, lo, hi) == _result(f, a, x, lo, hi)


def test_extreme_ends() -> None:
    """The sum of the ends may wrap: nothing is known of the mean."""
    g = jit(inside)
    with pytest.raises(IndexError):
        g(np.zeros(4), 1.0, 2**63 - 9, 2**63 - 1)


def _result(f: Callable[..., int], *args: Any) -> int | str:
    try:
        return int(f(*args))
    except IndexError:
        return "IndexError"
