"""Versions for the small sizes of the first call: any other size computes the same, by the same compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import check_grads, hvp, interpret, jit, value_and_grad
from jitad.ir.graph import Function
from jitad.passes.shapes import size_versions


def pairs(p: Any, q: Any, w: Any) -> float:
    """Arithmetic on rows of two arrays, a loop over columns, rows that are stored, an early end."""
    total = 0.0
    moved = np.zeros_like(p)
    for i in range(len(p)):
        d = p[i] - q[i] * w
        moved[i] = d / (1.0 + np.sum(d * d))
        for k in range(p.shape[1]):
            total += w[k] * moved[i, k] ** 2
        if total > 1e6:
            return total
    return total + math.sqrt(np.sum(moved * moved))


def rows(p: Any, q: Any, w: Any) -> Any:
    """Whole arrays, reduced over the short axis; an array result, whose type has no literal sizes."""
    r = np.sqrt(np.sum((p[:, None] - q) ** 2, axis=2) + 0.1)
    return np.sum(np.exp(-r), axis=1)[:, None] * (p @ w)[0] * p


def both(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda p, q, w: np.sum(np.sin(f(p, q, w)))


@contextmanager
def counted() -> Iterator[list[str]]:
    """A context with the list of the functions that get two versions."""
    choose, found = size_versions._worthwhile, []

    def counting(func: Function, likely: Any) -> Any:
        sizes = choose(func, likely)
        found.extend([func.name] if sizes else [])
        return sizes
    with mock.patch.object(size_versions, "_worthwhile", counting):
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("f", [pairs, both(rows)], ids=["pairs", "rows"])
def test_any_other_size(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    compiled, defined = jit(f, grad=(0, 1, 2)), value_and_grad(f, (0, 1, 2))
    with counted() as versions:
        for n, k in ((20, 3), (3, 3), (20, 2), (5, 4), (2, 7), (1, 1)):
            args = rng.normal(size=(n, k)), rng.normal(size=(n, k)), rng.normal(size=k)
            value, bars = compiled.value_and_grad(*args)
            assert value == pytest.approx(f(*args), rel=1e-12)
            if n < 20:
                for bar, expected in zip(bars, interpret(defined, *args)[1]):
                    np.testing.assert_allclose(bar, expected, rtol=1e-10, atol=1e-13)
    assert len(versions) == 1
    assert compiled.value_and_grad.stats["compilations"] == 2     # the second where the size is 1
    check_grads(f, (rng.normal(size=(16, 2)), rng.normal(size=(16, 2)), rng.normal(size=2)), order=1)


@pytest.mark.slow
def test_result_and_second_derivative() -> None:
    rng = np.random.default_rng(1)
    f, at = jit(rows), [rng.normal(size=s) for s in ((17, 2), (17, 2), (2,))]
    np.testing.assert_allclose(f(*at), rows(*at), rtol=1e-12)
    product = jit(lambda p, q, w, v: hvp(lambda p: pairs(p, q, w), (p,), (v,)))
    v, h, slope = rng.normal(size=(17, 2)), 1e-5, jit(pairs, grad=0)
    slope.grad(np.ones((4, 5)), np.ones((4, 5)), np.ones(5))              # no version
    differences = (slope.grad(at[0] + h * v, *at[1:]) - slope.grad(at[0] - h * v, *at[1:])) / (2 * h)
    np.testing.assert_allclose(product(*at, v), differences, rtol=1e-6, atol=1e-8)


def projected(cameras: Any, points: Any, which: Any, seen: Any) -> float:
    """Parts of rows by slices with constant bounds: of a shorter row they are shorter."""
    total = 0.0
    for k in range(len(seen)):
        c, x = cameras[which[k]], points[k]
        turned = x * c[:3] + np.cross(c[:3], x) + c[3:6] / (1.0 + np.sum(c[:3] ** 2))
        total += np.sum((turned[:2] / (2.0 + turned[2] ** 2) * c[-1] - seen[k]) ** 2)
    return total


@pytest.mark.slow
def test_parts_of_longer_rows() -> None:
    rng = np.random.default_rng(2)
    f = jit(projected, grad=(0, 1))
    with counted() as versions:
        for n, k in ((20, 9), (18, 7), (4, 9), (3, 20)):
            args = rng.normal(size=(5, k)), rng.normal(size=(n, 3)), rng.integers(-5, 5, n), rng.normal(size=(n, 2))
            value, _ = f.value_and_grad(*args)
            assert value == pytest.approx(projected(*args), rel=1e-12)
    assert len(versions) == 1
    with pytest.raises(ValueError, match=r"shapes|broadcast|sizes|dimension"):
        f.value_and_grad(np.ones((5, 4)), *args[1:])
    check_grads(lambda c, x: projected(c, x, args[2], args[3]), (args[0], args[1]), order=1)
    fresh = rng.normal(size=(5, 9)), rng.normal(size=(17, 3)), rng.integers(0, 5, 17), rng.normal(size=(17, 2))
    check_grads(lambda c, x: projected(c, x, *fresh[2:]), fresh[:2], order=1)


@pytest.mark.slow
def test_sizes_that_differ_are_told() -> None:
    f = jit(pairs, grad=True)
    f.value_and_grad(np.ones((20, 3)), np.ones((20, 3)), np.ones(3))
    for q, w in ((2, 3), (3, 2), (3, 4)):
        with pytest.raises(ValueError, match=r"shapes|broadcast|sizes"):
            f.value_and_grad(np.ones((20, 3)), np.ones((20, q)), np.ones(w))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        jit(lambda p, w: sum(w[k] * p[i, k] for i in range(len(p)) for k in range(p.shape[1])))(
            np.ones((20, 4)), np.ones(3))


def flat(p: Any, n: int) -> Any:
    for _ in range(n):
        p = p * 2.0 + p[0, 1]
    return p


def test_only_where_sizes_make_a_difference() -> None:
    with counted() as versions:
        np.testing.assert_array_equal(jit(flat)(np.ones((30, 2)), 2), flat(np.ones((30, 2)), 2))
        jit(pairs)(np.ones((30, 7)), np.ones((30, 7)), np.ones(7))
        jit(pairs)(np.ones((3, 2)), np.ones((3, 2)), np.ones(2))          # no typical call
    assert not versions


def nearest(p: Any, q: Any) -> float:
    """Loops whose derivative adds to the rows that they have chosen."""
    total = 0.0
    for i in range(len(p)):
        best, which = 1e300, 0
        for k in range(len(q)):
            d = np.sum((p[i] - q[k]) ** 2)
            if d < best:
                best, which = d, k
        total += np.sqrt(best) * q[which, 0]
    return total


def folded(p: Any, q: Any) -> float:
    """A sum of rows, whose squares other values of the iteration are made of."""
    total = 0.0
    for i in range(len(q)):
        force = np.zeros(p.shape[1])
        for row in p:
            d = row - q[i]
            force = force + d / (1.0 + np.dot(d, d))
        total += np.dot(force, force)
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [nearest, folded], ids=["nearest", "folded"])
def test_value_and_derivative_are_one_pass(f: Callable[..., float]) -> None:
    """Nothing is saved between a version and its derivative, and other sizes have the same derivative."""
    rng = np.random.default_rng(2)
    compiled = jit(f, grad=(0, 1))
    for n, m, k in ((40, 5, 2), (37, 5, 2), (40, 5, 3), (3, 2, 2), (2, 4, 6)):
        args = rng.normal(size=(n, k)), rng.normal(size=(m, k))
        value, bars = compiled.value_and_grad(*args)
        assert value == pytest.approx(f(*args), rel=1e-12)
        for bar, expected in zip(bars, interpret(value_and_grad(f, (0, 1)), *args)[1]):
            np.testing.assert_allclose(bar, expected, rtol=1e-10, atol=1e-13)
    assert compiled.value_and_grad.stats["compilations"] == 1
