"""What the iteration before has computed of a neighbour is carried."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def fluxes(u: Any, c: float) -> Any:
    """A function that a loop calls for either side of a cell."""
    def flux(i: int) -> Any:
        return (u[i + 1] - u[i]) / math.sqrt(u[i] * u[i] + u[i + 1] * u[i + 1] + c)
    new = u.copy()
    for i in range(1, len(u) - 1):
        new[i] += flux(i) - flux(i - 1)
    return new


def three(u: Any, c: float) -> Any:
    """Three in a row: what has been carried is carried on."""
    s = 0.0
    for i in range(1, len(u) - 1):
        s += math.sqrt(u[i - 1] + c) - 2.0 * math.sqrt(u[i] + c) + math.sqrt(u[i + 1] + c) * u[i]
    return s


def downwards(u: Any, c: float) -> Any:
    s = 0.0
    for i in range(len(u) - 2, -1, -1):
        s += c / (u[i] + 2.0) - u[0] * (c / (u[i + 1] + 2.0))
    return s


def counters(u: Any, c: float) -> Any:
    """Of the counter itself, and of its double: only the first is what it was in the iteration before."""
    s = 0.0
    for i in range(len(u)):
        s += c / (i + 1.0) * u[i] + c / (i + 2) - c / (2 * i + 3) + c / (2 * i + 1)
    return s


def in_place(u: Any, c: float) -> Any:
    """An array that the loop updates: what is read at a neighbour is not what the iteration before has read."""
    u = u.copy()
    for i in range(1, len(u) - 1):
        u[i] = c / (u[i + 1] + 2.0) + c / (u[i] + 2.0) + c / (u[i - 1] + 2.0)
    return u


PROGRAMS: list[Callable[..., Any]] = [fluxes, three, downwards, counters, in_place]
U = np.abs(np.random.default_rng(7).normal(1.0, 0.5, 21))


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS)
def test_agrees_with_python_and_the_interpreter(f: Callable[..., Any]) -> None:
    jitted = jit(f)
    for n in (2, 3, 4, 21):
        np.testing.assert_allclose(jitted(U[:n], 0.7), f(U[:n], 0.7), rtol=1e-13)
        np.testing.assert_allclose(interpret(f, U[:n], 0.7), f(U[:n], 0.7), rtol=1e-13)
    check_grads(jit(lambda u, c: np.sum(f(u, c) ** 2)), (U, 0.7), order=1)


@pytest.mark.parametrize("f, op, number", [(fluxes, "sqrt", 1), (three, "sqrt", 1), (downwards, "div", 1),
                                           (in_place, "div", 2)])
def test_each_iteration_computes_it_once(f: Callable[..., Any], op: str, number: int) -> None:
    """In the version of a loop without checks, which comes first; what the iteration before has stored is another."""
    text = jit(f).inspect("optimized", U, 0.7)
    inside = next(block for block in text.split("\n\n") if block.startswith("^loop") and f" = {op} " in block)
    assert inside.count(f" = {op} ") == number
