"""Formulas under fast math: what cancels is not computed, and nothing else changes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, hvp, interpret, jit
from jitad.cps import to_cps
from jitad.ir.text import parse_module, print_module
from jitad.ir.verify import verify
from jitad.passes.algebra.chain_reassociation import chain_reassociation
from jitad.passes.cleanup.simplify import simplify


def price(S: Any, K: Any, T: Any, r: Any, v: Any) -> Any:
    w = v * math.sqrt(T)
    d1 = (math.log(S / K) + (r + 0.5 * v * v) * T) / w
    half = math.sqrt(0.5)
    return S * 0.5 * (1 + math.erf(d1 * half)) - K * math.exp(-r * T) * 0.5 * (1 + math.erf((d1 - w) * half))


def roots(x: Any, y: Any, z: Any) -> Any:
    """Powers of roots and of quotients of sums."""
    s, q = math.sqrt(x), (x + y) / (y * z)
    return s * s * s / x + q * q * y * z / (x + y) - math.sqrt(x * y) ** 3 / math.sqrt(y * x)


def exponentials(x: Any, y: Any, z: Any) -> Any:
    """Exponents that differ by constants, and by whole and other multiples of logarithms."""
    e = math.exp(x - y) * z
    return e * math.exp(y + 1.0) / math.exp(x) + math.exp(2.5 * math.log(x * z) - 2.5 * math.log(z)) / math.exp(
        -math.log(y)) + math.exp(0.5 * math.log(z) + y) * math.exp(0.5 * math.log(z) - y)


def differences(x: Any, y: Any, z: Any) -> Any:
    """Some terms of a sum cancel, others stay."""
    a, b = x * y + z, x * y - z
    return (a - b) * math.sin(a) + (a * a - b * b) / (x * z) + (a - x * y) ** 2 * math.cos(b)


def powers(x: Any, y: Any, z: Any) -> Any:
    return (x ** 3 / (x * x) + (x * y) ** -2.0 * y * y) * z ** 2.0 / z - (x + z) ** 2.0 / (x + z)


FORMULAS = {f.__name__: f for f in (roots, exponentials, differences, powers)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", FORMULAS.values(), ids=FORMULAS)
def test_values_and_derivatives(f: Callable[..., Any]) -> None:
    """As interpreted, as without fast math, and as differences say, to the second order."""
    def second(x: Any, y: Any, z: Any) -> Any:
        return hvp(f, (x, y, z), (0.3, -0.7, 1.1))

    at = [(0.7, 1.3, 0.4), (2.1, 0.6, 1.9)]
    for g in (f, grad(f, (0, 1, 2)), second):
        fast, plain = jit(g, fastmath=True, boundscheck=True), jit(g)
        for args in at:
            got = np.ravel(fast(*args))
            np.testing.assert_allclose(got, np.ravel(plain(*args)), rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(got, np.ravel(interpret(g, *args)), rtol=1e-12, atol=1e-13)
    check_grads(jit(f, fastmath=True), at[0], order=2)


def gammas(S: Any, K: Any, T: Any, r: Any, v: Any) -> Any:
    def total(S: Any) -> Any:
        value = 0.0
        for i in range(len(S)):
            value += price(S[i], K[i], T[i], r[i], v[i])
        return value
    return hvp(total, (S,), (np.ones_like(S),))


@pytest.mark.slow
def test_a_second_derivative_is_its_closed_form() -> None:
    """Of four functions and five quotients of Black and Scholes' gamma two and three are left, as on paper."""
    rng = np.random.default_rng(0)
    S, K, T, r, v = (rng.uniform(a, b, 37) for a, b in ((50, 150), (50, 150), (0.2, 2), (0.0, 0.1), (0.1, 0.5)))
    f, plain = jit(gammas, fastmath=True), jit(gammas)
    w = v * np.sqrt(T)
    d = (np.log(S / K) + (r + v * v / 2) * T) / w
    np.testing.assert_allclose(f(S, K, T, r, v), np.exp(-d * d / 2) / (S * w * math.sqrt(2 * math.pi)), rtol=1e-12)
    np.testing.assert_allclose(plain(S, K, T, r, v), f(S, K, T, r, v), rtol=1e-8)
    loops = f.inspect("optimized").split("^loop_bar")
    one = next(text for text in loops if " = log " in text)
    assert [one.count(f" = {op} ") for op in ("exp", "log", "erf", "div")] == [1, 1, 0, 3]
    assert plain.inspect("optimized").count(" = exp ") >= 3


def test_what_is_written_stably_stays() -> None:
    """A sum of several terms is not multiplied out, whatever is known of it."""
    def f(x: Any, y: Any) -> Any:
        d = x - y
        return (x * x - 2.0 * x * y + y * y) * 0.0 + d * d, (x - y) * (x + y)

    x, y = 1.0 + 1e-9, 1.0
    got = jit(f, fastmath=True)(x, y)
    np.testing.assert_allclose(got, ((x - y) ** 2, (x - y) * (x + y)), rtol=1e-6)


def test_differences_that_are_one_term_are_exact() -> None:
    """(a + b) - b loses what a has; a does not."""
    def f(x: Any, y: Any) -> Any:
        return (x + y) - y, (x * y + x * 3.0) / y - x * 3.0 / y

    assert jit(f, fastmath=True)(1.2345e-9, 7e8) == (1.2345e-9, 1.2345e-9)
    assert jit(f)(1.2345e-9, 7e8)[0] == 0.0


def test_single_precision_has_larger_rounding_errors() -> None:
    def f(x: Any, y: Any) -> Any:
        h = np.float32(math.sqrt(0.5))
        return (x * h) * (x * h) * y - x * x * y * np.float32(0.5)

    assert jit(f, fastmath=True)(np.float32(3.3), np.float32(1e6)) == 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("statement", [
    "a = math.exp(0.6 * math.log(a) - b) * b", "a = math.sqrt(a) * math.sqrt(a * b) / b",
    "a = math.exp(1e9 * math.log(a) - 1e9 * math.log(a)) * a", "a = a * 1e200 * (1e200 * b); a = a / 1e200 / 1e200"])
def test_long_chains(statement: str, tmp_path: Any) -> None:
    """No chain of functions, power or coefficient is followed without bound."""
    file = tmp_path / "chain.py"
    file.write_text("import math\n\ndef f(a, b):\n" + f"    {statement}\n" * 150 + "    return a\n")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    got, want = (jit(scope["f"], fastmath=fast)(0.9, 1.1) for fast in (True, False))
    assert got == pytest.approx(want, rel=1e-10) or not math.isfinite(want)


# --- what nothing is divided by -----------------------------------------------------------------------

def nothing_times_an_exponential(a: Any, x: Any, y: Any) -> Any:
    return a * math.exp(x) * math.exp(y) + math.exp(x + y)


def tiny_times_an_exponential(a: Any, x: Any, y: Any) -> Any:
    p = (1e-200 * math.exp(x)) * math.exp(y)
    return p + 1e200 * math.exp(x + y) + a


def bells(a: Any, x: Any, y: Any) -> Any:
    return a * math.exp(-x * x / 2) * math.exp(-y * y / 2) + math.exp(-(x * x + y * y) / 2)


def to_no_power(a: Any, x: Any, y: Any) -> Any:
    return x ** math.inf * 2.0 + math.atan2(y * 2.0, sys.float_info.max) + a


@pytest.mark.parametrize("fun", [nothing_times_an_exponential, tiny_times_an_exponential, bells, to_no_power])
def test_factors_that_are_nothing(fun: Any) -> None:
    want = fun(0.0, 0.3, 0.2)
    assert jit(fun, fastmath=True)(0.0, 0.3, 0.2) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("x", [np.float32(-45.0), -355.0])
def test_the_slope_of_a_saturated_logistic(x: Any) -> None:
    """The square below the line overflows before the slope is 0."""
    slope = jit(grad(lambda x: 1 / (1 + np.exp(-x))), fastmath=True)
    assert slope(x) == pytest.approx(math.exp(x), rel=1e-5)


STATE = """
func @f(%a: f64[?], %v: f64, %w: f64) -> (f64, f64) {
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.5
  %n = dim {axis = 0} %a
  jump ^head(%zero, %none, %none)
^head(%i: i64, %x: f64, %bar: f64):
  %more = lt %i, %n
  branch %more, ^body, ^done
^body:
  %p = get %a, %i
  %x1 = mul %x, %v
  %x2 = mul %x1, %w
  %x3 = add %x2, %p
  %bar1 = mul %bar, %v
  %bar2 = mul %bar1, %w
  %bar3 = add {acc = True} %bar2, %p
  %i1 = add %i, %one
  jump ^head(%i1, %x3, %bar3)
^done:
  return %x, %bar
}
"""


@pytest.mark.parametrize("floats, joined", [(False, 1), (True, 2)])
def test_cotangents_take_products_of_factors_that_do_not_change(floats: bool, joined: int) -> None:
    """Other products are taken so under ``fastmath`` alone, since the rounding is another."""
    module = parse_module(STATE)
    to_cps(module)
    simplify(module)
    before = print_module(module).count("mul %v, %w")
    chain_reassociation(module, floats)
    verify(module)
    assert (before, print_module(module).count("mul %v, %w")) == (0, joined)
