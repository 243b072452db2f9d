"""The value of the best candidate so far is carried beside its index."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def best_row(a, b):
    best = 0
    for i in range(1, len(a)):
        if a[i] + b[i, 0] > a[best] + b[best, 0]:
            best = i
    return a[best] * b[best, 1]


def two_best(a, b):
    """Two choices, one of which takes over what the other was."""
    best, second = 0, 0
    for i in range(len(a)):
        if a[i] < a[best]:
            second = best
            best = i
        elif a[i] < a[second]:
            second = i
    return a[best] - 2.0 * a[second]


def from_anywhere(a, b):
    at = int(b[0, 0] * 100.0)
    for i in range(len(a)):
        if math.exp(a[i]) > math.exp(a[at]):
            at = i
    return a[at]


A, B = np.random.default_rng(3).normal(0.0, 1.0, 9), np.random.default_rng(4).normal(0.0, 1.0, (9, 2))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [best_row, two_best, from_anywhere])
def test_same_as_the_interpreter(f) -> None:
    b = B.copy()
    b[0, 0] = 0.035
    for a in (A, A[::-1].copy(), np.full(9, 2.0), np.where(A > 0, np.nan, A)):
        assert jit(f)(a, b) == pytest.approx(f(a, b), nan_ok=True) == interpret(f, a, b)
    check_grads(jit(f), (A, b), order=1)


def test_indices_out_of_bounds_raise_as_before() -> None:
    b = B.copy()
    b[0, 0] = 7.0
    with pytest.raises(IndexError, match="index 700 is out of bounds"):
        jit(from_anywhere)(A, b)
    with pytest.raises(IndexError, match="index 0 is out of bounds"):
        jit(best_row)(A[:0], B)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        jit(best_row)(A, B[:5])


def nearest(a, b):
    """The value at the index that a loop over the other elements leaves, once more behind it."""
    best = 0
    for i in range(1, len(a)):
        if a[i] + b[i, 0] < a[best] + b[best, 0]:
            best = i
    return best, a[best] + b[best, 0]


def test_what_the_loop_has_carried_is_not_computed_again_behind_it() -> None:
    f = jit(nearest)
    for n in (1, 2, 9):
        assert f(A[:n], B[:n]) == nearest(A[:n], B[:n])
    body = f.inspect("optimized", A, B)
    assert " = get " not in body[body.rindex("\n^after("):]
    with pytest.raises(IndexError, match="index 0 is out of bounds for axis 0 with size 0"):
        f(A[:1], B[:0])
    with pytest.raises(IndexError, match="index 0 is out of bounds"):
        f(A[:0], B)
