"""Launches: how a host program runs the kernels of a loop, of a serial part, of a product of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....ir.types import Scalar
from ....loop_level.types import Buffer
from ..device.values import parts_of
from ..image import Kernel
from ..kernels.loops import FEW, MapKernel, Result
from ..kernels.writer import Known
from .device_array import WORD, DeviceArray, Owner
from .runtime import STRIP, Pending, Runtime, arena_size, arguments, depth
from .scalars import decoded

MOST_BLOCKS = 1 << 16
"""Blocks of a grid at most; threads of larger loops run several iterations."""
MOST_GRID = (1 << 31) - 1
"""Blocks that a grid can have."""
MOST_STRIP = 64 << 20
"""Bytes for the arrays, or for the frames, of a thread at most."""
MOST_PARTIALS = 1024
"""Blocks of a grid that leave partial results: more would only lengthen the kernel that combines them."""


ENOUGH_THREADS = 1 << 16
"""Threads that occupy a device: below that, those of a block share each row, and each 32 columns."""


def blocks_for(count: int, block: int, most: int) -> int:
    return max(1, min(-(-count // block), most))


def trip_count(lower: int, upper: int, step: int) -> int:
    """The iterations of ``for i in range(lower, upper, step)``."""
    return len(range(lower, upper, step))


def is_reduced(result: Result) -> bool:
    """True for a scalar that the iterations of a loop combine."""
    return isinstance(result.type, Scalar) and result.role not in ("last", "left")


class MapLaunch:
    """Runs a loop: takes (lower, upper, step) of each nested loop, the values before it, and what it captures.

    ``sums``: for each array of the role ``add`` that each thread has of its own, the kernel that adds them up; ``few``:
    the same loop with kernels for arrays of few elements.
    """

    def __init__(self, kernels: MapKernel, loops: Sequence[Known], sums: dict[int, Kernel],
                 few: MapKernel | None = None) -> None:
        self.kernels, self.kernel, self.loops, self.sums = kernels, kernels.kernel, tuple(loops), sums
        self.few = MapLaunch(few, loops, {}) if few is not None else None
        self._adding = [k for k, r in enumerate(few.results) if r.adding] if few is not None else []
        scalars = [k for k, r in enumerate(kernels.results) if isinstance(r.type, Scalar)]
        self._scalars = len(scalars)
        self._places: list[tuple[Any, int]] = [(r.type, scalars.index(k) if k in scalars else -1)
                                               for k, r in enumerate(kernels.results)]
        self._reduced = [k for k, r in enumerate(kernels.results) if is_reduced(r)]
        self._most = MOST_PARTIALS if self._reduced else MOST_GRID if kernels.once else MOST_BLOCKS
        self._threads = kernels.threads
        self._from_zero = all(known == (0, 1) for known in self.loops)         # the bounds are the sizes
        self._memory = bool(kernels.needs.arena or sums)
        needs = kernels.needs
        self._simple = not (self._memory or needs.recursion or self._scalars or few is not None)
        self._counted = self._simple and self.loops == ((0, 1),) and not kernels.results

    def __call__(self, rt: Runtime, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
                 ) -> Sequence[Any]:
        """The results, one for each role."""
        if self._counted:                            # for i in range(n), which only writes arrays
            count = bounds[1]
            if count > 0:
                grid = (count * self._threads - 1) // self.kernel.block + 1
                rt.driver.launch(rt.loaded, self.kernel, grid if grid < self._most else self._most,
                                 [rt.status, count, *arguments(captured)])
            return ()
        if self.few is not None and all(carried[k].count() <= FEW for k in self._adding):
            return self.few(rt, bounds, carried, captured)
        sizes: Sequence[int] = bounds[1::3]
        if not self._from_zero:
            ranges = [(lower, trip_count(lower, upper, step), step) for lower, upper, step in
                      zip(bounds[::3], sizes, bounds[2::3])]
            sizes = [n for _, n, _ in ranges]
        count = 1
        for n in sizes:
            count *= n if n > 0 else 0
        if not count:
            return [*carried, *[0] * (len(self.kernels.results) - len(carried))]
        grid = self.kernels.blocks(sizes, self._most)
        if not self._from_zero:
            sizes = [x for r, (first, each) in zip(ranges, self.loops) for x, known in zip(r, (first, None, each))
                     if known is None]
        if self._simple:
            rt.driver.launch(rt.loaded, self.kernel, grid,
                             [rt.status, *sizes, *arguments(carried), *arguments(captured)])
            return carried
        return self._run(rt, grid, sizes, carried, captured)

    def _run(self, rt: Runtime, grid: int, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
             ) -> list[Any]:
        """The results of a loop that combines values, or whose threads need memory."""
        kernel, needs, args, keep = self.kernel, self.kernels.needs, [rt.status], []
        if self._memory:
            grid, strip, words = self._shares(rt, grid, kernel.block, carried)
            if needs.arena:
                arena = rt.own((strip + WORD * words) * grid * kernel.block)
                keep.append(arena)
                args += [arena.address, strip, words]
        if needs.recursion:
            args.append(depth(rt.driver))
        args += bounds
        memory, place = rt.numbers(self._scalars) if self._scalars else (rt.record, 0)
        slots = memory.address + WORD * place
        if self._scalars:
            args.append(slots)
        partial = rt.own(WORD * len(self._reduced) * grid) if self._reduced and grid > 1 else None
        if self._reduced:
            args.append(partial.address if partial is not None else slots)
        values, sizes, private = self._carried(rt, carried, grid * kernel.block)
        rt.driver.launch(rt.loaded, kernel, grid, [*args, *arguments(values), *sizes, *arguments(captured)])
        for k, own in private.items():
            whole = carried[k]
            add = self.sums[k]
            rt.driver.launch(rt.loaded, add, blocks_for(whole.count(), add.block, MOST_BLOCKS),
                             [rt.status, whole.count(), whole.address, own.address, grid * kernel.block])
        if partial is not None:
            assert self.kernels.finish is not None
            starts = arguments([carried[k] for k in self._reduced])
            rt.driver.launch(rt.loaded, self.kernels.finish, 1, [rt.status, slots, partial.address, grid, *starts])
        return [Pending(rt, memory, place + slot, t) if slot >= 0 else carried[k]
                for k, (t, slot) in enumerate(self._places)]

    def _shares(self, rt: Runtime, grid: int, block: int, carried: Sequence[Any]) -> tuple[int, int, int]:
        """The blocks that the arena has room for, and the bytes and words for each of their threads."""
        own = sum(carried[k].count() * carried[k].dtype.itemsize for k in self.sums)
        room = arena_size(rt.driver)
        need = own + (STRIP if self.kernels.needs.arena else 0)
        grid = max(1, min(grid, room // (need * block) if need else grid))
        each = max(room // (grid * block) - own, STRIP) if self.kernels.needs.arena else 0
        each = min(each // (self.kernels.needs.arrays + self.kernels.needs.frames or 1), MOST_STRIP) // 16 * 16
        return grid, each * self.kernels.needs.arrays, each * self.kernels.needs.frames // WORD

    def _carried(self, rt: Runtime, carried: Sequence[Any], threads: int
                 ) -> tuple[list[Any], list[int], dict[int, Owner]]:
        """The kernel's arguments for the values before the loop; the bytes of arrays of which each thread has one."""
        values, sizes, private = list(carried), [], {}
        for k in self.sums:
            a = carried[k]
            size = a.count() * a.dtype.itemsize
            owner = private[k] = rt.own(size * threads)
            rt.driver.fill(owner.address, 0, size * threads)
            values[k] = DeviceArray(owner, owner.address, a.shape, a.strides, a.dtype)
            sizes.append(size)
        return values, sizes, private


@dataclass(frozen=True)
class SharedLaunch:
    """Runs a nest whose body has loops: in many threads each iteration, unless there are enough iterations."""

    shared: MapLaunch
    many: MapLaunch
    enough: int

    def __call__(self, rt: Runtime, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
                 ) -> Sequence[Any]:
        count = prod(map(trip_count, bounds[::3], bounds[1::3], bounds[2::3]))
        return (self.shared if count < self.enough else self.many)(rt, bounds, carried, captured)


@dataclass(frozen=True)
class SerialLaunch:
    """Runs a function in one thread; takes its arguments, returns its results."""

    kernel: Kernel
    types: tuple[Any, ...]
    allocates: bool

    def __call__(self, rt: Runtime, *given: Any) -> list[Any]:
        arena, ctx = rt.serial(self.allocates)
        widths = [len(parts_of(t)) for t in self.types]
        memory, place = rt.numbers(sum(widths)) if self.types else (rt.record, 0)
        slots = memory.address + WORD * place
        rt.driver.launch(rt.loaded, self.kernel, 1, [rt.status, ctx, slots, *arguments(given)])
        if all(isinstance(t, Scalar) for t in self.types):
            return [Pending(rt, memory, place + k, t) for k, t in enumerate(self.types)]
        words, out, at = rt.read(memory, place, sum(widths)), [], 0
        for t, n in zip(self.types, widths):
            out.append(self._result(arena, t, words[at:at + n], given))
            at += n
        return out

    def _result(self, arena: Owner, t: Any, words: Any, given: Sequence[Any]) -> Any:
        if isinstance(t, Scalar):
            return decoded(words, t)
        if not isinstance(t, Buffer):
            return int(words[0])
        address, sizes, strides = int(words[0]), words[1:1 + t.rank], words[1 + t.rank:]
        owners = (a.owner for a in given if isinstance(a, DeviceArray) and a.owner is not None)
        owner = next((o for o in owners if o.address <= address < o.address + max(o.size, 1)), arena)
        return DeviceArray(owner, address, tuple(map(int, sizes)), tuple(map(int, strides)) or None, t.dtype.np)


Launch = Callable[..., Any]
