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


@pytest.mark.slow
@pytest.mark.parametrize("f", [pairs, smoothed, recurrence, overwritten, cleared, table, table_in_place, least,
                               least_of_two, last_alone],
                         ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float]) -> None:
    x = np.linspace(0.5, 1.5, 6)
    np.testing.assert_allclose(jit(grad(f))(x), interpret(grad(f), x), rtol=1e-12, atol=1e-13)
    check_grads(f, (x,), order=2 if f in (pairs, least) else 1)


def read_first(x: float, p: Any) -> float:
    """Only the first iteration reads the argument: its cotangent is that of the last reverse iteration."""
    total = 0.0
    for i in range(40):
        total += math.sin(x) * p[i % 3]
        x = 0.5
    return total


def read_first_beside_a_state(x: float, p: Any) -> float:
    """The same with an integer that iterations carry."""
    total, k = 0.0, 1
    for _ in range(40):
        total += math.sin(x) * p[k % 3]
        x = 0.3 * (k % 4)
        k = (k * 5 + 1) % 7
    return total


def read_first_within(x: float, p: Any) -> float:
    total = 0.0
    for _ in range(40):
        y = np.zeros(3)
        for j in range(3):
            y[j] = math.sin(x) * p[j]
            x = 0.3 * j
        total += y.sum() * y[0]
    return total


def read_first_of_two(x: float, p: Any) -> float:
    """The loop leaves from its top."""
    a, i = p.copy(), 0
    while True:
        i += 1
        if i > 2:
            break
        a[0] += math.cos(x)
        grad(lambda y: a[1:] @ a[:-1] * y)(1.6)
        x = 0.14
    return a @ np.array([0.75, 0.5, 1.25])


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("f", [read_first, read_first_beside_a_state, read_first_within, read_first_of_two],
                         ids=lambda f: f.__name__)
def test_what_the_first_iteration_reads(f: Callable[..., float], parallel: bool) -> None:
    p = np.array([-0.6837, -0.0347, -0.6787])
    check_grads(jit(f, parallel=parallel), (0.4307, p), order=1)
    np.testing.assert_allclose(jit(f, grad=0, parallel=parallel).grad(0.4307, p),
                               interpret(grad(f), 0.4307, p), rtol=1e-12)
