"""Fission: operations that do not depend on a serial loop's state are computed before it, and no others."""

import math
import re

import numpy as np
import pytest

from jitad import jit
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function, Module, Value
from jitad.ir.text import parse_module
from jitad.ir.types import F64, I64, Array
from jitad.ir.verify import verify
from jitad.passes.analysis.loops import LoopForest
from jitad.passes.cleanup.dce import dce
from jitad.passes.memory.copy_insertion import copy_insertion
from jitad.passes.vectorise.fission import fission

VEC = Array(F64, (None,))


def loop(serial: bool, trip: int | None = None) -> Module:
    """``s = s * cos(x[i] * w)`` or ``s += cos(x[i] * w)`` over ``range(n)``."""
    module = Module()
    func = module.add(Function("f", [I64, VEC, F64], [F64]))
    n, x, w = func.params
    b = Builder(func.entry)
    if trip is not None:
        n = b.const(trip)
    head, done = func.new_block("head"), func.new_block("done")
    i, s, out = head.add_param(I64), head.add_param(F64), done.add_param(F64)
    b.jump(head, [b.const(0), b.const(1.0)])
    b.at(head)
    t: Value = b.cos(b.mul(b.get(x, i), w))
    s = b.mul(s, t) if serial else b.emit_op("add", [s, t], acc=True).result
    following = b.add(i, 1)
    b.branch(b.lt(following, n), head, [following, s], done, [s])
    b.at(done)
    b.ret([out])
    return module


def loops_after(module: Module) -> int:
    args = [20, np.linspace(0.1, 2.0, 20), 0.7]
    before = Interpreter(module).run("f", args)
    fission(module)
    dce(module, ["f"])
    verify(module, linear=False)
    np.testing.assert_allclose(Interpreter(module).run("f", args), before, rtol=1e-14)
    return len(LoopForest(module.functions["f"]).loops)


def test_a_serial_loop_is_split() -> None:
    module = loop(serial=True)
    assert loops_after(module) == 3                     # over chunks; in each, the loop before and the serial one
    last = next(b for b in module.functions["f"].blocks if b.name == "head")
    assert "cos" not in [op.name for op in last.ops]


def test_a_reduction_stays_one_loop() -> None:
    assert loops_after(loop(serial=False)) == 1


def test_a_short_loop_stays_one_loop() -> None:
    assert loops_after(loop(serial=True, trip=8)) == 1


def test_an_array_that_it_fills_is_not_copied_for_each_chunk() -> None:
    module = parse_module("""
func @f(%n: i64, %x: f64[?], %w: f64) -> (f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %first = const 1.0 : f64
  %all = empty %n : f64[?]
  jump ^head(%zero, %first, %all)

^head(%i: i64, %s: f64, %a: f64[?]):
  %v = get %x, %i : f64
  %y = mul %v, %w : f64
  %t = cos %y : f64
  %next = mul %s, %t : f64
  %b = set %a, %next, %i : f64[?]
  %j = add %i, %one : i64
  %c = lt %j, %n : bool
  branch %c, ^head(%j, %next, %b), ^done(%b)

^done(%out: f64[?]):
  return %out
}
""")
    assert loops_after(module) == 3
    copy_insertion(module)
    verify(module)
    assert not [op for op in module.functions["f"].all_ops() if op.name == "copy"]


def logs(x: np.ndarray) -> float:
    total = 0.0
    for i in range(len(x)):
        total += math.log(x[i]) * math.sqrt(x[i])
    return total


def gathered(x: np.ndarray, at: np.ndarray) -> float:
    total = 0.0
    for i in range(len(at)):
        total += math.log(x[at[i]])
    return total


def test_checks_of_floats_do_not_keep_a_loop_whole() -> None:
    f = jit(logs, grad=True)
    x = np.linspace(0.5, 3.0, 2000)
    text = f.inspect("optimized", x)
    assert "%holds" in text
    np.testing.assert_allclose(f(x), logs(x), rtol=1e-13)
    np.testing.assert_allclose(f.grad(x), 1 / np.sqrt(x) + np.log(x) / (2 * np.sqrt(x)), rtol=1e-12)


@pytest.mark.parametrize("at", [0, 511, 512, 1999])
def test_the_first_check_that_fails_raises(at: int) -> None:
    f = jit(logs, grad=True)
    x = np.linspace(0.5, 3.0, 2000)
    x[at] = -1.0
    for call in (f, f.grad, f.value_and_grad):
        with pytest.raises(ValueError, match="math domain error"):
            call(x)
    x[at] = np.nan                                      # math.log(nan) is nan
    assert np.isnan(f(x))


def test_checks_of_indices_stay_before_what_they_guard() -> None:
    f = jit(gathered)
    text = f.inspect("optimized", np.ones(3), np.zeros(600, int))
    before = text[text.index("^indices("):text.index("^between(")]
    assert re.findall(r"= get %(\d+)", before) == ["1"]                 # the array of indices, not the numbers
    with pytest.raises(IndexError):
        f(np.ones(3), np.full(600, 10**6))


def one_index(x: np.ndarray, y: np.ndarray, k: int) -> float:
    total = 0.0
    for i in range(len(x)):
        total += math.log(x[i]) * y[k]
    return total


def serial_with_one_index(x: np.ndarray, y: np.ndarray, k: int) -> float:
    total = 0.5
    for i in range(len(x)):
        total = total * math.log(x[i]) + y[k] * math.exp(x[i])
    return total


@pytest.mark.parametrize("f", [one_index, serial_with_one_index])
@pytest.mark.parametrize("n", [1, 40, 600])
def test_an_index_from_outside_is_looked_at_before_the_first_chunk(f, n: int) -> None:
    x, y, fast = np.linspace(1.5, 3.0, n), np.ones(3), jit(f)
    assert ("%holds" in fast.inspect("optimized", x, y, 2)) == (n > 1)
    np.testing.assert_allclose(fast(x, y, -1), f(x, y, -1), rtol=1e-12)
    for k in (3, -4, 10**12, -10**12):
        with pytest.raises(IndexError, match=f"index {k} is out of bounds"):
            fast(x, y, k)
    x[0] = -1.0                                         # the logarithm comes first
    with pytest.raises(ValueError, match="math domain error"):
        fast(x, y, 10**12)


def test_a_number_that_is_read_at_is_looked_at_before() -> None:
    def f(x: np.ndarray, y: np.ndarray) -> float:
        total = 1.0
        for i in range(len(x)):
            total = total * math.log(x[i]) + math.exp(y[int(x[i]) // 3])
        return total
    x, y = np.full(40, 2.0), np.ones(4)
    x[20] = np.nan
    for boundscheck in (True, False):
        with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
            jit(f, boundscheck=boundscheck)(x, y)


def test_a_condition_that_is_carried() -> None:
    def f(x: np.ndarray) -> float:
        total, fine = 0.5, True
        for i in range(len(x)):
            assert fine
            total = total * 0.5 + math.log(x[i])
            fine = total < 1e6
        return total
    x = np.full(40, 2.0)
    assert jit(f)(x) == pytest.approx(f(x), rel=1e-12)
    x[20] = 1e300
    x[21:] = np.inf
    with pytest.raises(AssertionError):
        jit(f)(x)


AROUND = """
func @f(%n: i64, %x: f64[?], %y: f64[?, ?]) -> (f64) {
^entry:
  %zero = const 0
  %one = const 1
  %m = dim {axis = 1} %y
  %s0 = const 0.0
  jump ^loop(%zero, %s0)
^loop(%i: i64, %s: f64):
  %at = get %x, %i
  %w = exp %at
  jump ^inner(%zero, %s)
^inner(%k: i64, %t: f64):
  %v = get %y, %i, %k
  %p = mul %w, %v
  %t1 = add %t, %p
  %k1 = add %k, %one
  %more = lt %k1, %m
  branch %more, ^inner(%k1, %t1), ^next(%t1)
^next(%r: f64):
  %j = cast {dtype = f64} %i
  %s1 = mul %r, %j
  %i1 = add %i, %one
  %again = lt %i1, %n
  branch %again, ^loop(%i1, %s1), ^done(%s1)
^done(%out: f64):
  return %out
}
"""


def test_a_loop_around_another_one_is_split() -> None:
    module = parse_module(AROUND)
    args = [600, np.linspace(-1.0, 1.0, 600), np.linspace(0.1, 0.2, 1800).reshape(600, 3) / 300.0]
    before = Interpreter(module).run("f", args)
    fission(module)
    verify(module, linear=False)
    np.testing.assert_allclose(Interpreter(module).run("f", args), before, rtol=1e-14)
    forest = LoopForest(module.functions["f"])
    holder = next(b for b in module.functions["f"].blocks if any(op.name == "exp" for op in b.ops))
    own = forest.loop_of(holder)
    assert own is not None and own.blocks == {holder}
