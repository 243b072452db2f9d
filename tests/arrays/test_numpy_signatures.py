"""Calls bound by NumPy's signatures: binding, refused arguments, and arrays for results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, check_grads, interpret, jit
from tests.alike import assert_alike

pytestmark = pytest.mark.any_level

A = np.arange(6.0).reshape(2, 3) / 4 + 0.25
B = A[::-1].copy()


def into_rows(a: Any, b: Any) -> Any:
    out = np.zeros((3, 3))
    first = np.add(a[0], b[0], out[0])
    np.arctan(a[1], out[1])                                      # not `arctan2`: the second argument is `out`
    a.sum(0, None, out[2])
    first *= 2.0
    return out


def into_pairs(a: Any, b: Any) -> Any:
    fraction, whole = np.zeros((2, 3)), np.zeros((2, 3))
    np.modf(3 * a, fraction, whole)
    same, rest = np.divmod(3 * b, a, out=(fraction[:], None))
    same[0] += 1.0
    return fraction, whole, rest


def into_itself(a: Any, b: Any) -> Any:
    c = a.copy()
    np.matmul(c, c.T @ b, c)                                     # read before it is written
    np.cumsum(c, 1, None, c)
    return np.clip(c, 0.5, 2.0, c), c


def wider(a: Any, b: Any) -> Any:
    return np.exp(a[0], np.zeros((2, 3))), np.add(1.0, 2.0, np.zeros(3)), np.median(a, 0, np.zeros(3))


@pytest.mark.parametrize("fun", [into_rows, into_pairs, into_itself, wider])
def test_results_go_into_arrays(fun: Callable[..., Any]) -> None:
    assert_alike(jit(fun)(A, B), fun(A, B), rtol=1e-14)


@pytest.mark.slow
def test_derivatives_go_through_out() -> None:
    check_grads(lambda a, b: np.sum(into_rows(a, b) ** 2), (A, B), order=2)
    check_grads(lambda a, b: np.sum(into_itself(a, b)[0] * b), (A + 0.1, B), order=1)


def test_an_array_of_the_callers_is_not_written() -> None:
    with pytest.raises(UnsupportedError, match="may not be written"):
        jit(lambda a, b: np.add(a, a, b))(A, B)


WRONG: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda a: np.add(a), TypeError, r"np\.add.*'x2'"),
    (lambda a: np.sin(a, a, a), TypeError, r"np\.sin"),
    (lambda a: np.sin(x=a), TypeError, r"np\.sin.*'x'"),
    (lambda a: np.sum(a, 0, axis=1), TypeError, r"np\.sum.*'axis'"),
    (lambda a: a.sum(axes=0), TypeError, r"sum.*'axes'"),
    (lambda a: a.fill(value=1.0), TypeError, "fill.*'value'"),
    (lambda a: np.matmul(a, a.T, where=True), TypeError, r"np\.matmul.*'where'"),
    (lambda a: np.add(a, 1, a.copy(), out=a.copy()), TypeError, "out"),
    (lambda a: np.modf(a, out=a.copy()), TypeError, "tuple"),
    (lambda a: np.sin(a, [0.0]), TypeError, "out"),
    (lambda a: np.sin(a, np.zeros((2, 3), int)), TypeError, "same_kind"),
    (lambda a: np.sum(a, 0, out=np.zeros((2, 3))), ValueError, "dimensions"),
    (lambda a: np.sum(a, 0, out=np.zeros(1)), ValueError, "size 1"),
    (lambda a: np.add.accumulate(a[0, 0]), TypeError, "scalar"),
    (lambda a: np.nanquantile(a[:0], [0.2, 0.4]), ValueError, "no elements"),
]


@pytest.mark.parametrize(("fun", "kind", "message"), WRONG)
def test_wrong_calls_name_function_and_argument(fun: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        jit(fun)(A)


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda a: np.add(a, 1, where=a > 0), "the argument `where` of `np.add`"),
    (lambda a: np.add(a, 1, dtype=np.float32), "the argument `dtype` of `np.add`"),
    (lambda a: np.add(a, 1, casting="unsafe"), "the argument `casting` of `np.add`"),
    (lambda a: np.zeros(3, like=a), "the argument `like` of `np.zeros`"),
    (lambda a: np.mean(a, where=a > 0), "the argument `where` of `np.mean`"),
    (lambda a: np.var(a, mean=a), "the argument `mean` of `np.var`"),
    (lambda a: np.array(a, copy=False), "copy=False"),
    (lambda a: np.nan_to_num(a, False), "copy=False"),
]


@pytest.mark.parametrize(("fun", "message"), REFUSED)
def test_arguments_without_a_place(fun: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as e:
        jit(fun)(A)
    assert e.value.loc is not None and e.value.hint


def views_or_copies(a: Any) -> Any:
    a = a.copy()
    a.astype(float, copy=False)[0] = 7.0
    np.asarray(a, copy=True)[1] = 8.0
    np.asarray(a, bool)[1] = False
    a.astype(float)[1] = 9.0
    np.array(a, ndmin=3)[0, 1] = 6.0
    return a, np.array(a, ndmin=3).shape, np.array([1, 2], ndmin=2)


def to_the_letter(a: Any, i: Any, x: float) -> Any:
    return (
        np.sum(x, axis=0), np.max(x, -1), np.any(x, 0), np.argmax(x, -1), np.repeat(x, 2, 0), np.squeeze(x, axis=0),
        np.percentile(a.astype(np.float32), 30), np.gcd(i, 4), np.lcm(i, i), np.vecdot(i, i),
        np.average(a[None], axis=(2, 1), weights=np.arange(6.0).reshape(3, 2)), np.average(a, axis=1, returned=True),
        a.astype(np.float32)[0].dot(2), a.astype(np.float32)[0, 0].item() + np.float32(1),
        np.take(a, [5, -8], mode="wrap"), np.diff(a, prepend=0.0, append=x), np.trace(a[:, None] * a, 1, 1, -1),
        np.linalg.norm(a, -1), np.linalg.norm(a[None], np.inf, (1, 2)), np.kron(a[0], a), np.size(a, (0, 1)),
        np.any(a, 0, where=a > 0.5), np.var(a, correction=1), np.asarray(a, order="C"), np.real_if_close(a, 100))


@pytest.mark.slow
def test_to_the_letter() -> None:
    i = np.array([[6, 4, 9]], np.int32)
    assert_alike(jit(views_or_copies)(A), views_or_copies(A))
    assert_alike(jit(to_the_letter)(A, i, 2.5), to_the_letter(A, i, 2.5), rtol=1e-6)
    for args in ((0,), (-1,)):
        with pytest.raises(np.exceptions.AxisError):
            interpret(lambda x, axis=args[0]: np.mean(x, axis), 2.5)
    with pytest.raises(np.exceptions.AxisError):
        interpret(lambda x: np.argmax(x, axis=5), 2.5)
