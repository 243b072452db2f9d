"""Branches whose sides call the same functions are fused ahead of lanes, in inner loops and around them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, interpret, jit

A = np.random.default_rng(0).normal(size=(17, 18))


def softplus(a: Any, b: float) -> Any:
    """In an inner loop, of which the loop around might become lanes."""
    out = np.zeros(a.shape)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > b:
                out[i, j] = a[i, j] + math.log1p(math.exp(b - a[i, j]))
            else:
                out[i, j] = b + math.log1p(math.exp(a[i, j] - b))
    return np.sum(out * out)


def logistic(a: Any, b: float) -> Any:
    """Behind an inner loop."""
    loss = 0.0
    for i in range(a.shape[0]):
        z = 0.0
        for j in range(a.shape[1]):
            z += a[i, j] * b
        if z >= 0.0:
            p = 1.0 / (1.0 + math.exp(-z))
        else:
            e = math.exp(z)
            p = e / (1.0 + e)
        loss += p * p
    return loss


def rooted(a: Any, b: float) -> Any:
    """The function of one side fails for numbers between ``b`` and 0."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > b:
                total += math.log(a[i, j])
            else:
                total += math.log(b - a[i, j] + 1.0) * b
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f", [softplus, logistic, rooted])
def test_values_and_gradients(f: Callable[..., Any]) -> None:
    for b in (0.3, 5.0):
        value, (d_a, d_b) = jit(f, grad=(0, 1)).value_and_grad(A, b)
        np.testing.assert_allclose(value, interpret(f, A, b), rtol=1e-12)
        expected = interpret(grad(f, argnums=(0, 1)), A, b)
        np.testing.assert_allclose(d_a, expected[0], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(d_b, expected[1], rtol=1e-10)


def test_only_the_side_that_is_taken_fails() -> None:
    with pytest.raises(ValueError, match="math domain error"):
        jit(rooted)(A, -5.0)


@pytest.mark.parametrize("f", [softplus, logistic])
def test_each_iteration_calls_once(f: Callable[..., Any]) -> None:
    text = jit(f).inspect("optimized", A, 0.3)
    loops = [block for block in re.split(r"\n\n", text) if "= exp " in block]
    assert loops and all(block.count("= exp ") == 1 for block in loops)
