"""Costs of derivatives: operations and saved values are counted by the interpreter; compiled code is run at scale.

The gradient costs a constant times the value, whatever the number of steps and of inputs.  Saved values grow with
the steps of a loop that carries state, but not with those of a reduction.  Nothing is computed twice because
sharing was lost (Griewank and Walther 2008).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import jitad
from bench.compiler import complexity
from jitad import grad, jit, pipeline, value_and_grad
from jitad.calling.signature import signature
from jitad.compiler import traced
from jitad.frontend.captured.options import Options
from jitad.ir.evaluate.interp import Interpreter


def recurrence(s, w, n):
    for _ in range(n):
        s = math.sin(s * w) + w
    return s


def halve(t):
    while t > 1.0:
        t = t / 2.0
    return t


def logistic(s, w, n):
    for _ in range(n):
        s = 1.0 / (1.0 + math.exp(-s * w))
    return s


def reduction(x, w):
    total = 0.0
    for i in range(len(x)):
        total += math.tanh(w * x[i]) ** 2
    return total


def first_ten(x):
    total = 0.0
    for i in range(10):
        total += math.sin(x[i])
    return total


def fibonacci_like(x, n):
    return x if n < 2 else math.sin(fibonacci_like(x, n - 1)) * fibonacci_like(x, n - 2)


def counted(fun, *args):
    """(results, the interpreter that ran ``fun``): its counters are the cost."""
    sig, leaves = signature(args, {}, frozenset(), False)
    program = traced(fun, sig, Options())
    pipeline.run(program.module, [program.root])
    run = Interpreter(program.module)
    return run.run(program.root, leaves), run


def work(run) -> int:
    """The number of operations on elements; allocation does not count."""
    return sum(n for name, n in run.elements.items() if name not in ("const", "dim", "undef", "empty"))


def slope(sizes, costs) -> float:
    """The slope of the cost by the size, on logarithmic scales."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(costs, 1)), 1)[0])


@pytest.mark.slow
def test_gradient_is_linear_in_steps() -> None:
    sizes = (100, 1000, 10000)
    values = [work(counted(recurrence, 0.3, 1.1, n)[1]) for n in sizes]
    runs = [counted(value_and_grad(recurrence, (0, 1)), 0.3, 1.1, n)[1] for n in sizes]
    gradients = [work(r) for r in runs]
    assert slope(sizes, gradients) == pytest.approx(1.0, abs=0.02)
    assert all(g <= 6 * v for v, g in zip(values, gradients))


def test_while_keeps_one_frame_a_step() -> None:
    runs = [counted(grad(halve), 2.0 ** n)[1] for n in (100, 400)]
    assert slope((100, 400), [work(r) for r in runs]) == pytest.approx(1.0, abs=0.1)


def test_a_logistic_function_keeps_its_exponential_alone() -> None:
    """Only the exponential is saved, besides the state; the reciprocal is recomputed."""
    before, after = (counted(grad(logistic, (0, 1)), 0.3, 1.1, n)[1].elements["empty"] for n in (100, 200))
    assert after - before == 2 * 100


@pytest.mark.slow
def test_reduction_keeps_nothing() -> None:
    sizes = (100, 1000, 5000)
    kept = []
    for n in sizes:
        run = counted(value_and_grad(reduction, 1), np.linspace(-1, 1, n), 0.7)[1]
        kept.append(run.kept + run.elements["empty"] + run.elements["fill"])
    assert kept[0] == kept[-1]


@pytest.mark.parametrize("n", (10, 1000, 100_000))
def test_gradient_is_independent_of_the_number_of_inputs(n: int) -> None:
    """The ratio to the value is constant; inputs that are not read cost one zero each.

    The interpreter fills the zeros and puts them behind what is stored, which machine code does at once.
    """
    x = np.linspace(0.1, 1, n)

    def loss(x):
        return np.sum(np.sin(x) * x)
    ratio = work(counted(value_and_grad(loss), x)[1]) / work(counted(loss, x)[1])
    assert ratio <= 4
    assert work(counted(grad(first_ten), x)[1]) <= 2 * n + 40 * 10


def test_shared_values_are_differentiated_once() -> None:
    """x₁ = x + x, …, 30 times: derivative 2³¹ in operations linear in the bindings."""
    def chain(x):
        for _ in jitad.unroll(range(30)):
            x = x + x
        return x + x
    (slope_,), run = counted(grad(chain), 1.5)
    assert slope_ == 2.0 ** 31
    assert work(run) <= 200


@pytest.mark.slow
def test_the_backward_sweep_visits_each_call_once() -> None:
    calls = []
    for n in (8, 12, 16):
        value, gradient = counted(fibonacci_like, 0.5, n)[1], counted(grad(fibonacci_like), 0.5, n)[1]
        calls.append(work(gradient) / work(value))
    assert max(calls) <= 1.2 * min(calls) and max(calls) <= 8


@pytest.mark.slow
def test_a_million_steps() -> None:
    """Compiled: correct, and linear in memory (at most a float and an index per step)."""
    f = jit(recurrence, grad=("s", "w"))
    n = 1_000_000
    s, trail = 0.3, []
    for _ in range(n):
        trail.append(s)
        s = math.sin(s * 1.1) + 1.1
    s_bar, w_bar = 1.0, 0.0
    for before in reversed(trail):
        c = math.cos(before * 1.1) * s_bar
        w_bar += s_bar + c * before
        s_bar = c * 1.1
    value, (gs, gw) = f.value_and_grad(0.3, 1.1, n)
    assert value == pytest.approx(s, rel=1e-12)
    assert gs == pytest.approx(s_bar, abs=1e-12) and gw == pytest.approx(w_bar, rel=1e-9)


def test_many_inputs_compiled() -> None:
    f = jit(reduction, grad=True)
    x = np.linspace(-1, 1, 100_000)
    expected = 2 * np.tanh(0.7 * x) * (1 - np.tanh(0.7 * x) ** 2) * 0.7
    np.testing.assert_allclose(f.grad(x, 0.7), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.slow
def test_kept_bytes_of_compiled_code() -> None:
    """The arena as in ``docs/complexity.md``: proportional to the steps, to their square root, or constant."""
    sizes = (20_000, 320_000)
    cases = ((complexity.counted, None, 0.99, 1.01), (complexity.uncounted, None, 0.99, 1.01),
             (complexity.counted, "sqrt", 0.2, 0.55), (complexity.reduction, None, -0.01, 0.01))
    for fun, option, least, most in cases:
        kept = complexity.kept(fun, (0, 1), Options(checkpoint=option), [(0.3, 1.1, n) for n in sizes])
        assert least <= slope(sizes, kept) <= most, fun.__name__
