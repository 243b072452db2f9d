"""Checks that the compiler proves, and checks that must stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.cps import to_cps
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import ExcInfo, Function, Module, Value
from jitad.ir.text import parse_module
from jitad.ir.types import I64
from jitad.ir.verify import verify
from jitad.passes.cleanup.cse import cse
from jitad.passes.cleanup.dce import dce
from jitad.passes.cleanup.simplify import simplify
from jitad.passes.loops.check_elimination import check_elimination
from jitad.passes.loops.licm import licm
from jitad.passes.shapes.size_numbering import size_numbering
from tests.ir.irgen import VEC, outcome

# for it in range(trip): x[index], with the index wrapped and checked as the front end does
LOOP = """
exception 0 IndexError "index {{}} of {{}}"

func @f(%x: f64[?], %k: i64) -> (f64) {{
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %seven = const 7 : i64
  %none = const 0.0 : f64
  %n = dim {{axis = 0}} %x : i64
  {before}
  jump ^head(%zero, %none)
^head(%it: i64, %s: f64):
  %c = lt %it, %trip : bool
  branch %c, ^body, ^done
^body:
  {index}
  %negative = lt %i, %zero : bool
  %wrapped = add %i, %n : i64
  %at = select %negative, %wrapped, %i : i64
  %above = ge %at, %zero : bool
  %below = lt %at, %n : bool
  %inside = and %above, %below : bool
  check {{exc = 0}} %inside, %i, %n
  %v = get %x, %at : f64
  %s2 = add %s, %v : f64
  {stop}
^next:
  %it1 = add %it, %one : i64
  jump ^head(%it1, %s2)
^done:
  return %s
}}
"""
GO_ON = "jump ^next"
BREAK = """%limit = const 100.0 : f64
  %big = gt %s2, %limit : bool
  branch %big, ^done, ^next"""
INNER = "{0} = maximum {1}, %zero : i64"


def prepared(before: str, index: str, stop: str = GO_ON) -> Module:
    module = parse_module(LOOP.format(before=before, index=index, stop=stop))
    simplify(module)
    to_cps(module)
    size_numbering(module)
    cse(module)
    return module


def checks(module: Module) -> int:
    verify(module, linear=False)
    for _ in range(2):
        check_elimination(module)
        verify(module, linear=False)
        simplify(module)
        licm(module)
    dce(module)
    verify(module, linear=False)
    return sum(1 for op in module.functions["f"].all_ops() if op.name == "check")


PROVEN = {
    "range(n)": ("%trip = add %n, %zero : i64", "%i = add %it, %zero : i64"),
    "range(1, n)": ("%d = sub %n, %one : i64\n  %trip = maximum %d, %zero : i64", "%i = add %one, %it : i64"),
    "range(1, n - 1), x[i + 1]": ("%d = sub %n, %two : i64\n  %trip = maximum %d, %zero : i64",
                                  "%j = add %one, %it : i64\n  %i = add %j, %one : i64"),
    "range(1, n - 1), x[i - 1]": ("%d = sub %n, %two : i64\n  %trip = maximum %d, %zero : i64",
                                  "%j = add %one, %it : i64\n  %i = sub %j, %one : i64"),
    "range(n - 1, -1, -1)": ("%last = sub %n, %one : i64\n  %trip = add %n, %zero : i64", "%i = sub %last, %it : i64"),
    "range(0, n, 2)": ("%d = add %n, %one : i64\n  %q = floordiv %d, %two : i64\n  %trip = maximum %q, %zero : i64",
                       "%i = mul %it, %two : i64"),
    "range(min(n, 7))": ("%trip = minimum %n, %seven : i64", "%i = add %it, %zero : i64"),
    "range(n), x[n - 1 - i]": ("%trip = add %n, %zero : i64", "%l = sub %n, %one : i64\n  %i = sub %l, %it : i64"),
    "range(n // 2), x[2 * i + 1]": ("%q = floordiv %n, %two : i64\n  %trip = maximum %q, %zero : i64",
                                    "%d = mul %it, %two : i64\n  %i = add %d, %one : i64"),
    "range(n), x[k * i % n]": ("%trip = add %n, %zero : i64", "%d = mul %k, %it : i64\n  %i = mod %d, %n : i64"),
}
OPEN = {
    "range(n), x[i + 1]": ("%trip = add %n, %zero : i64", "%i = add %it, %one : i64"),
    "range(k)": ("%trip = maximum %k, %zero : i64", "%i = add %it, %zero : i64"),
    "range(n), x[i + k]": ("%trip = add %n, %zero : i64", "%i = add %it, %k : i64"),
    "range(n), x[k % n]": ("%trip = add %n, %one : i64", "%i = mod %k, %n : i64"),
    "range(n), x[2 * i]": ("%trip = add %n, %zero : i64", "%i = mul %it, %two : i64"),
}


@pytest.mark.parametrize("stop", [GO_ON, BREAK], ids=["whole", "break"])
@pytest.mark.parametrize("name", PROVEN)
def test_proven(name: str, stop: str) -> None:
    module = prepared(*PROVEN[name], stop)
    assert checks(module) == 0
    for n in (0, 1, 2, 3, 8):
        x = [float(2 * i) for i in range(n)]
        plain = parse_module(LOOP.format(before=PROVEN[name][0], index=PROVEN[name][1], stop=stop))
        assert Interpreter(module).run("f", [x, 3]) == Interpreter(plain).run("f", [x, 3])


@pytest.mark.parametrize("name", OPEN)
def test_open(name: str) -> None:
    module = prepared(*OPEN[name])
    assert checks(module) == 1


def test_a_check_is_not_made_twice() -> None:
    again = """%i0 = add %it, %k : i64
  %low = ge %i0, %zero : bool
  check {{exc = 0}} %low, %i0, %n
  %high = lt %i0, %n : bool
  check {{exc = 0}} %high, %i0, %n
  %i = add %i0, %zero : i64""".format()
    assert checks(prepared("%trip = add %n, %zero : i64", again)) == 2


def test_counting_down_from_a_number() -> None:
    """``k - 1`` may wrap, but not where the loop runs: no index is negative."""
    def f(x: Any, k: int) -> Any:
        total = 0.0
        for i in range(k - 1, 0, -1):
            total = x[i] - 0.5 * total * x[i - 1]
        return total
    x = np.arange(1.0, 6.0)
    compiled = jit(f)
    assert " select " not in compiled.inspect("adjoint", x, 3)
    for k in (-1, 0, 1, 2, 5):
        assert compiled(x, k) == f(x, k)
    with pytest.raises(IndexError, match="index 6 is out of bounds"):
        compiled(x, 7)


# --- random programs of integers ------------------------------------------------------------------

class _Integers:
    """Random functions of integers, in which every comparison shows in the result or in a check."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.module = Module()
        self.module.exception(ExcInfo("IndexError", "{0}"))
        self.func = self.module.add(Function("f", (I64, I64, VEC), (I64,), ("a", "b", "x")))
        self.b = Builder(self.func.entry)
        a, b, x = self.func.params
        n = self.b.dim(x, axis=0)
        self.values = [a, b, n, self.b.mod(a, 10), self.b.maximum(b, 0), self.b.minimum(n, 5)]
        self.count = self.b.const(0)
        self._suite(3, 7)
        self.b.ret([self.count])

    def _value(self) -> Value:
        return self.rng.choice(self.values[-8:] if self.rng.random() < 0.7 else self.values)

    def _expression(self) -> Value:
        b, rng, x, y = self.b, self.rng, self._value(), self._value()
        k = rng.choice([-2, -1, 1, 2, 3])
        return rng.choice([
            lambda: b.add(x, k), lambda: b.sub(x, y), lambda: b.add(x, y), lambda: b.mul(x, k), lambda: b.minimum(x, y),
            lambda: b.maximum(x, y), lambda: b.floordiv(x, abs(k)), lambda: b.mod(x, abs(k) + 1), lambda: b.mod(x, y),
            lambda: b.select(b.lt(x, 0), b.add(x, y), x), lambda: b.maximum(x, k), lambda: b.neg(x)])()

    def _condition(self) -> Value:
        name = self.rng.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        other: Value | int = self._value() if self.rng.random() < 0.7 else self.rng.randint(-1, 3)
        return self.b.emit(name, self._value(), other)

    def _suite(self, depth: int, length: int) -> None:
        for _ in range(self.rng.randint(1, length)):
            kind = self.rng.random()
            if kind < 0.4:
                self.values.append(self._expression())
            elif kind < 0.65:
                self.count = self.b.add(self.b.mul(self.count, 3), self.b.cast(self._condition(), dtype=I64))
            elif kind < 0.72:
                self.b.check(self.b.and_(self._condition(), self._condition()), 0, self._value())
            elif depth and kind < 0.86:
                self._if(depth)
            elif depth:
                self._loop(depth)

    def _if(self, depth: int) -> None:
        then, other, join = (self.func.new_block() for _ in range(3))
        self.b.branch(self._condition(), then, [], other, [])
        count, values = self.count, list(self.values)
        for side in (then, other):
            self.b.at(side)
            self.count, self.values = count, list(values)
            self._suite(depth - 1, 3)
            self.b.jump(join, [self.count, self._value()])
        self.count, value = join.add_param(I64), join.add_param(I64)
        self.values = [*values, value]
        self.b.at(join)

    def _loop(self, depth: int) -> None:
        """A counter that goes up or down to a bound, at most eight times, and another that moves as it likes."""
        b, rng = self.b, self.rng
        head, body, done = (self.func.new_block() for _ in range(3))
        step, down = rng.choice([1, 1, 1, 2]), rng.random() < 0.4
        start = b.const(0) if rng.random() < 0.5 else self._value()
        b.jump(head, [start, self._value(), self.count, b.const(0)])
        i, j, count, fuel = (head.add_param(I64) for _ in range(4))
        bound, compare = self._value(), rng.choice([("lt", "gt"), ("le", "ge"), ("ne", "ne")])
        values, self.count = list(self.values), count
        b.at(head)
        b.branch(b.and_(b.emit(compare[down], i, bound), b.lt(fuel, 8)), body, [], done, [])
        b.at(body)
        self.values = [*values, i, j, i, j]
        self._suite(depth - 1, 4)
        if rng.random() < 0.3:
            on = self.func.new_block()
            b.branch(self._condition(), done, [], on, [])
            b.at(on)
        b.jump(head, [b.sub(i, step) if down else b.add(i, step),
                      b.add(j, rng.choice([-1, 0, 1])) if rng.random() < 0.7 else self._value(),
                      self.count, b.add(fuel, 1)])
        b.at(done)
        self.values, self.count = [*values, i, j], count


EXTREMES = [(3, 2, 4), (0, 0, 0), (-5, 7, 3), (9, -1, 1), (2**63 - 1, -2**63, 2), (-2**63, 2**63 - 1, 5), (2**62, 4, 6)]


@pytest.mark.parametrize("seed", range(80))
def test_random_integers(seed: int) -> None:
    module, plain = _Integers(seed).module, _Integers(seed).module
    for run_pass in (simplify, to_cps, simplify, size_numbering, cse, check_elimination, simplify,
                     check_elimination, simplify, licm, dce):
        run_pass(module)
    verify(module, linear=False)
    for a, b, n in EXTREMES:
        args = [a, b, [0.0] * n]
        assert outcome(plain, args, "f") == outcome(module, args, "f")


def test_a_scan_that_goes_on_from_an_index_stays_above_its_start() -> None:
    """The index that an inner loop leaves behind, and the one from which it goes on, need no wrap-around."""
    def scanned(x: np.ndarray, at: np.ndarray) -> float:
        k, total = 0, 0.0
        for i in range(len(at)):
            while k < len(x) - 2 and x[k + 1] < at[i]:
                k += 1
            total += x[k] * at[i] + x[k + 1]
        return total

    x, at = np.linspace(0.0, 1.0, 9), np.array([0.05, 0.3, 0.31, 0.99])
    jitted = jit(scanned)
    assert jitted(x, at) == scanned(x, at)
    assert " = select " not in jitted.inspect("adjoint", x, at)


def test_what_a_while_loop_tests_first_holds_for_the_index_that_it_leaves_behind() -> None:
    """Insertion into a sorted list: ``p > 0 and …`` keeps ``p`` from becoming negative."""
    def inserted(scores: np.ndarray, width: int) -> np.ndarray:
        best = np.zeros(width)
        best[0] = 1.0
        for k in range(len(scores)):
            p = width - 1
            while p > 0 and best[p - 1] < scores[k]:
                best[p] = best[p - 1]
                p -= 1
            best[p] = scores[k]
        return best

    x = np.array([3.0, -1.0, 4.0, 1.5, 9.0, 2.6])
    jitted = jit(inserted)
    for width in (1, 2, 5):
        np.testing.assert_array_equal(jitted(x, width), inserted(x, width))
    assert " = select " not in jitted.inspect("adjoint", x, 2)


def test_a_test_that_another_edge_passes_by_proves_nothing() -> None:
    """``p > 0 or …``, and a step that is larger than what the test leaves."""
    def either(x: np.ndarray, p: int, n: int) -> float:
        while (p > 0 or x[0] < n) and n > 0:
            p -= 1
            n -= 1
        return x[p]

    def far(x: np.ndarray, p: int, n: int) -> float:
        while p > 0 and n > 0:
            p -= 2
            n -= 1
        return x[p]

    x = np.arange(1.0, 6.0)
    for f in (either, far):
        jitted = jit(f)
        for p in (0, 1, 2, 3, 4):
            for n in (0, 1, 2, 3, 5):
                assert jitted(x, p, n) == f(x, p, n)


def test_an_index_that_a_loop_has_chosen_is_in_bounds_behind_it() -> None:
    """Also where branches choose it, and where there was nothing to choose from."""
    def smallest_moved_ahead(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        for i in range(len(x)):
            best, least = i, x[i]
            for j in range(i + 1, len(x)):
                if x[j] < least:
                    best, least = j, x[j]
            x[best] = x[i]
            x[i] = least
        return x

    x = np.array([3.0, -1.0, 4.0, 1.5, 9.0, 2.6])
    jitted = jit(smallest_moved_ahead)
    for n in (0, 1, 2, 6):
        np.testing.assert_array_equal(jitted(x[:n]), np.sort(x[:n]))
    assert "check " not in jitted.inspect("optimized", x)


def test_an_index_that_only_some_paths_bound_is_tested_behind_the_join() -> None:
    def chosen(x: np.ndarray, at: int, n: int) -> float:
        best = at
        for j in range(n):
            if x[j] < x[0]:
                best = j
        return x[best]

    x = np.array([3.0, -1.0, 4.0])
    jitted = jit(chosen)
    for at in (-3, -1, 0, 2):
        for n in (0, 1, 3):
            assert jitted(x, at, n) == chosen(x, at, n)
    for at in (-4, 3):
        assert jitted(x, at, 3) == -1.0
        for n in (0, 1):
            with pytest.raises(IndexError):
                jitted(x, at, n)
