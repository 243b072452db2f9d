"""Decomposition of floats, windows, stacked products, queries of dtypes and shapes: NumPy's values and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import grad, interpret, jit
from tests.arrays.test_numpy_meaning import alike, same
from tests.arrays.test_numpy_polynomials import message, slopes

pytestmark = pytest.mark.any_level

A = np.array([0.5, -1.25, 3.1, 2.25, 0.3, -4.2, 7.5])
I = np.array([3, 1, 0, -2, 5])
F = A.astype(np.float32)
M = np.arange(12.0).reshape(3, 4) / 3 - 1
B = np.sin(np.arange(24.0)).reshape(2, 4, 3)
EDGES = np.array([0.0, -0.0, 1.0, -1.5, 2.0, 1e300, -1e-310, 5e-324, math.inf, -math.inf, math.nan, 0.5, 1 - 2**-53,
                  1 + 2**-52, -(2.0**-1022), 2.0**1023, 3.7e10, 0.1])
SINGLE = np.array([0.0, -0.0, 1.0, -1.5, 3e38, -1e-42, math.inf, -math.inf, math.nan, 0.5, 1 - 2**-24, -(2.0**-126)],
                  np.float32)


def bits(expected: Any, found: Any) -> None:
    """Equal to the last bit, including signs of zeros."""
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for x, y in zip(expected, found):
            bits(x, y)
        return
    assert np.asarray(expected).dtype == np.asarray(found).dtype
    np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected) | np.signbit(found) &
                                  np.isnan(expected))


def exactly(fun: Any, *args: Any) -> None:
    with np.errstate(all="ignore"):
        bits(fun(*args), interpret(fun, *args))


# --- floats -----------------------------------------------------------------------------------------

def test_sign_and_kind() -> None:
    for fun in (np.signbit, np.isposinf, np.isneginf, np.isreal, np.iscomplex, np.imag, np.angle):
        for x in (EDGES, SINGLE, I, 2.5, -3):
            alike(lambda x, fun=fun: fun(x), x)
    alike(lambda x: [np.angle(x, deg=True), np.angle(x, True)], EDGES)
    alike(lambda x: (np.isrealobj(x), np.iscomplexobj(x), np.iterable(x), np.iterable(x[0]), np.iterable([1])), A)
    alike(lambda x: np.asarray_chkfinite(x), A)
    message(lambda x: np.asarray_chkfinite(x), EDGES)


@pytest.mark.slow
def test_parts() -> None:
    for x in (EDGES, SINGLE, I, 2.5, -3):
        for fun in (np.modf, np.frexp, np.spacing):
            exactly(lambda x, fun=fun: fun(x), x)
    powers = np.array([0, 1, -1, 1023, 1024, -1022, -1023, -1074, -1075, -2000, 2000, 2097, -2098, 5, 2**40, -(2**40)])
    exactly(lambda x, k: np.ldexp(x[:, None], k), EDGES, np.clip(powers, -(2**31), 2**31 - 1))
    exactly(lambda x, k: np.ldexp(x[:, None], k), SINGLE, np.arange(-290, 290, 17))
    exactly(lambda x: np.ldexp(*np.frexp(x)), EDGES)
    with pytest.raises(TypeError):
        interpret(lambda x: np.ldexp(x, x), A)


def test_neighbours() -> None:
    with np.errstate(all="ignore"):
        exactly(lambda x: np.nextafter(x[:, None], x), EDGES)
        exactly(lambda x: np.nextafter(x[:, None], x), SINGLE)
        exactly(lambda x: (np.nextafter(x, 2.0), np.nextafter(x, -math.inf)), SINGLE)
        exactly(lambda n: np.nextafter(n, 2), 1)
        exactly(lambda x: np.spacing(x), np.array([1, -1]) * np.finfo(float).max)
        exactly(lambda x: np.spacing(x), np.array([1, -1], np.float32) * np.finfo(np.float32).max)


def test_compiled_floats_are_exact_too() -> None:
    def all_of(x, k):
        return *np.frexp(x), np.ldexp(x, k), np.nextafter(x, 1.0), np.spacing(x), *np.modf(x)
    rng = np.random.default_rng(0)
    x = np.concatenate((EDGES, rng.normal(size=500) * 2.0 ** rng.integers(-1070, 1000, 500)))
    k = rng.integers(-1200, 1200, len(x))
    with np.errstate(all="ignore"):
        bits(all_of(x, k), jit(all_of)(x, k))


def test_gcd_and_lcm() -> None:
    for fun in (np.gcd, np.lcm):
        for x, y in ((I, I[::-1].copy()), (I, 12), (12, 18), (I.astype(np.int32), np.int32(4)), (I, np.int32(4))):
            alike(lambda x, y, fun=fun: fun(x, y), x, y)
        alike(lambda x, fun=fun: [fun(x[:, None], -2 * x), fun([12, 18], x[0])], I)
        alike(lambda x, y, fun=fun: fun(x, y), np.array([-2**63, -4]), np.array([6, -6]))
        alike(lambda x, y, fun=fun: fun(x, y), np.array([2**63 - 1, 6]), np.array([6, 1 - 2**63]))
        with pytest.raises(TypeError):
            interpret(lambda x, fun=fun: fun(x, 2), A)
    for x in (6 * I, I.astype(np.int32), np.array([4, 6, 10]), np.array([-5])):
        alike(lambda x: [np.gcd.reduce(x), np.lcm.reduce(x), np.gcd.reduce(x[:0]), np.lcm.reduce([x[0], 4])], x)
    message(lambda x: np.lcm.reduce(x[:0]), I)


# --- windows ----------------------------------------------------------------------------------------

@pytest.mark.slow
def test_windows() -> None:
    def windows(n, beta):
        return np.hanning(n), np.hamming(n), np.blackman(n), np.bartlett(n), np.kaiser(n, beta), np.kaiser(n, 0)
    compiled = jit(windows)
    for n in (-1, 0, 1, 2, 3, 10, 51, 0.5, 1.5, 4.7):
        with np.errstate(all="ignore"):
            same(windows(n, 8.6), compiled(n, 8.6))
    alike(lambda x: [np.hanning(5) * x, np.kaiser(4, x)], 2.0)

    def window(n):
        w = np.bartlett(n)
        w[0] = 5.0
        return w
    alike(window, 4)


def test_bessel() -> None:
    x = np.concatenate((np.linspace(-30, 30, 61), [700.0, 1e-9, 8.0, 8.000001, math.nan, math.inf]))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(interpret(lambda x: np.i0(x), x), np.i0(x), rtol=2e-15)
    for x in (2.5, I, F):
        np.testing.assert_allclose(interpret(lambda x: np.i0(x), x), np.i0(x), rtol=1e-6 if x is F else 1e-14)
    special = pytest.importorskip("scipy.special")
    y = np.array([-20.0, -3.0, 0.0, 1.0, 7.9, 8.1, 50.0])
    slopes = grad(lambda x: np.sum(np.i0(x)))
    np.testing.assert_allclose(interpret(slopes, y), special.i1(y), rtol=1e-13)
    curvature = interpret(grad(lambda x: np.sum(slopes(x))), y)
    np.testing.assert_allclose(curvature, (special.i0(y) + special.iv(2, y)) / 2, rtol=1e-12)


# --- whole arrays -----------------------------------------------------------------------------------

def test_comparing() -> None:
    alike(lambda a, b: [np.array_equal(a, b), np.array_equal(a, b[:3]), np.array_equal(a, np.outer(a, b)),
                        np.array_equal(a, 1.0), np.array_equal(a, [1, 2]), np.array_equiv(a, np.stack((a, b))),
                        np.array_equiv(a, b[:3]), np.array_equiv(a * 0, 0), np.array_equiv(a, np.ones((2, 7)))], A, A)
    alike(lambda a: [np.array_equal(a, a), np.array_equal(a, a, equal_nan=True)], EDGES)
    compiled = jit(lambda a, b: 1.0 if np.array_equal(a, b) else 0.0)
    assert [compiled(A, A), compiled(A, A[:2]), compiled(A, 2 * A)] == [1.0, 0.0, 0.0]


def test_shapes_and_dtypes() -> None:
    alike(lambda a, b: [np.broadcast_shapes(a.shape, b.shape), np.broadcast_shapes((3, 1), 4, a.shape, (5, 1, 1))],
          M, A[:4])
    alike(lambda a, b: np.zeros(np.broadcast_shapes(a.shape, (1,), (2, 1, 1))), M, A)
    message(lambda a: np.broadcast_shapes((2,), 3), A)
    with pytest.raises(ValueError, match="shape mismatch"):
        interpret(lambda a, b: np.broadcast_shapes(a.shape, b.shape), M, A)
    alike(lambda a, b, x: [np.zeros(2, np.result_type(a, b)), np.zeros(2, np.result_type(a, x, 1)),
                           np.zeros(2, np.promote_types(a.dtype, np.int32)), np.zeros(2, np.dtype(float))], F, I, 2.5)
    alike(lambda a, b: (np.can_cast(a.dtype, b.dtype), np.can_cast(b.dtype, a.dtype, casting="same_kind")), F, I)


def test_geomspace() -> None:
    for end in (True, False):
        for x, y in ((1.0, 8.0), (-1.0, -8.0), (1, 1000), (np.float32(2), 1e5), (-1.0, 1.0)):
            alike(lambda x, y, e=end: [np.geomspace(x, y, 4, e), np.geomspace(x, y, 1, endpoint=e),
                                       np.geomspace(x, y, num=0, endpoint=e)], x, y)
    alike(lambda x, n: [np.geomspace(x, 1000, n, dtype=int), np.geomspace(x, 1e3)], 1.0, 4)
    message(lambda x: np.geomspace(x, 1.0), 0.0)


# --- lanes and stacks -------------------------------------------------------------------------------

def test_apply_along_axis() -> None:
    for axis in (0, 1, -1):
        alike(lambda a, k=axis: [np.apply_along_axis(lambda x: x.sum(), k, a), np.apply_along_axis(np.cumsum, k, a),
                                 np.apply_along_axis(lambda x: np.outer(x, x), k, a),
                                 np.apply_along_axis(lambda x: x.argmax(), k, a)], B)
    alike(lambda a, s: np.apply_along_axis(lambda x, s, c=1.0: x[0] * s + c, 1, a, s, c=3.0), M, 2.0)
    alike(lambda a: [np.apply_along_axis(lambda x: x.sum(), 0, a), np.apply_along_axis(lambda x: x * 2, 0, a)], A)
    alike(lambda a: [np.apply_over_axes(np.sum, a, [0, -1]), np.apply_over_axes(np.cumsum, a, 1)], B)
    message(lambda a: np.apply_along_axis(np.sum, 0, a[:, :0]), M)
    message(lambda a: np.apply_over_axes(lambda x, k: x.sum(), a, 0), B)
    message(lambda a: np.apply_along_axis(np.sum, 2, a), M)


def test_axes_of_one_element_do_not_broadcast_where_they_are_summed_over() -> None:
    m, one, row, column = np.ones((3, 4)), np.ones(1), np.ones((1, 4)), np.ones((3, 1))
    for fun in (lambda a, b: np.inner(a, b), lambda a, b: np.tensordot(a, b, 1), lambda a, b: np.matvec(a, b),
                lambda a, b: np.tensordot(a, b, ((0,), (0,))), lambda a, b: np.vecmat(b, a),
                lambda a, b: np.dot(a, np.stack([b, b]))):
        for other in (one, row, column):
            alike(fun, m, other)
            if other is column:
                alike(fun, other, m)


def test_stacks_of_products() -> None:
    W, v, u = np.cos(np.arange(12.0)).reshape(4, 3), np.array([1.0, -2.0, 0.5]), np.arange(4.0)
    if hasattr(np, "matvec"):
        alike(lambda B, W, v, u: [np.vecdot(v, v), np.vecdot(W, v), np.vecdot(B, W), np.vecdot(W, W, axis=0),
                                  np.matvec(W, v), np.matvec(B, v), np.matvec(B, W[:2]), np.vecmat(u, W),
                                  np.vecmat(u, B), np.vecmat(np.ones((2, 4)), B)], B, W, v, u)
    L = np.linalg
    alike(lambda B, W, v, u: [L.matmul(W.T, W), L.tensordot(W, v, axes=1), L.matrix_transpose(B), L.outer(v, u),
                              L.cross(v, W[0]), L.vecdot(W, v), L.matrix_norm(W), L.vector_norm(B)], B, W, v, u)
    for k in (0, 1, -2, 5):
        alike(lambda B, W, k=k: [L.diagonal(W, offset=k), L.diagonal(B, offset=k), L.trace(W, offset=k),
                                 L.trace(B, offset=k)], B, W)
    for order in (2, 1, math.inf, -math.inf, 0, 3):
        alike(lambda B, v, o=order: [L.vector_norm(v, ord=o, keepdims=True), L.vector_norm(B, axis=1, ord=o),
                                     L.vector_norm(B, axis=(0, 2), ord=o, keepdims=True)], B, v)
    message(lambda W, v: L.outer(W, v), W, v)


# --- derivatives ------------------------------------------------------------------------------------

def parts(a):
    fraction, whole = np.modf(a)
    apart = np.sum(fraction * whole) + np.sum(np.frexp(a)[0] ** 2) + np.sum(np.ldexp(a * a, 3)) + np.sum(np.spacing(a))
    return apart + np.sum(np.nextafter(a, 0.0) ** 2) + np.sum(np.angle(a)) + np.sum(np.where(np.signbit(a), a, a * a))


def stacked(m, x):
    rows = np.apply_along_axis(lambda v: v * v.prod(), 0, m)
    norms = np.linalg.vector_norm(m, axis=0) + np.linalg.trace(m * m) + np.linalg.matrix_norm(m) ** 3
    return np.sum(rows ** 2) + np.sum(norms) + np.sum(np.geomspace(x, 9.0, 5)) + np.sum(np.kaiser(4, x) ** 2)


@pytest.mark.slow
def test_slopes() -> None:
    slopes(parts, A + 0.01)
    slopes(stacked, M[:, :3] + 2, 1.5)
    if hasattr(np, "matvec"):
        slopes(lambda m: np.sum(np.matvec(m, m[0]) ** 2) + np.vecdot(m[0], m[1]) ** 2, M[:, :3])


def test_arguments_that_there_is_no_place_for() -> None:
    for fun, words in ((lambda a: np.select([a > 0], [a], defualt=1), "defualt"), (lambda a: np.i0(), "'x'")):
        with pytest.raises(TypeError, match=words):
            interpret(fun, A)
    for fun in (lambda a: np.frexp(a, where=a > 0), lambda a: np.gcd(1, 2, where=a > 0)):
        with pytest.raises(jitad.UnsupportedError, match="`where`"):
            interpret(fun, A)
