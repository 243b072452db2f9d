"""Nests whose arrays all lie in the order of the loops: kernels whose threads access 16 bytes at once.

Such a nest is one loop over elements.  Each thread takes as many as fit into 16 bytes: it first loads all of them from
every array, then computes them, then stores them, and LLVM makes one access of neighbouring ones.  The arrays must
begin at multiples of 16 bytes, which the host checks at each launch; otherwise the kernel of one element a thread runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import Loc
from ....ir.graph import Function, Op, Value
from ....ir.types import Scalar
from ....loop_level.types import buffer_type
from ...llvm import types
from ..device.emitter import Shared
from ..device.function import call
from ..device.patterns import is_plain
from ..device.values import Memory
from ..image import BLOCK, Kernel
from .writer import KernelWriter

BYTES = 16
MOST = 4
"""Elements of a thread at most."""
BUDGET = 24
"""Ops of the body at most: longer ones are not bound by memory, and would only fill registers."""
_CHEAP = frozenset("add sub mul div neg abs minimum maximum and or xor not eq ne lt le gt ge select cast stop sqrt "
                   "isnan load store const dim".split())


@dataclass(frozen=True)
class Wide:
    """The accesses of a nest that are in the order of the loops, and how many elements a thread takes."""

    loads: tuple[Op, ...]
    stores: tuple[Op, ...]
    count: int

    @property
    def arrays(self) -> list[Value]:
        return list(dict.fromkeys([*(op.operands[0] for op in self.loads), *(op.operands[1] for op in self.stores)]))


def wide(loops: Sequence[Op]) -> Wide | None:
    """The accesses of a nest, if all are in the order of its loops or the same in each iteration."""
    region = loops[-1].regions[0]
    ivs = [loop.regions[0].params[0] for loop in loops]
    body = [op for op in region.ops if op.name != "check"]
    if loops[0].operands[3:] or not is_plain(body) or len(body) > BUDGET or any(op.name not in _CHEAP for op in body):
        return None
    if any(loop.operands[0].const != 0 or loop.operands[2].const != 1 for loop in loops):
        return None
    ordered = [op for op in region.ops if op.name in ("load", "store") and op.operands[-len(ivs):] == ivs
               and buffer_type(op.operands[op.name == "store"]).rank == len(ivs)
               and buffer_type(op.operands[op.name == "store"]).strides is None
               and op.operands[op.name == "store"].op not in region.ops]
    others = [op for op in region.ops if op not in ordered]
    if any(v in ivs for op in others for v in op.operands) or any(op.name == "store" for op in others):
        return None
    if any(v in ivs for op in ordered for v in op.operands[:-len(ivs)]):
        return None
    loads, stores = ([op for op in ordered if op.name == name] for name in ("load", "store"))
    written = {buffer_type(op.operands[1]).alias for op in stores}
    read = {buffer_type(op.operands[0]).alias for op in others if op.name == "load"}
    first = next((k for k, op in enumerate(region.ops) if op.name == "store"), 0)
    last = max((k for k, op in enumerate(region.ops) if op.name == "load"), default=-1)
    if not stores or None in written or written & (read | {None}) or len(written) < len(stores):
        return None
    if last > first and written & {buffer_type(op.operands[0]).alias for op in loads}:
        return None
    widest = max(buffer_type(op.operands[op.name == "store"]).dtype.np.itemsize for op in ordered)
    return Wide(tuple(loads), tuple(stores), min(BYTES // widest, MOST))


def wide_kernel(shared: Shared, name: str, loc: Loc, element: Function, found: Wide, captured: Sequence[Value],
                resident: Sequence[int]) -> Kernel:
    """The kernel of a nest; parameters: status, the number of elements, captured.

    ``element`` takes what ``found.loads`` load, and what is captured; it returns what is stored.
    """
    w = KernelWriter(shared, name, loc, BLOCK)
    count = w.param("i64", "count")
    given = {v: w.given(t, "captured", k in resident) for k, (v, t) in enumerate(zip(
        captured, element.param_types[len(found.loads):]))}
    end, first = w.unless_failed(count), w.mul(w.first(), str(found.count))
    ctx = w.context(None, "0", "0", "0") if w.may_fail(element) else "null"

    def run(base: str, number: int, aligned: bool) -> None:
        def place(b: Value, k: int) -> tuple[Scalar, str]:
            memory = given[b]
            assert isinstance(memory, Memory)
            return memory.dtype, w.offset(w.offset(memory.ptr, base, types.memory(memory.dtype)), str(k),
                                          types.memory(memory.dtype))

        def align(t: Scalar, k: int) -> int:
            return types.width(t) * (number if aligned and k == 0 else 1)
        loaded = [[w.load(t, at, align=align(t, k)) for t, at in [place(op.operands[0], k)]][0]
                  for op in found.loads for k in range(number)]
        made = [call(w, element, ctx, [*loaded[k::number], *given.values()])[0]() for k in range(number)]
        for j, op in enumerate(found.stores):
            for k in range(number):
                t, at = place(op.operands[1], k)
                w.store(t, made[k][j], at, align=align(t, k))

    def single(i: str, _: list[str]) -> list[str]:
        run(i, 1, False)
        return []
    whole = w.code.op(f"icmp sle i64 {w.add(first, str(found.count))}, {end}", "c")
    yes, no, done = (w.code.label(h) for h in ("whole", "rest", "done"))
    w.code.branch(whole, yes, no)
    w.code.start(yes)
    run(first, found.count, True)
    w.code.jump(done)
    w.code.start(no)
    w.loop(first, end, "1", single)
    w.code.jump(done)
    w.code.start(done)
    return w.write()


