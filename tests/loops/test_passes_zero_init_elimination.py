"""Gradients that a loop stores into arrays that nobody clears: what it does not reach is zero all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import hvp, interpret, jit


def dot(x: Any, y: Any, n: int) -> Any:
    s = 0.0
    for i in range(n):
        s += x[i] * x[i] * y[i]
    return s


@pytest.mark.parametrize("boundscheck", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_longer_than_the_loop(dtype: Any, boundscheck: bool) -> None:
    """Large results lie in memory that was used before, so what is not cleared shows."""
    f = jit(dot, grad=(0, 1), boundscheck=boundscheck)
    for sizes in ((5, 5, 5), (7, 5, 5), (5, 9, 5), (8, 9, 0), (50_000, 70_000, 40_000), (60_000, 40_000, 40_000)):
        x, y, n = np.full(sizes[0], 3, dtype), np.full(sizes[1], 2, dtype), sizes[2]
        f.grad(np.ones_like(x), np.ones_like(y), min(sizes[:2]))
        gx, gy = f.grad(x, y, n)
        np.testing.assert_array_equal(gx, np.where(np.arange(len(x)) < n, 12, 0))
        np.testing.assert_array_equal(gy, np.where(np.arange(len(y)) < n, 9, 0))


def test_an_array_that_is_too_short_raises_first() -> None:
    with pytest.raises(IndexError):
        jit(dot, grad=(0, 1)).grad(np.ones(5), np.ones(3), 4)


def test_second_derivatives() -> None:
    def second(x: Any, y: Any, n: int) -> Any:
        return hvp(lambda x, y: dot(x, y, n), (x, y), (np.ones_like(x), np.ones_like(y)))

    args = np.arange(1.0, 8.0), np.arange(2.0, 11.0), 4
    for got, want in zip(jit(second)(*args), interpret(second, *args)):
        np.testing.assert_allclose(got, want)


def test_minus_zero_added_to_zero_is_zero() -> None:
    def up(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] += x[i]
        return 1.0 / out

    def down(x: Any) -> Any:
        out = np.zeros(len(x), x.dtype)
        for i in range(len(x)):
            out[len(x) - 1 - i] -= x[i]
        return 1.0 / out
    for dtype in (np.float64, np.float32):
        np.testing.assert_array_equal(jit(up)(np.array([-0.0, 1.0], dtype)), [np.inf, 1.0])
        np.testing.assert_array_equal(jit(down)(np.array([0.0, 1.0], dtype)), [-1.0, np.inf])
