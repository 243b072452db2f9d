"""Reverse loops that only add count upwards; those that carry values count downwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit
from jitad.ir.text import parse_module
from jitad.passes.analysis.loops import LoopForest, counted

pytestmark = pytest.mark.any_level


def pairs(x: Any) -> float:
    """The outer loop is recomputed in the reverse loop; terms of the inner one are saved."""
    total = 0.0
    for i in range(len(x)):
        near = 0.0
        for j in range(i):
            near += math.sin(x[i] * x[j]) * x[j]
        total += near * near
    return total


def smoothed(x: Any) -> float:
    """Fills an array from another; its adjoint is only read."""
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] += x[i] * x[i - 1]
    return (y * y).sum()


def recurrence(x: Any) -> float:
    s = x[0]
    for i in range(len(x)):
        s = s * x[i] + 0.5
    return s


def overwritten(x: Any) -> float:
    """The adjoint of an element is cleared at its store, so the order matters."""
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = y[i] * y[i - 1]
    return y.sum()


def cleared(x: Any) -> float:
    """Overwrites an array: its adjoint is cleared at each store, element by element, so the order does not matter."""
    y = np.ones(len(x))
    for i in range(1, len(x)):
        y[i] = x[i] * x[i - 1]
    return (y * y).sum()


def table(x: Any) -> float:
    """A row for each time: the adjoint of one row is cleared, and that of the row before is added to."""
    n = len(x)
    u = np.zeros((4, n))
    for i in range(n):
        u[0, i] = x[i]
    for t in range(3):
        for i in range(1, n):
            u[t + 1, i] = u[t, i] - 0.5 * x[i] * (u[t, i] - u[t, i - 1])
    return (u * u).sum()


def table_in_place(x: Any) -> float:
    """Rows that are one and the same: the order matters."""
    n = len(x)
    u = np.ones((4, n))
    for _ in range(3):
        for i in range(1, n):
            u[1, i] = u[1, i] - 0.5 * x[i] * (u[1, i] - u[1, i - 1])
    return (u * u).sum()


def least(x: Any) -> float:
    """Only the last assignment has a derivative: its iteration is computed again, and no loop is reversed."""
    best = 100.0
    for i in range(len(x)):
        if 3.0 - x[i] < best:
            best = 3.0 - x[i]
    return best * best


def least_of_two(x: Any) -> float:
    """The adjoint is cleared at each assignment."""
    best = 100.0
    for i in range(len(x)):
        if 3.0 - x[i] < best:
            best = 3.0 - x[i]
        if x[i] * x[i] < best:
            best = x[i] * x[i]
    return best * best


def last_alone(x: Any) -> float:
    """An array that only the last iteration passes on."""
    y = x
    for i in range(3):
        y = x * (i + 1.0)
    return (y * x).sum()


def indices(f: Callable[..., float]) -> list[bool]:
    """For each counted loop of the gradient, True if it counts downwards."""
    compiled = jit(f, grad=True, boundscheck=False)
    compiled.grad(np.linspace(0.5, 1.5, 6))
    func = next(iter(parse_module(compiled.grad.inspect("optimized")).functions.values()))
    found = []
    for loop in LoopForest(func).loops:
        if counted(loop) is not None:
            found.append(any(op.name == "sub" and op.operands[0] in loop.head.params and op.operands[1].const == 1
                             for b in loop.blocks for op in b.ops))
    return found


@pytest.mark.parametrize("f, down", [(pairs, False), (smoothed, False), (recurrence, True), (overwritten, True),
                                     (cleared, False), (least, False), (least_of_two, True)])
def test_which_way(f: Callable[..., float], down: bool) -> None:
    assert any(indices(f)) is down


@pytest.mark.parametrize("f", [pairs, smoothed, recurrence, overwritten, cleared, table, table_in_place, least,
                               least_of_two, last_alone],
                         ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float]) -> None:
    x = np.linspace(0.5, 1.5, 6)
    np.testing.assert_allclose(jit(grad(f))(x), interpret(grad(f), x), rtol=1e-12, atol=1e-13)
    check_grads(f, (x,), order=2 if f in (pairs, least) else 1)
