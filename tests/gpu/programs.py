"""Programs compiled for a device: their kernels, and their results compared with the interpreter of the IR."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jitad.lowering.gpu.driver import DeviceBuffer, Driver
from jitad.lowering.gpu.host.device_array import DeviceArray
from jitad.lowering.gpu.host.runtime import release_idle
from jitad.lowering.gpu.program import DeviceProgram, compile_program
from jitad.lowering.math.options import Options

from jitad import pipeline
from jitad.compiler_threads import with_room
from jitad.gpu.simulated import SimulatedDriver
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.reference import program_for
from tests.loop_level.running import outcome, same


@dataclass
class Case:
    """A function for a device: its optimized IR, its arguments, its program."""

    module: Module
    root: str
    given: Sequence[Any]
    program: DeviceProgram


def compiled(fun: Callable[..., Any], *args: Any, **options: Any) -> Case:
    """The case of a Python function, jitted or not."""
    def made() -> Case:
        traced, given = program_for(fun, args, {})
        pipeline.run(traced.module, [traced.root], gpu=True)
        program = compile_program(traced.module, traced.root, Options(), instrumented=True, **options)
        return Case(traced.module, traced.root, given, program)
    return with_room(made)


def compare(case: Case, driver: Driver, rtol: float = 1e-9, one_wrong: bool = False) -> None:
    """Asserts that a device gives what the interpreter of the IR gives, leaves the arguments as they were, and keeps no
    memory.

    Of several wrong indices a device tells any; ``one_wrong``: there is one at most.
    """
    release_idle(driver)
    before = driver.memory.count if isinstance(driver, SimulatedDriver) else 0
    want = outcome(lambda: Interpreter(case.module, in_place=True).run(case.root, copy.deepcopy(case.given)))
    given = [uploaded(driver, x) for x in case.given]
    got = outcome(lambda: [downloaded(driver, x) for x in with_room(lambda: case.program.run(driver, given))])
    if isinstance(got, IndexError) and isinstance(want, IndexError) and not one_wrong:
        got, want = (IndexError(re.sub(r"^index -?\d+ ", "an index ", str(x))) for x in (got, want))
    assert same(got, want, rtol), f"the device gives {got!r}, the IR {want!r}"
    for on_device, x in zip(given, case.given):
        if isinstance(on_device, DeviceBuffer):
            assert np.array_equal(downloaded(driver, on_device), x, equal_nan=x.dtype.kind == "f")
    release_idle(driver)
    if isinstance(driver, SimulatedDriver):
        assert driver.memory.count == before, "memory of the device is not released"


def uploaded(driver: Driver, x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    address = driver.allocate(max(x.nbytes, 1))
    if x.nbytes:
        driver.upload(address, np.ascontiguousarray(x))
    return DeviceBuffer(address, x.shape, x.dtype)


def downloaded(driver: Driver, x: Any) -> Any:
    if not isinstance(x, (DeviceBuffer, DeviceArray)):
        return np.asarray(x)[()]
    out = np.empty(x.shape, x.dtype)
    if out.nbytes:
        driver.download(out, x.address)
    if isinstance(x, DeviceArray):
        assert x.owner is not None
        x.owner.release()
    else:
        driver.free(x.address)
    return out
