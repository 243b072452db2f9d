"""What the reverse sweep only compares is compared in the forward sweep (``ad/storage/reuse_primals.py``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad
from jitad.testing import check_grads


def rows(w: Any) -> float:
    d = w.copy()
    for k in range(len(d)):
        for i in range(len(d)):
            d[i] = np.minimum(d[i], d[i, k] + d[k])
    return np.sum(np.sin(d))


def clipped(w: Any) -> float:
    """Compared with constants, in an iteration that overwrites them."""
    d = w[0].copy()
    for k in range(1, len(w)):
        d = np.maximum(d * w[k] - 0.3, 0.0) + np.minimum(w[k], 0.7)
    return np.sum(d * d)


def in_a_branch(w: Any) -> float:
    d = w[0].copy()
    for k in range(1, len(w)):
        if k % 2 == 0:
            d = np.maximum(d + w[k], w[k] * 2.0)
        else:
            d = d * 0.5
    return np.sum(d * d)


def used_otherwise(w: Any) -> float:
    """The product needs the operands as well."""
    d = w[0].copy()
    for k in range(1, len(w)):
        a = d + w[k]
        d = np.maximum(a, d) * a
    return np.sum(d)


def until(w: Any) -> float:
    """The loop is not counted."""
    d, k = w[0].copy(), 1
    while k < len(w) and np.sum(d) < 40.0:
        d = np.maximum(d * 1.1 + w[k], w[k] + 0.2)
        k += 1
    return np.sum(d * d)


def scalars(w: Any) -> float:
    total = 0.0
    for i in range(w.shape[0]):
        x = w[i, 0]
        for j in range(1, w.shape[1]):
            x = max(x * w[i, j], min(x + 0.4, 1.5 - w[i, j]))
        total += x
    return total


ALL = [rows, clipped, in_a_branch, used_otherwise, until, scalars]
W = np.random.default_rng(3).uniform(0.1, 2.0, (6, 6))


@pytest.mark.slow
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"parallel": True}, {"fastmath": True}], ids=["", "parallel", "fastmath"])
def test_gradients(f: Callable[..., Any], options: dict[str, Any]) -> None:
    compiled = jit(f, grad=True, **options)
    value, slope = compiled.value_and_grad(W)
    assert value == pytest.approx(f(W), rel=1e-12)
    np.testing.assert_allclose(slope, interpret(value_and_grad(f), W)[1], rtol=1e-10, atol=1e-13)
    check_grads(f, (W,), order=1, modes=("rev",))


@pytest.mark.slow
@pytest.mark.parametrize("f", [rows, clipped, scalars], ids=lambda f: f.__name__)
def test_ties_and_nan(f: Callable[..., Any]) -> None:
    for w in (np.ones((4, 4)), np.where(np.eye(4) > 0, np.nan, W[:4, :4])):
        got = jit(f, grad=True).value_and_grad(w)[1]
        np.testing.assert_allclose(got, interpret(value_and_grad(f), w)[1], rtol=1e-12)


def pushed(f: Callable[..., Any]) -> set[str]:
    """The dtypes of the arrays that loops push on their stacks."""
    text = str(value_and_grad(f).inspect("adjoint", W))
    popped = re.findall(r"= pop %\S+ : stack, (.*)", text)
    return {t for line in popped for t in re.findall(r"(\w+)\[", line)}


def test_bytes_are_saved_in_place_of_numbers() -> None:
    assert pushed(rows) == {"bool"} and "f64" in pushed(used_otherwise)
