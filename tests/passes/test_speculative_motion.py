"""Functions that only a branch in a loop needs are computed ahead of it, after differentiation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def branches(x: Any, a: float, b: float) -> float:
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            if a > 0.0 and x[j] < x[i]:
                total += math.log(a) * x[j]
            elif x[j] > 0.5:
                total += math.exp(-b * x[i])
    return total


@pytest.mark.parametrize("a", [0.0, 0.7])
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_results(a: float, n: int) -> None:
    x = np.random.default_rng(n).uniform(0.0, 1.0, n)
    value, (a_bar, b_bar) = jit(branches, grad=(1, 2)).value_and_grad(x, a, 1.3)
    assert math.isclose(value, branches(x, a, 1.3), rel_tol=1e-13, abs_tol=1e-15)
    step = 1e-6
    expected = 0.0 if a == 0.0 else (branches(x, a + step, 1.3) - branches(x, a - step, 1.3)) / (2 * step)
    assert math.isclose(a_bar, expected, rel_tol=1e-6, abs_tol=1e-9)         # log' (0) is infinite, and not used
    expected = (branches(x, a, 1.3 + step) - branches(x, a, 1.3 - step)) / (2 * step)
    assert math.isclose(b_bar, expected, rel_tol=1e-6, abs_tol=1e-9)


def test_an_exponential_moves_ahead() -> None:
    text = str(jit(branches).inspect("optimized", np.ones(5), 0.7, 1.3))
    assert text.index("= log ") < text.index("^loop(")


def guarded(x: Any, p: float, q: float) -> float:
    """A power and its exponent's logarithm, which only some iterations need."""
    total = 0.0
    for i in range(len(x)):
        if x[i] > 2.0:
            total += p ** q * x[i]
        if x[i] > 3.0:
            total += math.sin(p ** 0.5) + math.log(p)
    return total


@pytest.mark.parametrize("p", [0.0, 0.8])
def test_derivatives_of_what_is_not_needed_are_zero(p: float) -> None:
    """Those of ``p ** 0.5`` and ``log(p)`` are infinite at zero, and of ``p ** q`` by ``q`` not a number."""
    for f in (jit(guarded, grad=(0, 1, 2)), jit(lambda x, p, q: guarded(x, p, q), grad=(0, 1, 2))):
        value, (x_bar, p_bar, q_bar) = f.value_and_grad(np.zeros(6), p, -0.5)
        assert value == p_bar == q_bar == 0.0 and not x_bar.any()
    if p:
        check_grads(lambda p, q: guarded(X, p, q), (p, -0.5), order=2)


def test_the_reverse_sweep_computes_it_once() -> None:
    text = str(jit(guarded, grad=1).value_and_grad.inspect("optimized", X, 0.7, 1.5))
    assert text.count("= pow ") == 4


X = np.linspace(0.0, 4.0, 9)
