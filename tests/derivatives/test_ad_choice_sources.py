"""Choices of loops that data end, and of loops around choices, are differentiated as what was chosen last."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, spec

pytestmark = pytest.mark.any_level


def search(x: Any) -> float:
    """Three plies of a game with pruning: a choice in a choice in a choice, of which two loops end by ``break``."""
    s = 0.0
    for g in range(x.shape[0]):
        alpha = -1e9
        for i in range(x.shape[1]):
            beta = 1e9
            for j in range(x.shape[2]):
                a = alpha
                for k in range(x.shape[3]):
                    a = x[g, i, j, k] if x[g, i, j, k] > a else a
                    if a >= beta:
                        break
                if a < beta:
                    beta = a
                if beta <= alpha:
                    break
            if beta > alpha:
                alpha = beta
        s += alpha * alpha
    return s


def closest(x: Any) -> float:
    """A smallest distance over pairs: both loops carry it."""
    best, n = 1e9, x.shape[0]
    for i in range(n):
        for j in range(i):
            d = math.sqrt((x[i, 0] - x[j, 0]) ** 2 + (x[i, 1] - x[j, 1]) ** 2)
            if d < best:
                best = d
    return best * best


def stepping(x: Any) -> float:
    """A loop without a counter: the element is found by two integers that it carries."""
    total = 0.0
    for r in range(x.shape[0]):
        best, k, step = 0.5, 0, 1
        while k < x.shape[1]:
            v = x[r, k] * step
            if v > best:
                best = v
            k += step
            step += 1
            if best > 4.0:
                break
        total += best * best
    return total


def several(x: Any) -> float:
    """Several sources, one of them known before the loop; what is chosen on the last path is not defined elsewhere."""
    total = 0.0
    for r in range(x.shape[0]):
        limit, m, i = x[r, 0] * 0.5, x[r, 1], 0
        while True:
            if i >= x.shape[1]:
                break
            v = x[r, i]
            if v > 1.5:
                m = limit
                break
            if v < -1.0:
                m = v * v
            elif v < m:
                m = math.exp(v) * x[i % x.shape[0], 0]
            i += 1
        total += m * m
    return total


def beside(x: Any) -> float:
    """The old value is more than compared: it is added up as well."""
    total = 0.0
    for r in range(x.shape[0]):
        best, i = 0.0, 0
        while i < x.shape[1]:
            if x[r, i] > best:
                best = x[r, i]
            total += best
            if best > 1.0:
                break
            i += 1
        total += best * best
    return total


def behind(x: Any) -> float:
    """The value of the iteration that ended the loop is read behind it, beside the chosen one."""
    total = 0.0
    for r in range(x.shape[0]):
        best, last, i = 0.0, 0.0, 0
        while i < x.shape[1]:
            last = x[r, i] * 2.0
            if last > best:
                best = last
            if best > 1.0:
                break
            i += 1
        total += best * best + last
    return total


def rows(x: Any) -> float:
    """The row whose first element above a bound is largest; rows without one keep what was there."""
    best, at = 0.0, -1
    for r in range(x.shape[0]):
        first = best
        for c in range(x.shape[1]):
            if x[r, c] > 0.3:
                first = x[r, c] * x[r, 0]
                break
        if first > best:
            best, at = first, r
    return best * best + at


def overwritten(x: Any) -> float:
    """The array is written behind the loop that chooses among its elements."""
    y = x * 2.0
    total = 0.0
    for r in range(x.shape[0]):
        best = 0.0
        for c in range(x.shape[1]):
            if y[r, c] > best:
                best = y[r, c]
            if best > 1.2:
                break
        y[r, 0] = best * best
        y[(r + 1) % x.shape[0], 1] += best
        total += y[r, 0] + y[r, 1]
    return total


PROGRAMS = [search, closest, stepping, several, beside, behind, rows, overwritten]


def argument(f: Callable[..., float], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 3, 4, 5) if f is search else (6, 7))


@pytest.mark.slow
@pytest.mark.parametrize("fastmath", [False, True])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float], fastmath: bool) -> None:
    compiled = jit(f, grad=True, fastmath=fastmath)
    for seed in range(6):
        x = argument(f, seed)
        value, g = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        np.testing.assert_allclose(g, interpret(grad(f), x), rtol=1e-11, atol=1e-13)
    check_grads(f, (argument(f, 1),), order=2)


@pytest.mark.parametrize("f", PROGRAMS[:3], ids=lambda f: f.__name__)
def test_no_iteration(f: Callable[..., float]) -> None:
    compiled = jit(f, grad=True)
    full = argument(f, 0)
    for axis in range(full.ndim - (f is closest)):
        x = np.take(full, [], axis=axis)
        value, g = compiled.value_and_grad(x)
        assert value == f(x) and g.shape == x.shape


def pushes(f: Callable[..., float]) -> bool:
    """True if the gradient saves anything for its reverse sweep, on a stack or in an array of decisions."""
    text = jit(f, grad=True).grad.inspect("optimized", spec("f64[:, :, :, :]" if f is search else "f64[:, :]"))
    return " push " in text or ": bool[" in text


@pytest.mark.parametrize("f", [search, closest, stepping, several, rows], ids=lambda f: f.__name__)
def test_nothing_is_saved_for_the_choice(f: Callable[..., float]) -> None:
    assert not pushes(f)
