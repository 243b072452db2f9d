"""Arrays of indices that follow from others: their bounds, the slices that they are, exceptions in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def ring(u: Any) -> Any:
    n = len(u)
    i = np.arange(n)
    return np.sum((u[(i + 1) % n] - 2.0 * u[i] + u[(i - 1) % n]) ** 2)


def differences(u: Any) -> Any:
    i = np.arange(max(len(u) - 1, 0))
    return np.sum((u[i + 1] - u[i]) ** 2)


def corners(u: Any, i: Any, j: Any) -> Any:
    return np.sum(u[i] * u[j + 1] + u[i + 1] * u[j]) + np.sum(u[i - 1] ** 2)


@pytest.mark.parametrize("f", [ring, differences])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 40])
def test_positions(f: Callable[..., Any], n: int) -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=n)
    value, bar = jit(f, grad=True).value_and_grad(u)
    np.testing.assert_allclose(value, f(u), rtol=1e-13)
    step = 1e-6
    for k in range(n):
        e = np.zeros(n)
        e[k] = step
        np.testing.assert_allclose(bar[k], (f(u + e) - f(u - e)) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("i, j", [
    ([0, 1, 2], [3, 0, 1]), ([], []), ([-1, 0], [-4, -3]), ([4, 0], [0, 0]), ([0, 0], [4, 0]), ([0, 7], [9, 9]),
    ([-6, 0], [0, 0]), ([-5, 0], [0, 0]), ([0, 1], [0, -7])])
def test_shifted_indices(i: list[int], j: list[int]) -> None:
    rng = np.random.default_rng(0)
    u, a, b = rng.normal(size=5), np.array(i, dtype=np.int64), np.array(j, dtype=np.int64)
    try:
        expected = corners(u, a, b)
    except IndexError as e:
        with pytest.raises(IndexError, match=str(e)):
            jit(corners)(u, a, b)
    else:
        np.testing.assert_allclose(jit(corners)(u, a, b), expected, rtol=1e-13)


def test_remainders_plus_one() -> None:
    """The size less one bounds remainders, but need not be among them."""
    def f(u: Any, i: Any) -> Any:
        k = i % len(u)
        return np.sum(u[k]) + np.sum(u[k + 1])

    u = np.arange(5.0)
    assert jit(f)(u, np.array([0, 1, 7])) == f(u, np.array([0, 1, 7]))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 5"):
        jit(f)(u, np.array([0, 9]))


@pytest.mark.parametrize("cells", [-1, 0, 1, 2, 7])
@pytest.mark.parametrize("i", [[], [0], [0, 0, -1], [6, -7, 3], [1, -2]])
def test_neighbours_in_a_ring_of_given_size(cells: int, i: list[int]) -> None:
    """Indices of an array of ``cells`` elements are near them, so that their neighbours take no division."""
    def f(w: Any, i: Any, cells: int) -> Any:
        density = np.zeros(cells)
        np.add.at(density, i, w)
        np.add.at(density, (i + 1) % cells, 2.0 * w)
        return np.sum(density ** 2) + np.sum(density[(i - 1) % cells] * w)

    w, at = np.arange(1.0, len(i) + 1.0), np.array(i, dtype=np.int64)
    try:
        expected = f(w, at, cells)
    except (IndexError, ValueError) as e:
        with pytest.raises(type(e), match=str(e)):
            jit(f, grad=True).value_and_grad(w, at, cells)
    else:
        assert jit(f, grad=True).value_and_grad(w, at, cells)[0] == expected
        if cells > 2:
            assert not re.search("mod .*%", jit(f).inspect("optimized", w, at, cells))


def test_indices_that_wrap() -> None:
    """The largest number plus one is the smallest one, so its bound is not that of the numbers plus one."""
    def f(u: Any, i: Any) -> Any:
        return u[(i + 1) - np.iinfo(np.int64).min]

    last = np.array([np.iinfo(np.int64).max])
    assert jit(f)(np.array([3.0, 4.0]), last) == f(np.array([3.0, 4.0]), last)


def test_a_part_at_positions_is_a_copy() -> None:
    def f(u: Any) -> Any:
        v = u[np.arange(3) + 1]
        w = u.copy()
        x = w[np.arange(2)]
        v[0], w[0] = 9.0, 7.0
        return v, w, x, u

    u = np.arange(5.0)
    for got, expected in zip(jit(f)(u), f(u), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert u[1] == 1.0
