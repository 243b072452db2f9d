"""``a[…] op= v`` for every mixture of indices and slices: in place, without a copy of the array."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, check_grads, interpret, jit

A = np.random.default_rng(0).normal(size=(5, 6, 7))
I, J = 2, 4


def row(a: Any, i: int, j: int) -> Any:
    a = a.copy()
    for k in range(i):
        a[k, j:] -= a[k, i, 0] * a[i, j:]
    return a


def column(a: Any, i: int, j: int) -> Any:
    a = a.copy()
    for k in range(i):
        a[k + 1:, j] += a[k, j] * a[k + 1:, i]
    return a


def inner(a: Any, i: int, j: int) -> Any:
    a = a.copy()
    for k in range(i):
        a[:, i, k:j] *= a[:, k, k:j]
        a[k, :, ::2] -= 1.0
        a[k, ::-1, j] += a[i, :, k]
    return a


def swapped(a: Any, i: int, j: int) -> Any:
    """The sizes agree, but the positions do not."""
    a = a.copy()
    a[:i, j] = a[j, :i] - a[:i, i]
    a[1:3, i] = a[1:3, i] + a[2:4, i]
    a[i, :2, :3] = (a[i, :2, :3] * 2.0).reshape(3, 2)[:2, :1] + a[i, :2, 1:4]
    return a


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", [row, column, inner, swapped], ids=lambda f: f.__name__)
def test_as_in_numpy(f: Any) -> None:
    expected = f(A, I, J)
    np.testing.assert_allclose(jit(f)(A, I, J), expected, rtol=1e-14)
    np.testing.assert_allclose(interpret(f, A, I, J), expected, rtol=1e-14)
    check_grads(lambda a: f(a, I, J), (A,), modes=("fwd", "rev"))


@pytest.mark.parametrize("f", [row, column, inner], ids=lambda f: f.__name__)
def test_the_array_is_not_copied_in_the_loop(f: Any) -> None:
    text = jit(f).inspect("optimized", A, I, J)
    assert len(re.findall(r"= copy .*: f64\[\?, \?, \?\]", text)) == 1, text          # slices may be copied


def test_a_reshape_that_moves_elements_is_no_update() -> None:
    def f(a: Any) -> Any:
        a = a.copy()
        a[1:3, 0] = a[1:3, 0:2].reshape(2, 2)[0] + a[1:3, 0]
        a[0:2, 1:4] = a[0:2, 1:4].T.reshape(2, 3)
        a[0:2, 1:4] = a[0:2, 1:4].reshape(3, 2).T + 0.0
        return a
    a = A[0]
    np.testing.assert_allclose(jit(f)(a), f(a))


def test_a_view_or_a_copy_in_a_loop_that_writes_the_array() -> None:
    def lowered(a):
        a = a.copy()
        best = a[0]
        for k in range(1, len(a)):
            if a[k, 0] > best[0]:
                best = a[k].copy()
            a[k] -= best
        return a + best

    def kept(a):
        best = a[0]
        for k in range(1, len(a)):
            if a[k, 0] > best[0]:
                best = a[k].copy()
        return best
    a = np.arange(12.0).reshape(4, 3) % 5
    with pytest.raises(UnsupportedError, match="one of several"):
        jit(lowered)(a)
    np.testing.assert_array_equal(jit(kept)(a), kept(a))
