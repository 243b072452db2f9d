"""The ``; run:`` lines of all file tests hold for machine code from MLIR text.

A status tells which exception was raised, not the numbers in its message: such lines are left to other tests.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.ir.evaluate.interp import exception
from jitad.ir.graph import Module
from jitad.loop_level.build import to_loops
from jitad.mlir.text import print_mlir
from tests.ir import filetest
from tests.ir.test_filetests import FILES
from tests.mlir.running import Compiled, Status, compiled
from tests.mlir.tools import accept, needs_mlir


def loops_of(test: filetest.FileTest) -> Module | None:
    """The loop level of a file's module after its passes, unless something in it has still to be made."""
    if not test.runs:
        return None
    module = test.module()
    if test.passes[0] == "loop_print":
        return module
    for name in test.passes:
        if name not in ("print", "loops", "mlir"):
            PASSES_BY_NAME[name](module)
    ready = module.derived.keys() <= module.functions.keys() and filetest.in_place(module)
    return to_loops(module) if ready else None


def run(code: Compiled, name: str, args: list[Any]) -> list[Any]:
    """The results; raises the exception that a status names."""
    try:
        return code.run(name, args)
    except Status as status:
        raise exception(code.module.exceptions[status.args[0] - 1], (0, 0, 0, 0)) from None


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
def test_run_lines() -> None:
    tests = [test for path in FILES if (test := filetest.read(path)).passes[0] not in (
        "verify", "structure", "loop_verify") and test.passes[-1] != "gpu"]
    found = [(test, loops) for test in tests if (loops := loops_of(test)) is not None]
    assert len(found) > 50
    assert any(relation == "raises" for test, _ in found for _, _, relation, _ in test.runs)
    texts = [print_mlir(loops) for _, loops in found]
    accept(texts)
    for (test, loops), code in zip(found, compiled([loops for _, loops in found], texts)):
        test.runs = [r for r in test.runs if not (r[2] == "raises" and re.search(r"\d", r[3]))]
        filetest.check_runs(test, loops, [partial(_runner, code)])


def _runner(code: Compiled, module: Module, name: str, args: list[Any]) -> list[Any]:
    return run(code, name, args)
