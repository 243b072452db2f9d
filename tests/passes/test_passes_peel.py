"""Loops that treat their borders apart, with every number of iterations around the number that is peeled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad


def ring(a: Any, b: Any) -> float:
    """Rows and columns that close on themselves, in a time stepper; a remainder that is stored to."""
    n, m = a.shape
    for _ in range(2):
        c = np.zeros((n, m))
        for i in range(n):
            for j in range(m):
                c[i, (j + 1) % m] += a[i, j] * b[j] + 0.1 * a[(i - 1) % n, (j - 1) % m]
                c[i, j] += a[i, j - 2 if j > 1 else 0] * a[i, j]
        a = c
    return np.sum(a * a)


def borders(a: Any, b: Any) -> float:
    """Clamped indices, conditions at both ends, a loop that goes down, a negative index that wraps."""
    n, m = a.shape
    total = 0.0
    for i in range(n):
        for j in range(m - 1, -1, -1):
            left, right = max(j - 1, 0), min(j + 1, m - 1)
            if j == 0 or i == 0:
                total += a[i, j] * b[right]
            elif j < m - 1:
                total += a[i, left] * a[i, right] * b[j]
            else:
                b = b * 1.5
            total -= b[j - 1] * a[i, j]
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [ring, borders], ids=lambda f: f.__name__)
def test_any_number_of_iterations(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    compiled, both = jit(f, grad=(0, 1)), value_and_grad(f, (0, 1))
    for n, m in ((1, 1), (2, 2), (3, 3), (1, 4), (3, 9)):
        a, b = rng.normal(size=(n, m)), rng.normal(size=m)
        got, expected = compiled.value_and_grad(a, b), interpret(both, a, b)
        np.testing.assert_allclose(got[0], f(a, b), rtol=1e-12)
        for x, y in zip(got[1], expected[1], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


def test_an_index_that_is_out_of_bounds_at_the_border_only() -> None:
    @jit
    def f(a: Any, n: int) -> float:
        total = 0.0
        for i in range(n):
            total += a[i + 1 if i < n - 1 else n]
        return total
    assert f(np.arange(5.0), 4) == 1.0 + 2.0 + 3.0 + 4.0
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        f(np.arange(4.0), 4)
