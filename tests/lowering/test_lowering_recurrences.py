"""Chains of float ops from iteration to iteration: what fast math and contraction must leave as it is."""

from __future__ import annotations

import itertools
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from jitad.lowering.math import selection
from jitad.lowering.planning.recurrences import products_beside, recurrences

from jitad import grad, jit
from jitad.ir.dominance import dominators
from jitad.ir.text.parser import parse_module
from jitad.passes.analysis.loops import loop_forest

TEXT = """
func @f(%x: f64[?], %n: i64, %a: f64, %b: f64) -> (f64, f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %none = const 0.0 : f64
  jump ^loop(%zero, %none, %none)

^loop(%i: i64, %y: f64, %sum: f64):
  %xi = get %x, %i : f64
  %ax = mul %a, %xi : f64
  %by = mul %b, %y : f64
  %new = add %ax, %by : f64
  %square = mul %new, %new : f64
  %total = add %sum, %square : f64
  %next = add %i, %one : i64
  %more = lt %next, %n : bool
  branch %more, ^loop(%next, %new, %total), ^exit

^exit:
  return %new, %total
}
"""


def test_what_the_next_iteration_waits_for() -> None:
    func = parse_module(TEXT).functions["f"]
    assert dominators(func)
    chains = recurrences(loop_forest(func))
    assert {op.result.hint for op in chains} == {"by", "new"}, "the sum is a reduction, its square is on no cycle"
    assert {op.result.hint for op in products_beside(chains)} == {"ax"}


SERIES = """
func @f(%q: f64, %n: i64) -> (f64, f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %none = const 0.0 : f64
  %unit = const 1.0 : f64
  jump ^loop(%zero, %unit, %none, %unit)

^loop(%i: i64, %term: f64, %sum: f64, %other: f64):
  %k = cast {dtype = f64} %i : f64
  %r = div %q, %k : f64
  %following = mul %term, %r : f64
  %total = add %sum, %following : f64
  %product = mul %other, %r : f64
  %next = add %i, %one : i64
  %more = lt %next, %n : bool
  branch %more, ^loop(%next, %following, %total, %product), ^exit

^exit:
  return %total, %product
}
"""


def test_a_product_that_the_loop_reads_is_no_reduction() -> None:
    """Reassociated, each term of a series would wait for a division."""
    func = parse_module(SERIES).functions["f"]
    assert dominators(func)
    assert {op.result.hint for op in recurrences(loop_forest(func))} == {"following"}


def bessel(x):
    q = -0.25 * x * x
    term = total = 1.0
    k = 1
    while abs(term) > 1e-14 * abs(total) and k < 60:
        term *= q / (k * k)
        total += term
        k += 1
    return total


def test_the_term_of_a_series_waits_for_no_division() -> None:
    f = jit(bessel, fastmath=True)
    quotient = re.search(r"(%\S+) = fdiv (?:\w+ )*double (\S+),", f.inspect("llvm", 2.0).split("phi double", 1)[1])
    assert quotient is not None
    assert re.search(rf"fmul (?:\w+ )*double .*{re.escape(quotient[1])}\b", f.inspect("llvm", 2.0))
    assert np.isclose(f(2.0), bessel(2.0), rtol=1e-13)


def smooth(x, a):
    y = total = 0.0
    for v in x:
        y = a * v + (1.0 - a) * y
        total += y * y
    return total


def test_fast_math_on_a_chain() -> None:
    x = np.linspace(0.0, 1.0, 50)
    f = jit(smooth, fastmath=True, grad="x")
    lines = re.findall(r"= (f(?:add|mul|sub)) ([a-z ]*)double", f.inspect("llvm", x, 0.3))
    assert {"reassoc nsz arcp contract afn", "nsz contract afn"} <= {flags.strip() for _, flags in lines}
    assert np.isclose(f(x, 0.3), smooth(x, 0.3), rtol=1e-13)
    step = 1e-6
    for i in (0, 20, 49):
        other = x.copy()
        other[i] += step
        assert np.isclose(f.grad(x, 0.3)[i], (smooth(other, 0.3) - smooth(x, 0.3)) / step, rtol=1e-4)


QUOTIENTS = """
func @f(%n: i64, %rate: f64, %x: f64) -> (f64, f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  jump ^loop(%zero, %rate, %x)

^loop(%i: i64, %discount: f64, %y: f64):
  %less = div %discount, %rate : f64
  %q = div %x, %y : f64
  %z = add %q, %y : f64
  %next = add %i, %one : i64
  %more = lt %next, %n : bool
  branch %more, ^loop(%next, %less, %z), ^exit

^exit:
  return %less, %z
}
"""


def test_divisions_by_what_does_not_wait() -> None:
    """By a divisor that is not carried LLVM may multiply by the reciprocal; by the carried one it may not."""
    func = parse_module(QUOTIENTS).functions["f"]
    assert dominators(func)
    assert {op.result.hint for op in recurrences(loop_forest(func))} == {"q", "z"}


def discounted(coupon, rate, years):
    value, discount = 0.0, 1.0
    for t in range(years):
        discount /= 1.0 + rate
        value += coupon * discount * (t + 1.0)
    return value


def test_a_chain_of_divisions_by_one_number_is_of_products() -> None:
    f = jit(discounted, fastmath=True)
    loop = f.inspect("asm", 5.0, 0.03, 30).split(".p2align\t6")[-1]
    assert "div" not in loop.split("\n\tj")[0]
    assert np.isclose(f(5.0, 0.03, 30), discounted(5.0, 0.03, 30), rtol=1e-13)


def interval(table, x, tolerance):
    """A search in a table, and bisection of ``x * x``: each iteration replaces one of two carried values."""
    lo, hi = 0, len(table) - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if table[middle] <= x:
            lo = middle
        else:
            hi = middle
    low, high = table[lo], table[hi]
    while high - low > tolerance:
        between = 0.5 * (low + high)
        if between * between > x * x:
            high = between
        else:
            low = between
    return low


def test_one_of_two_carried_values_is_selected() -> None:
    """Of integers by selections that stay such, of floats by a comparison for each."""
    f, table = jit(interval), np.linspace(0.0, 10.0, 101) ** 1.5
    text = f.inspect("llvm", table, 7.0, 1e-9)
    assert abs(f(table, 7.0, 1e-9) - 7.0) < 1e-8
    marked = set(re.findall(r"select i1 (%\S+), i64 .*, !unpredictable", text))
    assert marked and all(len(re.findall(rf"select i1 {c}, i64", text)) == 2 for c in marked)
    conditions = re.findall(r"select i1 (%\S+), double", text)
    assert len(set(conditions)) == len(conditions) > 0, "a comparison is read by one selection"


def extremes(x, y, s, one):
    low = high = s
    for a, b in zip(x, y):
        low = np.minimum(np.minimum(a, low * one), b)
        high = np.maximum(a, np.maximum(b, high * one))
    return low, high


def test_extremes_of_a_chain_in_another_order() -> None:
    special = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 5e-324, -5e-324]
    f = jit(extremes)
    assert "fcmp one double" in f.inspect("llvm", np.zeros(5), np.zeros(5), 0.0, 1.0)
    for values in itertools.product(special, repeat=3):
        got = [_key(v) for v in f(*(np.full(5, v) for v in values[:2]), values[2], 1.0)]
        ordered = sorted((_key(v) for v in values), key=lambda k: k[1:])
        nan = next((k for k in ordered if k[0]), None)
        assert got == [nan or ordered[0], nan or ordered[-1]], values


def _key(v: float) -> tuple[bool, float, float]:
    """Tell floats apart as the minimum does: NaN first, and -0 is less than 0."""
    return (True, 0.0, 0.0) if np.isnan(v) else (False, float(v), float(np.copysign(1.0, v)))

def envelope(x, attack, release):
    level, total = 0.0, 0.0
    for i in range(len(x)):
        if abs(x[i]) > level:
            level = attack * level + (1.0 - attack) * abs(x[i])
        else:
            level = release * level + (1.0 - release) * abs(x[i])
        total += level
    return total


@pytest.mark.slow
@pytest.mark.skipif(not llvm.get_default_triple().startswith("x86_64"), reason="instructions of x86-64")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_selections_with_one_condition_in_a_recurrence_read_a_mask(dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of a branch has six."""
    args = (np.array([0.3, -0.5, 0.1, 0.0, -0.2, 0.9, -0.4], dtype), dtype(0.25), dtype(0.75))
    results = []
    for chosen in (False, True):
        monkeypatch.setattr(selection, "selects_by_mask", lambda e, chosen=chosen: chosen)
        gradient = jit(lambda *a: grad(envelope, (0, 1, 2))(*a))
        assert ("blendv" in gradient.inspect("llvm", *args)) is chosen
        results.append(gradient(*args))
    for plain, by_mask in zip(*results):
        assert np.all(np.isfinite(plain)) and np.any(plain)
        np.testing.assert_allclose(by_mask, plain, rtol=1e-6)


def alignment(a, b, insert, delete, replace):
    """No cotangent of a table is zero, so that the reverse sweep skips none."""
    above = insert * np.arange(len(b) + 1.0)
    for i in range(len(a)):
        row = np.zeros(len(b) + 1)
        row[0] = (i + 1) * delete
        for j in range(len(b)):
            best = above[j] if a[i] == b[j] else above[j] + replace
            if above[j + 1] + delete < best:
                best = above[j + 1] + delete
            if row[j] + insert < best:
                best = row[j] + insert
            row[j + 1] = best + 0.125 * row[j]
        above = row
    return above[-1]


@pytest.mark.slow
@pytest.mark.skipif(not llvm.get_default_triple().startswith("x86_64"), reason="instructions of x86-64")
def test_selections_by_what_is_loaded_in_a_recurrence_read_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative selects by what the forward sweep has chosen."""
    args = (np.array([1, 2, 3, 1, 2]), np.array([2, 1, 1, 3, 2, 3]), 0.9, 1.1, 1.4)
    gradients = []
    for chosen in (False, True):
        monkeypatch.setattr(selection, "selects_by_mask", lambda e, chosen=chosen: chosen)
        both = jit(alignment, grad=(2, 3, 4)).value_and_grad
        assert ("blendv" in both.inspect("llvm", *args)) is chosen
        value, slopes = both(*args)
        assert value == pytest.approx(alignment(*args), rel=1e-14)
        gradients.append(slopes)
    for k, (plain, by_mask) in enumerate(zip(*gradients)):
        up, down = ([x + h * (n == k + 2) for n, x in enumerate(args)] for h in (1e-6, -1e-6))
        assert plain == by_mask == pytest.approx((alignment(*up) - alignment(*down)) / 2e-6, abs=1e-7)
