"""Runs jitted functions on the simulated device, where each access to memory is checked."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from typing import Any

from jitad.lowering.gpu.host.runtime import release_idle

from jitad.frontend.columns.pack import returned
from jitad.gpu.dispatch import on_host
from jitad.gpu.drivers import using
from jitad.gpu.simulated import SimulatedDriver


@cache
def checked() -> SimulatedDriver:
    """The device of all calls."""
    return SimulatedDriver(checked=True)


class OnDevice:
    """A function of ``jit(target="cuda-sim")``; its results have NumPy arrays, and nothing is left on the device."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    def __call__(self, *args: Any) -> Any:
        release_idle(checked())
        before = checked().memory.count
        with using("cuda-sim", checked()):
            try:
                results = returned(on_host(self.fun(*args)), (args, {}))      # on_host packs trees
            except Exception as error:
                error.__traceback__ = None               # its frames hold arrays
                self._nothing_left(before)
                raise
        self._nothing_left(before)
        return results

    def _nothing_left(self, before: int) -> None:
        release_idle(checked())
        if checked().memory.count > before:
            gc.collect()                                 # reference cycles may hold results
        left = checked().memory.count - before
        assert left <= 0, f"{left} arrays are left on the device"
