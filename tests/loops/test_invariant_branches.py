"""Branches that an inner loop takes alike in each iteration, in nests that lanes cannot execute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, jit

pytestmark = pytest.mark.any_level

R = np.random.default_rng(4)
P, Q = R.normal(size=(6, 2)), R.normal(size=(5, 2))


def frechet(p: np.ndarray, q: np.ndarray) -> float:
    """Each row replaces the one before, so rows cannot be lanes."""
    row = np.zeros(len(q))
    for i in range(len(p)):
        diagonal = 0.0
        for j in range(len(q)):
            d = (p[i, 0] - q[j, 0]) ** 2 + (p[i, 1] - q[j, 1]) ** 2
            old = row[j]
            if i == 0 and j == 0:
                row[j] = d
            elif i == 0:
                row[j] = max(row[j - 1], d)
            elif j == 0:
                row[j] = max(old, d)
            else:
                row[j] = max(min(old, diagonal, row[j - 1]), d)
            diagonal = old
    return row[len(q) - 1]


def rows(p: np.ndarray, q: np.ndarray) -> float:
    """Each iteration stores to a row of its own, and may be a lane."""
    out = np.zeros((len(p), len(q)))
    for i in range(len(p)):
        s = 0.0
        for j in range(len(q)):
            s += p[i, 0] * q[j, 1] if i % 2 == 0 else p[i, 1] - q[j, 0]
            out[i, j] = s
    return np.sum(out * out)


def own_array(p: np.ndarray, q: np.ndarray) -> float:
    """Each iteration stores to an array of its own."""
    total = 0.0
    for i in range(len(p)):
        a = np.zeros(len(q))
        for j in range(len(q)):
            a[j] = p[i, 0] * q[j, 0] if i > 2 else p[i, 1] + q[j, 1] * q[j, 1]
        for j in range(len(q)):
            total += a[j] * a[len(q) - 1 - j]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f", [frechet, rows, own_array])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_value_and_gradient_are_those_of_the_program(f: Callable[..., float], n: int) -> None:
    p = np.ascontiguousarray(P[:n])
    assert jit(f)(p, Q) == pytest.approx(f(p, Q), rel=1e-12)
    check_grads(f, (p, Q), order=1)


def test_a_loop_over_one_row_has_a_version_for_each_side() -> None:
    assert "^uniform" in jit(frechet).inspect("optimized", P, Q)
