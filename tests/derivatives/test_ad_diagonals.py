"""Tables that are filled along their diagonals: what is final there is loaded again, everything else is saved."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, value_and_grad

from .test_ad_settled import frames_of_innermost_loops, matrix

pytestmark = pytest.mark.any_level


def intervals(a: Any) -> float:
    """Sums over the places at which an interval is cut."""
    n = len(a)
    best = np.zeros((n, n + 1))
    for i in range(n):
        best[i, i + 1] = math.sin(a[i, i])
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            for k in range(i + 1, i + span):
                best[i, i + span] += a[i, k] * best[i, k] * best[k, i + span]
    return best[0, n]


def intervals_by_slices(a: Any) -> float:
    n = len(a)
    best = np.zeros((n, n + 1))
    for i in range(n):
        best[i, i + 1] = math.sin(a[i, i])
    for span in range(2, n + 1):
        for i in range(n - span + 1):
            j = i + span
            best[i, j] = np.dot(best[i, i + 1:j], best[i + 1:j, j]) * a[i, i] + 0.1
    return best[0, n]


def intervals_twice(a: Any) -> float:
    """All of them again, with what the first time has left: nothing that is read is final."""
    n = len(a)
    best = np.full((n, n + 1), 0.5)
    for _ in range(2):
        for span in range(2, n + 1):
            for i in range(n - span + 1):
                for k in range(i + 1, i + span):
                    best[i, i + span] += a[i, k] * best[i, k] * best[k, i + span]
    return best[0, n]


def longer_first(a: Any) -> float:
    """From the long intervals to the short ones, which are read before they are computed: all are 0.5."""
    n = len(a)
    best = np.full((n, n + 1), 0.5)
    for left in range(n - 1):
        span = n - left
        for i in range(n - span + 1):
            for k in range(i + 1, i + span):
                best[i, i + span] += a[i, k] * best[i, k] * best[k, i + span]
    return np.sum(best)


def anti_diagonals(a: Any) -> float:
    """The sum of the indices grows from iteration to iteration."""
    n = len(a)
    t = np.zeros((n, n))
    t[0, 0] = 1.0
    for s in range(1, n):
        for i in range(s + 1):
            for k in range(1, s + 1):
                if i >= k:
                    t[i, s - i] += 0.3 * t[i - k, s - i] * a[i, k]
                if s - i >= k:
                    t[i, s - i] += 0.2 * t[i, s - i - k] * a[k, i]
    return np.sum(t)


def same_diagonal(a: Any) -> float:
    """What is read lies on the diagonal that is written."""
    n = len(a)
    t = np.ones((n, n))
    for d in range(n):
        for i in range(n - d):
            for k in range(n - d):
                t[i, i + d] += 0.1 * math.sin(t[k, k + d]) * a[i, k]
    return np.sum(t)


def two_below(a: Any) -> float:
    """Rows of the second diagonal below are read while the first one below is still written."""
    n = len(a)
    t = np.ones((n, n))
    for d in range(1, n):
        for i in range(n - d):
            for k in range(2):
                t[i, i + d - k] += 0.1 * t[i, i + d] * a[i, k]
    return np.sum(t)


FINAL = [intervals, intervals_by_slices, anti_diagonals]
ALL = [*FINAL, intervals_twice, longer_first, same_diagonal, two_below]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients(f: Callable[[Any], float]) -> None:
    a = matrix(6)
    value, bar = jit(value_and_grad(f))(a)
    assert value == pytest.approx(f(a), rel=1e-12)
    np.testing.assert_allclose(bar, interpret(grad(f), a), rtol=1e-10, atol=1e-12)
    check_grads(f, (a,), order=1)


@pytest.mark.parametrize("f, kept", [(intervals, 0), (intervals_twice, 2), (longer_first, 0), (same_diagonal, 2)],
                         ids=lambda f: f.__name__ if callable(f) else "")
def test_what_is_kept_of_inner_iterations(f: Callable[[Any], float], kept: int) -> None:
    assert frames_of_innermost_loops(f, matrix(6)) == kept
