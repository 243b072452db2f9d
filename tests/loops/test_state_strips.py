"""Functions of the states of a recurrence, which are vectors behind it (``passes/vectorise/state_strips.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad

SIZES = (1, 7, 40, 511, 512, 513, 1100)


def likelihood(x: Any, p: Any) -> float:
    """The state is read before it is updated; a check of each logarithm."""
    v, total = 1.0, 0.0
    for i in range(len(x)):
        total += math.log(v) + x[i] * x[i] / v
        v = p[0] + p[1] * x[i] * x[i] + p[2] * v
    return total


def two_states(x: Any, p: Any) -> float:
    """Two states, of which one is read after its update and is a result; what is left has a recurrence of its own."""
    a, b, low, before, i = 0.1, 0.2, 0.0, 0.3, 0
    while i < len(x):
        a = p[0] * a + x[i]
        b += p[1] * a
        low = 0.5 * low + math.tanh(a) * math.exp(-b * b) + 0.1 * before
        before = a
        i += 1
    return low + b + before


def stored(x: Any, p: Any) -> float:
    """Elements are stored, also where they are read again."""
    out, sums, s = np.zeros(len(x)), np.zeros(3), p[2]
    for i in range(len(x)):
        s = s * p[0] + p[1] * x[i]
        out[i] = math.sin(s)
        sums[i % 3] += math.exp(-s * s)
    return np.sum(out * x) + np.sum(sums ** 2)


def chosen(x: Any, p: Any) -> float:
    """A side of a branch has the check and the function of the state: a partial likelihood, in lanes up to there."""
    risk, total = 0.0, 0.0
    for i in range(len(x)):
        eta = 0.0
        for j in range(len(p)):
            eta += (x[i] - j) * p[j]
        risk += math.exp(eta)
        if x[i] > 0.2:
            total += eta - math.log(risk)
    return total


PROGRAMS = [likelihood, two_states, stored, chosen]
NAMES = [f.__name__ for f in PROGRAMS]


def data(n: int) -> tuple[Any, Any]:
    return np.random.default_rng(n).normal(size=n), np.array([0.5, 0.2, 0.6])


@pytest.mark.long
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", PROGRAMS, ids=NAMES)
def test_values_and_derivatives(f: Callable[..., float], n: int) -> None:
    x, p = data(n)
    assert jit(f)(x, p) == pytest.approx(f(x, p), rel=1e-12)
    value, bars = jit(f, grad=(0, 1)).value_and_grad(x, p)
    assert value == pytest.approx(f(x, p), rel=1e-12)
    if n <= 40:
        for bar, expected in zip(bars, interpret(value_and_grad(f, (0, 1)), x, p)[1]):
            np.testing.assert_allclose(bar, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS, ids=NAMES)
def test_recurrence_runs_ahead(f: Callable[..., float]) -> None:
    assert "^strip" in jit(f).inspect("optimized", *data(40))


def which_failed(x: Any) -> float:
    """The number in the message is that of the first failure."""
    v, total = 1.0, 0.0
    for i in range(len(x)):
        if not v > 0.0:
            raise ValueError(f"not positive in step {i}")
        total += math.log(v)
        v = 0.5 * v + x[i]
    return total


@pytest.mark.parametrize("f", [likelihood, which_failed], ids=["likelihood", "which_failed"])
@pytest.mark.parametrize("first", (3, 511, 512, 900))
def test_failures_are_raised(f: Callable[..., float], first: int) -> None:
    """Later states are computed ahead of a check that fails."""
    x = np.full(1000, 0.5)
    x[first - 1:] = -2.0
    args = (x, np.array([-0.5, 0.0, 0.9])) if f is likelihood else (x,)
    with pytest.raises(ValueError) as expected:
        f(*args)
    with pytest.raises(ValueError) as found:
        jit(f)(*args)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("at", (3, 511, 512, 900))
def test_only_the_side_that_is_taken_raises(at: int) -> None:
    """The risk is zero in all iterations; its logarithm is taken in one."""
    jitted, x, p = jit(chosen), np.full(1000, -1.0), np.array([0.0, 1e6])
    assert jitted(x, p) == 0.0
    x[at] = 0.5
    with pytest.raises(ValueError, match="math domain error"):
        jitted(x, p)
    assert jitted(x, p * 1e-6) == pytest.approx(chosen(x, p * 1e-6), rel=1e-12)


def test_indices_that_are_checked_stay_in_order() -> None:
    """The recurrence reads an element whose index is checked in each iteration."""
    def followed(x: Any, at: Any) -> float:
        s, total = 0.1, 0.0
        for i in range(len(at)):
            s = 0.5 * s + x[at[i]]
            total += math.exp(-s * s)
        return total
    x, at = np.random.default_rng(0).normal(size=9), np.arange(40) % 9
    f = jit(followed)
    assert f(x, at) == pytest.approx(followed(x, at), rel=1e-12)
    at[37] = 1 << 40
    with pytest.raises(IndexError):
        f(x, at)
