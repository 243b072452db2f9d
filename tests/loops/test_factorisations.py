"""Factorisations by columns: ordered sums along rows are lanes, and the matrix is stored by columns for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit, value_and_grad

RNG = np.random.default_rng(5)


def positive_definite(n: int) -> np.ndarray:
    root = RNG.normal(size=(n, n))
    return (root @ root.T + n * np.eye(n)) / (4 * n + 1)


def cholesky(a: Any) -> Any:
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= l[j, k] * l[j, k]
        l[j, j] = math.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / l[j, j]
    return l


def from_below(a: Any) -> Any:
    """The last column first: the pivot's row is the last one of those that the loop stores to, or behind them."""
    n = len(a)
    l = np.zeros((n, n))
    for c in range(n):
        j = n - 1 - c
        for i in range(j):
            s = a[i, j]
            for k in range(j + 1, n):
                s -= 0.1 * l[i, k] * l[j, k]
            l[i, j] = s / (1.0 + s * s)
        l[j, j] = 1.0
    return l


def crout(a: Any) -> Any:
    """Two matrices, of which one is read by rows that lanes share."""
    n = len(a)
    l, u = np.zeros((n, n)), np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            s = 0.0
            for k in range(j):
                s += l[i, k] * u[k, j]
            l[i, j] = a[i, j] - s
        u[j, j] = 1.0
        for i in range(j + 1, n):
            s = 0.0
            for k in range(j):
                s += l[j, k] * u[k, i]
            u[j, i] = (a[j, i] - s) / l[j, j]
    return l + u


def row_above(a: Any) -> Any:
    """The row above has been stored by another lane."""
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        for i in range(1, n):
            s = a[i, j]
            for k in range(j + 1):
                s -= 0.1 * l[i, k] * l[i - 1, k]
            l[i, j] = s
    return l


def pivot_among_them(a: Any) -> Any:
    """The row that all lanes read is one of those to which they store."""
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        for i in range(n):
            s = a[i, j]
            for k in range(j + 1):
                s -= 0.1 * l[i, k] * l[j, k]
            l[i, j] = s
    return l


LANES = (cholesky, from_below, crout)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [*LANES, row_above, pivot_among_them])
def test_values_and_gradients(f: Callable[..., Any]) -> None:
    fast = jit(f)
    assert ("^chunks" in fast.inspect("optimized", positive_definite(3))) == (f in LANES)
    for n in (0, 1, 2, 15, 16, 17, 18, 33, 40):
        a = positive_definite(n)
        np.testing.assert_allclose(fast(a), f(a), rtol=1e-11, atol=1e-11)
    weights = RNG.normal(size=(20, 20))
    check_grads(lambda a: np.sum(weights * f(a)), (positive_definite(20),), order=1)


@pytest.mark.slow
def test_errors() -> None:
    a = positive_definite(40)
    a[25, 25] = -1.0
    with pytest.raises(ValueError, match="math domain error"):
        jit(cholesky)(a)
    with pytest.raises(ValueError, match="math domain error"):
        value_and_grad(lambda a: np.sum(cholesky(a)))(a)
    with pytest.raises(IndexError):
        jit(cholesky)(positive_definite(40)[:, :30])
