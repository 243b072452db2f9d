"""Elements that an iteration stores and the next one reads, in loops with branches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, jit

pytestmark = pytest.mark.any_level

R = np.random.default_rng(6)
A, B = R.integers(0, 3, 9), R.integers(0, 3, 7)
W = R.uniform(0.2, 1.5, 8)


def table(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
    """Each element follows from the one before it in its row, on two of three sides."""
    d = np.zeros((len(a) + 1, len(b) + 1))
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                d[i + 1, j + 1] = d[i, j] + w[a[i]]
            elif w[j % len(w)] < 0.5:
                d[i + 1, j + 1] = d[i + 1, j] * w[0]
            else:
                d[i + 1, j + 1] = max(d[i, j + 1], d[i + 1, j]) + 0.1 * w[b[j]]
    return d[len(a), len(b)]


def two_before(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
    y = np.full(len(b) + 2, 0.5)
    for j in range(len(b)):
        v = w[j % len(w)] * y[j]
        if b[j] > 0:
            v += y[j + 1] * y[j]
        y[j + 2] = v
    return np.sum(y)


def sometimes(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
    """An iteration may leave the element as it is."""
    y = np.full(len(b) + 1, 0.5)
    for j in range(len(b)):
        if b[j] > 0:
            y[j + 1] = w[b[j]] * y[j]
        else:
            y[0] = y[j] + 0.25
    return np.sum(y * y)


def first_unread(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> float:
    """The first iteration would read the element before the first."""
    y = np.zeros(len(b))
    for j in range(len(b)):
        if j > 0 and b[j] < 2:
            s = w[b[j]] * y[j - 1]
        else:
            s = w[j % len(w)]
        y[j] = s
    return np.sum(y * y)


@pytest.mark.parametrize("f", [table, two_before, sometimes, first_unread])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_the_value_and_gradient_are_those_of_the_program(f: Callable[..., float], n: int) -> None:
    b = B[:n].copy()
    assert jit(f)(A, b, W) == pytest.approx(f(A, b, W), rel=1e-13)
    check_grads(lambda w: f(A, b, w), (W,), order=1)


def test_an_index_is_out_of_bounds_where_it_is_in_the_program() -> None:
    def f(y0: np.ndarray, at: np.ndarray, start: int) -> float:
        y = y0.copy()
        for j in range(len(at)):
            v = float(at[j])
            if at[j] > 0:
                v += y[start + j - 1]
            y[start + j] = v
        return np.sum(y)

    g = jit(f)
    zeros = np.zeros(3)
    assert g(zeros, np.array([0, 1, 2]), 0) == f(zeros, np.array([0, 1, 2]), 0)
    assert g(zeros, np.array([1, 1, 2]), -2) == f(zeros, np.array([1, 1, 2]), -2)
    for at, start in (([1, 2], -3), ([0, 1, 1, 1], 0), ([1], 5)):
        with pytest.raises(IndexError) as ours:
            g(zeros, np.array(at), start)
        with pytest.raises(IndexError) as theirs:
            f(zeros, np.array(at), start)
        assert str(ours.value) == str(theirs.value)
