"""Kernels for products of matrices.

Of small ones a thread computes an element.  Of large ones a block computes a tile of 64 × 64, through shared memory:
for every 16 elements of the axis that is summed over, the 256 threads of the block load a part of 64 × 16 of ``a`` and
one of 16 × 64 of ``b``, zeros beyond the edges.  Each thread then adds the products for 4 × 4 elements in registers;
elements of one thread lie 16 apart, so that a warp reads shared memory without conflicts, and stores whole lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....ir.graph import Op
from ....ir.types import Scalar
from ....loop_level.types import buffer_type
from ...llvm import types
from ...math import ops
from ..device.emitter import Shared
from ..device.values import Memory
from ..image import BLOCK, Kernel
from .writer import KernelWriter, indices

TILE, DEPTH, EACH = 64, 16, 4
STEP = TILE // EACH


def product_kernel(shared: Shared, name: str, op: Op) -> Kernel:
    """``out = a @ b``, or ``out += a @ b`` under ``add``: a thread for each element of ``out``."""
    w = KernelWriter(shared, name, op.loc, BLOCK)
    found = [w.given(buffer_type(v), h) for v, h in zip(op.operands, ("out", "a", "b"))]
    out, a, b = (x for x in found if isinstance(x, Memory))
    t, batch = out.dtype, 1 if a.type.rank == 3 else 0
    rows, cols = a.type.rank > 1, b.type.rank > 1
    ta, tb = bool(op.attrs.get("ta") and rows), bool(op.attrs.get("tb") and cols)
    length = a.sizes[a.type.rank - 1 - (1 if ta else 0)]

    def element(number: str, _: list[str]) -> list[str]:
        place = indices(w, number, [("0", n, "1") for n in out.sizes])
        group, rest = place[:batch], place[batch:]
        i, j = rest[:1] if rows else [], rest[-1:] if cols else []

        def step(k: str, total: list[str]) -> list[str]:
            x = w.load(t, w.address(a, [*group, *([k, *i] if ta else [*i, k])]))
            y = w.load(t, w.address(b, [*group, *([*j, k] if tb else [k, *j])]))
            return [_combined(w, op, "add", total[0], _combined(w, op, "mul", x, y))]
        total = w.loop("0", length, "1", step, [(types.register(t), types.literal(0, t))])[0]
        at = w.address(out, place)
        w.store(t, _combined(w, op, "add", w.load(t, at), total) if op.attrs.get("add") else total, at)
        return []
    w.loop(w.first(), w.unless_failed(w.product(out.sizes)), w.threads(), element)
    return w.write()


def _combined(w: KernelWriter, op: Op, name: str, x: str, y: str) -> str:
    t = buffer_type(op.operands[0]).dtype
    return ops.apply(w, name, t, [x, y], {"acc": True}, t)


def tile_kernel(shared: Shared, name: str, op: Op) -> Kernel:
    """``out = a @ b``, or ``out += a @ b`` under ``add``, of matrices or stacks of them; parameters: the three."""
    return Tiles(shared, name, op).write()


class Tiles(KernelWriter):
    """A kernel whose threads each have ``EACH`` × ``EACH`` elements of a tile."""

    padded = TILE + 1
    """Elements between rows of a tile in shared memory: an odd number, against conflicts of banks."""

    def __init__(self, shared: Shared, name: str, op: Op) -> None:
        super().__init__(shared, name, op.loc, BLOCK)
        found = [self.given(buffer_type(v), h) for v, h in zip(op.operands, ("out", "a", "b"))]
        self.out, self.a, self.b = (x for x in found if isinstance(x, Memory))
        self.adds, self.t = bool(op.attrs.get("add")), self.out.dtype
        self.of = types.register(self.t)
        self.steps = [self._matrix(x, bool(op.attrs.get(k))) for x, k in ((self.out, ""), (self.a, "ta"),
                                                                             (self.b, "tb"))]
        self.m, self.n = self.out.sizes[-2:]
        self.k = self.a.sizes[-2 if op.attrs.get("ta") else -1]
        self.tiles = [self._array(h) for h in ("a", "b")]
        self._run()

    def _array(self, hint: str) -> str:
        size = DEPTH * self.padded
        return self.writer.global_(f"{self.name}.{hint}", f"internal addrspace(3) global [{size} x {self.of}] undef")

    def _matrix(self, b: Memory, turned: bool) -> tuple[str, str, str]:
        """The strides from a matrix to the next, along its rows' axis, and along its columns' axis."""
        *batch, row, col = self.strides(b)
        return (batch[0] if batch else "0", *((col, row) if turned else (row, col)))

    def _run(self) -> None:
        rows, cols = (self._tiles_along(n) for n in (self.m, self.n))
        batch = self.out.sizes[0] if self.out.type.rank == 3 else "1"
        count = self.unless_failed(self.product([batch, rows, cols]))
        self.thread = self.number("thread")
        self.locate()

        def tile(number: str, _: list[str]) -> list[str]:
            column = self.code.op(f"urem i64 {number}, {cols}")
            rest = self.code.op(f"udiv i64 {number}, {cols}")
            row, group = self.code.op(f"urem i64 {rest}, {rows}"), self.code.op(f"udiv i64 {rest}, {rows}")
            self._tile(group, self.mul(row, str(TILE)), self.mul(column, str(TILE)))
            return []
        self.loop(self.number("block"), count, self.number("grid_size"), tile)

    def locate(self) -> None:
        """Find the part of this thread in a tile."""
        self.x = self.code.op(f"and i64 {self.thread}, {STEP - 1}", "x")
        self.y = self.code.op(f"lshr i64 {self.thread}, 4", "y")

    def _tiles_along(self, n: str) -> str:
        return self.code.op(f"lshr i64 {self.add(n, str(TILE - 1))}, 6")

    def _tile(self, group: str, row: str, col: str) -> None:
        zero = types.literal(0, self.t)

        def depth(k: str, sums: list[str]) -> list[str]:
            self.barrier()
            self._fetch(0, group, row, k)
            self._fetch(1, group, col, k)
            self.barrier()
            return self.sums(sums)
        found = self.loop("0", self.k, str(DEPTH), depth, [(self.of, zero)] * EACH * EACH)
        for (i, j), x in zip(self.spread(row, col), found, strict=True):
            self._finish(group, i, j, x)

    def sums(self, sums: list[str]) -> list[str]:
        """The sums of this thread with the products of what is in shared memory."""
        return self.loop("0", str(DEPTH), "1", self._products, [(self.of, x) for x in sums])

    def spread(self, row: str, col: str) -> list[tuple[str, str]]:
        """The row and the column of each sum of this thread, for a tile that begins at these."""
        return [(self._shifted(row, self.y, i), self._shifted(col, self.x, j)) for i in range(EACH)
                for j in range(EACH)]

    def _shifted(self, first: str, place: str, number: int) -> str:
        return self.add(self.add(first, place), str(number * STEP))

    def _fetch(self, which: int, group: str, first: str, k: str) -> None:
        """Load a part of ``a`` (0), rows from ``first`` on, or of ``b`` (1), columns from ``first`` on."""
        source, (batch, down, right) = (self.a, self.b)[which], self.steps[1 + which]
        edge = self.m if which == 0 else self.n
        for part in range(TILE * DEPTH // BLOCK):
            number = self.add(self.thread, str(part * BLOCK))
            place, deep = ((self.code.op(f"lshr i64 {number}, 4"), self.code.op(f"and i64 {number}, 15")) if which == 0
                           else (self.code.op(f"and i64 {number}, 63"), self.code.op(f"lshr i64 {number}, 6")))
            at, along = self.add(first, place), self.add(k, deep)
            inside = [self.code.op(f"icmp slt i64 {x}, {n}", "c") for x, n in ((at, edge), (along, self.k))]
            row, col = (at, along) if which == 0 else (along, at)
            index = self.add(self.mul(group, batch), self.add(self.mul(row, down), self.mul(col, right)))
            both = self.code.op(f"and i1 {inside[0]}, {inside[1]}", "c")
            x = self.where(both, self.t, types.literal(0, self.t), partial(self._element, source, index))
            self.store(self.t, x, self._shared(which, deep, place), 3)

    def _element(self, source: Memory, index: str) -> str:
        return self.load(self.t, self.offset(source.ptr, index, self.of))

    def _shared(self, which: int, deep: str, place: str) -> str:
        index = self.add(self.mul(deep, str(self.padded)), place)
        return self.code.op(f"getelementptr inbounds {self.of}, ptr addrspace(3) {self.tiles[which]}, i64 {index}")

    def element(self, which: int, deep: str, place: str) -> str:
        """An element of the part of ``a`` (0), or of ``b`` (1), in shared memory."""
        return self.load(self.t, self._shared(which, deep, place), 3)

    def _products(self, deep: str, sums: Sequence[str]) -> list[str]:
        column, row = ([self.element(which, deep, self.add(place, str(i * STEP))) for i in range(EACH)]
                       for which, place in ((0, self.y), (1, self.x)))
        return [self._combine("add", sums[i * EACH + j], self._combine("mul", column[i], row[j]))
                for i in range(EACH) for j in range(EACH)]

    def _combine(self, name: str, x: str, y: str) -> str:
        t: Scalar = self.t
        return ops.apply(self, name, t, [x, y], {"acc": True}, t)

    def _finish(self, group: str, row: str, col: str, x: str) -> None:
        inside = [self.code.op(f"icmp slt i64 {i}, {n}", "c") for i, n in ((row, self.m), (col, self.n))]
        batch, down, right = self.steps[0]

        def store() -> None:
            index = self.add(self.mul(group, batch), self.add(self.mul(row, down), self.mul(col, right)))
            at = self.offset(self.out.ptr, index, self.of)
            self.store(self.t, self._combine("add", self.load(self.t, at), x) if self.adds else x, at)
        self.if_(self.code.op(f"and i1 {inside[0]}, {inside[1]}", "c"), store)
