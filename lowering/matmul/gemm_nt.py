"""Products of few rows with a transposed matrix: each element is a dot product along two rows.

``X @ W.T`` for a few vectors is a layer applied to a small batch.  A library first packs ``W``, which costs more than
the product.  Here a tile of four by four dot products stays in registers for all of ``k``: eight rows are read for
sixteen products.  Four rows of ``b`` stay in the L1 cache while all of ``a`` is read.
"""

from __future__ import annotations

from collections.abc import Callable

from ..builder.function_builder import FunctionBuilder
from ..math.libmvec import masks_tails
from ..math.options import float_flags
from .gemm_small import BITS, Vector, divide
from .product import Product

TILE = 4                    # rows of each operand in a tile
LARGEST = 1 << 15           # elements of ``a`` at most, which is read again for each tile's rows of ``b``
LONG = 8                    # least ratio of ``k`` to rows; below it transposing ``b`` (``gemm.py``) is cheaper


def fit(fn: FunctionBuilder, p: Product) -> bool:
    """True if ``p`` multiplies rows with rows, on a machine with masks."""
    plain = p.t.is_float and p.tb and not p.ta and "1" not in (p.m, p.n)
    return plain and not fn.target.is_gpu and masks_tails(fn.target.features)


def pays(fn: FunctionBuilder, p: Product) -> str:
    """The run-time condition under which this kernel is the fastest.

    A tile's sums cost as much as some 60 steps along ``k``.  For 750 columns, in G of multiplications a second with
    (without) dot products: 48 (42) for k = 300 and 20 rows, 41 (41) for 150 and 16, 24 (34) for 50 and 12.
    """
    long = fn.code.icmp("sle", "i64", fn.mul(p.m, str(LONG)), p.k, hint="c")
    few = fn.code.icmp("sle", "i64", fn.mul(p.m, p.k), str(LARGEST), hint="c")
    return fn.code.arith("and", "i1", long, few, hint="c")


def product(fn: FunctionBuilder, p: Product) -> None:
    def columns(g: str, _: list[str]) -> list[str]:
        column = fn.mul(g, str(TILE))
        whole, rest = divide(fn, p.m, TILE)
        done = fn.mul(whole, str(TILE))
        fn.loop(whole, lambda i, _: _tile(fn, p, fn.mul(i, str(TILE)), TILE, column))
        fn.loop(rest, lambda i, _: _tile(fn, p, fn.add(done, i), 1, column))
        return []

    fn.loop(divide(fn, fn.add(p.n, str(TILE - 1)), TILE)[0], columns)


def _tile(fn: FunctionBuilder, p: Product, row: str, rows: int, column: str) -> list[str]:
    """``rows`` rows by ``TILE`` columns of the result; columns beyond the last are replaced by the last."""
    lanes = BITS // p.t.bits
    groups, _ = divide(fn, p.k, lanes)
    part = Vector(fn, p.t, fn.mul(groups, str(lanes)), p.k)
    smallest = fn.writer.declare("llvm.smin.i64", "i64", "i64, i64")
    last = fn.code.arith("sub", "i64", p.n, "1")
    columns = [fn.code.call("i64", smallest, ("i64", fn.add(column, str(i))), ("i64", last)) for i in range(TILE)]
    starts = [fn.address(p.t, p.a, fn.mul(fn.add(row, str(i)), p.k)) for i in range(rows)]
    starts += [fn.address(p.t, p.b, fn.mul(j, p.k)) for j in columns]
    end = fn.code.call("i64", smallest, ("i64", fn.add(column, str(TILE))), ("i64", p.n))
    place = Vector(fn, p.t, column, end)                 # made early: LLVM at level 0 fails on masks used at once
    flags = float_flags(fn.options, {"acc": True})

    def step(sums: list[str], load: Callable[[str], str]) -> list[str]:
        read = [load(start) for start in starts]
        products = [fn.code.arith("fmul", part.type, x, y, flags=flags) for x in read[:rows] for y in read[rows:]]
        return [fn.code.arith("fadd", part.type, s, x, flags=flags) for s, x in zip(sums, products)]

    def whole(g: str, sums: list[str]) -> list[str]:
        at = fn.mul(g, str(lanes))
        return step(sums, lambda start: fn.code.load(part.type, fn.address(p.t, start, at), align=part.bytes))

    zeros = [(part.type, "zeroinitializer")] * (rows * TILE)
    sums = fn.loop(groups, whole, zeros)
    sums = step(sums, lambda start: part.load(fn.address(p.t, start, part.first)))
    for i in range(rows):
        total = _totals(fn, part, sums[i * TILE:(i + 1) * TILE])
        at = fn.address(p.t, p.c, fn.add(fn.mul(fn.add(row, str(i)), p.n), column))
        if p.add:
            total = fn.code.arith("fadd", place.type, place.load(at), total, flags=flags)
        place.store(total, at)
    return []


def _totals(fn: FunctionBuilder, part: Vector, vectors: list[str]) -> str:
    """A vector that starts with the sums of the elements of each of ``vectors``, whose number is a power of two.

    Each step adds the even and odd elements of two vectors, which leaves one vector with half as many terms of each.
    """
    flags, wanted, width = float_flags(fn.options, {"acc": True}), len(vectors), part.lanes

    def halved(x: str, y: str, of: int) -> str:
        """The sums of neighbours in the first ``of`` elements of ``x`` followed by ``y``."""
        kind, half = f"<{width} x {part.element}>", len(range(0, of, 2))
        masks = [", ".join(f"i32 {i}" for i in range(first, of, 2)) for first in (0, 1)]
        type = f"<{half} x {part.element}>"
        even, odd = (fn.code.shuffle(type, kind, x, y, f"<{half} x i32> <{mask}>") for mask in masks)
        return fn.code.arith("fadd", type, even, odd, flags=flags)

    while len(vectors) > 1:
        vectors = [halved(x, y, 2 * width) for x, y in zip(vectors[::2], vectors[1::2])]
    while width > wanted:
        vectors = [halved(vectors[0], "poison", width)]
        width //= 2
    numbers = ", ".join(f"i32 {i}" if i < wanted else "i32 poison" for i in range(part.lanes))
    kind = f"<{width} x {part.element}>"
    return fn.code.shuffle(part.type, kind, vectors[0], "poison", f"<{part.lanes} x i32> <{numbers}>")
