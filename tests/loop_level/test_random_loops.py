"""Random IR programs mean the same at the loop level, whose text parses again."""

from __future__ import annotations

from typing import Any

import pytest

from jitad import pipeline
from jitad.ir.evaluate.meaning import STATEFUL
from jitad.ir.graph import Module
from jitad.ir.ops import OPS
from jitad.loop_level.build import COVERED, to_loops
from jitad.loop_level.interp import LoopInterpreter
from jitad.loop_level.text import parse_module, print_module
from jitad.loop_level.verify import verify
from tests.ir import irgen


def outcome(module: Module, args: list[Any], name: str = "main", backwards: bool = False) -> irgen.Outcome:
    """The results at the loop level, or the name and message of the exception."""
    try:
        return LoopInterpreter(module, backwards).run(name, args)
    except (ValueError, IndexError, ZeroDivisionError) as e:
        return type(e).__name__, str(e)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_means_the_same(seed: int) -> None:
    """Independent loops forward and backward, in the order of memory and for a device; the gradient too."""
    small = seed % 3 == 0
    m = irgen.generate(seed, statements=12, small=small, smooth=seed % 2 == 0)
    args = irgen.arguments(seed, small=small)
    wrt = [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]
    gradient = m.derive("main", "vjp", wrt) if seed % 2 == 0 else "main"
    before = irgen.outcome(m, args)
    pipeline.run(m, ["main", gradient])
    loops, kernels = to_loops(m), to_loops(m, device=True)
    for made in (loops, kernels):
        verify(made)
        text = print_module(made)
        assert print_module(parse_module(text)) == text
    for made, backwards in ((loops, False), (loops, True), (kernels, True)):
        assert irgen.same(before, outcome(made, args, backwards=backwards), rtol=1e-9)
    if gradient != "main" and isinstance(before, list):
        args = [*args, *before]
        assert irgen.same(irgen.outcome(m, args, gradient), outcome(loops, args, gradient, backwards=True), rtol=1e-9)


def test_every_op_is_covered() -> None:
    assert not OPS.keys() - COVERED, "ops that have no form at the loop level"
    assert set(STATEFUL) <= COVERED
