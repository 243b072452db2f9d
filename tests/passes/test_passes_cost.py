"""The cost model, in units of about one addition."""

from __future__ import annotations

import pytest

from jitad.ir.builder import Builder
from jitad.ir.ops import EXPENSIVE, OPS, TRANSCENDENTAL
from jitad.ir.text import parse_module
from jitad.passes.analysis.cost import (
    ASSUMED,
    CALL,
    CHEAP,
    INDEX_MAPS,
    element_cost,
    formula_cost,
    frequency,
    op_cost,
)
from jitad.passes.analysis.loops import loop_forest
from jitad.passes.analysis.sizes import Solver
from jitad.passes.parallel.duration import SERIAL, UNKNOWN, Duration

OPERATIONS = """
func @f(%a: f64[3, 4], %v: f64[?], %x: f64) -> (f64) {
^entry:
  %i = const 1 : i64
  %sum = add %a, %a : f64[3, 4]
  %exps = exp %v : f64[?]
  %row = get %a, %i : f64[4]
  %quotient = div %x, %x : f64
  %minus = neg %quotient : f64
  %update = set %v, %x, %i : f64[?]
  call @f(%a, %v, %x) -> ^next
^next(%r: f64):
  return %r
}
"""


def test_ops() -> None:
    func = parse_module(OPERATIONS).functions["f"]
    op = {v.hint: v.op for v in func.defined() if v.op is not None}
    assert [op_cost(op[n]) for n in ("i", "sum", "row", "quotient", "update")] == [0, 12, 1, EXPENSIVE, 1]
    assert op_cost(op["exps"]) == ASSUMED * TRANSCENDENTAL
    assert func.entry.term is not None and op_cost(func.entry.term) == CALL
    assert [element_cost(op[n]) for n in ("sum", "row", "exps")] == [1, 0, TRANSCENDENTAL]
    assert [formula_cost(op[n]) for n in ("minus", "quotient")] == [0, EXPENSIVE]


def test_what_is_cheap() -> None:
    assert INDEX_MAPS < CHEAP and {"dim", "select", "cast"} < CHEAP
    assert CHEAP.isdisjoint(name for name, op in OPS.items() if op.cost >= EXPENSIVE)
    assert {name for name, op in OPS.items() if op.view} < INDEX_MAPS


LOOPS = """
func @f(%m: i64, %x: f64) -> (f64) {{
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %five = const 5 : i64
  %seven = const 7 : i64
  %n = const 10 : i64
  jump ^outer(%zero, %x)
^outer(%i: i64, %y: f64):
  %k = mod %i, %m : i64
  %h = add %i, %five : i64
  jump ^inner(%zero, %y)
^inner(%j: i64, %z: f64):
  %e = exp %z : f64
  %j1 = add %j, %one : i64
  %c = lt %j1, {trip} : bool
  branch %c, ^inner(%j1, %e), ^latch(%e)
^latch(%w: f64):
  %i1 = add %i, %one : i64
  %d = lt %i1, %n : bool
  branch %d, ^outer(%i1, %w), ^done(%w)
^done(%r: f64):
  return %r
}}
"""


@pytest.mark.parametrize("trip, times", [("%seven", 7), ("%k", UNKNOWN), ("%h", 10)],
                         ids=["known", "not known before the loop", "in the middle"])
def test_the_time_of_an_iteration_has_the_loops_in_it(trip: str, times: int) -> None:
    func = parse_module(LOOPS.format(trip=trip)).functions["f"]
    forest = loop_forest(func)
    (outer,) = forest.roots
    time = Duration(Builder(func.entry), forest, outer, Solver(func), fastmath=False).of_iteration()
    inner = (TRANSCENDENTAL + 2) * SERIAL                       # it carries a value that is no sum
    assert time.const == (3 + 2 * EXPENSIVE) * SERIAL + times * inner
    blocks = func.entry, outer.head, outer.children[0].head
    assert [frequency(forest, b) for b in blocks] == [1, ASSUMED, ASSUMED ** 2]
