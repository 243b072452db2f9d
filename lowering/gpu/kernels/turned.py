"""Nests that read arrays across their lines, such as transpositions: kernels of tiles, through shared memory.

::

    for %i { for %j { %x = load %a, %j, %i;  store %x, %b, %i, %j } }

Threads that run along ``%j`` would each read another line of ``%a``.  So a block of 32 × 8 threads first loads a tile
of 32 × 32 elements along ``%i``, and then runs the body along ``%j`` with the elements from shared memory.  A row of
the tile is one element longer than that, so that neither way has conflicts of banks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....errors import Loc
from ....ir.graph import Function, Op, Value
from ....ir.types import Scalar
from ....loop_level.types import buffer_type
from ..device.emitter import Shared
from ..device.function import call
from ..device.patterns import is_plain
from ..image import BLOCK, WARP
from .loops import MapKernel, Needs
from .writer import KernelWriter, Known, indices

TILE = WARP
_ROWS = BLOCK // TILE
_PADDED = TILE + 1


@dataclass(frozen=True)
class Turned:
    """The loads of a nest that run along loop ``axis``, where its last loop jumps."""

    axis: int
    loads: tuple[Op, ...]


def turned(loops: Sequence[Op]) -> Turned | None:
    """The loads of a nest that are across lines, along one loop; None if there are none, or they are too many."""
    region = loops[-1].regions[0]
    ivs = [loop.regions[0].params[0] for loop in loops]
    if len(ivs) < 2 or loops[0].operands[3:] or not is_plain(region.ops):
        return None
    stores = [op for op in region.ops if op.name == "store"]
    written = {buffer_type(op.operands[1]).alias for op in stores}
    if None in written or not stores or any(op.operands[-1] is not ivs[-1] for op in stores):
        return None
    found = [op for op in region.ops if op.name == "load" and _is_across(op, ivs, region.ops)
             and buffer_type(op.operands[0]).alias not in (*written, None)]
    axis = next((ivs.index(op.operands[-1]) for op in found), -1)
    loads = tuple(op for op in found if op.operands[-1] is ivs[axis])
    used = sum(buffer_type(op.operands[0]).dtype.np.itemsize for op in loads) * TILE * _PADDED
    from_zero = all(loops[k].operands[0].const == 0 and loops[k].operands[2].const == 1 for k in (axis, -1))
    return Turned(axis, loads) if loads and from_zero and used <= MOST_SHARED else None


MOST_SHARED = 48 << 10
"""Bytes of shared memory that every device has for a block."""


def _is_across(op: Op, ivs: Sequence[Value], ops: Sequence[Op]) -> bool:
    """True if a load is along a loop that is not the last, and jumps along the last; other indices are fixed."""
    b, *at = op.operands
    return b.op not in ops and at[-1] in ivs[:-1] and ivs[-1] in at[:-1] and not any(
        v.op in ops for v in at if v.op is not None)


def turned_kernel(shared: Shared, name: str, loc: Loc, body: Function, fetch: Function, loops: Sequence[Known],
                  found: Turned, resident: Sequence[int] = ()) -> MapKernel:
    """The kernel of a nest; parameters: status, of each loop (lower, count, step) without literals, captured.

    ``fetch`` takes the indices and what is captured, and returns the elements that are loaded across; ``body`` takes
    the indices, these elements, and what is captured; of ``resident`` scalars the address is passed.
    """
    w = KernelWriter(shared, name, loc, BLOCK)
    bounds = [w.bounds(known) for known in loops]
    captured = [w.given(t, "captured", k in resident) for k, t in enumerate(fetch.param_types[len(loops):])]
    types = [t for t in fetch.result_types if isinstance(t, Scalar)]
    tiles = [w.shared_array(f"{name}.tile{k}", t, TILE * _PADDED) for k, t in enumerate(types)]
    across, along = bounds[found.axis][1], bounds[-1][1]
    outer = [b for k, b in enumerate(bounds[:-1]) if k != found.axis]
    parts = [w.code.op(f"lshr i64 {w.add(n, str(TILE - 1))}, 5", "tiles") for n in (across, along)]
    count = w.unless_failed(w.product([*(n for _, n, _ in outer), *parts]))
    number, thread = w.number("block"), w.number("thread")
    x, y = w.code.op(f"and i64 {thread}, {TILE - 1}", "x"), w.code.op(f"lshr i64 {thread}, 5", "y")

    def tile() -> None:
        *others, row, column = indices(w, number, [*outer, ("0", parts[0], "1"), ("0", parts[1], "1")])
        first, second = w.mul(row, str(TILE)), w.mul(column, str(TILE))

        def place(i: str, j: str) -> list[str]:
            rest = iter(others)
            return [i if k == found.axis else j if k == len(bounds) - 1 else next(rest) for k in range(len(bounds))]

        def each(i: str, j: str, run: Callable[[str, str, str], None]) -> None:
            """Run for the element (i, j) of the tile, if there is one, with its place in shared memory."""
            at = w.add(w.mul(j, str(_PADDED)), i)
            i, j = w.add(first, i), w.add(second, j)
            inside = [w.code.op(f"icmp slt i64 {v}, {n}", "c") for v, n in ((i, across), (j, along))]
            w.if_(w.code.op(f"and i1 {inside[0]}, {inside[1]}", "c"), lambda: run(i, j, at))

        def load(i: str, j: str, at: str) -> None:
            made, _ = call(w, fetch, "null", [*place(i, j), *captured])
            for t, array, element in zip(types, tiles, made()):
                w.store(t, element, w.shared_at(array, t, at), 3)

        def apply(i: str, j: str, at: str) -> None:
            elements = [w.load(t, w.shared_at(array, t, at), 3) for t, array in zip(types, tiles)]
            call(w, body, "null", [*place(i, j), *elements, *captured])
        rows = [w.add(y, str(k * _ROWS)) for k in range(TILE // _ROWS)]
        for row_of_tile in rows:
            each(x, row_of_tile, load)
        w.barrier()
        for row_of_tile in rows:
            each(row_of_tile, x, apply)
    w.if_(w.code.op(f"icmp slt i64 {number}, {count}", "c"), tile)
    return MapKernel(w.write(), None, Needs(), (), once=True, tiled=(found.axis, TILE))
