"""Random IR programs have the same meaning before and after each pass, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke

from jitad import pipeline
from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.ir.text import parse_module, print_module
from jitad.ir.verify import verify
from tests.ir import irgen

SEEDS = range(24)
KINDS = [(seed, False) for seed in SEEDS] + [(seed, True) for seed in range(100, 112)]     # (seed, arrays of size 3)
ROOTS = ["main"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(PASSES_BY_NAME.keys() - {"differentiate"}))
def test_each_pass_keeps_the_meaning(name: str) -> None:
    for seed, small in KINDS:
        m, args = irgen.generate(seed, small=small), irgen.arguments(seed, small=small)
        before = irgen.outcome(m, args)
        PASSES_BY_NAME[name](m)
        verify(m, linear=name == "copy_insertion")
        assert irgen.same(before, irgen.outcome(m, args)), (name, seed)
        text = print_module(m)
        assert print_module(parse_module(text)) == text


@pytest.mark.long
@pytest.mark.parametrize("seed, small", KINDS)
def test_the_pipeline_keeps_the_meaning(seed: int, small: bool) -> None:
    """Interpreted with arrays as values, in place, and compiled."""
    m, args = irgen.generate(seed, statements=12, small=small), irgen.arguments(seed, small=small)
    before = irgen.outcome(m, args)
    pipeline.run(m, ROOTS)
    assert irgen.same(before, irgen.outcome(m, args))
    assert irgen.same(before, irgen.outcome(m, args, in_place=True))
    assert irgen.same(before, _compiled(m, args), rtol=1e-9)


def _compiled(m: Module, args: list[Any], name: str = "main") -> irgen.Outcome:
    try:
        return invoke(m, name, args)
    except (ValueError, IndexError, ZeroDivisionError) as e:
        return type(e).__name__, str(e)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed, small", KINDS)
def test_reverse_forward_and_differences_agree(seed: int, small: bool) -> None:
    """The derivative of a smooth random program in one random direction, three ways."""
    m, args = irgen.generate(seed, smooth=True, small=small), irgen.arguments(seed, small=small)
    wrt = [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]
    vjp, jvp = m.derive("main", "vjp", wrt), m.derive("main", "jvp", wrt)
    pipeline.run(m, ["main", vjp, jvp])
    rng = np.random.default_rng(seed)
    direction = [rng.normal(size=np.shape(args[i])) for i in wrt]

    def along(t: float) -> list[Any]:
        moved = list(args)
        for i, d in zip(wrt, direction):
            moved[i] = args[i] + t * d
        return moved

    def value(t: float) -> list[Any]:
        return Interpreter(m).run("main", along(t))

    outputs = value(0.0)
    weights = [rng.normal(size=np.shape(y)) for y in outputs]
    h = 1e-6
    slopes = [(a - b) / (2 * h) for a, b in zip(value(h), value(-h))]
    expected = _dot(weights, slopes)
    one_sided = [_dot(weights, [(a - b) / h for a, b in zip(value(s), value(s - h))]) for s in (h, 0.0)]
    if not np.isclose(*one_sided, rtol=1e-3, atol=1e-3):
        pytest.skip("a kink lies within the step")
    for run in (_interpreted(m), _native(m)):
        forward = _dot(weights, run(jvp, [*args, *direction])[len(outputs):])
        backward = _dot(direction, run(vjp, [*args, *weights])[len(outputs):])
        assert np.isclose(forward, backward, rtol=1e-8, atol=1e-8)
        assert np.isclose(forward, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.long
@pytest.mark.parametrize("seed, small", [(seed, seed >= 100) for seed in (*range(10), *range(100, 105))])
def test_second_derivatives_agree(seed: int, small: bool) -> None:
    """Forward over reverse against reverse over reverse (a Hessian is symmetric) and against differences."""
    m, args = irgen.generate(seed, 6, smooth=True, small=small), irgen.arguments(seed, small=small)
    wrt = [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]
    gradient = m.derive("main", "vjp", wrt)
    forward, backward = m.derive(gradient, "jvp", wrt), m.derive(gradient, "vjp", wrt)
    pipeline.run(m, ["main", gradient, forward, backward])
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=np.shape(y)) for y in Interpreter(m).run("main", args)]
    n = len(weights)
    d, c = ([rng.normal(size=np.shape(args[i])) for i in wrt] for _ in range(2))

    def gradients(t: float) -> list[Any]:
        moved = list(args)
        for i, x in zip(wrt, d):
            moved[i] = args[i] + t * x
        return Interpreter(m).run(gradient, [*moved, *weights])[n:]

    h = 1e-6
    sides = [_dot(c, [(a - b) / h for a, b in zip(gradients(s), gradients(s - h))]) for s in (h, 0.0)]
    if not np.isclose(*sides, rtol=1e-3, atol=1e-3):
        pytest.skip("a kink lies within the step")
    zeros = [np.zeros_like(w) for w in weights]
    for run in (_interpreted(m), _native(m)):
        pushed = _dot(c, run(forward, [*args, *weights, *d])[2 * n + len(wrt):])
        pulled = _dot(d, run(backward, [*args, *weights, *zeros, *c])[n + len(wrt):])
        assert np.isclose(pushed, pulled, rtol=1e-8, atol=1e-8)
        assert np.isclose(pushed, np.mean(sides), rtol=2e-3, atol=2e-3)


def _interpreted(m: Module) -> Callable[[str, list[Any]], list[Any]]:
    return lambda name, args: Interpreter(m).run(name, args)


def _native(m: Module) -> Callable[[str, list[Any]], list[Any]]:
    return lambda name, args: invoke(m, name, args)


def _dot(xs: list[Any], ys: list[Any]) -> float:
    return float(sum(np.sum(np.multiply(x, y)) for x, y in zip(xs, ys, strict=True)))
