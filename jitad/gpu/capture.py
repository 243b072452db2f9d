"""CUDA graphs: the work of a call is recorded once and queued again as a whole, without Python in between.

While work is recorded, memory comes from another stream.  What is freed meanwhile belongs to the graph, since each
replay uses it again; results belong to their arrays.  Arrays of the host that are uploaded are copied, and each replay
uploads the copy again.  What needs an answer from the device cannot be recorded, except for checks of errors
(``checks``), which ``Graph.check`` makes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DeviceError
from .cuda import CudaDriver
from .drivers import driver_of

Check = Callable[[], None]


class Recording:
    """The resources of a graph: device memory, copies of host memory, and checks that are made later."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver
        self.stream = driver._call("cuStreamCreate", 0)
        self._freed: list[int] = []
        self.kept_alive: list[Any] = []                      # what the kernels read and write in each replay
        self.runtime: Any = None
        self._pinned: list[Any] = []                         # copies of arrays of the host
        self.checks: list[Check] = []

    def allocate(self, size: int) -> int:
        address = self.driver._allocate(size, size, self.stream)
        self.driver._call("cuStreamSynchronize", self.stream)
        return address

    def frees(self, address: int) -> None:
        """Takes over memory that is freed while work is recorded, which may use it."""
        self._freed.append(address)

    def keep(self, objects: Any) -> None:
        """Keeps arrays that the recorded work uses."""
        self.kept_alive.append(objects)

    def kept(self, source: int, size: int) -> int:
        """The address of a copy of the host's memory, which the device can read by itself in each replay."""
        found = self.driver._call("cuMemHostAlloc", size, 0, doing=f"{size} bytes of pinned memory")
        self._pinned.append(found)
        ctypes.memmove(int(found), source, size)
        return int(found)

    def close(self) -> None:
        self.kept_alive.clear()
        self.runtime = None
        while self._pinned:
            self.driver._call("cuMemFreeHost", self._pinned.pop())
        while self._freed:
            self.driver.free(self._freed.pop())


class Graph:
    """Recorded work.  A call queues it; ``result`` is what the recorded function returned, and is overwritten then."""

    def __init__(self, driver: CudaDriver, graph: Any, result: Any, recording: Recording) -> None:
        self.driver, self.result, self._recording = driver, result, recording
        self._graph = driver._call("cuGraphInstantiate", graph, 0, doing="making a graph")
        driver._call("cuGraphDestroy", graph)

    def __call__(self) -> Any:
        self.driver._enter()
        self.driver._call("cuGraphLaunch", self._graph, self.driver.stream, doing="launch of a graph")
        return self.result

    def check(self) -> None:
        """Waits for the device; raises the exception that a kernel has raised in the last replay."""
        self.driver.synchronize()
        for check in self._recording.checks:
            check()

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "_graph") and not is_ending() and self.driver.usable:
            self.driver._enter()
            self.driver._wait()
            self.driver._call("cuGraphExecDestroy", self._graph)
            self._recording.close()


@contextmanager
def recording(driver: CudaDriver) -> Iterator[Recording]:
    """A context in which the work of the driver is recorded on its stream, and not done."""
    if driver.capture is not None:
        raise DeviceError("a graph is being recorded already")
    driver.synchronize()
    made = Recording(driver)
    mode = driver.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    driver._call("cuStreamBeginCapture", driver.stream, mode, doing="recording a graph")
    driver.capture = made
    try:
        yield made
    finally:
        driver.capture = None


def record(driver: CudaDriver, run: Callable[[], Any]) -> Graph:
    """A graph of the work that ``run()`` queues; it has to have been run before, so that its kernels are loaded."""
    made = None
    try:
        with recording(driver) as made:
            result = run()
    except BaseException:
        if made is not None:
            status, graph = driver.cuda.cuStreamEndCapture(driver.stream)
            if not status and graph:
                driver._call("cuGraphDestroy", graph)
            made.checks.clear()
            made.close()
        raise
    return Graph(driver, driver._call("cuStreamEndCapture", driver.stream, doing="recording a graph"), result, made)


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
