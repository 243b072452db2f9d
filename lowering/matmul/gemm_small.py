"""Small matrix products, tile by tile: some rows of one vector each stay in registers for all of ``k``.

This is written with vectors, for machines that mask elements at no cost.  The last columns are a masked vector, so
narrow results (a layer with two outputs) are no special case.  LLVM's vectoriser would run along a row of the result
for each ``k``, and short rows would consist mostly of its scalar remainder.
"""

from __future__ import annotations

from ...ir.types import Scalar
from ..builder.function_builder import FunctionBuilder
from ..llvm import types
from ..math.libmvec import masks_tails
from ..math.options import float_flags
from .product import Product

BITS = 512                  # vector width
ROWS = 4                    # rows of a tile: enough independent additions


def fit(fn: FunctionBuilder, p: Product) -> bool:
    """True if ``p`` is to be computed tile by tile: neither operand is a vector, and ``b`` is not transposed."""
    plain = p.t.is_float and not p.tb and "1" not in (p.m, p.n)
    return plain and not fn.target.is_gpu and masks_tails(fn.target.features)


def divide(fn: FunctionBuilder, x: str, by: int) -> tuple[str, str]:
    """The quotient and the remainder of ``x`` and ``by``."""
    if x[0] != "%":
        return str(int(x) // by), str(int(x) % by)
    return fn.code.arith("udiv", "i64", x, str(by), hint="n"), fn.code.arith("urem", "i64", x, str(by), hint="n")


def product(fn: FunctionBuilder, p: Product) -> None:
    if p.m[0] == "%":
        return _any_rows(fn, p)
    whole, rest = divmod(int(p.m), ROWS)
    fn.loop(str(whole), lambda g, _: _strip(fn, p, [fn.add(fn.mul(g, str(ROWS)), str(r)) for r in range(ROWS)]))
    if rest:
        _strip(fn, p, [str(whole * ROWS + r) for r in range(rest)])


def _any_rows(fn: FunctionBuilder, p: Product) -> None:
    """Emit the loop for an unknown number of rows.

    The last chunk repeats the last row.  Code for fewer rows would take as long, since each of its sums is a chain of
    dependent additions, and would double the code.
    """
    smin = fn.writer.declare("llvm.smin.i64", "i64", "i64, i64")
    strips, _ = divide(fn, fn.add(p.m, str(ROWS - 1)), ROWS)
    last = fn.sub(p.m, "1")

    def strip(g: str, _: list[str]) -> list[str]:
        first = fn.mul(g, str(ROWS))
        others = [fn.code.call("i64", smin, ("i64", fn.add(first, str(r))), ("i64", last)) for r in range(1, ROWS)]
        return _strip(fn, p, [first, *others])
    fn.loop(strips, strip)


def _strip(fn: FunctionBuilder, p: Product, rows: list[str]) -> list[str]:
    lanes = BITS // p.t.bits
    blocks, _ = divide(fn, fn.add(p.n, str(lanes - 1)), lanes)
    fn.loop(blocks, lambda b, _: _tile(fn, p, rows, fn.mul(b, str(lanes))))
    return []


def _tile(fn: FunctionBuilder, p: Product, rows: list[str], column: str) -> list[str]:
    vector = Vector(fn, p.t, column, p.n)
    places = [fn.address(p.t, p.c, fn.add(fn.mul(i, p.n), column)) for i in rows]
    start = [vector.load(at) if p.add else "zeroinitializer" for at in places]
    flags = float_flags(fn.options, {"acc": True})

    def body(k: str, sums: list[str]) -> list[str]:
        b = vector.load(fn.address(p.t, p.b, fn.add(fn.mul(k, p.n), column)))
        factors = [fn.load(p.t, p.a, fn.add(fn.mul(k, p.m), i) if p.ta else fn.add(fn.mul(i, p.k), k)) for i in rows]
        products = [fn.code.arith("fmul", vector.type, vector.splat(x), b, flags=flags) for x in factors]
        return [fn.code.arith("fadd", vector.type, s, x, flags=flags) for s, x in zip(sums, products)]

    for at, total in zip(places, fn.loop(p.k, body, [(vector.type, s) for s in start])):
        vector.store(total, at)
    return []


class Vector:
    """Elements of a row from ``first`` on, masked to those before ``end``."""

    def __init__(self, fn: FunctionBuilder, t: Scalar, first: str, end: str) -> None:
        self.fn, self.first, self.lanes, self.element = fn, first, BITS // t.bits, types.register(t)
        self.type, self.bytes = f"<{self.lanes} x {self.element}>", types.width(t)
        self.suffix = f"v{self.lanes}{t.name}"
        mask = fn.writer.declare(f"llvm.get.active.lane.mask.v{self.lanes}i1.i64", f"<{self.lanes} x i1>", "i64, i64")
        bools = f"<{self.lanes} x i1>"
        self.mask = bools, fn.code.call(bools, mask, ("i64", first), ("i64", end))
        if fn.options.level == 0:                    # LLVM fails on masks that are used in their own block
            behind = fn.code.label()
            fn.code.jump(behind)
            fn.code.start(behind)

    def load(self, at: str) -> str:
        callee = self.fn.writer.declare(f"llvm.masked.load.{self.suffix}.p0", self.type,
                                        f"ptr, i32, <{self.lanes} x i1>, {self.type}")
        return self.fn.code.call(self.type, callee, ("ptr", at), ("i32", str(self.bytes)), self.mask,
                                 (self.type, "zeroinitializer"))

    def store(self, value: str, at: str) -> None:
        callee = self.fn.writer.declare(f"llvm.masked.store.{self.suffix}.p0", "void",
                                        f"{self.type}, ptr, i32, <{self.lanes} x i1>")
        self.fn.code.call_void(callee, (self.type, value), ("ptr", at), ("i32", str(self.bytes)), self.mask)

    def splat(self, x: str) -> str:
        """``x`` in every lane."""
        one = self.fn.code.insert_element(self.type, "poison", self.element, x, 0)
        return self.fn.code.shuffle(self.type, self.type, one, "poison", f"<{self.lanes} x i32> zeroinitializer")
