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


@dataclass(frozen=True)
class Matrix:
    """A matrix in a device's memory, or ``count`` of them: the steps, in elements, from a row, a column, a matrix to
    the next."""

    address: int
    rows: int
    cols: int
    down: int
    right: int
    count: int = 1
    step: int = 0

    @property
    def along_rows(self) -> bool:
        """True if the elements of a row lie beside each other."""
        return (self.right == 1 or self.cols == 1) and (self.down >= self.cols or self.rows == 1)

    @property
    def along_cols(self) -> bool:
        return (self.down == 1 or self.rows == 1) and (self.right >= self.rows or self.cols == 1)

    @property
    def is_stored(self) -> bool:
        """True if rows, or columns, lie one after another, each without gaps."""
        return self.along_rows or self.along_cols

    @property
    def line(self) -> int:
        """The step from a row to the next, or from a column to the next if these lie without gaps."""
        if self.along_rows:
            return max(self.down if self.rows > 1 else 0, self.cols, 1)
        return max(self.right if self.cols > 1 else 0, self.rows, 1)


@dataclass(frozen=True)
class Product:
    """``out = a @ b`` of f32 or f64, or ``out += a @ b``; a driver with a library has ``product(Product)``.

    ``format``: what the library may round f32 to (``tensor_cores.FORMATS``), or "".
    """

    dtype: np.dtype
    out: Matrix
    a: Matrix
    b: Matrix
    adds: bool = False
    format: str = ""


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
