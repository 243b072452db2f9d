"""Fast math on NaN and infinity: any number may come out, but branches, indices and checks stay what they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jitad import jit


def fenced(x: np.ndarray, w: np.ndarray) -> float:
    """A branch and an index behind a division by ``len(x) - 1``, which is 0 for the size 1 that is compiled in."""
    share = w[0] / (len(x) - 1)
    if share > 3.0:
        return w[1]
    return w[2]


def truncated(x: np.ndarray, w: np.ndarray) -> float:
    return w[int(w[0] / (len(x) - 1))]


def rooted(x: np.ndarray, places: np.ndarray) -> float:
    total = 0.0
    for p in places:
        var = x[0, p] ** 2 / (len(x) - 1)
        total += x[0, p] / (1.0 + math.sqrt(1.0 / (var + 1.0)))
    return total


def test_a_branch_on_what_is_not_finite() -> None:
    for first in (1.0, -math.inf, math.nan):
        with pytest.raises(IndexError):
            jit(fenced, fastmath=True)(np.ones(1), np.array([first]))
        assert jit(fenced, fastmath=True)(np.ones(1), np.array([first, 5.0, 5.0])) == 5.0


def test_an_index_that_is_not_finite() -> None:
    with pytest.raises(OverflowError):
        jit(truncated, fastmath=True)(np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="NaN"):
        jit(truncated, fastmath=True)(np.ones(1), np.full(1, math.nan))


def test_checks_of_indices_beside_what_is_not_finite() -> None:
    x = np.ones((1, 9))
    jit(rooted, fastmath=True)(x, np.arange(0, 9, 4))
    with pytest.raises(IndexError, match="index 9 "):
        jit(rooted, fastmath=True)(x, np.array([0, 9]))


def test_no_float_op_makes_poison() -> None:
    def spread(x: np.ndarray) -> float:
        low, high, total = math.inf, -math.inf, 0.0
        for v in x:
            low, high, total = min(low, v), max(high, v), total + abs(v) / 3.0
        return (high - low) * total
    text = jit(spread, fastmath=True).inspect("llvm", np.ones(9))
    assert "reassoc" in text and "nnan" not in text and "ninf" not in text and " fast " not in text
