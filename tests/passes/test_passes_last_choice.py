"""Where the pass ``last_choice`` leaves a loop as it is, and gradients of choices around inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit, jvp
from jitad.ir.text.parser import parse_module
from jitad.passes.choices.last_choice import last_choice

NEAREST = """
derived @f.vjp.0 = vjp @f wrt (0,)
func @f(%a: f64[?]) -> (f64) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  %n = dim {{axis = 0}} %a
  jump ^outer(%zero, %none)
^outer(%k: i64, %sum: f64):
{array}
  jump ^loop(%zero, %none)
^loop(%i: i64, %best: f64):
  %v = get %b, %i
  %c = lt %v, %best
  %next = select %c, %v, %best
  %j = add %i, %one
  %more = lt %j, %n
  branch %more, ^loop(%j, %next), ^exit(%next)
^exit(%r: f64):
  %total = add %sum, %r
  %l = add %k, %one
  %again = lt %l, %n
  branch %again, ^outer(%l, %total), ^end(%total)
^end(%result: f64):
  return %result
}}
"""


def rewritten(text: str) -> bool:
    return last_choice(parse_module(text))


def test_a_choice_among_elements_of_an_argument_is_rewritten():
    assert rewritten(NEAREST.replace("get %b,", "get %a,").format(array=""))


def test_a_choice_among_elements_of_scratch_stays():
    """Its cotangent would be scattered into the scratch array's, which then is not kept in lanes."""
    assert not rewritten(NEAREST.format(array="  %b = mul %a, %a"))


def test_a_choice_in_hundreds_of_steps_stays():
    """It is not followed to its end: a loop with 750 branches overflowed Python's stack."""
    steps = ["%n0 = select %c, %v, %best", *(f"%n{i} = select %c, %v, %n{i - 1}" for i in range(1, 2000))]
    text = NEAREST.replace("get %b,", "get %a,").replace("  %next = select %c, %v, %best", "\n".join(steps))
    assert not rewritten(text.replace("%next", "%n1999").format(array=""))


def nearest_image(points: Any, centres: Any, size: float) -> float:
    """The condition inside is computed again too: the way to the chosen value depends on data."""
    total = 0.0
    for i in range(len(points)):
        best = np.inf
        for c in range(len(centres)):
            if c % 5 == 4:
                continue
            d = 0.0
            for k in range(points.shape[1]):
                x = abs(points[i, k] - centres[c, k])
                if x > size / 2:
                    x = size - x
                d += x * x
            if d < best:
                best = d
        total += best ** 0.5
    return total


def given_up(points: Any, centres: Any, size: float) -> float:
    """The inner loop ends where the sum is too large: it depends on the smallest so far, and stays."""
    total = 0.0
    for i in range(len(points)):
        best = size * 100.0
        for c in range(len(centres)):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[c, k]) ** 2
                if d >= best:
                    break
            if d < best:
                best = d
        total += best
    return total


def rows(points: Any, centres: Any, size: float) -> float:
    """The value is that of arrays which an iteration makes."""
    total = 0.0
    for p in points:
        best = 0.0
        for c in centres:
            overlap = np.minimum(p, c).sum() / size
            if overlap > best:
                best = overlap
        total += best * best
    return total


def values_ahead(points: Any, centres: Any, size: float) -> float:
    """Elements at indices that are elements, a few for each choice, in loops that are unrolled."""
    index = np.array([2, 0, 1, 1, 0, 2, 1, 2, 0, 0, 1, 2]).reshape(3, 4)
    value = centres[:, 0]
    for _ in range(3):
        new = np.empty(3)
        for s in range(3):
            best = -np.inf
            for a in range(4):
                q = points[s, 0]
                for b in range(2):
                    q += points[s, b] * value[index[s, a] - b] * size
                best = max(best, q)
            new[s] = best
        value = new
    return value.mean()


@pytest.mark.slow
@pytest.mark.parametrize("f", [nearest_image, given_up, rows, values_ahead], ids=lambda f: f.__name__)
@pytest.mark.parametrize("fastmath", [False, True])
def test_gradients_of_choices_around_inner_loops(f: Callable[..., float], fastmath: bool) -> None:
    rng = np.random.default_rng(3)
    args = rng.random((9, 5)), rng.random((3, 5)) if f is values_ahead else rng.random((7, 5)), 0.9
    value, grads = jit(f, grad=(0, 1, 2), fastmath=fastmath).value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-12)
    for k, g in enumerate(grads):
        along = rng.normal(size=np.shape(args[k]))
        ahead, back = (f(*args[:k], args[k] + h * along, *args[k + 1:]) for h in (1e-6, -1e-6))
        assert np.sum(g * along) == pytest.approx((ahead - back) / 2e-6, rel=1e-6, abs=1e-8)
    moved = jvp(f, args, args)[1]
    assert moved == pytest.approx(sum(np.sum(g * a) for g, a in zip(grads, args)), rel=1e-9)


def test_the_last_choice_around_an_inner_loop_is_found() -> None:
    """Otherwise these tests would test nothing."""
    args = np.ones((9, 5)), np.ones((7, 5)), 0.9
    for f, expected in ((nearest_image, True), (rows, True), (given_up, False)):
        text = jit(f, grad=(0, 1)).value_and_grad.inspect("optimized", *args)
        assert ("^chosen" in text) == expected, f.__name__


def at_index(points: Any, centres: Any, size: float) -> float:
    """An integer element is read in the chosen iteration, which is computed without a branch."""
    index = np.arange(9) % 7
    total = 0.0
    for k in range(points.shape[1]):
        best = 0.2
        for i in range(9):
            v = centres[index[i], k] * size
            if v < best:
                best = v
        total += best
    return total


def test_the_index_of_a_chosen_element_is_an_integer() -> None:
    rng = np.random.default_rng(5)
    args = np.ones((9, 5)), rng.random((7, 5)), 0.9
    value, grads = jit(at_index, grad=(1, 2)).value_and_grad(*args)
    assert value == pytest.approx(at_index(*args), rel=1e-12)
    lowest = np.where(args[1].min(0) * 0.9 < 0.2, args[1].min(0), 0.0)
    assert grads[1] == pytest.approx(lowest.sum())
    assert grads[0] == pytest.approx(0.9 * ((args[1] == args[1].min(0)) & (lowest > 0.0)))
