"""Results that the threads of a grid combine: numbers, and arrays of which each thread has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import Loc
from ....ir.types import Scalar
from ...llvm import types
from ..device import reduce
from ..device.emitter import Emitter, Shared
from ..image import BLOCK, Kernel
from .writer import KernelWriter


def store_slot(w: Emitter, slots: str, k: int, t: Scalar, x: str) -> None:
    w.store(t, x, w.offset(slots, str(8 * k)))


@dataclass(frozen=True)
class Reduced:
    """Results that are combined together: slots, role, types, the values before the loop and those of this thread."""

    slots: tuple[int, ...]
    role: str
    types: tuple[Scalar, ...]
    before: tuple[str, ...]
    values: tuple[str, ...]

    def store(self, w: Emitter, slots: str, before: Sequence[str], xs: Sequence[str]) -> None:
        """Store the results."""
        for k, t, x in zip(self.slots, self.types, reduce.merge(w, self.role, self.types, before, xs)):
            store_slot(w, slots, k, t, x)


def reduce_block(w: KernelWriter, out: str, partial: str, reduced: Sequence[Reduced]) -> None:
    """Combine the values of a block: into the slots if it is the only one, otherwise into its partial results."""
    totals = [reduce.in_block(w, r.role, r.types, r.values, w.block, f"{w.name}.shared{r.slots[0]}") for r in reduced]
    size = sum(len(r.types) for r in reduced)

    def finish() -> None:
        alone = w.code.op(f"icmp eq i64 {w.number('grid_size')}, 1", "c")
        own = w.offset(partial, w.mul(w.number("block"), str(8 * size)))
        to, place = w.code.op(f"select i1 {alone}, ptr {out}, ptr {own}"), 0
        for r, xs in zip(reduced, totals):
            whole = reduce.merge(w, r.role, r.types, r.before, xs)
            for slot, t, total, x in zip(r.slots, r.types, whole, xs):
                at = w.code.select(alone, "i64", str(8 * slot), str(8 * place)) if slot != place else str(8 * place)
                w.store(t, w.code.select(alone, types.register(t), total, x), w.offset(to, at))
                place += 1
    w.if_(w.code.op(f"icmp eq i64 {w.number('thread')}, 0", "c"), finish)


def finish_kernel(shared: Shared, name: str, loc: Loc, reduced: Sequence[Reduced], block: int,
            resident: Sequence[Sequence[bool]]) -> Kernel:
    """Of one block: combines the partial results of all blocks with the values before the loop.

    Parameters: status, slots, partial, the number of blocks, the values before the loop.
    """
    w = KernelWriter(shared, name, loc, block)
    out, partial, blocks = w.param("ptr", "slots"), w.param("ptr", "partial"), w.param("i64", "blocks")
    starts = [[str(w.given(t, "start", there)) for t, there in zip(r.types, known)] for r, known in zip(
        reduced, resident)]
    kinds = [types.register(t) for r in reduced for t in r.types]

    def row(i: str, sums: list[str]) -> list[str]:
        at, place, found = w.offset(partial, w.mul(i, str(8 * len(kinds)))), 0, list[str]()
        for r in reduced:
            end = place + len(r.types)
            part = [w.load(t, w.offset(at, str(8 * k))) for k, t in enumerate(r.types, place)]
            found += reduce.merge(w, r.role, r.types, sums[place:end], part)
            place = end
        return found
    neutral = [x for r in reduced for x in reduce.neutrals(r.role, r.types)]
    sums = iter(w.loop(w.number("thread"), blocks, str(block), row, list(zip(kinds, neutral))))
    totals = [reduce.in_block(w, r.role, r.types, [next(sums) for _ in r.types], block, f"{name}.shared{r.slots[0]}")
              for r in reduced]

    def store() -> None:
        for r, before, xs in zip(reduced, starts, totals):
            r.store(w, out, before, xs)
    w.if_(w.code.op(f"icmp eq i64 {w.number('thread')}, 0", "c"), store)
    return w.write()


def sum_kernel(shared: Shared, name: str, loc: Loc, t: Scalar, block: int = BLOCK) -> Kernel:
    """Adds arrays of ``size`` elements, one a thread, to one array: (status, size, array, arrays, their number)."""
    w = KernelWriter(shared, name, loc, block)
    size, array, arrays, number = (w.param(kind, h) for kind, h in (
        ("i64", "size"), ("ptr", "array"), ("ptr", "arrays"), ("i64", "number")))

    def element(i: str, _: list[str]) -> list[str]:
        at = w.offset(array, i, types.memory(t))

        def add(k: str, total: list[str]) -> list[str]:
            part = w.load(t, w.offset(arrays, w.add(w.mul(k, size), i), types.memory(t)))
            return [reduce.combine(w, "add", t, total[0], part)]
        w.store(t, w.loop("0", number, "1", add, [(types.register(t), w.load(t, at))])[0], at)
        return []
    w.loop(w.first(), w.unless_failed(size), w.threads(), element)
    return w.write()
