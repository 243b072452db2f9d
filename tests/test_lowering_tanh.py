"""``tanh`` of vectors of doubles, which is our own."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

from jitad import jit
from jitad.lowering import tanh, vecmath
from jitad.lowering.cpu import target
from jitad.lowering.emit import Writer

needs_it = pytest.mark.skipif(not vecmath.masks_tails(target().features), reason="this machine has no AVX-512")


@jit
def f(x):
    return np.tanh(x)


@needs_it
def test_error_below_3_ulp():
    rng = np.random.default_rng(0)
    for scale in np.logspace(-320, 3, 300):
        x = rng.uniform(-scale, scale, 101)
        exact = np.tanh(x.astype(np.longdouble))
        assert np.max(np.abs(f(x) - exact) / np.spacing(np.abs(exact.astype(float)))) < 3


@needs_it
def test_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-300, -20.0, 20.5, 1e308, -1e308])
    y, expected = f(x), np.tanh(x)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))
    assert "jitad.tanh" in f.inspect("llvm")


@pytest.mark.parametrize("lanes", tanh.LANES.values())
def test_text(lanes):
    writer = Writer()
    tanh.define(writer, lanes)
    tanh.define(writer, lanes)
    llvm.parse_assembly(writer.text()).verify()
