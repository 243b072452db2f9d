"""Functions of NumPy with odd but legal arguments: value, dtype and shape are NumPy's, and so are the errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from jitad import UnsupportedError, check_grads, grad, interpret, jit, jvp

pytestmark = pytest.mark.any_level

F = np.array([0.5, -1.25, 3.0, 2.0])
I = np.array([3, -7, 0, 5])
M = np.arange(12.0).reshape(3, 4) / 3 - 1
V = np.array([1.0, -2.0, 3.0])


def alike(fun: Callable[..., Any], *args: Any) -> None:
    """Asserts that the traced program returns Python's result, or raises Python's exception."""
    try:
        with np.errstate(all="ignore"):
            expected = fun(*args)
    except (ValueError, TypeError, ArithmeticError, LookupError) as e:
        with pytest.raises(type(e) if type(e).__module__ == "builtins" else ValueError):
            interpret(fun, *args)
        return
    same(expected, interpret(fun, *args))


def same(expected: Any, got: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert type(expected) is type(got) and len(expected) == len(got)
        for x, y in zip(expected, got):
            same(x, y)
        return
    assert np.shape(got) == np.shape(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6 if np.asarray(got).dtype == np.float32 else 1e-13, atol=1e-14)


# --- sizes ------------------------------------------------------------------------------------------

BEYOND = [
    (lambda a, n: np.diag(a, n), np.ones(3), 2**32 - 3, MemoryError),
    (lambda a, n: np.diag(a, -n), np.ones(3), 2**63 - 1, MemoryError),
    (lambda a, n: a.reshape(4, n)[3, 5000000000], np.ones(4), 2**62 + 1, ValueError),
    (lambda a, n: a.reshape(n, n)[3, 5000000000], np.ones(0), 2**32, ValueError),
    (lambda a, n: a.reshape(-1, 4, n)[0, 3, 5000000000], np.ones(4), 2**62 + 1, ValueError),
    (lambda a, n: np.pad(a, n)[:3], np.ones(4), 2**63 - 1, MemoryError),
    (lambda a, n: np.pad(a, n, "edge")[:3], np.ones(4), 2**63 - 1, MemoryError),
    (lambda a, n: np.pad(a[:0], n, "wrap"), np.ones(4), 2, ValueError),
    (lambda a, n: np.pad(a, (2**63 - 1, n))[:3], np.ones(4), 2**63 - 1, MemoryError),
    (lambda a, n: np.repeat(a, n), np.ones(4), 2**62 + 1, MemoryError),
    (lambda a, n: np.tile(a, n), np.ones(4), 2**62 + 1, MemoryError),
]


@pytest.mark.parametrize(("fun", "a", "n", "error"), BEYOND)
def test_sizes_whose_product_wraps_are_refused(fun: Any, a: np.ndarray, n: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        jit(fun)(a, n)


def test_no_size_makes_up_for_nothing() -> None:
    for shape in ((0, -1), (-1, 0), (-1,), (5, 0)):
        alike(lambda a, shape=shape: a.reshape(shape), np.zeros(0))
    alike(lambda a, n: a.reshape(n, -1), np.zeros(0), 0)
    alike(lambda a, n: a.reshape(n, -1), np.zeros(0), 2)
    same(np.diag(V, 2), interpret(lambda v, k: np.diag(v, k), V, 2))
    same(np.pad(V, (1, 2)), interpret(lambda v, k: np.pad(v, (1, k)), V, 2))
    same(np.tile(V, (2, 2)), interpret(lambda v, k: np.tile(v, (k, 2)), V, 2))


# --- ranges -----------------------------------------------------------------------------------------

def test_ranges() -> None:
    for fun in (
        lambda x: np.linspace(-2.5, x, 6, dtype=int), lambda x: np.linspace(0, x, 1, retstep=True),
        lambda x: np.linspace(0, x, 0, retstep=True), lambda x: np.linspace(0, x, 1, endpoint=False, retstep=True),
        lambda x: np.linspace(0, x, 3, retstep=True), lambda x: np.linspace(np.float32(x), 3, 4),
        lambda x: np.linspace(np.float32(x), np.float32(1), 4, retstep=True), lambda x: np.linspace(np.int32(x), 9, 4),
        lambda x: np.linspace(0, x, 3, dtype=np.float32), lambda x: np.logspace(np.float32(0), 2, 4),
        lambda x: np.logspace(0, x, 4, base=2), lambda x: np.arange(0, x, 0.5, dtype=int),
        lambda x: np.arange(-x, 0, 0.5, dtype=int), lambda x: np.arange(np.float32(x)),
        lambda x: np.arange(np.int32(x)),
        lambda x: np.arange(np.int32(1), np.int32(x)), lambda x: np.arange(x, dtype=np.float32),
        lambda x: np.arange(int(x), dtype=np.int32), lambda x: np.arange(x, -x, -0.7), lambda x: np.arange(1, x, 0.0),
        lambda x: np.arange(1, int(x), 0), lambda x: np.arange(x - 1, dtype=bool), lambda x: np.arange(math.nan, x),
    ):
        alike(fun, 2.75)


# --- elements -----------------------------------------------------------------------------------------

def add_at_mask(a, m, v):
    a = a.copy()
    np.add.at(a, m > 0, v)
    return a


def test_add_at_a_mask() -> None:
    for args in ((F, F, 1.0), (F, F, V), (M, M, 2.0), (M, V, F), (F, V, 1.0)):
        alike(add_at_mask, *args)


def test_take_and_its_kin() -> None:
    alike(lambda a, b: np.take(a, b > 0), F, F)                            # bools are numbers here, no mask
    alike(lambda a, k: np.take_along_axis(a, k[:1] % 4, 1), M[:1], np.arange(12).reshape(3, 4))
    alike(lambda a, k: np.take_along_axis(a, k % 1, 1), M[:1, :1].copy(), np.arange(12).reshape(3, 4))
    with pytest.raises((ValueError, IndexError)):
        interpret(lambda a, k: np.take_along_axis(a, k, 1), M, np.zeros((2, 4), int))
    for fun in (np.nonzero, np.flatnonzero):
        alike(lambda x, fun=fun: fun(x), 2.5)
    alike(lambda x: np.take(x, 0), 2.5)


# --- arithmetic ---------------------------------------------------------------------------------------

EDGES = np.array([-2**63, 2**63 - 1, -1, 0, 1, 7])


def test_remainders_and_reciprocals() -> None:
    alike(np.reciprocal, np.array([3, -7, 1, -1, 2]))
    alike(lambda a, b: np.fmod(a, b), EDGES, np.array([3, -7, 2, -1, 5, 2]))
    alike(lambda a, b: np.fmod(a, b), EDGES, EDGES[::-1].copy())
    floats = np.array([0.0, -0.0, 5.5, -5.5, math.inf, math.nan, 3.0])
    alike(lambda a, b: np.fmod(a, b), floats, np.array([3.0, 3.0, -2.0, 2.0, 1.0, 1.0, math.inf]))
    for fun in (np.fmod, np.power, np.left_shift, np.floor_divide, lambda x, y: np.square(x)):
        alike(lambda a, fun=fun: fun(a > 0, a > 1), F)


SMOOTH = [
    (lambda x: np.fmod(x, 3.0), 0.0, 1.0), (lambda x: np.fmod(x, 3.0), -4.0, 1.0),
    (lambda x: np.fmod(-4.0, x), 3.0, 1.0), (lambda x: np.fmod(4.0, x), -3.0, 1.0),
    (lambda x: math.fmod(x, 3.0), 0.0, 1.0), (lambda x: math.remainder(x, 3.0), 0.0, 1.0),
    (lambda x: math.remainder(x, 3.0), -2.0, 1.0), (lambda x: math.remainder(5.0, x), 3.0, -2.0),
    (lambda x: math.modf(x)[0], 0.0, 1.0), (lambda x: math.modf(x)[0], -3.0, 1.0),
    (lambda x: math.modf(x)[1], 2.5, 0.0), (lambda x: math.ldexp(x, 3), 0.0, 8.0),
    (lambda x: scipy.special.xlogy(x, 3.0), 0.0, math.log(3.0)), (lambda x: scipy.special.xlogy(0.0, x), 3.0, 0.0),
    (lambda x: np.logaddexp(x, 1.5), 1.5, 0.5), (lambda x: np.logaddexp(1.5, x), 1.5, 0.5),
    (grad(lambda x: np.logaddexp(x, 1.5)), 1.5, 0.25),
    (grad(lambda x: np.logaddexp2(x, x * x)), 1.0, math.log(2.0) / 4 + 1),
    (lambda x: np.logaddexp(x, -math.inf), 1.5, 1.0),
]


@pytest.mark.parametrize(("fun", "x", "slope"), SMOOTH)
def test_slopes_where_a_formula_has_a_kink_and_the_function_none(fun: Any, x: float, slope: float) -> None:
    assert interpret(grad(fun), x) == pytest.approx(slope)
    assert interpret(lambda x: jvp(fun, (x,), (1.0,))[1], x) == pytest.approx(slope)


def test_values_of_what_has_these_slopes() -> None:
    ends = np.array([0.0, 2.0, -math.inf, math.inf, math.nan])
    for fun in (np.logaddexp, np.logaddexp2, scipy.special.xlogy):
        alike(lambda a, b, fun=fun: fun(a[:, None], b), ends, ends)
    for x in (0.0, -0.0, 1.5, -1.5, 3.0, -3.0, 1e300, math.inf, -math.inf):
        for got, expected in zip(interpret(lambda x: math.modf(x), x), math.modf(x)):
            assert got == expected and math.copysign(1, got) == math.copysign(1, expected)


def test_math_at_the_edges() -> None:
    assert interpret(lambda n: math.comb(n, 33), 66) == math.comb(66, 33)
    assert interpret(lambda n: math.comb(n, 31), 62) == math.comb(62, 31)
    for n in (-2**63, -2**63 + 1, -1, 0, 1, 2**63 - 1):
        alike(lambda n: n.bit_length(), n)
    for fun, x in ((math.gamma, math.nan), (math.lgamma, -math.inf), (math.lgamma, -2.0), (math.gamma, -math.inf)):
        alike(lambda x, fun=fun: fun(x), x)
    for x, i in ((5e-324, 2097), (5e-324, 2050), (1.5, 1023), (1.5e308, -2097), (math.inf, -2**63), (-0.0, 2**63 - 1)):
        alike(lambda x, i: math.ldexp(x, i), x, i)
    for x, y in ((math.nan, 0.0), (math.inf, math.nan), (math.inf, 1.0), (1.0, 0.0), (1.0, math.inf)):
        alike(lambda x, y: math.fmod(x, y), x, y)
    alike(lambda x: math.isclose(x, 2.0, rel_tol=-1.0), 1.0)


def test_dist_and_prod_of_arrays() -> None:
    for p, q in ((I, I[::-1].copy()), (F, V), (V[:1].copy(), F), (F.astype(np.float32), F[::-1].astype(np.float32)),
                 (I > 0, I > 3), (M, M)):
        alike(lambda p, q: math.dist(p, q), p, q)
    alike(lambda a: math.prod(a > 0), F)


# --- reductions and shapes ----------------------------------------------------------------------------

EMPTY = np.zeros((2, 3, 0))


def test_reductions_with_odd_arguments() -> None:
    for axis in ((0, 2), 2, None, (1, 2), (0, 1)):
        alike(lambda a, axis=axis: np.max(a, axis=axis, initial=5.0, keepdims=True), EMPTY)
        alike(lambda a, axis=axis: np.min(a, axis=axis, initial=0.25), np.sin(np.arange(24.0)).reshape(2, 3, 4))
    for fun in (np.sum, np.prod):
        for axis in (None, 1):
            alike(lambda a, fun=fun, axis=axis: fun(a, axis=axis, dtype=bool), M)
            alike(lambda a, fun=fun, axis=axis: fun(a > 0, axis=axis, dtype=bool, initial=True), M)
    alike(lambda a: np.ptp(a > 0), F)
    alike(lambda a: np.average(a, weights=a - a), F)
    alike(lambda a: np.average(a, axis=0, weights=np.array([[0.0], [1.0], [2.0]]) + 0 * a), M)
    for fun in (np.mean, np.var, np.std, np.cumsum):
        with pytest.raises(UnsupportedError, match="dtype"):
            interpret(lambda a, fun=fun: fun(a, dtype=bool), F)


@pytest.mark.slow
def test_the_sum_of_a_number_begins_with_zero() -> None:
    def sign(x: float) -> float:
        return math.copysign(1.0, np.sum(-x))
    assert jit(sign)(0.0) == sign(0.0) == 1.0
    assert jit(lambda x: math.copysign(1.0, np.sum(np.array([-x, -x]))))(0.0) == 1.0
    for shape in ((1,), (3,), (3, 1), (1, 2), (3, 2)):
        zeros = np.full(shape, -0.0)
        for fun in (lambda a: np.copysign(1.0, np.sum(a, axis=0)), lambda a: np.copysign(1.0, np.sum(a, axis=-1)),
                    lambda a: np.copysign(1.0, np.cumsum(a))):
            np.testing.assert_array_equal(jit(fun)(zeros), fun(zeros))
    assert jit(grad(lambda x: np.sum(x) * x))(3.0) == 6.0


@pytest.mark.slow
def test_slopes_of_an_extreme_with_an_initial_value() -> None:
    for axis in (None, (0, 1), 0, 1):
        check_grads(lambda a, x, axis=axis: np.sum(np.max(a, axis=axis, initial=x) ** 2), (M, 0.4), order=1)


def test_shapes_with_odd_arguments() -> None:
    for shift, axis in (((1, 2), 0), ((1, 2), None), ((1,), (0, 1)), (1, (0, 0)), ((1, 2), (0, 1)),
                        ((1, 2, 3), (0, 1)), (3, ())):
        alike(lambda a, shift=shift, axis=axis: np.roll(a, shift, axis), M)
    for fun in (lambda x: np.roll(x, 1), lambda x: np.tile(x, ()), lambda x: np.pad(x, 1)):
        assert interpret(fun, 2.5) == 2.5
    alike(lambda a: np.moveaxis(a, [0, 0], [1, 2]), EMPTY)
    for parts in (0, -1, 2):
        alike(lambda a, parts=parts: np.split(a, parts), F)
        alike(lambda a, parts=parts: np.vsplit(a, parts), F)
        alike(lambda a, parts=parts: np.hsplit(a, parts), M)


def test_products_with_odd_arguments() -> None:
    for text in ("ij,i", "ij,j->i", "ij,ik->", "ji,jk->ik"):
        alike(lambda a, b, text=text: np.einsum(text, a, b), M[:1, :1].copy(), M if "k" in text else V)
    for text in ("ij->ii", "ij->x", "ij->ji", "ij->"):
        alike(lambda a, text=text: np.einsum(text, a), M)
    alike(lambda a: np.einsum("ij->ji", a > 0), M)
    for text in ("ij->", "ij,ij->ij"):
        with pytest.raises(UnsupportedError, match="bools"):
            interpret(lambda a, text=text: np.einsum(text, *[a > 0] * (text.count(",") + 1)), M)
    alike(lambda a: np.tensordot(a, a, ((1, 1), (0, 0))), M)
    with pytest.raises(IndexError):
        interpret(lambda a, b: np.tensordot(a, b, 3), M, F)
    alike(lambda a: np.linalg.norm(a, "fro"), F)
    for order in (1, math.inf, "fro"):
        alike(lambda a, order=order: np.linalg.norm(a, order, keepdims=True), M)


# --- math.fsum ----------------------------------------------------------------------------------------

SUMS = [[0.1] * 10, [1e16, 1.0, 1e-16], [2.0**53, 1.0, 2.0**-60], [1e100, 1.0, -1e100, 1e-100], [], [-0.0],
        [math.inf, 1.0], [math.inf, -math.inf], [math.nan, 1.0], [1e308, 1e308, -1e308],
        [5e-324, 1.0, -1.0, 1e300, -1e300]]


@pytest.mark.parametrize("numbers", SUMS)
def test_fsum_is_exact(numbers: list[float]) -> None:
    a = np.array(numbers)
    alike(lambda a: math.fsum(a), a)
    alike(lambda a: math.fsum(v for v in a), a)
    alike(lambda a: math.fsum(map(lambda v: 2.0 * v, a)), a)
    alike(lambda *xs: math.fsum(xs), *numbers)
    alike(lambda *xs: math.fsum([True, *xs]), *numbers)


@pytest.mark.slow
def test_fsum_of_many_numbers_and_its_slopes() -> None:
    rng = np.random.default_rng(0)
    total, slopes = jit(lambda a: math.fsum(a)), jit(grad(lambda a: math.fsum(v * v for v in a)))
    for n in (1, 2, 17, 60):
        a = rng.standard_normal(n) * 10.0 ** rng.integers(-290, 290, n)
        a = rng.permutation(np.concatenate((a, -a[1:])))
        assert total(a) == math.fsum(a)
        b = rng.standard_normal(n)
        np.testing.assert_allclose(slopes(b), 2 * b)
    same((1.0, 1.0), interpret(grad(lambda x, y: math.fsum([x, 1e100, y, -1e100]), (0, 1)), 0.1, 0.2))
    assert jit(lambda n: math.fsum(range(n)))(100) == 4950.0


def test_bools_as_integers_of_8_bits() -> None:
    b = np.array([True, False, True])
    alike(lambda b: (b ** 2, pow(b, 2), b[None] ** 2, np.square(b), np.conjugate(b), np.reciprocal(b)), b)
    alike(lambda b: (b ** 3, b ** np.int64(2), np.power(b, 2), b[0] ** 2, b.conj()), b)
    assert jit(lambda b: b ** 2)(b).dtype == np.int8
