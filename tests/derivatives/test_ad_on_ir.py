"""Derivatives of functions written as IR text: reverse, forward and reverse over reverse against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from jitad.ad import differentiate
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function
from jitad.ir.text import parse_module
from jitad.ir.types import is_float
from jitad.ir.verify import verify
from jitad.passes.analysis.loops import LoopForest

PROGRAMS: dict[str, tuple[str, list]] = {}


def program(name: str, *args):
    def note(text: str) -> None:
        PROGRAMS[name] = (text, list(args))
    return note


program("branch", 0.7, 1.3)("""
func @f(%x: f64, %y: f64) -> (f64) {
^entry:
  %c = lt %x, %y : bool
  branch %c, ^a, ^b
^a:
  %u = mul %x, %y : f64
  jump ^join(%u)
^b:
  %v = sin %x : f64
  jump ^join(%v)
^join(%r: f64):
  %s = mul %r, %x : f64
  %t = exp %s : f64
  return %t
}
""")

program("two_returns", 2.0, 1.3)("""
func @f(%x: f64, %y: f64) -> (f64) {
^entry:
  %c = lt %x, %y : bool
  branch %c, ^a, ^b
^a:
  %u = mul %x, %y : f64
  return %u
^b:
  %v = div %x, %y : f64
  return %v
}
""")

program("while", 10.0)("""
func @f(%x: f64) -> (f64) {
^entry:
  %one = const 1.0 : f64
  %two = const 2.0 : f64
  %c = gt %x, %one : bool
  branch %c, ^pre, ^skip
^skip:
  jump ^out(%x)
^pre:
  jump ^head(%x)
^head(%t: f64):
  %h = div %t, %two : f64
  %h2 = mul %h, %t : f64
  %h3 = sqrt %h2 : f64
  %c2 = gt %h3, %one : bool
  branch %c2, ^head(%h3), ^exit(%h3)
^exit(%e: f64):
  jump ^out(%e)
^out(%r: f64):
  %s = mul %r, %x : f64
  return %s
}
""")

program("array_loop", np.array([0.3, 0.8, -0.4]), 1.1)("""
func @f(%a: f64[?], %w: f64) -> (f64) {
^entry:
  %z = const 0 : i64
  %one = const 1 : i64
  %n = dim {axis = 0} %a : i64
  %f0 = const 0.0 : f64
  %y0 = fill %f0, %n : f64[?]
  %c = lt %z, %n : bool
  branch %c, ^pre, ^skip
^skip:
  jump ^out(%y0)
^pre:
  jump ^head(%z, %w, %y0)
^head(%i: i64, %s: f64, %y: f64[?]):
  %x = get %a, %i : f64
  %p = mul %x, %s : f64
  %q = sin %p : f64
  %y2 = set %y, %q, %i : f64[?]
  %pos = gt %q, %f0 : bool
  branch %pos, ^plus, ^minus
^plus:
  %s1 = mul %q, %s : f64
  jump ^latch(%s1)
^minus:
  %s2 = sub %s, %q : f64
  jump ^latch(%s2)
^latch(%s3: f64):
  %i2 = add %i, %one : i64
  %c2 = lt %i2, %n : bool
  branch %c2, ^head(%i2, %s3, %y2), ^exit(%y2)
^exit(%e: f64[?]):
  jump ^out(%e)
^out(%r: f64[?]):
  %sq = mul %r, %r : f64[?]
  %t = sum {axes = (0,)} %sq : f64
  return %t
}
""")

program("in_place", np.array([1.5, 0.8, 2.0]))("""
func @f(%a: f64[?]) -> (f64) {
^entry:
  %z = const 0 : i64
  %one = const 1 : i64
  %n = dim {axis = 0} %a : i64
  %y0 = copy %a : f64[?]
  %m = sub %n, %one : i64
  jump ^pre
^pre:
  jump ^head(%z, %y0)
^head(%i: i64, %y: f64[?]):
  %i2 = add %i, %one : i64
  %x = get %y, %i : f64
  %x2 = get %y, %i2 : f64
  %p = mul %x, %x2 : f64
  %y2 = set %y, %p, %i2 : f64[?]
  %x3 = get %y2, %i2 : f64
  %q = sin %x3 : f64
  %y3 = set %y2, %q, %i : f64[?]
  %c2 = lt %i2, %m : bool
  branch %c2, ^head(%i2, %y3), ^exit(%y3)
^exit(%e: f64[?]):
  %sq = mul %e, %e : f64[?]
  %t = sum {axes = (0,)} %sq : f64
  return %t
}
""")

program("nested", 0.4, np.array([0.3, 0.8, -0.4]), 3)("""
func @f(%w: f64, %a: f64[?], %m: i64) -> (f64) {
^entry:
  %z = const 0 : i64
  %one = const 1 : i64
  %f0 = const 0.0 : f64
  %n = dim {axis = 0} %a : i64
  jump ^pre
^pre:
  jump ^head(%z, %f0)
^head(%i: i64, %acc: f64):
  %x = get %a, %i : f64
  jump ^pre2
^pre2:
  jump ^inner(%z, %x)
^inner(%j: i64, %s: f64):
  %p = mul %s, %w : f64
  %q = sin %p : f64
  %s2 = add %q, %x : f64
  %j2 = add %j, %one : i64
  %c2 = lt %j2, %m : bool
  branch %c2, ^inner(%j2, %s2), ^exit2(%s2)
^exit2(%s3: f64):
  %e = exp %s3 : f64
  %acc2 = add %acc, %e : f64
  %i2 = add %i, %one : i64
  %c = lt %i2, %n : bool
  branch %c, ^head(%i2, %acc2), ^exit(%acc2)
^exit(%r: f64):
  return %r
}
""")

program("recursion", 1.2, np.array([0.3, 0.8, -0.4]), 3)("""
func @f(%w: f64, %a: f64[?], %m: i64) -> (f64) {
^entry:
  %z = const 0 : i64
  %c = le %m, %z : bool
  branch %c, ^base, ^more
^base:
  return %w
^more:
  %one = const 1 : i64
  %m1 = sub %m, %one : i64
  %x = get %a, %m1 : f64
  %wx = mul %w, %x : f64
  %v = cos %wx : f64
  call @f(%v, %a, %m1) -> ^k
^k(%l: f64):
  call @f(%wx, %a, %m1) -> ^k2
^k2(%r: f64):
  %p = mul %l, %r : f64
  %q = mul %p, %x : f64
  return %q
}
""")

program("linear_algebra", np.array([[0.3, 0.8], [-0.4, 0.2], [1.0, 0.5]]), np.array([0.5, -0.7]))("""
func @f(%a: f64[?, ?], %v: f64[?]) -> (f64) {
^entry:
  %u = matmul %a, %v : f64[?]
  %w = matmul {ta = True} %a, %u : f64[?]
  %g = matmul {tb = True} %a, %a : f64[?, ?]
  %h = matmul %g, %a : f64[?, ?]
  %t = tanh %h : f64[?, ?]
  %m = max {axes = (0,)} %t : f64[?]
  %d = mul %m, %w : f64[?]
  %s = sum {axes = (0,)} %d : f64
  %k = matmul %u, %g : f64[?]
  %k2 = matmul %k, %u : f64
  %r = add %s, %k2 : f64
  return %r
}
""")


program("mixture", np.array([[0.3, 0.8], [-0.4, 0.2], [1.0, 0.5]]), np.array([0.5, -0.7]), 0.3)("""
func @f(%x: f64[?, ?], %w: f64[?], %b: f64) -> (f64) {
^entry:
  %z = const 0 : i64
  %one = const 1 : i64
  %f0 = const 0.0 : f64
  %n = dim {axis = 0} %x : i64
  %d = dim {axis = 1} %x : i64
  %c = lt %z, %n : bool
  branch %c, ^pre, ^skip
^skip:
  jump ^out(%f0)
^pre:
  jump ^head(%z, %f0)
^head(%i: i64, %acc: f64):
  %row = get %x, %i : f64[?]
  %y0 = empty {dtype = f64} %d : f64[?]
  %c1 = lt %z, %d : bool
  branch %c1, ^pre1, ^skip1
^skip1:
  jump ^out1(%y0)
^pre1:
  jump ^inner(%z, %b, %y0)
^inner(%j: i64, %s: f64, %y: f64[?]):
  %v = get %row, %j : f64
  %q = get %w, %j : f64
  %vq = mul %v, %q : f64
  %pos = gt %vq, %f0 : bool
  branch %pos, ^plus, ^minus
^plus:
  %e = exp %vq : f64
  %es = mul %e, %s : f64
  jump ^next(%es)
^minus:
  %si = sin %vq : f64
  %ss = add %si, %s : f64
  jump ^next(%ss)
^next(%t: f64):
  %y1 = set %y, %t, %j : f64[?]
  %j2 = add %j, %one : i64
  %c2 = lt %j2, %d : bool
  branch %c2, ^inner(%j2, %t, %y1), ^exit1(%y1)
^exit1(%ye: f64[?]):
  jump ^out1(%ye)
^out1(%yr: f64[?]):
  %sq = mul %yr, %yr : f64[?]
  %sum = sum {axes = (0,)} %sq : f64
  %big = gt %sum, %one2 : bool
  branch %big, ^large, ^small
^large:
  %lg = log %sum : f64
  jump ^latch(%lg)
^small:
  jump ^latch(%sum)
^latch(%g: f64):
  %acc2 = add %acc, %g : f64
  %i2 = add %i, %one : i64
  %c3 = lt %i2, %n : bool
  branch %c3, ^head(%i2, %acc2), ^exit(%acc2)
^exit(%r0: f64):
  jump ^out(%r0)
^out(%r: f64):
  return %r
}
""".replace("%one2", "%f0"))


program("products", np.array([[0.3, 0.0, 2.0], [-0.4, 0.2, 0.0]]))("""
func @f(%a: f64[?, ?]) -> (f64) {
^entry:
  %p = prod {axes = (0, 1)} %a : f64
  %q = prod {axes = (1,)} %a : f64[?]
  %r = cumprod {axis = 1} %a : f64[?, ?]
  %s = sum {axes = (1,)} %r : f64[?]
  %t = mul %s, %q : f64[?]
  %s2 = mul %s, %s : f64[?]
  %u = add %t, %s2 : f64[?]
  %v = sum {axes = (0,)} %u : f64
  %w = add %v, %p : f64
  return %w
}
""")


def _flat(values) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])


def _moved(args, wrt, directions, eps):
    return [a + eps * directions[wrt.index(i)] if i in wrt else a for i, a in enumerate(args)]


def _close(a, b):
    np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-7)


def _gradient_only(module, vjp: str, count: int) -> str:
    """A function that calls ``vjp`` and uses only the cotangents: reductions then run once, in the reverse loop."""
    types = module.functions["f"].param_types
    func = Function("only", types, [types[i] for i in module.derived[vjp].wrt])
    module.add(func)
    b = Builder(func.entry)
    types = [*module.functions["f"].result_types, *func.result_types]
    b.ret(b.call_then(vjp, [*func.params, b.const(1.0)], types)[count:])
    return "only"


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_without_value(name: str) -> None:
    text, args = PROGRAMS[name]
    module = parse_module(text)
    wrt = [i for i, t in enumerate(module.functions["f"].param_types) if is_float(t)]
    vjp = module.derive("f", "vjp", wrt)
    only = _gradient_only(module, vjp, 1)
    differentiate(module)
    verify(module, linear=False)
    plain = parse_module(text)
    reference = plain.derive("f", "vjp", wrt)
    differentiate(plain)
    _close(_flat(Interpreter(module).run(only, args)), _flat(Interpreter(plain).run(reference, [*args, 1.0])[1:]))


def test_a_reduction_keeps_nothing_across_iterations() -> None:
    """Case 2: the forward loop is removed, and no frame outlives its iteration."""
    text, args = PROGRAMS["mixture"]
    module = parse_module(text)
    vjp = module.derive("f", "vjp", (0, 1))
    only = _gradient_only(module, vjp, 1)
    differentiate(module)
    forest = LoopForest(module.functions[vjp])
    assert len(forest.roots) == 1 and len(forest.roots[0].children) == 2
    grown = np.tile(args[0], (50, 1))
    few, many = Interpreter(module), Interpreter(module)
    few.run(only, args)
    many.run(only, [grown, *args[1:]])
    assert many.kept <= 2 * few.kept


def test_value_and_gradient_of_a_reduction_in_one_pass() -> None:
    """The forward loop is merged into the reverse loop even if the value is used."""
    text, args = PROGRAMS["mixture"]
    module = parse_module(text)
    vjp = module.derive("f", "vjp", (0, 1, 2))
    differentiate(module)
    assert len(LoopForest(module.functions[vjp]).roots) == 1
    expected = Interpreter(module).run("f", args)[0]
    assert Interpreter(module).run(vjp, [*args, 1.0])[0] == pytest.approx(expected, rel=1e-14)
    empty = [args[0][:0], *args[1:]]
    value, *gradient = Interpreter(module).run(vjp, [*empty, 1.0])
    assert value == 0.0 and not _flat(gradient).any()


NESTED = """
func @f(%x: f64, %a: f64[?, ?]) -> (f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %n = dim {axis = 0} %a : i64
  %m = dim {axis = 1} %a : i64
  %start = const 0.0 : f64
  jump ^rows(%zero, %start)

^rows(%i: i64, %s: f64):
  jump ^elements(%zero, %s)

^elements(%j: i64, %t: f64):
  %b = get %a, %i, %j : f64
  %c = mul %b, %x : f64
  %d = sin %c : f64
  %t2 = add %t, %d : f64
  %j2 = add %j, %one : i64
  %more = lt %j2, %m : bool
  branch %more, ^elements(%j2, %t2), ^next(%t2)

^next(%u: f64):
  LAST
  %i2 = add %i, %one : i64
  %again = lt %i2, %n : bool
  branch %again, ^rows(%i2, %u2), ^end(%u2)

^end(%r: f64):
  return %r
}
"""


@pytest.mark.parametrize(("last", "loops"), [("%u2 = add %u, %x : f64", 1), ("%u2 = mul %u, %x : f64", 2)])
def test_nested_loops_that_sum_into_one_variable_are_one_pass(last: str, loops: int) -> None:
    """The inner loop passes the cotangent of the sum on.  If an iteration scales it, the order matters."""
    module = parse_module(NESTED.replace("LAST", last))
    vjp = module.derive("f", "vjp", (0,))
    differentiate(module)
    verify(module, linear=False)
    assert len(LoopForest(module.functions[vjp]).roots) == loops
    a = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    value, gradient = Interpreter(module).run(vjp, [0.7, a, 1.0])
    assert value == pytest.approx(Interpreter(module).run("f", [0.7, a])[0], rel=1e-14)
    near = [Interpreter(module).run("f", [0.7 + h, a])[0] for h in (1e-6, -1e-6)]
    assert gradient == pytest.approx((near[0] - near[1]) / 2e-6, rel=1e-6)


IN_A_ROW = """
func @f(%x: f64, %y: f64) -> (f64) {
^entry:
  %n = const 5 : i64
  %zero = const 0 : i64
  %one = const 1 : i64
  jump ^first(%zero, %y)

^first(%i: i64, %s: f64):
  %a = cast %i : f64
  %b = mul %a, %x : f64
  %c = sin %b : f64
  %s2 = add %s, %c : f64
  %i2 = add %i, %one : i64
  %more = lt %i2, %n : bool
  branch %more, ^first(%i2, %s2), ^between(%s2)

^between(%start: f64):
  jump ^second(%zero, START, %start)

^second(%j: i64, %t: f64, %u: f64):
  %d = cast %j : f64
  %e = mul %d, %x : f64
  %g = cos %e : f64
  %t2 = add %t, STEP : f64
  %u2 = sub %u, %g : f64
  %j2 = add %j, %one : i64
  %again = lt %j2, %n : bool
  branch %again, ^second(%j2, %t2, %u2), ^end(%t2)

^end(%r: f64):
  return %r
}
"""


@pytest.mark.parametrize(("start", "step"), [("%start", "%g"), ("%y", "%u"), ("%y", "%g")])
def test_value_where_a_loop_goes_on_from_another(start: str, step: str) -> None:
    """In the reverse sweep the second loop comes before the first: only one of them can be merged into it."""
    module = parse_module(IN_A_ROW.replace("START", start).replace("STEP", step))
    vjp = module.derive("f", "vjp", (0, 1))
    differentiate(module)
    verify(module, linear=False)
    for x in (0.3, -1.1):
        value, *gradient = Interpreter(module).run(vjp, [x, 0.5, 1.0])
        assert value == pytest.approx(Interpreter(module).run("f", [x, 0.5])[0], rel=1e-14)
        near = [Interpreter(module).run("f", [x + h, 0.5])[0] for h in (1e-6, -1e-6)]
        assert gradient[0] == pytest.approx((near[0] - near[1]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    text, args = PROGRAMS[name]
    module = parse_module(text)
    verify(module)
    wrt = [i for i, t in enumerate(module.functions["f"].param_types) if is_float(t)]
    vjp = module.derive("f", "vjp", wrt)
    jvp = module.derive("f", "jvp", wrt)
    both = module.derive(vjp, "jvp", wrt)
    second = module.derive(vjp, "vjp", wrt)
    differentiate(module)
    verify(module, linear=False)
    run = Interpreter(module).run
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=np.shape(args[i])) for i in wrt]
    eps = 1e-6

    def value(at):
        return float(run("f", at)[0])

    numeric = (value(_moved(args, wrt, directions, eps)) - value(_moved(args, wrt, directions, -eps))) / (2 * eps)
    value_, *gradient = run(vjp, [*args, 1.0])
    _close(value_, value(args))
    _close(_flat(gradient) @ _flat(directions), numeric)
    _, tangent = run(jvp, [*args, *directions])
    _close(tangent, numeric)

    def slope(at):
        return _flat(run(vjp, [*at, 1.0])[1:])

    numeric2 = (slope(_moved(args, wrt, directions, eps)) - slope(_moved(args, wrt, directions, -eps))) / (2 * eps)
    outs = run(both, [*args, 1.0, *directions])
    _close(_flat(outs[len(outs) - len(wrt):]), numeric2)
    cts = [0.0, *directions]
    outs = run(second, [*args, 1.0, *cts])
    _close(_flat(outs[len(outs) - len(wrt):]), numeric2)
