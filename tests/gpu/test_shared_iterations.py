"""Loops within loops: if the outer one has few iterations, several threads share each of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jitad import grad, jit, vmap
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import compare, compiled
from tests.gpu.running import OnDevice

pytestmark = pytest.mark.any_level

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


@pytest.mark.slow
def test_inner_loops() -> None:
    for fun, shapes in ((stencil, ((3, 2), (2, 300), (40, 5))), (triangle, ((1, 1), (40, 40), (140, 140)))):
        case = compiled(fun, np.ones((4, 4)))
        assert SHARED in case.program.plan()
        for order, shape in enumerate(shapes):
            given = [RNG.uniform(0.2, 3, shape)]
            compare(dataclasses.replace(case, given=given), SimulatedDriver(checked=True, order=order))
    slope = compiled(grad(lambda x: (triangle(x) ** 2).sum()), np.ones((4, 4)))
    compare(dataclasses.replace(slope, given=[RNG.normal(size=(40, 40))]), SimulatedDriver(checked=True))


@pytest.mark.slow
def test_rows_of_rows() -> None:
    """``vmap`` of ``vmap`` stores where the results belong; so does a row that is made first, if it is as long."""
    def halved(x: float, most: float) -> float:
        while x > most:
            x *= 0.5
        return x

    def nested(x: Any, most: Any) -> Any:
        both = vmap(vmap(halved, (0, None)), (0, 0))(x, most)
        return both, vmap(vmap(lambda v: np.stack((v, v * v))))(x), vmap(vmap(vmap(halved, (None, 0)), (0, None)))(
            x, np.stack((most, most + 1), axis=1))

    def rows(x: Any, longer: int) -> Any:
        out = np.zeros((x.shape[0], x.shape[1] + longer))
        for i in range(len(x)):
            row = np.empty(x.shape[1])
            for j in range(x.shape[1]):
                row[j] = x[i, j] * 2
            out[i] = row
        return out
    case = compiled(nested, np.ones((4, 4)), np.ones(4))
    assert case.program.plan().count(SHARED) == 3
    for order, (n, m) in enumerate(((1, 1), (3, 140), (40, 5))):
        given = [RNG.uniform(0.2, 3, (n, m)), RNG.uniform(0.5, 2, n)]
        for found, want in zip(OnDevice(jit(nested, target="cuda-sim"))(*given), jit(nested)(*given)):
            np.testing.assert_array_equal(found, want)
        compare(dataclasses.replace(case, given=given), SimulatedDriver(checked=True, order=order))
    on_device, x = OnDevice(jit(rows, target="cuda-sim")), RNG.normal(size=(40, 5))
    np.testing.assert_array_equal(on_device(x, 0), 2 * x)
    for longer in (3, -3):
        with pytest.raises(ValueError, match="broadcast"):
            on_device(x, longer)


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
