"""Launches of nests whose threads can access 16 bytes at once (``kernels/wide.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..image import Kernel
from ..kernels.wide import BYTES
from .launches import MOST_GRID, MapLaunch, blocks_for
from .runtime import Runtime, arguments


@dataclass(frozen=True)
class WideLaunch:
    """Runs a nest: takes what a ``MapLaunch`` takes.

    ``count``: the elements of a thread.  ``arrays``: the captured values that are arrays in the order of the loops.
    ``narrow``: the launch if they are not as large as the nest, or do not begin at multiples of 16 bytes.
    """

    kernel: Kernel
    count: int
    arrays: tuple[int, ...]
    narrow: MapLaunch

    def __call__(self, rt: Runtime, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
                 ) -> Sequence[Any]:
        shape = tuple(bounds[1::3])
        for k in self.arrays:
            a = captured[k]
            if a.address % BYTES or a.shape != shape or a.strides is not None:
                return self.narrow(rt, bounds, carried, captured)
        count = prod(shape)
        if count > 0:
            grid = blocks_for(-(-count // self.count), self.kernel.block, MOST_GRID)
            rt.driver.launch(rt.loaded, self.kernel, grid, [rt.status, count, *arguments(captured)])
        return ()
