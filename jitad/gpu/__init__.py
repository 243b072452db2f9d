"""GPUs: drivers, arrays in device memory, and calls of ``jit(target="cuda")`` and ``jit(target="cuda-sim")``.

The interface to a device is ``lowering.gpu.driver.Driver``; the code that runs there is made in ``lowering/gpu``.
Imported by ``api`` when a function of such a target is first called; imports the whole compiler.
Files, in reading order::

    bindings    NVIDIA's driver through cuda-python: loading it, its errors
    launching   arguments of kernels as the driver reads them
    cuda        the driver of NVIDIA's GPUs
    cublas      NVIDIA's library for products of matrices
    simulated   the driver of the simulator (``lowering/simulator``)
    recording   a driver for tests, which records and checks calls
    drivers     the driver of each target
    capture     CUDA graphs
    arrays      arrays in device memory, and those of other libraries
    entry       machine code that recognises calls
    compiled    a function compiled for a device, for one signature
    dispatch    the Python side of a function that runs on a device
    operations  arithmetic of device arrays
    assembling  the device's own instructions, by ptxas and nvdisasm
"""

from __future__ import annotations

from . import operations  # noqa: F401  (gives arrays their methods)
from .arrays import DeviceArray, asarray, empty
from .capture import graph
from .drivers import synchronize

__all__ = ["DeviceArray", "asarray", "empty", "graph", "synchronize"]
