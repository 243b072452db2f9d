"""Bodies of nests that all threads of a block execute together: of few long rows, and of columns.

``BlockFunction``: as the lanes of a warp do in ``rows``, the threads of a block run every ``THREADS``-th iteration of
each loop.  ``ColumnFunction``: the body has loops across lines, such as a sum over the first axis::

    for %j { %s = for {independent, reductions = ("sum",)} %i (…) { load %x, %i, %j … };  store %s, %y, %j }

Each lane has a column, so that a warp reads 32 neighbours, and the warps of the block share the iterations of the loop.
Both combine warps through shared memory, after which every thread has the results, of the same order of operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Op, Value
from ....loop_level.types import buffer_type
from ..image import WARP
from . import reduce
from .rows import RowFunction, is_long, is_reduction

THREADS = 512
"""Threads of a block: 16 warps, each of whose threads has up to 128 registers."""
WARPS = THREADS // WARP


def is_column(ops: Sequence[Op], indices: Sequence[Value]) -> bool:
    """True if the loops of a body are reductions that read across lines."""
    loops = [op for op in ops if op.name == "for"]
    inside = [op for loop in loops for op in loop.regions[0].nested_ops()]
    if not loops or not all(map(is_reduction, loops)) or not any(map(is_long, loops)):
        return False
    stores = [op for op in ops if op.name == "store"]
    stored = [buffer_type(op.operands[1]).alias for op in stores]
    read = {buffer_type(op.operands[0]).alias for op in (*ops, *inside) if op.name == "load"}
    if None in stored or None in read or set(stored) & read or len(set(stored)) < len(stored):
        return False
    return any(op.name == "load" and len(op.operands) > 2 and op.operands[-1] is indices[-1]
               and loop.regions[0].params[0] in op.operands for loop in loops for op in loop.regions[0].ops)


class _BlockWide(RowFunction):
    """A body for the threads of a block, each of which runs it once."""

    def _shared(self, role: str, ts: reduce.Kinds, xs: Sequence[str], own: str, first: str, step: int, size: int,
                writes: str | None) -> list[str]:
        """Values combined over warps: each is stored at ``own``, if ``writes``, and read at ``first``, + ``step``, …"""
        self.arrays += 1
        arrays = [self.shared_array(f"{self.func.name}{self.suffix}.{self.arrays}.{k}", t, size)
                  for k, t in enumerate(ts)]

        def tell() -> None:
            for t, x, array in zip(ts, xs, arrays):
                self.store(t, x, self.shared_at(array, t, own), 3)
        if writes is None:
            tell()
        else:
            self.if_(writes, tell)
        self.barrier()
        found = reduce.neutrals(role, ts)
        for w in range(WARPS):
            at = self.add(first, str(step * w))
            found = reduce.merge(self, role, ts, found, [self.load(t, self.shared_at(array, t, at), 3)
                                                         for t, array in zip(ts, arrays)])
        return found


class BlockFunction(_BlockWide):
    """A body whose loops run along rows."""

    suffix, sharers, rows = ".block", THREADS, 1

    def row(self) -> str:
        return "0"

    def sharer(self) -> str:
        return self.number("thread")

    def combined(self, role: str, ts: reduce.Kinds, xs: Sequence[str]) -> list[str]:
        xs, thread = super().combined(role, ts, xs), self.number("thread")
        is_first = self.code.op(f"icmp eq i64 {self.code.op(f'and i64 {thread}, {WARP - 1}')}, 0", "c")
        warp = self.code.op(f"lshr i64 {thread}, 5", "warp")
        return self._shared(role, ts, xs, warp, "0", 1, WARPS, is_first)


class ColumnFunction(_BlockWide):
    """A body whose loops run across lines; it returns what is to be stored."""

    suffix, sharers = ".column", WARPS

    def sharer(self) -> str:
        return self.code.op(f"lshr i64 {self.number('thread')}, 5", "warp")

    def combined(self, role: str, ts: reduce.Kinds, xs: Sequence[str]) -> list[str]:
        thread = self.number("thread")
        lane = self.code.op(f"and i64 {thread}, {WARP - 1}", "lane")
        return self._shared(role, ts, xs, thread, lane, WARP, THREADS, None)
