"""Callbacks of other libraries: ``f.cfunc`` and ``f.address``."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from jitad import jit
from jitad.errors import UnsupportedError


@jit
def bell(x: float, width: float) -> float:
    return math.exp(-(x / width) ** 2)


@jit
def paraboloid(x):                  # type: ignore[no-untyped-def]
    return np.sum((x - np.arange(len(x))) ** 2)


def test_a_c_function_returns_its_result() -> None:
    f = bell.cfunc("f64, f64")
    assert f(1.0, 2.0) == bell(1.0, 2.0)
    assert bell.cfunc("f64, f64") is f and bell.address("f64, f64") == ctypes.cast(f, ctypes.c_void_p).value
    assert bell.cfunc()(1.0, 2.0) == f(1.0, 2.0)                  # by the annotations


def test_an_error_is_nan_or_zero() -> None:
    pick, divide = jit(lambda x: x[5]), jit(lambda i: 7 // i)
    x = np.arange(3.0)
    f = pick.cfunc("f64[:]")
    assert math.isnan(f(x.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), 3))
    assert divide.cfunc("i64")(0) == 0 and divide.cfunc("i64")(2) == 3


def test_what_is_no_callback() -> None:
    with pytest.raises(UnsupportedError, match="one number"):
        jit(lambda x: x * 2).cfunc("f64[:]")
    with pytest.raises(ValueError, match="no callback"):
        bell.cfunc("double (char, double)")


@pytest.mark.slow
def test_scipy_integrates_a_callback() -> None:
    scipy = pytest.importorskip("scipy")
    integrate = pytest.importorskip("scipy.integrate")
    one = scipy.LowLevelCallable(jit(lambda x: math.exp(-x * x)).cfunc("double (double, void *)"))
    value, _ = integrate.quad(one, -9, 9)
    assert value == pytest.approx(math.sqrt(math.pi), rel=1e-10)
    several = scipy.LowLevelCallable(paraboloid.cfunc("double (int, double *)"))
    value, _ = integrate.nquad(several, [[0, 1], [0, 1]])
    assert value == pytest.approx(2 / 3)


@pytest.mark.slow
def test_numba_calls_it() -> None:
    numba = pytest.importorskip("numba")
    f = bell.cfunc("f64, f64")

    @numba.njit
    def twice(x: float) -> float:
        return f(x, 1.0) * 2.0
    assert twice(0.5) == 2 * bell(0.5, 1.0)
