"""Elements that do not change are loaded ahead of loops in which checks and branches precede the load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit, value_and_grad
from tests.alike import assert_raises_alike

X = np.random.default_rng(1).uniform(-1.0, 1.0, 12)


def echoes(x: Any, p: Any) -> float:
    """Powers of elements, on one side of branches one after another."""
    total = 0.0
    for i in range(len(x)):
        for j in range(2):
            at = int(x[i] * 3.0)
            if at < 1 + j:
                total += p[0] ** abs(i - j) * p[1] ** j * p[-1] ** i
            if at < 2 + j:
                total += p[0] ** abs(i - j) * x[0]
            if at < 3 + j:
                total -= p[0] ** abs(i - j) * x[i]
            if at < 4 + j:
                total += p[0] ** abs(i - j) / (2.0 + x[i])
    return total


def in_time(x: Any, p: Any, n: int) -> float:
    total = 0.0
    for i in range(len(x)):
        for j in range(n):
            for k in range(2):
                if x[j] * k + x[i] < 0.5:
                    total += p[0] ** i * p[1] ** j + p[2] ** abs(j - k)
    return total


def rarely(x: Any, p: Any) -> float:
    """The element is read only where a value is large."""
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.9:
            total += p[5] * x[i]
        elif x[i] > 0.5:
            total += math.exp(p[1]) + p[0]
    return total


def of_a_matrix(x: Any, m: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            total += m[1, 2] * x[i] - m[-1, 0]
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("f", "p"), [(echoes, np.array([0.8, 0.7, 0.9])), (rarely, np.linspace(0.2, 1.0, 6)),
                                      (of_a_matrix, np.linspace(0.2, 1.0, 12).reshape(3, 4))])
def test_values_and_gradients(f: Any, p: Any) -> None:
    g = jit(f, grad=(0, 1)).value_and_grad
    for n in (0, 1, 2, 12):
        value, bars = g(X[:n], p)
        assert value == pytest.approx(f(X[:n], p), rel=1e-13)
        assert jit(f)(X[:n], p) == pytest.approx(f(X[:n], p), rel=1e-13)
        wanted = interpret(value_and_grad(f, (0, 1)), X[:n], p)[1]
        for found, expected in zip(bars, wanted):
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)
    check_grads(lambda p: f(X, p), (p,), order=2)


@pytest.mark.slow
def test_elements_that_are_not_there() -> None:
    """They raise where the program reads them, in its order, and are not missed where it does not."""
    low, high = np.full(3, 0.1), np.array([0.1, 0.6, 0.95])
    for n in (0, 1, 2, 5):
        p = np.linspace(0.2, 1.0, n)
        assert jit(rarely)(low, p) == 0.0
        value, (x_bar, p_bar) = jit(rarely, grad=(0, 1)).value_and_grad(low, p)
        assert value == 0.0 and not x_bar.any() and not p_bar.any() and p_bar.shape == (n,)
        assert_raises_alike(rarely, high, p)
    assert jit(rarely)(high[:2], np.array([0.3, 0.5])) == rarely(high[:2], np.array([0.3, 0.5]))
    assert_raises_alike(of_a_matrix, high, np.ones((2, 2)))
    assert_raises_alike(of_a_matrix, high, np.ones((0, 3)))
    assert jit(of_a_matrix)(-high, np.ones((0, 3))) == 0.0


def test_elements_and_powers_leave_the_loop() -> None:
    text = str(jit(in_time).inspect("optimized", X, np.ones(3), 2))
    assert "get %1," not in text[text.index("^loop("):]
    before, nest = text.split("^loop.1(", 1)
    assert "= pow " in before and "= pow " in nest.split("^preheader.2", 1)[1].split("branch", 1)[0]
