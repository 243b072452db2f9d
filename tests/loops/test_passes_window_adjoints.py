"""Adjoints of sums over windows: the same gradients whatever the number of windows and of elements in one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import grad, interpret, jit, value_and_grad

RNG = np.random.default_rng(0)


def filtered(x: Any, w: Any) -> float:
    """Backwards, with a state that the loop carries and a function of each sum."""
    total = 0.0
    for i in range(len(w) - 1, len(x)):
        s = 0.0
        for k in range(len(w)):
            s += w[k] * x[i - k]
        total += math.tanh(s) * i
    return total


def convolved(x: Any, w: Any) -> float:
    """A nest, with squares, whose windows are rows of a matrix too."""
    total = 0.0
    for i in range(len(x) - len(w) + 1):
        s = 0.5
        for r in range(2):
            for k in range(len(w)):
                s += w[k] * x[i + k] * x[i + k] * (r + 1)
        total += s * s
    return total


def numbered(x: Any, w: Any) -> float:
    """The number of the next element of the window is read."""
    total = 0.0
    for i in range(len(w) - 1, len(x)):
        s = 0.0
        for k in range(len(w)):
            s += x[i - k] / (k + 1)
        total += s * s
    return total


def correlated(x: Any, w: Any) -> float:
    """Long rows and few windows."""
    total = 0.0
    for lag in range(len(w)):
        s = 0.0
        for i in range(len(x) - len(w)):
            s += x[i] * x[i + lag]
        total += w[lag] * s
    return total


def raised(x: Any, w: Any) -> float:
    """Elements that are read and replaced: the loop over windows clears cotangents of its own."""
    y = x.copy()
    for i in range(len(x) - len(w) + 1):
        s = 0.0
        for k in range(len(w)):
            s += w[k] * x[i + k]
        if s > y[i]:
            y[i] = s
    return np.sum(y * y)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fastmath", [False, True])
@pytest.mark.parametrize("f", [filtered, convolved, numbered, correlated, raised], ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float], fastmath: bool) -> None:
    x, w = RNG.normal(size=40), RNG.normal(size=3)
    with mock.patch.dict(os.environ, JITAD_WITHOUT="window_adjoints,outer_loop"):
        plain = jit(f, grad=(0, 1))
        plain.value_and_grad(x, w)
    g = jit(f, grad=(0, 1), fastmath=fastmath)
    for n in (1, 5, 17, 40, 255, 258, 300, 600, 1100):
        for m in (m for m in (1, 2, 3, 17, 50) if m <= n):
            x, w = RNG.normal(size=n), RNG.normal(size=m) / m
            value, grads = g.value_and_grad(x, w)
            expected, wanted = plain.value_and_grad(x, w)
            np.testing.assert_allclose(value, expected, rtol=1e-9)
            for a, b in zip(grads, wanted):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b), initial=1e-30))


@pytest.mark.parametrize("f", [filtered, convolved, numbered])
def test_the_windows_go_inside(f: Callable[..., float]) -> None:
    """In a strip, the chain of loops over a window is around the loop over the windows."""
    text = jit(value_and_grad(f, (0, 1))).inspect("optimized", RNG.normal(size=40), RNG.normal(size=3))
    assert "windows = True" in text


def twice(image: Any, kernel: Any, other: Any) -> float:
    rows, columns = image.shape
    m, n = kernel.shape
    energy = 0.0
    for i in range(rows - m + 1):
        for j in range(columns - n + 1):
            s = 0.0
            for k in range(m):
                for c in range(n):
                    s += kernel[k, c] * image[i + k, j + c]
            for k in range(m):
                for c in range(n):
                    s += s * other[k, c] * image[i + k, j + c]
            energy += s * s
    return energy


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "size"), [(8, 8, 5), (40, 50, 3), (3, 3, 3), (6, 300, 5), (2, 2, 3)])
def test_two_windows_one_after_the_other(rows: int, columns: int, size: int) -> None:
    """The second nest of additions to the image stays in the loop."""
    rng = np.random.default_rng(4)
    args = rng.normal(size=(rows, columns)), rng.normal(size=(size, size)), 0.1 * rng.normal(size=(size, size))
    for got, wanted in zip(jit(grad(twice, (0, 1, 2)))(*args), interpret(grad(twice, (0, 1, 2)), *args), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
