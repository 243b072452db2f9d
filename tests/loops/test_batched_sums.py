"""Loops over rows that add up what follows from products are batched (``passes/vectorise/batch.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, jit

pytestmark = pytest.mark.any_level
RNG = np.random.default_rng(4)


def logistic(w: Any, x: Any, y: Any, labels: Any) -> float:
    loss = 0.0
    for i in range(len(x)):
        loss += math.log(1.0 + math.exp(-y[i] * np.dot(x[i], w[0])))
    return loss


def two_sums(w: Any, x: Any, y: Any, labels: Any) -> float:
    """One has two terms in each iteration, and one is subtracted from."""
    total, least = 1.0, 0.0
    for row, wanted in zip(x, y):
        h = np.tanh(w @ row)
        total += np.sum(h)
        least -= math.sqrt(wanted + np.dot(row, row))
        total += wanted * h[0]
    return total * least


def labelled(w: Any, x: Any, y: Any, labels: Any) -> float:
    """The scores at a label of each row, and a check before and behind it."""
    loss = 0.0
    for i in range(len(labels)):
        s = w @ x[i]
        loss += math.log(y[i]) + np.log(np.sum(np.exp(s))) - s[labels[i]] + w[labels[i], 0] * math.sqrt(y[i] - 0.1)
    return loss


PROGRAMS: list[Callable[..., float]] = [logistic, two_sums, labelled]


def given(n: int) -> tuple[Any, Any, Any, Any]:
    return RNG.normal(size=(3, 4)), RNG.normal(size=(n, 4)), RNG.uniform(0.5, 1.0, n), RNG.integers(-3, 3, n)


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_gradients(f: Callable[..., float]) -> None:
    """Less than a chunk, a chunk, and several with a rest."""
    compiled = jit(f)
    for n in (0, 1, 7, 256, 600):
        args = given(n)
        np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)
    assert "matmul" in compiled.inspect("optimized", *args) and "^summed" in compiled.inspect("optimized", *args)
    w, x, y, labels = given(5)
    check_grads(lambda w, x: f(w, x, y, labels), (w, x), order=1)


@pytest.mark.parametrize("f", [two_sums, labelled])
def test_the_first_failing_iteration_raises(f: Callable[..., float]) -> None:
    """What fails is the check that fails first in Python, of the value and of the gradient."""
    compiled, derived = jit(f), grad(f)
    for wrong in range(12):
        w, x, y, labels = given(300)
        for k in RNG.integers(0, 300, 3):
            match (wrong + k) % 3:
                case 0:
                    y[k] = -9.0
                case 1:
                    labels[k] = (3, -4, 2 ** 40)[wrong % 3]
                case 2:
                    y[k] = 0.05
        assert _raised(compiled, w, x, y, labels) == _raised(derived, w, x, y, labels) == _raised(f, w, x, y, labels)


def _raised(f: Callable[..., Any], *args: Any) -> type[Exception] | None:
    try:
        f(*args)
    except (ArithmeticError, LookupError, ValueError) as e:
        return type(e)
    return None


def test_no_label_is_read_of_nothing() -> None:
    """An index into no scores fails in the first row, whatever fails in later ones."""
    w, x, y, labels = given(20)
    y[3] = -1.0

    def f(w: Any, x: Any, y: Any, labels: Any) -> float:
        loss = 0.0
        for i in range(len(labels)):
            s = w @ x[i]
            loss += math.log(y[i]) - s[labels[i]]
        return loss
    for scores in (w, np.zeros((0, 4))):
        assert _raised(jit(f), scores, x, y, labels) is _raised(f, scores, x, y, labels)


def test_the_order_of_a_sum_stays() -> None:
    def f(x: Any, w: Any) -> float:
        total = 0.0
        for row in x:
            total += np.dot(row, w)
        return total
    x = np.array([[1e16], [1.0], [-1e16], [1.0]] * 100)
    assert jit(f)(x, np.ones(1)) == f(x, np.ones(1))
