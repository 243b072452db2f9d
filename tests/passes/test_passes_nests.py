"""Nests of counted loops: the order of sums, the exceptions of checks that were hoisted, and gradients."""

from __future__ import annotations

import itertools
import math
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, spec


def ordered(a: Any, b: Any, start: Any) -> Any:
    """``start + a @ b`` with each sum in order; products with powers of two are exact, so fused additions agree."""
    total = np.zeros((len(a), b.shape[1]), b.dtype) + start
    for k in range(len(b)):
        total = total + a[:, k, None] * b[k]
    return total


def product(a: Any, b: Any) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]), b.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = b.dtype.type(0.0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


def columns_inside(a: Any, b: Any) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]), b.dtype)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def sum_outside(a: Any, b: Any) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]), b.dtype)
    for k in range(a.shape[1]):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def rows(a: Any, b: Any) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]), b.dtype)
    for i in range(a.shape[0]):
        row = np.zeros(b.shape[1], b.dtype)
        for k in range(len(b)):
            row += a[i, k] * b[k]
        c[i] = row
    return c


def layer(a: Any, b: Any, start: Any) -> Any:
    """The sum begins at an element of a vector, and ``a`` and ``b`` are stored transposed."""
    c = np.zeros((a.shape[1], b.shape[0]), b.dtype)
    for i in range(a.shape[1]):
        for j in range(b.shape[0]):
            s = start[j]
            for k in range(a.shape[0]):
                s += a[k, i] * b[j, k]
            c[i, j] = s
    return c


def factors(rng: np.random.Generator, m: int, k: int, n: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    a = 2.0 ** rng.integers(-9, 9, (m, k)) * rng.choice([-1.0, 1.0], (m, k))
    return a.astype(dtype), rng.normal(0.0, 1.0, (k, n)).astype(dtype)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_products_keep_their_order(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    forms = [jit(f) for f in (product, columns_inside, sum_outside, rows)]
    turned = jit(layer)
    for m, k, n in ((130, 40, 33), (64, 9, 5), (1, 8, 1), (3, 1, 70), (5, 0, 4), (0, 9, 4)):
        a, b = factors(rng, m, k, n, dtype)
        start = rng.normal(0.0, 1.0, n).astype(dtype)
        for form in forms:
            assert np.array_equal(form(a, b), ordered(a, b, dtype(0.0))), (form, m, k, n)
        got = turned(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), start)
        assert np.array_equal(got, ordered(a, b, start)), (m, k, n)


def added_up_by_columns(a: Any, b: Any) -> Any:
    s = np.zeros(b.shape[1])
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                s[j] += a[i, k] * b[k, j]
            total += a[i, j]
    return s + total


def added_up(a: Any, b: Any) -> Any:
    s = np.zeros(2)
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                s[1] += a[i, k] * b[k, j]
            total += a[i, j]
    return s + total


@pytest.mark.parametrize("form", [added_up_by_columns, added_up])
def test_sums_that_go_on_from_row_to_row(form: Any) -> None:
    """The element has been added to before: the sum of products does not begin at 0."""
    a, b = factors(np.random.default_rng(6), 7, 9, 5)
    np.testing.assert_allclose(jit(form)(a, b), form(a, b), 1e-13)


def test_large_products_are_not_left_to_blas() -> None:
    a, b = factors(np.random.default_rng(4), 64, 380, 380)
    assert np.array_equal(jit(product)(a, b), ordered(a, b, 0.0))


@pytest.mark.slow
@pytest.mark.long
def test_gradients_of_products() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.0, 1.0, (70, 9)), rng.normal(0.0, 1.0, (9, 6))
    weights = rng.normal(0.0, 1.0, (70, 6))
    expected = weights @ b.T, a.T @ weights
    for form in (product, columns_inside, sum_outside, rows):
        def loss(a: Any, b: Any) -> Any:
            return np.sum(form(a, b) * weights)                  # noqa: B023
        for got, wanted in zip(jit(grad(loss, (0, 1)))(a, b), expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-12)
    arguments = tuple(rng.normal(0.0, 1.0, n) for n in ((9, 5), (6, 9), 6))
    check_grads(lambda a, b, c: np.sum(layer(a, b, c) ** 2), arguments)


def convolution(x: Any, w: Any, n: int) -> Any:
    out = np.zeros(n)
    for k in range(len(w)):
        for i in range(n):
            out[i] += w[k] * x[i + k]
    return out


def table(x: Any, rows: int, columns: int) -> Any:
    total = 0.0
    for i in range(rows):
        for j in range(columns):
            total += x[i, j]
    return total


def test_checks_of_whole_nests_raise_what_python_raises() -> None:
    x, w = np.arange(20.0), np.array([1.0, -2.0, 4.0])
    run, add = jit(convolution), jit(table)
    assert np.array_equal(run(x, w, 18), convolution(x, w, 18))
    assert np.array_equal(run(x[:0], w[:0], 5), np.zeros(5))
    assert add(np.zeros((2, 3)), 9, 0) == add(np.zeros((2, 3)), 0, 9) == 0.0
    for call in (lambda f, g: f(x, w, 19), lambda f, g: f(x[:2], w, 3), lambda f, g: g(np.zeros((2, 3)), 3, 3),
                 lambda f, g: g(np.zeros((2, 3)), 2, 4), lambda f, g: g(np.zeros((2, 3)), 2**40, 1)):
        with pytest.raises(IndexError) as wanted:
            call(convolution, table)
        with pytest.raises(IndexError) as got:
            call(run, add)
        assert str(got.value) == str(wanted.value)


def several(a: Any, b: Any, c: Any, n: int, m: int) -> float:
    """Indices that are out of bounds at several places; the first of them in the program is the one to tell."""
    total = 0.0
    for i in range(n):
        for j in range(m):
            total += a[i, j] * b[j]
        for j in range(m):
            total += c[j]
            total -= b[i]
    return total


def failure(f: Any, *args: Any) -> tuple[str, int] | None:
    """The message of the exception of ``f`` and its line."""
    try:
        f(*args)
    except IndexError as e:
        return str(e), traceback.extract_tb(e.__traceback__)[-1].lineno or 0
    return None


def test_of_several_checks_that_fail_the_first_one_is_told() -> None:
    run = jit(several)
    checks = run.inspect("optimized", spec("f64[:, :]"), spec("f64[:]"), spec("f64[:]"), 1, 1)
    assert checks.index("check") < checks.index("^loop") and "check" not in checks[checks.index("^loop"):]
    for rows, width, b, c, n, m in itertools.product((0, 2), (0, 3), (0, 2, 4), (0, 3, 6), (1, 3), (0, 2, 4, 5)):
        args = np.ones((rows, width)), np.ones(b), np.ones(c), n, m
        assert failure(run, *args) == failure(several, *args), (rows, width, b, c, n, m)


def options(z: Any, strike: float) -> Any:
    """A conditional sum over paths, and a condition in each step."""
    total = 0.0
    for i in range(z.shape[0]):
        x = 1.0
        for t in range(z.shape[1]):
            x += 0.1 * x * z[i, t]
            if x < 0.5:
                x = 0.5
        if x > strike:
            total += x - strike
    return total


def test_lanes_take_conditional_sums_around_an_inner_loop() -> None:
    run = jit(options)
    assert "^chunks" in run.inspect("optimized", spec("f64[:, :]"), 1.0)
    z = np.random.default_rng(7).normal(0.0, 1.0, (37, 11))
    np.testing.assert_allclose(run(z, 1.0), options(z, 1.0), 1e-14)


def stepped_product(a: Any, b: Any, n: int, m: int, p: int) -> float:
    """A product with ``while``, whose trip counts may be negative."""
    total = 0.0
    i = 0
    while i < n:
        j = 0
        while j < m:
            s, k = 0.0, 0
            while k < p:
                s += a[i, k] * b[k, j]
                k += 1
            total += s + 1.0
            j += 1
        i += 1
    return total


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(12, 12), (9, 4), (5, 0)])
def test_products_of_loops_that_have_no_iteration(shape: tuple[int, int]) -> None:
    """Nothing is checked, or allocated, for a loop that is not executed: neither for a negative count."""
    assert "matmul" in str(jit(stepped_product).inspect("optimized", np.ones((9, 9)), np.ones((9, 9)), 2, 2, 2))
    compiled, a, b = jit(stepped_product, grad=(0, 1)), np.ones((12, 12)), np.ones(shape)
    for n, m, p in itertools.product((-3, 0, 2), (-3, 0, 4, 14), (-2, 0, 9, 15)):
        try:
            expected = stepped_product(a, b, n, m, p)
        except IndexError as e:
            with pytest.raises(IndexError, match=str(e)):
                compiled(a, b, n, m, p)
        else:
            assert compiled(a, b, n, m, p) == expected
            assert compiled.value_and_grad(a, b, n, m, p)[0] == expected


def scratch_product(a: Any, b: Any, n: int, m: int, p: int) -> float:
    total = 0.0
    for i in range(n):
        c = np.zeros(m)
        for k in range(p):
            for j in range(m):
                c[j] += a[i, k] * b[k, j]
        for j in range(m):
            total += c[j] * j + 1.0
    return total


def whole_product(a: Any, b: Any, n: int, m: int, p: int) -> float:
    return scratch_product(a, b, a.shape[0], b.shape[1], p)


def placed_product(a: Any, b: Any, n: int, m: int, p: int) -> float:
    total, c = 0.0, np.ones(m)
    for i in range(a.shape[0]):
        for j in range(min(m, b.shape[1])):
            c[j] = 0.0
            for k in range(p):
                c[j] += a[i, k] * b[k, j]
        for j in range(m):
            total += c[j] * j + 1.0
    return total


def short_product(a: Any, b: Any, n: int, m: int, p: int) -> float:
    """What the sums are stored in may be too short, which is no error if there is no term."""
    total, kept = 0.0, np.zeros(40)
    for i in range(a.shape[0]):
        c = np.zeros(m)
        for k in range(p):
            for j in range(b.shape[1]):
                c[j] += a[i, k] * b[k, j]
        total += np.sum(c) + kept[i]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("program", [scratch_product, whole_product, placed_product, short_product])
@pytest.mark.parametrize("shape", [(12, 12), (9, 4), (5, 0)])
def test_sums_of_no_terms_need_no_elements(program: Callable[..., float], shape: tuple[int, int]) -> None:
    """A product is smaller than the loops where these end behind the arrays, which is no error if there is no term."""
    compiled, a, b = jit(program, grad=(0, 1)), np.ones((12, 12)), np.ones(shape)
    assert ("matmul" in jit(program).inspect("optimized", a, b, 2, 2, 2)) is (program is not short_product)
    for n, m, p in itertools.product((0, 2, 20), (0, 4, 14), (-2, 0, 4, 9, 15)):
        try:
            expected = program(a, b, n, m, p)
        except IndexError as e:
            with pytest.raises(IndexError, match=str(e)):
                compiled(a, b, n, m, p)
        else:
            assert compiled(a, b, n, m, p) == expected
            assert compiled.value_and_grad(a, b, n, m, p)[0] == expected


def scores(a: Any, b: Any, w: Any, m: int) -> float:
    """Dot products of rows, written as a sum and as a product, in a nest whose logarithms are checked."""
    total = 0.0
    for i in range(len(a)):
        for j in range(m):
            total += w[j] * np.sum((a[i] - 1.0) * b[j])
            total += a[i] @ b[j]
        total += math.log(a[i, 0])
    return total


def projected(a: Any, b: Any, w: Any, m: int) -> float:
    """Dot products of columns, and products of a matrix and the rows of another."""
    total = 0.0
    for i in range(len(a)):
        z = b @ a[i] + (2.0 * a[i]) @ b.T
        total += math.log(np.max(z * z) + np.sum(w[:m] * w[:m]))
    for i in range(a.shape[1]):
        for j in range(m):
            total += np.dot(a[:, i], a[:, j]) * w[j]
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["scores", "projected"])
def test_products_of_vectors_in_loops(name: str) -> None:
    f, rng = {"scores": scores, "projected": projected}[name], np.random.default_rng(3)
    compiled = jit(f, grad=(0, 1, 2))
    a, b, w = rng.uniform(0.5, 1.0, (70, 12)), rng.uniform(0.5, 1.0, (10, 12)), rng.uniform(0.5, 1.0, 10)
    code = str(compiled.inspect("optimized", a, b, w, 9))
    assert code.count(" = matmul ") == (2 if name == "scores" else 3)
    np.testing.assert_allclose(compiled(a, b, w, 9), f(a, b, w, 9), rtol=1e-12)
    check_grads(lambda a, b, w: f(a, b, w, 9), (a[:9], b, w), order=1)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["scores", "projected"])
def test_products_of_vectors_raise_what_python_raises(name: str) -> None:
    """Sizes that differ, indices that are too large and logarithms of what is not positive, in all combinations."""
    f = {"scores": scores, "projected": projected}[name]
    compiled = jit(f, grad=(0, 1, 2))
    for rows, width, other, n, m in itertools.product((0, 66), (9, 12), (9, 1, 0), (8, 11), (0, 8, 9, 12)):
        for first in (1.0, -1.0):
            args = np.full((rows, width), first), np.ones((n, other)), np.ones(n), m
            try:
                expected = f(*args)
            except (IndexError, ValueError) as e:
                with pytest.raises(type(e)):
                    compiled(*args)
            else:
                assert compiled(*args) == pytest.approx(expected, rel=1e-12)
                assert compiled.value_and_grad(*args)[0] == pytest.approx(expected, rel=1e-12)


def squared(a: Any, b: Any, steps: int) -> Any:
    """A matrix that each step replaces: its sizes are those of the argument in the first step only."""
    n = len(a)
    p = a.copy()
    for _ in range(steps):
        product = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    product[i, j] += p[i, k] * b[k, j]
        p = product
    return np.sum(p * p)


@pytest.mark.long
@pytest.mark.slow
def test_products_of_matrices_that_a_loop_replaces() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(9, 9)), rng.normal(size=(9, 9))
    f = jit(squared, grad=(0, 1))
    for steps in (0, 1, 3):
        assert f(a, b, steps) == pytest.approx(squared(a, b, steps), rel=1e-13)
        for got, want in zip(f.grad(a, b, steps), interpret(grad(squared, (0, 1)), a, b, steps), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11)
    assert "matmul" in f.inspect("optimized", a, b, 3)
    assert f(a[:, :7], b, 0) == pytest.approx(squared(a[:, :7], b, 0), rel=1e-13)
    assert f(a, rng.normal(size=(12, 11)), 2) > 0.0
    for wrong in ((a[:, :7], b), (a, b[:8]), (a, b[:, :8])):
        with pytest.raises(IndexError) as expected:
            squared(*wrong, 2)
        with pytest.raises(IndexError, match=re.escape(str(expected.value))):
            f(*wrong, 2)


def carried_by_wind(u: Any, wind: Any, steps: int) -> Any:
    now = u.copy()
    for _ in range(steps):
        new = now.copy()
        for i in range(1, len(u) - 1):
            if wind[i] > 0.0:
                new[i] = now[i] - wind[i] * (now[i] - now[i - 1])
            else:
                new[i] = now[i] - wind[i] * (now[i + 1] - now[i])
        now = new
    return np.sum(now)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_a_loop_without_iterations_has_no_index_beyond_an_empty_array(n: int) -> None:
    f, u = jit(carried_by_wind), np.linspace(-1.0, 1.0, n)
    assert f(u, 0.3 * u, 4) == pytest.approx(carried_by_wind(u, 0.3 * u, 4), rel=1e-13)
    with pytest.raises(IndexError, match="index 1 is out of bounds for axis 0 with size 1"):
        f(np.zeros(4), np.zeros(1), 2)


def covariance(x: Any, mean: Any, count: float) -> Any:
    c = np.zeros((x.shape[1], x.shape[1]))
    for t in range(len(x)):
        for i in range(x.shape[1]):
            for j in range(x.shape[1]):
                c[i, j] += (x[t, i] - mean[i]) * (x[t, j] - mean[j]) / count
    return c


def weighted(x: Any, mean: Any, count: float) -> Any:
    c = np.zeros((x.shape[1], x.shape[1]))
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            for t in range(len(x)):
                c[i, j] += count * (x[t, i] * (x[t, j] - mean[j]))
    return c


@pytest.mark.slow
@pytest.mark.parametrize("form", [covariance, weighted])
def test_products_that_are_scaled(form: Any) -> None:
    """Under fast math a factor is scaled; otherwise each product is."""
    rng = np.random.default_rng(5)
    x, mean = rng.normal(size=(23, 9)), rng.normal(size=9)
    fast, exact = jit(form, fastmath=True), jit(form)
    for f in (fast, exact):
        np.testing.assert_allclose(f(x, mean, 22.0), form(x, mean, 22.0), rtol=1e-12)
    assert "matmul" in fast.inspect("optimized") and "matmul" not in exact.inspect("optimized")
    assert fast(x[:0], mean, 22.0).shape == (9, 9)

    def loss(x: Any, mean: Any) -> float:
        return np.sum(np.cos(form(x, mean, 2.0)))
    bars, others = (jit(loss, grad=(0, 1), fastmath=f).grad(x, mean) for f in (True, False))
    for bar, other in zip(bars, others):
        np.testing.assert_allclose(bar, other, rtol=1e-9, atol=1e-12)


def from_the_second(a: Any, b: Any) -> Any:
    """The index is the number of the next iteration."""
    c = np.zeros((a.shape[0], b.shape[1]))
    for k in range(1, a.shape[1]):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def rows_from_the_second(a: Any, b: Any) -> Any:
    total = np.zeros(b.shape[1])
    for k in range(1, len(b)):
        for j in range(b.shape[1]):
            total[j] += b[k, j] * a[0, k]
    return total


def sums_from_the_second(a: Any, b: Any) -> float:
    s = 0.0
    for k in range(1, len(b)):
        for j in range(b.shape[1]):
            s += b[k, j] * a[0, j]
    return s


@pytest.mark.parametrize("form", [from_the_second, rows_from_the_second, sums_from_the_second])
def test_loops_that_begin_at_one(form: Any) -> None:
    rng = np.random.default_rng(7)
    for n in (1, 2, 20):
        a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n))
        np.testing.assert_allclose(jit(form)(a, b), form(a, b), rtol=1e-13, atol=1e-13)
        check_grads(jit(lambda a, b: np.sum(form(a, b) ** 2), grad=(0, 1)), (a[:3], b[:, :3]) if n == 2 else (a, b),
                    order=1, modes=("rev",))
