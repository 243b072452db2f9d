"""Loops over rows of sparse matrices: which end when their index does, and which sums are contracted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitad.lowering.planning.fma_control import carried_sums
from jitad.lowering.planning.index_tests import index_tests

from jitad import check_grads, grad, interpret, jit
from jitad.ir.text.parser import parse_module as parse
from jitad.passes.analysis.loops import loop_forest

ROW = """
exception 0 IndexError "index {{}} is out of bounds"

func @f(%a: f64[?], %start: i64, %n: i64) -> (f64) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  %m = dim {{axis = 0}} %a
  %more = lt %zero, %n
  branch %more, ^enter, ^skip
^enter:
  jump ^loop(%zero, %none, %start)
^loop(%it: i64, %s: f64, %k: i64):
  %in = lt %k, %m
  {check}
  %x = get %a, %k
  %y = mul %x, %x
  %t = add %s, %y
  %k1 = add %k, %one
  %next = add %it, %one
  %again = lt %next, %n
  {read}branch %again, ^loop(%next, %t, %k1), ^exit(%t)
^exit(%r: f64):
  return %r
^skip:
  return %none
}}
"""


@pytest.mark.parametrize(("check", "read", "found"), [
    ("check {exc = 0} %in, %k", "", True),
    ("", "", False),                                            # left to LLVM, which makes vectors
    ("check {exc = 0} %in, %k", "push %it\n  ", False)])         # the counter is read
def test_which_loops_end_when_their_index_does(check: str, read: str, found: bool) -> None:
    func = parse(ROW.format(check=check, read=read)).functions["f"]
    assert bool(index_tests(loop_forest(func))) is found


SCATTERED = """
func @f(%columns: i64[?], %start: i64, %n: i64, %m: i64) -> (f64[?]) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  %more = lt %zero, %n
  %g0 = fill %none, %m
  branch %more, ^enter, ^skip
^enter:
  jump ^loop(%zero, %g0, %start)
^skip:
  jump ^exit(%g0)
^loop(%it: i64, %g: f64[?], %k: i64):
  %j = get %columns, %k
  %x = const 1.5
  %g1 = add_at %g, %x, {index}
  %k1 = add %k, %one
  %next = add %it, %one
  %again = lt %next, %n
  branch %again, ^loop(%next, %g1, %k1), ^leave(%g1)
^leave(%r: f64[?]):
  jump ^exit(%r)
^exit(%out: f64[?]):
  return %out
}}
"""


@pytest.mark.parametrize(("index", "found"), [("%j", True), ("%k", False)])
def test_loops_that_scatter_end_when_their_index_does(index: str, found: bool) -> None:
    """LLVM makes vectors only of the other one."""
    func = parse(SCATTERED.format(index=index)).functions["f"]
    assert bool(index_tests(loop_forest(func))) is found


def rows(bounds: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(len(bounds) - 1)
    for i in range(len(bounds) - 1):
        total = 1.0
        for k in range(bounds[i], bounds[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


@pytest.mark.parametrize("bounds", [[0, 0, 3, 2, 5], [-3, -1, 2, 5], [5, 5], [0, 5], [0, 7], [-7, 1],
                                    [2**63 - 1, -2**63, 2], [-2**63, 2**63 - 1]])
def test_rows_of_any_bounds(bounds: list[int]) -> None:
    """Bounds may decrease, count from the end, or lead out of the arrays, where their difference wraps around too."""
    rng = np.random.default_rng(3)
    args = np.array(bounds), np.array([4, -1, 0, -5, 2]), rng.normal(size=5), rng.normal(size=5)
    try:
        expected = interpret(rows, *args)
    except IndexError as e:
        with pytest.raises(IndexError, match=str(e)):
            jit(rows)(*args)
        return
    assert np.allclose(jit(rows)(*args), expected, rtol=1e-14)


def test_short_rows_contract_their_sum() -> None:
    """A sum is contracted if the loop around reads its length from memory, and not if that is an argument."""
    seen = {}
    for name, length in (("read", "%len = get %b, %i"), ("given", "%len = add %n, %i")):
        text = f"""
func @f(%a: f64[?], %b: i64[?], %n: i64) -> (f64) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  jump ^rows(%zero, %none)
^rows(%i: i64, %all: f64):
  {length}
  %some = lt %zero, %len
  branch %some, ^enter, ^skip
^enter:
  jump ^row(%zero, %none)
^row(%it: i64, %s: f64):
  %x = get %a, %it
  %y = mul %x, %x
  %t = add %s, %y
  %next = add %it, %one
  %again = lt %next, %len
  branch %again, ^row(%next, %t), ^leave(%t)
^leave(%u: f64):
  jump ^join(%u)
^skip:
  jump ^join(%none)
^join(%v: f64):
  %w = maximum %all, %v
  %j = add %i, %one
  %more = lt %j, %n
  branch %more, ^rows(%j, %w), ^exit(%w)
^exit(%r: f64):
  return %r
}}
"""
        seen[name] = len(carried_sums(loop_forest(parse(text).functions["f"])))
    assert seen == {"read": 0, "given": 1}


@pytest.mark.slow
def test_products_that_are_added_twice_are_fused_with_both_additions() -> None:
    """A force is added to one particle and subtracted from the other: no product is left by itself."""
    def energy(x: Any, i: Any, j: Any) -> float:
        total = 0.0
        for k in range(len(i)):
            d = x[i[k]] - x[j[k]]
            total += np.sqrt(d * d + 0.1)
        return total
    rng = np.random.default_rng(3)
    args = rng.normal(size=9), rng.integers(0, 9, 40), rng.integers(-9, 9, 40)
    f = jit(energy, grad=True)
    check_grads(energy, args, order=1)
    np.testing.assert_allclose(f.grad(*args), interpret(grad(energy), *args), rtol=1e-12)
    assert f.value_and_grad.inspect("llvm", *args).count("@llvm.fmuladd.f64(") > 1
    with pytest.raises(IndexError, match="is out of bounds for axis 0 with size 9"):
        f.grad(args[0], args[1], args[2] + 9)
