"""Loops of the reverse sweep that would only add zeros are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit


def nearest(points: Any, centres: Any) -> float:
    total = 0.0
    for i in range(len(points)):
        best = 1e300
        for c in range(len(centres)):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[c, k]) ** 2
            if d < best:
                best = d
        total += best
    return total


def nearest_and_sum(points: Any, centres: Any) -> float:
    """The sum beside the choice is no choice, so ``last_choice`` leaves both."""
    total = 0.0
    for i in range(len(points)):
        best = 1e300
        for c in range(len(centres)):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[c, k]) ** 2
            if d < best:
                best = d
            total += centres[c, 0]
        total += best
    return total


def largest(points: Any, weights: Any) -> float:
    """The sums are used by a maximum and in another way."""
    best = total = 0.0
    for i in range(len(points)):
        s = 0.0
        for k in range(points.shape[1]):
            s += np.sin(points[i, k]) * weights[i % len(weights), k]
        best = max(best, s)
        total += 0.1 * s * s
    return best * best + total


def product(points: Any, weights: Any) -> float:
    """A factor that the loop passes on beside what it adds."""
    best = 1e300
    for i in range(len(points)):
        s, scale = 1.0, 1.0
        for k in range(points.shape[1]):
            scale = scale * 0.9
            s += points[i, k] * weights[0, k] * scale
        best = min(best, s * scale)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("f", [nearest, nearest_and_sum, largest, product], ids=lambda f: f.__name__)
def test_gradients(f: Any) -> None:
    rng = np.random.default_rng(0)
    args = rng.normal(size=(7, 5)), rng.normal(size=(3, 5))
    compiled = jit(f, grad=(0, 1))
    for got, want in zip(compiled.grad(*args), interpret(grad(f, argnums=(0, 1)), *args)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    check_grads(f, args, order=1)


@pytest.mark.slow
def test_the_loop_is_skipped() -> None:
    compiled = jit(nearest_and_sum, grad=(0, 1))
    compiled.grad(np.ones((4, 3)), np.zeros((2, 3)))
    assert "^zero" in compiled.grad.inspect("optimized")


def test_what_was_not_chosen_has_no_influence() -> None:
    """A factor of a product with zero may be infinite there."""
    points, centres = np.zeros((2, 3)), np.array([[1.0, 2.0, 3.0], [np.inf, 0.0, 0.0]])
    by_points, by_centres = jit(nearest, grad=(0, 1)).grad(points, centres)
    np.testing.assert_array_equal(by_points, -2.0 * np.array([[1.0, 2.0, 3.0]] * 2))
    np.testing.assert_array_equal(by_centres, [[4.0, 8.0, 12.0], [0.0, 0.0, 0.0]])


def least(x: Any, centres: Any) -> float:
    best = 9.0
    for c in range(len(centres)):
        d = (x - centres[c]) * (x - centres[c])
        if d < best:
            best = d
    return best


@pytest.mark.parametrize("x, centres", [(1.0, [np.inf, 20.0]), (np.inf, [1.0, 2.0]), (np.nan, [1.0, 2.0]),
                                        (1.0, [np.nan, np.nan])])
def test_a_choice_of_nothing_has_no_derivative(x: float, centres: list[float]) -> None:
    by_x, by_centres = jit(least, grad=(0, 1)).grad(x, np.array(centres))
    assert by_x == 0.0
    np.testing.assert_array_equal(by_centres, np.zeros(len(centres)))


def exercised(w: Any, strike: float) -> float:
    """A path that ends early, or below the strike, has no cotangents to pass back."""
    total = 0.0
    for i in range(len(w)):
        s, alive = 1.0, True
        for t in range(w.shape[1]):
            s *= 1.0 + w[i, t]
            if s > 3.0:
                alive = False
                break
        if alive and s > strike:
            total += s - strike
    return total


def test_paths_without_cotangents() -> None:
    w = np.random.default_rng(1).normal(0.0, 0.5, (20, 6))
    compiled = jit(exercised, grad=(0, 1))
    for got, want in zip(compiled.grad(w, 0.9), interpret(grad(exercised, argnums=(0, 1)), w, 0.9)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert "^zero" in compiled.grad.inspect("optimized")


def aligned(a: Any, b: Any, score: Any, gap: float) -> float:
    """The largest element of a table, each the largest of what three earlier ones yield: a cotangent is a sum."""
    h, best = np.zeros((len(a) + 1, len(b) + 1)), 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            h[i, j] = max(0.0, h[i - 1, j - 1] + score[a[i - 1], b[j - 1]], h[i - 1, j] - gap, h[i, j - 1] - gap)
            if h[i, j] > best:
                best = h[i, j]
    return best


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.3, -0.2])
def test_a_table_whose_cotangents_are_sums(gap: float) -> None:
    rng = np.random.default_rng(2)
    args = rng.integers(0, 3, 9), rng.integers(0, 3, 7), rng.normal(size=(3, 3)), gap
    compiled = jit(aligned, grad=(2, 3))
    for got, want in zip(compiled.grad(*args), interpret(grad(aligned, argnums=(2, 3)), *args)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert "^work" in compiled.grad.inspect("optimized")


def shortest_paths(w: Any) -> float:
    d = w.copy()
    for k in range(len(d)):
        for i in range(len(d)):
            for j in range(len(d)):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return np.sum(np.sin(d))


def gapped(a: Any, b: Any, score: Any, gap: float, longer: float) -> float:
    """An alignment with three tables of best scores beside each other."""
    n, m = len(a), len(b)
    h, e, f = np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            e[i, j] = max(e[i, j - 1] - longer, h[i, j - 1] - gap)
            f[i, j] = max(f[i - 1, j] - longer, h[i - 1, j] - gap)
            h[i, j] = max(h[i - 1, j - 1] + score[a[i - 1], b[j - 1]], e[i, j], f[i, j])
    return h[n, m] + 0.5 * h[n - 1, m]


@pytest.mark.slow
def test_iterations_off_the_best_path_are_skipped() -> None:
    rng = np.random.default_rng(4)
    paths, letters = rng.uniform(0.1, 2.0, (9, 9)), rng.integers(0, 4, (2, 12))
    for f, args, wrt in ((shortest_paths, (paths,), (0,)),
                         (gapped, (letters[0], letters[1, :9], rng.normal(size=(4, 4)), 0.7, 0.31), (2, 3, 4))):
        compiled = jit(f, grad=wrt)
        assert "^work" in str(compiled.value_and_grad.inspect("optimized", *args))
        got, want = compiled.grad(*args), interpret(grad(f, wrt), *args)
        for slope, expected in zip(got if len(wrt) > 1 else [got], want if len(wrt) > 1 else [want], strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-11, atol=1e-13)
        check_grads(compiled, args, order=1, modes=("rev",))
