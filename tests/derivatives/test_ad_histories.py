"""Saved values that are the same some iterations apart are in one array (``ad/storage/histories.py``)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, interpret, jit, value_and_grad
from jitad.testing import check_grads


def three_terms(c: Any, x: float) -> float:
    before, now = 1.0, x
    total = c[0] + c[1] * x
    for k in range(2, len(c)):
        before, now = now, 2.0 * x * now - before
        total += c[k] * now * now * before
    return total


def tree(v: Any, p: float) -> float:
    """Neighbours in place, as in a binomial tree."""
    v = v.copy()
    for step in range(len(v) - 1, 0, -1):
        for i in range(step):
            v[i] = math.sin(p * v[i + 1] * v[i] + (1.0 - p) * v[i])
    return v[0]


def downwards(v: Any, p: float) -> float:
    v = v.copy()
    for _ in range(3):
        for i in range(len(v) - 1, 0, -1):
            v[i] = v[i] * v[i - 1] * p + v[i]
    return np.sum(v * v)


def third_order(v: Any, p: float) -> float:
    a, b, c = p, p * p, 1.0
    total = 0.0
    for k in range(len(v)):
        a, b, c = b, c, math.sin(a * b + c * v[k])
        total += a * b * c
    return total


def overwritten(v: Any, p: float) -> float:
    """The element that the next iteration reads is not the one that this one has read."""
    v = v.copy()
    for i in range(len(v) - 1):
        x = v[i] * v[i + 1]
        v[i + 1] = p * x
        v[i] = math.sin(x) * p
    return np.sum(v * v)


def behind(v: Any, p: float) -> float:
    """What the next iteration reads has been overwritten, and read again."""
    v = v.copy()
    for i in range(len(v) - 1):
        x = v[i]
        v[i + 1] = v[i + 1] * p + x
        y = v[i + 1]
        v[i] = x * y * y
    return np.sum(v * v)


def sometimes(v: Any, p: float) -> float:
    """Only some iterations read the neighbour."""
    v = v.copy()
    for _ in range(2):
        for i in range(len(v) - 1):
            if i % 3 != 1:
                v[i] = v[i] * v[i + 1] * p
            else:
                v[i] = math.cos(v[i]) * v[i]
    return np.sum(v * v)


def swapped(v: Any, p: float) -> float:
    x, y, total = p, p * p, 0.0
    for k in range(len(v)):
        x, y = y, x
        total += x * x * y * v[k]
    return total


def in_rows(m: Any, p: float) -> float:
    m = m.copy()
    for i in range(m.shape[0]):
        for j in range(m.shape[1] - 1):
            m[i, j] = m[i, j] * m[i, j + 1] * p
    return np.sum(m * m)


def by_columns(m: Any, p: float) -> float:
    """The neighbour lies in another row."""
    m = m.copy()
    for j in range(m.shape[1]):
        for i in range(m.shape[0] - 1):
            m[i, j] = m[i, j] * m[i + 1, j] * p
    return np.sum(m * m)


VECTOR, MATRIX = np.array([0.3, -0.7, 1.1, 0.4, -0.2, 0.9]), np.linspace(0.5, 1.4, 12).reshape(3, 4)
ALL: list[tuple[Callable[..., Any], Any]] = [
    (three_terms, VECTOR), (tree, VECTOR), (downwards, VECTOR), (third_order, VECTOR), (overwritten, VECTOR),
    (behind, VECTOR), (sometimes, VECTOR), (swapped, VECTOR), (in_rows, MATRIX), (by_columns, MATRIX)]


@pytest.mark.slow
@pytest.mark.parametrize(("f", "v"), ALL, ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.parametrize("parallel", [False, True], ids=["one thread", "parallel"])
def test_gradients(f: Callable[..., Any], v: Any, parallel: bool) -> None:
    fast = jit(f, grad=(0, 1), parallel=parallel)
    value, slopes = fast.value_and_grad(v, 0.6)
    assert value == pytest.approx(f(v, 0.6), rel=1e-12)
    for got, want in zip(slopes, interpret(value_and_grad(f, (0, 1)), v, 0.6)[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    check_grads(f, (v, 0.6))


@pytest.mark.parametrize("f", [three_terms, tree, downwards, third_order, behind], ids=lambda f: f.__name__)
def test_few_iterations(f: Callable[..., Any]) -> None:
    for n in (2, 3, 4):
        v = VECTOR[:n].copy()
        got = jit(f, grad=(0, 1)).value_and_grad(v, 0.6)[1]
        for slope, want in zip(got, interpret(value_and_grad(f, (0, 1)), v, 0.6)[1], strict=True):
            np.testing.assert_allclose(slope, want, rtol=1e-10)


def saved(f: Callable[..., Any], v: Any) -> int:
    """The number of arrays that the forward loops fill for the reverse sweep."""
    text = str(value_and_grad(f, (0, 1)).inspect("adjoint", v, 0.6))
    return len(re.findall(r"= set %frames", text))


@pytest.mark.parametrize(("f", "v", "count"), [
    (three_terms, VECTOR, 1 + 1), (tree, VECTOR, 1 + 1), (downwards, VECTOR, 1 + 1), (third_order, VECTOR, 1 + 3)],
    ids=lambda x: getattr(x, "__name__", ""))
def test_one_array_holds_them(f: Callable[..., Any], v: Any, count: int) -> None:
    """One store in each iteration, and one behind the loop for each value that is newer than the oldest."""
    assert saved(f, v) <= count


def test_second_derivatives() -> None:
    along = jit(lambda p: grad(three_terms, 1)(VECTOR, p), grad=True)
    got, h = along.grad(0.6), 1e-6
    assert got == pytest.approx((along(0.6 + h) - along(0.6 - h)) / (2 * h), rel=1e-6)
