"""Convolutions, polynomials, differences: NumPy's values, dtypes and errors; derivatives against differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import check_grads, grad, interpret, jit, jvp, vmap
from tests.arrays.test_numpy_meaning import alike, same

pytestmark = pytest.mark.any_level

A = np.array([0.5, -1.25, 3.0, 2.25, 0.3, -4.0, 7.5])
V = np.array([1.0, -2.0, 0.5])
I = np.array([3, 1, 0, 2, 5])
M = np.arange(12.0).reshape(3, 4) / 3 - 1
T = np.sin(np.arange(24.0)).reshape(2, 3, 4)
F = A.astype(np.float32)
EMPTY = np.zeros(0)
ZEROS = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 3.0, 0.0])
X = np.array([0.0, 1.0, 1.5, 3.0, 3.5, 5.0, 8.0])


def message(fun: Any, *args: Any) -> None:
    """Asserts that an error has NumPy's message."""
    with pytest.raises(Exception) as expected:
        fun(*args)
    with pytest.raises(expected.type) as found:
        interpret(fun, *args)
    assert str(found.value) == str(expected.value)


def slopes(fun: Any, *args: Any, order: int = 2, step: float = 1e-5) -> None:
    """Reverse and forward derivatives agree with central differences in one direction; and the reverse of the reverse.

    The reference interpreter runs them, which spares compiling.
    """
    rng = np.random.default_rng(0)
    ways = tuple(rng.normal(size=np.shape(a)) if np.ndim(a) else rng.normal() for a in args)
    every = tuple(range(len(args)))
    for f in (fun, lambda *xs: sum(np.vdot(g, w) for g, w in zip(grad(fun, every)(*xs), ways)))[:order]:
        near = [f(*(a + s * w for a, w in zip(args, ways))) if f is fun else
                interpret(f, *(a + s * w for a, w in zip(args, ways))) for s in (step, -step)]
        found = interpret(grad(f, every), *args)
        along = sum(np.vdot(g, w) for g, w in zip(found, ways))
        np.testing.assert_allclose(along, (near[0] - near[1]) / (2 * step), rtol=1e-6, atol=1e-7)
        forward = interpret(lambda *xs, f=f: jvp(f, xs, ways)[1], *args)
        np.testing.assert_allclose(forward, along, rtol=1e-11, atol=1e-12)


# --- convolutions -----------------------------------------------------------------------------------

def convolutions(a, v):
    return [np.convolve(a, v), np.convolve(a, v, "same"), np.convolve(a, v, mode="valid"), np.correlate(a, v),
            np.correlate(a, v, "same"), np.correlate(a, v, "full")]


@pytest.mark.slow
def test_convolutions() -> None:
    compiled = jit(convolutions)
    for a, v in ((A, V), (V, A), (V, A[:6]), (A[:6], V[:2]), (V[:2], A[:6]), (A, A)):
        alike(convolutions, a, v)
        same(convolutions(a, v), compiled(a, v))
    for a, v in ((I, I), (F, F), (F, I)):
        alike(convolutions, a, v)
    alike(lambda a: np.convolve(a, 2.0), F)
    message(lambda a: np.correlate(a, 2.0), A)
    alike(lambda a: np.convolve(a, [1, 2, 3], 1), A)
    alike(lambda x: np.correlate((x, 2, 1.0), [1, 2, 3], mode=2), 2.0)
    for fun in (np.convolve, np.correlate):
        for a, v in ((A, EMPTY), (EMPTY, A), (M, V)):
            message(lambda a, v, fun=fun: fun(a, v), a, v)
        message(lambda a, v, fun=fun: fun(a, v, "x"), A, V)
        message(lambda a, v, fun=fun: fun(a, v, 5), A, V)
        with pytest.raises(jitad.UnsupportedError, match="bools"):
            interpret(lambda a, fun=fun: fun(a > 0, a > 0), A)


def filtered(a, v):
    y = np.convolve(np.tanh(a), v, "same")
    return np.sum(np.correlate(y, v, "full") ** 2) + np.sum(np.convolve(v, a * a, "valid"))


@pytest.mark.slow
def test_slopes_of_convolutions() -> None:
    slopes(filtered, A, V)
    check_grads(lambda v: np.sum(np.convolve(A, v) ** 3), (V,))
    rows = np.stack((A, 2 * A))
    found = interpret(vmap(grad(filtered), in_axes=(0, None)), rows, V)
    np.testing.assert_allclose(found, [interpret(grad(filtered), a, V) for a in rows], rtol=1e-13)


# --- polynomials ------------------------------------------------------------------------------------

@pytest.mark.slow
def test_polynomials() -> None:
    for p, x in ((V, A), (V, 2.0), (I, M), (I, F), (I, 2), (V, I), (2.5 * V, T)):
        alike(lambda p, x: np.polyval(p, x), p, x)
    alike(lambda x: [np.polyval([1, 2, 3], x), np.polyval((x[0], 2.0), x), np.polyval([0.5, x[1]], x)], I)
    alike(lambda x: [np.polyval([1, 2, 3], x), np.polyval([x[0], 2], x)], F)
    for a, b in ((A, V), (V, A), (I, V), (V, 2.0), (ZEROS, ZEROS), (ZEROS, np.zeros(3)), (F, I)):
        alike(lambda a, b: [np.polyadd(a, b), np.polysub(a, b), np.polymul(a, b)], a, b)
    alike(lambda x: np.polymul([1, x], [1, -x]), 2.0)
    for p in (A, I, F):
        alike(lambda p: [np.polyder(p), np.polyder(p, 2), np.polyder(p, m=9), np.polyder(p, 0)], p)
        alike(lambda p: [np.polyint(p), np.polyint(p, 2), np.polyint(p, m=2, k=2.5), np.polyint(p, 0)], p)
    alike(lambda p, k: [np.polyint(p, 3, k), np.polyint(p, 2, k), np.polyint(p, 2, [1, 2])], A, V)
    alike(lambda p, m: np.polyder(p, m), A, 3)
    for a, b in ((A, V), (V, A), (I, V), (F, F[:3]), (np.array([1.0, 5.0, 6.0]), np.array([1.0, 2.0])), (V, 2.0)):
        alike(lambda a, b: [*np.polydiv(a, b), np.poly(a), np.poly([1, 2, a[0]])], a, b)
    message(lambda p, k: np.polyint(p, 3, k), A, V[:2])
    message(lambda p: np.polyint(p, -1), A)
    message(lambda p: np.polyder(p, -1), A)


def test_vander_and_trim_zeros() -> None:
    for x in (A, I, F, np.array([1, 2], np.int32)):
        alike(lambda x: [np.vander(x), np.vander(x, 3), np.vander(x, N=4, increasing=True), np.vander(x, 0)], x)
    alike(lambda x, n: np.vander(x, n), A, 3)
    message(lambda x: np.vander(x), M)
    for z in (ZEROS, np.zeros(4), A, EMPTY):
        alike(lambda z: [np.trim_zeros(z), np.trim_zeros(z, "f"), np.trim_zeros(z, trim="B", axis=0)], z)
    message(lambda z: np.trim_zeros(z, "x"), A)
    for refused in (lambda z: np.trim_zeros(z), lambda z: np.trim_zeros([0, 1])):
        with pytest.raises(jitad.UnsupportedError, match="trim_zeros"):
            interpret(refused, M)


def fitted(p, x):
    q = np.polyadd(np.polymul(p, p), np.polyint(np.polyder(p, 2), 1, x[0]))
    y = np.polyval(q, x) - np.polyval([p[0], x[1], 2.0], x)
    quotient, rest = np.polydiv(np.poly(x), p)
    trimmed = np.trim_zeros(x)[-1] ** 2 + np.sum(np.vander(x, 4) @ p[:1].repeat(4))
    return np.sum(quotient ** 2) + rest.prod() + np.sum(y * y) / 100 + trimmed


@pytest.mark.slow
def test_slopes_of_polynomials() -> None:
    slopes(fitted, V, A[:4])
    check_grads(lambda p, x: np.sum(np.polyval(p, x) ** 2), (V, A), order=1)
    np.testing.assert_allclose(grad(lambda x: np.polyval(V, x))(1.5), np.polyval(np.polyder(V), 1.5))


# --- differences ------------------------------------------------------------------------------------

def gradients(order):
    return (
        lambda a: np.gradient(a, edge_order=order), lambda a: np.gradient(a, 2.0, edge_order=order),
        lambda a: np.gradient(a, X, edge_order=order), lambda a: np.gradient(a, 2 * np.arange(7), edge_order=order),
        lambda a: np.gradient(np.outer(a, V), 0.5, [0, 1, 2.5], edge_order=order),
        lambda a: np.gradient(np.outer(a, V), edge_order=order, axis=-1),
        lambda a: np.gradient(T * a[0], 0.5, 2, axis=(0, -1), edge_order=1), lambda a: np.gradient([a[0], 2, 4.0]))


@pytest.mark.slow
def test_gradient() -> None:
    for order in (1, 2):
        for fun in gradients(order):
            for a in (A, F, np.arange(7) ** 2):
                if not (a.dtype == np.float32 and fun(a)[0].dtype == float):
                    alike(fun, a) if a.dtype != np.float32 else close(fun, a)
    for fun in (lambda a: np.gradient(a, edge_order=3), lambda a: np.gradient(a, 1.0, 2.0),
                lambda a: np.gradient(a[:1]), lambda a: np.gradient(a[:2], edge_order=2),
                lambda a: np.gradient(a, X[:3]), lambda a: np.gradient(a, M), lambda a: np.gradient(a, axis=1)):
        message(fun, A)


def close(fun: Any, *args: Any) -> None:
    """Asserts agreement with NumPy, except for the last digits of float32."""
    found, wanted = interpret(fun, *args), fun(*args)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_other_differences() -> None:
    for a in (A, I, F, V[:1], EMPTY):
        alike(lambda a: [np.ediff1d(a), np.ediff1d(a, 1, to_begin=2), np.ediff1d(a, to_end=[1, 2])], a)
        alike(lambda a: [np.cumulative_sum(a), np.cumulative_sum(a, include_initial=True), np.cumulative_prod(a)], a)
        alike(lambda a: np.cumulative_prod(a, dtype=float, include_initial=True), a)
    alike(lambda a: np.cumulative_sum(a, axis=1, include_initial=True), M)
    alike(lambda a: np.cumulative_sum(a > 0), A)
    message(lambda a: np.cumulative_sum(a), M)
    message(lambda a: np.ediff1d(a, 1.5), I)
    phases = np.cumsum(np.array([0.0, 1.0, 4.0, -4.0, 3.5, -3.2, math.pi, -math.pi, 7.0]))
    for fun in (lambda p: np.unwrap(p), lambda p: np.unwrap(p, 5.0), lambda p: np.unwrap(p, period=4),
                lambda p: np.unwrap(np.outer(p, V), axis=0), lambda p: np.unwrap(np.outer(p, V), 1.0, period=4.5)):
        for p in (phases, I):
            alike(fun, p)
    alike(lambda p: [np.unwrap(p, period=4), np.unwrap(p, period=5)], I * I)


def test_differences_that_numpy_refuses() -> None:
    for fun in (lambda m: np.gradient(m, axis=(0, 0)), lambda m: np.gradient(m, axis=(1, -1)),
                lambda m: np.gradient(m > 1), lambda m: np.ediff1d(m > 1)):
        message(fun, np.arange(12.0).reshape(3, 4))


@pytest.mark.slow
@pytest.mark.long
def test_slopes_of_differences() -> None:
    def steep(a, h):
        inside = np.gradient(np.outer(a, V), h, np.array([0.0, 1.0, 2.5]), edge_order=2)
        return np.sum(np.gradient(a, X * h) ** 2) + np.sum(inside[0] * inside[1])

    def wound(a):
        steps = np.ediff1d(np.unwrap(a, period=3.0), a[0] ** 2)
        sums = np.cumulative_sum(a, include_initial=True)
        return np.sum(steps ** 2) + np.sum(np.cumulative_prod(a[:4]) + sums[:4] ** 2)
    slopes(steep, A, 0.7)
    slopes(wound, A)
    np.testing.assert_allclose(grad(lambda p: np.unwrap(p)[-1])(np.array([0.0, 5.0, 9.0])), [0, 0, 1])
