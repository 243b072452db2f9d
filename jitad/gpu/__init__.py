"""GPUs: drivers, arrays in device memory, and calls of ``jit(target="cuda")`` and ``jit(target="cuda-sim")``.

The interface to a device is ``lowering.gpu.driver.Driver``; the code that runs there is made in ``lowering/gpu``.
Imported by ``api`` when a function of such a target is first called; imports the whole compiler.
Files, in reading order::

    bindings    NVIDIA's driver through cuda-python: loading it, its errors
    launching   arguments of kernels as the driver reads them
    cuda        the driver of NVIDIA's GPUs
    cublas      NVIDIA's library for products of matrices
    capture     CUDA graphs
    simulated   the driver of the simulator (``lowering/simulator``)
    recording   a driver for tests, which records and checks calls
    drivers     the driver of each target
    dlpack      arrays exchanged with other libraries
    strided     copies between arrays of any strides
    arrays      arrays in device memory
    compiled    a function compiled for a device, for one signature
    dispatch    the Python side of a function that runs on a device
    operations  arithmetic of device arrays
    assembling  the device's own instructions, by ptxas and nvdisasm
    graphs      graphs of calls, as users make them
"""

from __future__ import annotations

from .arrays import DeviceArray, asarray, empty
from .graphs import graph, synchronize

__all__ = ["DeviceArray", "asarray", "empty", "graph", "synchronize"]
