"""``triangle_blocks``: rows of a recurrence that begin together, in the order of each sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def solve(l: Any, b: Any) -> Any:
    x = np.zeros(len(b))
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s -= l[i, j] * x[j]
        x[i] = s / l[i, i]
    return x


def solve_in_place(l: Any, b: Any) -> Any:
    """Each row is stored before its columns, and once more by each of them."""
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = 2.0 * b[i]
        for j in range(i):
            x[i] -= l[i, j] * x[j]
        x[i] /= l[i, i]
    return x


def both(l: Any, b: Any) -> Any:
    """Two sums, and a number that each row adds to."""
    x, y, total = np.zeros(len(b)), b.copy(), 0.0
    for i in range(len(b)):
        s, t = b[i], 0.25
        for j in range(i):
            s -= l[i, j] * x[j]
            t += l[i, j] * y[j] * x[j]
        x[i] = s / l[i, i]
        y[i] = y[i] + 0.01 * t
        total += s * t
    return x + y * total


def factor(l: Any, b: Any) -> Any:
    a = l @ l.T
    n = len(a)
    c = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += c[i, k] * c[j, k]
            if i == j:
                c[i, j] = math.sqrt(a[i, i] - s)
            else:
                c[i, j] = (a[i, j] - s) / c[j, j]
    return c @ b


def unit_factor(l: Any, b: Any) -> Any:
    """``L D Lᵀ`` by rows."""
    a = l @ l.T
    n = len(a)
    c, d = np.zeros_like(a), np.zeros(n)
    for i in range(n):
        for j in range(i):
            s = a[i, j]
            for k in range(j):
                s -= c[i, k] * d[k] * c[j, k]
            c[i, j] = s / d[j]
        s = a[i, i]
        for k in range(i):
            s -= c[i, k] * c[i, k] * d[k]
        d[i] = s
    return c @ b + d


def stored_first(l: Any, b: Any) -> Any:
    """What a row stores ahead of its columns is read by them: not divided."""
    n = len(b)
    x = np.zeros((n, n))
    for i in range(n):
        x[i, 0] = b[i]
        s = 0.0
        for j in range(i):
            s += x[i, j] * l[i, j] + x[j, 0]
        x[i, n - 1] = s
    return x[:, 0] + x[:, n - 1]


def read_again(l: Any, b: Any) -> Any:
    """What the columns store is read ahead of them: not divided."""
    n = len(b)
    x = l.copy()
    for i in range(n):
        s = x[i, 0] + b[i]
        for j in range(i):
            s -= x[j, n - 1] * l[i, j]
            x[i, j] = s
        x[i, n - 1] = s
    return x[:, n - 1] + x[:, 0]


def next_row(l: Any, b: Any) -> Any:
    """A row stores to the one behind: not divided."""
    x = b.copy()
    for i in range(len(b) - 1):
        s = x[i]
        for j in range(i):
            s -= l[i, j] * x[j]
        x[i + 1] += s / l[i, i]
    return x


def running(l: Any, b: Any) -> Any:
    """One sum goes through all rows: not divided."""
    x, s = np.zeros(len(b)), 0.0
    for i in range(len(b)):
        for j in range(i):
            s = 0.5 * s - l[i, j] * x[j]
        x[i] = s + b[i]
    return x


DIVIDED = [solve, solve_in_place, both, factor]
OTHERS = [unit_factor, stored_first, read_again, next_row, running]


def system(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return np.tril(rng.normal(0.0, 0.1, (n, n))) + 2.0 * np.eye(n), rng.normal(size=n)


def is_divided(f: Callable[..., Any], *args: Any) -> bool:
    return "%block" in jit(f).inspect("optimized", *args)


@pytest.mark.parametrize("f", [*DIVIDED, *OTHERS])
def test_values_of_all_sizes(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for n in (1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 70):
        np.testing.assert_allclose(compiled(*system(n)), f(*system(n)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", DIVIDED)
def test_sums_keep_their_order(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    args = system(70)
    assert is_divided(f, *args)
    found = jit(f)(*args)
    monkeypatch.setenv("JITAD_WITHOUT", "triangle_blocks")
    np.testing.assert_allclose(found, jit(f)(*args), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("f", OTHERS[1:])
def test_what_is_not_divided(f: Callable[..., Any]) -> None:
    assert not is_divided(f, *system(20))


@pytest.mark.parametrize("f", [solve, solve_in_place, factor])
def test_nan_stays_in_the_rows_behind(f: Callable[..., Any]) -> None:
    l, b = system(60)
    b[37] = np.nan
    np.testing.assert_array_equal(np.isnan(jit(f)(l, b)), np.isnan(f(l, b)))


@pytest.mark.parametrize("rows, columns", [(60, 40), (40, 60), (59, 60), (60, 59), (47, 47)])
def test_an_index_out_of_bounds_is_found_in_its_row(rows: int, columns: int) -> None:
    l = np.ones((rows, columns))
    with pytest.raises(IndexError) as expected:
        solve(l, np.ones(60))
    with pytest.raises(IndexError) as found:
        jit(solve)(l, np.ones(60))
    assert str(found.value) == str(expected.value)


@pytest.mark.slow
def test_a_root_of_a_negative_number_raises_in_its_row() -> None:
    def indefinite(a: Any) -> Any:
        n = len(a)
        c = np.zeros_like(a)
        for i in range(n):
            for j in range(i + 1):
                s = 0.0
                for k in range(j):
                    s += c[i, k] * c[j, k]
                if i == j:
                    c[i, j] = math.sqrt(a[i, i] - s)
                else:
                    c[i, j] = (a[i, j] - s) / c[j, j]
        return c
    a = np.eye(40)
    a[35, 35] = -1.0
    with pytest.raises(ValueError):
        jit(indefinite)(a)
    a[35, 35] = 1.0
    np.testing.assert_array_equal(jit(indefinite)(a), np.eye(40))


@pytest.mark.slow
@pytest.mark.parametrize("f", [solve, solve_in_place, factor])
def test_gradients(f: Callable[..., Any]) -> None:
    check_grads(lambda l, b: np.sum(f(l, b) ** 2), system(35), order=1)
