"""Elements that nothing has overwritten yet are loaded from the array that a loop began with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def triangle(a: Any, x: Any) -> float:
    """Row ``i`` becomes a sum of later rows, which are as they were."""
    b = x.copy()
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            for k in range(i + 1, n):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] = 0.5 * b[i, j]
    return float(np.sum(b * b))


def rows(a: Any, x: Any) -> float:
    """Each row is read as a whole, then replaced."""
    b = x.copy()
    n, m = b.shape
    row = np.zeros(m)
    for i in range(n):
        for j in range(m):
            row[j] = 0.0
            for k in range(m):
                row[j] += b[i, k] * a[k, j]
        for j in range(m):
            b[i, j] = row[j]
    return float(np.sum(b * b))


def upwards(a: Any, x: Any) -> float:
    """From the last row up, each reads the one above."""
    b = x.copy()
    n, m = b.shape
    for i in range(n - 1, 0, -1):
        for j in range(m):
            b[i, j] = b[i - 1, j] * a[i, j] + b[i, j]
    return float(np.sum(b * b))


def one_sweep(a: Any, x: Any) -> float:
    """The neighbours behind are new, those ahead are old."""
    b = x.copy()
    n, m = b.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            b[i, j] = b[i - 1, j] * a[i, j] + b[i, j - 1] - b[i, j + 1] * b[i + 1, j]
    return float(np.sum(b * b))


SAVE_NOTHING: list[Callable[..., float]] = [triangle, rows]


def sweeps(a: Any, x: Any) -> float:
    """The second sweep reads what the first has written."""
    b = x.copy()
    n, m = b.shape
    for _sweep in range(2):
        for i in range(n - 1):
            for j in range(m):
                b[i, j] = b[i + 1, j] * a[i, j] + 0.5 * b[i, j]
    return float(np.sum(b * b))


def behind(a: Any, x: Any) -> float:
    """In row ``i`` the next elements are read after they were replaced."""
    b = x.copy()
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            b[i, j] = 0.3 * b[i, j]
        for j in range(m - 1):
            b[i, j] += b[i, j + 1] * a[i, j]
    return float(np.sum(b * b))


def before(a: Any, x: Any) -> float:
    """The previous element of the row is new, though no other row has been touched."""
    b = x.copy()
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            b[i, j] = b[i, (j - 1) % m] * a[i, j] + 0.5
    return float(np.sum(b * b))


def sometimes(a: Any, x: Any) -> float:
    """A row ahead has been written to, if the data say so."""
    b = x.copy()
    n, m = b.shape
    for i in range(n - 1):
        if x[i, 0] > 0.0:
            b[i + 1, 0] = 2.0 * x[i, 1]
        for j in range(m):
            b[i, j] = b[i + 1, j] * a[i, j]
    return float(np.sum(b * b))


def changed_source(a: Any, x: Any) -> float:
    """The source of the copy is an array that the loop changes, too."""
    y = x * 1.5
    b = y.copy()
    n, m = b.shape
    for i in range(n - 1):
        for j in range(m):
            y[i + 1, j] = a[i, j]
            b[i, j] = b[i + 1, j] * y[i, j]
    return float(np.sum(b * b))


def zeros_ahead(a: Any, x: Any) -> float:
    """The elements ahead are zeros, or those that an earlier row has left."""
    n, m = x.shape
    b = np.zeros((n, m))
    for i in range(n - 1):
        for j in range(m):
            b[i, j] = b[i + 1, j] + x[i, j] * a[i, j]
        b[n - 1, 0] += x[i, 0]
    return float(np.sum(b * b))


ALL = [*SAVE_NOTHING, upwards, one_sweep, sweeps, behind, before, sometimes, changed_source, zeros_ahead]


@pytest.mark.parametrize("f", ALL)
@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_as_python_does(f: Callable[..., float], size: int) -> None:
    rng = np.random.default_rng(size)
    args = rng.normal(size=(size, size)), rng.normal(size=(size, size))
    assert np.isclose(jit(f)(*args), f(*args), rtol=1e-12)
    if size in (2, 7):
        check_grads(jit(f), args, order=1, modes=("rev",))


@pytest.mark.slow
@pytest.mark.parametrize("f", SAVE_NOTHING)
def test_the_reverse_sweep_saves_nothing(f: Callable[..., float]) -> None:
    g = jit(f, grad=(0, 1))
    args = np.ones((4, 4)), np.ones((4, 4))
    g.value_and_grad(*args)
    text = g.value_and_grad.inspect("adjoint", *args)
    assert "push" not in text and "%frames" not in text


def test_integers_too() -> None:
    def table(x: Any) -> int:
        n = len(x)
        best = np.zeros((n, n), dtype=np.int64)
        for i in range(n - 1, -1, -1):
            for j in range(i + 1, n):
                best[i, j] = max(best[i, j], best[i, j - 1])
                best[i, j] = max(best[i, j], best[i + 1, j - 1] + (1 if x[i] + x[j] == 3 else 0))
        return int(best[0, n - 1])
    x = np.random.default_rng(0).integers(0, 4, 30)
    assert jit(table)(x) == table(x)
