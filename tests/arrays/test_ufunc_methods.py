"""``accumulate``, ``reduceat`` and ``at`` in programs: values as NumPy's, derivatives, errors.

``test_numpy_matrix`` calls each of them with all of its parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.testing import check_grads

RNG = np.random.default_rng(3)
X, W = RNG.standard_normal(7), RNG.standard_normal(7)
PLACES = np.array([0, 1, 0, 2, 1, 1, 0])


def drawdown(returns: Any, w: Any) -> Any:
    wealth = np.cumsum(returns)
    return np.sum((np.maximum.accumulate(wealth) - wealth) * w)


def lowest_of_columns(returns: Any, w: Any) -> Any:
    table = np.outer(returns, w)
    return np.sum(np.minimum.accumulate(table, axis=1) ** 2)


def sums_of_segments(x: Any, w: Any) -> Any:
    return np.sum(np.add.reduceat(x, np.array([0, 2, 5])) ** 2 * w[:3])


def largest_of_groups(x: Any, w: Any) -> Any:
    best = np.zeros(3)
    np.maximum.at(best, PLACES, x * w)
    return np.sum(best ** 2)


def products_of_groups(x: Any, w: Any) -> Any:
    out = np.ones(3)
    np.multiply.at(out, PLACES, x * w)
    np.subtract.at(out, [0, 0, 1], x[:3])
    return np.sum(out ** 2)


def pairs(x: Any, w: Any) -> Any:
    table = np.zeros((3, 2))
    np.minimum.at(table, (PLACES, PLACES % 2), x * w)
    return np.sum(table ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("fun", [drawdown, lowest_of_columns, sums_of_segments, largest_of_groups, products_of_groups,
                                 pairs])
def test_as_numpy_with_derivatives(fun: Any) -> None:
    f = jit(fun, grad=(0, 1))
    assert f(X, W) == pytest.approx(fun(X, W), rel=1e-13)
    check_grads(f, (X, W))


def test_elements_of_a_mask_or_a_slice() -> None:
    def f(a: Any) -> Any:
        a = a.copy()
        np.maximum.at(a, a < 0.0, 0.5)
        np.multiply.at(a, slice(1, 3), 2.0)
        return a
    assert np.array_equal(jit(f)(X), f(X))


def test_what_is_out_of_bounds() -> None:
    @jit
    def f(a: Any, i: Any) -> Any:
        return np.add.reduceat(a, i)

    @jit
    def g(a: Any, i: Any) -> Any:
        b = a.copy()
        np.maximum.at(b, i, 1.0)
        return b
    for i in (7, -1):
        with pytest.raises(IndexError, match=rf"index {i} out-of-bounds in add.reduceat \[0, 7\)"):
            f(X, np.array([0, i]))
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 7"):
        g(X, np.array([0, 7]))
