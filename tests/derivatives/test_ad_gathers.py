"""Elements at indices that are data are loaded again from an array that is saved once, if a step passes over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

EDGES = np.random.default_rng(0).integers(-9, 9, (30, 2))


def network(x: Any) -> float:
    """The ends of edges; the step replaces all elements."""
    p, total = x.copy(), 0.0
    for _step in range(4):
        f = np.zeros(len(p))
        for e in range(len(EDGES)):
            a, b = EDGES[e, 0], EDGES[e, 1]
            f[a] += p[a] * p[b]
            f[b] += p[a] * p[a] * p[b]
        for i in range(len(p)):
            p[i] = 0.9 * p[i] - 0.01 * f[i] * p[i]
    for i in range(len(p)):
        total += p[i]
    return total


def few(x: Any) -> float:
    """A step that changes some elements only, as many as it reads."""
    p, total = x.copy(), 0.0
    for _step in range(4):
        for e in range(len(EDGES)):
            a, b = EDGES[e, 0], EDGES[e, 1]
            total += p[a] * p[b]
        p[EDGES[0, 0]] *= 0.5
    return total


def changed_among_them(x: Any) -> float:
    """The loop over the edges changes what it reads."""
    p, total = x.copy(), 0.0
    for _step in range(3):
        for e in range(len(EDGES)):
            a, b = EDGES[e, 0], EDGES[e, 1]
            p[a] += 0.1 * p[a] * p[b]
        for i in range(len(p)):
            p[i] = 0.5 * p[i] * p[i]
    for i in range(len(p)):
        total += p[i]
    return total


def rows(x: Any) -> float:
    """Rows of a table at an index, all of which the step reads in order."""
    t, total = np.stack((x, 0.5 * x, x * x)), 0.0
    n, m = t.shape
    for _step in range(3):
        for e in range(len(EDGES)):
            for k in range(m):
                total += t[EDGES[e, 0] % n, k] ** 2 * t[EDGES[e, 1] % n, (k + e) % m]
        for i in range(n):
            for k in range(m):
                t[i, k] = 0.7 * t[i, k] * t[i, k]
    return total


def saved(f: Callable[[Any], float], x: Any) -> int:
    """The stores of forward values in loops."""
    g = jit(f, grad=True)
    g.value_and_grad(x)
    lines = g.value_and_grad.inspect("adjoint", x).splitlines()
    return sum("= set %frames" in line.replace("  %", "%") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("f", [network, few, changed_among_them, rows])
def test_gradients(f: Callable[[Any], float]) -> None:
    x = np.random.default_rng(1).normal(size=9)
    assert jit(f)(x) == pytest.approx(f(x), rel=1e-12)
    check_grads(jit(f), (x,), order=1, modes=("rev",))


@pytest.mark.parametrize("f, stores", [(network, 1), (few, 2), (changed_among_them, 3)])
def test_the_array_is_saved_and_not_what_is_read(f: Callable[[Any], float], stores: int) -> None:
    """Of the network, what its last loop reads; of the others, what the loop over the edges reads as well."""
    assert saved(f, np.ones(9)) == stores
