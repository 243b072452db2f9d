"""``(-1) ** k`` is a choice by the parity of ``k``: signs of series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def of_float(n: Any) -> Any:
    return (-1.0) ** n


def of_int(n: Any) -> Any:
    return (-1) ** n


def of_float32(n: Any) -> Any:
    return np.float32(-1) ** n


def arctangent(x: float, n: int) -> float:
    s = 0.0
    for k in range(n):
        s += (-1) ** k * x ** (2 * k + 1) / (2 * k + 1)
    return s


@pytest.mark.parametrize("n", [0, 1, 2, 7, -1, -2, 2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**62 + 1, -(2**63)])
def test_numbers(n: int) -> None:
    """A float exponent beyond 2**53 is even."""
    assert jit(of_float)(n) == of_float(n)
    if n >= 0:
        assert jit(of_int)(n) == 1 - 2 * (n % 2)
    else:
        with pytest.raises(ValueError, match="negative integer powers"):
            jit(of_int)(n)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_arrays(dtype: Any) -> None:
    n = np.array([0, 1, 2, 3, 100, 101, 2**24 + 1, 2**53 + 1, 2**53 - 1], dtype=np.uint64).astype(dtype)
    for f in (of_float, of_float32):
        got, want = jit(f)(n), f(n)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    assert "pow" not in str(jit(of_float).inspect("optimized", n))


@pytest.mark.slow
def test_series() -> None:
    f = jit(arctangent, grad=0)
    assert f(0.5, 20) == pytest.approx(np.arctan(0.5), rel=1e-12)
    assert f(0.5, 20) == pytest.approx(arctangent(0.5, 20), rel=1e-15)
    check_grads(lambda x: f(x, 20), (0.5,), order=2)
