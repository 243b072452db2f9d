"""Costly operations of one side of selections, in loops around others: executed where the side is chosen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def censored(x: Any, y: Any, w: Any, log_s: float) -> float:
    s, loss = math.exp(log_s), 0.0
    for i in range(len(x)):
        mean = 0.0
        for j in range(len(w)):
            mean += x[i, j] * w[j]
        if y[i] > 0.0:
            z = (y[i] - mean) / s
            loss += 0.5 * z * z + log_s
        else:
            loss -= math.log(0.5 * math.erfc(mean / (s * math.sqrt(2.0))))
    return loss


def in_turn(x: Any, y: Any, w: Any, log_s: float) -> float:
    """A side reads what the other condition has chosen, and an array is stored to between the sides."""
    n = len(x)
    kept, total = np.zeros(n), 0.0
    for i in range(n):
        mean = 0.0
        for j in range(len(w)):
            mean += x[i, j] * w[j]
        a = math.exp(mean) if y[i] > 0.0 else math.log(1.0 + mean * mean)
        kept[i] = a + kept[i - 1]
        b = math.tanh(a + kept[i - 1]) if y[i] > 0.0 else math.sin(a) * math.exp(-a)
        total += a * b + kept[i]
    return total


def three(x: Any, y: Any, w: Any, log_s: float) -> float:
    """The last selection chooses between what waits for the one before, and what does not."""
    n = len(x)
    kept, total = np.zeros(n), 0.0
    for i in range(n):
        mean = log_s
        for j in range(len(w)):
            mean += x[i, j] * w[j]
        a = math.exp(mean) if i % 3 == 0 else math.log(1.0 + mean * mean)
        kept[i] += kept[i - 1] * 0.5 + a
        if i % 3 == 0:
            b = mean - 1.5
            kept[0] = b
        else:
            b = math.erfc(a)
        if i % 3 == 0:
            c = b * 0.5 - math.sin(0.5)
            kept[i] += c
        else:
            c = math.tanh(y[i]) * y[i]
            c += math.log(abs(c) + 0.1)
        total += math.erfc(a * c) + kept[i]
    return total


def data(seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    x = rng.normal(0.0, 1.0, (40, 3))
    return x, np.maximum(rng.normal(0.0, 1.0, 40), 0.0), rng.normal(0.0, 0.5, 3), -0.1


@pytest.mark.slow
@pytest.mark.parametrize("program", [censored, in_turn, three])
def test_values_and_gradients(program: Any) -> None:
    args = data()
    for options in ({}, {"fastmath": True}):
        f: Any = jit(program, grad=(2, 3), **options)
        np.testing.assert_allclose(f(*args), program(*args), rtol=1e-12)
        np.testing.assert_allclose(f.value_and_grad(*args)[0], program(*args), rtol=1e-12)
    check_grads(lambda w, log_s: program(args[0], args[1], w, log_s), args[2:], order=1, modes=("rev",))


def test_one_side_is_computed() -> None:
    args = data()
    text = jit(censored, grad=(2, 3), fastmath=True).value_and_grad.inspect("optimized", *args)
    blocks = text.split("\n\n")
    with_tail = [b for b in blocks if " erfc " in b]
    assert len(with_tail) == 1 and "branch" not in with_tail[0] and "select" not in with_tail[0]


@pytest.mark.slow
def test_the_check_of_a_side_raises_there() -> None:
    x, y, w, log_s = data()
    x[7], y[7] = 1e9, 0.0                                    # the tail probability is zero
    w[:] = 1.0
    with pytest.raises(ValueError, match="math domain error|expected a positive"):
        jit(censored, grad=2).value_and_grad(x, y, w, log_s)
    y[7] = 1.0                                               # the other side does not ask
    assert math.isfinite(jit(censored, grad=2).value_and_grad(x, y, w, log_s)[0])
