"""Values that a branch chooses are chosen again in the reverse sweep, if what it chooses from is at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit, jvp


def tracer(c0: Any, u: Any, v: Any, steps: int) -> float:
    """What flows between the cells of a grid comes from the cell behind."""
    n, m = c0.shape
    c = c0.copy()
    for _ in range(steps):
        fx, fy = np.zeros((n + 1, m)), np.zeros((n, m + 1))
        for i in range(n - 1):
            for j in range(m):
                fx[i + 1, j] = u[i, j] * (c[i, j] if u[i, j] > 0.0 else c[i + 1, j])
        for i in range(n):
            for j in range(m - 1):
                fy[i, j + 1] = v[i, j] * (c[i, j] if v[i, j] > 0.0 else c[i, j + 1])
        for i in range(n):
            for j in range(m):
                c[i, j] -= 0.2 * (fx[i + 1, j] - fx[i, j] + fy[i, j + 1] - fy[i, j])
    return np.sum(c * c)


def computed(c0: Any, u: Any, v: Any, steps: int) -> float:
    """One side computes, and one side chooses again; an element is read only if the branch takes its side."""
    total = 0.0
    x = c0.copy()
    for t in range(steps):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if u[i, j] > 0.0:
                    a = np.sin(x[i, j])
                elif v[i, j] > 0.0:
                    a = x[i, j]
                else:
                    a = v[i, j] if t > 0 else u[j % 2, 0]
                x[i, j] = x[i, j] - 0.1 * a * a
                total += a * x[i, j]
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [tracer, computed], ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    for shape in ((2, 1), (5, 4), (18, 19)):
        args = rng.random(shape), 0.3 * rng.normal(size=shape), 0.3 * rng.normal(size=shape)
        for fastmath in (False, True):
            value, grads = jit(f, grad=(0, 1, 2), fastmath=fastmath).value_and_grad(*args, 3)
            assert value == pytest.approx(f(*args, 3), rel=1e-12)
            step = [rng.normal(size=shape) for _ in args]
            ahead, behind = (f(*(x + h * d for x, d in zip(args, step)), 3) for h in (1e-7, -1e-7))
            slope = sum(float(np.sum(g * d)) for g, d in zip(grads, step))
            assert slope == pytest.approx((ahead - behind) / 2e-7, rel=1e-5, abs=1e-6)
            _, tangent = jvp(lambda *x: f(*x, 3), args, tuple(step))
            assert slope == pytest.approx(tangent, rel=1e-9, abs=1e-12)


def test_choices_are_not_saved() -> None:
    args = np.ones((4, 5)), np.ones((4, 5)), np.ones((4, 5))
    text = str(jit(tracer, grad=(0, 1, 2)).grad.inspect("optimized", *args, 3))
    chosen = re.findall(r"(%[\w.]+) = select ", text)
    saved = re.findall(r" = set %frames[\w.]*, (%[\w.]+)", text)
    assert chosen and not set(chosen) & set(saved)
