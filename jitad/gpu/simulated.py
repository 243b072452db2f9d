"""The driver of the SIMT simulator (``lowering/simulator``): kernels run on this machine's processor.

Device memory is memory of this process at the very addresses.  With ``checked`` (or ``JITAD_GPU_CHECK=1``), each access
of a kernel is checked for bounds, use after free and data races.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .. import compiler
from ..errors import switched_on
from ..lowering.gpu.image import Image, Kernel
from ..lowering.simulator import code
from ..lowering.simulator.launch import launch
from ..lowering.simulator.memory import Memory


class SimulatedDriver:
    """A simulated device.

    ``checked``: by default as ``JITAD_GPU_CHECK`` says.  ``order``: the seed of a permutation in which blocks and
    threads run.  ``size``: bytes of device memory, by default what this machine has.
    """

    arch = "sim"
    capture = None

    def __init__(self, checked: bool | None = None, order: int | None = None, size: int | None = None) -> None:
        self.checked = switched_on("JITAD_GPU_CHECK") if checked is None else checked
        self.order = order
        self.memory = Memory(self.checked, size)

    def allocate(self, size: int) -> int:
        return self.memory.allocate(size)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def adopt(self, address: int, size: int) -> None:
        """Lets kernels use memory of another owner, until ``disown``."""
        self.memory.adopt(address, size)

    def disown(self, address: int) -> None:
        self.memory.disown(address)

    def upload(self, address: int, source: np.ndarray) -> None:
        self.memory.require(address, source.nbytes, "upload")
        source = np.ascontiguousarray(source)
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def download(self, target: np.ndarray, address: int) -> None:
        self.memory.require(address, target.nbytes, "download")
        if not target.flags.c_contiguous:
            raise ValueError("download to an array that is not C-contiguous")
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def copy(self, target: int, source: int, size: int) -> None:
        for address in (target, source):
            self.memory.require(address, size, "copy")
        ctypes.memmove(target, source, size)

    def fill(self, address: int, byte: int, size: int) -> None:
        self.memory.require(address, size, "fill")
        ctypes.memset(address, byte, size)

    def load(self, image: Image) -> code.Loaded:
        return code.load(image, self.checked, compiler.llvm_level())

    def launch(self, loaded: code.Loaded, kernel: Kernel, grid: int, args: Sequence[int | float],
               shared: int = 0) -> None:
        launch(loaded, kernel, grid, args, shared, self.order, self.memory)

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""
