"""Arithmetic on all pairs of elements of two vectors, by broadcasting: the values of NumPy, right derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(7)


def nearest(x: Any, y: Any) -> Any:
    return np.mean(np.min((x[:, None] - y[None, :]) ** 2, axis=1))


def farthest(x: Any, y: Any) -> Any:
    """A product, and sums of rows and of columns."""
    d = (x[:, None] - y) * (x[:, None] + 0.5 * y)
    return np.sum(d.max(axis=1) * x) + 0.1 * np.sum(d.sum(axis=1) * x) + 0.3 * np.sum(d.sum(axis=0) * y)


def in_a_plane(x: Any, y: Any) -> Any:
    points, centres = x.reshape(-1, 1) * np.array([1.0, 0.5]), y.reshape(-1, 1) * np.array([0.3, -1.0])
    return np.sum(np.sqrt(np.min(np.sum((points[:, None] - centres) ** 2, axis=2), axis=1)))


def weighed(x: Any, y: Any) -> Any:
    """The results of rows meet the pairs again."""
    d = (x[:, None] - y) * y
    mean = d.sum(axis=1) / len(y)
    return np.sum(np.maximum(d - mean[:, None], 0.0).sum(axis=1) / (1.0 + mean ** 2))


def two_shapes(x: Any, y: Any) -> Any:
    a, b = np.abs(x[:, None] - y), np.abs(y[:, None] - 2.0 * x)
    return np.sum(a.min(axis=1)) + 0.1 * np.sum(b.max(axis=1) * b.sum(axis=1))


def kept(x: Any, y: Any) -> Any:
    """All pairs are a result."""
    d = (x[:, None] - y) ** 2
    return np.sum(d.min(axis=1)) + d[0, 0] + np.sum(d @ y)


def by_columns(x: Any, y: Any) -> Any:
    d = (x[:, None] - y) ** 2
    return np.sum(d.min(axis=0) * y) + np.sum(d.min(axis=1))


def square(x: Any, y: Any) -> Any:
    """A result of rows is taken for a row."""
    d = np.abs(x[:, None] - x)
    return np.sum((d - d.max(axis=1)).min(axis=1) * x)


BECOME_LOOPS = [nearest, farthest, in_a_plane, weighed, two_shapes]
OTHERS = [kept, by_columns, square]


@pytest.mark.long
@pytest.mark.parametrize("f", [*BECOME_LOOPS, *OTHERS])
def test_values(f: Callable[..., Any]) -> None:
    fast = jit(f)
    for n in (1, 3, 16, 37):
        for m in (1, 4, 16, 21):
            x, y = RNG.normal(size=n), RNG.normal(size=m)
            np.testing.assert_allclose(fast(x, y), f(x, y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", BECOME_LOOPS)
def test_nothing_has_two_axes(f: Callable[..., Any]) -> None:
    x, y = RNG.normal(size=20), RNG.normal(size=9)
    assert "f64[?, ?]" not in jit(f).inspect("optimized", x, y)
    text = jit(f, grad=(0, 1)).value_and_grad.inspect("optimized", x, y)
    assert "f64[16]" in text and "f64[?, ?]" not in text


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [*BECOME_LOOPS, *OTHERS])
def test_gradients(f: Callable[..., Any]) -> None:
    for n, m in ((5, 3), (19, 6), (16, 17)):
        check_grads(f, (RNG.normal(size=n), RNG.normal(size=m)), order=1)


@pytest.mark.slow
def test_no_rows_and_no_columns() -> None:
    for f in (weighed, farthest):
        fast = jit(f, grad=(0, 1))
        x, y = np.zeros(0), RNG.normal(size=5)
        value, (gx, gy) = fast.value_and_grad(x, y)
        assert value == 0.0 and gx.shape == (0,) and not gy.any() and gy.shape == (5,)
    with pytest.raises(ValueError, match="zero-size"):
        jit(nearest)(RNG.normal(size=5), np.zeros(0))


@pytest.mark.slow
def test_equal_elements_share_the_cotangent() -> None:
    x, y = np.array([0.0, 3.0] * 10), np.array([1.0, -1.0, 1.0])
    value, (gx, gy) = jit(nearest, grad=(0, 1)).value_and_grad(x, y)
    assert value == nearest(x, y)
    d = x[:, None] - y
    share = (d ** 2 == (d ** 2).min(1, keepdims=True)) * 2.0 * d / 20.0
    share /= (d ** 2 == (d ** 2).min(1, keepdims=True)).sum(1, keepdims=True)
    np.testing.assert_allclose(gx, share.sum(1), rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(gy, -share.sum(0), rtol=1e-14, atol=1e-16)


def test_what_is_no_number() -> None:
    x, y = RNG.normal(size=20), RNG.normal(size=6)
    x[3] = np.nan
    assert np.isnan(jit(nearest)(x, y))


def test_columns_alone_have_no_sizes() -> None:
    """All pairs of nothing but a number, as the cotangent of a sum over a grid."""
    def of_a_grid(x: Any) -> Any:
        return np.sum(np.meshgrid(x, x[:3], indexing="ij")[0])
    np.testing.assert_array_equal(jit(of_a_grid, grad=0).grad(RNG.normal(size=7)), np.full(7, 3.0))
