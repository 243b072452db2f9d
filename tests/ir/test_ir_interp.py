"""The reference interpreter: every op against NumPy, control flow, exceptions, counters, and work in place."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy import special

from jitad.errors import CompileError
from jitad.ir.evaluate.interp import BudgetExceeded, Interpreter
from jitad.ir.evaluate.meaning import MEANING, STATEFUL, OutOfRange, digamma
from jitad.ir.graph import Module, Op
from jitad.ir.ops import OPS
from jitad.ir.text import parse_module
from jitad.ir.types import Array
from jitad.ir.verify import VerifyError, verify
from tests.ir import irgen

A = np.arange(6.0).reshape(2, 3)
V = np.array([3.0, -1.0, 2.0])
I = np.array([2, 0, 2])


def run(body: str, params: str = "", *args: Any, results: str = "f64", **options: Any) -> Any:
    """The result of a function of one block; the result of its last op is ``%r``."""
    m = module(body, params, results)
    (value,) = Interpreter(m, **options).run("f", args)
    return value


def module(body: str, params: str = "", results: str = "f64") -> Module:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().split(";"))
    m = parse_module(f"func @f({params}) -> ({results}) {{\n^b0:\n{lines}\n  return %r\n}}")
    verify(m, linear=False)
    return m


def test_every_op_has_a_meaning() -> None:
    assert {*MEANING, *STATEFUL} == set(OPS)


@pytest.mark.parametrize("x", [0.3, -0.7, 2.5, 0.0, -0.0, math.inf, -math.inf, math.nan])
def test_unary_ops_are_numpys(x: float) -> None:
    for name, op in OPS.items():
        ufunc = getattr(np, op.doc.removeprefix("np.").removesuffix("(x)"), None)
        if not (op.doc.endswith("(x)") and ufunc):
            continue
        with np.errstate(all="ignore"):
            try:
                expected = ufunc(np.float64(x))
            except TypeError:                      # an op of integers
                continue
        t = "bool" if name.startswith("is") else "f64"
        got = run(f"%r = {name} %x : {t}", "%x: f64", x, results=t)
        assert np.array_equal(got, expected, equal_nan=True), name
        assert got.dtype == expected.dtype


@pytest.mark.parametrize("x", [0.1, 0.5, 1.0, 1.5, 2.0, 10.0, 123.4, 1e10, -0.5, -3.3, -40.25])
def test_special_functions(x: float) -> None:
    for name, reference in (("digamma", special.digamma), ("lgamma", special.gammaln), ("erf", special.erf),
                            ("erfc", special.erfc)):
        got = run(f"%r = {name} %x", "%x: f64", x)
        assert got == pytest.approx(reference(x), rel=1e-13, abs=1e-13), name
    assert run("%r = erf %x", "%x: f32", x, results="f32").dtype == np.float32


def test_special_functions_at_poles() -> None:
    assert run("%r = lgamma %x", "%x: f64", -2.0) == math.inf
    assert math.isnan(digamma(0.0)) and math.isnan(digamma(-3.0)) and digamma(math.inf) == math.inf
    assert run("%r = lgamma %x", "%x: f64", 1e306) == math.inf


@pytest.mark.parametrize("body, params, args, expected", [
    ("%r = add %x, %y : i64", "%x: i64, %y: i64", (2**63 - 1, 1), -2**63),
    ("%r = mul %x, %y : i32", "%x: i32, %y: i32", (2**30, 4), 0),
    ("%r = floordiv %x, %y : i64", "%x: i64, %y: i64", (-7, 2), -4),
    ("%r = mod %x, %y : i64", "%x: i64, %y: i64", (-7, 2), 1),
    ("%r = floordiv %x, %y : i64", "%x: i64, %y: i64", (7, 0), 0),
    ("%r = pow %x, %y : i64", "%x: i64, %y: i64", (3, 4), 81),
    ("%r = mod %x, %y", "%x: f64, %y: f64", (-7.5, 2.0), 0.5),
    ("%r = cast %x : i64", "%x: f64", (-2.7,), -2),
    ("%r = cast %x : bool", "%x: f64", (0.5,), True),
    ("%r = round %x", "%x: f64", (2.5,), 2.0),
    ("%r = not %x : bool", "%x: bool", (True,), False),
    ("%r = not %x : i64", "%x: i64", (5,), -6),
    ("%r = clz %x : i64", "%x: i64", (5,), 61),
    ("%r = clz %x : i64", "%x: i64", (0,), 64),
    ("%r = clz %x : i64", "%x: i64", (-1,), 0),
    ("%r = popcount %x : i64", "%x: i64", (-2,), 63),
    ("%r = shr %x, %y : i64", "%x: i64, %y: i64", (-8, 1), -4),
    ("%r = maximum %x, %y", "%x: f64, %y: f64", (math.nan, 1.0), math.nan),
    ("%r = select %c, %x, %y", "%c: bool, %x: f64, %y: f64", (False, 1.0, 2.0), 2.0),
    ("%r = stop %x", "%x: f64", (1.5,), 1.5),
    ("%r = add %x, %v : f64[?]", "%x: f64, %v: f64[?]", (1.0, V), V + 1),
    ("%r = mul %a, %v : f64[?, ?]", "%a: f64[?, 1], %v: f64[?]", (A[:, :1], V), A[:, :1] * V),
    ("%r = fill %x, %n, %n : f64[?, ?]", "%x: f64, %n: i64", (2.0, 2), np.full((2, 2), 2.0)),
    ("%r = iota %n : i64[?]", "%n: i64", (3,), np.arange(3)),
    ("%r = dim {axis = 1} %a : i64", "%a: f64[?, ?]", (A,), 3),
    ("%r = get %a, %i, %i", "%a: f64[?, ?], %i: i64", (A, 1), 4.0),
    ("%r = get %a, %i : f64[?]", "%a: f64[?, ?], %i: i64", (A, 1), A[1]),
    ("%r = set %v, %x, %i : f64[?]", "%v: f64[?], %x: f64, %i: i64", (V, 9.0, 1), [3, 9, 2]),
    ("%r = add_at %v, %x, %i : f64[?]", "%v: f64[?], %x: f64, %i: i64", (V, 9.0, 1), [3, 8, 2]),
    ("%r = set %a, %v, %i : f64[?, ?]", "%a: f64[?, ?], %v: f64[?], %i: i64", (A, V, 0), np.stack([V, A[1]])),
    ("%r = slice %v, %s, %l, %t : f64[?]", "%v: f64[?], %s: i64, %l: i64, %t: i64", (V, 2, 3, -1), V[::-1]),
    ("%r = slice %v, %s, %l, %t : f64[?]", "%v: f64[?], %s: i64, %l: i64, %t: i64", (V, 0, 2, 2), V[::2]),
    ("%r = slice %v, %s, %l, %t : f64[?]", "%v: f64[?], %s: i64, %l: i64, %t: i64", (V, 3, 0, 1), V[:0]),
    ("%r = set_slice %v, %w, %i, %j : f64[?]", "%v: f64[?], %w: f64[?], %i: i64, %j: i64", (V, V[:2], 2, -2),
     [-1, -1, 3]),
    ("%r = add_slice %v, %w, %i, %j : f64[?]", "%v: f64[?], %w: f64[?], %i: i64, %j: i64", (V, V[:2], 1, 1), [3, 2, 1]),
    ("%r = reshape %a, %n : f64[?]", "%a: f64[?, ?], %n: i64", (A, 6), A.ravel()),
    ("%r = broadcast_to %v, %n, %m : f64[?, ?]", "%v: f64[?], %n: i64, %m: i64", (V, 2, 3), np.stack([V, V])),
    ("%r = transpose {perm = (1, 0)} %a : f64[?, ?]", "%a: f64[?, ?]", (A,), A.T),
    ("%r = concat {axis = 1} %a, %a : f64[?, ?]", "%a: f64[?, ?]", (A,), np.concatenate([A, A], 1)),
    ("%r = take %v, %i : f64[?]", "%v: f64[?], %i: i64[?]", (V, I), V[I]),
    ("%r = put %v, %v, %i : f64[?]", "%v: f64[?], %i: i64[?]", (V, I), [-1, -1, 2]),
    ("%r = add_put %v, %v, %i : f64[?]", "%v: f64[?], %i: i64[?]", (V, I), [2, -1, 7]),
    ("%r = nonzero %b : i64[?]", "%b: bool[?]", ([True, False, True],), [0, 2]),
    ("%r = sum {axes = (0, 1)} %a", "%a: f64[?, ?]", (A,), 15.0),
    ("%r = sum {axes = ()} %a : f64[?, ?]", "%a: f64[?, ?]", (A,), A),
    ("%r = prod {axes = (1,)} %a : f64[?]", "%a: f64[?, ?]", (A,), A.prod(1)),
    ("%r = max {axes = (0,)} %a : f64[?]", "%a: f64[?, ?]", (A,), A.max(0)),
    ("%r = min {axes = (0, 1)} %a", "%a: f64[?, ?]", (A,), 0.0),
    ("%r = all {axes = (0,)} %b : bool", "%b: bool[?]", ([True, False],), False),
    ("%r = any {axes = (0,)} %b : bool", "%b: bool[?]", ([True, False],), True),
    ("%r = argmax {axis = 0} %v : i64", "%v: f64[?]", (V,), 0),
    ("%r = argmin {axis = 1} %a : i64[?]", "%a: f64[?, ?]", (A,), [0, 0]),
    ("%r = cumsum {axis = 0} %v : f64[?]", "%v: f64[?]", (V,), V.cumsum()),
    ("%r = cumprod {axis = 1} %a : f64[?, ?]", "%a: f64[?, ?]", (A,), A.cumprod(1)),
    ("%r = matmul %v, %v", "%v: f64[?]", (V,), V @ V),
    ("%r = matmul %a, %v : f64[?]", "%a: f64[?, ?], %v: f64[?]", (A, V), A @ V),
    ("%r = matmul {ta = True} %a, %a : f64[?, ?]", "%a: f64[?, ?]", (A,), A.T @ A),
    ("%r = matmul {tb = True} %a, %a : f64[?, ?, ?]", "%a: f64[?, ?, ?]", (np.ones((2, 3, 4)),),
     np.full((2, 3, 3), 4.0)),
    ("%r = copy %v : f64[?]", "%v: f64[?]", (V,), V),
    ("%r = as_type %v : f64[3]", "%v: f64[?]", (V,), V),
])
def test_ops(body: str, params: str, args: tuple[Any, ...], expected: Any) -> None:
    """Checks values, and that no argument is changed."""
    args = tuple(np.array(a) if isinstance(a, list) else a for a in args)
    before = [np.copy(a) for a in args]
    t = body.rpartition(" : ")[2] if " : " in body else "f64"
    got = run(body, params, *args, results=t)
    assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f")
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(args, before))


@pytest.mark.parametrize("body", [
    "%r = get %v, %i", "%w = set %v, %x, %i; %r = get %w, %j", "%w = slice %v, %i, %j, %j; %r = get %w, %j",
    "%w = fill %x, %m; %r = get %w, %j", "%k = iota %n; %w = take %v, %k; %r = get %w, %j"])
def test_what_no_check_kept_in_range_is_a_bug(body: str) -> None:
    with pytest.raises(CompileError):
        run(body, "%v: f64[?], %x: f64, %i: i64, %j: i64, %m: i64, %n: i64", V, 1.0, 3, 1, -1, 9)
    assert issubclass(OutOfRange, CompileError)


def test_an_argument_must_be_of_its_type() -> None:
    for args in [(V[:2],), (A,), ("x",)]:
        with pytest.raises((CompileError, ValueError)):
            run("%r = sum {axes = (0,)} %v", "%v: f64[3]", *args)


def test_undefined_values() -> None:
    """They may be passed on and computed with, but not branched on."""
    assert run("%u = undef : f64; %v = sin %u; %c = const True; %r = select %c, %x, %v", "%x: f64", 2.0) == 2.0
    body = "%u = undef : f64; %v = copy %a : f64[?]; %w = set %v, %u, %i : f64[?]; %r = sum {axes = (0,)} %w"
    assert run(body, "%a: f64[?], %i: i64", V, 0) == V.sum()
    assert run("%u = undef : f64[?]; %r = dim {axis = 0} %u", results="i64") == 0
    with pytest.raises(CompileError, match="undefined"):
        m = parse_module('exception 0 ValueError\nfunc @f() -> () {\n^b0:\n  %u = undef : bool\n  check {exc = 0} %u\n'
                         '  return\n}')
        Interpreter(m).run("f", [])
    assert math.isnan(run("%w = empty %i : f64[?]; %r = get %w, %j", "%i: i64, %j: i64", 2, 1))


# --- control ------------------------------------------------------------------------------------------

SUM_DOWN = """
exception 0 ValueError "negative: {0}, {1}"
exception 1 class "m:Odd" args (3, "x")
exception 2 StopIteration
func @sum_down(%n: i64) -> (i64) {
^b0:
  %zero = const 0
  %one = const 1
  %c = gt %n, %zero
  branch %c, ^more, ^done
^more:
  %m = sub %n, %one
  call @sum_down(%m) -> ^back(%n)
^back(%s: i64, %k: i64):
  %t = add %s, %k
  return %t
^done:
  return %zero
}
func @swap(%n: i64, %x: f64, %y: f64) -> (f64, f64) {
^b0:
  %zero = const 0
  jump ^head(%zero, %x, %y)
^head(%i: i64, %a: f64, %b: f64):
  %c = lt %i, %n
  branch %c, ^body, ^done
^body:
  %one = const 1
  %j = add %i, %one
  jump ^head(%j, %b, %a)
^done:
  return %a, %b
}
func @choose(%i: i64, %x: f64) -> (f64) {
^b0:
  %zero = const 0
  %c = ge %i, %zero
  check {exc = 0} %c, %i, %x
  switch %i, ^a, ^b, ^rest
^a:
  return %x
^b:
  raise {exc = 1}
^rest:
  raise {exc = 2}
}
func @forever() -> () {
^b0:
  call @forever() -> ^b1
^b1:
  return
}
func @spin() -> () {
^b0:
  jump ^b1
^b1:
  jump ^b1
}
"""


@pytest.mark.slow
def test_calls_loops_and_switches() -> None:
    interp = Interpreter(parse_module(SUM_DOWN))
    assert interp.run("sum_down", [20_000]) == [20_000 * 20_001 // 2]
    assert interp.run("swap", [3, 1.0, 2.0]) == [2.0, 1.0]
    assert interp.run("choose", [0, 4.0]) == [4.0]


@pytest.mark.slow
def test_exceptions() -> None:
    interp = Interpreter(parse_module(SUM_DOWN))
    with pytest.raises(ValueError, match=r"negative: -2, 0\.5"):
        interp.run("choose", [-2, 0.5])
    with pytest.raises(Exception) as e:
        interp.run("choose", [1, 0.5])
    assert type(e.value).__name__ == "Odd" and e.value.args == (3, "x")
    for selector in (2, 99):
        with pytest.raises(StopIteration):
            interp.run("choose", [selector, 0.5])
    with pytest.raises(RecursionError):
        interp.run("forever", [])
    with pytest.raises(BudgetExceeded):
        interp.run("spin", [], budget=1000)
    with pytest.raises(CompileError, match="no function"):
        interp.run("nothing", [])
    with pytest.raises(CompileError, match="takes 1 arguments"):
        interp.run("sum_down", [])


def test_counters() -> None:
    m = parse_module("""
func @f(%x: f64, %v: f64[?], %a: f64[?, ?]) -> (f64, f64) {
^b0:
  %s0 = stack_empty
  %s1 = push %s0, %x, %v
  %s2 = push %s1, %a
  %t1, %b = pop %s2 : stack, f64[?, ?]
  %t0, %y, %w = pop %t1 : stack, f64, f64[?]
  %t2, %y2, %w2 = pop %s1 : stack, f64, f64[?]
  %p = matmul %b, %w
  %q = sum {axes = (0,)} %p
  %c = copy %v
  %i = const 0
  %d = add_at %c, %y, %i
  %e = get %d, %i
  return %q, %e
}""")
    verify(m)
    interp = Interpreter(m)
    assert interp.run("f", [1.0, V, A]) == [float((A @ V).sum()), 4.0]
    assert interp.counts["push"] == 2 and interp.counts["pop"] == 3 and interp.steps == 13
    assert interp.kept == 1 + 3 + 6 and interp.kept_frames == 2
    assert interp.elements["matmul"] == 6 and interp.elements["add_at"] == 1 and interp.elements["copy"] == 3
    interp.reset()
    assert not interp.counts and interp.kept == 0


# --- in place -----------------------------------------------------------------------------------------

def _with_copies(rng: random.Random, m: Module, chance: float) -> None:
    """Copies some of the arrays that are about to be updated."""
    for func in m.functions.values():
        for block in func.blocks:
            for i in reversed(range(len(block.ops))):
                op = block.ops[i]
                for k in OPS[op.name].consumes:
                    if rng.random() < chance:
                        copy = Op("copy", [op.operands[k]], [op.operands[k].type])
                        copy.block = block
                        op.operands[k] = copy.result
                        block.ops.insert(i, copy)


def _memory_is_linear(m: Module) -> bool:
    try:
        verify(m)
    except VerifyError:
        return False
    return True


@pytest.mark.slow
def test_what_the_verifier_passes_can_be_done_in_place() -> None:
    """With enough copies, arrays as values and arrays in place give the same result; a difference is reported."""
    rng = random.Random(1)
    passed = refused = 0
    for seed in range(300):
        m, args = irgen.generate(seed), irgen.arguments(seed)
        _with_copies(rng, m, rng.choice([0.6, 0.9, 1.0]))
        if _memory_is_linear(m):
            passed += 1
            assert irgen.same(irgen.outcome(m, args), irgen.outcome(m, args, in_place=True)), seed
        else:
            refused += 1
    assert passed > 100 and refused > 30


def test_arrays_are_values() -> None:
    """Without ``in_place`` an update leaves the old array; with it, it is gone."""
    m = parse_module("""
func @f(%v: own f64[?], %x: f64, %i: i64) -> (f64, f64) {
^b0:
  %w = set %v, %x, %i
  %a = get %v, %i
  %b = get %w, %i
  return %a, %b
}""")
    assert Interpreter(m).run("f", [V, 9.0, 0]) == [3.0, 9.0]
    assert Interpreter(m, in_place=True).run("f", [V, 9.0, 0]) == [9.0, 9.0]
    assert isinstance(m.functions["f"].params[0].type, Array) and V[0] == 3.0
