"""One element of an expression is computed from elements of its operands; products with short vectors, by slices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(6)


def softmax_of_label(x: Any, at: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        e = np.exp(x[i] - np.max(x[i]))
        total -= math.log((e / np.sum(e))[at[i]])
    return total


def nearest(x: Any, at: Any) -> float:
    """The place is searched for among all elements; the derivative needs one."""
    total = 0.0
    for i in range(len(x)):
        d = np.sqrt((x[i] - x[0, 0]) ** 2 + 0.1)
        d = np.where(d > 0.5, d, np.inf)
        k = np.argmin(d)
        if d[k] < np.inf:
            total += d[k] ** 2
    return total


def of_a_row(x: Any, at: Any) -> float:
    """An operand that is broadcast, of one element along an axis."""
    scaled = (x[:, :1] + 1.0) * x + x[0]
    return scaled[at[0], at[1]] * scaled[1, 0]


def in_a_loop(x: Any, at: Any) -> float:
    """The elements are read by a loop: the array is computed once."""
    e, total = np.exp(x[0]), 0.0
    for i in range(len(at)):
        total += e[at[i]]
    return total


def stored_later(x: Any, at: Any) -> float:
    """An operand is updated before the element is read."""
    a = x[0].copy()
    b = a * a
    a[0] = 7.0
    return b[at[0]] + np.sum(a * x[1])


def test_an_operand_that_is_returned() -> None:
    def f(x: Any) -> Any:
        a = np.sort(x)
        return a, (a * 2.0)[1], (np.exp(a) + a)[0]
    x = RNG.normal(size=9)
    for got, want in zip(jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)


FUNCTIONS = [softmax_of_label, nearest, of_a_row, in_a_loop, stored_later]


@pytest.mark.slow
@pytest.mark.parametrize("f", FUNCTIONS)
def test_one_element(f: Callable[..., Any]) -> None:
    for shape in ((3, 4), (9, 6), (5, 40)):
        x, at = RNG.normal(size=shape), RNG.integers(0, 3, shape[0])
        np.testing.assert_allclose(jit(f)(x, at), f(x, at), rtol=1e-13)
        check_grads(lambda x, at=at: f(x, at), (x,), order=1)


def test_the_array_is_not_computed() -> None:
    x, at = RNG.normal(size=(9, 6)), RNG.integers(0, 6, 9)
    text = jit(softmax_of_label).inspect("optimized", x, at)
    assert "div" in text and not any("div" in line and "f64[" in line for line in text.splitlines())


def test_an_index_out_of_bounds_still_raises() -> None:
    with pytest.raises(IndexError):
        jit(softmax_of_label)(RNG.normal(size=(2, 5)), np.array([1, 5]))


def along(p: Any, d: Any) -> Any:
    """Points and a direction, from either side; what is multiplied is an expression too."""
    forward, back = p[:, :3] @ d[:3], (d[:3] * 2.0) @ p[:, :3].T
    return np.tanh(forward) + ((p[:, :3] - d[0]) @ d[:3]) * back


def rows(p: Any, d: Any) -> Any:
    """A vector and a matrix of three rows."""
    return d[:3] @ p[:3] + p[1:4].T @ d[1:4]


@pytest.mark.slow
@pytest.mark.parametrize("f", [along, rows])
def test_products_with_short_vectors(f: Callable[..., Any]) -> None:
    for n in (1, 5, 20, 33):
        p, d = RNG.normal(size=(n, 4) if f is along else (4, n)), RNG.normal(size=4)
        np.testing.assert_allclose(jit(f)(p, d), f(p, d), rtol=1e-12, atol=1e-12)
        check_grads(f, (p, d), order=1)


def test_products_of_zeros_and_what_is_no_number() -> None:
    p, d = np.array([[-0.0, 0.0, -0.0, 1.0]] * 20), np.array([1.0, -1.0, 1.0, 0.0])
    p[3, 1], p[4, 2], p[5, 0] = np.nan, np.inf, -np.inf
    product = jit(lambda p, d: p[:, :3] @ d[:3])
    np.testing.assert_array_equal(product(p, d), p[:, :3] @ d[:3])
    np.testing.assert_array_equal(np.signbit(product(p, d)), np.signbit(p[:, :3] @ d[:3]))
