"""Kernels for products of f32 matrices by tensor cores: tiles as in ``tiles``, of which each warp has 16 × 32 elements.

The tiles of ``a`` and ``b`` are in shared memory as f32; each warp rounds what it reads (``tensor_cores``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Op
from ..device.emitter import Shared
from ..image import WARP, Kernel
from ..tensor_cores import beside, depth
from .tiles import DEPTH, Tiles

ROWS, COLS = 16, 8
"""Sizes of what a warp computes at once; four of them beside each other are its part of the tile."""
COUNT = 4


def tensor_kernel(shared: Shared, name: str, op: Op, format: str) -> Kernel:
    """``out = a @ b``, or ``out += a @ b`` under ``add``, with the elements of ``a`` and ``b`` rounded to a format."""
    return _TensorTiles(shared, name, op, format).write()


class _TensorTiles(Tiles):
    padded = 72
    """Elements between rows of a tile in shared memory: a multiple of 8 and not of 32, so that lanes with four rows and
    eight columns read from all banks."""

    def __init__(self, shared: Shared, name: str, op: Op, format: str) -> None:
        self.format = format
        super().__init__(shared, name, op)

    def locate(self) -> None:
        lane = self.code.op(f"and i64 {self.thread}, {WARP - 1}", "lane")
        warp = self.code.op(f"lshr i64 {self.thread}, 5", "warp")
        self.group, self.place = self.code.op(f"lshr i64 {lane}, 2", "g"), self.code.op(f"and i64 {lane}, 3", "t")
        self.row = self.mul(self.code.op(f"lshr i64 {warp}, 1"), str(ROWS))
        self.col = self.mul(self.code.op(f"and i64 {warp}, 1"), str(COUNT * COLS))

    def sums(self, sums: list[str]) -> list[str]:
        return self.loop("0", str(DEPTH), str(depth(self.format)), self._products, [(self.of, x) for x in sums])

    def spread(self, row: str, col: str) -> list[tuple[str, str]]:
        rows = [self.add(self.add(row, self.add(self.row, self.group)), str(8 * half)) for half in range(2)]
        first = self.add(self.add(col, self.col), self.mul(self.place, "2"))
        return [(rows[half], self.add(first, str(COLS * n + k))) for n in range(COUNT) for half in range(2)
                for k in range(2)]

    def _products(self, deep: str, sums: Sequence[str]) -> list[str]:
        s, out = beside(self.format), list[str]()
        depths = [[self.add(self.add(deep, self.mul(self.place, str(s))), str(4 * s * half + h)) for h in range(s)]
                  for half in range(2)]
        row = self.add(self.row, self.group)
        a = [self.element(0, k, self.add(row, str(8 * below))) for half in range(2) for below in range(2)
             for k in depths[half]]
        for n in range(COUNT):
            col = self.add(self.add(self.col, self.group), str(COLS * n))
            b = [self.element(1, k, col) for half in range(2) for k in depths[half]]
            out += self._multiplied(a, b, sums[4 * n:4 * n + 4])
        return out

    def _multiplied(self, a: Sequence[str], b: Sequence[str], c: Sequence[str]) -> list[str]:
        kinds = [f"<{len(xs)} x float>" for xs in (a, b, c)]
        name = self.writer.declare(f"gpu.mma.{self.format}", kinds[2], ", ".join(kinds),
                                   self.writer.attributes("convergent nounwind"))
        args = ", ".join(f"{kind} {self._vector(kind, xs)}" for kind, xs in zip(kinds, (a, b, c)))
        made = self.code.op(f"call {kinds[2]} {name}({args})", "d")
        return [self.code.op(f"extractelement {kinds[2]} {made}, i32 {k}") for k in range(4)]

    def _vector(self, kind: str, xs: Sequence[str]) -> str:
        out = "poison"
        for k, x in enumerate(xs):
            out = self.code.op(f"insertelement {kind} {out}, float {x}, i32 {k}")
        return out
