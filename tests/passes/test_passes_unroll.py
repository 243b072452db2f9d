"""Loops that look something up in an array of literals are unrolled: the numbers are constants then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def moments(f: Any, rate: float) -> float:
    """Nine velocities, as of a lattice gas; each cell hands on to its neighbours around the border."""
    ex = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    w = np.array([4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36])
    n = f.shape[1]
    new = np.zeros((9, n))
    for i in range(n):
        rho, u = 0.0, 0.0
        for k in range(9):
            rho += f[k, i]
            u += ex[k] * f[k, i]
        for k in range(9):
            new[k, (i + ex[k]) % n] = f[k, i] + rate * (w[k] * rho * (1.0 + 3.0 * ex[k] * u) - f[k, i])
    return np.sum(new * new * new)


def changed(f: Any, rate: float) -> float:
    """The array is no table: an element is replaced in the loop that reads it."""
    ex = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    total = 0.0
    for i in range(f.shape[1]):
        for k in range(9):
            total += ex[k] * f[k, i]
            ex[(k + 1) % 9] = rate * ex[k]
    return total


def out_of_bounds(f: Any, rate: float) -> float:
    ex = np.array([1, 2, 3])
    total = 0.0
    for k in range(9):
        total += ex[k] * f[k, 0] * rate
    return total


F = np.random.default_rng(4).uniform(0.1, 1.0, (9, 11))


@pytest.mark.slow
@pytest.mark.parametrize("f", [moments, changed], ids=lambda f: f.__name__)
def test_values_and_gradients(f: Any) -> None:
    compiled = jit(f, grad=(0, 1))
    assert compiled(F, 0.3) == pytest.approx(f(F, 0.3), rel=1e-13)
    assert compiled(F, 0.3) == pytest.approx(interpret(f, F, 0.3), rel=1e-13)
    check_grads(f, (F, 0.3), order=1, modes=("rev",))


def test_the_numbers_are_constants() -> None:
    text = str(jit(moments).inspect("optimized", F, 0.3))
    assert "i64[9]" not in text and text.count("= mod") <= 3         # of the cell, and of its neighbours
    assert "f64[9]" in str(jit(changed).inspect("optimized", F, 0.3))


def test_errors_stay() -> None:
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        jit(out_of_bounds)(F, 0.3)
