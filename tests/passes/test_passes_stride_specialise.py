"""Loops over rows of few columns know how many; sqrt of what cannot be negative has no check, others keep theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, hvp, interpret, jit


def distances(x: Any, m: Any) -> float:
    """Each pair's weight over its distance: reads columns 0, 1 and 2 of ``x``, and as many as there are otherwise."""
    total = 0.0
    for i in range(len(m)):
        for j in range(i):
            dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            total += m[j] / math.sqrt(dx * dx + dy * dy + dz * dz + 0.1)
    return total


def turned(x: Any, m: Any) -> float:
    """Writes columns of an array of its own, then reads them in another order."""
    y = x.copy()
    for i in range(len(m)):
        y[i, 0] = x[i, 1] * m[i]
        y[i, 1] += y[i, 0] * x[i, 2]
    total = 0.0
    for i in range(1, len(m)):
        total += y[i, 1] * y[i - 1, 0] + y[i, 2]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f", [distances, turned], ids=lambda f: f.__name__)
def test_any_number_of_columns(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    compiled, both = jit(f, grad=(0, 1)), grad(f, (0, 1))
    for columns, rows in [(3, 1), (3, 20), (4, 9), (7, 5)]:
        x, m = rng.normal(size=(rows, columns)), rng.uniform(0.5, 1.5, rows)
        value, bars = compiled.value_and_grad(x, m)
        assert value == pytest.approx(f(x, m), rel=1e-12, abs=1e-12)
        assert compiled(x, m) == pytest.approx(value, rel=1e-12, abs=1e-12)
        if rows == 5:
            for bar, expected in zip(bars, interpret(both, x, m)):
                np.testing.assert_allclose(bar, expected, rtol=1e-10, atol=1e-12)


def lengths(x: Any, ends: Any) -> float:
    """Reads rows at indices that are checked in the loop."""
    total = 0.0
    for e in range(len(ends)):
        dx, dy = x[ends[e, 0], 0] - x[ends[e, 1], 0], x[ends[e, 0], 1] - x[ends[e, 1], 1]
        total += math.sqrt(dx * dx + dy * dy + 0.1)
    return total


@pytest.mark.slow
def test_rows_at_indices_that_are_checked() -> None:
    rng = np.random.default_rng(2)
    compiled, ends = jit(lengths, grad=True), rng.integers(-9, 9, (30, 2))
    for columns in (2, 3):
        x = rng.normal(size=(9, columns))
        value, bar = compiled.value_and_grad(x, ends)
        assert value == pytest.approx(lengths(x, ends), rel=1e-12)
        np.testing.assert_allclose(bar, interpret(grad(lengths), x, ends), rtol=1e-10, atol=1e-12)
        with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
            compiled.grad(x, np.array([[0, 1], [3, 9]]))
    assert "as_type" in compiled.value_and_grad.inspect("optimized")


@pytest.mark.slow
@pytest.mark.long
def test_differences_with_and_without_the_guess() -> None:
    for columns in (3, 4):
        x, m = np.random.default_rng(columns).normal(size=(9, columns)), np.linspace(0.5, 1.5, 9)
        check_grads(turned, (x, m), order=1)


def test_second_derivatives_do_not_depend_on_the_guess() -> None:
    """With a column that nothing reads, the guess is wrong; the derivatives with respect to it are zero."""
    rng = np.random.default_rng(1)
    x, v, m = rng.normal(size=(12, 3)), rng.normal(size=(12, 3)), rng.uniform(0.5, 1.5, 12)
    product = jit(lambda x, v, m: hvp(lambda x: distances(x, m), (x,), (v,)))
    wider = [np.concatenate([a, np.ones((12, 1))], axis=1) for a in (x, v)]
    expected = product(x, v, m)
    np.testing.assert_allclose(product(*wider, m)[:, :3], expected, rtol=1e-12)
    assert not product(*wider, m)[:, 3].any()


def test_too_few_columns_are_told() -> None:
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 1 with size 2"):
        jit(distances, grad=True).value_and_grad(np.zeros((5, 2)), np.ones(5))


@pytest.mark.parametrize("write, has_check", [
    (lambda x, y: math.sqrt(x * x + y * y), False),
    (lambda x, y: math.sqrt(abs(x) * math.exp(y) + 1e-3), False),
    (lambda x, y: math.log(x * x + 1e-3), False),
    (lambda x, y: math.log(math.sqrt(y * y + 0.5)), False),
    (lambda x, y: math.sqrt(max(x * x, 2.0) / (y * y)), False),
    (lambda x, y: math.log1p(math.exp(x - y)), False),
    (lambda x, y: math.log1p(x * y), True),
    (lambda x, y: math.log(x * x), True),
    (lambda x, y: math.sqrt(x * y), True),
    (lambda x, y: math.sqrt(x * x - y * y), True),
    (lambda x, y: math.log(x * x + y), True),
    (lambda x, y: math.log(math.exp(x) * math.exp(y)), True),
])
def test_which_floats_cannot_be_negative(write: Callable[[Any, Any], float], has_check: bool) -> None:
    def f(x: Any) -> float:
        return write(x[0], x[1])
    compiled = jit(f)
    assert compiled(np.array([1.5, 0.5])) == pytest.approx(write(1.5, 0.5))
    text = compiled.inspect("optimized")
    of_floats = [line for line in text.splitlines() if line.strip().startswith("check") and "," not in line]
    assert bool(of_floats) is has_check


def test_minus_zero_and_nan_stay_what_they_are() -> None:
    root = jit(lambda x: math.sqrt(x[0] * x[0]))
    assert math.isnan(root(np.array([math.nan])))
    assert root(np.array([-0.0])) == 0.0
    with pytest.raises(ValueError, match="math domain error"):
        jit(lambda x: math.log(x[0] * x[0]))(np.array([1e-200]))     # the square underflows to 0
