"""Sums in a loop do not wait for products: their additions are not contracted, others are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def dot(x: Any, y: Any) -> float:
    s = 1.0
    for i in range(len(x)):
        s -= x[i] * y[i]
    return s


def horner(x: Any, y: Any) -> float:
    """The product depends on the carried value: with an addition it is one step instead of two."""
    s = 1.0
    for i in range(len(x)):
        s = s * y[0] + x[i]
    return s


def looked_at(x: Any, y: Any) -> float:
    """The summand depends on the sum."""
    s = 1.0
    for i in range(len(x)):
        s = s + x[i] * (y[i] if s > 0 else 2.0)
    return s


@pytest.mark.parametrize("f, apart", [(dot, True), (horner, False), (looked_at, False)])
def test_which_sums_stay_apart(f: Callable[..., float], apart: bool) -> None:
    x, y = np.linspace(-1.0, 2.0, 11), np.linspace(0.5, 1.5, 11)
    compiled = jit(f)
    assert compiled(x, y) == pytest.approx(f(x, y), rel=1e-14)
    sums = re.findall(r"= f(?:add|sub) ([a-z ]*)double", compiled.inspect("llvm").split("@jitad.entry")[0])
    assert sums and any("contract" not in flags for flags in sums) is apart
    assert jit(f, fastmath=True)(x, y) == pytest.approx(f(x, y), rel=1e-12)


def gathered(x: Any, y: Any, at: Any) -> float:
    s = 0.0
    for k in range(len(at)):
        s += x[k] * y[at[k]]
    return s


def much_besides(x: Any, y: Any, at: Any) -> float:
    s = 0.0
    for k in range(len(at)):
        s += math.sqrt(x[k] + 2.0) * y[at[k]]
    return s


def unchecked(x: Any, y: Any, at: Any) -> float:
    s = 0.0
    for k in range(len(x)):
        s += x[k] * x[k]
    return s


@pytest.mark.parametrize("f, apart", [(gathered, True), (much_besides, False), (unchecked, False)])
def test_which_sums_stay_apart_under_fastmath(f: Callable[..., float], apart: bool) -> None:
    x, y, at = np.linspace(-1.0, 2.0, 11), np.linspace(0.5, 1.5, 11), np.arange(11) % 5
    compiled = jit(f, fastmath=True)
    assert compiled(x, y, at) == pytest.approx(f(x, y, at), rel=1e-12)
    sums = re.findall(r"= fadd ([a-z ]*)double", compiled.inspect("llvm").split("@jitad.entry")[0])
    assert sums and any("contract" not in flags and "fast" not in flags for flags in sums) is apart


@pytest.mark.slow
def test_equal_products_have_no_difference() -> None:
    def leg(x: float, y: float) -> float:
        return math.sqrt(x * x - y * y)

    def determinant(a: Any) -> Any:
        return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    for x in (0.1, 0.3, 0.7, 1.1, 3.3):
        assert jit(leg)(x, x) == 0.0
        assert jit(determinant)(np.array([[x, 1.7], [x, 1.7]])) == 0.0
    x = np.linspace(0.1, 3.3, 37)
    assert not jit(lambda x, y: np.sqrt(x * x - y * y))(x, x.copy()).any()
