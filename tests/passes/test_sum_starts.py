"""Products of matrices by loops whose sums begin at elements of a matrix, or of which products are subtracted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit
from tests.passes.test_passes_nests import factors, ordered

Form = Callable[[Any, Any, Any, Any], Any]
FORMS: dict[str, tuple[Form, Callable[[Any, Any], Any], int]] = {}


def form(starts: Callable[[Any, Any], Any], sign: int = 1) -> Callable[[Form], Form]:
    """``starts``: the matrix that ``f(a, b, c, w)`` begins with, from ``c`` and ``w``."""
    def note(f: Form) -> Form:
        FORMS[f.__name__] = (f, starts, sign)
        return f
    return note


@form(lambda c, w: c)
def in_place(a, b, c, w):
    c = c.copy()
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@form(lambda c, w: c, -1)
def subtracted(a, b, c, w):
    c = c.copy()
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] -= a[i, k] * b[k, j]
    return c


@form(lambda c, w: c, -1)
def residuals(a, b, c, w):
    out = np.zeros(c.shape, c.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            r = c[i, j]
            for k in range(a.shape[1]):
                r -= a[i, k] * b[k, j]
            out[i, j] = r
    return out


@form(lambda c, w: 2 * c)
def scaled_ahead(a, b, c, w):
    c = c.copy()
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] *= 2
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@form(lambda c, w: 0 * c + w)
def a_vector_ahead(a, b, c, w):
    out = np.empty(c.shape, c.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = w[j]
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


@form(lambda c, w: 0 * c)
def zeros_ahead(a, b, c, w):
    out = np.ones(c.shape, c.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


@form(lambda c, w: 0 * c + w[0])
def a_number(a, b, c, w):
    out = np.zeros(c.shape, c.dtype)
    first = w[0]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = first
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s
    return out


@form(lambda c, w: c - 2 * w)
def a_formula(a, b, c, w):
    out = np.zeros(c.shape, c.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = c[i, j] - 2 * w[j]
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s
    return out


def arguments(rng: np.random.Generator, m: int, k: int, n: int, dtype: Any = np.float64) -> tuple[Any, Any, Any, Any]:
    a, b = factors(rng, m, k, n, dtype)
    return a, b, rng.normal(size=(m, n)).astype(dtype), rng.normal(size=n).astype(dtype)


@pytest.mark.parametrize("name", FORMS)
def test_is_a_product(name: str) -> None:
    f = FORMS[name][0]
    a, b, c, w = arguments(np.random.default_rng(0), 9, 8, 9)
    assert "matmul {ordered" in jit(f).inspect("optimized", a, b, c, w)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_keep_their_order(name: str, dtype: Any) -> None:
    f, starts, sign = FORMS[name]
    compiled = jit(f)
    rng = np.random.default_rng(1)
    for m, k, n in ((9, 8, 9), (1, 20, 1), (70, 9, 130), (129, 30, 129), (64, 1, 64), (3, 0, 4), (0, 3, 3)):
        a, b, c, w = arguments(rng, m, k, n, dtype)
        np.testing.assert_array_equal(compiled(a, b, c, w), ordered(sign * a, b, starts(c, w)), err_msg=f"{m} {k} {n}")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_gradients(name: str) -> None:
    f = FORMS[name][0]

    def loss(a, b, c, w):
        return np.sum(np.tanh(f(a, b, c, w)))
    a, b, c, w = (0.1 * x for x in arguments(np.random.default_rng(2), 11, 9, 11))
    check_grads(loss, (a, b, c, w), order=1)
    gradient = grad(loss, (0, 1, 2, 3))
    for given, wanted in zip(jit(gradient)(a, b, c, w), interpret(gradient, a, b, c, w)):
        np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-14)


def unless_flagged(a, b, c, flag):
    """The loop ahead is not always executed."""
    c = c.copy()
    for i in range(a.shape[0]):
        if flag > 0:
            for j in range(b.shape[1]):
                c[i, j] = 0.0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def some_columns(a, b, c, some):
    """The loop ahead has other columns."""
    c = c.copy()
    for i in range(a.shape[0]):
        for j in range(some):
            c[i, j] = 0.0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def changed_between(a, b, c, at):
    """An element has changed behind the loop ahead."""
    c = c.copy()
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0.5
        c[i, at] = 7.0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def of_the_row_before(a, b, c, some):
    """The sums begin where those of the row before have ended."""
    c = c.copy()
    for i in range(1, a.shape[0]):
        for j in range(b.shape[1]):
            s = c[i - 1, j]
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


def of_its_own_column(a, b, c, some):
    """What is stored is read in later rows: a matrix is a factor and is updated."""
    c = c.copy()
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] -= c[i, k] * b[k, j]
    return c


@pytest.mark.slow
@pytest.mark.parametrize("f", [unless_flagged, some_columns, changed_between, of_the_row_before, of_its_own_column])
def test_what_begins_elsewhere(f: Any) -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((9, 9, 9), (70, 12, 12), (2, 8, 30)):
        a, b, c = rng.normal(size=(m, k)), 0.1 * rng.normal(size=(k, n)), rng.normal(size=(m, max(n, k)))
        for last in (0, 1, 8):
            np.testing.assert_allclose(jit(f)(a, b, c, last), f(a, b, c, last), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["in_place", "residuals", "scaled_ahead", "a_vector_ahead"])
def test_raises_what_python_raises(name: str) -> None:
    f = FORMS[name][0]
    a, b, c, w = arguments(np.random.default_rng(4), 70, 9, 12)
    for few in ((a, b, c[:66], w), (a, b, c[:, :10], w), (a, b[:7], c, w), (a, b, c[:66], w[:10])):
        try:
            f(*few)
        except IndexError as e:
            with pytest.raises(IndexError) as found:
                jit(f)(*few)
            assert str(found.value).splitlines()[0] == str(e)
        else:
            np.testing.assert_allclose(jit(f)(*few), f(*few), rtol=1e-12)
