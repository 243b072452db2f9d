"""Saved integers take the narrowest type that holds their range."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit, value_and_grad
from jitad.ad.narrow_types import narrowest
from jitad.ir.text import parse_module
from jitad.ir.types import I8, I16


def paths(x: Any) -> float:
    """The numbers of three paths, one of which passes an inner loop."""
    n, total = len(x), 0.0
    least = np.full(n, 2.0)
    for k in range(n):
        for i in range(n):
            if i != k and x[i] < 0.8:
                d = 0.0
                for j in range(k % 3):
                    d += (x[i] - x[k]) ** 2 * (j + 1)
                if d < least[i]:
                    least[i] = d + x[k]
        total += math.sin(least[k])
    return total


X = np.random.default_rng(3).uniform(-1.0, 1.0, 20)


@pytest.mark.slow
def test_gradients() -> None:
    g = jit(paths, grad=0).value_and_grad
    for n in (0, 1, 2, 20):
        value, x_bar = g(X[:n])
        wanted, expected = interpret(value_and_grad(paths), X[:n])
        assert math.isclose(value, paths(X[:n]), rel_tol=1e-12) and math.isclose(value, wanted, rel_tol=1e-12)
        np.testing.assert_allclose(x_bar, expected, rtol=1e-11, atol=1e-14)
    check_grads(paths, (X,), order=2)
    assert re.search(r"= empty .* : i8\[", str(g.inspect("optimized", X)))


NUMBERS = """
func @f(%n: i64, %b: bool) -> (i64) {
^entry:
  %zero = const 0 : i64
  %far = const 300 : i64
  %below = const -200 : i64
  %none = undef {type = i64} : i64
  %eleven = const 11 : i64
  %rest = mod %n, %eleven : i64
  branch %b, ^one(%far, %rest), ^two(%below, %zero)
^one(%p: i64, %q: i64):
  jump ^loop(%p, %q, %zero)
^two(%r: i64, %s: i64):
  jump ^loop(%r, %s, %none)
^loop(%way: i64, %digit: i64, %count: i64):
  %next = add %count, %digit : i64
  branch %b, ^loop(%way, %zero, %next), ^exit
^exit:
  return %next
}
"""


def test_ranges() -> None:
    """What joins pass, also around a loop; not what a loop counts, nor an argument."""
    func = parse_module(NUMBERS).functions["f"]
    preds = {b: list(edges) for b, edges in func.predecessors().items()}
    way, digit, count = func.blocks[3].params
    assert narrowest(way, preds) is I16
    assert narrowest(digit, preds) is I8
    assert narrowest(count, preds) is None
    assert narrowest(func.entry.params[0], preds) is None
    assert narrowest(func.entry.params[1], preds) is None
