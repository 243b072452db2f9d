"""Launches of the kernels for stores of which the last one counts (``kernels/overwrites.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..image import Kernel
from ..kernels.loops import MapKernel, Needs
from ..kernels.writer import Known
from .device_array import WORD, DeviceArray
from .launches import MapLaunch
from .runtime import Runtime

NOBODY = 255
"""The byte that fills the owners of elements to which nothing is stored: −1."""


@dataclass(frozen=True)
class OverwriteLaunch:
    """Runs a nest that stores to elements of the array that it is given as its carried value."""

    claim: MapLaunch
    store: MapLaunch

    @staticmethod
    def of(claim: Kernel, store: Kernel, loops: tuple[Known, ...]) -> OverwriteLaunch:
        first, second = (MapLaunch(MapKernel(k, None, Needs(), (), once=True), loops, {}) for k in (claim, store))
        return OverwriteLaunch(first, second)

    def __call__(self, rt: Runtime, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
                 ) -> Sequence[Any]:
        array, = carried
        count = array.count()
        if count:                                    # otherwise no iteration passes the checks before the nest
            memory = rt.own(WORD * count)
            rt.driver.fill(memory.address, NOBODY, WORD * count)
            owners = DeviceArray(memory, memory.address, (count,), None, np.dtype(np.int64))
            for launch in (self.claim, self.store):
                launch(rt, bounds, (), [array, owners, *captured])
        return ()
