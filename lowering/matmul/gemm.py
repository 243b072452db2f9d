"""Products of matrices, ``c (+)= a · b``: one routine for each float type, compiled once for all modules.

A tile of ``c``, some rows of one or two vectors, stays in registers for all of ``k``.  Each step loads a piece of a
row of ``b`` and, for each row of the tile, one element of ``a``, which multiplies the whole piece (Goto and van de
Geijn 2008, the innermost kernel only).  Operands are not packed, which is faster as long as they are in a cache:

* ``a`` may also be stored transposed, since its elements are read one by one;
* a panel of ``bᵀ`` is transposed into the stack frame before it is multiplied, by a separate routine
  (``transpose.py``);
* the last columns are part of a masked vector if the machine has masks; otherwise narrower vectors compute them;
* the last rows are computed several times, with the same result, instead of by code of their own.

Every element is the sum of its products in order, whichever tile it is in.  Large products go to BLAS if there is
one, which packs.  Measured on one core of a Zen 4 (at most 58.6 G multiplications with additions a second), in G of
f32 a second, the routine and OpenBLAS, with the call::

                      a · b       aᵀ · b      a · bᵀ
    20 x 50 x 200     45  46      44  46      35  44
    50 x 200 x 20     47  46      47  43      42  32
    20 x 26 x 50      40  26      39  20      31  19
    64 x 64 x 64      54  53      53  52      48  34
    256 x 256 x 256   55  53      55  53      53  49
    1024 x 1024 x 64  42  41      36  41      41  40

::

    void @jitad.product.f32(ptr a, ptr b, ptr c, i64 m, i64 n, i64 k, i64 a.row, i64 b.row, i64 c.row, i1 ta, i1 add)

``a.row`` and so on are the distances of rows in memory; ``@jitad.product.f32.turned`` reads ``bᵀ``.  Those with
``.ordered`` never call BLAS, which adds up in an order of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ...ir.types import F32, F64, Scalar
from ...kernels import blas
from ..builder.kernel_builder import Routine
from ..llvm import types
from ..llvm.code import Code
from ..llvm.emit import Writer, global_name
from ..llvm.target import BLAS, Target
from ..math.libmvec import masks_tails
from . import transpose

ROUTINES = {f"jitad.product.{t}{form}{order}": (t, form, order) for t in (F32, F64) for form in ("", ".turned")
            for order in ("", ".ordered")}
PARAMS = [("ptr", name) for name in "abc"] + [("i64", name) for name in ("m", "n", "k", "a.row", "b.row", "c.row")] + [
    ("i1", name) for name in ("ta", "add")]
DEPTH = 128                 # rows of the panel of ``bᵀ`` that is transposed at once
LARGE = 1 << 26             # multiplications times bytes of an element above which BLAS, which packs, is faster
SHARED = 1 << 20            # multiplications above which BLAS is faster if it has several threads
FEW_ROWS, SOME = 3, 1 << 13     # with fewer rows tiles are not full: BLAS is faster above ``SOME`` multiplications


@dataclass(frozen=True)
class Width:
    """The columns of a tile: the lanes of its vectors.

    ``least`` is the number of remaining columns from which it is used; ``rows`` are the numbers of rows of its tiles.
    """

    lanes: tuple[int, ...]
    masked: bool
    least: int
    rows: tuple[int, ...]

    @property
    def columns(self) -> int:
        return sum(self.lanes)


def widths(target: Target, t: Scalar) -> tuple[Width, ...]:
    """The tiles for a machine, the widest first.

    Two vectors of eight rows are sixteen sums.  They hide the latency of four to five additions on two ports, need
    ten loads for sixteen multiplications, and take half of AVX-512's registers.  On machines with sixteen registers
    six rows fill them.  A tile of one vector and four rows would wait for its additions about as long as one of eight.
    """
    lanes = max(1, target.vector_bits // t.bits)
    half = max(1, lanes // 2)
    if masks_tails(target.features):
        return (Width((lanes, lanes), True, lanes + half + 1, (8, 4)), Width((lanes, half), True, lanes + 1, (8, 4)),
                Width((lanes,), True, half + 1, (8,)), Width((half,), True, 1, (8,)))
    narrow = sorted({lanes, half, 1}, reverse=True)
    return Width((lanes, lanes), False, 2 * lanes, (6, 3)), *(Width((n,), False, n, (6,)) for n in narrow)


def call(code: Code, writer: Writer, t: Scalar, pointers: Sequence[str], sizes: tuple[str, str, str],
         transposed: tuple[bool, bool], add: bool, ordered: bool) -> None:
    """Call a routine; ``sizes``: ``m``, ``n`` and ``k``; ``ordered``: each sum is in the order of ``k``."""
    attributes = writer.attributes("nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite)")
    kinds = ["ptr readonly captures(none)"] * 2 + ["ptr noalias captures(none)"] + ["i64"] * 6 + ["i1"] * 2
    (ta, tb), (m, n, k) = transposed, sizes
    name = f"jitad.product.{t}{'.turned' if tb else ''}{'.ordered' if ordered else ''}"
    callee = writer.declare(name, "void", ", ".join(kinds), attributes)
    values = [*pointers, *sizes, m if ta else k, k if tb else n, n, str(ta).lower(), str(add).lower()]
    code.call_void(callee, *((kind, x) for (kind, _), x in zip(PARAMS, values)))


def define(writer: Writer, target: Target, name: str) -> None:
    """Add one of ``ROUTINES`` to a module."""
    t, form, order = ROUTINES[name]
    (_Turned if form else _Product)(writer, target, t, order).define(name)


class _Multiplying(Routine):
    """The common part of the routines, which passes large products to BLAS."""

    flag = blas.PLAIN               # BLAS's flag for ``b``

    def __init__(self, writer: Writer, target: Target, t: Scalar, order: str) -> None:
        super().__init__(writer, t)
        self.target, self.widths, self.order = target, widths(target, t), order

    def define(self, name: str) -> None:
        if not self.order and BLAS in self.target.libraries and blas.library() is not None:
            self._blas_if_large()
        self._product()
        self.code.end("ret void")
        params = ", ".join(f"{kind} %{x}" for kind, x in PARAMS)
        self.writer.function(name, f"define void {global_name(name)}({params}) nounwind {{\n{self.code.text()}\n}}\n")

    def _product(self) -> None:
        raise NotImplementedError

    def _blas_if_large(self) -> None:
        code = self.code
        work = self.mul(self.mul("%m", "%n"), "%k")
        threads = self.writer.declare(blas.THREADS, "i32", "")
        limits = LARGE // types.width(self.t), SHARED, SOME
        large, shared, some = (code.op(f"icmp sge i64 {work}, {n}") for n in limits)
        if self.flag == blas.PLAIN:                     # for few rows BLAS would pack a transposed ``b``
            few = code.op(f"and i1 {some}, {code.op(f'icmp slt i64 %m, {FEW_ROWS}')}")
            large = code.op(f"or i1 {large}, {few}")
        ask, decide, yes, no = (code.label(hint) for hint in ("ask", "decide", "blas", "tiles"))
        before = code.here
        code.branch(shared, ask, decide)
        code.start(ask)
        several = code.op(f"icmp sgt i32 {code.op(f'call i32 {threads}()')}, 1")
        code.jump(decide)
        help_ = code.phi("i1", decide)
        code.add_incoming(help_, "false", before)
        code.add_incoming(help_, several, ask)
        code.start(decide)
        code.branch(code.op(f"or i1 {large}, {help_}"), yes, no)
        code.start(yes)
        self._blas()
        code.end("ret void")
        code.start(no)

    def _blas(self) -> None:
        code, of = self.code, self.of
        name = blas.symbol(("d" if self.t.bits == 64 else "s") + "gemm")
        callee = self.writer.declare(name, "void",
                                     f"i32, i32, i32, i64, i64, i64, {of}, ptr, i64, ptr, i64, {of}, ptr, i64")
        flags = f"i32 {code.op(f'select i1 %ta, i32 {blas.TRANSPOSED}, i32 {blas.PLAIN}')}, i32 {self.flag}"
        beta = code.op(f"uitofp i1 %add to {of}")
        code.do(f"call void {callee}(i32 {blas.ROW_MAJOR}, {flags}, i64 %m, i64 %n, i64 %k, {of} 1.0, "
                f"ptr %a, i64 %a.row, ptr %b, i64 %b.row, {of} {beta}, ptr %c, i64 %c.row)")


class _Product(_Multiplying):
    """``a · b``, panel by panel of ``b``, tile by tile of ``c``."""

    def _product(self) -> None:
        self.row_step = self.code.op("select i1 %ta, i64 1, i64 %a.row")
        self.depth_step = self.code.op("select i1 %ta, i64 %a.row, i64 1")
        self.last = self.sub("%m", "1")
        j = "0"
        for width in self.widths:
            j = self.loop(j, self.below("%n", width.least), str(width.columns), partial(self._panel, width))[0]

    def _panel(self, width: Width, j: str, _: list[str]) -> list[str]:
        """The columns of ``b`` from ``j`` on."""
        vectors = [_Vector(self, lanes, sum(width.lanes[:v]), j, width.masked) for v, lanes in enumerate(width.lanes)]
        i = "0"
        for count, smaller in zip(width.rows, (*width.rows[1:], 0)):
            tile = partial(self._tile, vectors, count, j)
            i = self.loop(i, self.below("%m", smaller + 1), str(count), tile)[0]
        return []

    def _tile(self, vectors: list[_Vector], count: int, j: str, i: str, _: list[str]) -> list[str]:
        """``count`` rows from ``i`` on; rows beyond the last are replaced by the last."""
        code = self.code
        rows = [self.smaller(self.add(i, str(r)), self.last) for r in range(count)]
        starts = [self.mul(r, self.row_step) for r in rows]
        corners = [self.at("%c", self.add(self.mul(r, "%c.row"), j)) for r in rows]
        places = [(v, self.at(corner, str(v.offset))) for corner in corners for v in vectors]
        sums = [v.start(at) for v, at in places]

        def step(_: str, carried: list[str]) -> list[str]:
            a, b, *sums = carried
            pieces = [v.load(self.at(b, str(v.offset))) for v in vectors]
            factors = [code.op(f"load {self.of}, ptr {self.at(a, s)}") for s in starts]
            pairs = [(v, x, y) for x in factors for v, y in zip(vectors, pieces)]
            return [self.at(a, self.depth_step), self.at(b, "%b.row"),
                    *(v.multiply_add(x, y, s) for (v, x, y), s in zip(pairs, sums))]

        carried = [("ptr", "%a"), ("ptr", self.at("%b", j)), *((v.type, s) for (v, _), s in zip(places, sums))]
        sums = self.loop("0", self.below("%k"), "1", step, carried)[3:]
        for (v, at), total in zip(places, sums):
            v.store(total, at)
        return []


class _Turned(_Multiplying):
    """``a · bᵀ``: each panel of ``b`` is transposed, then multiplied by the other routine."""

    flag = blas.TRANSPOSED

    def _product(self) -> None:
        self.turn = transpose.declare(self.writer, self.t)
        self.width = self.widths[0].columns
        self.space = self.code.alloca(self.of, self.width * (DEPTH + 1), align=64)
        depth_step = self.code.op("select i1 %ta, i64 %a.row, i64 1")
        end = self.larger("%k", "1")                        # empty sums must be stored too

        def block(start: str, _: list[str]) -> list[str]:
            depth = self.smaller(str(DEPTH), self.sub("%k", start))
            a = self.at("%a", self.mul(start, depth_step))
            adds = self.code.op(f"or i1 %add, {self.code.op(f'icmp ne i64 {start}, 0')}")
            self.loop("0", self.below("%n"), str(self.width), lambda j, _: self._panel(a, start, depth, adds, j))
            return []

        self.loop("0", self.below(end), str(DEPTH), block)

    def _panel(self, a: str, start: str, depth: str, adds: str, j: str) -> list[str]:
        """Multiply by the rows of ``b`` from ``j`` on, columns ``start`` to ``start + depth``."""
        columns = self.smaller(str(self.width), self.sub("%n", j))
        first = self.at("%b", self.add(self.mul(j, "%b.row"), start))
        self.code.do(f"call void {self.turn}(ptr {self.space}, i64 {self.width}, ptr {first}, i64 %b.row, "
                     f"i64 {columns}, i64 {depth})")
        callee = self.writer.declare(f"jitad.product.{self.t}{self.order}", "void",
                                     ", ".join(kind for kind, _ in PARAMS))
        values = [a, self.space, self.at("%c", j), "%m", columns, depth]
        values += ["%a.row", str(self.width), "%c.row", "%ta", adds]
        self.code.do(f"call void {callee}({', '.join(f'{kind} {x}' for (kind, _), x in zip(PARAMS, values))})")
        return []


class _Vector:
    """Columns of a tile that starts at column ``j``, from ``offset`` on; with ``masked`` only those below ``%n``."""

    def __init__(self, routine: _Product, lanes: int, offset: int, j: str, masked: bool) -> None:
        self.code, self.writer, self.t, self.lanes = routine.code, routine.writer, routine.t, lanes
        self.offset = offset
        self.of = routine.of
        self.type, self.bits = f"<{self.lanes} x {self.of}>", f"<{self.lanes} x i1>"
        self.suffix = f"v{self.lanes}{self.t}"
        self.mask = self.some = ""
        if masked:
            callee = self.writer.declare(f"llvm.get.active.lane.mask.v{self.lanes}i1.i64", self.bits, "i64, i64")
            self.mask = self.code.op(f"call {self.bits} {callee}(i64 {routine.add(j, str(offset))}, i64 %n)")
            self.some = self.code.op(f"select i1 %add, {self.bits} {self.mask}, {self.bits} zeroinitializer")

    def start(self, at: str) -> str:
        """The initial value of the sums: the elements of ``c``, or zeros."""
        if self.mask:
            return self._masked_load(at, self.some)
        return self.code.op(f"select i1 %add, {self.type} {self.load(at)}, {self.type} zeroinitializer")

    def load(self, at: str) -> str:
        if self.mask:
            return self._masked_load(at, self.mask)
        return self.code.op(f"load {self.type}, ptr {at}, align {types.width(self.t)}")

    def _masked_load(self, at: str, mask: str) -> str:
        callee = self.writer.declare(f"llvm.masked.load.{self.suffix}.p0", self.type,
                                     f"ptr, i32, {self.bits}, {self.type}")
        return self.code.op(f"call {self.type} {callee}(ptr {at}, i32 {types.width(self.t)}, {self.bits} {mask}, "
                            f"{self.type} zeroinitializer)")

    def store(self, value: str, at: str) -> None:
        if not self.mask:
            self.code.do(f"store {self.type} {value}, ptr {at}, align {types.width(self.t)}")
            return
        callee = self.writer.declare(f"llvm.masked.store.{self.suffix}.p0", "void",
                                     f"{self.type}, ptr, i32, {self.bits}")
        self.code.do(f"call void {callee}({self.type} {value}, ptr {at}, i32 {types.width(self.t)}, "
                     f"{self.bits} {self.mask})")

    def multiply_add(self, x: str, y: str, total: str) -> str:
        one = self.code.op(f"insertelement {self.type} poison, {self.of} {x}, i64 0")
        same = f"<{self.lanes} x i32> zeroinitializer"
        all_ = self.code.op(f"shufflevector {self.type} {one}, {self.type} poison, {same}")
        callee = self.writer.declare(f"llvm.fmuladd.{self.suffix}", self.type, ", ".join([self.type] * 3))
        return self.code.op(f"call {self.type} {callee}({self.type} {all_}, {self.type} {y}, {self.type} {total})")

