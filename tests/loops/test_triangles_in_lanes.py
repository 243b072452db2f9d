"""Lanes read rows above their own: an inner loop counts to the row, and the lanes store to the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def upper(x: Any) -> Any:
    """Rows above, and columns before those that are stored."""
    a, n = x.copy(), len(x)
    for i in range(n):
        for j in range(i, n):
            w = a[i, j]
            for k in range(i):
                w -= a[i, k] * a[k, j]
            a[i, j] = w
    return a


def below(x: Any) -> Any:
    """Rows below."""
    a, n = x.copy(), len(x)
    for i in range(n - 1, -1, -1):
        for j in range(n):
            w = a[i, j]
            for k in range(i + 1, n):
                w -= 0.1 * a[k, j] * x[i, k]
            a[i, j] = w
    return a


def diagonal_too(x: Any) -> Any:
    """The first column that is stored is read as well."""
    a, n = x.copy(), len(x)
    for i in range(n):
        for j in range(i, n):
            w = a[i, j]
            for k in range(i + 1):
                w -= 0.01 * a[i, k] * x[k, j]
            a[i, j] = w
    return a


def across(x: Any) -> Any:
    """A lane reads what the lane before it has stored."""
    a, n = x.copy(), len(x)
    for i in range(n):
        for j in range(n):
            w = a[i, j]
            for k in range(j):
                w -= 0.01 * a[i, k] * x[k, j]
            a[i, j] = w
    return a


def row_itself(x: Any) -> Any:
    """The last row that is read is the lanes' own, of which another lane has stored the element."""
    a, n = x.copy(), len(x)
    for i in range(n):
        for j in range(n - 1):
            w = a[i, j]
            for k in range(i + 1):
                w -= 0.01 * a[k, j + 1] * x[i, k]
            a[i, j + 1] = w
    return a


@pytest.mark.parametrize("f", [upper, below, diagonal_too, across, row_itself])
@pytest.mark.parametrize("n", [1, 5, 16, 40])
def test_as_python_does(f: Callable[[Any], Any], n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, n)) / n + np.eye(n)
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f, lanes", [(upper, True), (below, True), (row_itself, False)])
def test_lanes(f: Callable[[Any], Any], lanes: bool) -> None:
    assert ("^chunks" in jit(f).inspect("optimized", np.eye(4))) is lanes


@pytest.mark.slow
@pytest.mark.parametrize("f", [upper, below, diagonal_too])
def test_gradients(f: Callable[[Any], Any]) -> None:
    def squares(x: Any) -> Any:
        a = f(x)
        return np.sum(a * a)
    check_grads(jit(squares), (np.random.default_rng(0).normal(size=(20, 20)) / 20 + np.eye(20),), order=1,
                modes=("rev",))
