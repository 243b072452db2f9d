"""jitad's own vector functions: errors, special values, and inlining."""

from __future__ import annotations

import math
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from jitad.lowering.jit.cpu import target
from jitad.lowering.math import libmvec, own

from jitad import jit

needs_them = pytest.mark.skipif(not libmvec.masks_tails(target().features), reason="this machine has no AVX-512")


@jit
def tanh(x):
    return np.tanh(x)


@jit
def exp(x):
    return np.exp(x)


@jit
def sin(x):
    return np.sin(x)


@jit
def cos(x):
    return np.cos(x)


def sum_by_loop(x, y):
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i]) * y[i]
    return total


def sum_of_array(x, y):
    return np.sum(np.exp(x) * y)


def nearest(points, centres):
    total = 0.0
    for i in range(len(points)):
        best = np.float32(1e30)
        for c in range(len(centres)):
            d = points[i] - centres[c]
            if d * d < best:
                best = d * d
        total += float(best)
    return total


@needs_them
@pytest.mark.parametrize("f, exact, dtype", [
    (tanh, np.tanh, np.float64), (tanh, np.tanh, np.float32), (exp, np.exp, np.float32),
    (sin, np.sin, np.float32), (cos, np.cos, np.float32)])
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
    """Results that are subnormal, infinite or 0, at both ends."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 88.73, 89, 1e38, -87, -88, -100, -103.9, -104, -1e38],
                 np.float32)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(exp(x), np.exp(x.astype(np.float64)).astype(np.float32))


@needs_them
@pytest.mark.parametrize("f, exact", [(sin, np.sin), (cos, np.cos)])
def test_sine_and_cosine_where_their_argument_matters(f, exact):
    """Near multiples of π/2, where arguments cancel, and at all exponents; never above 1."""
    multiples = (np.arange(1, 41722) * (np.pi / 2)).astype(np.float32)
    beside = (multiples.view(np.int32)[:, None] + np.arange(-3, 4, dtype=np.int32)).ravel().view(np.float32)
    everywhere = np.arange(0, 0x7F800000, 32749, dtype=np.uint32).view(np.float32)
    for x in (beside, everywhere, np.concatenate([-beside[::5], -everywhere])):
        got, want = f(x), exact(x.astype(np.longdouble))
        assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))) < 2.5
        assert np.max(np.abs(got)) <= 1


@needs_them
def test_special_values_of_sine_and_cosine():
    """Each alone in its vector and all in one: numbers beside one that is too large also take the slow path."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 65536, -65540, 3e38, -1e-30, 1.0], np.float32)
    with np.errstate(invalid="ignore"):
        for f, exact in ((sin, np.sin(x)), (cos, np.cos(x))):
            alone = np.concatenate([f(np.array([v] + 15 * [0.5], np.float32))[:1] for v in x])
            for y in (f(np.resize(x, 16))[:len(x)], alone):
                np.testing.assert_allclose(y, exact, rtol=3e-7)
                np.testing.assert_array_equal(np.signbit(y)[~np.isnan(x)], np.signbit(exact)[~np.isnan(x)])
                np.testing.assert_array_equal(y[:2], exact[:2])


@pytest.fixture
def narrow(monkeypatch):
    """As on a processor with vectors of at most 256 bits."""
    monkeypatch.setattr(libmvec, "_LEVELS", [level for level in libmvec._LEVELS if level[2] <= 256])
    libmvec.variants.cache_clear()
    yield
    libmvec.variants.cache_clear()


@needs_them
@pytest.mark.parametrize("name, dtype", [(name, np.float32) for name in ("tanh", "exp", "sin", "cos")]
                         + [("tanh", np.float64)])
def test_narrow_vectors(narrow, name, dtype):
    exact = getattr(np, name)
    f = jit(lambda x: exact(x))
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e9, 2, 1], dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for x in (np.linspace(-30, 30, 3001, dtype=dtype), special):
            want = exact(x.astype(np.longdouble)).astype(np.float64)
            np.testing.assert_allclose(f(x), want.astype(dtype), rtol=3 * np.finfo(dtype).eps)
    lanes = 32 // np.dtype(dtype).itemsize
    assert f"jitad.vector.{name}{'f' if dtype == np.float32 else ''}.{lanes}" in f.inspect("llvm")


@needs_them
def test_they_are_inlined():
    """There are no calls of them, and no code for the functions themselves."""
    exp(np.ones(40, np.float32))
    assert "jitad.vector.expf.16" in exp.inspect("llvm") and "jitad.vector" not in exp.inspect("asm")
    calls = re.findall(r"call\w*\s+(\S+)", exp.inspect("asm"))
    assert not any("exp" in c for c in calls if c != "python.exp")        # the entry may call the function itself


@needs_them
def test_gradient_of_a_chain_of_them():
    """Value and gradient share one loop; includes numbers far from zero."""
    x = np.random.default_rng(1).normal(size=1003).astype(np.float32) * np.where(np.arange(1003) % 97, 1, 70000)
    x = x.astype(np.float32)

    def chain(x):
        return np.sum(np.exp(np.sin(x)) + np.tanh(np.cos(x)))

    s, c = np.sin(x.astype(float)), np.cos(x.astype(float))
    np.testing.assert_allclose(jit(chain, grad=True).grad(x), np.exp(s) * c - s / np.cosh(c) ** 2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", own.FUNCTIONS)
def test_text(function):
    lanes = [bits // own.FUNCTIONS[function].bits for bits in own.FEATURES.values()]
    text = own.definitions([own.name(function, n) for n in lanes])
    llvm.parse_assembly(text).verify()
    assert text.count("define") == len(lanes) and not own.definitions(["expf"])


@needs_them
@pytest.mark.parametrize("program", [sum_by_loop, sum_of_array])
def test_loops_over_vector_functions_have_the_widest_vectors(program, monkeypatch):
    """Of ``x86-64-v4`` LLVM assumes that 256 bits are faster, as it does of Intel's processors."""
    monkeypatch.setenv("JITAD_CPU", "x86-64-v4")
    f = jit(program, fastmath=True)
    x = np.linspace(-1.0, 1.0, 103)
    np.testing.assert_allclose(f(x, x), np.sum(np.exp(x) * x), rtol=1e-13)
    assert "_ZGVeN8v_exp" in f.inspect("asm", x, x)


@needs_them
def test_vectors_that_are_written_out_are_not_split(monkeypatch):
    monkeypatch.setenv("JITAD_CPU", "x86-64-v4")
    f = jit(nearest)
    points, centres = np.linspace(-1.0, 1.0, 50, dtype=np.float32), np.linspace(0.0, 1.0, 7, dtype=np.float32)
    assert f(points, centres) == nearest(points, centres)
    assert re.search(r"vmulps.*zmm", f.inspect("asm", points, centres))


SPECIAL = (0.0, -0.0, 1.0, 2.0, -1.0, -2.0, math.inf, -math.inf, math.nan, 5e-324, 1e-310, 1e300, 0.5, 3.0, -3.0, 2.5,
           -2.5)


def power(x, y):
    return x ** y


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_do_not_go_to_the_library(dtype):
    """Every power of every special value, with the sign of zeros, and logarithms in vectors of all lengths."""
    special, rtol = np.array(SPECIAL).astype(dtype), 1e-13 if dtype is np.float64 else 1e-5
    x, y = (a.ravel().copy() for a in np.meshgrid(special, special))
    got, want = jit(power)(x, y), x ** y
    np.testing.assert_allclose(got, want, rtol=rtol)
    assert np.array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])
    for log, numpys in ((jit(lambda x: np.log(x)), np.log), (jit(lambda x: np.log2(x)), np.log2),
                        (jit(lambda x: np.log10(x)), np.log10)):
        for n in range(1, len(special)):
            np.testing.assert_allclose(log(special[:n]), numpys(special[:n]), rtol=rtol)
