"""Products with a matrix, or with its transpose, in each iteration of a loop, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, jit

RNG = np.random.default_rng(0)


def walk(w: Any, x: Any, steps: int) -> Any:
    h = x
    for _ in range(steps):
        h = np.tanh(h @ w + x)
    return (h * h).sum()


def copies(f: Any, *args: Any) -> int:
    return sum(" copy " in line for line in f.inspect("optimized", *args).splitlines())


@pytest.mark.slow
def test_the_reverse_sweep_multiplies_by_the_transpose() -> None:
    """``h_bar = g @ w.T`` in each iteration of the reverse sweep; to second order, for several shapes."""
    for rows, n, steps in ((3, 2, 4), (1, 5, 1), (2, 1, 3)):
        args = RNG.normal(size=(n, n)), RNG.normal(size=(rows, n)), steps
        check_grads(lambda w, x, steps=steps: walk(w, x, steps), args[:2], order=2 if n == 2 else 1)
    assert np.all(grad(walk, (0, 1))(*args[:2], 0)[0] == 0)


def test_matrices_that_change_and_products_behind_a_condition() -> None:
    @jit
    def changing(w: Any, x: Any) -> Any:
        for i in range(len(x)):
            x = x @ w.T
            w = w + x[i, 0]
        return x

    @jit
    def chosen(w: Any, x: Any) -> Any:
        for i in range(len(x)):
            if x[i, 0] > 0:
                x = x @ w.T
        return x
    args = RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3))
    for f, starts in ((changing, 1), (chosen, 0)):           # ``w`` is copied ahead of the loop, to be updated in place
        np.testing.assert_allclose(f(*args), f.py_func(*args), rtol=1e-12)
        assert copies(f, *args) == starts
