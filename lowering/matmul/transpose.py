"""A routine that transposes a panel of a matrix: its columns, which are stored as rows, become rows of a given width.

::

    void @jitad.turn.f32(ptr to, i64 width, ptr from, i64 k, i64 count, i64 depth)

``to[d * width + j] = from[j * k + d]`` for ``j < count`` and ``d < depth``.  The routine works on squares: it loads as
many vectors as a vector has elements and interleaves them until they are rows.  The last squares overlap the preceding
ones; the last column replaces columns that do not exist.  Rows are stored in order, so that the elements which a
square writes beyond a narrow row are overwritten by the next row.  ``to`` has space for one vector after the last row.
"""

from __future__ import annotations

from ...ir.types import F32, F64, Scalar
from ..builder.kernel_builder import Routine
from ..llvm import types
from ..llvm.emit import Writer
from ..llvm.target import Target

BITS = 128                  # vector width: instruction selection takes three times as long for wider squares
PARAMS = "ptr %to, i64 %width, ptr %from, i64 %k, i64 %count, i64 %depth"
ROUTINES = {f"jitad.turn.{t}": t for t in (F32, F64)}


def side(target: Target, t: Scalar) -> int:
    """Rows and columns of a square.  A panel with a multiple of this number of columns needs no space after it."""
    return max(1, min(BITS, target.vector_bits) // t.bits)


def declare(writer: Writer, t: Scalar) -> str:
    """``@name`` of the routine, which all modules share."""
    return writer.declare(f"jitad.turn.{t}", "void", "ptr, i64, ptr, i64, i64, i64",
                          writer.attributes("nounwind willreturn memory(argmem: readwrite)"))


def define(writer: Writer, target: Target, name: str) -> None:
    """Add one of ``ROUTINES`` to a module."""
    _Turn(writer, target, ROUTINES[name]).define(name)


class _Turn(Routine):
    def __init__(self, writer: Writer, target: Target, t: Scalar) -> None:
        super().__init__(writer, t)
        self.side = side(target, t)
        self.type = f"<{self.side} x {self.of}>"

    def define(self, name: str) -> None:
        side, last = str(self.side), self.sub("%count", "1")
        self.loop("0", self.below("%count"), side, lambda j, _: self._strip(j, last))
        self.code.end("ret void")
        self.writer.function(name, f"define void @{name}({PARAMS}) nounwind {{\n{self.code.text()}\n}}\n")

    def _strip(self, j: str, last: str) -> list[str]:
        """Transpose the columns from ``j`` to ``j + side``."""
        columns = [self.at("%from", self.mul(self.smaller(self.add(j, str(c)), last), "%k")) for c in range(self.side)]
        to, side = self.at("%to", j), str(self.side)
        fits = self.code.op(f"icmp sge i64 %depth, {side}")
        stop = self.code.op(f"select i1 {fits}, i64 %depth, i64 0")
        overlap = self.sub("%depth", side)
        self.loop("0", self.below(stop), side, lambda d, _: self._square(columns, to, self.smaller(d, overlap)))
        self.loop(stop, self.below("%depth"), "1", lambda d, _: self._row(columns, to, d))
        return []

    def _square(self, columns: list[str], to: str, d: str) -> list[str]:
        code, align = self.code, types.width(self.t)
        rows = [code.op(f"load {self.type}, ptr {self.at(column, d)}, align {align}") for column in columns]
        step = 1
        while step < self.side:
            half = self.side // 2
            rows = [self._interleave(rows[r], rows[r + half], part) for r in range(half) for part in (0, half)]
            step *= 2
        for r, row in enumerate(rows):
            place = self.at(to, self.mul(self.add(d, str(r)), "%width"))
            code.do(f"store {self.type} {row}, ptr {place}, align {align}")
        return []

    def _interleave(self, x: str, y: str, first: int) -> str:
        """Alternate the elements of ``x`` and ``y``, half of each, from element ``first`` on."""
        picks = ", ".join(f"i32 {first + i // 2 + (i % 2) * self.side}" for i in range(self.side))
        return self.code.op(f"shufflevector {self.type} {x}, {self.type} {y}, <{self.side} x i32> <{picks}>")

    def _row(self, columns: list[str], to: str, d: str) -> list[str]:
        """Store one row element by element, for panels with fewer rows than a square."""
        row = self.at(to, self.mul(d, "%width"))
        for c, column in enumerate(columns):
            x = self.code.op(f"load {self.of}, ptr {self.at(column, d)}")
            self.code.do(f"store {self.of} {x}, ptr {self.at(row, str(c))}")
        return []
