"""Largest and smallest values with their places, looked for in a loop behind: the values that the loop has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def with_place(x: Any, free: Any, first: float) -> tuple[float, int]:
    best, at = first, -1
    for j in range(len(x)):
        if x[j] > best:
            best, at = x[j], j
    return best, at


def place_alone(x: Any, free: Any, first: float) -> tuple[float, int]:
    at = 0
    for j in range(1, len(x)):
        if x[j] < x[at]:
            at = j
    return x[at], at


def of_some(x: Any, free: Any, first: float) -> tuple[float, int, float]:
    """What belongs to the place is computed from other elements."""
    best, at, other = first, -7, 0.5
    for j in range(len(x)):
        if free[j] and x[j] < best:
            best, at, other = x[j], 3 * j + 1, x[len(x) - 1 - j]
    return best, at, other


def absolute(x: Any, free: Any, first: float) -> tuple[float, int]:
    best, at = first, -1
    for j in range(len(x)):
        if abs(x[j]) > best and not free[j]:
            best, at = abs(x[j]), j
    return best, at


def difference(x: Any, free: Any, first: float) -> tuple[int, float]:
    best, at = first, -1
    for j in range(len(x)):
        if best > x[j] - 1.0:
            best, at = x[j] - 1.0, j
    return at, best


def nearest(x: Any, free: Any, first: float) -> tuple[float, int]:
    """Products and sums are rounded one by one, in both loops."""
    best, at = abs(first), -1
    for j in range(len(x)):
        d = (x[j] - 0.3) * (x[j] - 0.3) + (x[j] * 0.7 - first) * (x[j] * 0.7 - first)
        if d < best:
            best, at = d, j
    return best, at


def of_rows(x: Any, free: Any, first: float) -> tuple[float, int, int]:
    """The smallest element right of the diagonal of free rows and columns, as when clusters are merged."""
    n, best, a, b = len(free), first, -1, -1
    for i in range(n):
        if free[i]:
            for j in range(i + 1, n):
                if free[j] and x[i] * x[j - 1] < best:
                    best, a, b = x[i] * x[j - 1], i, j
    return best, a, b


REDUCTIONS = (with_place, place_alone, absolute, difference, nearest)
PROGRAMS = (*REDUCTIONS, of_some, of_rows)
VALUES = (0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan)


def bits(result: Any) -> list[Any]:
    return ["nan" if v != v else (math.copysign(1.0, v), v) for v in result]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_same_values(program: Callable[..., Any]) -> None:
    f, rng = jit(program), np.random.default_rng(0)
    for n in (1, 2, 31, 32, 33, 70):
        for t in range(12):
            x = rng.choice(VALUES, n) if t % 2 else np.round(rng.normal(0.0, 3.0, n), t % 3)
            free = rng.random(n) < (0.5, 0.0, 1.0, 0.1)[t % 4]
            for first in (0.0, -0.0, -math.inf, math.inf, math.nan):
                with np.errstate(all="ignore"):
                    expected = program(x, free, first)
                assert bits(f(x, free, first)) == bits(expected), (x, free, first)


@pytest.mark.parametrize("program", REDUCTIONS, ids=lambda f: f.__name__)
def test_there_are_two_reductions(program: Callable[..., Any]) -> None:
    x = np.linspace(-1.0, 1.0, 40)
    text = jit(program).inspect("optimized", x, x > 0.0, 0.5)
    assert "^search" in text and "^short" in text


def test_fast_math_without_a_number() -> None:
    """The place is one of the loop's, whatever fast math makes of what is no number."""
    x = np.full(40, math.nan)
    assert jit(of_some, fastmath=True)(x, np.ones(40, bool), 1.0)[1] in (-7, *range(1, 121, 3))


def test_fast_math_finds_what_is_computed_again() -> None:
    rng = np.random.default_rng(0)
    for n in (40, 333):
        x = rng.normal(0.0, 2.0, n)
        best, at = jit(nearest, fastmath=True)(x, x > 0.0, 30.0)
        assert (best, at) == nearest(x, x > 0.0, 30.0)


def test_fast_math_of_the_nearest_of_some_points() -> None:
    """The least distance, of which only the place is read, is a minimum already."""
    def places(p: Any, q: Any) -> Any:
        near = np.zeros(len(p), dtype=np.int64)
        for i in range(len(p)):
            best = np.inf
            for j in range(len(q)):
                d = (p[i, 0] - q[j, 0]) ** 2 + (p[i, 1] - q[j, 1]) ** 2
                if d < best:
                    best = d
                    near[i] = j
        return near

    rng = np.random.default_rng(0)
    p, q, f = rng.random((7, 2)), rng.random((40, 2)), jit(places, fastmath=True)
    assert "^search" in f.inspect("optimized", p, q)
    np.testing.assert_array_equal(f(p, q), places(p, q))


def test_derivatives() -> None:
    def chosen(x: Any, y: Any) -> float:
        best, at = -1e300, 0
        for j in range(len(x)):
            if x[j] > best:
                best, at = x[j], j
        return best * y[at]

    x, y = np.sin(np.arange(50.0)), np.cos(np.arange(50.0))
    value, (x_bar, y_bar) = jit(chosen, grad=(0, 1)).value_and_grad(x, y)
    at = int(np.argmax(x))
    assert value == x[at] * y[at]
    np.testing.assert_array_equal(x_bar, np.eye(50)[at] * y[at])
    np.testing.assert_array_equal(y_bar, np.eye(50)[at] * x[at])
