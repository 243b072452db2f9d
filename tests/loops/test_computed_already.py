"""The reverse sweep uses transcendental functions computed by the forward sweep, and saves no array for them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, grad, hvp, jacrev, jit

pytestmark = pytest.mark.any_level

X = np.array([0.3, -0.4, 1.2, 0.6, -2.0])


def branch(x: np.ndarray) -> float:
    y = 0.0
    if x[0] > 0:
        y = math.sin(x[0]) * math.cos(x[0]) * x[1]
    return y * y


def reduction(x: np.ndarray) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            total += math.sin(x[i]) * math.cos(x[i])
        else:
            total += x[i] * x[i]
    return total


def loops_inside(x: np.ndarray) -> float:
    """The inner loop's values belong to its own iterations."""
    total = 0.0
    for i in range(len(x)):
        y = x[i]
        for _ in range(i):
            if y > -1:
                y = math.sin(y) * math.cos(y)
        total += y
    return total


def recurrence(x: np.ndarray) -> float:
    s = x[0]
    for i in range(len(x)):
        if s > -3:
            s = math.sin(s) + math.cos(s) * x[i]
    return s


def arms(x: np.ndarray) -> float:
    """Both functions of the direction are factors, which the reverse sweep reads anyway."""
    loss = 0.0
    for a in range(3):
        direction, across, up = 0.0, 0.0, 0.0
        for i in range(len(x)):
            direction += x[i] * (a + 1)
            if direction > -9:
                across += x[i] * math.cos(direction)
                up += x[i] * math.sin(direction)
        loss += across * across + up
    return loss


def newton(x: np.ndarray) -> float:
    """Kepler's equation: a loop that runs one iteration at a time in both sweeps."""
    E, delta = x[1], 1.0
    while abs(delta) > 1e-9:
        if x[0] > 0:
            delta = (E - x[0] * math.sin(E) - x[1]) / (1 - x[0] * math.cos(E))
        E -= delta
    return E * E


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f, sines", [(branch, 1), (reduction, 1), (loops_inside, None), (recurrence, 2), (arms, 1),
                                      (newton, 1)])
def test_right_and_computed_once(f: Callable, sines: int | None) -> None:
    check_grads(f, (X,), order=2)
    assert sines is None or jit(grad(f)).inspect("optimized", X).count(" = sin ") == sines


def rows(x: np.ndarray) -> np.ndarray:
    turn = math.sqrt(x[0] * x[0] + 1)
    if turn > 1:
        s, c = math.sin(turn), math.cos(turn)
    else:
        s, c = turn, 1.0
    return np.array([c * x[1] - s * x[2], s * x[1] + c * x[2]])


def test_several_ways_back_share_one_frame() -> None:
    x = np.array([0.5, 1.5, -0.7])
    jacobian = jit(jacrev(rows))
    step = 1e-6
    differences = np.stack([(rows(x + step * e) - rows(x - step * e)) / (2 * step) for e in np.eye(3)], axis=1)
    np.testing.assert_allclose(jacobian(x), differences, rtol=1e-8)
    assert jacobian.inspect("optimized", x).count(" = sin ") == 1


def halved(x: np.ndarray) -> float:
    total = 0.0
    for i in range(len(x)):
        v = abs(x[i])
        while v > 0.1:
            if v > 0.2:
                v = v * 0.5 + 0.01 * math.sin(v * x[0])
            else:
                v = v * 0.5 + 0.01 * math.exp(-v * v)
            total += v * x[i]
    return total


@pytest.mark.slow
def test_a_while_computes_on_the_way_there_what_its_tangents_share() -> None:
    check_grads(halved, (X,), order=2)
    text = jit(lambda x, v: hvp(halved, (x,), (v,))).inspect("optimized", X, X)
    assert [text.count(f" = {name} ") for name in ("sin", "cos", "exp")] == [1, 1, 1]
