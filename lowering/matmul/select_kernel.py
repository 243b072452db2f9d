"""Chooses the kernel of a matrix product.

Products of float matrices call a routine that all modules share (``gemm.py``); the others are written here.  Small
matrices of known sizes have loops of their own (``gemm_small.py`` if the machine has masks).  Products with a vector
are loops, or BLAS if they are large.  Products of integers, and all products on a GPU, are loops without BLAS.

All ranks are reduced to ``C[m, n] (+)= op(A)[m, k] · op(B)[k, n]`` (``Product``).  Vectors are matrices with one row
or column, chosen so that the innermost loop runs along rows.  Transposes of operands are flags, never copies.
Sizes that are unknown at compile time are tested at run time, in one function for each kind of product.  Where code is
linked at run time, such a function is a module of its own, which is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ...ir.types import Scalar
from ...kernels import blas
from ..builder.function_builder import FunctionBuilder
from ..llvm import float_state, types
from ..llvm.code import Code
from ..llvm.emit import Writer, global_name
from ..llvm.target import BLAS
from ..llvm.types import Buffer, literal
from ..math import ops
from ..math.options import float_flags
from . import gemm, gemm_nt, gemm_small
from .gemm_small import divide
from .product import Product

LARGE = 8_192               # multiplications above which a call of BLAS, or of a routine for known sizes, is faster
UNROLL = 4                  # rows of b that are added to a row of c in one pass over it


def multiply(fn: FunctionBuilder, c: Buffer, left: tuple[Buffer, bool], right: tuple[Buffer, bool], row: str,
             add: bool, ordered: bool = False) -> None:
    """``c = a @ b``, or ``c += a @ b`` with ``add``; each operand with True if it is stored transposed.

    ``row``: the distance of the rows of an operand that is a block of a matrix, else ``""``.  ``ordered``: for two
    matrices of floats, each sum is in order.
    """
    (a, ta), (b, tb) = left, right
    t, ranks = a.dtype, (len(a.sizes), len(b.sizes))
    if ranks == (2, 1):
        m, k = (a.sizes[1], a.sizes[0]) if ta else a.sizes
        p = Product(t, b.ptr, a.ptr, c.ptr, "1", m, k, False, False, add, row) if ta else \
            Product(t, a.ptr, b.ptr, c.ptr, m, "1", k, False, True, add, row)
    elif ranks == (1, 2):
        k, n = (b.sizes[1], b.sizes[0]) if tb else b.sizes
        p = Product(t, b.ptr, a.ptr, c.ptr, n, "1", k, False, True, add, row) if tb else \
            Product(t, a.ptr, b.ptr, c.ptr, "1", n, k, False, False, add, row)
    else:
        m, k = (a.sizes[-1], a.sizes[-2]) if ta else a.sizes[-2:]
        n = b.sizes[-2 if tb else -1]
        p = Product(t, a.ptr, b.ptr, c.ptr, m, n, k, ta, tb, add, ordered=ordered)
    if ranks == (3, 3):
        _batched(fn, p, a.sizes[0])
    else:
        _product(fn, p)


def _batched(fn: FunctionBuilder, p: Product, batch: str) -> None:
    steps = fn.mul(p.m, p.k), fn.mul(p.k, p.n), fn.mul(p.m, p.n)

    def body(i: str, _: list[str]) -> list[str]:
        a, b, c = (fn.address(p.t, ptr, fn.mul(i, step)) for ptr, step in zip((p.a, p.b, p.c), steps))
        _product(fn, replace(p, a=a, b=b, c=c))
        return []

    fn.loop(batch, body)


# --- a routine, loops or BLAS ----------------------------------------------------------------------------------------

def _product(fn: FunctionBuilder, p: Product) -> None:
    if p.ordered:
        return _call_routine(fn, p)
    sizes = (p.m, p.n, p.k)
    known = not any(s[0] == "%" for s in sizes)
    if known and prod(map(int, sizes)) < LARGE:
        _loops(fn, p)
    elif _has_routine(fn, p) and not gemm_nt.fit(fn, p):
        _call_routine(fn, p)
    elif not known or gemm_nt.fit(fn, p):
        _call_outlined(fn, p)
    elif _has_blas(fn, p.t):
        _blas(fn, p)
    else:
        _loops(fn, p)


def _has_routine(fn: FunctionBuilder, p: Product) -> bool:
    return p.t.is_float and not fn.target.is_gpu and "1" not in (p.m, p.n)


def _call_routine(fn: FunctionBuilder, p: Product) -> None:
    gemm.call(fn.code, fn.writer, p.t, (p.a, p.b, p.c), (p.m, p.n, p.k), (p.ta, p.tb), p.add, p.ordered)


def _has_blas(fn: FunctionBuilder, t: Scalar) -> bool:
    allowed = fn.options.blas and BLAS in fn.target.libraries
    return allowed and t.is_float and not fn.target.is_gpu and blas.library() is not None


def _call_outlined(fn: FunctionBuilder, p: Product) -> None:
    """Call the function for this kind of product, which is defined at its first use."""
    if not fn.writer.defines(p.kind):
        _outline(fn, p)
    fn.code.call_void(global_name(p.kind), ("ptr", p.a), ("ptr", p.b), ("ptr", p.c), ("i64", p.m), ("i64", p.n),
                      ("i64", p.k), ("i64", p.stride or "0"))


def _outline(fn: FunctionBuilder, p: Product) -> None:
    """Write the function for this kind of product, into a module of its own if that can be shared."""
    inner = replace(p, a="%a", b="%b", c="%c", m="1" if p.m == "1" else "%m", n="1" if p.n == "1" else "%n", k="%k",
                    stride="%stride" if p.stride else "")
    writer, code, group = fn.writer, fn.code, fn.group
    apart = writer.routines is not None
    own = Writer(writer.triple, writer.layout) if apart else writer
    fn.writer, fn.code, fn.group = own, Code(), ""
    try:
        _by_size(fn, inner)
        fn.code.ret()
        text = fn.code.text()
    finally:
        fn.writer, fn.code, fn.group = writer, code, group
    # The operands may be one array; only the result is written.
    pointers, sizes = ("ptr readonly captures(none)",) * 2 + ("ptr noalias captures(none)",), ("i64",) * 4
    params = ", ".join(f"{t} %{name}" for t, name in zip(pointers + sizes, ("a", "b", "c", "m", "n", "k", "stride")))
    head = f"void {global_name(p.kind)}({params}) {own.attributes(f'noinline {_MEMORY}')}"
    own.function(p.kind, f"define {'' if apart else 'internal '}{head} {{\n{text}\n}}\n")
    if writer.routines is not None:
        writer.routines[p.kind] = own.text()
        writer.declare(p.kind, "void", ", ".join(pointers + sizes), writer.attributes(_MEMORY))


def _by_size(fn: FunctionBuilder, p: Product) -> None:
    if gemm_nt.fit(fn, p):
        fn.either(gemm_nt.pays(fn, p), lambda: gemm_nt.product(fn, p), lambda: _call_routine(fn, p))
    elif _has_blas(fn, p.t):
        work = fn.mul(fn.mul(p.m, p.n), p.k)
        large = fn.code.icmp("sge", "i64", work, str(LARGE), hint="c")
        fn.either(large, lambda: _blas(fn, p), lambda: _loops(fn, p))
    else:
        _loops(fn, p)


# --- loops ------------------------------------------------------------------------------------------------------

Where = Callable[[str], tuple[str, str]]


def _loops(fn: FunctionBuilder, p: Product) -> None:
    if gemm_small.fit(fn, p):
        gemm_small.product(fn, p)
    elif p.tb:
        fn.loop(p.m, lambda i, _: fn.loop(p.n, lambda j, _: _element(fn, p, i, j)))
    else:
        fn.loop(p.m, lambda i, _: _row(fn, p, i))


def _a_index(fn: FunctionBuilder, p: Product, i: str, k: str) -> str:
    if p.ta:
        return fn.add(fn.mul(k, p.m), i)
    return fn.add(fn.mul(i, p.stride or p.k if p.n == "1" else p.k), k)


def _element(fn: FunctionBuilder, p: Product, i: str, j: str) -> list[str]:
    """One element as a dot product of a row of ``a`` and a row of the transposed ``b``."""
    row = fn.mul(j, p.k)
    value = _dot_loop(fn, p.t, p.k, lambda k: (p.a, _a_index(fn, p, i, k)), lambda k: (p.b, fn.add(row, k)))
    at = fn.add(fn.mul(i, p.n), j)
    if p.add:
        value = _plus(fn, p.t, fn.load(p.t, p.c, at), value)
    fn.store(p.t, value, p.c, at)
    return []


def _row(fn: FunctionBuilder, p: Product, i: str) -> list[str]:
    """One row as a sum of multiples of the rows of ``b``, ``UNROLL`` of them for each load and store of the row."""
    row = fn.mul(i, p.n)
    if not p.add:
        fn.loop(p.n, lambda j, _: _put(fn, p, fn.add(row, j), literal(0, p.t)))
    groups, rest = divide(fn, p.k, UNROLL)
    fn.loop(groups, lambda g, _: _add_rows(fn, p, i, row, fn.mul(g, str(UNROLL)), UNROLL))
    done, note = fn.mul(groups, str(UNROLL)), _cold(fn) if rest[0] == "%" else ""
    fn.loop(rest, lambda k, _: _add_rows(fn, p, i, row, fn.add(done, k), 1, note))
    return []


def _cold(fn: FunctionBuilder) -> str:
    """Loop metadata for the few remaining rows, which are not worth the time to vectorise or unroll."""
    return fn.writer.loop('!"llvm.loop.vectorize.enable", i1 false', '!"llvm.loop.unroll.disable"')


def _add_rows(fn: FunctionBuilder, p: Product, i: str, row: str, first: str, count: int, note: str = "") -> list[str]:
    """Add the multiples of ``count`` rows of ``b``, starting at row ``first``."""
    ks = [fn.add(first, str(u)) for u in range(count)]
    factors = [fn.load(p.t, p.a, _a_index(fn, p, i, k)) for k in ks]
    starts = [fn.mul(k, p.stride or p.n) for k in ks]

    def body(j: str, _: list[str]) -> list[str]:
        at = fn.add(row, j)
        total = fn.load(p.t, p.c, at)
        for x, start in zip(factors, starts):
            total = _plus(fn, p.t, total, _times(fn, p.t, x, fn.load(p.t, p.b, fn.add(start, j))))
        return _put(fn, p, at, total)

    fn.loop(p.n, body, note=note)
    return []


def _put(fn: FunctionBuilder, p: Product, at: str, value: str) -> list[str]:
    fn.store(p.t, value, p.c, at)
    return []


def _plus(fn: FunctionBuilder, t: Scalar, x: str, y: str) -> str:
    return ops.TABLE["add"](fn, t, [x, y], float_flags(fn.options, {"acc": True}))


def _times(fn: FunctionBuilder, t: Scalar, x: str, y: str) -> str:
    return ops.TABLE["mul"](fn, t, [x, y], float_flags(fn.options, {}))


def _dot_loop(fn: FunctionBuilder, t: Scalar, n: str, x: Where, y: Where) -> str:
    def body(k: str, acc: list[str]) -> list[str]:
        left, right = (fn.load(t, *where(k)) for where in (x, y))
        return [_plus(fn, t, acc[0], _times(fn, t, left, right))]

    return fn.loop(n, body, [(types.register(t), literal(0, t))], note=fn.writer.interleaved())[0]


# --- BLAS -------------------------------------------------------------------------------------------------------

_MEMORY = "nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite)"
_IN, _OUT = "ptr readonly captures(none)", "ptr captures(none)"


def _blas(fn: FunctionBuilder, p: Product) -> None:
    """Call BLAS for a product with a vector."""
    if p.m == "1":
        _gemv(fn, p, p.b, *((p.n, p.k) if p.tb else (p.k, p.n)), p.a, blas.PLAIN if p.tb else blas.TRANSPOSED)
    else:
        _gemv(fn, p, p.a, *((p.k, p.m) if p.ta else (p.m, p.k)), p.b, blas.TRANSPOSED if p.ta else blas.PLAIN)


def _gemv(fn: FunctionBuilder, p: Product, matrix: str, rows: str, columns: str, x: str, flag: int) -> None:
    of, one, beta = types.register(p.t), literal(1.0, p.t), literal(1.0 if p.add else 0.0, p.t)
    name = blas.symbol(("d" if p.t.bits == 64 else "s") + "gemv")
    callee = fn.writer.declare(
        name, "void", f"i32, i32, i64, i64, {of}, {_IN}, i64, {_IN}, i64, {of}, {_OUT}, i64", _MEMORY)

    def call() -> None:
        fn.code.call_void(
            callee, ("i32", str(blas.ROW_MAJOR)), ("i32", str(flag)), ("i64", rows), ("i64", columns), (of, one),
            ("ptr", matrix), ("i64", p.stride or columns), ("ptr", x), ("i64", "1"), (of, beta), ("ptr", p.c),
            ("i64", "1"))
    if fn.options.flush:
        float_state.exactly(fn.writer, fn.code, call)
    else:
        call()
