"""Every rule against NumPy: value, dtype and rank, over dtypes, ranks and edge values.

A case is a function of ``do`` (``do(f, …)`` stands for ``f(…)``) and of arguments; it is run on arrays in NumPy
and on stand-ins through the interpreter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError
from tests.rulecontext import evaluate, plain

F = np.array([0.5, -1.25, 3.0, 2.0])
G = np.array([2.0, 0.25, -3.0, 2.0])
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5])
F32 = F.astype(np.float32)
I = np.array([3, -7, 0, 5])
J = np.array([2, 2, 4, -3])
I32 = I.astype(np.int32)
B = np.array([True, False, True, True])
C = np.array([True, True, False, False])
M = np.arange(12.0).reshape(3, 4) / 3 - 1
N = np.cos(np.arange(8.0)).reshape(4, 2)
T = np.sin(np.arange(24.0)).reshape(2, 3, 4)
ONE = np.array([7.0])
NONE = np.zeros(0)
IM = np.arange(12).reshape(3, 4)

UNARY = [np.sqrt, np.cbrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan,
         np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.rint,
         np.floor, np.ceil, np.trunc, np.negative, np.positive, np.absolute, np.fabs, np.square, np.reciprocal, np.sign,
         np.isnan, np.isinf, np.isfinite, np.logical_not, np.deg2rad, np.rad2deg, np.sinc, np.invert]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.power, np.maximum, np.minimum,
          np.fmax, np.fmin, np.fmod, np.arctan2, np.hypot, np.copysign, np.logaddexp, np.logaddexp2, np.equal,
          np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or,
          np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift, np.heaviside,
          np.float_power]
OPERANDS = [(F, G), (F32, F), (F32, F32), (I, J), (I32, J), (I32, F32), (B, C), (B, I), (B, F), (F, 2), (2, F),
            (F32, 2.5),
            (I, 2), (I32, 3), (I, 2.5), (B, 2), (M, F), (F, M), (M, ONE), (M[:, :1].copy(), F), (ODD, ODD[::-1].copy()),
            (NONE, NONE), (np.float64(2.5), F), (np.float32(2.5), np.float64(1.5)), (np.int64(7), np.int64(-2)),
            (3, 2), (-7, 2), (3.5, 2), (True, False), (np.int64(7), 2), (np.float32(2.5), 3)]


def same(expected: Any, got: Any, tolerance: float = 1e-13) -> None:
    if isinstance(expected, (tuple, list)):
        assert type(expected) is type(got) and len(expected) == len(got)
        for x, y in zip(expected, got):
            same(x, y, tolerance)
        return
    assert np.shape(got) == np.shape(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    assert isinstance(got, np.generic) == (isinstance(expected, np.generic) or np.ndim(expected) == 0
                                           and isinstance(expected, np.ndarray))
    loose = 1e-5 if np.asarray(got).dtype == np.float32 else tolerance
    np.testing.assert_allclose(got, expected, rtol=loose, atol=loose)


def check(fun: Any, *args: Any) -> None:
    try:
        _check(fun, *args)
    except BaseException as e:
        e.add_note(f"for the arguments {args!r}")            # a test has many
        raise


def _check(fun: Any, *args: Any) -> None:
    try:
        expected = plain(fun, *args)
    except (TypeError, ValueError) as e:
        with pytest.raises(TypeError if isinstance(e, TypeError) else ValueError):
            evaluate(fun, *args)
        return
    if np.asarray(expected if not isinstance(expected, tuple) else 0).dtype in (np.float16, np.complex128):
        with pytest.raises(UnsupportedError):        # dtypes that do not exist here
            evaluate(fun, *args)
        return
    same(expected, evaluate(fun, *args))


UNARY_OPERANDS = [F, F32, I, I32, B, ODD, M, NONE, np.float64(0.3), np.float32(0.3), np.int64(-3), 0.3, -3]


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda f: f.__name__)
def test_unary(ufunc: Any) -> None:
    for x in UNARY_OPERANDS:
        if ufunc is not np.reciprocal or np.asarray(x).dtype.kind == "f":       # of integers it has no use
            check(lambda do, a: do(ufunc, a), x)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_binary(ufunc: Any) -> None:
    for x, y in OPERANDS:
        if ufunc in (np.power, np.left_shift, np.right_shift) and np.asarray(y).dtype.kind == "i":
            y = abs(y)
        if ufunc is not np.floor_divide or x is not ODD:
            check(lambda do, a, b: do(ufunc, a, b), x, y)


PYTHON = {
    "+": lambda do, a, b: a + b, "-": lambda do, a, b: a - b, "*": lambda do, a, b: a * b,
    "/": lambda do, a, b: a / b, "//": lambda do, a, b: a // b, "%": lambda do, a, b: a % b,
    "<": lambda do, a, b: a < b, "<=": lambda do, a, b: a <= b, ">": lambda do, a, b: a > b,
    ">=": lambda do, a, b: a >= b, "&": lambda do, a, b: a & b, "|": lambda do, a, b: a | b,
    "^": lambda do, a, b: a ^ b, "max": lambda do, a, b: do(max, a, b), "min": lambda do, a, b: do(min, a, b),
}


PYTHON_OPERANDS = [(3, 2), (-7, 2), (7, -2), (3, 2.5), (2.5, 1), (-2.5, 1.0), (True, True), (True, 3), (True, 2.5),
                   (np.float32(2), 3.5), (np.int32(2), 3), (F, 2), (I, 3), (I32, 4), (B, 1)]


@pytest.mark.parametrize("op", PYTHON)
def test_operators(op: str) -> None:
    for x, y in PYTHON_OPERANDS:
        mixed = op in ("max", "min") and (np.ndim(x) or type(x) is not type(y))
        if not mixed and not (op in "&|^" and isinstance(y, float)):
            check(PYTHON[op], x, y)


POWERS = [(F, 2), (F, 3), (F, 4), (F, 7), (F, -1), (F, -2), (F, 0), (F, 0.5), (F, 2.5), (I, 2), (I, 3), (I, 5), (I, 0),
          (2.5, 3), (2.5, -1), (3, 4), (3, 0), (-2, 3), (3, -2), (np.int64(3), 2), (np.float32(3), 2), (2, 0.5),
          (I32, 2)]


@pytest.mark.parametrize("x, n", POWERS, ids=str)
def test_constant_powers(x: Any, n: Any) -> None:
    check(lambda do, a: a ** n, x)


def test_integer_powers_at_run_time() -> None:
    assert evaluate(lambda do, n: 2 ** n, 10) == 1024
    assert evaluate(lambda do, a, n: a ** n, -3, 5) == -243
    with pytest.raises(ValueError, match="negative integer powers"):
        evaluate(lambda do, n: 2 ** n, -1)
    with pytest.raises(ValueError, match="negative integer powers"):
        evaluate(lambda do, a, n: a ** n, I, J)


SHAPES: list[Any] = [
    lambda do, a: do(np.reshape, a, (4, 3)), lambda do, a: a.reshape(-1), lambda do, a: a.reshape(2, -1, 2),
    lambda do, a: a.reshape((6, 2)), lambda do, a: a.ravel(), lambda do, a: a.flatten(), lambda do, a: a.T,
    lambda do, a: a.transpose(1, 0), lambda do, a: do(np.transpose, a, (1, 0)), lambda do, a: a.swapaxes(0, -1),
    lambda do, a: do(np.moveaxis, a, 0, -1), lambda do, a: do(np.expand_dims, a, 1),
    lambda do, a: do(np.expand_dims, a, (0, -1)), lambda do, a: do(np.squeeze, do(np.expand_dims, a, 1)),
    lambda do, a: do(np.squeeze, a[None], axis=0), lambda do, a: do(np.atleast_2d, a[0]),
    lambda do, a: do(np.broadcast_to, a, (2, 3, 4)), lambda do, a: do(np.concatenate, [a, a], axis=1),
    lambda do, a: do(np.concatenate, (a, a[:1]), axis=0), lambda do, a: do(np.concatenate, [a, a], axis=None),
    lambda do, a: do(np.stack, [a, a + 1]), lambda do, a: do(np.stack, [a, a], axis=-1),
    lambda do, a: do(np.vstack, [a, a[0]]), lambda do, a: do(np.hstack, [a, a]),
    lambda do, a: do(np.hstack, [a[0], a[1]]), lambda do, a: do(np.column_stack, [a[0], a[1]]),
    lambda do, a: do(np.append, a, 5.0), lambda do, a: do(np.split, a, 2, axis=1),
    lambda do, a: do(np.split, a, [1, 2]), lambda do, a: do(np.hsplit, a, 2),
    lambda do, a: do(np.repeat, a, 3), lambda do, a: do(np.repeat, a, 2, axis=1), lambda do, a: a.repeat(2, 0),
    lambda do, a: do(np.tile, a, 2), lambda do, a: do(np.tile, a, (3, 2)), lambda do, a: do(np.tile, a, (2, 1, 2)),
    lambda do, a: do(np.flip, a), lambda do, a: do(np.flip, a, 1), lambda do, a: do(np.flipud, a),
    lambda do, a: do(np.fliplr, a), lambda do, a: do(np.roll, a, 2), lambda do, a: do(np.roll, a, -1, axis=1),
    lambda do, a: do(np.roll, a, (1, 2), axis=(0, 1)), lambda do, a: do(np.pad, a, 1),
    lambda do, a: do(np.pad, a, (1, 2)), lambda do, a: do(np.pad, a, ((0, 1), (2, 0)), constant_values=3),
    lambda do, a: do(np.pad, a, 2, "edge"), lambda do, a: do(np.pad, a, ((7, 1), (0, 9)), mode="wrap"),
    lambda do, a: do(np.pad, a, ((7, 1), (0, 9)), mode="reflect"), lambda do, a: do(np.pad, a[:1], 3, mode="reflect"),
    lambda do, a: do(np.pad, a, ((7, 1), (0, 9)), mode="symmetric"),
    lambda do, a: do(np.tril, a), lambda do, a: do(np.triu, a, 1), lambda do, a: do(np.tril, a, -1),
    lambda do, a: a.shape, lambda do, a: a.size, lambda do, a: a.ndim, lambda do, a: do(len, a),
    lambda do, a: a.copy(), lambda do, a: do(np.array, a), lambda do, a: a.astype(int),
    lambda do, a: a.astype(np.float32), lambda do, a: do(np.asarray, a, dtype=bool),
    lambda do, a: do(np.zeros_like, a), lambda do, a: do(np.ones_like, a, dtype=int),
    lambda do, a: do(np.full_like, a, 2.5), lambda do, a: do(np.meshgrid, a[0], a[:, 0]),
    lambda do, a: do(np.meshgrid, a[0], a[:, 0], indexing="ij"), lambda do, a: do(np.diagonal, a),
    lambda do, a: do(np.broadcast_arrays, a, a[0]), lambda do, a: do(np.kron, a, a),
]


@pytest.mark.parametrize("i", range(len(SHAPES)))
def test_shapes(i: int) -> None:
    for x in (M, IM, M.astype(np.float32)):
        check(SHAPES[i], x)


REDUCE = [np.sum, np.prod, np.max, np.min, np.mean, np.std, np.var, np.any, np.all, np.ptp, np.count_nonzero]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1,)], ids=str)
@pytest.mark.parametrize("f", REDUCE, ids=lambda f: f.__name__)
def test_reductions(f: Any, axis: Any) -> None:
    for keepdims in (False, True):
        for x in (T, (T * 3).astype(int), (T * 3).astype(np.int32), T > 0, T.astype(np.float32)):
            if x.dtype != bool or f is not np.ptp:
                check(lambda do, a, keep=keepdims: do(f, a, axis=axis, keepdims=keep), x)


SCANS: list[Any] = [
    lambda do, a: do(np.cumsum, a), lambda do, a: a.cumsum(axis=1), lambda do, a: do(np.cumprod, a, axis=0),
    lambda do, a: do(np.diff, a), lambda do, a: do(np.diff, a, 2, axis=0), lambda do, a: do(np.argmax, a),
    lambda do, a: do(np.argmin, a, axis=1), lambda do, a: a.argmax(axis=0), lambda do, a: a.sum(),
    lambda do, a: a.mean(0), lambda do, a: a.std(1, ddof=1), lambda do, a: do(np.var, a, ddof=1),
    lambda do, a: do(np.sum, a, axis=0, dtype=np.float32), lambda do, a: do(np.sum, a, initial=2),
    lambda do, a: do(np.max, a, initial=100), lambda do, a: do(np.max, a, axis=1, initial=1),
    lambda do, a: do(np.sum, a, where=a > 1), lambda do, a: do(np.average, a, axis=1, weights=a[0] + 10),
    lambda do, a: do(np.trapezoid, a), lambda do, a: do(np.trapezoid, a, a[0], axis=1),
    lambda do, a: do(np.add.reduce, a), lambda do, a: do(np.nansum, a, axis=0), lambda do, a: do(np.nanmean, a),
    lambda do, a: do(np.argmax, a, keepdims=True), lambda do, a: do(np.allclose, a, a + 1e-9),
    lambda do, a: do(np.round, a, 1), lambda do, a: a.round(),
    lambda do, a: do(np.clip, a, 0, 2), lambda do, a: a.clip(min=1), lambda do, a: do(np.isclose, a, 1.0),
    lambda do, a: do(np.where, a > 1, a, 0), lambda do, a: do(np.where, a > 1), lambda do, a: do(np.nonzero, a),
    lambda do, a: do(np.argwhere, a > 1), lambda do, a: do(np.flatnonzero, a),
    lambda do, a: do(np.take, a, [0, 5, 11]), lambda do, a: do(np.take, a, [0, 2], axis=1),
    lambda do, a: do(np.take_along_axis, a, do(np.argmax, a, axis=1, keepdims=True), axis=1),
    lambda do, a: do(np.nan_to_num, a), lambda do, a: do(np.linalg.norm, a),
    lambda do, a: do(np.linalg.norm, a, axis=1), lambda do, a: do(np.linalg.norm, a[0], 1),
    lambda do, a: do(np.linalg.norm, a[0], np.inf), lambda do, a: do(np.linalg.norm, a, 1),
    lambda do, a: do(np.linalg.norm, a[0], 3), lambda do, a: do(np.linalg.norm, a, np.inf),
    lambda do, a: do(np.diag, a), lambda do, a: do(np.diag, a, 1), lambda do, a: do(np.diag, a[0]),
    lambda do, a: do(np.diag, a[0], -2), lambda do, a: do(np.trace, a), lambda do, a: do(np.subtract.outer, a[0], a),
    lambda do, a: do(np.cross, a[:, 0], a[:, 1]), lambda do, a: do(sum, a), lambda do, a: do(max, a[1]),
    lambda do, a: do(min, a[1]), lambda do, a: do(sum, a[1]), lambda do, a: do(any, a[1] > 0),
    lambda do, a: do(all, a[1] > 0), lambda do, a: a[1, 2].item(), lambda do, a: a.item(1, 2), lambda do, a: a.item(5),
]


@pytest.mark.parametrize("i", range(len(SCANS)))
def test_scans_and_selections(i: int) -> None:
    for x in (M, IM - 4):
        check(SCANS[i], x)


CREATION: list[Any] = [
    lambda do, n: do(np.zeros, n), lambda do, n: do(np.zeros, (n, 2), dtype=int), lambda do, n: do(np.ones, (2, n)),
    lambda do, n: do(np.full, n, 2), lambda do, n: do(np.full, (n, 3), 2.5), lambda do, n: do(np.full, n, True),
    lambda do, n: do(np.arange, n), lambda do, n: do(np.arange, 2, n), lambda do, n: do(np.arange, n, -3, -2),
    lambda do, n: do(np.arange, 0.0, n, 0.7), lambda do, n: do(np.arange, n, dtype=float),
    lambda do, n: do(np.arange, n + 0.5), lambda do, n: do(np.linspace, 0, 1, n),
    lambda do, n: do(np.linspace, 1, -2.5, n, endpoint=False), lambda do, n: do(np.linspace, 0.1, n, 7),
    lambda do, n: do(np.logspace, 0, 1, n), lambda do, n: do(np.eye, n), lambda do, n: do(np.eye, n, 3, k=1),
    lambda do, n: do(np.eye, 3, n, -1, dtype=int), lambda do, n: do(np.identity, n), lambda do, n: do(np.tri, n),
    lambda do, n: do(np.array, [n, 2.5, 3]), lambda do, n: do(np.array, [[n, 1], [2, 3]]),
    lambda do, n: do(np.array, [n, 1], dtype=np.float32), lambda do, n: do(np.array, []),
    lambda do, n: do(np.float64, n), lambda do, n: do(np.float32, n), lambda do, n: do(np.int64, n),
    lambda do, n: do(np.int32, n), lambda do, n: do(np.bool_, n), lambda do, n: do(np.shape, do(np.empty, (n, 2))),
]


@pytest.mark.parametrize("i", range(len(CREATION)))
def test_creation(i: int) -> None:
    for n in (0, 1, 2, 5):
        check(CREATION[i], n)


PRODUCTS = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
            ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)),
            ((6, 1, 2, 3), (5, 3, 4)),
            ((1, 3), (3, 1)), ((2, 0), (0, 3))]


@pytest.mark.parametrize("m, n", PRODUCTS, ids=str)
def test_products(m: Any, n: Any) -> None:
    a, b = np.sin(np.arange(math.prod(m))).reshape(m), np.cos(np.arange(math.prod(n))).reshape(n)
    check(lambda do, x, y: x @ y, a, b)
    check(lambda do, x, y: do(np.matmul, x, y), (a * 10).astype(int), (b * 10).astype(int))
    if len(m) < 3 or len(n) < 3:
        check(lambda do, x, y: do(np.dot, x, y), a, b)


def test_transposed_products() -> None:
    for f in (lambda do, x, y: x.T @ y, lambda do, x, y: x.T @ y.T.T, lambda do, x, y: (y.T @ x).T):
        check(f, M, M + 1)
    check(lambda do, x, y: do(np.dot, x, y), T, T.reshape(2, 4, 3))
    check(lambda do, x, y: do(np.inner, x, y), M, M + 1)
    check(lambda do, x, y: do(np.inner, x, y), T, M)
    check(lambda do, x, y: do(np.outer, x, y), M, F)
    check(lambda do, x, y: do(np.vdot, x, y), M, M)
    check(lambda do, x, y: do(np.tensordot, x, y, 1), M, N)
    check(lambda do, x, y: do(np.tensordot, x, y, ((0, 1), (1, 2))), M, T)
    check(lambda do, x, y: do(np.tensordot, x, y, 0), F, M)
    check(lambda do, x, y: do(np.dot, x, y), F, 2.0)


EINSUMS = [("ij,jk->ik", M, N), ("ij,jk", M, N), ("ij->ji", M), ("ij->", M), ("ij->i", M), ("i,i->", F, G),
           ("i,j->ij", F, G),
           ("ij,ij->ij", M, M), ("ij,j->i", M, F), ("ijk,kl->ijl", T, N), ("ii->i", M[:, :3].copy()),
           ("ii", M[:, :3].copy()),
           ("bij,bjk->bik", T, T.reshape(2, 4, 3)), ("...ij,...jk->...ik", T, T.reshape(2, 4, 3)), ("...i->...", T),
           ("ij,jk,kl->il", M, N, N.T.copy()), ("i,ij,j->", F[:3].copy(), M, F), ("ijk,ijk->k", T, T),
           ("ki,kj->ij", M, M),
           ("i,i->i", F, G), ("ij,kj->ik", M, M), ("ij,i->j", M, F[:3].copy()), ("bi,bj->bij", M, M),
           ("ji,j->", M, F[:3].copy()),
           ("i,j->", F, G), ("ij,jk->k", M, N), ("iij->j", np.sin(np.arange(18.0)).reshape(3, 3, 2))]


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum(case: Any) -> None:
    text, *operands = case
    check(lambda do, *xs: do(np.einsum, text, *xs), *operands)


MATH = [math.sqrt, math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.sin, math.cos, math.tan,
        math.asin, math.acos, math.atan, math.sinh, math.cosh, math.tanh, math.asinh, math.acosh, math.atanh, math.erf,
        math.erfc, math.lgamma, math.cbrt, math.exp2, math.fabs, math.floor, math.ceil, math.trunc, math.isnan,
        math.isinf, math.isfinite, math.degrees, math.radians, float, int, bool, abs, round]


@pytest.mark.parametrize("f", MATH, ids=lambda f: f.__name__)
def test_math(f: Any) -> None:
    for x in (0.5, -0.5, 1.0, -1.0, 0.0, 2.5, 3.5, -2.5, math.nan, 3, np.float64(0.7)):
        check(lambda do, a: do(f, a), x)


@pytest.mark.parametrize("f", [int, round, math.floor])
def test_infinite_to_int(f: Any) -> None:
    with pytest.raises(OverflowError):
        evaluate(lambda do, a: do(f, a), math.inf)


@pytest.mark.parametrize("f", [math.atan2, math.hypot, math.copysign, math.pow, math.fmod, math.isclose, divmod, pow,
                               math.log])
def test_math_of_two(f: Any) -> None:
    for x, y in ((3.0, 2.0), (5.5, 2.5), (1.0, 0.5)):
        check(lambda do, a, b: do(f, a, b), x, y)


def test_math_of_sequences() -> None:
    check(lambda do, a, b: do(math.dist, [a, b], [1.0, 2.0]), 3.0, 4.5)
    check(lambda do, a, b: do(math.prod, [a, b, 2]), 3.0, 4.5)
    check(lambda do, a, b: do(math.hypot, a, b, 2.0), 3.0, 4.5)
    check(lambda do, a, b: do(sum, [a, b, 2]), 3.0, 4.5)
    check(lambda do, a, b: do(max, [a, b, 2.0]), 3.0, 4.5)
    check(lambda do, a, b: do(max, a, b), math.nan, 1.0)
    check(lambda do, a, b: do(max, a, b), 1.0, math.nan)
    check(lambda do, a, b: do(any, [a > b, a < b]), 3.0, 4.5)
    check(lambda do, a, b: do(round, a, 1), 3.14159, 0.0)
    check(lambda do, a, b: do(divmod, a, b), -7, 2)


def test_scipy_special() -> None:
    import scipy.special as special
    for f in (special.erf, special.erfc, special.gammaln, special.digamma, special.expit, special.logsumexp,
              special.softmax):
        check(lambda do, a, f=f: do(f, a), np.array([0.3, 2.5, 4.0, 30.0]))
    check(lambda do, a: do(special.logsumexp, a, axis=1), M)
    check(lambda do, a: do(special.log_softmax, a, axis=0), M)
