"""Vector functions of our own: their errors, special values, and that nothing is called."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from jitad import jit
from jitad.lowering import vecmath, vecown
from jitad.lowering.cpu import target

needs_them = pytest.mark.skipif(not vecmath.masks_tails(target().features), reason="this machine has no AVX-512")


@jit
def tanh(x):
    return np.tanh(x)


@jit
def exp(x):
    return np.exp(x)


@needs_them
@pytest.mark.parametrize("f, exact, dtype", [
    (tanh, np.tanh, np.float64), (tanh, np.tanh, np.float32), (exp, np.exp, np.float32)])
def test_error_below_3_ulp(f, exact, dtype):
    rng = np.random.default_rng(0)
    small, large = (-320, 3) if dtype == np.float64 else (-45, 2.0)
    for scale in np.logspace(small, large, 300):
        x = rng.uniform(-scale, scale, 101).astype(dtype)
        want = exact(x.astype(np.longdouble))
        finite = np.abs(want) < np.finfo(dtype).max
        got, want = f(x)[finite], want[finite]
        assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype(dtype))) < 3


@needs_them
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_values_of_tanh(dtype):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1e-30, -20.0, 20.5, huge, -huge], dtype)
    y, expected = tanh(x), np.tanh(x)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))


@needs_them
def test_special_values_of_exp():
    """Results that are no normal numbers, infinite or 0, at both ends."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 88.73, 89, 1e38, -87, -88, -100, -103.9, -104, -1e38],
                 np.float32)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(exp(x), np.exp(x.astype(np.float64)).astype(np.float32))


@needs_them
def test_they_are_inlined():
    """Nothing calls them, and no code is made of the functions themselves."""
    exp(np.ones(40, np.float32))
    assert "jitad.vector.expf.16" in exp.inspect("llvm") and "jitad.vector" not in exp.inspect("asm")
    calls = re.findall(r"call\w*\s+(\S+)", exp.inspect("asm"))
    assert not any("exp" in c for c in calls)


@pytest.mark.parametrize("function", vecown.FUNCTIONS)
def test_text(function):
    lanes = [bits // vecown.FUNCTIONS[function].bits for bits in vecown.FEATURES.values()]
    text = vecown.definitions("".join(f"declare @{vecown.name(function, n)}\n" for n in lanes))
    llvm.parse_assembly(text).verify()
    assert text.count("define") == len(lanes) and not vecown.definitions("declare float @expf(float)")
