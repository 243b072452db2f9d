"""Loops whose counter a condition bounds: windows over borders, bands, triangles; values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, interpret, jit

RNG = np.random.default_rng(0)


def window(x: Any, f: Any) -> float:
    h, w, r, total = x.shape[0], x.shape[1], len(f) // 2, 0.0
    for i in range(h):
        for j in range(w):
            s = 0.0
            for p in range(-r, r + 1):
                for q in range(-r, r + 1):
                    ii, jj = i + p, j + q
                    if ii >= 0 and ii < h and jj >= 0 and jj < w:
                        s += f[p + r, q + r] * x[ii, jj]
            total += s * s
    return total


def window_continue(x: Any, f: Any) -> float:
    h, w, r, total = x.shape[0], x.shape[1], len(f) // 2, 0.0
    for i in range(h):
        for j in range(w):
            s = 0.0
            for p in range(len(f)):
                if i + p - r < 0 or i + p - r >= h:
                    continue
                for q in range(f.shape[1]):
                    if j + q - r < 0 or j + q - r >= w:
                        continue
                    s += f[p, q] * x[i + p - r, j + q - r]
            total += s * s
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f", [window, window_continue])
@pytest.mark.parametrize(("rows", "columns", "size"), [(9, 11, 3), (1, 1, 5), (7, 5, 7), (20, 3, 5), (0, 4, 3),
                                                       (6, 6, 1), (12, 13, 9)])
def test_windows_over_borders(f: Callable[..., float], rows: int, columns: int, size: int) -> None:
    x, weights = RNG.normal(size=(rows, columns)), RNG.normal(size=(size, size))
    np.testing.assert_allclose(jit(f)(x, weights), f(x, weights), rtol=1e-12)
    value, grads = jit(f, grad=(0, 1)).value_and_grad(x, weights)
    np.testing.assert_allclose(value, f(x, weights), rtol=1e-12)
    directions = RNG.normal(size=x.shape), RNG.normal(size=weights.shape)
    step = [1e-6 * d for d in directions]
    change = (f(x + step[0], weights + step[1]) - f(x - step[0], weights - step[1])) / 2e-6
    np.testing.assert_allclose(sum(np.sum(g * d) for g, d in zip(grads, directions)), change, rtol=1e-6, atol=1e-8)


def band(a: Any, x: Any, width: int) -> float:
    s = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if abs(i - j) <= width:
                s += a[i, j] * x[i] * x[j]
    return s


def oblique(a: Any, x: Any, width: int) -> float:
    s = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if i - j < width and j - i < 3 and x[j] > 0.0:
                s += a[i, j] * x[j]
    return s


def lags(a: Any, x: Any, width: int) -> float:
    y = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(min(width, 50)):
            if i - k >= 0:
                y[i] += x[i - k] / (k + 1)
    return np.sum(y ** 2)


@pytest.mark.parametrize("f", [band, oblique, lags])
@pytest.mark.parametrize("n", [0, 1, 2, 9, 33])
def test_bands_of_any_width(f: Callable[..., float], n: int) -> None:
    """Widths may be negative, or so large that sums with them would wrap around."""
    a, x = RNG.normal(size=(n, n)), RNG.normal(size=n)
    narrow, gradient = jit(f), jit(f, grad=(0, 1)).value_and_grad
    for width in (-1, 0, 1, 3, 40, 2**62, 2**63 - 1, -2**63):
        np.testing.assert_allclose(narrow(a, x, width), f(a, x, width), rtol=1e-12, atol=1e-13)
        _, found = gradient(a, x, width)
        for one, other in zip(found, interpret(grad(f, (0, 1)), a, x, width), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def first_out_of_bounds(x: Any, n: int, low: int) -> float:
    s = 0.0
    for k in range(n):
        if k >= low:
            s += x[k]
    return s


def test_an_iteration_that_is_left_in_raises() -> None:
    f = jit(first_out_of_bounds)
    x = np.arange(5.0)
    assert f(x, 5, 2) == 9.0 and f(x, 9, 9) == 0.0 and f(x, 0, 0) == 0.0
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        f(x, 7, 3)
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 5"):
        f(x, 8, 6)
