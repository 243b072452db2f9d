"""Tables that a nest fills behind their first rows and columns: right values and derivatives, and no pass of zeros."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, spec

RNG = np.random.default_rng(0)


def edits(x: Any, y: Any, w: Any) -> Any:
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        d[i, 0] = i * w[0]
    for j in range(1, m + 1):
        d[0, j] = j * w[1]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = min(d[i - 1, j] + w[0], d[i, j - 1] + w[1], d[i - 1, j - 1] + (x[i - 1] - y[j - 1]) ** 2)
    return d[n, m]


def warping(x: Any, y: Any, w: Any) -> Any:
    """A bound everywhere, and one element replaced."""
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), 1e6)
    d[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = abs(x[i] - y[j]) * w[0] + min(d[i, j], min(d[i, j + 1], d[i + 1, j]))
    return d[n, m] * w[1]


def chained(x: Any, y: Any, w: Any) -> Any:
    """The first column follows from its own elements."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    for i in range(n):
        d[i + 1, 0] = d[i, 0] * w[0] + x[i]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = 0.5 * d[i, j + 1] + w[1] * d[i + 1, j] * y[j]
    return np.sum(d * d)


def renewal(x: Any, y: Any, w: Any) -> Any:
    """In one dimension, behind a branch."""
    n = len(x)
    f = np.zeros(n + 1)
    if w[1] > 0.0:
        f[0] = w[0]
    for i in range(n):
        f[i + 1] = f[i] * w[1] + x[i]
    return np.sum(f * f)


FILLED: list[Callable[..., Any]] = [edits, warping, chained, renewal]


def sums(x: Any, y: Any, w: Any) -> Any:
    """Adds to the zeros."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    d[0, 0] = w[0]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] += d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def ahead(x: Any, y: Any, w: Any) -> Any:
    """Reads zeros of the next row."""
    n, m = len(x), len(y)
    d = np.zeros((n + 2, m + 1))
    d[0, 0] = w[0]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = d[i, j] * x[i] + y[j] + d[i + 2, j + 1]
    return np.sum(d * d)


def read_before(x: Any, y: Any, w: Any) -> Any:
    """Adds to elements of the box, and reads one, ahead of the nest."""
    n, m = len(x), len(y)
    d = np.zeros((n + 2, m + 2))
    for i in range(n):
        d[int(abs(x[i])) % (n + 1), 1] += y[0] if m > 0 else 1.0
    d[0, 0] = w[0] + d[n, 1]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def read_behind(x: Any, y: Any, w: Any) -> Any:
    """The zeros are read behind the nest as well."""
    n, m = len(x), len(y)
    zeros = np.zeros((n + 1, m + 1))
    d = zeros.copy()
    d[0, 0] = w[0]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d) + np.sum(zeros * w[1])


def sometimes(x: Any, y: Any, w: Any) -> Any:
    """The nest may be skipped."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    d[0, 0] = w[0]
    if w[1] > 0.0:
        for i in range(n):
            for j in range(m):
                d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def left(x: Any, y: Any, w: Any) -> Any:
    """The nest may end early."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    d[0, 0] = w[0]
    for i in range(n):
        if x[i] > 1.0:
            break
        for j in range(m):
            d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def conditional(x: Any, y: Any, w: Any) -> Any:
    """Not all elements are replaced."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    d[0, 0] = w[0]
    for i in range(n):
        for j in range(m):
            if x[i] * y[j] > 0.0:
                d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def stepped(x: Any, y: Any, w: Any) -> Any:
    """The table is read by the next step, which fills it again."""
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    for _ in range(3):
        d[0, 0] += w[0] + d[n, m]
        for i in range(n):
            for j in range(m):
                d[i + 1, j + 1] = d[i, j] * x[i] + y[j]
    return np.sum(d * d)


def fresh_in_a_loop(x: Any, y: Any, w: Any) -> Any:
    """A table for each step; the last one of the step before is read ahead of the nest."""
    n, m = len(x), len(y)
    total, last = 0.0, np.zeros((n + 1, m + 1))
    for _ in range(3):
        d = np.zeros((n + 1, m + 1))
        d[0, 0] = w[0] + last[n, m]
        for i in range(n):
            for j in range(m):
                d[i + 1, j + 1] = d[i, j] * x[i] + y[j] * w[1]
        total += np.sum(d * d)
        if total > 50.0:
            break
        last = d
    return total


def shorter(x: Any, y: Any, w: Any) -> Any:
    """The nest does not reach the last rows and columns."""
    n, m = len(x), len(y)
    d = np.full((n + 3, m + 2), 0.25)
    d[0, 0] = w[0]
    for i in range(n):
        for j in range(m):
            d[i + 1, j + 1] = d[i, j] * x[i] + y[j] * w[1]
    return np.sum(d * d)


REFUSED: list[Callable[..., Any]] = [sums, ahead, read_before, sometimes, left, conditional, stepped]
SIZES = [(5, 7), (4, 3), (1, 5), (6, 1), (0, 3), (3, 0), (0, 0)]
EVERY = [*FILLED, *REFUSED, read_behind, fresh_in_a_loop, shorter]


@pytest.mark.parametrize("f", EVERY)
def test_values_are_right(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for n, m in SIZES:
        args = RNG.normal(size=n), RNG.normal(size=m), np.array([0.75, RNG.normal()])
        assert compiled(*args) == pytest.approx(f(*args), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("f", EVERY)
def test_values_and_derivatives_are_right(f: Callable[..., Any], size: tuple[int, int]) -> None:
    n, m = size
    compiled = jit(f, grad=(0, 1, 2))
    for seed in range(2):                                  # memory of an earlier call is not that of the next one
        rng = np.random.default_rng(seed)
        args = rng.normal(size=n), rng.normal(size=m), np.array([0.75, rng.normal()])
        value, gradients = compiled.value_and_grad(*args)
        assert value == pytest.approx(interpret(f, *args), rel=1e-12)
        for got, want in zip(gradients, interpret(grad(f, argnums=(0, 1, 2)), *args)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)
    if n and m and f is not warping:
        check_grads(f, args, order=1)


def starts(f: Callable[..., Any]) -> list[str]:
    """The arrays that begin without values, by the numbers of axes."""
    text = jit(f).inspect("optimized", spec("f64[:]"), spec("f64[:]"), spec("f64[:]"))
    return re.findall(r"= empty .*: f64\[(\?(?:, \?)*)\]", text)


@pytest.mark.parametrize("f", [*FILLED, shorter])
def test_a_table_begins_without_what_the_nest_fills(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = starts(f)
    monkeypatch.setenv("JITAD_WITHOUT", "table_starts,covered_boxes")
    assert len(found) > len(starts(f))


@pytest.mark.parametrize("f", REFUSED)
def test_a_table_that_needs_its_start_keeps_it(f: Callable[..., Any]) -> None:
    assert not starts(f)
