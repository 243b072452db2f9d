"""Loops that add to rows of an array, which may be equal: vectors without comparisons of addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitad.lowering.planning.row_accesses import accesses_rows

from jitad import interpret, jit
from jitad.ir.aliasing.alias_classes import AliasClasses
from jitad.ir.text.parser import parse_module as parse
from jitad.passes.analysis.loops import loop_forest

LOOP = """
func @f(%a: f64[?], %i: i64, %j: i64, %n: i64) -> (f64[?, ?]) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  %g0 = fill %none, %n, %n : f64[?, ?]
  %more = lt %zero, %n
  branch %more, ^enter, ^skip
^enter:
  jump ^loop(%zero, %g0)
^skip:
  jump ^exit(%g0)
^loop(%k: i64, %g: f64[?, ?]):
  %next = add %k, %one
  %x = get %a, %k
{body}
  %again = lt %next, %n
  branch %again, ^loop(%next, %last), ^leave(%last)
^leave(%r: f64[?, ?]):
  jump ^exit(%r)
^exit(%g2: f64[?, ?]):
  return %g2
}}
"""
ROWS = "%g1 = add_at %g, %x, %i, %k\n  %last = add_at %g1, %x, %j, %k"


@pytest.mark.parametrize(("body", "expected"), [
    (ROWS, True),
    (ROWS + "\n  %seen = get %last, %one, %k\n  %y = mul %seen, %x", True),
    ("%g1 = add_at %g, %x, %i, %k\n  %last = add_at %g1, %x, %j, %next", False),          # the next column
    ("%g1 = add_at %g, %x, %k, %i\n  %last = add_at %g1, %x, %k, %j", False),             # columns may be equal
    ("%g1 = add_at %g, %x, %k, %k\n  %last = add_at %g1, %x, %j, %k", False),
    ("%g1 = add_at %g, %x, %i, %k\n  %y = get %g1, %i, %zero\n  %last = set %g1, %y, %j, %k", False),
])
def test_other_iterations_access_other_elements(body: str, expected: bool) -> None:
    func = parse(LOOP.format(body=body)).functions["f"]
    (loop,) = loop_forest(func).loops
    assert accesses_rows(loop, AliasClasses(func)) == expected


def added(a: Any, rows: Any) -> Any:
    g = np.zeros((len(rows), len(a)))
    for k in range(len(rows) - 2):
        p, q, r = rows[k], rows[k + 1], rows[k + 2]
        for j in range(len(a)):
            g[p, j] += a[j]
            g[q, j] = g[p, j] * 0.5 + g[r, j]
            g[r, j] += g[q, j] - a[j]
    return g


@pytest.mark.parametrize("n", [1, 7, 64, 101])
def test_rows_that_are_one(n: int) -> None:
    a, rows = np.arange(1.0, n + 1), np.array([0, 0, 1, 1, 1, 2, 1, 2, 3, 0])
    np.testing.assert_array_equal(jit(added)(a, rows), added(a, rows))
    np.testing.assert_array_equal(interpret(added, a, rows), added(a, rows))


def counts(x: Any) -> float:
    n = np.zeros(5)
    seen = 0.0
    for t in range(len(x)):
        for i in range(int(x[t]), 5):
            n[i] += 1.0
        seen += n[2] * n[4]
    return seen


def test_a_few_elements_are_updated_one_by_one() -> None:
    x = np.array([0.0, 4.0, 2.5, 7.0, 3.0, 1.0, 5.0])
    f = jit(counts)
    assert f(x) == counts(x)
    assert "x double>" not in f.inspect("llvm", x).split("define")[1]


def along_a_column(a: Any, x: Any, j: int) -> float:
    s = 0.0
    for i in range(len(x)):
        s += a[i, j] * x[i]
    return s


def test_sums_of_a_column_in_order_gather_nothing() -> None:
    rng = np.random.default_rng(0)
    a, x = rng.normal(0.0, 1.0, (53, 7)), rng.normal(0.0, 1.0, 53)
    f = jit(along_a_column)
    np.testing.assert_allclose(f(a, x, 3), a[:, 3] @ x, rtol=1e-13)
    assert "x double>" not in f.inspect("llvm", a, x, 3).split("define")[1]
