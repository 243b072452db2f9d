"""Cases to measure: programs beside their peers, the bandwidth of memory, and the time that a launch takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.device import peers, programs
from bench.device.timing import seconds
from jitad import gpu, jit, pytree
from jitad.gpu.arrays import DeviceArray
from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import driver_of

TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-9}


@dataclass
class Row:
    """One line of the report; ``bytes``: read and written by a program that does no more than it has to."""

    name: str
    seconds: float
    note: str = ""
    bytes: int = 0
    peers: dict[str, float] = field(default_factory=dict)

    def text(self, bandwidth: float) -> str:
        """The time, the part of the measured bandwidth, and how much longer the peers take."""
        parts = [f"{self.name:28} {1e6 * self.seconds:12.1f} µs"]
        if self.bytes and bandwidth:
            parts.append(f"{100 * self.bytes / self.seconds / bandwidth:5.1f} % of the copy's bandwidth")
        parts += [f"{peer} {t / self.seconds:.2f}×" for peer, t in self.peers.items()]
        return "  ".join([*parts, *([self.note] if self.note else [])])


class Suite:
    """All cases for a target; ``scale`` divides the sizes, for tests."""

    def __init__(self, target: str, scale: int = 1) -> None:
        self.target, self.scale = target, scale
        self.driver = driver_of(target)
        if isinstance(self.driver, CudaDriver):
            self.driver.debug = False                # JITAD_DEBUG=1 waits for each kernel
        self.random = np.random.default_rng(1)

    def wait(self) -> None:
        self.driver.synchronize()

    def timed(self, run: Callable[[], object], wait: Callable[[], object] | None = None) -> float:
        return seconds(run, wait or self.wait, *((2, 0.0) if self.scale > 1 else ()))

    def size(self, n: int) -> int:
        return max(n // self.scale, 8)

    # --- cases ------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        yield self.copy()
        x = self.random.uniform(-2, 2, self.size(1 << 26)).astype(np.float32)
        yield self.program("curve", programs.value_and_slope, (x,), 3 * x.nbytes, "value and slope, f32")
        starts = self.random.uniform(-1, 1, (3, self.size(10**6)))
        yield self.program("lorenz", programs.lorenz_gradients, tuple(starts), 0, "gradients of 100 steps, f64")
        mean, e = self.random.uniform(0.1, 3, self.size(10**6)), self.random.uniform(0, 0.9, self.size(10**6))
        yield self.program("kepler", programs.kepler_gradients, (mean, e), 0, "gradients through `while`, f64")
        yield self.program("greeks", programs.greeks, self.options(self.size(10**6)), 0, "price and 4 Greeks, f64")
        rows = self.random.normal(size=(self.size(1 << 14), 4096)).astype(np.float32)
        yield self.program("row sums", programs.row_sums, (rows,), rows.nbytes, "f32, rows of 4096")
        yield self.program("softmax", programs.softmax, (rows,), 2 * rows.nbytes, "f32, rows of 4096")
        yield from self.overhead()

    def options(self, n: int) -> tuple[np.ndarray, ...]:
        u = self.random.uniform
        return u(80, 120, n), u(80, 120, n), u(0.1, 2, n), u(0, 0.05, n), u(0.1, 0.5, n)

    def copy(self) -> Row:
        size = self.size(1 << 30) // 8 * 8
        a, b = (gpu.empty((size // 8,), np.float64, self.target) for _ in range(2))
        self.driver.fill(a.address, 0, size)
        return Row("copy", self.timed(lambda: self.driver.copy(b.address, a.address, size)), f"{size >> 20} MiB",
                   2 * size)

    def program(self, name: str, fun: Any, args: tuple[Any, ...], size: int, note: str) -> Row:
        run = jit(fun, target=self.target)
        moved = [gpu.asarray(a, self.target) if isinstance(a, np.ndarray) else a for a in args]
        found = run(*moved)
        agree(name, found, jit(fun)(*args))
        row = Row(name, self.timed(lambda: run(*moved)), note, size)
        for peer, make in peers.PEERS[name].items():
            try:
                call, wait = make(*args)
            except (ImportError, RuntimeError) as error:        # not installed, or without a device
                row.note += f" ({peer}: {error})"
                continue
            agree(f"{name} of {peer}", call(), found)
            row.peers[peer] = self.timed(call, wait)
        return row

    def overhead(self) -> Iterator[Row]:
        """The time of a call of a small program, and of a kernel of a graph."""
        add = jit(lambda x, y: x + y, target=self.target)
        x = gpu.asarray(np.ones(32), self.target)
        yield Row("a call", self.timed(lambda: add(x, x)), "32 elements, device arrays, from Python")
        if isinstance(self.driver, CudaDriver):
            graph = gpu.graph(lambda: [add(x, x) for _ in range(100)])
            yield Row("a kernel of a graph", self.timed(graph) / 100, "of 100 kernels")


def agree(name: str, found: Any, expected: Any) -> None:
    """Raises ``AssertionError`` if two results differ."""
    mine, theirs = ([np.asarray(on_host(v)) for v in pytree.flatten(r)[0]] for r in (found, expected))
    assert len(mine) == len(theirs), name
    for a, b in zip(mine, theirs):
        scale = max(1.0, float(np.max(np.abs(b))))
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[b.dtype] * scale, err_msg=name)


def on_host(x: Any) -> Any:
    if isinstance(x, DeviceArray):
        return x.numpy()
    return x.cpu().numpy() if hasattr(x, "cpu") else x
