"""Loops that act in one residue class of their counter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

pytestmark = pytest.mark.any_level

R = np.random.default_rng(3)
X = R.uniform(0.5, 1.5, (7, 9))


def chequerboard(x: np.ndarray, colour: int) -> float:
    """Red-black relaxation: the colour is a number from outside."""
    u = x.copy()
    for half in range(3):
        for i in range(1, len(u) - 1):
            for j in range(1, u.shape[1] - 1):
                if (i + j + half) % 2 == colour:
                    u[i, j] += 0.3 * (u[i - 1, j] * u[i + 1, j] - u[i, j - 1] * u[i, j + 1])
    return np.sum(u * u)


def skipped(x: np.ndarray, at: int) -> float:
    """What is left over is skipped, counted down, with another test on the side that acts."""
    total = 1.0
    for i in range(len(x)):
        for j in range(x.shape[1] - 1, -1, -1):
            if (j - i * at) % 4 != 1:
                continue
            if x[i, j] > 0.8:
                total = math.sqrt(total + x[i, j])
    return total


def every_third(x: np.ndarray, at: int) -> float:
    """The guarded side has a loop, and a check: index ``at`` may not exist."""
    total = 0.0
    for i in range(len(x)):
        if i % 3 == 2:
            for j in range(x.shape[1]):
                total += x[i, j] * x[i - 1, at]
    return total


def odd_or_last(x: np.ndarray, at: int) -> tuple[float, int]:
    """The number of the last iteration is read behind the loop, which acts or not."""
    total, j = 0.0, 0
    for j in range(x.shape[1]):
        if j % 2:
            total += x[at, j]
    return total, j


def two_classes(x: np.ndarray, at: int) -> float:
    total = 0.0
    for j in range(x.shape[1]):
        if j % 2 == 0:
            total += x[at, j]
        if j % 2 == 1:
            total = total * x[at, j]
    return total


ALL = [(chequerboard, (-1, 0, 1, 2)), (skipped, (-3, 0, 1, 2)), (every_third, (-1, 0, 3)), (two_classes, (0, 1))]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f, numbers", ALL, ids=[f.__name__ for f, _ in ALL])
def test_values_and_gradients(f: Callable[..., Any], numbers: tuple[int, ...]) -> None:
    for at in numbers:
        for x in (X, X[:3], X[:, :4], X[:2, :3]):
            if at < x.shape[1]:
                np.testing.assert_allclose(jit(f)(x, at), f(x, at), rtol=1e-13)
        check_grads(f, (X, at), order=2)


def test_short_and_empty_loops() -> None:
    jitted = jit(odd_or_last)
    for n in range(5):
        assert jitted(X[:, :n], 2) == pytest.approx(odd_or_last(X[:, :n], 2))


def test_only_the_class_raises() -> None:
    jitted = jit(every_third)
    assert jitted(X[:2], 9) == 0.0
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1 with size 9"):
        jitted(X[:3], 9)


def test_the_loop_steps() -> None:
    """No remainder is left in the loop, and no branch."""
    text = jit(chequerboard).inspect("adjoint", X, 1)
    ahead = text[:text.index(" = add_at ")]
    assert " = mod " not in ahead[ahead.rindex("\n^loop"):]
    assert " = mod " in jit(two_classes).inspect("adjoint", X, 1)


def rows(x: np.ndarray, first: int) -> float:
    """The adjoint adds one number along each column, or row by row."""
    s = np.zeros(16)
    for i in range(first, len(x)):
        s += x[i] * 3.0
    return np.sum(s)


@pytest.mark.slow
def test_numbers_added_along_columns() -> None:
    for n in (0, 1, 5, 40):
        x = R.normal(size=(n, 16))
        for first in (0, 1):
            value, gradient = jit(rows, grad=0).value_and_grad(x, first)
            assert value == pytest.approx(rows(x, first))
            np.testing.assert_array_equal(gradient, np.where(np.arange(n)[:, None] >= first, 3.0, 0.0) + 0 * x)
