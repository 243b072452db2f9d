"""Loops that are not counted push no frame for an iteration that leaves the active values as they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit

pytestmark = pytest.mark.any_level


def skipping(x: Any) -> float:
    """Two tests that go on, and one that ends the loop."""
    light, total = 1.0, 0.0
    for k in range(len(x)):
        if x[k] > 0.8:
            continue
        w = math.sin(x[k])
        if w < 0.1:
            continue
        total += light * w
        light *= 1.0 - w
        if light < 0.2:
            break
    return total


def last_is_idle(x: Any) -> float:
    """The loop ends behind an iteration that changes nothing."""
    s, k = 1.0, 0
    while k < len(x) and s < 50.0:
        if x[k] > 0.5:
            s = s * (1.0 + x[k])
        k += 1
    return s * s


def walk(x: Any) -> float:
    """A linked list; elements are added to in place."""
    n = len(x)
    force = np.zeros(n)
    k = n - 1
    while k >= 0:
        if x[k] > 0.3:
            force[k] += x[k] * x[0]
            force[0] -= math.exp(x[k])
        k = k - 1 - (k % 3 == 0)
    return float(np.sum(force * force))


def exchanged(x: Any) -> float:
    """Values that change places are not left as they are."""
    a, b, k = x[0], 1.0, 0
    while k < len(x):
        if x[k] > 0.5:
            a, b = b, a
        elif x[k] > 0.2:
            a = a * x[k]
        k += 1 + (x[k] > 0.9)
    return a + 2.0 * b


def left_behind(x: Any) -> float:
    """What leaves the loop is computed in an iteration that passes on nothing new."""
    s, k, out = 1.0, 0, 0.0
    while True:
        out = s * x[k]
        if x[k] > 0.5:
            s = s + out
        k += 1
        if k == len(x):
            break
    return out * s


def nested(x: Any) -> float:
    """An inner loop that is not counted, of which the outer iteration may need nothing."""
    total, i = 0.0, 0
    while i < len(x):
        s, j = x[i], 0
        while s > 0.1 and j < 5:
            if x[j] < 0.6:
                s = s * x[j]
            j += 1
        if s < 0.3:
            total += s * s
        i += 1
    return total


PROGRAMS = [skipping, last_is_idle, walk, exchanged, left_behind, nested]


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_gradients(f: Callable[[Any], float], seed: int) -> None:
    x = np.random.default_rng(seed).random(9)
    value, found = jit(f, grad=True).value_and_grad(x)
    assert value == pytest.approx(f(x))
    np.testing.assert_allclose(found, interpret(grad(f), x), rtol=1e-12)
    check_grads(f, (x,), order=2)


@pytest.mark.parametrize("f", [skipping, last_is_idle], ids=lambda f: f.__name__)
def test_no_frame_for_idle_iterations(f: Callable[[Any], float]) -> None:
    text = jit(f, grad=True).value_and_grad.inspect("adjoint", np.random.default_rng(0).random(9))
    assert "^push" in text and "^rest" in text


def test_a_frame_where_values_change() -> None:
    def power(x: float) -> float:
        s = x
        while s < 10.0:
            s = s * x
        return s
    assert "^rest" not in jit(power, grad=True).value_and_grad.inspect("adjoint", 1.5)


@pytest.mark.slow
def test_a_frame_where_only_the_end_changes_nothing() -> None:
    """A path that leaves the loop has a frame in any case, so no iteration is tested."""
    def march(x: float) -> float:
        t = 0.1
        for _ in range(50):
            d = math.exp(-t * x)
            if d < 0.2 * t:
                break
            t += d
            if t > 12.0:
                break
        return t
    f = jit(march, grad=True)
    text = f.value_and_grad.inspect("adjoint", 1.5)
    assert "idle" not in text and "^push:" not in text
    check_grads(march, (1.5,), order=2)
