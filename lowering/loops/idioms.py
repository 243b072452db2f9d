"""Nests for which there is a routine: a buffer is set to zero, copied, or transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.graph import Op, Value
from ...loop_level.types import buffer_type
from ..llvm.types import width
from ..matmul import transpose
from .printer import Printer


def lower(p: Printer, loops: list[Op], counts: Sequence[str]) -> bool:
    """Call the routine for a nest of ``counts`` iterations; returns False if there is none."""
    body = loops[-1].regions[0].ops
    names = [op.name for op in body]
    if len(loops) == 1:
        return (_zeros(p, loops[0], body[0], counts[0]) if names == ["store"] else
                names == ["load", "store"] and _copy(p, loops[0], body[0], body[1], counts[0]))
    accesses = transposed(loops)
    return accesses is not None and _transpose(p, *accesses, counts)


def _zeros(p: Printer, loop: Op, store: Op, n: str) -> bool:
    x, memory, *at = store.operands
    known = x.const
    if at != loop.regions[0].params or known is None or known != 0 or math.copysign(1.0, known) < 0:
        return False
    b = p.buffer(memory)
    size = p.fn.mul(n, str(width(b.dtype)))
    callee = p.fn.writer.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    p.fn.code.call_void(callee, (f"ptr align {width(b.dtype)}", b.ptr), ("i8", "0"), ("i64", size), ("i1", "false"))
    return True


def _copy(p: Printer, loop: Op, load: Op, store: Op, n: str) -> bool:
    """Copy a whole buffer.  To a part of one, which may lie anywhere, ``memcpy`` took 4.5 times as long as loads and
    stores (AMD EPYC)."""
    iv, to, origin = loop.regions[0].params, store.operands[1], load.operands[0]
    if load.operands[1:] != iv or store.operands[2:] != iv or store.operands[0] is not load.result or _is_part(to):
        return False
    a, b = p.buffer(to), p.buffer(origin)
    size = p.fn.mul(n, str(width(a.dtype)))
    callee = p.fn.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    pointer = f"ptr align {width(a.dtype)}"
    p.fn.code.call_void(callee, (pointer, a.ptr), (pointer, b.ptr), ("i64", size), ("i1", "false"))
    return True


def _is_part(memory: Value) -> bool:
    while memory.op is not None and memory.op.name == "reshape":
        memory = memory.op.operands[0]
    return memory.op is not None and memory.op.name == "view"


def transposed(loops: list[Op]) -> tuple[Op, Op] | None:
    """The load and the store of a nest that copies a buffer with its last axis moved; None for other nests."""
    body = loops[-1].regions[0].ops
    if len(loops) == 1 or [op.name for op in body] != ["load", "store"] or body[1].operands[0] is not body[0].result:
        return None
    ivs = [loop.regions[0].params[0] for loop in loops]
    at = body[0].operands[1:]
    moved = len(at) == len(ivs) and {*at} == {*ivs} and at[-1] is not ivs[-1]
    return (body[0], body[1]) if moved and body[1].operands[2:] == ivs else None


def _transpose(p: Printer, load: Op, store: Op, counts: Sequence[str]) -> bool:
    """Call the routine, and copy the rows that remain (columns of the result) element by element.

    The copy may be of a part of the matrix, whose rows are longer.  Small matrices, and those whose copy threads share,
    are transposed by loops.
    """
    fn, to, origin = p.fn, store.operands[1], load.operands[0]
    t = buffer_type(to).dtype
    alone = not fn.target.is_gpu and not fn.module.module.parallel
    if not alone or not t.is_float or len(counts) != 2 or all(n[0] != "%" for n in counts):
        return False
    (columns, rows), a, b = counts, p.buffer(to), p.buffer(origin)
    width, length = a.sizes[1], b.sizes[1]                   # of the rows in memory
    rest = fn.code.arith("and", "i64", rows, str(transpose.side(fn.target, t) - 1), hint="n")
    whole = fn.sub(rows, rest)
    fn.code.call_void(transpose.declare(fn.writer, t), ("ptr", a.ptr), ("i64", width), ("ptr", b.ptr), ("i64", length),
                      ("i64", whole), ("i64", columns))

    def row(i: str, _: list[str]) -> list[str]:
        i = fn.add(whole, i)
        return fn.loop(columns, lambda j, _: element(i, j), note=fn.writer.loop_note(cold=True))

    def element(i: str, j: str) -> list[str]:
        x = fn.load(t, b.ptr, fn.add(fn.mul(i, length), j))
        fn.store(t, x, a.ptr, fn.add(fn.mul(j, width), i), p.notes[to])
        return []
    fn.loop(rest, row, each=columns)
    return True
