"""The normal form of control flow: every loop gets one shape, and programs keep their meaning."""

from __future__ import annotations

import pytest

from jitad.cps import check_cps, normalise, to_cps
from jitad.errors import CompileError
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.text import parse_module, print_module
from jitad.ir.verify import verify
from jitad.passes.analysis.loops import LoopForest, counted
from tests.ir.irgen import arguments, generate, outcome, same

COUNTED = """
func @f(%n: i64, %x: f64) -> (f64) {
^entry:
  %zero = const 0 : i64
  jump ^head(%zero, %x)
^head(%it: i64, %acc: f64):
  %c = lt %it, %n : bool
  branch %c, ^body, ^after
^body:
  %acc2 = mul %acc, %x : f64
  %one = const 1 : i64
  %next = add %it, %one : i64
  jump ^head(%next, %acc2)
^after:
  return %acc
}
"""

RETURN_FROM_THREE = """
func @f(%n: i64, %x: f64) -> (f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  jump ^i(%zero, %x)
^i(%a: i64, %s: f64):
  %ca = lt %a, %n : bool
  branch %ca, ^ibody, ^out
^ibody:
  jump ^j(%zero, %s)
^j(%b: i64, %t: f64):
  %cb = lt %b, %n : bool
  branch %cb, ^jbody, ^jout
^jbody:
  jump ^k(%zero, %t)
^k(%c: i64, %u: f64):
  %cc = lt %c, %n : bool
  branch %cc, ^kbody, ^kout
^kbody:
  %u2 = mul %u, %x : f64
  %limit = const 100.0 : f64
  %big = gt %u2, %limit : bool
  branch %big, ^found, ^go
^found:
  return %u2
^go:
  %odd = mod %c, %n : i64
  %skip = eq %odd, %one : bool
  branch %skip, ^knext(%u), ^knext(%u2)
^knext(%u3: f64):
  %c1 = add %c, %one : i64
  jump ^k(%c1, %u3)
^kout:
  %b1 = add %b, %one : i64
  jump ^j(%b1, %u)
^jout:
  %t2 = add %t, %x : f64
  %a1 = add %a, %one : i64
  jump ^i(%a1, %t2)
^out:
  return %s
}
"""

ENDLESS = """
exception 0 ValueError "no {0}"

func @f(%n: i64, %x: f64) -> (f64) {
^entry:
  %zero = const 0 : i64
  jump ^head(%zero, %x)
^head(%it: i64, %s: f64):
  %s2 = mul %s, %x : f64
  %one = const 1 : i64
  %next = add %it, %one : i64
  %c = lt %next, %n : bool
  branch %c, ^on, ^off
^on:
  %neg = lt %s2, %x : bool
  branch %neg, ^bad, ^more
^bad:
  raise {exc = 0} %it
^more:
  %three = const 3 : i64
  %m = mod %next, %three : i64
  %d = eq %m, %zero : bool
  branch %d, ^head(%next, %s), ^head(%next, %s2)
^off:
  return %s2
}
"""

TEST_CALLS = """
func @below(%i: i64, %n: i64) -> (bool) {
^entry:
  %c = lt %i, %n : bool
  return %c
}

func @f(%n: i64, %x: f64) -> (f64) {
^entry:
  %zero = const 0 : i64
  jump ^head(%zero, %x)
^head(%it: i64, %s: f64):
  call @below(%it, %n) -> ^test(%s)
^test(%c: bool, %t: f64):
  branch %c, ^body, ^done
^body:
  %one = const 1 : i64
  %next = add %it, %one : i64
  call @twice(%t) -> ^head.0(%next)
^head.0(%r: f64, %k: i64):
  jump ^head(%k, %r)
^done:
  return %t
}

func @twice(%x: f64) -> (f64) {
^entry:
  %y = add %x, %x : f64
  return %y
}
"""

PROGRAMS = [COUNTED, RETURN_FROM_THREE, ENDLESS, TEST_CALLS]
ARGUMENTS = [[n, x] for n in (0, 1, 2, 5) for x in (0.5, 1.5, -3.0)]


@pytest.mark.parametrize("text", PROGRAMS)
def test_written_programs(text: str) -> None:
    before, after = parse_module(text), parse_module(text)
    to_cps(after)
    verify(after, linear=False)
    for func in after.functions.values():
        check_cps(func)
    for args in ARGUMENTS:
        assert same(outcome(before, args, "f"), outcome(after, args, "f"))


def test_a_for_loop_is_recognised_as_counted() -> None:
    module = parse_module(COUNTED)
    to_cps(module)
    func = module.functions["f"]
    loop, = LoopForest(func).loops
    found = counted(loop)
    assert found is not None and found.trip is func.params[0]
    assert loop.exit is not None and loop.exit_edge().block is loop.exit


def test_a_test_is_run_as_often_as_before() -> None:
    module = parse_module(COUNTED)
    to_cps(module)
    interp = Interpreter(module)
    assert interp.run("f", [4, 2.0]) == [32.0]
    assert interp.counts["lt"] == 5


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    module, args = generate(seed), arguments(seed)
    before = outcome(module, args)
    to_cps(module)
    verify(module, linear=False)
    for func in module.functions.values():
        check_cps(func)
    assert same(before, outcome(module, args))


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_normal_form_is_kept(seed: int) -> None:
    module = generate(seed)
    to_cps(module)
    once = print_module(module)
    to_cps(module)
    assert print_module(module) == once


def test_check_refuses_what_is_not_normal() -> None:
    for text in PROGRAMS:
        with pytest.raises(CompileError):
            check_cps(parse_module(text).functions["f"])


def test_two_entries_are_refused() -> None:
    func = parse_module("""
func @f(%c: bool) -> () {
^entry:
  branch %c, ^a, ^b
^a:
  jump ^b
^b:
  branch %c, ^a, ^end
^end:
  return
}
""").functions["f"]
    with pytest.raises(CompileError, match="two entries"):
        normalise(func)
