"""Index-set splitting: loops that treat one iteration apart."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, jit

pytestmark = pytest.mark.any_level

R = np.random.default_rng(2)
X, W = R.normal(size=(9, 2)), R.uniform(0.5, 1.5, 9)


def pairs(x: np.ndarray, w: np.ndarray, at: int) -> float:
    energy = 0.0
    for i in range(len(x)):
        for j in range(len(w)):
            if i != j:
                dx, dy = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
                energy += w[j] / math.sqrt(dx * dx + dy * dy + 0.1)
    return energy


def other_side(x: np.ndarray, w: np.ndarray, at: int) -> float:
    """The side of the one iteration computes too, and both change an array and a number."""
    out, last = np.zeros(len(w)), 1.0
    for j in range(len(w)):
        if j + 2 == at:
            last = w[j] * last
            out[j] = last
        else:
            out[j] = math.exp(-w[j] * w[j]) / (1.0 + x[j, 0] ** 2) + w[at % 5] * last
            last = last + out[j]
    return np.sum(out * w) + last


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f, at", [(pairs, 0), *((other_side, at) for at in (-3, 1, 2, 6, 10, 11, 40))])
def test_wherever_the_iteration_lies(f: Callable, at: int) -> None:
    np.testing.assert_allclose(jit(f)(X, W, at), f(X, W, at), rtol=1e-12)
    check_grads(lambda x, w: f(x, w, at), (X, W), order=1 if f is pairs else 2)


def test_shorter_and_empty_loops() -> None:
    jitted = jit(pairs, grad=(0, 1))
    for n, m in ((9, 4), (9, 1), (1, 9), (0, 3), (9, 0)):
        if n <= m or n == 9:
            x, w = X[:n], W[:m]
            try:
                expected = pairs(x, w, 0)
            except IndexError as error:
                with pytest.raises(IndexError, match=str(error)[:20]):
                    jitted(x, w, 0)
                continue
            np.testing.assert_allclose(jitted.value_and_grad(x, w, 0)[0], expected)


def test_the_loops_do_not_branch() -> None:
    """Three parts, of which the one iteration has nothing to do."""
    text = jit(pairs).inspect("adjoint", X, W, 0)
    assert " = ne " not in text and text.count(" = sqrt ") == 2
