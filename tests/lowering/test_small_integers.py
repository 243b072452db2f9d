"""Conversions of counters, sizes and indices to float64 by their bits, where there are 16 registers for floats."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

LARGE = 2**60 + 2**7 + 1                                    # is rounded


def numbers(x: Any, start: int, step: int) -> Any:
    """Differences of counters and sizes, which are small, and counters from anywhere, which are rounded."""
    n = len(x)
    out = np.zeros((n, 4))
    for i in range(n):
        out[i, 0] = float(i - n)
        out[i, 1] = float(start + i)
        out[i, 2] = float(i * step)
        out[i, 3] = float(min(n - 2 * i, 3) % n) if n > 1 else float(-i)
    return out


def between(x: Any, table: Any) -> float:
    """Interpolates in a table; what is out of it counts as the integer part."""
    total = 0.0
    for v in x:
        k = int(v)
        part = v - k
        if 0 <= k < len(table) - 1:
            total += (1.0 - part) * table[k] + part * table[k + 1]
        else:
            total += 1e-3 * k
    return total


def run() -> None:
    """The same numbers as Python's, and right derivatives, on the processor at hand."""
    for n in (1, 2, 9, 40):
        for start, step in ((0, 1), (-5, -7), (LARGE, 2**55 + 1), (-LARGE, -(2**52) - 1)):
            np.testing.assert_array_equal(jit(numbers)(np.ones(n), start, step), numbers(np.ones(n), start, step))
    rng = np.random.default_rng(0)
    x, table = rng.uniform(-3.0, 12.0, 50), rng.normal(size=9)
    x[:4] = 2.0**62 + 2.0**40, -(2.0**61), -0.5, 2.0**52 + 1.0
    np.testing.assert_allclose(jit(between)(x, table), between(x, table), rtol=1e-14)
    check_grads(jit(between, grad=(0, 1)), (x[4:], table), order=1, modes=("rev",))
    print(jit(numbers).inspect("llvm", np.ones(9), 0, 1))


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_without_avx512(cpu: str) -> None:
    """A process keeps the processor of its first code."""
    text = subprocess.run([sys.executable, "-c", f"from {__name__} import run; run()"], capture_output=True, text=True,
                          env=os.environ | {"JITAD_CPU": cpu, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
    assert "0xC338000000000000" in text.stdout              # -(2**52 + 2**51)
    assert "sitofp" in text.stdout                          # of counters from anywhere


@pytest.mark.slow
def test_here() -> None:
    run()


def fractions(x: Any, table: Any) -> Any:
    """What is left of numbers that are in range, in place, of either sign and with both zeros."""
    out = np.zeros((len(x), 2))
    for i in range(len(x)):
        k = int(x[i])
        out[i, 0] = table[k] + (x[i] - k)
        out[i, 1] = math.copysign(1.0, float(k))
    return out


def test_integer_parts_in_range() -> None:
    x = np.array([0.0, -0.0, 0.25, -0.25, 0.999999, -0.999999, 1.0, -1.0, 7.5, -7.5, 8.0 - 2.0**-50, -8.0 + 2.0**-50])
    table = np.arange(8.0)
    np.testing.assert_array_equal(jit(fractions)(x, table), fractions(x, table))
    for beyond in (8.0, -9.0, 2.0**52, -(2.0**62), 1e300, math.nan):
        with pytest.raises((IndexError, OverflowError, ValueError)):
            jit(fractions)(np.append(x, beyond), table)
