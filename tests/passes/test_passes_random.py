"""Every pass, alone and in the pipeline's order, leaves random programs valid and their results as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jitad import pipeline
from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.cps import check_cps
from jitad.ir.graph import Module
from jitad.ir.verify import verify
from tests.ir.irgen import arguments, generate, outcome, same

ALONE = ["simplify", "inline", "dce", "size_numbering", "cse", "fuse_accumulate", "copy_insertion"]
NEED_CPS = ["simplify", "inline", "dce", "size_numbering", "cse", "check_elimination", "licm", "unroll",
            "equal_sizes", "scalar_promotion", "shape_specialise", "array_sroa", "copy_insertion"]


def holds(module: Module, run_pass: Callable[[Module], None], seed: int, cps: bool, small: bool = False) -> None:
    args = arguments(seed, small=small)
    before = outcome(module, args)
    run_pass(module)
    verify(module, linear=run_pass is PASSES_BY_NAME["copy_insertion"])
    for func in module.functions.values() if cps and run_pass is not PASSES_BY_NAME["copy_insertion"] else ():
        check_cps(func)
    assert same(before, outcome(module, args), 1e-9)


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("seed", range(12))
def test_alone(name: str, seed: int) -> None:
    holds(generate(seed), PASSES_BY_NAME[name], seed, cps=False)


@pytest.mark.parametrize("name", NEED_CPS)
@pytest.mark.parametrize("seed", range(20, 32))
def test_after_cps(name: str, seed: int) -> None:
    small = name == "array_sroa"
    module = generate(seed, small=small)
    PASSES_BY_NAME["cps"](module)
    holds(module, PASSES_BY_NAME[name], seed, cps=True, small=small)


@pytest.mark.parametrize("seed", range(40, 80))
def test_whole_pipeline(seed: int) -> None:
    """After each stage; and at the end arrays can be updated in place without hurting arguments or one another."""
    module, args = generate(seed, statements=12), arguments(seed)
    before = outcome(module, args)

    def look(stage: str, module: Module) -> None:
        verify(module, linear=stage == "optimized")
        assert same(before, outcome(module, args), 1e-9)

    pipeline.run(module, ["main"], look)
    kept = [np.array(a) for a in args]
    assert same(before, outcome(module, args, in_place=True), 1e-9)
    assert all(np.array_equal(a, k) for a, k in zip(args, kept))


def test_stop_and_names() -> None:
    stages: list[str] = []
    pipeline.run(generate(3), ["main"], lambda stage, module: stages.append(stage), stop="cps")
    assert stages == ["ir", "cps"]
    assert {name for _, name, _ in pipeline.PIPELINE} <= PASSES_BY_NAME.keys()


def test_a_pass_has_the_name_of_its_file() -> None:
    files = {path.stem for path in Path(pipeline.__file__).parent.glob("passes/*/*.py")}
    files |= {"cps", "checkpoint", "initial_loads"}
    assert PASSES_BY_NAME.keys() - files == {"differentiate"}, "which is a folder, jitad/ad"
