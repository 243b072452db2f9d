"""Launches: how a host program runs the kernels of a loop, of a serial part, of a product of matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....ir.types import Scalar
from ....loop_level.types import Buffer
from ..device.kernels import FEW, Known, MapKernel
from ..device.values import parts_of
from ..image import Kernel
from .runtime import STRIP, WORD, DeviceArray, Owner, Runtime, arena_size, arguments, decoded, depth

MOST_BLOCKS = 1 << 16
"""Blocks of a grid at most; threads of larger loops run several iterations."""
MOST_GRID = (1 << 31) - 1
"""Blocks that a grid can have."""
MOST_STRIP = 64 << 20
"""Bytes for the arrays, or for the frames, of a thread at most."""
MOST_PARTIALS = 1024
"""Blocks of a grid that leave partial results: more would only lengthen the kernel that combines them."""


def blocks_for(count: int, block: int, most: int) -> int:
    return max(1, min(-(-count // block), most))


def trip_count(lower: int, upper: int, step: int) -> int:
    """The iterations of ``for i in range(lower, upper, step)``."""
    return len(range(lower, upper, step))


@dataclass(frozen=True)
class MapLaunch:
    """Runs a loop: takes (lower, upper, step) of each nested loop, the values before it, and what it captures.

    ``sums``: for each array of the role ``add`` that each thread has of its own, the kernel that adds them up; ``few``:
    the kernels for arrays of few elements.
    """

    kernels: MapKernel
    loops: tuple[Known, ...]
    sums: dict[int, Kernel]
    few: MapKernel | None = None

    def __call__(self, rt: Runtime, bounds: Sequence[int], carried: Sequence[Any], captured: Sequence[Any]
                 ) -> list[Any]:
        """The results, one for each role."""
        if self.few is not None and all(carried[k].count() <= FEW for k, r in enumerate(self.few.results) if r.adding):
            return replace(self, kernels=self.few, few=None)(rt, bounds, carried, captured)
        ranges = [(lower, trip_count(lower, upper, step), step) for lower, upper, step in
                  zip(bounds[::3], bounds[1::3], bounds[2::3])]
        count = 1
        for _, n, _ in ranges:
            count *= n
        results = self.kernels.results
        if not count:
            return [*carried, *[0] * (len(results) - len(carried))]
        kernel, args, keep = self.kernels.kernel, [rt.status], []
        scalars = [r.type for r in results if isinstance(r.type, Scalar)]
        reduced = [k for k, r in enumerate(results) if isinstance(r.type, Scalar) and r.role not in ("last", "left")]
        most = MOST_PARTIALS if reduced else MOST_GRID if self.kernels.once else MOST_BLOCKS
        grid = self.kernels.blocks([n for _, n, _ in ranges], most)
        if self.kernels.needs.arena or self.sums:
            grid, strip, words = self._shares(rt, grid, kernel.block, carried)
            if self.kernels.needs.arena:
                arena = rt.own((strip + WORD * words) * grid * kernel.block)
                keep.append(arena)
                args += [arena.address, strip, words]
        if self.kernels.needs.recursion:
            args.append(depth(rt.driver))
        args += [x for r, (first, each) in zip(ranges, self.loops) for x, known in zip(r, (first, None, each))
                 if known is None]
        if scalars:
            args.append(rt.slots)
        partial = rt.own(WORD * len(reduced) * grid) if reduced else None
        if partial is not None:
            args.append(partial.address)
        values, sizes, private = self._carried(rt, carried, grid * kernel.block)
        rt.driver.launch(rt.loaded, kernel, grid, [*args, *arguments(values), *sizes, *arguments(captured)])
        for k, own in private.items():
            whole = carried[k]
            add = self.sums[k]
            rt.driver.launch(rt.loaded, add, blocks_for(whole.count(), add.block, MOST_BLOCKS),
                             [rt.status, whole.count(), whole.address, own.address, grid * kernel.block])
        if grid > 1 and partial is not None:
            assert self.kernels.finish is not None
            starts = arguments([carried[k] for k in reduced])
            rt.driver.launch(rt.loaded, self.kernels.finish, 1, [rt.status, rt.slots, partial.address, grid, *starts])
        found = self._read(rt, scalars)
        return [next(found) if isinstance(r.type, Scalar) else carried[k] for k, r in enumerate(results)]

    def _read(self, rt: Runtime, scalars: Sequence[Scalar]) -> Iterator[Any]:
        if scalars:
            words = rt.read(len(scalars))
            yield from (decoded(words[k:k + 1], t) for k, t in enumerate(scalars))

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
class SerialLaunch:
    """Runs a function in one thread; takes its arguments, returns its results."""

    kernel: Kernel
    types: tuple[Any, ...]
    allocates: bool

    def __call__(self, rt: Runtime, *given: Any) -> list[Any]:
        arena, ctx = rt.serial(self.allocates)
        rt.driver.launch(rt.loaded, self.kernel, 1, [rt.status, ctx, rt.slots, *arguments(given)])
        if not self.types:
            return []
        widths = [len(parts_of(t)) for t in self.types]
        words, out, at = rt.read(sum(widths)), [], 0
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
