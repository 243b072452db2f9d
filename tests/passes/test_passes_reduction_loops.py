"""Sums, and largest and smallest elements, of windows and columns in a loop: the values of NumPy, right derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(4)


def windows(x: Any, y: Any, k: Any) -> Any:
    out = np.zeros(max(len(x) - len(k) + 1, 0))
    for i in range(len(x) - len(k) + 1):
        out[i] = math.exp(-abs(np.sum((x[i:i + len(k)] - y[0, 0]) * k)))
    return out


def several(x: Any, y: Any, k: Any) -> Any:
    """Two sums in an iteration, one of which reads the other."""
    out = np.zeros(max(len(x) - len(k) + 1, 0))
    for i in range(len(x) - len(k) + 1):
        mean = np.sum(x[i:i + len(k)]) / (len(k) + 1)
        out[i] = np.sum((x[i:i + len(k)] - mean) ** 2) + mean
    return out


def blocks(x: Any, y: Any, k: Any) -> float:
    """Windows of two axes; a sum that both loops around them continue."""
    energy = 0.0
    for i in range(y.shape[0] - len(k) + 1):
        for j in range(y.shape[1] - 3 + 1):
            energy += np.sum(y[i:i + len(k), j:j + 3] * x[0]) ** 2
    return energy


def columns(x: Any, y: Any, k: Any) -> Any:
    out = np.zeros(y.shape[1])
    for j in range(y.shape[1]):
        out[j] = np.sum(y[:, j] * y[:, j] * k[0])
    return out


def extremes(x: Any, y: Any, k: Any) -> Any:
    out = np.zeros(y.shape[1])
    for j in range(y.shape[1]):
        out[j] = np.max(y[:, j] + x[0]) - np.min(y[:, j])
    return out


def rows(x: Any, y: Any, k: Any) -> Any:
    """Rows: their elements are neighbours, and they stay as they are."""
    out = np.zeros(len(y))
    for i in range(len(y)):
        out[i] = np.sum(y[i] * y[i, 0])
    return out


def kept(x: Any, y: Any, k: Any) -> Any:
    """Something else reads a window."""
    out = np.zeros((max(len(x) - len(k) + 1, 0), len(k)))
    for i in range(len(x) - len(k) + 1):
        part = x[i:i + len(k)] * 2.0
        out[i] = part + np.sum(part)
    return out


def backwards(x: Any, y: Any, k: Any) -> Any:
    """A series behind a filter: the window backwards; the first iteration is apart."""
    out, before, t = np.zeros(len(x)), 0.0, len(k)
    while t < len(x):
        if t > len(k):
            before = 0.5 * before + out[t - 1]
        out[t] = x[t] - np.sum(k * x[t - len(k):t][::-1]) + before
        t += 1
    return out


def parted(x: Any, y: Any, k: Any) -> Any:
    """A window backwards and a part of it: the array between has two readers, and stays."""
    out, m = np.zeros(max(len(x) - 6, 0)), 5 + min(len(k), 1)     # six elements would be loaded one by one
    for i in range(len(x) - 6):
        w = x[i:i + m][::-1]
        out[i] = np.sum(w[1:4] * w[2:5]) * k[0] + np.sum(w)
    return out


def standard(x: Any, y: Any, k: Any) -> Any:
    """Columns, with another loop behind their sums."""
    out = np.zeros(y.shape)
    for j in range(y.shape[1]):
        mean = np.sum(y[:, j]) / len(y)
        scale = math.sqrt(np.sum((y[:, j] - mean) ** 2) + 1.0)
        for i in range(len(y)):
            out[i, j] = (y[i, j] - mean) / scale
    return out


def standard_sum(x: Any, y: Any, k: Any) -> float:
    """The same, whose elements are added up column after column."""
    total = 0.0
    for j in range(y.shape[1]):
        mean = np.sum(y[:, j]) / len(y)
        scale = x[j] / math.sqrt(np.sum((y[:, j] - mean) ** 2) + 1.0)
        for i in range(len(y)):
            z = (y[i, j] - mean) * scale
            if z > 0.0:
                total += z * z
    return total


BECOME_LOOPS = [windows, several, blocks, columns, extremes, standard, standard_sum]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [*BECOME_LOOPS, backwards, rows, kept, parted])
def test_values(f: Callable[..., Any]) -> None:
    fast = jit(f)
    for n in (1, 7, 16, 20, 37):
        x, y = RNG.normal(size=n), RNG.normal(size=(6, n))
        for k in (RNG.normal(size=w) for w in (0, 1, 3, 6) if w or f is windows):
            np.testing.assert_allclose(fast(x, y, k), f(x, y, k), rtol=1e-12, atol=1e-12)
    text = fast.inspect("optimized", x, y, k)
    assert ("sum {axes" in text or "max {axes" in text) == (f not in BECOME_LOOPS)
    assert f is not backwards or text.count("sum {axes") == 1     # in the first iteration, which has been peeled


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [*BECOME_LOOPS, backwards, parted])
def test_gradients(f: Callable[..., Any]) -> None:
    def squares(x: Any, y: Any) -> Any:
        found = f(x, y, np.array([0.5, 0.7, -0.2]))
        return np.sum(found * found)
    for n in (5, 19):
        check_grads(squares, (RNG.normal(size=n), RNG.normal(size=(6, n))), order=1)


def best(x: Any, y: Any) -> Any:
    """Largest elements of columns, twice: the reverse loop adds to the vector and to the columns."""
    score = x
    for _ in range(2):
        after = np.empty(len(x))
        for j in range(len(x)):
            after[j] = np.max(score + y[:, j]) - 0.3 * np.min(y[1:, j] * score[1:])
        score = after
    return score


@pytest.mark.slow
@pytest.mark.long
def test_updates_of_reverse_loops_are_loops_over_elements() -> None:
    fast = jit(lambda x, y: np.sum(best(x, y) ** 2), grad=(0, 1))
    x, y = RNG.normal(size=20), RNG.normal(size=(20, 20))
    text = fast.value_and_grad.inspect("optimized", x, y)
    assert "bool[16]" in text and "bool[?]" not in text
    for n in (2, 5, 16, 23):
        check_grads(best, (RNG.normal(size=n), RNG.normal(size=(n, n))), order=1)


def test_lanes_collect_sums_behind_sums_of_columns() -> None:
    """Since LLVM makes no vectors of loops over a column."""
    fast = jit(lambda x, y: standard_sum(x, y, None), grad=(0, 1))
    x, y = RNG.normal(size=40), RNG.normal(size=(6, 40))
    value, _ = fast.value_and_grad(x, y)
    assert value == pytest.approx(standard_sum(x, y, None), rel=1e-13)
    assert "terms: f64[?, 16]" in fast.value_and_grad.inspect("optimized", x, y)


def test_equal_elements_share_the_cotangent() -> None:
    """As the derivative of ``np.max`` does where the elements are a row."""
    def columns_first(x: Any, y: Any) -> float:
        total = 0.0
        for j in range(y.shape[1]):
            total += x[j] * np.max(y[:, j])
        return total
    x, y = RNG.normal(size=20), RNG.integers(0, 3, (6, 20)).astype(float)
    y[:, 7] = -0.0
    y[2, 7] = 0.0
    _, (gx, gy) = jit(columns_first, grad=(0, 1)).value_and_grad(x, y)
    here = y == y.max(0)
    np.testing.assert_array_equal(gx, y.max(0))
    np.testing.assert_allclose(gy, x * here / here.sum(0), rtol=1e-15)


def test_what_is_no_number_and_what_is_infinite() -> None:
    fast = jit(extremes)
    x, y, k = np.zeros(40), RNG.normal(size=(6, 40)), np.ones(1)
    y[2, 3], y[1, 20], y[1, 5], y[:, 30] = np.nan, np.inf, -np.inf, -0.0
    np.testing.assert_array_equal(fast(x, y, k), extremes(x, y, k))
    np.testing.assert_array_equal(jit(columns)(x, y, k), columns(x, y, k))
    with pytest.raises(ValueError, match="zero-size"):
        fast(x, y[:0], k)
