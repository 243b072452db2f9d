"""Two branches on one condition in an iteration become one (``passes/branches/correlated_branches.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, value_and_grad

pytestmark = pytest.mark.any_level

R = np.random.default_rng(5)
X, W, AT = R.normal(size=40), R.normal(size=9), R.integers(0, 9, 40)


def one_sided(x: Any, w: Any, at: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            total += (x[i] * w[at[i]] - w[at[i] - 1]) ** 2
    return total


def two_sided(x: Any, w: Any, at: Any) -> float:
    """What follows the branch reads values of both sides."""
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.1:
            a = x[i] * w[at[i]]
            b = a * a
        else:
            a = w[at[i]] - x[i]
            b = 3.0 * w[at[i] - 2]
        total += a * b * w[at[i] - 3]
    return total


def nested(x: Any, w: Any, at: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] > -0.5:
            y = x[i] * w[at[i]]
            if at[i] > 4:
                total += y * y * w[at[i] - 5]
            elif at[i] > 2:
                total -= y * w[at[i]]
        else:
            total += w[at[i]] ** 3
    return total


def in_order(x: Any, w: Any, at: Any) -> float:
    """Two branches one after the other, of which only the second is next to its adjoint."""
    total = 0.0
    for i in range(len(x)):
        y = x[i]
        if x[i] > 0.0:
            y = y * w[at[i]]
        if at[i] > 3:
            total += y * y * w[at[i] - 1]
    return total


def around_a_loop(x: Any, w: Any, at: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s = x[i]
            for k in range(at[i]):
                s += w[k] * w[at[k]] * x[i]
            total += s * s
    return total


def continued(x: Any, w: Any, at: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] < 0.0 or at[i] == 3:
            continue
        total += x[i] * w[at[i]] * w[at[i]]
    return total


ALL = [one_sided, two_sided, nested, in_order, around_a_loop, continued]


@pytest.mark.long
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float]) -> None:
    value, bars = jit(value_and_grad(f, (0, 1)))(X, W, AT)
    assert value == pytest.approx(f(X, W, AT), rel=1e-12)
    for got, expected in zip(bars, interpret(grad(f, (0, 1)), X, W, AT)):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    check_grads(lambda x, w: f(x, w, AT), (X, W), order=1)


@pytest.mark.parametrize("f, once, twice", [(one_sided, 2, 4), (continued, 1, 2)],
                         ids=lambda f: f.__name__ if callable(f) else "")
def test_an_element_is_loaded_once(f: Callable[..., float], once: int, twice: int,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """The adjoint reads again what the primal has read; both are on one side of one branch."""
    def loads() -> int:
        compiled = jit(f, grad=(0, 1), boundscheck=False)
        compiled.value_and_grad(X, W, AT)
        return str(compiled.value_and_grad.inspect("optimized")).count(" get %1,")
    assert loads() == once
    monkeypatch.setenv("JITAD_WITHOUT", "correlated_branches")
    assert loads() == twice
