"""NVIDIA's driver as a stand-in whose kernels the simulator runs: all of ``target="cuda"``, without a GPU.

``JITAD_TEST_DEVICE=1`` (``make test-gpu``) takes the real device instead.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from jitad.lowering.gpu.driver import Driver
from jitad.lowering.gpu.image import Image, Kernel
from jitad.lowering.simulator import code
from jitad.lowering.simulator.launch import launch

from jitad import compiler
from jitad.gpu import bindings, cublas
from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import driver_of, using
from tests.gpu.fake_cuda import CUresult, Device

ILLEGAL_ADDRESS = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
REAL = os.environ.get("JITAD_TEST_DEVICE") == "1"
_TYPES = {"ptr": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
          "i8": ctypes.c_int8, "i1": ctypes.c_bool, "f64": ctypes.c_double, "f32": ctypes.c_float}


class SimulatedCuda(Device):
    """``compile`` is given to ``CudaDriver``: it makes code for the simulator, and PTX that only names the kernels."""

    def __init__(self, memory: int = 1 << 28) -> None:
        super().__init__(memory)
        self.known: dict[str, tuple[Kernel, code.Loaded]] = {}

    def compile(self, image: Image, arch: str) -> str:
        loaded = code.load(image, level=compiler.llvm_level())
        for kernel in image.kernels:
            self.known[kernel.name] = kernel, loaded
            self.kernels[kernel.name] = self._runner(kernel, loaded)
        return "\n".join([f".target {arch}", *(f".visible .entry {k.name}(" for k in image.kernels)])

    def _runner(self, kernel: Kernel, loaded: code.Loaded) -> Any:
        def run(device: Device, grid: int, *args: Any) -> None:
            launch(loaded, kernel, grid, [x or 0 for x in args])
        return run

    def kinds(self, name: str) -> list[Any]:
        return [_TYPES[kind] for kind in self.known[name][0].params]


@contextmanager
def device(memory: int = 1 << 28) -> Iterator[Driver]:
    """A context in which ``target="cuda"`` has a stand-in, or the real device.

    The stand-in has no cuBLAS: the library may be installed, with PyTorch for example, but it needs a real device.
    """
    if REAL:
        yield driver_of("cuda")
        return
    cuda = SimulatedCuda(memory)
    driver = CudaDriver(bindings.load(lambda: cuda), cuda.compile)
    driver.debug = False
    with pytest.MonkeyPatch.context() as patch, using("cuda", driver):
        patch.setenv("JITAD_GPU_ARENA", "8")                 # MiB
        patch.setattr(cublas, "library", lambda: None)
        yield driver
