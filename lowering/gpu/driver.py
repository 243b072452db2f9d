"""The interface of a device: memory, transfers, launches.  Host programs (``program``) are written against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .image import Image, Kernel


@dataclass(frozen=True)
class DeviceBuffer:
    """An array in a device's memory, in C order."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """The number of bytes."""
        count = 1
        for n in self.shape:
            count *= n
        return count * self.dtype.itemsize


class Driver(Protocol):
    """A device, and one stream of it: all calls take effect in the order in which they are made."""

    arch: str
    """``"sm_90"``; the simulator's is ``"sim"``."""
    capture: Any
    """The recording, if work is recorded now and not done: ``checks`` are made when it has been done, ``runtime`` is
    that of the programs that cannot fail, or None."""

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes; raises ``MemoryError``."""

    def free(self, address: int) -> None:
        """Release what ``allocate`` returned, after the work that was launched before."""

    def upload(self, address: int, source: np.ndarray) -> None: ...

    def download(self, target: np.ndarray, address: int) -> None:
        """Fill ``target`` from the device; waits for the work that was launched before."""

    def copy(self, target: int, source: int, size: int) -> None: ...

    def fill(self, address: int, byte: int, size: int) -> None: ...

    def load(self, image: Image) -> Any:
        """A loaded module."""

    def launch(self, loaded: Any, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int = 0) -> None: ...

    def synchronize(self) -> None: ...
