"""Products of a vector with a block of a matrix, which is read where it is, and the memory that this saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.compiler.complexity import kept
from jitad import jit
from jitad.frontend.captured.options import Options
from tests.derivatives.test_ad_settled import cholesky_by_slices

PRODUCTS: list[Callable[..., Any]] = [
    lambda a, x, i, j: a[i:, :j] @ x[:j],
    lambda a, x, i, j: a[i:, :j].T @ x[i:],
    lambda a, x, i, j: x[:a.shape[0] - i] @ a[i:, :j],
    lambda a, x, i, j: x[:j] @ a[i:, :j].T,
    lambda a, x, i, j: a.T[i:, :j] @ x[:j],
    lambda a, x, i, j: a[i:, ::2] @ x[::2],
    lambda a, x, i, j: a[2:5, 1:4] @ x[1:4],
    lambda a, x, i, j: x[2:5] @ a[2:5, 1:4],
    lambda a, x, i, j: a[i:i + 1, :j] @ x[:j],
    lambda a, x, i, j: a[i:, :j] @ a[:j, 1:j],
    lambda a, x, i, j: a[i:, :j][1:] @ x[:j] + a[i:, :j][1:] @ x[1:j + 1]]


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_products(number: int) -> None:
    rng, f = np.random.default_rng(number), PRODUCTS[number]
    for dtype, rtol in ((np.float64, 1e-11), (np.float32, 1e-4)):
        compiled = jit(f)
        for n in (6, 9, 150):
            a, x = rng.normal(size=(n, n)).astype(dtype), rng.normal(size=n).astype(dtype)
            for i, j in ((2, 3), (0, n - 1), (n - 2, 1), (n, 2), (3, 0), (1, n - 2)):
                np.testing.assert_allclose(compiled(a, x, i, j), f(a, x, i, j), rtol=rtol, atol=rtol * n)


def test_a_block_that_is_overwritten_later() -> None:
    def f(a, x):
        b = a.copy()
        y = b[1:, :3] @ x
        b[1:, :3] = 7.0 * b[1:, :3]
        return np.sum(y * (b[1:, :3] @ x))
    a, x = np.random.default_rng(0).normal(size=(5, 4)), np.arange(3.0)
    assert jit(f)(a, x) == pytest.approx(f(a, x), rel=1e-12)


def test_memory_of_a_factorisation_by_slices() -> None:
    """Quadratic: neither blocks that are read nor the temporaries of steps add up to a cube."""
    rng = np.random.default_rng(1)
    args = [(m @ m.T + n * np.eye(n),) for n in (40, 160) for m in [rng.normal(size=(n, n))]]
    few, many = kept(cholesky_by_slices, (0,), Options(), args)
    assert many < 17 * few
