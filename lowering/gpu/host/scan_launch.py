"""Launches of the kernels of a scan (``kernels/scans.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.types import Scalar
from ..kernels.scans import TILE, ScanKernels
from ..kernels.writer import Known
from .device_array import WORD
from .launches import trip_count
from .runtime import Pending, Runtime, arguments

MOST_PARTS = 1024
"""Blocks at most, whose totals one block scans in a tile."""


@dataclass(frozen=True)
class ScanLaunch:
    """Runs a loop that carries a running total: takes (lower, upper, step), the value before it, what it captures.

    ``words``: those that the kernels keep for each part.
    """

    kernels: ScanKernels
    known: Known
    type: Scalar
    words: int = 1

    def __call__(self, rt: Runtime, bounds: Sequence[int], before: Any, captured: Sequence[Any]) -> list[Any]:
        """The total after the loop, in a list."""
        lower, upper, step = bounds
        count = trip_count(lower, upper, step)
        if not count:
            return [before]
        part = -(-count // (TILE * MOST_PARTS)) * TILE
        grid = -(-count // part)
        start = arguments([before])
        given = [x for x, known in zip((lower, step), self.known) if known is None] + arguments(captured)
        memory, place = rt.numbers(1)
        slot = memory.address + WORD * place
        partial = rt.own(WORD * self.words * grid) if grid > 1 else None
        address = partial.address if partial is not None else 0
        if partial is not None:
            rt.driver.launch(rt.loaded, self.kernels.totals, grid,
                             [rt.status, count, part, address, *start, slot, *given])
            rt.driver.launch(rt.loaded, self.kernels.offsets, 1, [rt.status, grid, grid, address, *start])
        rt.driver.launch(rt.loaded, self.kernels.scan, grid,
                         [rt.status, count, part, address, *start, slot, *given])
        return [Pending(rt, memory, place, self.type)]
