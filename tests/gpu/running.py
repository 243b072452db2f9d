"""Runs Python functions on the simulated device, where each access to memory is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jitad.lowering.gpu.driver import DeviceBuffer
from jitad.lowering.gpu.program import compile_program
from jitad.lowering.math.ops import Options

from jitad import pipeline
from jitad.big_stack import with_room
from jitad.evaluation import as_returned
from jitad.frontend.columns.pack import returned
from jitad.gpu.simulated import SimulatedDriver
from jitad.reference import program_for


class OnDevice:
    """A function, jitted or not, whose kernels the simulator runs; compiled for its first arguments."""

    def __init__(self, fun: Callable[..., Any], order: int | None = None) -> None:
        self.fun, self.order = fun, order

    def __call__(self, *args: Any) -> Any:
        return with_room(lambda: self._run(args))

    def _run(self, args: tuple[Any, ...]) -> Any:
        traced, given = program_for(self.fun, args, {})
        pipeline.run(traced.module, [traced.root], gpu=True)
        program = compile_program(traced.module, traced.root, Options())
        driver = SimulatedDriver(checked=True, order=self.order)
        results = program.run(driver, [put(driver, x) for x in given])
        return returned(as_returned(traced, [taken(driver, x) for x in results]), (args, {}))


def put(driver: SimulatedDriver, x: Any) -> Any:
    """An argument of a device program."""
    if not isinstance(x, np.ndarray):
        return x
    address = driver.allocate(x.nbytes)
    driver.upload(address, x)
    return DeviceBuffer(address, x.shape, x.dtype)


def taken(driver: SimulatedDriver, x: Any) -> Any:
    """A result of a device program, whose memory is freed."""
    if not isinstance(x, DeviceBuffer):
        return np.asarray(x)[()]
    out = np.empty(x.shape, x.dtype)
    driver.download(out, x.address)
    driver.free(x.address)
    return out
