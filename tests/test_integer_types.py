"""Integers of 8 to 64 bits, with and without a sign: values and dtypes are NumPy's, or there is a refusal.

Every operator and common function, on each pair of dtypes, at the edges of their ranges, compiled and by the
reference interpreter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit
from jitad.errors import UnsupportedError

Function = Callable[..., Any]

INTS: list[Any] = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
OTHERS: list[Any] = [np.bool_, np.float32, np.float64]

BINARY: list[Function] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne, operator.lt, operator.le,
    operator.gt, operator.ge, np.maximum, np.minimum, np.fmax, np.fmin, np.fmod, np.arctan2, np.hypot, np.copysign,
    np.logaddexp, np.heaviside, np.float_power, np.logical_and, np.gcd, np.lcm, np.isclose,
    lambda x, y: np.power(x, abs(y) % 5), lambda x, y: np.where(x > y, x, y), lambda x, y: np.clip(x, y, y),
    lambda x, y: np.divmod(x, y)]
UNARY: list[Function] = [
    operator.neg, operator.pos, operator.invert, abs, np.sign, np.square, np.reciprocal, np.sqrt, np.sin, np.exp,
    np.rint, np.floor, np.ceil, np.trunc, np.fabs, np.isnan, np.isfinite, np.logical_not, np.deg2rad, np.sinc,
    np.nan_to_num, np.round, lambda x: x ** 2, lambda x: x ** 3, lambda x: x ** 0.5]
ON_ARRAYS: list[Function] = [
    np.sum, np.prod, np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.mean, np.var, np.std, np.cumsum,
    np.cumprod, np.ptp, np.count_nonzero, np.median, np.diff, np.sort, np.argsort, np.unique, np.flip, np.nonzero,
    np.average, np.nansum, np.bincount, np.ediff1d, np.gradient, np.unwrap, np.cov,
    lambda a: np.convolve(a, a), lambda a: np.interp(a, np.sort(a), a), lambda a: a @ a, np.linalg.norm,
    lambda a: np.dot(a, a), lambda a: np.vdot(a, a), lambda a: np.inner(a, a), lambda a: np.outer(a, a),
    lambda a: np.kron(a, a), lambda a: np.outer(a, a) @ a, lambda a: np.outer(a, a) @ np.outer(a, a),
    lambda a: np.trace(np.outer(a, a)), lambda a: np.einsum("i,i->", a, a), lambda a: np.tensordot(a, a, 1),
    lambda a: np.concatenate((a, a)), lambda a: np.append(a, a), lambda a: np.repeat(a, 2), lambda a: np.tile(a, 2),
    lambda a: np.searchsorted(np.sort(a), a), lambda a: np.sum(a, initial=3), lambda a: np.max(a, initial=3),
    lambda a: np.sum(a, dtype=a.dtype), lambda a: np.cumsum(a, dtype=np.float32), lambda a: np.mean(a, dtype=np.float32),
    lambda a: sum(a), lambda a: max(a), lambda a: np.zeros_like(a), lambda a: np.full_like(a, 7), lambda a: a[::-2],
    lambda a: np.quantile(a, 0.3), lambda a: np.histogram(a)[0], lambda a: np.isin(a, a[:2]), lambda a: np.roll(a, 1),
    lambda a: np.where(a > 3, a, 0), lambda a: np.pad(a, 1), lambda a: np.triu(np.outer(a, a)), lambda a: np.array([a[0], a[1]]).tolist(),
    lambda a: np.arange(int(a[0]), 9), lambda a: np.linspace(a[0], a[1], 4), lambda a: a.astype(np.float64) * 0.5,
    lambda a: np.take(np.arange(9.0), a % 9), lambda a: np.arange(9)[a % 9], lambda a: a[a > 2], lambda a: a.item(1),
    lambda a: np.add.reduce(a), lambda a: np.multiply.accumulate(a), lambda a: np.array([a[0], a[1]]),
    lambda a: np.stack([a, a]), lambda a: np.corrcoef(a, a[::-1]), lambda a: np.cross(a[:3], a[1:4]),
    lambda a: np.round(a, -1), lambda a: np.polyval(a, a), lambda a: np.digitize(a, np.sort(a)),
    lambda a: np.lexsort((a, a)), lambda a: np.percentile(a, 20), lambda a: np.nanmax(a), lambda a: np.array_equal(a, a),
    lambda a: np.partition(a, 2)[2], lambda a: np.union1d(a, a), lambda a: np.choose(a.astype(np.int64) % 2, (a, a)),
    lambda a: np.select([a > 2], [a], 0), lambda a: np.vander(a, 3), lambda a: np.correlate(a, a, "full")]
CASTS: list[Any] = [*INTS, *OTHERS]


def edges(dtype: Any) -> np.ndarray:
    if dtype is np.bool_:
        return np.array([True, False])
    if np.issubdtype(dtype, np.floating):
        return np.array([0, 1.5, -2.5, 200.25, np.nan, np.inf], dtype)
    info = np.iinfo(dtype)
    return np.array([0, 1, info.max, info.min, info.max - 1 if info.min == 0 else -1, 7], dtype)


def pairs(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = edges(first), edges(second)
    return np.repeat(x, len(y)), np.tile(y, len(x))


def numpy(f: Function, *args: Any) -> Any:
    """What NumPy gives, or the exception that it raises."""
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except Exception as e:
            return e


def parts(x: Any) -> list[Any]:
    return [p for part in x for p in parts(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


def assert_same(found: Any, wanted: Any, what: str) -> None:
    for x, y in zip(parts(found), parts(wanted), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, f"{what}: {x.dtype} {x.shape} for {y.dtype} {y.shape}"
        loose = 0.0 if y.dtype.kind in "iub" else 1e-6 if y.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(x, y, rtol=loose, atol=loose, err_msg=what)


def name(f: Function, i: int) -> str:
    return f"{i} {getattr(f, '__name__', f)}"


def kind(e: Any) -> type[Exception]:
    """The class of an exception, Python's where NumPy has one of its own."""
    return next((c for c in type(e).__mro__ if isinstance(e, Exception) and c.__module__ == "builtins"), UnsupportedError)


def has_half(x: Any) -> bool:
    return any(p.dtype == np.float16 for p in parts(x))


def check_all(functions: list[Function], *args: Any) -> None:
    """All functions that NumPy has a value of in one program, the others one by one."""
    wanted = {i: numpy(f, *args) for i, f in enumerate(functions)}
    good: list[int] = []
    for i, f in enumerate(functions):
        if isinstance(wanted[i], Exception) or has_half(wanted[i]):
            with np.errstate(all="ignore"), pytest.raises((kind(wanted[i]), UnsupportedError)):
                raise AssertionError(f"{name(f, i)} gives {interpret(f, *args)}")
            continue
        good.append(i)
    fs = [functions[i] for i in good]

    def program(*args: Any) -> Any:
        return tuple([f(*args) for f in fs])
    with np.errstate(all="ignore"):
        for by, found in (("interpreter", interpret(program, *args)), ("compiled", jit(program)(*args))):
            for i, x in zip(good, found, strict=True):
                assert_same(x, wanted[i], f"{by}: {name(functions[i], i)} of {[a.dtype for a in args]}")


@pytest.mark.parametrize("second", [*INTS, *OTHERS])
@pytest.mark.parametrize("first", INTS)
def test_operators_on_each_pair_of_dtypes(first: Any, second: Any) -> None:
    check_all(BINARY, *pairs(first, second))


@pytest.mark.parametrize("dtype", INTS)
def test_functions_of_one_array(dtype: Any) -> None:
    check_all(UNARY, edges(dtype))
    check_all([lambda x, to=to: x.astype(to) for to in CASTS], edges(dtype))


@pytest.mark.parametrize("dtype", INTS)
def test_functions_of_one_axis(dtype: Any) -> None:
    check_all(ON_ARRAYS, np.array([5, 1, 3, 2, 9, 100, 4, 120], dtype))
