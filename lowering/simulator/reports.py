"""The exception for what went wrong in a launch: kernel, block and threads, the place in memory, the user's lines."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ...errors import DeviceError, Loc
from ..gpu.image import Kernel
from . import races, state
from .code import Loaded
from .memory import Memory
from .state import Record

_VERBS = {state.READ: "reads", state.WRITE: "writes", state.ATOMIC: "updates atomically"}
_DONE = {state.READ: "read", state.WRITE: "written", state.ATOMIC: "updated atomically"}


def error(loaded: Loaded, kernel: Kernel, args: Sequence[int | float], records: ctypes.Array[ctypes.c_char],
          memory: Memory | None) -> Exception:
    """The exception for the state of a launch that failed."""
    failure = loaded.state.failure
    report = _Report(loaded, kernel, args, records, memory)
    if failure == state.INTERRUPTED:
        return DeviceError(f"the kernel {kernel.name} was interrupted", kernel.loc)
    if failure == state.RECURSION:
        return RecursionError(f"maximum recursion depth exceeded in the kernel {kernel.name}, {report.me()}")
    if failure == state.BARRIER_MISUSE:
        return report.barrier()
    if failure == state.WARP_MISUSE:
        return report.warp()
    return report.race() if failure == state.RACE else report.access()


class _Report:
    def __init__(self, loaded: Loaded, kernel: Kernel, args: Sequence[int | float],
                 records: ctypes.Array[ctypes.c_char], memory: Memory | None) -> None:
        self.loaded, self.kernel, self.args, self.memory = loaded, kernel, args, memory
        self.state = loaded.state
        count = len(records) // state.RECORD_SIZE
        self.records = (Record * count).from_buffer(records)

    def me(self) -> str:
        return f"thread {self.state.thread} of block {self.state.block}"

    # --- threads that wait ------------------------------------------------------------------------

    def barrier(self) -> DeviceError:
        """Some threads wait at a barrier, and others are elsewhere or done."""
        return self._divergence(range(len(self.records)),
                                "not all threads of a block take part in a barrier",
                                "call it where all threads of the block pass, outside of branches that depend on data "
                                "of the thread")

    def warp(self) -> DeviceError:
        """Some lanes of a warp wait at a shuffle, and others do not exist, or are elsewhere or done."""
        first = self.state.other
        lanes = range(first, min(first + state.WARP, len(self.records)))
        missing = "" if len(lanes) == state.WARP else f"; the warp has {len(lanes)} lanes only"
        what = f"not all {state.WARP} lanes of a warp take part in a shuffle or ballot{missing}"
        return self._divergence(lanes, what,
                                f"call it where all lanes pass, in blocks of a multiple of {state.WARP} threads")

    def _divergence(self, threads: range, what: str, hint: str) -> DeviceError:
        groups: dict[tuple[int, int], list[int]] = {}
        for t in threads:
            record = self.records[t]
            groups.setdefault((record.status, 0 if record.status == state.DONE else record.site), []).append(t)
        lines = [f"{_threads(group)} {self._waiting(*key)}" for key, group in groups.items()]
        sites = [site for status, site in groups if status in (state.AT_BARRIER, state.AT_WARP)]
        message = f"{what} in the kernel {self.kernel.name}, block {self.state.block}: {', '.join(lines)}"
        return DeviceError(message, self._loc(sites[0]), hint=hint)

    def _waiting(self, status: int, site: int) -> str:
        if status == state.DONE:
            return "have returned"
        return f"are at {'the barrier' if status == state.AT_BARRIER else 'the exchange'} {self._at(site)}"

    # --- accesses ---------------------------------------------------------------------------------

    def race(self) -> DeviceError:
        """Two threads use the same memory and one writes, without a barrier in between."""
        s = self.state
        block, thread = s.other & races.BLOCK_MASK, (s.other & races.THREAD_MASK) >> races.THREAD_AT
        why = "without a barrier in between" if block == s.block else "in the same launch"
        message = (f"data race in the kernel {self.kernel.name}: {self._access()}, which thread {thread} of block "
                   f"{block} has {_DONE[s.other_kind]} {why}, {self._at(s.other_site)}")
        hint = "a barrier between the two, an atomic operation, or different elements for different threads"
        return DeviceError(message, self._loc(s.site), hint=hint)

    def access(self) -> DeviceError:
        """One thread uses memory that it may not use."""
        what = {state.OUT_OF_BOUNDS: "access out of bounds", state.USE_AFTER_FREE: "use after free",
                state.WRITTEN_CONSTANT: "write to a constant", state.WILD: "access to memory that is not the device's"
                }[self.state.failure]
        return DeviceError(f"{what} in the kernel {self.kernel.name}: {self._access()}, {self._at(self.state.site)}",
                           self._loc(self.state.site))

    def _access(self) -> str:
        s = self.state
        return f"{self.me()} {_VERBS[s.kind]} {s.bytes} bytes at {self._place(s.address)}"

    def _place(self, address: int) -> str:
        """An address as an array and an offset."""
        offset = address - self.state.shared
        if 0 <= offset < self.state.shared_bytes:
            arrays = self.loaded.prepared.shared[self.kernel.name].arrays
            name, start, size = max((a for a in arrays if a[1] <= offset), key=lambda a: a[1])
            size = self.state.shared_bytes - start if name == self.loaded.prepared.dynamic else size
            return f"the shared array {name} ({size} bytes) + {offset - start}"
        offset = address - self.state.heap
        if self.memory is not None and 0 <= offset < self.state.heap_bytes and (held := self.memory.holder(offset)):
            start, size = held
            return f"{self._buffer(start, size)} ({size} bytes) + {address - start}"
        return f"the address {address:#x}"

    def _buffer(self, start: int, size: int) -> str:
        for k, (kind, value) in enumerate(zip(self.kernel.params, self.args)):
            if kind == "ptr" and start <= value < start + max(size, 1):
                return f"the array of argument {k}"
        return f"an array at {start:#x}, which is no argument,"

    def _at(self, site: int) -> str:
        at = self.loaded.prepared.sites[site]
        return f"at {at.loc}" if at.loc else f"at `{at.text}` in @{at.function}"

    def _loc(self, site: int) -> Loc:
        return self.loaded.prepared.sites[site].loc or self.kernel.loc


def _threads(numbers: list[int]) -> str:
    """Numbers of threads, the consecutive ones as ranges."""
    ranges: list[list[int]] = []
    for n in numbers:
        if ranges and ranges[-1][1] == n - 1:
            ranges[-1][1] = n
        else:
            ranges.append([n, n])
    shown = [str(a) if a == b else f"{a}–{b}" for a, b in ranges[:4]]
    more = f" and {len(numbers) - sum(b - a + 1 for a, b in ranges[:4])} more" if len(ranges) > 4 else ""
    return ("thread " if len(numbers) == 1 else "threads ") + ", ".join(shown) + more
