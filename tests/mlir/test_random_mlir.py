"""Random programs and their gradients give the same as machine code from MLIR text; planted mistakes are found."""

from __future__ import annotations

import pytest

from jitad import pipeline
from tests.ir import irgen
from tests.mlir.comparing import Case, compare
from tests.mlir.tools import accept, needs_mlir


def random_cases(seeds: range) -> list[Case]:
    """A random module for each seed; every second with its gradient."""
    cases = []
    for seed in seeds:
        small, smooth = seed % 3 == 0, seed % 2 == 0
        m, args = irgen.generate(seed, statements=12, small=small, smooth=smooth), irgen.arguments(seed, small=small)
        before = irgen.outcome(m, args)
        gradient = m.derive("main", "vjp", [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]) if smooth else ""
        pipeline.run(m, ["main", *filter(None, [gradient])])
        cases.append(Case(f"seed {seed}", m, "main", args))
        if gradient and isinstance(before, list):
            cases.append(Case(f"gradient of seed {seed}", m, gradient, [*args, *before]))
    return cases


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
def test_random_programs() -> None:
    cases = random_cases(range(40))
    assert sum("@jitad_push" in c.text for c in cases) > 10
    accept(c.text for c in cases)
    compare(cases)


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
@pytest.mark.parametrize("right, wrong", [
    ("arith.addf", "arith.subf"), ("math.sin", "math.cos"), ("cmpf olt", "cmpf ogt")])
def test_planted_mistakes_are_found(right: str, wrong: str) -> None:
    planted = [c for c in random_cases(range(12)) if right in c.text]
    for c in planted:
        c.text = c.text.replace(right, wrong)
    assert any(map(differs, planted))


def differs(c: Case) -> bool:
    """True if the text means something else than the program."""
    try:
        compare([c])
    except AssertionError as e:
        return "MLIR gives" in str(e)
    return False
