"""Array elements that a loop updates become scalars: same values, same errors, right derivatives."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(5, 4)), RNG.normal(size=(4, 3))


def product(a: Any, b: Any) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(b.shape[0]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def overwritten(a: Any, b: Any) -> Any:
    """The element is stored, read again, and added to; two arrays exchange theirs."""
    c, d = np.ones(3), np.zeros(3)
    for i in range(3):
        for k in range(b.shape[0]):
            c[i] = 0.5 * c[i] + a[0, k]
            d[i] -= c[i] * b[k, 0]
            c[i], d[i] = d[i], c[i]
    return c, d


def at_one_place(a: Any, b: Any) -> Any:
    """The index is the same in two loops, one inside the other."""
    c = np.zeros(len(a) + 20)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            c[1] += a[i, k]
        c[1] *= 0.5
    return c


def elsewhere_too(a: Any, b: Any) -> Any:
    """Another element is read, which may be the same one."""
    c = np.zeros(4)
    for i in range(4):
        for k in range(4):
            c[i] += a[0, k] * (1.0 + c[k])
    return c


def at_times(a: Any, b: Any) -> Any:
    """Not every iteration updates the element."""
    c = np.zeros(4)
    for i in range(4):
        for k in range(4):
            if a[i, k] > 0:
                c[i] += a[i, k]
    return c


def nearest(a: Any, b: Any) -> Any:
    """The element is read only where one condition holds, and stored only where two do."""
    c = np.full((4, 4), 2.0)
    for i in range(4):
        for j in range(4):
            for k in range(b.shape[0]):
                if b[k, 0] > 0.0:
                    t = b[k, 0] * (i + 1) + 0.1 * j
                    if 0.0 < t < c[i, j]:
                        c[i, j] = t
    return c


def left_early(a: Any, b: Any) -> Any:
    c = np.zeros(4)
    for i in range(4):
        for k in range(4):
            c[i] += a[i, k] * a[i, k]
            if c[i] > 1.0:
                break
    return c


def moments(a: Any, b: Any) -> Any:
    """Several elements of a row, one of which is read for another."""
    s = np.zeros((4, 4))
    for i in range(4):
        for k in range(b.shape[0]):
            d = b[k, 0] - a[0, i]
            s[i, 0] += d
            s[i, 1] = s[i, 1] * 0.5 + d * d
            s[i, 3] -= s[i, 1] * s[i, 0]
            s[i, 2] += d * s[i, 3]
    return s


PROMOTED = (product, overwritten, at_one_place, nearest, moments)
ALL = (*PROMOTED, elsewhere_too, at_times, left_early)


def close(found: Any, expected: Any) -> None:
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-15)       # a product may be contracted with its sum


@pytest.mark.parametrize("f", ALL)
def test_values(f: Callable[..., Any]) -> None:
    close(jit(f)(A, B), f(A, B))
    close(jit(f)(A[:, :4], B[:1]), f(A[:, :4], B[:1]))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", ALL)
def test_derivatives(f: Callable[..., Any]) -> None:
    check_grads(f, (A, B))


@pytest.mark.parametrize("f", PROMOTED)
def test_the_pass_applies(f: Callable[..., Any]) -> None:
    with mock.patch.dict(os.environ, JITAD_WITHOUT="outer_loop"):
        text = jit(f).inspect("optimized", A, B)
    with mock.patch.dict(os.environ, JITAD_WITHOUT="outer_loop,scalar_promotion"):
        without = jit(f).inspect("optimized", A, B)
    assert text != without


def outside(a: Any, at: int) -> Any:
    c = np.zeros(3)
    for i in range(len(a)):
        c[at] += a[i]
    return c


def test_an_index_out_of_bounds_raises() -> None:
    f = jit(outside)
    close(f(A[0], 2), outside(A[0], 2))
    close(f(A[0][:0], 7), outside(A[0][:0], 7))
    for at in (3, -4, 10**9):
        with pytest.raises(IndexError):
            f(A[0], at)


def fails_first(a: Any, at: int) -> Any:
    """The check of ``a`` fails before the one of ``c`` is reached."""
    c = np.zeros(3)
    for i in range(10):
        c[at] += a[i]
    return c


def test_the_error_of_the_first_failing_access() -> None:
    f = jit(fails_first)
    with pytest.raises(IndexError, match="size 4"):
        f(A[0], 1)
    with pytest.raises(IndexError, match="size 0|size 3"):
        f(A[0][:0], 5)


def pairs(x: Any, w: Any) -> float:
    """Both sides of the branch load the same elements; their cotangents are added to two elements of one array."""
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            if x[i] > x[j]:
                total += w[i] * w[j] * (x[i] - x[j])
            else:
                total += 2.0 * w[i] * w[j] * (x[j] - x[i])
    return total


def test_cotangents_of_both_sides_of_a_branch_are_carried() -> None:
    gradient = jit(pairs, grad=(0, 1))
    check_grads(gradient, (A[0], A[1]), order=1, modes=("rev",))
    text = gradient.grad.inspect("optimized", A[0], A[1])
    loops = [block for block in text.split("\n\n") if block.startswith("^") and "branch" in block and "select" in block]
    assert [block.count("add_at") for block in loops if "add_at" in block] == [2]
