"""Copies are put where they are needed, and above all nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.cps import to_cps
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.ir.text import parse_module
from jitad.ir.verify import verify
from jitad.passes.memory.copy_insertion import copy_insertion


def placed(text: str, roots: list[str] | None = None) -> Module:
    module = parse_module(text)
    to_cps(module)
    copy_insertion(module, roots)
    verify(module)
    return module


def copies(module: Module, name: str = "f") -> list[str]:
    """The blocks with a copy, by name."""
    return [b.name for b in module.functions[name].blocks for op in b.ops if op.name == "copy"]


# Sets x[i] = i for each i of a loop over the argument, or over what ``start`` makes of it.
LOOP = """
func @f(%x: f64[?], %n: i64) -> (f64[?]{more_types}) {{
^entry:
  %zero = const 0 : i64
  %half = const 0.5 : f64
  {start}
  jump ^head(%zero, %a)
^head(%it: i64, %b: f64[?]):
  %c = lt %it, %n : bool
  branch %c, ^body, ^done
^body:
  %c2 = set %b, %half, %it : f64[?]
  %one = const 1 : i64
  %next = add %it, %one : i64
  jump ^head(%next, %c2)
^done:
  return %b{more}
}}
"""


def test_an_argument_is_copied_once_before_the_loop() -> None:
    module = placed(LOOP.format(start="%a = as_type %x : f64[?]", more="", more_types=""))
    assert len(copies(module)) == 1
    x = np.arange(3.0)
    assert np.array_equal(Interpreter(module, in_place=True).run("f", [x, 2])[0], [0.5, 0.5, 2.0])
    assert np.array_equal(x, np.arange(3.0))
    interp = Interpreter(module)
    interp.run("f", [x, 3])
    assert interp.counts["copy"] == 1


def test_a_new_array_is_not_copied() -> None:
    assert copies(placed(LOOP.format(start="%a = fill %half, %n : f64[?]", more="", more_types=""))) == []


def test_a_superfluous_copy_goes() -> None:
    start = "%m = fill %half, %n : f64[?]\n  %a = copy %m : f64[?]"
    assert copies(placed(LOOP.format(start=start, more="", more_types=""))) == []


def test_what_is_needed_later_is_copied() -> None:
    start = "%a = fill %half, %n : f64[?]"
    assert len(copies(placed(LOOP.format(start=start, more=", %a", more_types=", f64[?]")))) == 1


RECURRENT = """
func @f(%n: i64, %m: i64) -> (f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %half = const 0.5 : f64
  %h0 = fill %half, %m : f64[?]
  jump ^steps(%zero, %h0)
^steps(%t: i64, %h: f64[?]):
  %c = lt %t, %n : bool
  branch %c, ^step, ^done
^step:
  %new = empty %m : f64[?]
  jump ^units(%zero, %new)
^units(%j: i64, %g: f64[?]):
  %cj = lt %j, %m : bool
  branch %cj, ^unit, ^next
^unit:
  %old = get %h, %j : f64
  %v = sin %old : f64
  %g2 = set %g, %v, %j : f64[?]
  %j1 = add %j, %one : i64
  jump ^units(%j1, %g2)
^next:
  %t1 = add %t, %one : i64
  jump ^steps(%t1, %g)
^done:
  return %h
}
"""

EXCHANGE = """
func @f(%n: i64, %m: i64) -> (f64[?], f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %half = const 0.5 : f64
  %u0 = fill %half, %m : f64[?]
  %v0 = fill %half, %m : f64[?]
  jump ^head(%zero, %u0, %v0)
^head(%t: i64, %u: f64[?], %v: f64[?]):
  %c = lt %t, %n : bool
  branch %c, ^body, ^done
^body:
  %x = get %v, %zero : f64
  %y = sin %x : f64
  %w = set %u, %y, %zero : f64[?]
  %t1 = add %t, %one : i64
  jump ^head(%t1, %v, %w)
^done:
  return %u, %v
}
"""


@pytest.mark.parametrize("text", [RECURRENT, EXCHANGE], ids=["a new state from the old", "two that change places"])
def test_loops_that_need_no_copy(text: str) -> None:
    module = placed(text)
    assert copies(module) == []
    plain = Interpreter(parse_module(text)).run("f", [5, 3])
    assert all(map(np.array_equal, plain, Interpreter(module, in_place=True).run("f", [5, 3])))


CALLS = """
func @put(%a: f64[?]) -> (f64[?]) {{
^entry:
  %zero = const 0 : i64
  %half = const 0.5 : f64
  %b = set %a, %half, %zero : f64[?]
  return %b
}}

func @f(%n: i64) -> (f64[?]) {{
^entry:
  %one = const 1.0 : f64
  %a = fill %one, %n : f64[?]
  call @put(%a) -> ^next
^next(%b: f64[?]):
  {rest}
}}
"""


def test_a_callee_takes_what_its_caller_gives_up() -> None:
    module = placed(CALLS.format(rest="return %b"), ["f"])
    assert module.functions["put"].own == {0}
    assert copies(module) == copies(module, "put") == []


def test_the_caller_copies_what_it_keeps() -> None:
    module = placed(CALLS.format(rest="%s = add %a, %b : f64[?]\n  return %s"), ["f"])
    assert module.functions["put"].own == {0}
    assert len(copies(module)) == 1 and copies(module, "put") == []


def test_roots_own_nothing() -> None:
    module = placed(CALLS.format(rest="return %b"), ["f", "put"])
    assert module.functions["put"].own == set()
    assert len(copies(module, "put")) == 1


def test_what_lies_on_a_stack_is_in_use() -> None:
    module = placed("""
func @f(%n: i64) -> (stack, f64[?]) {
^entry:
  %zero = const 0 : i64
  %half = const 0.5 : f64
  %a = fill %half, %n : f64[?]
  %s = stack_empty : stack
  %t = push %s, %a : stack
  %b = set %a, %half, %zero : f64[?]
  return %t, %b
}
""")
    assert len(copies(module)) == 1


def test_a_row_is_copied_before_it_is_changed() -> None:
    module = placed("""
func @f(%n: i64) -> (f64[?]) {
^entry:
  %zero = const 0 : i64
  %half = const 0.5 : f64
  %a = fill %half, %n, %n : f64[?, ?]
  %r = get %a, %zero : f64[?]
  %b = set %r, %half, %zero : f64[?]
  return %b
}
""")
    assert len(copies(module)) == 1


def rows_replaced(d: Any) -> Any:
    """The derivative reads elements of a row's cotangent behind the store of zeros in its place."""
    d = d.copy()
    for r in range(d.shape[0]):
        line, out = d[r], np.zeros(d.shape[1])
        for q in range(d.shape[1]):
            out[q] = line[q] * line[q // 2]
        d[r] = out
    return np.mean(np.sqrt(d))


def test_a_row_is_copied_where_another_one_takes_its_place() -> None:
    """A copy of the array for each row would take quadratic time."""
    module = placed("""
func @f(%a: own f64[?, ?], %row: f64[?], %i: i64, %j: i64) -> (f64[?, ?], f64) {
^entry:
  %b = set %a, %row, %i
  %x = get %a, %i, %j
  return %b, %x
}
""")
    (copied,) = [op for op in module.functions["f"].all_ops() if op.name == "copy"]
    assert len(copied.result.type.dims) == 1
    a, row = np.arange(6.0).reshape(2, 3), np.full(3, 7.0)
    b, x = Interpreter(module, in_place=True).run("f", [a.copy(), row, 1, 2])
    assert x == 5.0 and np.array_equal(b, [[0, 1, 2], [7, 7, 7]])


def test_an_element_is_read_from_one_row_alone() -> None:
    """Two rows take the place of one, and the element has the index of the row twice."""
    module = placed("""
func @f(%a: f64[?, ?, ?], %p: f64[?, ?], %q: f64[?, ?], %i: i64, %j: i64) -> (f64[?, ?, ?], f64[?, ?, ?], f64) {
^entry:
  %b = set %a, %p, %i
  %c = set %a, %q, %i
  %x = get %a, %i, %i, %j
  return %b, %c, %x
}
""")
    a = np.arange(24.0).reshape(2, 3, 4)
    b, c, x = Interpreter(module, in_place=True).run("f", [a.copy(), np.ones((3, 4)), np.zeros((3, 4)), 1, 3])
    assert x == a[1, 1, 3] and (b[1] == 1).all() and (c[1] == 0).all() and np.array_equal(c[0], a[0])


def test_the_derivative_of_rows_replaced() -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.5, (6, 5))
    f = jit(rows_replaced, grad=True)
    assert f(x) == pytest.approx(rows_replaced(x), rel=1e-13)
    check_grads(f, (x,), order=1)
