"""Loops within loops: if the outer one has few iterations, several threads share each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jitad import grad
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import compare, compiled

RNG = np.random.default_rng(9)
SHARED = "if there are few, 128 threads for each iteration"


def stencil(x: Any) -> Any:
    """Control flow in the inner loop; what stands before it is for all of the row."""
    n, m = x.shape
    out = np.zeros((n, m))
    for i in range(n):
        weight = np.exp(-x[i, 0] ** 2)
        for j in range(1, m - 1):
            v = weight * (x[i, j - 1] + x[i, j + 1])
            while v > 1.0:
                v *= 0.5
            out[i, j] = v
    return out


def triangle(x: Any) -> Any:
    """Each row has another length, some have none."""
    n = len(x)
    out = np.ones((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = x[i, j] - x[j, i]
    return out


def test_inner_loops() -> None:
    for fun, shapes in ((stencil, ((3, 2), (2, 300), (40, 5))), (triangle, ((1, 1), (40, 40), (140, 140)))):
        case = compiled(fun, np.ones((4, 4)))
        assert SHARED in case.program.plan()
        for order, shape in enumerate(shapes):
            given = [RNG.uniform(0.2, 3, shape)]
            compare(dataclasses.replace(case, given=given), SimulatedDriver(checked=True, order=order))
    slope = compiled(grad(lambda x: (triangle(x) ** 2).sum()), np.ones((4, 4)))
    compare(dataclasses.replace(slope, given=[RNG.normal(size=(40, 40))]), SimulatedDriver(checked=True))


def test_indices_out_of_bounds() -> None:
    """Of several threads that fail, one tells."""
    def gathered(x: Any, index: Any) -> Any:
        out = np.zeros((len(x), len(index)))
        for i in range(len(x)):
            for j in range(len(index)):
                out[i, j] = x[i, index[j]]
        return out
    case = compiled(gathered, np.ones((4, 4)), np.zeros(4, np.int64))
    assert SHARED in case.program.plan()
    for last in (3, 4):
        index = np.append(RNG.integers(-4, 4, 150), last)
        compare(dataclasses.replace(case, given=[RNG.normal(size=(3, 4)), index]), SimulatedDriver(checked=True))


def test_iterations_that_are_not_shared() -> None:
    """The row is read or written outside of the inner loop, or its sum is carried, or it is in order."""
    def before(x: Any) -> Any:
        out = x.copy()
        for i in range(len(x)):
            out[i, 0] += 1.0
            for j in range(1, x.shape[1]):
                out[i, j] = x[i, j] * 2
        return out

    def after(x: Any) -> Any:
        out, last = x.copy(), np.zeros(len(x))
        for i in range(len(x)):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * 2
            last[i] = out[i, 0]
        return out, last

    def ordered(x: Any) -> Any:
        out = x.copy()
        for i in range(len(x)):
            for j in range(1, x.shape[1]):
                out[i, j] = np.sin(out[i, j - 1]) + x[i, j]
        return out
    for fun in (before, after, ordered):
        case = compiled(fun, np.ones((4, 4)))
        assert SHARED not in case.program.plan()
        compare(dataclasses.replace(case, given=[RNG.normal(size=(40, 7))]), SimulatedDriver(checked=True))
