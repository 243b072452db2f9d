"""Loops that update elements pair by pair, step by step or after the loop around: values and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(3)


def pairs(x: Any, z: Any) -> Any:
    """Both of a pair receive what is within reach."""
    s = np.full(len(x), 0.5)
    for i in range(len(x)):
        for j in range(i):
            d = (x[i] - x[j]) ** 2
            if d < 1.0:
                s[i] += (1.0 - d) ** 2
                s[j] += (1.0 - d) ** 3
    return s


def pairs_that_meet(x: Any, z: Any) -> Any:
    """The other element may be the same."""
    s = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            s[i] += x[i] * x[j]
            s[j] += s[i] * 0.1
    return s


def paths(x: Any, z: Any) -> Any:
    """A recurrence in a row of each iteration, which is read again."""
    s = np.zeros((len(z), z.shape[1] + 1))
    for i in range(len(z)):
        s[i, 0] = x[0]
        for t in range(z.shape[1]):
            s[i, t + 1] = s[i, t] * (0.5 + 0.1 * z[i, t]) + np.sin(s[i, t]) * x[-1]
    return s


def second_order(x: Any, z: Any) -> Any:
    s = np.ones((len(z), z.shape[1] + 2))
    for i in range(len(z)):
        for t in range(z.shape[1]):
            s[i, t + 2] = 0.3 * s[i, t + 1] - 0.2 * s[i, t] + z[i, t] * s[i, t + 1]
    return s


def nearest(x: Any, z: Any) -> Any:
    best = np.full(len(x), 1e3)
    for k in range(len(z)):
        for i in range(len(x)):
            best[i] = min(best[i], (x[i] - z[k, 0]) ** 2)
    return best


def nearest_by_branch(x: Any, z: Any) -> Any:
    best = np.full(len(x), 1e3)
    for k in range(len(z)):
        for i in range(len(x)):
            d = (x[i] - z[k, 0]) ** 2
            if d < best[i]:
                best[i] = d
    return best


def horner(x: Any, z: Any) -> Any:
    y = np.zeros(len(x))
    for k in range(len(z)):
        for i in range(len(x)):
            y[i] = y[i] * x[i] + z[k, 0]
    return y


def long_steps(x: Any, z: Any) -> Any:
    y = x.copy()
    for k in range(len(z)):
        for i in range(len(x)):
            y[i] = y[i] + 0.1 * y[i] * x[i] * z[k, 0] - 0.1 * y[i]
    return y


def carried(x: Any, z: Any) -> Any:
    """The next iteration reads what this one has made of an element."""
    y, before = x.copy(), 1.0
    for _ in range(len(z)):
        for i in range(len(x)):
            y[i] = 0.5 * y[i] + 0.1 * before
            before = y[i]
    return y


ALL = [carried, pairs, pairs_that_meet, paths, second_order, nearest, nearest_by_branch, horner, long_steps]


@pytest.mark.parametrize("f", ALL)
def test_values(f: Callable[..., Any]) -> None:
    fast = jit(f)
    for n in (1, 7, 37):
        x, z = RNG.normal(size=n), RNG.normal(size=(n, 5))
        np.testing.assert_allclose(fast(x, z), f(x, z), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", ALL)
def test_gradients(f: Callable[..., Any]) -> None:
    def squares(x: Any, z: Any) -> Any:
        found = f(x, z)
        return np.sum(found * found)
    for n in (2, 19):
        check_grads(squares, (RNG.normal(size=n), RNG.normal(size=(n, 4))), order=1)


@pytest.mark.parametrize("f", ALL)
def test_no_iterations(f: Callable[..., Any]) -> None:
    for x, z in ((np.ones(3), np.ones((0, 4))), (np.ones(3), np.ones((3, 0))) if f in (paths, second_order) else
                 (np.ones(0), np.ones((2, 1)))):
        np.testing.assert_array_equal(jit(f)(x, z), f(x, z))
