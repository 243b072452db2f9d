"""Graphs of calls: a sequence of calls is recorded once, and replayed without Python in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import DeviceError
from . import operations  # noqa: F401  (gives arrays their methods)
from .capture import Graph, record
from .cuda import CudaDriver
from .drivers import driver_of


def graph(fun: Callable[..., Any], *args: Any) -> Graph:
    """A CUDA graph of ``fun(*args)``, any Python function that calls functions of ``jit(target="cuda")``.

    ``fun`` is called twice: once to compile what it calls, and once to record its kernels.  Each call of the graph
    queues them again, on the same memory: device arrays among the arguments and in ``graph.result`` are read and
    written anew, while NumPy arrays and numbers keep the values that they had.  ``graph.check()`` waits, and raises the
    exception of a kernel.  A function whose course depends on results of the device cannot be recorded.  No other
    thread may use the device meanwhile.
    """
    driver = driver_of("cuda")
    if not isinstance(driver, CudaDriver):
        raise DeviceError("graphs are recorded by NVIDIA's driver, not by a driver for tests")
    fun(*args)
    return record(driver, lambda: fun(*args))


def synchronize(target: str = "cuda") -> None:
    """Waits until the device has done all work of this process."""
    driver_of(target).synchronize()
