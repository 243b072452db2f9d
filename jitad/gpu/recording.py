"""A driver for tests: it passes calls on to another driver, records them, and raises ``Misuse`` at wrong ones.

Checked are the number, type and range of each argument of a launch, sizes of grids, blocks and shared memory, that all
memory that a call names is allocated and large enough, that memory is freed once, and, by ``finish``, all of it.
``fail`` makes a later call raise an error.  Without another driver, memory is the host's, and launches only run the
Python functions that stand for kernels.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..lowering.gpu.driver import Driver
from ..lowering.gpu.host.runtime import release_idle
from ..lowering.gpu.image import Image, Kernel

MOST_THREADS, MOST_BLOCKS, MOST_SHARED = 1024, 2**31 - 1, 48 << 10
"""Limits of all devices since sm_30; more shared memory has to be requested from the driver."""

KINDS = {"ptr": (0, 2**64), "i64": (-2**63, 2**64), "i32": (-2**31, 2**32), "i16": (-2**15, 2**16),
         "i8": (-2**7, 2**8), "i1": (0, 2)}
"""The range of the integers that may be passed for each type, signed or unsigned."""

Run = Callable[..., None]


class Misuse(AssertionError):
    """A call that no driver may be given."""


class HostMemory:
    """A driver whose memory is the host's.

    A launch calls ``kernels[name](memory, grid, *args)``, or does nothing if there is no such function.
    """

    arch = "sm_90"
    capture = None

    def __init__(self, kernels: Mapping[str, Run] | None = None) -> None:
        self.kernels = dict(kernels or {})
        self._blocks: dict[int, np.ndarray] = {}

    def allocate(self, size: int) -> int:
        block = np.full(max(size, 1) + 256, 0xA5, np.uint8)        # no program may rely on zeros
        address = -(-block.ctypes.data // 256) * 256
        self._blocks[address] = block
        return address

    def free(self, address: int) -> None:
        del self._blocks[address]

    def view(self, address: int, size: int) -> np.ndarray:
        """The bytes at an address."""
        start = max(a for a in self._blocks if a <= address)
        block = self._blocks[start]
        first = address - block.ctypes.data
        return block[first:first + size]

    def upload(self, address: int, source: np.ndarray) -> None:
        self.view(address, source.nbytes)[:] = source.reshape(-1).view(np.uint8)

    def download(self, target: np.ndarray, address: int) -> None:
        target.reshape(-1).view(np.uint8)[:] = self.view(address, target.nbytes)

    def copy(self, target: int, source: int, size: int) -> None:
        self.view(target, size)[:] = self.view(source, size)

    def fill(self, address: int, byte: int, size: int) -> None:
        self.view(address, size)[:] = byte

    def load(self, image: Image) -> Image:
        return image

    def launch(self, loaded: Any, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int = 0) -> None:
        if grid and kernel.name in self.kernels:
            self.kernels[kernel.name](self, grid, *args)

    def synchronize(self) -> None:
        pass


@dataclass(frozen=True)
class Call:
    """A call of the driver, and the arguments that tests look at."""

    name: str
    args: tuple[Any, ...]


class RecordingDriver:
    """Records the calls in ``calls`` and passes them on to ``inner``.

    ``limit``: the number of bytes that can be allocated; beyond it ``allocate`` raises ``MemoryError``.
    """

    capture = None

    def __init__(self, inner: Driver | None = None, limit: int | None = None) -> None:
        self.inner: Driver = inner or HostMemory()
        self.arch = self.inner.arch
        self.limit = limit
        self.calls: list[Call] = []
        self.live: dict[int, int] = {}                   # address → size
        self.foreign: list[range] = []
        self._loaded: dict[int, tuple[Any, Image]] = {}       # by id; the code is kept, so that ids stay valid
        self._starts: list[int] = []
        self._failures: dict[tuple[str, int], BaseException] = {}
        self._made: Counter[str] = Counter()

    # --- for tests --------------------------------------------------------------------------------

    def fail(self, name: str, error: BaseException, after: int = 0) -> None:
        """Lets the call of this name raise an error, once, after this number of further calls."""
        self._failures[name, self._made[name] + after] = error

    def count(self, name: str) -> int:
        """The number of calls of this name."""
        return sum(call.name == name for call in self.calls)

    def launches(self) -> list[tuple[str, int]]:
        """The names and grids of the launches."""
        return [(call.args[0], call.args[1]) for call in self.calls if call.name == "launch"]

    def adopt(self, address: int, size: int) -> None:
        """Lets calls use memory of another owner."""
        self.foreign.append(range(address, address + size))

    def disown(self, address: int) -> None:
        """Ends ``adopt``."""
        self.foreign = [r for r in self.foreign if r.start != address]

    @property
    def bytes_live(self) -> int:
        return sum(self.live.values())

    def finish(self) -> None:
        """Raises ``Misuse`` if memory has not been freed."""
        release_idle(self)
        if self.live:
            raise Misuse(f"{len(self.live)} allocations of {self.bytes_live} bytes have not been freed")

    # --- the driver -------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        _require(isinstance(size, int) and size >= 0, f"allocate({size!r})")
        self._record("allocate", size)
        if self.limit is not None and self.bytes_live + size > self.limit:
            raise MemoryError(f"{size} bytes of device memory: {self.limit - self.bytes_live} are free")
        address = self.inner.allocate(size)
        self.live[address] = size
        bisect.insort(self._starts, address)
        return address

    def free(self, address: int) -> None:
        _require(address in self.live, f"free({address:#x}): it is not allocated, or has been freed")
        self._record("free", address)
        del self.live[address]
        self._starts.remove(address)
        self.inner.free(address)

    def upload(self, address: int, source: np.ndarray) -> None:
        _require(source.flags.c_contiguous, "upload of an array that is not C-contiguous")
        self._check(address, source.nbytes, "upload")
        self._record("upload", address, source.nbytes)
        self.inner.upload(address, source)

    def download(self, target: np.ndarray, address: int) -> None:
        _require(target.flags.c_contiguous and target.flags.writeable, "download to an array that cannot be filled")
        self._check(address, target.nbytes, "download")
        self._record("download", address, target.nbytes)
        self.inner.download(target, address)

    def copy(self, target: int, source: int, size: int) -> None:
        self._check(target, size, "copy")
        self._check(source, size, "copy")
        _require(target + size <= source or source + size <= target, "copy of memory that overlaps")
        self._record("copy", target, source, size)
        self.inner.copy(target, source, size)

    def fill(self, address: int, byte: int, size: int) -> None:
        _require(0 <= byte < 256, f"fill with {byte}")
        self._check(address, size, "fill")
        self._record("fill", address, byte, size)
        self.inner.fill(address, byte, size)

    def load(self, image: Image) -> Any:
        for k in image.kernels:
            _require(k.name.isascii() and k.name.isidentifier(), f"load: the name of the kernel {k.name!r}")
            _require(0 < k.block <= MOST_THREADS, f"load: {k.name} has blocks of {k.block} threads")
        names = Counter(k.name for k in image.kernels)
        _require(all(n == 1 for n in names.values()), "load: two kernels of one name")
        self._record("load", tuple(names))
        loaded = self.inner.load(image)
        self._loaded[id(loaded)] = loaded, image
        return loaded

    def launch(self, loaded: Any, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int = 0) -> None:
        _, image = self._loaded.get(id(loaded), (None, None))
        _require(image is not None, f"launch of {kernel.name}: its image has not been loaded")
        assert image is not None
        _require(kernel in image.kernels, f"launch of {kernel.name}, which is not in the image")
        _require(isinstance(grid, int) and 0 <= grid <= MOST_BLOCKS, f"launch of {kernel.name}: a grid of {grid!r}")
        _require(0 <= shared <= MOST_SHARED, f"launch of {kernel.name}: {shared} bytes of shared memory")
        _require(len(args) == len(kernel.params),
                 f"launch of {kernel.name}: {len(args)} arguments for {len(kernel.params)} parameters")
        for i, (kind, value) in enumerate(zip(kernel.params, args)):
            _require(_fits(kind, value), f"launch of {kernel.name}: argument {i} is {value!r}, the parameter {kind}")
            if kind == "ptr":
                self._check(value, 0, f"launch of {kernel.name}: argument {i}")
        self._record("launch", kernel.name, grid, tuple(args), shared)
        self.inner.launch(loaded, kernel, grid, args, shared)

    def synchronize(self) -> None:
        self._record("synchronize")
        self.inner.synchronize()

    # --- checks -----------------------------------------------------------------------------------

    def _record(self, name: str, *args: Any) -> None:
        self.calls.append(Call(name, args))
        error = self._failures.pop((name, self._made[name]), None)
        self._made[name] += 1
        if error is not None:
            raise error

    def _check(self, address: Any, size: int, call: str) -> None:
        """Raises ``Misuse`` unless the bytes are in one allocation; no bytes may be anywhere in it, or at 0."""
        _require(isinstance(address, (int, np.integer)), f"{call}: {address!r} is no address")
        if address == 0 and size == 0:
            return
        before = bisect.bisect_right(self._starts, address) - 1
        start = self._starts[before] if before >= 0 else 0
        inside = before >= 0 and address + size <= start + self.live[start]
        inside = inside or any(r.start <= address and address + size <= r.stop for r in self.foreign)
        _require(inside, f"{call}: {size} bytes at {address:#x} are not allocated")


def _fits(kind: str, value: Any) -> bool:
    if kind in ("f64", "f32"):
        return isinstance(value, (float, np.floating))
    low, high = KINDS[kind]
    return isinstance(value, (int, np.integer)) and low <= int(value) < high


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Misuse(message)


def failures(make: Callable[[], RecordingDriver], run: Callable[[RecordingDriver], Any], name: str,
             error: BaseException) -> int:
    """Runs a program once for each of its calls of this name, which then fails; returns their number.

    Raises ``Misuse`` if a run does not raise this error, or leaves memory allocated.
    """
    for n in itertools.count():
        driver = make()
        driver.fail(name, error, after=n)
        raised = None
        try:
            run(driver)
        except type(error) as caught:
            raised = caught
        driver.finish()
        if driver._failures:                                 # there is no such call
            if raised is not None:
                raise raised
            return n
        _require(raised is error or raised is not None and raised.__cause__ is error,
                 f"the failure of {name} number {n} was not reported, but {raised!r}")
    raise AssertionError
