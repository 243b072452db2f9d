"""Loops that step vectors element by element: their elements go through the steps one by one, others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(3)


def barrier(z: Any, x: Any, a: float) -> Any:
    """Columns, a choice, and a function that does not wait for the step before."""
    s, alive = np.full(len(x), a), np.ones(len(x))
    for t in range(z.shape[1]):
        s = s * np.exp(0.1 * z[:, t])
        alive = np.where(s > 1.2 * a, 0.5 * alive, alive)
    return np.sum(alive * s * x)


def swapped(z: Any, x: Any, a: float) -> Any:
    """Two vectors change places, and a third one is not read behind the loop."""
    u, v, w = x, 2.0 * x, x * x
    for t in range(z.shape[1]):
        w = 0.5 * w + a * z[:, t] * u
        u, v = v + w, u * a
    return np.sum(u * u - v)


def every_other(z: Any, x: Any, a: float) -> Any:
    """Every second row."""
    s = x[::2].copy()
    for t in range(z.shape[1]):
        s += a * z[::2, t] / (t + 1.0)
    return np.sum(s * s)


def masked(z: Any, x: Any, a: float) -> Any:
    """A mask is carried as well."""
    s, low = x.copy(), x < 0.0
    for t in range(z.shape[1]):
        s += a * z[:, t]
        low = low & (s < a)
    return np.sum(np.where(low, s, s * s))


def summed(z: Any, x: Any, a: float) -> Any:
    """Each column once, as in a product with a vector."""
    s = np.zeros(len(x))
    for t in range(z.shape[1]):
        s += z[:, t] * (a * t)
    return np.sum(np.tanh(s * x))


def sine(z: Any, x: Any, a: float) -> Any:
    """A function of the step before."""
    s = x.copy()
    for _ in range(z.shape[1]):
        s = s + a * np.sin(s)
    return np.sum(s)


def shorter(z: Any, x: Any, a: float) -> Any:
    """The vector loses an element in each step."""
    s = np.concatenate((x, x, x, x, x, x))
    for _ in range(4):
        s = a * s[1:]
    return np.sum(s * s)


def neighbours(z: Any, x: Any, a: float) -> Any:
    """Each element needs another one."""
    s = x.copy()
    for _ in range(4):
        s = s + a * s[::-1]
    return np.sum(s * s)


def other_sizes(z: Any, x: Any, a: float) -> Any:
    """Two vectors of other sizes."""
    s, u = x.copy(), np.concatenate((x, x))
    for _ in range(4):
        s, u = a * s + 1.0, u * u * a
    return np.sum(s) + np.sum(u)


def filtered(z: Any, x: Any, a: float) -> Any:
    """A slice that moves along the vector."""
    s = np.zeros(len(x) - 2)
    for k in range(3):
        s = a * s + x[k:len(x) - 2 + k] * z[0, k]
    return np.sum(s * s)


TAKEN = [barrier, swapped, summed]
LEFT = [every_other, masked, sine, shorter, neighbours, other_sizes, filtered]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", TAKEN + LEFT)
@pytest.mark.parametrize("n", [3, 16, 37])
def test_values_and_gradients(f: Callable[..., Any], n: int) -> None:
    z, x = RNG.normal(size=(n, 5)), RNG.normal(size=n)
    np.testing.assert_allclose(jit(f)(z, x, 0.7), f(z, x, 0.7), rtol=1e-12, atol=1e-12)
    check_grads(f, (z, x, 0.7), order=1)
    check_grads(lambda x, a: f(z, x, a), (x, 0.7), order=1)


@pytest.mark.parametrize("f", TAKEN)
def test_vectors_without_elements(f: Callable[..., Any]) -> None:
    z, x = np.zeros((0, 5)), np.zeros(0)
    assert jit(f)(z, x, 0.7) == 0.0


@pytest.mark.parametrize("f", TAKEN)
def test_elements_are_lanes(f: Callable[..., Any]) -> None:
    z, x = RNG.normal(size=(37, 5)), RNG.normal(size=37)
    assert "%chunk" in jit(f).inspect("optimized", z, x, 0.7)


@pytest.mark.parametrize("f", LEFT)
def test_others_stay(f: Callable[..., Any]) -> None:
    z, x = RNG.normal(size=(37, 5)), RNG.normal(size=37)
    assert "%chunk" not in jit(f).inspect("optimized", z, x, 0.7)
