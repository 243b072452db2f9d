"""Loops over windows that are cut off at the ends: the same values for all lengths and windows, right derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit

RNG = np.random.default_rng(0)


def by_tests(x: Any, w: Any, h: int) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        a = 0.0
        for k in range(len(w)):
            j = i + k - h
            if j >= 0 and j < len(x):
                a += w[k] * x[j]
        out[i] = a
    return out


def bounded(x: Any, w: Any, h: int) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(max(0, h - i), min(len(w), len(x) + h - i)):
            out[i] += w[k] * x[i + k - h]
    return out


def nearest(x: Any, w: Any, h: int) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        a = w[0]
        for k in range(len(w)):
            a += w[k] * x[min(max(i + k - h, 0), len(x) - 1)]
        out[i] = a * x[i]
    return out


def mean(x: Any, w: Any, h: int) -> Any:
    """The window's length is the distance of its ends."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        low, high = max(0, i - h), min(len(x), i + h + 1)
        s = 0.0
        for j in range(low, high):
            s += x[j]
        out[i] = s / (high - low) if high > low else w[0]
    return out


def whiles(x: Any, w: Any, h: int) -> Any:
    """The window has two ends, which are tested each time, and before the first."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        s, j = w[0], max(0, i - h)
        while j < len(x) and j <= i + h:
            s += x[j] * (j - i)
            j += 1
        out[i] = s
    return out


def lags(x: Any, w: Any, h: int) -> Any:
    """One end only; the other is always there."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        s = w[0]
        for k in range(min(i, len(w))):
            s += w[k] * x[i - k - 1]
        out[i] = s
    return out


def ahead(x: Any, w: Any, h: int) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        s = 0.0
        for j in range(i, min(i + h, len(x))):
            s += x[j] * x[i]
        out[i] = s
    return out


def backwards(x: Any, w: Any, h: int) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x) - 1, -1, -1):
        s = 0.0
        for k in range(len(w)):
            if 0 <= i - k + h < len(x):
                s = s * 0.5 + w[k] * x[i - k + h]
        out[i] = s
    return out


def around(x: Any, w: Any, h: int) -> Any:
    """Remainders that are negative, or as large as the length, before they are taken."""
    n, out = len(x), np.zeros(len(x))
    for i in range(n):
        s = 0.0
        for k in range(len(w)):
            s += w[k] * x[(i - k + n) % n] - x[(i + k) % n]
        out[i] = s
    return out


def shifted(x: Any, w: Any, h: int) -> Any:
    """No loop inside."""
    n, out = len(x), np.zeros(len(x))
    for i in range(n):
        out[i] = x[(i + h) % n] * w[0] - x[(i - 2 + n) % n] * x[(i + 2) % n]
    return out


def pulled(x: Any, w: Any, h: int) -> Any:
    n, out = len(x), np.zeros(len(x))
    for i in range(n):
        out[i] = x[min(max(i + h, 0), n - 1)] * w[1] - x[max(i - 3, 0)]
    return out


def triangle(x: Any, w: Any, h: int) -> Any:
    """Rows of which none is whole."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        s = 0.0
        for j in range(len(x)):
            if j > i:
                s += x[j] * w[0]
            elif j + h < i:
                s -= x[j] * w[1]
        out[i] = s
    return out


def image(x: Any, w: Any, h: int) -> Any:
    """Windows of two axes, cut off at four borders, and unrolled."""
    n = len(x)
    picture = x.reshape(n, 1) * np.ones(20)
    out = np.zeros((n, 20))
    for i in range(n):
        for j in range(20):
            a = 0.0
            for p in range(-1, 2):
                for q in range(-1, 2):
                    if 0 <= i + p < n and 0 <= j + q < 20:
                        a += picture[i + p, j + q] * w[q + 1]
            out[i, j] = a
    return out.reshape(-1)


PROGRAMS = [by_tests, bounded, nearest, mean, whiles, lags, ahead, backwards, around, shifted, pulled, triangle, image]


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 30):
        for m in (3, 4, 7, 12):
            for h in (0, 1, 2, m // 2, m, -1, -3, 20):
                x, w = RNG.normal(size=n), RNG.normal(size=m)
                np.testing.assert_allclose(compiled(x, w, h), f(x, w, h), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("f", [by_tests, bounded, nearest, mean, whiles, pulled], ids=lambda f: f.__name__)
def test_nothing_wraps(f: Callable[..., Any]) -> None:
    """With integers near the ends of their range all windows are empty, or of one element."""
    compiled = jit(f)
    x, w = RNG.normal(size=9), RNG.normal(size=3)
    for h in (2**40, 2**40 + 1, 2**62, -2**40, -2**62):
        np.testing.assert_allclose(compiled(x, w, h), f(x, w, h), rtol=1e-13)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any]) -> None:
    def total(x: Any, w: Any, h: int) -> Any:
        out = f(x, w, h)
        return np.sum(out * out * out)
    compiled = jit(total, grad=(0, 1))
    for n, m, h in ((3, 3, 1), (4, 7, 3), (20, 5, 2), (33, 4, 0), (21, 3, 5)):
        x, w = RNG.normal(size=n), RNG.normal(size=m)
        for got, want in zip(compiled.grad(x, w, h), interpret(grad(total, argnums=(0, 1)), x, w, h), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    check_grads(compiled, (RNG.normal(size=12), RNG.normal(size=3), 2), order=1)


@pytest.mark.parametrize("f", PROGRAMS[:9], ids=lambda f: f.__name__)
def test_the_interior_has_windows_of_one_length(f: Callable[..., Any]) -> None:
    """Its iterations are lanes."""
    text = jit(f).inspect("optimized", np.ones(40), np.ones(3), 1)
    assert re.search(r"f64\[(\?, )?(8|16|32)(, \?)?\]", text)


@pytest.mark.parametrize("f", [shifted, pulled], ids=lambda f: f.__name__)
def test_an_index_inside_is_neither_moved_nor_wrapped(f: Callable[..., Any]) -> None:
    text = jit(f).inspect("loops", np.ones(40), np.ones(3), 1)
    loops = re.findall(r"^ +(?:%\d+ = )?for .*?^ +}", text, re.MULTILINE | re.DOTALL)
    assert any(not re.search("mod|maximum|minimum", loop) and loop.count("load") > 1 for loop in loops)
