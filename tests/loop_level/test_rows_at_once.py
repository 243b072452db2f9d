"""Reductions along axes that are not the last: several rows are combined with the result at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit

ALONG_FIRST: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x, axis=0), lambda x: np.max(x, axis=0), lambda x: np.min(x, axis=0),
    lambda x: np.prod(x, axis=0), lambda x: np.argmax(x, axis=0), lambda x: np.argmin(x, axis=0),
    lambda x: np.sum(x * x + 1, axis=0), lambda x: np.any(x > 0, axis=0), lambda x: np.all(x > -1, axis=0),
    lambda x: np.mean(x, axis=0), lambda x: np.var(x, axis=0), lambda x: np.sum(np.exp(x), axis=0)]
OF_THREE: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x, axis=1), lambda x: np.max(x, axis=(0, 1)), lambda x: np.sum(x, axis=(0, 2)),
    lambda x: np.min(x, axis=0), lambda x: np.argmax(x, axis=1), lambda x: np.sum(x, axis=0),
    lambda x: np.prod(x * 2 - x[:, :1], axis=0), lambda x: np.sum(x[:, :, None] * x[:, :, :, None], axis=0)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("k", range(len(ALONG_FIRST)))
def test_first_axis(k: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    f = ALONG_FIRST[k]
    g = jit(f)
    for rows in (1, 2, 3, 4, 5, 8, 9, 15):
        for columns in (0, 1, 7, 17):
            x = (rng.normal(size=(rows, columns)) * 3).astype(dtype)
            if rows > 2 and columns and dtype is not np.int64:
                x[1, columns // 2] = np.nan
            got, expected = g(x), f(x)
            assert np.shape(got) == np.shape(expected)
            np.testing.assert_allclose(got, expected, rtol=2e-6 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("k", range(len(OF_THREE)))
def test_other_axes(k: int) -> None:
    rng = np.random.default_rng(0)
    f = OF_THREE[k]
    g = jit(f)
    for rows in (1, 3, 4, 6):
        for columns in (1, 4, 5, 9):
            x = rng.normal(size=(rows, columns, 3))
            np.testing.assert_allclose(g(x), f(x), rtol=1e-13, atol=1e-14)


def test_sums_are_in_order() -> None:
    """NumPy adds up rows in order, which several rows at once must not change."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(23, 11))
    assert np.array_equal(jit(ALONG_FIRST[0])(x), np.add.reduce(x, axis=0))


def test_signed_zeros() -> None:
    x = np.full((9, 3), -0.0)
    assert not np.signbit(jit(ALONG_FIRST[0])(x)).any()
    assert not np.signbit(ALONG_FIRST[0](x)).any()


def spread(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sum(np.exp(-np.sum(d ** 2, axis=2)))


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8])
def test_sums_of_a_derivative(columns: int) -> None:
    """The adjoint of differences between rows is added up along the first axis, and along the second."""
    x = np.random.default_rng(0).normal(size=(11, columns))
    f = jit(spread, grad=True)
    d = x[:, None] - x
    expected = -4 * np.sum(np.exp(-np.sum(d ** 2, axis=2))[:, :, None] * d, axis=1)
    np.testing.assert_allclose(f.grad(x), expected, rtol=1e-11, atol=1e-13)
