"""Functions of NumPy with odd but legal arguments: value, dtype and shape are NumPy's, and so are the errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit

F = np.array([0.5, -1.25, 3.0, 2.0])
I = np.array([3, -7, 0, 5])
M = np.arange(12.0).reshape(3, 4) / 3 - 1
V = np.array([1.0, -2.0, 3.0])


def alike(fun: Callable[..., Any], *args: Any) -> None:
    """The traced program gives what Python gives, or raises what Python raises."""
    try:
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
