"""Packed structures and panels of rows: values, gradients, sizes that do not fit, what is left in the IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def pairs(p: Any, w: Any, n: int) -> float:
    """Reads columns 0 and 2 of the points behind each one, and of the first ``n``."""
    total = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            total += (p[i, 0] - p[j, 0]) * p[j, 2] * w[i]
        for j in range(n):
            total += w[i] * p[j, 0] * p[j, 0]
    return total


def steps(a: Any, v: Any, n: int) -> float:
    """Multiplies a block of a matrix with a vector again and again, and stops where that is small."""
    x = v.copy()
    size = 0.0
    for _ in range(n):
        y = np.zeros(len(v))
        size = 0.0
        for i in range(len(v)):
            s = 0.0
            for j in range(len(v)):
                s += a[i, j] * x[j]
            y[i] = s
            size += s * s
        if size < 0.2:
            break
        x = y
    return size


def sheared(a: Any, v: Any, n: int) -> float:
    """The index of the row depends on the loop that repeats the products, so the matrix stays as it is."""
    total = 0.0
    for t in range(n):
        for i in range(len(v)):
            s = 0.0
            for j in range(len(v)):
                s += a[i + t, j] * v[j]
            total += s * s
    return total


def copies(f: Callable[..., float], *args: Any) -> int:
    return str(jit(f).inspect("optimized", *args)).count(" = copy ")


@pytest.mark.slow
def test_structures() -> None:
    rng = np.random.default_rng(0)
    compiled = jit(pairs, grad=(0, 1))
    for rows, columns, n in ((1, 3, 1), (20, 3, 20), (20, 3, 7), (17, 9, 0), (0, 3, 0), (40, 3, -2)):
        p, w = rng.normal(size=(rows, columns)), rng.normal(size=rows)
        assert compiled(p, w, n) == pytest.approx(pairs(p, w, n), rel=1e-12, abs=1e-12)
    p, w = rng.normal(size=(7, 3)), rng.normal(size=7)
    check_grads(pairs, (p, w, 5), order=1)
    assert copies(pairs, p, w, 5) >= 2


@pytest.mark.slow
@pytest.mark.long
def test_rows() -> None:
    rng = np.random.default_rng(1)
    compiled = jit(steps, grad=(0, 1))
    for n in (0, 1, 5, 20, 37):
        a, v = 0.2 * rng.normal(size=(n + 3, n + 1)), rng.normal(size=n)
        for count in (0, 1, 9):
            assert compiled(a, v, count) == pytest.approx(steps(a, v, count), rel=1e-12, abs=1e-12)
    a, v = 0.3 * rng.normal(size=(19, 18)), rng.normal(size=18)
    check_grads(steps, (a, v, 3), order=1)
    assert "panels" in str(jit(steps).inspect("optimized", a, v, 3))


def gates(u: Any, b: Any, h0: Any, n: int) -> float:
    """Two rows of one matrix for each state, and columns that begin with the second one."""
    h = h0.copy()
    size, total = len(h0), 0.0
    for _ in range(n):
        new = np.zeros(size)
        for i in range(size):
            gate, state = b[i], b[size + i]
            for k in range(size):
                gate += u[i, k + 1] * h[k]
                state += u[size + i, k + 1] * h[k]
            new[i] = np.tanh(state) / (1.0 + np.exp(-gate))
            total += new[i] * new[i]
        h = new
    return total


@pytest.mark.slow
@pytest.mark.parametrize("fastmath", [False, True])
def test_rows_of_gates(fastmath: bool) -> None:
    rng = np.random.default_rng(3)
    compiled = jit(gates, grad=(0, 1, 2), fastmath=fastmath)
    for n in (0, 7, 16, 21):
        args = 0.3 * rng.normal(size=(2 * n, n + 2)), rng.normal(size=2 * n), rng.normal(size=n), 5
        value, grads = compiled.value_and_grad(*args)
        assert value == pytest.approx(gates(*args), rel=1e-12, abs=1e-12)
        step = [rng.normal(size=g.shape) for g in grads]
        ahead, behind = (gates(*(x + t * d for x, d in zip(args, step)), 5) for t in (1e-6, -1e-6))
        slope = sum(float(np.sum(g * d)) for g, d in zip(grads, step))
        assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-6, abs=1e-8)
    assert str(compiled.inspect("optimized", *args)).count("^fill") >= 2


def test_windows_over_rows_stay() -> None:
    rng = np.random.default_rng(2)
    a, v = rng.normal(size=(30, 20)), rng.normal(size=20)
    assert jit(sheared)(a, v, 5) == pytest.approx(sheared(a, v, 5), rel=1e-12)
    assert "panels" not in str(jit(sheared).inspect("optimized", a, v, 5))


@pytest.mark.parametrize("f, args", [
    (pairs, (np.ones((5, 2)), np.ones(5), 3)),                  # no column 2
    (pairs, (np.ones((5, 3)), np.ones(5), 6)),                  # more points than there are
    (pairs, (np.ones((5, 3)), np.ones(4), 2)),
    (steps, (np.ones((20, 20)), np.ones(21), 3)),
    (steps, (np.ones((21, 20)), np.ones(21), 3)),
    (sheared, (np.ones((22, 20)), np.ones(20), 4)),
    (gates, (np.ones((39, 22)), np.ones(40), np.ones(20), 3)),
    (gates, (np.ones((40, 20)), np.ones(40), np.ones(20), 3)),
])
def test_indices_that_are_out_of_bounds(f: Callable[..., float], args: tuple[Any, ...]) -> None:
    with pytest.raises(IndexError) as expected:
        f(*args)
    with pytest.raises(IndexError) as found:
        jit(f)(*args)
    assert str(found.value) == str(expected.value)
