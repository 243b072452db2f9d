"""The theorems of Abadi and Plotkin, *A Simple Differentiable Programming Language* (2020), on random programs.

They concern the reference semantics, and the agreement of compiled code with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke

from jitad import pipeline
from jitad.ad import differentiate
from jitad.calling.signature import signature
from jitad.compiler import traced
from jitad.cps import to_cps
from jitad.frontend.captured.options import Options
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.ir.types import is_float
from jitad.passes.cleanup.dce import dce
from jitad.semantics.differentiate import reverse
from jitad.semantics.evaluate import Evaluator
from jitad.semantics.primitives import is_float as is_float_value
from jitad.semantics.symbolic import play, record
from jitad.semantics.trace import Trace
from tests.ir import irgen

pytestmark = pytest.mark.any_level

FLOATS = tuple(i for i, t in enumerate(irgen.MAIN) if is_float(t))


def like(rng: np.random.Generator, xs: Sequence[Any]) -> list[Any]:
    return [rng.normal(size=np.shape(x)) if np.shape(x) else float(rng.normal()) for x in xs]


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(sum(np.sum(np.multiply(x, y)) for x, y in zip(xs, ys, strict=True)))


def floats(args: Sequence[Any]) -> list[Any]:
    return [np.array(args[i])[()] for i in FLOATS]


def trace_of(module: Module, args: Sequence[Any]) -> Trace:
    """The trace of ``main`` at a point."""
    point = [np.array(x)[()] for x in args]
    with np.errstate(all="ignore"):
        return record(lambda x: Evaluator(module).evaluate("main", x), point)


@pytest.mark.parametrize("seed", range(40))
def test_the_trace_is_the_program_near_the_point(seed: int) -> None:
    """Evaluating the trace equals evaluating the program, at the point and around it."""
    module, args = irgen.generate(seed, smooth=True), irgen.arguments(seed)
    trace = trace_of(module, args)
    assert all(is_float_value(x) for x in trace.inputs)
    for step in (0.0, 1e-7, -1e-7):
        near = [x + step if i in FLOATS else x for i, x in enumerate(args)]
        with np.errstate(all="ignore"):
            assert irgen.same(play(trace, floats(near)), irgen.outcome(module, near), 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_forward_is_reverse_transposed(seed: int) -> None:
    """δtᵀ·F{e}(s, δs) = R{e}(s, δt)·δs, where F is R twice; and both agree with the compiler."""
    module, args = irgen.generate(seed, smooth=True), irgen.arguments(seed)
    vjp, jvp = (module.derive("main", kind, FLOATS) for kind in ("vjp", "jvp"))
    rng = np.random.default_rng(seed)
    y = Evaluator(module).run("main", args)
    ds, dt = like(rng, [args[i] for i in FLOATS]), like(rng, y)
    forward = Evaluator(module).run(jvp, [*args, *ds])
    backward = Evaluator(module).run(vjp, [*args, *dt])
    assert irgen.same(forward[:len(y)], y) and irgen.same(backward[:len(y)], y)
    assert np.isclose(dot(dt, forward[len(y):]), dot(backward[len(y):], ds), rtol=1e-9, atol=1e-9)
    to_cps(module)
    differentiate(module)
    assert irgen.same(Interpreter(module).run(jvp, [*args, *ds]), forward, 1e-9)
    assert irgen.same(Interpreter(module).run(vjp, [*args, *dt]), backward, 1e-9)


def higher(seed: int, modes: str, arrays: bool) -> tuple[Module, list[tuple[str, list[Any]]]]:
    """A random program and its derivatives by these modes, one over the other, each with arguments."""
    module = irgen.generate(seed, statements=5, smooth=True, arrays=arrays)
    args, rng, name = irgen.arguments(seed, arrays), np.random.default_rng(seed), "main"
    wrt = FLOATS if arrays else FLOATS[:2]
    asked = [(name, args)]
    for mode in modes:
        y = Evaluator(module).run(name, args)
        name = module.derive(name, {"r": "vjp", "f": "jvp"}[mode], wrt)
        args = [*args, *like(rng, y if mode == "r" else [args[i] for i in wrt])]
        asked.append((name, args))
    return module, asked


@pytest.mark.parametrize("modes", ["rrr", "rfr", "frf", "ffr"])
@pytest.mark.parametrize("seed", range(6))
def test_every_derivative_to_order_three(seed: int, modes: str) -> None:
    """The derivatives by ``ad`` agree with the semantics for all nestings of modes."""
    module, asked = higher(seed, modes, arrays=seed % 2 == 0)
    meant = [Evaluator(module).run(name, args) for name, args in asked]
    to_cps(module)
    differentiate(module)
    dce(module, [name for name, _ in asked])              # unused values may read undefined ones
    for (name, args), results in zip(asked, meant):
        assert irgen.same(Interpreter(module).run(name, args), results, 1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 23))
def test_machine_code_to_order_three(seed: int) -> None:
    module, asked = higher(seed, "rfr", arrays=False)
    meant = [Evaluator(module).run(name, args) for name, args in asked]
    pipeline.run(module, [name for name, _ in asked])
    for (name, args), results in zip(asked, meant):
        assert irgen.same(invoke(module, name, args), results, 1e-7), name


def recurrence(x: Any, n: int) -> float:
    s = 0.0
    for i in range(n):
        s = np.sin(s * x[i % len(x)]) + 0.5
    return s


def steps(inputs: int, n: int) -> tuple[int, int]:
    """The number of steps in the trace of ``recurrence``, and in that of its derivative."""
    sig, leaves = signature((np.ones(inputs), n), {}, frozenset(), False)
    program = traced(recurrence, sig, Options())
    point = [np.array(x)[()] for x in leaves]
    trace = record(lambda x: Evaluator(program.module).evaluate(program.root, x), point)
    return len(trace.steps), len(reverse(trace, [0]).steps)


@pytest.mark.slow
def test_the_derivative_of_a_trace_is_a_constant_times_as_long() -> None:
    """The ratio does not depend on the number of steps and of inputs."""
    counts = {(inputs, n): steps(inputs, n) for inputs, n in [(1, 10), (1, 100), (1, 1000), (30, 1000), (1000, 1000)]}
    lengths = {n: trace for (_, n), (trace, _) in counts.items()}
    assert lengths[1000] == 10 * lengths[100] == 100 * lengths[10]
    ratios = [derivative / trace for trace, derivative in counts.values()]
    assert max(ratios) < 4.5 and max(ratios) / min(ratios) < 1.1
