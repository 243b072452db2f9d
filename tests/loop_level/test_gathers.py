"""Elements at arrays of indices in nests with others: what is updated is not read too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def swapped(a: Any, b: Any, i: Any, j: Any) -> Any:
    a = a.copy()
    a[i] = a[j] * 2.0 + b
    return a, np.sum(a[j])


def accumulated(a: Any, b: Any, i: Any, j: Any) -> Any:
    a = a.copy()
    old = a[j] - b
    np.add.at(a, i, a[j] * old)
    new = a[i] + old
    return a, new, np.sum(new * a[j])


def replaced(a: Any, b: Any, i: Any, j: Any) -> Any:
    a = a.copy()
    c = a[i] + b
    d = b * 3.0
    b = b + c
    a[i] = c - d
    return a[j] + b, c * a[i], d


def chained(a: Any, b: Any, i: Any, j: Any) -> Any:
    k = i[j]
    return a[k] * b + a[j[i]], np.sum(a[k + 1 - 1] ** 2), k


def rows(a: Any, b: Any, i: Any, j: Any) -> Any:
    m = np.outer(a, b)
    m[i] = m[j] + m[i]
    np.add.at(m, j, m[i] * 0.5)
    return m, np.sum(m[i] - m[j], axis=1)


def positions(a: Any, b: Any, i: Any, j: Any) -> Any:
    i = i[::-1] + 0
    first = a[i]
    i[0] = 2
    i[i] = j
    return first, a[i], i


PROGRAMS = [swapped, accumulated, replaced, chained, rows, positions]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_like_numpy(f: Callable[..., Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 7
    a, b = rng.normal(size=(2, n))
    i, j = rng.permutation(n) if seed % 2 else rng.integers(0, n, n), rng.integers(-n, n, n) % n
    for got, expected in zip(jit(f)(a, b, i, j), f(a, b, i, j), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13)


@pytest.mark.parametrize("f", [accumulated, chained, replaced, rows], ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(5)
    n = 6
    a, b = rng.normal(size=(2, n))
    i, j = rng.permutation(n), rng.integers(0, n, n)

    def total(a: Any, b: Any) -> Any:
        return sum(np.sum(np.sin(x)) for x in f(a, b, i, j)[:2])

    grads = jit(total, grad=(0, 1)).grad(a, b)
    for k in range(2):
        for e in np.eye(n) * 1e-6:
            plus, minus = ([v + sign * e if m == k else v for m, v in enumerate((a, b))] for sign in (1, -1))
            np.testing.assert_allclose(grads[k] @ e, (total(*plus) - total(*minus)) / 2, rtol=1e-6, atol=1e-14)
