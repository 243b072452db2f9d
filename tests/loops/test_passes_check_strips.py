"""Loops whose data-dependent indices are tested beforehand: the same values, and the same exceptions."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from jitad import jit

RNG = np.random.default_rng(3)
X = RNG.normal(size=40)
W = RNG.uniform(0.5, 1.5, 700)
AT = RNG.integers(-39, 40, 700)


def poisson(x: Any, at: Any, w: Any) -> float:
    s = 0.0
    for k in range(len(at)):
        m = x[at[k]]
        s += w[k] * m - math.exp(m)
    return s


def logistic(x: Any, at: Any, w: Any) -> float:
    s = 0.0
    for k in range(len(w)):
        s += math.log(1.0 + math.exp(-w[k] * x[at[k]] + x[at[k] - 1]))
    return s


def scattered(x: Any, at: Any, w: Any) -> float:
    y = np.zeros(len(x))
    for k in range(len(at)):
        y[at[k]] += math.exp(-x[at[k]] * w[k])
    return np.sum(y * y)


def serial(x: Any, at: Any, w: Any) -> float:
    s = 1.0
    for k in range(len(at)):
        s = 0.9 * s * math.cos(x[at[k]]) + w[k]
    return s


def stored(x: Any, at: Any, w: Any) -> float:
    y = np.zeros(len(at))
    for k in range(1, len(at)):
        y[k] = math.sin(x[at[k - 1]]) * w[k]
    return np.dot(y, y)


def roots(x: Any, at: Any, w: Any) -> float:
    """A float is checked in the same iterations."""
    s = 0.0
    for k in range(len(at)):
        s += math.log(w[k]) * x[at[k]]
    return s


def either(x: Any, at: Any, w: Any) -> float:
    """A float is checked on the side that is taken."""
    s = 0.0
    for k in range(len(at)):
        m = math.exp(x[at[k]])
        if w[k] > 1.0:
            s += math.log(m + w[k])
        else:
            s += math.log(w[k] / m)
    return s


PROGRAMS = [poisson, logistic, scattered, serial, stored, roots, either]


def texts(f: Any, *args: Any) -> str:
    f(*args)
    text: str = f.inspect("optimized", *args)
    return text


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("at", [AT % 40, AT], ids=["from the start", "from the end too"])
def test_values_and_gradients(program: Any, at: Any) -> None:
    assert "^indices(" in texts(jit(program), X, at, W)
    assert jit(program)(X, at, W) == pytest.approx(program(X, at, W), rel=1e-12)
    slopes = jit(program, grad=(0, 2)).grad(X, at, W)
    h = 1e-6
    for slope, place in zip(slopes, (0, 2)):
        step = RNG.normal(size=len((X, at, W)[place]))
        up, down = ([*(X, at, W)] for _ in range(2))
        up[place], down[place] = up[place] + h * step, down[place] - h * step
        assert slope @ step == pytest.approx((program(*up) - program(*down)) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 15, 16, 17])
def test_few_iterations(program: Any, n: int) -> None:
    """Fewer than it pays for are run as they were, with the same exceptions."""
    compiled = jit(program)
    at, w = AT[:n].copy(), W[:n]
    assert compiled(X, at, w) == pytest.approx(program(X, at, w), rel=1e-13)
    if n > 1:
        at[n // 2] = 40
        with pytest.raises(IndexError, match="index 40 is out of bounds"):
            compiled(X, at, w)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("k", [1, 40, 698])
@pytest.mark.parametrize("index", [40, -41, 2**63 - 1, -2**63 + 1])
def test_an_index_out_of_range(program: Any, k: int, index: int) -> None:
    at = AT % 40
    at[k] = index
    with pytest.raises(IndexError) as want:
        program(X, at, W)
    with pytest.raises(IndexError, match=re.escape(str(want.value))):
        jit(program)(X, at, W)


@pytest.mark.parametrize("program", [roots, either])
def test_the_first_failure_is_reported(program: Any) -> None:
    f = jit(program)
    for low, out in ((5, 9), (9, 5), (6, 6), (600, 5)):
        at, w = AT % 40, W.copy()
        w[low], at[out] = -1.0, 40
        with pytest.raises((ValueError, IndexError)) as want:
            program(X, at, w)
        with pytest.raises(want.type):
            f(X, at, w)


def test_an_index_array_that_is_too_short() -> None:
    """The elements of the index array that are read beforehand exist."""
    f = jit(logistic)
    for n in (0, 1, 699):
        with pytest.raises(IndexError, match=f"index {n} is out of bounds for axis 0 with size {n}"):
            f(X, AT[:n], W)
    at = AT[:20].copy()
    at[7] = 55
    with pytest.raises(IndexError, match="index 55 is out of bounds for axis 0 with size 40"):
        f(X, at, W)


def test_what_is_not_tested_ahead() -> None:
    def chained(x: Any, at: Any) -> float:
        s = 0.0
        for k in range(len(at)):
            s += math.exp(x[at[at[k]]])
        return s

    def updated(x: Any, at: Any) -> float:
        at = at.copy()
        s = 0.0
        for k in range(len(at)):
            s += math.exp(x[at[k]])
            at[(k + 7) % len(at)] = k % 3
        return s

    def short(x: Any, at: Any) -> float:
        s = 0.0
        for k in range(20):
            s += math.exp(x[at[k]])
        return s

    def cheap(x: Any, at: Any) -> float:
        s = 0.0
        for k in range(len(at)):
            s += x[at[k]]
        return s

    at = AT % 40
    for f in (chained, updated, short, cheap):
        compiled = jit(f)
        assert "^indices(" not in texts(compiled, X, at)
        assert compiled(X, at) == pytest.approx(f(X, at), rel=1e-12)


def rows(x: Any, at: Any, starts: Any) -> float:
    """The index array is read at an index that may be negative, too."""
    s = 0.0
    for i in range(len(starts) - 1):
        for k in range(starts[i], starts[i + 1]):
            s += math.exp(x[at[k]])
    return s


@pytest.mark.slow
def test_rows_of_an_index_array() -> None:
    f = jit(rows, grad=0)
    for starts in ([0, 100, 640, 700], [-30, -10, 0, 5], [0, 0, 0], [690, 720], [-701, -690], [3, 699, 701]):
        at, bounds = AT % 40, np.array(starts)
        assert "^indices(" in texts(f, X, at, np.array([0, 1]))
        try:
            want = rows(X, at, bounds)
        except IndexError as error:
            with pytest.raises(IndexError, match=re.escape(str(error))):
                f(X, at, bounds)
            continue
        assert f(X, at, bounds) == pytest.approx(want, rel=1e-12)
        slope = (rows(X + 1e-6, at, bounds) - rows(X - 1e-6, at, bounds)) / 2e-6
        assert np.sum(f.grad(X, at, bounds)) == pytest.approx(slope, rel=1e-6)
