"""Smallest and largest values as reductions: the bits that the loop has, with NaN and zeros of both signs."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def largest(x: Any, y: Any, first: float) -> float:
    best = first
    for j in range(len(x)):
        if x[j] > best:
            best = x[j]
    return best


def last_largest(x: Any, y: Any, first: float) -> float:
    best = first
    for j in range(len(x)):
        if best <= x[j]:
            best = x[j]
    return best


def smallest_of_some(x: Any, y: Any, first: float) -> float:
    best = first
    for j in range(len(x)):
        if y[j] > 0.0 and x[j] - 1.0 < best:
            best = x[j] - 1.0
    return best


def smallest_in_a_branch(x: Any, y: Any, first: float) -> float:
    best = first
    for j in range(len(x)):
        if y[j] > 0.0:
            v = x[j] * y[j]
            if v <= best:
                best = v
    return best


def both(x: Any, y: Any, first: float) -> tuple[float, float]:
    low = high = first
    for j in range(len(x)):
        if x[j] < low:
            low = x[j]
        if y[j] >= high:
            high = y[j]
    return low, high


def by_max(x: Any, y: Any, first: float) -> float:
    best = first
    for j in range(len(x)):
        best = max(best, abs(x[j]))
    return best


def new_first(x: Any, y: Any, first: float) -> float:
    """``max(x, best)`` keeps a NaN of ``x``, and takes the next one for a NaN that it has kept."""
    best = first
    for j in range(len(x)):
        best = max(x[j], best)
    return best


PROGRAMS = (largest, last_largest, smallest_of_some, smallest_in_a_branch, both, by_max, new_first)
VALUES = (0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan, 5e-324)


def bits(result: Any) -> list[bytes]:
    return [struct.pack("d", v) if v == v else b"nan" for v in np.ravel(result).tolist()]


def rows(seed: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    draw = random.Random(seed)
    few = [[0.0, -0.0], [-0.0, -1.0], [0.0], [math.nan, -0.0], [-math.inf]]
    few += [draw.sample(VALUES, 3) for _ in range(12)]
    return [(np.array(draw.choices(some, k=n)), np.array(draw.choices(VALUES, k=n)), first)
            for some in few for n in (0, 1, 17, 70) for first in draw.sample(VALUES, 3)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_bits(program: Callable[..., Any], seed: int) -> None:
    f = jit(program)
    for x, y, first in rows(seed):
        assert bits(f(x, y, first)) == bits(program(x.tolist(), y.tolist(), first)), (x, y, first)


@pytest.mark.parametrize("program", PROGRAMS[:-1], ids=lambda f: f.__name__)
def test_they_are_reductions(program: Callable[..., Any]) -> None:
    x = np.linspace(-1.0, 1.0, 40)
    text = jit(program).inspect("optimized", x, x, 0.5)
    assert "imum {acc = True, numbers = True}" in text
    assert ("^ordered" in text) is (program is not by_max)          # an absolute value has no sign


def test_derivatives() -> None:
    x, y = np.linspace(-1.0, 2.0, 50) ** 2, np.sin(np.arange(50.0))
    value, gradient = jit(smallest_of_some, grad=0).value_and_grad(x, y, 9.0)
    chosen = int(np.argmin(np.where(y > 0.0, x, np.inf)))
    assert value == x[chosen] - 1.0
    np.testing.assert_array_equal(gradient, np.eye(50)[chosen])


def test_single_precision() -> None:
    x = np.array([1.5, -0.0, math.nan, 2.25] * 10, np.float32)
    f = jit(largest)
    assert f(x, x, np.float32(-3.0)) == 2.25
    assert math.copysign(1.0, f(np.array([-0.0, 0.0] * 20, np.float32), x, np.float32(-3.0))) == -1.0
