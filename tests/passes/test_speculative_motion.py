"""Functions that only a branch in a loop needs are computed ahead of it, after differentiation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import jit


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
