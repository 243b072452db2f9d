"""Loops that end by a comparison of their counter, and steps that only grow: against Python and differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def lags(x: Any, most: int) -> Any:
    g = np.zeros(most + 1)
    for i in range(len(x)):
        for k in range(1, most + 1):
            if i + k >= len(x):
                break
            g[k] += (x[i + k] - x[i]) ** 2
    return g


def until_equal(x: Any, most: int) -> Any:
    """The break is at one iteration, or at none; a second one ends the loop too."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(most):
            if j == i - 1:
                break
            if 2 * j > most or j >= len(x):
                break
            out[i] += x[j] * (j + 1.0)
    return out


def whole_loop_left(x: Any, most: int) -> Any:
    """``else`` of a loop tells how it ended, and what it has found is read."""
    total, left = 0.0, 0
    for i in range(len(x)):
        part = 0.0
        for j in range(most):
            if i - j < 0:
                left += 1
                break
            part += x[i - j]
        else:
            total += 10.0
        total += part * part
    return np.array([total, float(left)])


def last_counter(x: Any, most: int) -> Any:
    """The counter is read behind the loop."""
    total, k = 0.0, -1
    for i in range(len(x)):
        for k in range(most):
            if k + i >= len(x):
                break
            total += x[i + k]
        total += 100.0 * k
    return np.array([total])


def ahead(x: Any, most: int) -> Any:
    """A break that the first iteration decides."""
    total = 0.0
    for i in range(len(x)):
        for j in range(most):
            if j + i < 2 or most > 50:
                break
            total += x[i] * j
    return np.array([total])


@pytest.mark.parametrize("f", [lags, until_equal, whole_loop_left, last_counter, ahead])
def test_breaks_by_the_counter(f: Any) -> None:
    compiled, gradient = jit(f), jit(lambda x, most: np.sum(np.sin(f(x, most))), grad=0)
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 5, 20):
        x = rng.normal(size=n)
        for most in (0, 1, 3, 7, 60):
            np.testing.assert_allclose(compiled(x, most), f(x, most), rtol=1e-13, atol=1e-13)
        if n:
            check_grads(lambda y: gradient(y, 3), (x,), order=1, modes=("rev",))


def test_such_a_loop_is_counted() -> None:
    """The derivative keeps neither counters nor numbers of iterations."""
    text = jit(lambda x, most: np.sum(lags(x, most)), grad=0).grad.inspect("optimized", np.ones(9), 3)
    assert "push" not in text


def descend(x: Any, feature: Any, threshold: Any, leaf: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        node = 0
        while node < len(leaf) - 1:
            node = 2 * node + (1 if x[i, feature[node]] < threshold[node] else 2)
        total += leaf[node - (len(leaf) - 1)]
    return total


def literal_descend(x: Any, feature: Any, threshold: Any, leaf: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        node = 0
        while node < 7:
            if x[i, feature[node]] < threshold[node]:
                node = 2 * node + 1
            else:
                node = 2 * node + 2
        total += leaf[node - 7]
    return total


@pytest.mark.parametrize("f", [descend, literal_descend])
def test_steps_down_a_tree(f: Any) -> None:
    rng = np.random.default_rng(4)
    x, feature = rng.normal(size=(20, 3)), rng.integers(-3, 3, size=7)
    threshold, leaf = rng.normal(size=7), rng.normal(size=8)
    assert math.isclose(jit(f)(x, feature, threshold, leaf), f(x, feature, threshold, leaf), rel_tol=1e-14)
    check_grads(jit(lambda leaf: f(x, feature, threshold, leaf), grad=True), (leaf,), order=1, modes=("rev",))
    with pytest.raises(IndexError):
        jit(f)(x, feature[:5], threshold, leaf)


def test_a_node_is_not_negative() -> None:
    """Its index is not compared with zero: one selection is left, that of the feature."""
    rng = np.random.default_rng(4)
    args = rng.normal(size=(20, 3)), rng.integers(0, 3, size=7), rng.normal(size=7), rng.normal(size=8)
    text = jit(literal_descend).inspect("optimized", *args)
    assert "lt %node" in text and "add %node" not in text


def by_twos(x: Any, most: int, first: int) -> float:
    total, i = 0.0, first
    while i < most:
        total += x[i]
        i += 2
    return total


def test_steps_of_two_from_anywhere() -> None:
    """A version for a start that is not negative has decided part of the condition of a check."""
    f, x = jit(by_twos, grad=0), np.arange(1.0, 10.0)
    for first in (-3, -1, 0, 1, 4):
        for most in (0, 5, 9):
            assert f(x, most, first) == by_twos(x, most, first)
    check_grads(lambda y: f(y, 9, -3), (x,), order=1, modes=("rev",))
    for first, most in ((0, 12), (-11, 3)):
        with pytest.raises(IndexError):
            f(x, most, first)


def roots_of_counters(x: Any, n: int, times: int) -> float:
    total = 0.0
    for _ in range(times):
        for i in range(n):
            total += x[i] * math.sqrt(0.1 + 0.1 * i)
    return total


def test_a_table_for_an_array_of_one_element() -> None:
    for size in (1, 4):
        x = np.arange(1.0, size + 1.0)
        assert math.isclose(jit(roots_of_counters)(x, size, 2), roots_of_counters(x, size, 2), rel_tol=1e-14)
    with pytest.raises(IndexError):
        jit(roots_of_counters)(np.ones(1), 2, 2)


def test_whole_powers_of_two_are_exact_under_fast_math() -> None:
    f = jit(lambda k, x: (int(2.0**k), 2.0 ** (k - 3) * x), fastmath=True)
    assert [f(k, 1.0) for k in range(20)] == [(2**k, 2.0 ** (k - 3)) for k in range(20)]
