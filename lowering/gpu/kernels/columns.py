"""Kernels of nests whose bodies have loops across lines (``device/shared_rows.py``): a block has 32 iterations."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import Loc
from ....ir.graph import Function, Op, Value
from ..device.emitter import Shared
from ..device.function import call
from ..device.shared_rows import THREADS, WARPS, ColumnFunction
from ..device.values import Memory
from ..image import WARP
from .loops import MapKernel, Needs
from .writer import KernelWriter, Known, indices


def column_kernel(shared: Shared, name: str, loc: Loc, loops: Sequence[Known], body: Function, stores: Sequence[Op],
                  captured: Sequence[Value], resident: Sequence[int]) -> MapKernel:
    """The kernel of a nest; parameters: status, of each loop (lower, count, step) without literals, captured.

    ``body`` returns the value and the place of each of ``stores``.  Lanes beyond the end of the loops run the last
    iteration, since barriers are for all threads, and store nothing.
    """
    w = KernelWriter(shared, name, loc, THREADS)
    bounds = [w.bounds(known) for known in loops]
    given = {v: w.given(t, "captured", k in resident) for k, (v, t) in enumerate(zip(
        captured, body.param_types[len(loops):]))}
    count = w.unless_failed(w.product([n for _, n, _ in bounds]))
    thread = w.number("thread")
    lane = w.code.op(f"and i64 {thread}, {WARP - 1}", "lane")
    first = w.mul(w.number("block"), str(WARP))
    i = w.add(first, lane)

    def run() -> None:
        inside = w.code.op(f"icmp slt i64 {i}, {count}", "c")
        last = w.code.op(f"select i1 {inside}, i64 {i}, i64 {w.add(count, '-1')}")
        parts = iter(call(w, body, "null", [*indices(w, last, bounds), *given.values()], ColumnFunction.suffix)[0]())
        of_first = w.code.op(f"icmp ult i64 {thread}, {WARP}", "c")
        stored = [(op, next(parts), [next(parts) for _ in op.operands[2:]]) for op in stores]

        def store() -> None:
            for op, x, at in stored:
                memory = given[op.operands[1]]
                assert isinstance(memory, Memory)
                w.store(memory.dtype, x, w.address(memory, at))
        w.if_(w.code.op(f"and i1 {inside}, {of_first}", "c"), store)
    w.if_(w.code.op(f"icmp slt i64 {first}, {count}", "c"), run)
    return MapKernel(w.write(), None, Needs(), (), WARPS, once=True)
