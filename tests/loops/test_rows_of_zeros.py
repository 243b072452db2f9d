"""Arrays of zeros of which each element is written before it is read: they are not cleared, and no others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def row_by_row(x: Any, w: Any) -> float:
    """The adjoint of ``x`` is first stored row by row, then added to."""
    total = 0.0
    for i in range(x.shape[0]):
        mean = 0.0
        for j in range(x.shape[1]):
            mean += x[i, j]
        spread = 0.0
        for j in range(x.shape[1]):
            spread += (x[i, j] - mean) ** 2
        total += w[i] * mean / (1.0 + spread)
    return total


def filled(x: Any, w: Any) -> float:
    """A program fills a matrix of zeros; a row is read once it is complete."""
    y = np.zeros(x.shape)
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = w[i] * x[i, j]
        for j in range(x.shape[1]):
            total += y[i, j] * y[i, 0]
    return total + y[0, 0]


def blocks(x: Any, w: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j, 0]
            for k in range(x.shape[2]):
                total += w[i] * x[i, j, k] * x[i, j, k]
    return total


def triangle(x: Any, w: Any) -> float:
    """Part of a row is not reached."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(min(i, x.shape[1])):
            total += w[i] * x[i, j] ** 2
    return total


def sometimes(x: Any, w: Any) -> float:
    """Not all rows are reached."""
    total = 0.0
    for i in range(x.shape[0]):
        if w[i] > 0.0:
            for j in range(x.shape[1]):
                total += w[i] * x[i, j] ** 2
    return total


def others(x: Any, w: Any) -> float:
    """An iteration reads another row, which may not have been written."""
    y = np.zeros(x.shape)
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = w[i] * x[i, j]
        for j in range(x.shape[1]):
            total += y[i, j] * y[x.shape[0] - 1 - i, j]
    return total


def before(x: Any, w: Any) -> float:
    """A row is read, or has an element added to, before it is filled."""
    y = np.zeros(x.shape)
    z = np.zeros(x.shape)
    total = 0.0
    for i in range(x.shape[0]):
        if w[i] > 0.0:
            total += y[i, 0] + 1.0
            z[i, 0] += w[i]
        for j in range(x.shape[1]):
            y[i, j] = w[i] * x[i, j]
            z[i, j] += y[i, j]
        total += y[i, 0] * z[i, 0]
    return total


def turned(x: Any, w: Any) -> float:
    """Columns outside, rows from the last to the first."""
    total = 0.0
    for j in range(x.shape[1]):
        for i in range(x.shape[0] - 1, -1, -1):
            total += w[i] * x[i, j] ** 3
    return total


def label(x: Any, w: Any) -> float:
    """The elements that are read behind the loop have their cotangents first."""
    total = 0.0
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[1]):
            s += math.exp(x[i, j])
        total += w[i] * (math.log(s) - x[i, i % x.shape[1]] - x[i, -1] * x[i, 0])
    return total


def label_read_twice(x: Any, w: Any) -> float:
    """What was added before the inner loop is read there."""
    y = np.zeros(x.shape)
    total = 0.0
    for i in range(x.shape[0]):
        y[i, 0] += w[i]
        for j in range(x.shape[1]):
            y[i, j] += x[i, j] * y[i, 0]
        total += y[i, 0] * y[i, x.shape[1] - 1]
    return total


def overwritten(x: Any, w: Any) -> float:
    y = np.zeros(x.shape)
    total = 0.0
    for i in range(x.shape[0]):
        y[i, 0] += w[i]
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * w[i]
        total += y[i, 0] * y[i, x.shape[1] - 1]
    return total


def fewer(x: Any, w: Any) -> float:
    """The last rows may not be reached, as ``w`` may be shorter."""
    total = 0.0
    for i in range(len(w)):
        for j in range(x.shape[1]):
            total += w[i] * x[i, j] ** 2
        total -= x[i, 0]
    return total


PROGRAMS = [fewer, label, label_read_twice, overwritten, row_by_row, filled, blocks, triangle, sometimes, others,
            before, turned]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    compiled = jit(f, grad=(0, 1))
    for rows, columns in ((1, 1), (5, 3), (3, 5), (19, 18)):
        x = rng.normal(size=(rows, columns, 4) if f is blocks else (rows, columns))
        w = rng.normal(size=rows // 2 + 1 if f is fewer else rows)
        value, grads = compiled.value_and_grad(x, w)
        assert value == pytest.approx(f(x, w), rel=1e-12, abs=1e-12)
        step = [rng.normal(size=g.shape) for g in grads]
        ahead, behind = (f(x + t * step[0], w + t * step[1]) for t in (1e-6, -1e-6))
        slope = sum(float(np.sum(g * d)) for g, d in zip(grads, step))
        assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-7)
    if f is not before and f is not sometimes:
        check_grads(f, (rng.normal(size=(3, 4, 2) if f is blocks else (3, 4)), rng.normal(size=3)), order=1)


@pytest.mark.parametrize("f, cleared", [(row_by_row, False), (label, False), (blocks, False), (turned, False),
                                        (triangle, True), (sometimes, True)],
                         ids=lambda v: getattr(v, "__name__", str(v)))
def test_what_is_cleared(f: Callable[..., float], cleared: bool) -> None:
    """``turned`` fills columns, all of them and of all rows: the sizes are those of the loops in both sweeps."""
    rank = 3 if f is blocks else 2
    text = str(jit(f, grad=0).grad.inspect("optimized", np.ones((5, 4, 3)[:rank]), np.ones(5)))
    nest = [line for block in text.split("\n\n") if "skip" not in block.split("(")[0] for line in block.split("\n")]
    assert any(" = fill " in line and line.endswith(f"f64[{', '.join('?' * rank)}]") for line in nest) == cleared
