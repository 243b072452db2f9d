"""Recomputation instead of saving: ``checkpoint(f)`` and ``jit(checkpoint=…)`` change memory and time only."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled

from jitad import checkpoint, grad, hvp, interpret, jit, jvp, pipeline, value_and_grad
from jitad.calling.signature import Static, signature
from jitad.compiler import traced
from jitad.frontend.captured.options import Options
from jitad.frontend.transforms.transforms import Grad
from jitad.ir.evaluate.interp import Interpreter

W = np.array([0.5, 0.7, 0.9])


def run(fun: Any, args: tuple[Any, ...], option: Any = None) -> Interpreter:
    """The interpreter after it has run the gradient of ``fun``: its counters are the cost."""
    sig, leaves = signature(args, {}, frozenset(), False)
    program = traced(Grad(fun, 0, False), sig, Options(checkpoint=option))
    pipeline.run(program.module, [program.root], stop="adjoint")
    interpreter = Interpreter(program.module)
    given = [x for x, leaf in zip(leaves, sig.leaves) if not isinstance(leaf, Static)]
    interpreter.run(program.root, [*given, *program.consts])
    return interpreter


# --- checkpoint(f) --------------------------------------------------------------------------------

def three(x: Any) -> Any:
    return np.sin(np.sin(np.sin(x)))


def agree(f: Any, plain: Any, *args: Any) -> None:
    """Compares first and second derivatives, in both modes."""
    x, rest = args[0], args[1:]
    v = np.ones_like(x) if isinstance(x, np.ndarray) else 1.0

    def both(g: Any) -> Any:
        return jit(lambda x, *rest: (value_and_grad(g)(x, *rest), hvp(lambda x: g(x, *rest), (x,), (v,)),
                                     grad(lambda x: np.sum(grad(g)(x, *rest) * v))(x)))
    (value, slope), *second = both(f)(x, *rest)
    (value_plain, slope_plain), *second_plain = both(plain)(x, *rest)
    assert value == value_plain
    np.testing.assert_allclose(slope, slope_plain, rtol=1e-14)       # sums of a sweep are in the order of its loops
    np.testing.assert_allclose(second, second_plain, rtol=1e-12)
    np.testing.assert_allclose(second[0], second[1], rtol=1e-10)


@pytest.mark.slow
def test_values_and_derivatives_are_the_same() -> None:
    f = checkpoint(three)
    assert f(0.5) == three(0.5)
    assert jvp(f, (0.5,), (2.0,)) == jvp(three, (0.5,), (2.0,))
    agree(f, three, 0.5)
    assert grad(grad(grad(f)))(0.5) == pytest.approx(grad(grad(grad(three)))(0.5))
    assert interpret(grad(f), 0.5) == grad(three)(0.5)


def test_nothing_but_arguments_is_kept_and_each_op_runs_again() -> None:
    def steps(step: Callable[[Any], Any], x: Any, n: int) -> Any:
        for _ in range(n):
            x = step(x)
        return x
    plain = run(lambda x, n: steps(three, x, n), (0.5, 100))
    again = run(lambda x, n: steps(checkpoint(three), x, n), (0.5, 100))
    assert plain.counts["sin"] == 300
    assert again.counts["sin"] == 300 + 200                 # the reverse sweep does not need the last of three
    assert plain.counts["set"] >= 3 * again.counts["set"] == 300


def same(f: Any) -> Any:
    return f


@pytest.mark.slow
@pytest.mark.long
def test_nested_in_loops_and_recursion() -> None:
    def deep(again: Any) -> Any:
        def f(x: float, n: int) -> float:
            return x if n == 0 else again(f)(math.sin(x), n - 1)
        return f

    def loop(again: Any) -> Any:
        def f(x: float, n: int) -> float:
            for i in range(n):
                x = again(lambda y, i=i: again(three)(y) * y + i)(x)
            return x
        return f
    agree(deep(checkpoint), deep(same), 0.7, 4)
    agree(loop(checkpoint), loop(same), 0.7, 3)


@pytest.mark.slow
def test_what_it_captures_and_changes() -> None:
    def filling(again: Any) -> Any:
        def f(x: Any) -> Any:
            out = np.zeros(20)                                  # (smaller ones may be taken apart, and summed as such)

            def fill(i: int) -> Any:
                out[i] += W[i] * x[i] ** 2
                return out[i]
            total = 0.0
            for i in range(3):
                total += again(fill)(i) * out[0]
            return total * out.sum()
        return f

    def update(a: Any, s: Any) -> Any:
        a[1] = a[0] * a[1] * s
        return a.sum()

    def updating(again: Any) -> Any:
        def g(x: Any) -> Any:
            a = x.copy()
            return again(update)(a, x[2]) * again(update)(a, 2.0) * a[1]
        return g
    agree(filling(checkpoint), filling(same), W)
    agree(updating(checkpoint), updating(same), W)


# --- jit(checkpoint=True) -------------------------------------------------------------------------

def counted(x: Any, n: int) -> Any:
    for i in range(n):
        x = np.sin(x) + 0.1 * x * i
    return x


def uncounted(x: float, n: int) -> float:
    i = 0
    while i < n and x < 1e9:
        x = math.sin(x) + 0.1 * x
        i += 1
    return x


def arrays(w: Any, n: int) -> Any:
    a, b = w.copy(), np.zeros(3)
    for i in range(n):
        j = i % 3
        b[j] += a[j]
        a = np.sin(a) * w + a
        if b[0] > 3:
            b[1] = a[0]
        a[j] *= 0.5
    return (a * b).sum()


def leaving(x: float, n: int) -> float:
    s, i = 0.0, 0
    for i in range(n):
        x = math.sin(x) + 0.1
        if x < 0.3:
            continue
        s += x * i
        if s > 10:
            break
    else:
        s = s * x
    return s + i


def nested(x: float, n: int) -> float:
    total = 0.0
    for i in range(n):
        for _ in range(i):
            x = math.cos(x) * 1.01
        total += x * x
    return total


PROGRAMS: list[tuple[Any, Any]] = [(counted, 0.7), (uncounted, 0.7), (arrays, W), (leaving, 0.7), (nested, 0.6)]


@pytest.mark.parametrize("fun, x", PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_bit_for_bit_as_without(fun: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vectors: they depend on the cuts of a loop, and libmvec differs in last bits."""
    monkeypatch.setenv("JITAD_OPT", "0")
    plain, cut = (jit(fun, grad=True, checkpoint=option).value_and_grad for option in (None, True))
    for n in (0, 1, 2, 3, 7, 17, 50):
        (value, slope), (value_cut, slope_cut) = plain(x, n), cut(x, n)
        assert value == value_cut and np.array_equal(slope, slope_cut), n


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fun, x", PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_with_vectors_to_rounding(fun: Any, x: Any) -> None:
    plain, *several = (jit(fun, grad=True, checkpoint=option).value_and_grad for option in (None, 3, True))
    for n in (0, 1, 2, 3, 7, 17, 50):
        value, slope = plain(x, n)
        for cut in several:
            value_cut, slope_cut = cut(x, n)
            assert value == value_cut
            np.testing.assert_allclose(slope, slope_cut, rtol=1e-12)


@functools.cache
def fewest(m: int, c: int) -> int:
    """The least number of iterations that reverse ``m`` with ``c`` saved states, by trying all schedules."""
    if m == 1:
        return 1
    return min(p + (fewest(m - p, c - 1) if c > 1 else 1) + fewest(p, c) for p in range(1 if c > 1 else m - 1, m))


@pytest.mark.parametrize("n, c", [(1, 1), (6, 1), (10, 2), (30, 3), (60, 4)])
def test_the_binomial_schedule_is_the_best(n: int, c: int) -> None:
    for fun, forward in ((counted, n), (uncounted, 2 * n)):             # a while loop is counted first
        ran = run(fun, (0.7, n), c)
        assert ran.counts["sin"] == forward + fewest(n, c)
        assert ran.kept_frames <= 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fun, x, option", [(uncounted, 0.7, True), (uncounted, 0.7, 3), (arrays, W, True)])
def test_second_derivatives_of_cut_loops(fun: Any, x: Any, option: Any) -> None:
    v = np.ones_like(x) if isinstance(x, np.ndarray) else 1.0

    def second(x: Any) -> Any:
        forward = hvp(lambda x: fun(x, 12), (x,), (v,))
        return forward, grad(lambda x: np.sum(grad(lambda x: fun(x, 12))(x) * v))(x)
    np.testing.assert_allclose(jit(second, checkpoint=option)(x), jit(second)(x), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("fun, x", PROGRAMS[:3], ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_kept_grows_as_the_square_root(fun: Any, x: Any) -> None:
    sizes = (64, 1024)
    small, large = (run(fun, (x, n), "sqrt") for n in sizes)
    kept = [r.kept + 2 * math.sqrt(n) * (fun is counted) for r, n in zip((small, large), sizes)]
    slope = math.log(kept[1] / kept[0]) / math.log(16)
    assert 0.4 < slope < 0.6
    assert large.counts["sin"] <= 2 * run(fun, (x, 1024)).counts["sin"]


@pytest.mark.parametrize("option, low, high", [(None, 0.95, 1.05), ("sqrt", 0.4, 0.6), (8, 0.0, 0.1)])
def test_memory_of_machine_code(option: Any, low: float, high: float) -> None:
    """The bytes of the arena, with an array as the state."""
    def simulate(x: Any, n: int) -> Any:
        for _ in range(n):
            x = np.sin(x * 1.3) + 0.1 * x
        return x.sum()
    x = np.linspace(0.1, 1, 50)
    sig, _ = signature((x, 1), {}, frozenset(), False)
    program = traced(Grad(simulate, 0, False), sig, Options(checkpoint=option))
    pipeline.run(program.module, [program.root])
    gradient = Compiled(program.module, program.root)
    peaks = []
    for n in (400, 6400):
        gradient(x, n)
        peaks.append(gradient.peak)
    assert low <= math.log(peaks[1] / peaks[0]) / math.log(16) <= high


@pytest.mark.slow
def test_a_loop_that_takes_derivatives_is_cut_too() -> None:
    """Training, and the derivative of its result by the learning rate."""
    def train(rate: float, n: int) -> Any:
        w = start                                               # more elements than become scalars
        for _ in range(n):
            w = w - rate * grad(lambda w: (np.sin(w) * w + 0.1 * w ** 4).sum())(w)
        return (w * w).sum()
    start = np.linspace(0.5, 0.9, 20)
    plain, cut = run(train, (0.05, 64)), run(train, (0.05, 64), "sqrt")
    assert cut.kept_frames == 8 + 1 and plain.kept_frames == 64
    for option in (True, 3):
        assert jit(grad(train), checkpoint=option)(0.05, 20) == pytest.approx(grad(train)(0.05, 20), rel=1e-12)


def test_a_reduction_keeps_nothing_and_is_left_alone() -> None:
    def total(w: Any, x: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            s += math.tanh(w * x[i]) ** 2
        return s
    x = np.linspace(0, 1, 50)
    assert run(total, (0.5, x), "sqrt").counts["tanh"] == run(total, (0.5, x)).counts["tanh"]


@pytest.mark.slow
def test_the_loop_of_a_called_function_and_of_recursion() -> None:
    def outer(x: float, n: int) -> float:
        return counted(x, n) if n < 2 else outer(counted(x, n), n // 2) * x
    plain, cut = jit(outer, grad=True), jit(outer, grad=True, checkpoint="sqrt")
    assert plain.value_and_grad(0.3, 20) == cut.value_and_grad(0.3, 20)


def test_errors_in_a_segment_are_the_users() -> None:
    def f(x: Any, n: int) -> Any:
        a = x.copy()
        for i in range(n):
            a[i] = np.sin(a[i - 1]) * a[i]
        return a.sum()
    g = jit(f, grad=True, checkpoint=True).grad
    np.testing.assert_array_equal(g(W, 3), grad(f)(W, 3))
    with pytest.raises(IndexError):
        g(W, 4)


def test_the_option() -> None:
    for wrong in ("square", 2.5, ("binomial",), ("binomial", "x")):
        with pytest.raises(ValueError, match="it is True, 'sqrt', 'binomial'"):
            jit(three, checkpoint=wrong)
    with pytest.raises(ValueError, match="at least one state"):
        jit(three, checkpoint=0)
    assert jit(three, checkpoint=False)(0.5) == three(0.5)
