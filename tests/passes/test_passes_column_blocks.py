"""``column_blocks``: four columns of a matrix at once, where lanes read them one after another."""

import re
from typing import Any

import numpy as np
import pytest

from jitad import jit


def products(a: Any, x: Any) -> Any:
    y = np.zeros(len(a), dtype=a.dtype)
    for i in range(len(a)):
        s = a.dtype.type(0.0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s
    return y


def backwards(a: Any) -> Any:
    y, n = np.zeros(len(a)), a.shape[1]
    for i in range(len(a)):
        s = 1.0
        for j in range(n):
            s = 0.5 * s + a[i, n - 1 - j]
        y[i] = s
    return y


def planes(a: Any, k: int) -> Any:
    y = np.zeros(a.shape[1])
    for i in range(a.shape[1]):
        s = 0.0
        for j in range(1, a.shape[2]):
            s += (a[k, i, j] - a[k, i, j - 1]) ** 2
        y[i] = s
    return y


def last_two(a: Any) -> Any:
    """What the loop leaves with is of its last two iterations."""
    y = np.zeros(len(a))
    for i in range(len(a)):
        before, now = 0.0, 1.0
        for j in range(a.shape[1]):
            before, now = now, now * a[i, j] + before
        y[i] = before - 2.0 * now
    return y


def blocks(f: Any) -> int:
    return len(re.findall(r"copy %\S+ : f\d+\[4, (?:8|16)\]", f.inspect("optimized")))


def numbers(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_along_rows_keep_their_bits(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, without = jit(products), jit(products)
    monkeypatch.setenv("JITAD_WITHOUT", "column_blocks")
    without(numbers(1, 1, dtype=dtype), numbers(1, dtype=dtype))
    monkeypatch.delenv("JITAD_WITHOUT")
    for rows in (0, 1, 8, 15, 16, 17, 35):
        for columns in (0, 1, 3, 4, 5, 8, 11):
            a, x = numbers(rows, columns, dtype=dtype), numbers(columns, dtype=dtype)
            found, wanted = f(a, x), products(a, x)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-6)
            np.testing.assert_array_equal(found, without(a, x))
    assert blocks(f)


def test_nan_and_infinity_stay_in_their_rows() -> None:
    a, x = numbers(20, 9), numbers(9)
    a[3, 5], a[18, 8], a[4, 0] = np.nan, np.inf, -np.inf
    found = jit(products)(a, x)
    np.testing.assert_array_equal(np.isfinite(found), ~np.isin(np.arange(20), (3, 18, 4)))


@pytest.mark.parametrize("rows", [5, 16, 21])
@pytest.mark.parametrize("columns", [1, 4, 7, 13])
def test_other_walks(rows: int, columns: int) -> None:
    a = numbers(rows, columns)
    np.testing.assert_allclose(jit(backwards)(a), backwards(a), rtol=1e-12)
    np.testing.assert_allclose(jit(last_two)(a), last_two(a), rtol=1e-12)
    deep = numbers(3, rows, columns)
    np.testing.assert_allclose(jit(planes)(deep, 1), planes(deep, 1), rtol=1e-12)


@pytest.mark.slow
def test_blocks_are_made_in_other_walks() -> None:
    for f, args in ((backwards, (numbers(20, 9),)), (last_two, (numbers(20, 9),)), (planes, (numbers(2, 20, 9), 1))):
        compiled = jit(f)
        compiled(*args)
        assert blocks(compiled), f


def test_an_iteration_that_may_raise_reads_its_own_column_alone() -> None:
    def chosen(a: Any, order: Any) -> Any:
        y = np.zeros(len(a))
        for i in range(len(a)):
            s = 0.0
            for j in range(len(order)):
                s += a[i, order[j]]
            y[i] = s
        return y
    f = jit(chosen)
    a = numbers(20, 6)
    np.testing.assert_allclose(f(a, np.array([5, 0, 3, 3, 1])), a[:, [5, 0, 3, 3, 1]].sum(1))
    with pytest.raises(IndexError):
        f(a, np.array([5, 0, 6, 3, 1]))
    assert not blocks(f)


def test_gradients() -> None:
    def loss(a: Any, x: Any) -> Any:
        total = 0.0
        for i in range(len(a)):
            s = 0.0
            for j in range(a.shape[1]):
                s += a[i, j] * x[j]
            total += np.tanh(s)
        return total
    a, x = numbers(37, 10), numbers(10)
    slope = 1.0 - np.tanh(a @ x) ** 2
    found = jit(loss, grad=(0, 1)).grad(a, x)
    np.testing.assert_allclose(found[0], slope[:, None] * x, rtol=1e-9)
    np.testing.assert_allclose(found[1], slope @ a, rtol=1e-9)
