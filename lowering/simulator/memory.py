"""Device memory of the simulator: memory of this process, with the tables and the shadow memory of ``shadow.py``.

Address space is reserved once, and pages are mapped when they are touched.  New memory is filled with bytes 255, which
are NaN in floats.  With ``checked``, allocations have distance, and what is freed is not used again soon.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
import threading
from collections import deque
from collections.abc import Iterator

import numpy as np

from ...errors import DeviceError
from ..llvm.address_space import reserved
from . import races, shadow

LARGEST = 64 << 30
LARGEST_CHECKED = 1 << 30
"""Bytes of device memory.  Its shadow has 16 times as many if accesses have four bytes or more, and 64 times if not."""
SMALLEST = 16 << 20
DISTANCE = 4 << 10
"""Bytes behind an allocation that nothing else occupies, so that an index that is too large is found."""
QUARANTINE = 64 << 20
"""Bytes of freed memory that are kept back, so that its use is found."""
GARBAGE = 0xFF
SHARED_MOST = 227 << 10
"""Bytes of shared memory that a block may have: the limit of sm_90."""
SHARED_STATIC = 48 << 10
"""Bytes of the shared arrays that a kernel may have, besides one whose size a launch gives: what ``ptxas`` accepts."""


def _address(region: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(region))


class Shadow:
    """The cells for ``size`` bytes of memory; 0 at first."""

    def __init__(self, size: int) -> None:
        self._regions = [reserved(size // 4 * races.CELL), reserved(size * races.CELL)]
        self.coarse, self.fine = map(_address, self._regions)

    def clear(self) -> None:
        for region in self._regions:
            region.madvise(mmap.MADV_DONTNEED)


class Memory:
    """A heap of at most ``size`` bytes."""

    def __init__(self, checked: bool = False, size: int | None = None) -> None:
        self.checked = checked
        self.lock = threading.RLock()
        wanted = size or min(LARGEST_CHECKED if checked else LARGEST, _physical())
        self._reserve(max(shadow.LINE, -(-wanted // shadow.LINE) * shadow.LINE), size is not None)
        self._starts: list[int] = []                            # of what is allocated, sorted
        self._sizes: dict[int, int] = {}                        # address → size
        self._numbers: dict[int, int] = {}                      # address → index in ``allocations``
        self._free = [(self.base, self.size)]                   # sorted; neighbours are merged
        self._freed: deque[tuple[int, int]] = deque()           # address and bytes, kept back
        self._kept = 0
        self._foreign: dict[int, int] = {}
        self._launch = 0

    def _reserve(self, size: int, exact: bool) -> None:
        while True:
            try:
                self._region = reserved(size + mmap.PAGESIZE)
                if self.checked:
                    self.cells, self.shared_cells = Shadow(size), Shadow(2 * SHARED_MOST)
                    self.owners = np.zeros(size // shadow.LINE, np.int32)
                    self.allocations = np.zeros((64, 3), np.int64)
                    self._unused = list(range(63, 0, -1))
                break
            except (OSError, ValueError, OverflowError):
                if exact or size <= SMALLEST:
                    raise MemoryError("no address space for the memory of the simulated device") from None
                size //= 2
        self.base, self.size = _address(self._region), size

    # --- allocation -------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes, a multiple of 256."""
        with self.lock:
            needed = -(-max(size, 1) // shadow.LINE) * shadow.LINE + (DISTANCE if self.checked else 0)
            place = self._take(needed)
            if place is None and self._freed:
                self._reuse(0)
                place = self._take(needed)
            if place is None:
                raise MemoryError(f"{size} bytes of device memory are not free: {self.used} of {self.size} are in use")
            bisect.insort(self._starts, place)
            self._sizes[place] = size
            if self.checked:
                self._number(place, size, needed)
            ctypes.memset(place, GARBAGE, size)
            return place

    def _take(self, needed: int) -> int | None:
        for i, (start, length) in enumerate(self._free):
            if length >= needed:
                self._free[i:i + 1] = [(start + needed, length - needed)] if length > needed else []
                return start
        return None

    def _number(self, place: int, size: int, needed: int) -> None:
        if not self._unused:
            count = len(self.allocations)
            self.allocations = np.concatenate([self.allocations, np.zeros_like(self.allocations)])
            self._unused = list(range(2 * count - 1, count - 1, -1))
        number = self._numbers[place] = self._unused.pop()
        self.allocations[number] = place - self.base, size, 1
        self.owners[self._lines(place, needed)] = number

    def _lines(self, place: int, length: int) -> slice:
        first = place - self.base
        return slice(first // shadow.LINE, (first + length) // shadow.LINE)

    def free(self, address: int) -> None:
        """Release what ``allocate`` returned."""
        with self.lock:
            if address not in self._sizes:
                raise DeviceError(f"free({address:#x}): it is not allocated, or has been freed")
            needed = -(-max(self._sizes.pop(address), 1) // shadow.LINE) * shadow.LINE
            self._starts.remove(address)
            if not self.checked:
                self._merge(address, needed)
                return
            self.allocations[self._numbers[address], 2] = 0
            self._freed.append((address, needed + DISTANCE))
            self._kept += needed + DISTANCE
            self._reuse(QUARANTINE)

    def _reuse(self, most: int) -> None:
        """Make freed memory available again until at most ``most`` bytes are kept back."""
        while self._kept > most:
            address, length = self._freed.popleft()
            self._kept -= length
            self.owners[self._lines(address, length)] = 0
            self._unused.append(self._numbers.pop(address))
            self._merge(address, length)

    def _merge(self, address: int, length: int) -> None:
        i = bisect.bisect(self._free, (address, length))
        if i < len(self._free) and address + length == self._free[i][0]:
            length += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == address:
            start, before = self._free.pop(i - 1)
            address, length, i = start, before + length, i - 1
        self._free.insert(i, (address, length))

    # --- questions --------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """The number of bytes that are allocated."""
        return sum(self._sizes.values())

    @property
    def count(self) -> int:
        """The number of allocations."""
        return len(self._sizes)

    def require(self, address: int, size: int, call: str) -> None:
        """Raise ``DeviceError`` unless the bytes are allocated."""
        with self.lock:
            start = self._before(address)
            inside = start is not None and address + size <= start + self._sizes[start]
            adopted = any(a <= address and address + size <= a + n for a, n in self._foreign.items())
            if size and not inside and not adopted:
                raise DeviceError(f"{call}: {size} bytes at {address:#x} are not allocated on the simulated device")

    def _before(self, address: int) -> int | None:
        i = bisect.bisect_right(self._starts, address) - 1
        return self._starts[i] if i >= 0 else None

    def adopt(self, address: int, size: int) -> None:
        """Let kernels use memory of the host, such as an array that is shared through DLPack.

        Of several at one address, the longest counts.
        """
        with self.lock:
            self._foreign[address] = max(size, self._foreign.get(address, 0))

    def disown(self, address: int) -> None:
        """Undo ``adopt``."""
        with self.lock:
            self._foreign.pop(address, None)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Adopted memory, as entries of ``ranges``."""
        yield from ((address, size, 0) for address, size in self._foreign.items())

    def holder(self, offset: int) -> tuple[int, int] | None:
        """Address and size of the allocation to which an offset in the heap belongs, freed ones included."""
        number = int(self.owners[offset // shadow.LINE])
        if not number:
            return None
        start, size, _ = self.allocations[number]
        return self.base + int(start), int(size)

    def next_launch(self) -> int:
        """The number of a launch for the race detector."""
        self._launch += 1
        if self._launch == races.LAUNCHES:
            self.cells.clear()
            self.shared_cells.clear()
            self._launch = 1
        return self._launch


def _physical() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
