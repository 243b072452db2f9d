"""Selections drop results at arguments outside of a function's domain: the same numbers, no such arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def one_side(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s += math.log(x[i])
    return s


def two_sides(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if x[i] > 1.0:
            s += math.acosh(x[i]) * x[i]
        else:
            s -= math.exp(x[i])
    return s


def power(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += x[i]**1.3 if x[i] > 0.0 else x[i]
    return s


def where(x: Any) -> Any:
    return np.where(x > 0.0, np.log(x), 2.0 * x)


def rows(x: Any) -> Any:
    """The rows of a matrix are lanes."""
    a, out = np.outer(x, np.ones(3)), np.zeros(len(x))
    for i in range(len(x)):
        s = 0.0
        for k in range(3):
            if a[i, k] > 0.0:
                s += math.log(a[i, k])
        out[i] = s
    return out


PROGRAMS = [one_side, two_sides, power, where, rows]
X = np.array([1.5, -2.0, 0.25, 3.0, -0.0, 0.0, 7.0, 1e-300, -1e300, 2.0, 0.5, -1.0] * 4)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any]) -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-14)


@pytest.mark.parametrize("f", [one_side, two_sides, power], ids=lambda f: f.__name__)
def test_numbers_that_are_none(f: Callable[..., Any]) -> None:
    for odd in (math.nan, math.inf):
        x = np.where(np.arange(48) == 30, odd, X)
        np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any]) -> None:
    check_grads(jit(lambda x: np.sum(f(x)), grad=True), (np.array([1.5, -2.0, 0.25, 3.0, -0.5, 7.0]),), order=2)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_arguments_are_selected(f: Callable[..., Any]) -> None:
    text = jit(f).inspect("loops", X)
    vectors = [loop for loop in re.findall(r"^ +.*for .*?^ +}", text, re.MULTILINE | re.DOTALL)
               if re.search(r" = (log|acosh|pow|exp) ", loop)]
    assert vectors
    for loop in vectors:
        selected = set(re.findall(r"(%\S+) = select", loop))
        assert all(x in selected for x in re.findall(r" = (?:log|acosh|pow|exp) (%\w+)", loop))
