"""The ``; run:`` lines of all file tests hold for kernels in the simulator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.program import compile_program
from jitad.lowering.math.options import Options

from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.gpu.simulated import SimulatedDriver
from jitad.ir.graph import Module
from jitad.ir.types import Array, Type, dtype_of
from tests.gpu.programs import downloaded, uploaded
from tests.ir import filetest
from tests.ir.test_filetests import FILES

pytestmark = pytest.mark.any_level

LEFT_OUT = {"verify", "structure", "loop_verify", "loop_print"}


def on_device(driver: SimulatedDriver, module: Module, name: str, args: list[Any]) -> list[Any]:
    """The results of one function."""
    program = compile_program(module, name, Options())
    kinds = module.functions[name].param_types
    given = [uploaded(driver, _argument(x, t)) for x, t in zip(args, kinds, strict=True)]
    return [downloaded(driver, x) for x in program.run(driver, given)]


def _argument(x: Any, t: Type) -> Any:
    return np.array(x, dtype_of(t).np, order="C") if isinstance(t, Array) else dtype_of(t).np.type(x)


def _module(test: filetest.FileTest) -> Module | None:
    """A file's module after its passes, unless something in it has still to be made."""
    if not test.runs or LEFT_OUT & {*test.passes}:
        return None
    module = test.module()
    for name in test.passes:
        if name in PASSES_BY_NAME:
            PASSES_BY_NAME[name](module)
    ready = module.derived.keys() <= module.functions.keys() and filetest.in_place(module)
    return module if ready else None


@pytest.mark.long
@pytest.mark.parametrize("folder", sorted({path.parent.name for path in FILES}))
def test_run_lines(folder: str) -> None:
    driver = SimulatedDriver(checked=True)
    for path in FILES:
        test = filetest.read(path) if path.parent.name == folder else None
        if test is not None and (module := _module(test)) is not None:
            filetest.check_runs(test, module, [partial(on_device, driver)])


@pytest.mark.slow
def test_most_files_are_run() -> None:
    assert sum(_module(filetest.read(path)) is not None for path in map(Path, FILES)) > 60
