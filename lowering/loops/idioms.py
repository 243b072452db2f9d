"""Nests for which there is a routine: a buffer is set to zero, copied, or transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.graph import Op, Value
from ...loop_level.types import buffer_type
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import width
from ..matmul import transpose
from . import turned_blocks
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
    """The load and the store of a nest that copies a buffer with its last axis moved; None for other nests.

    What is copied may begin anywhere: an index of the load is a counter, or the sum of an offset and a counter.
    """
    ops, ivs = loops[-1].regions[0].ops, [loop.regions[0].params[0] for loop in loops]
    if len(loops) == 1 or len(ops) < 2 or (ops[-2].name, ops[-1].name) != ("load", "store"):
        return None
    load, store = ops[-2:]
    terms = [_offset_and_counter(v, ivs) for v in load.operands[1:]]
    at = [counter for _, counter in terms]
    sums = [v.op for v, (offset, _) in zip(load.operands[1:], terms) if offset is not None]
    moved = len(at) == len(ivs) and {*at} == {*ivs} and at[-1] is not ivs[-1]
    if not moved or store.operands[0] is not load.result or store.operands[2:] != ivs or {*sums} != {*ops[:-2]}:
        return None
    return (load, store) if all(offset is None or offset.op not in sums for offset, _ in terms) else None


def _offset_and_counter(index: Value, ivs: Sequence[Value]) -> tuple[Value | None, Value]:
    """The terms of ``offset + counter``; no offset and the index if it is anything else."""
    if index.op is not None and index.op.name == "add":
        x, y = index.op.operands
        if (x in ivs) != (y in ivs):
            return (x, y) if y in ivs else (y, x)
    return None, index


def _transpose(p: Printer, load: Op, store: Op, counts: Sequence[str]) -> bool:
    """Call the routine, and copy the rows that remain (columns of the result) element by element.

    The copy may be of a part of the matrix, whose rows are longer.  Matrices with two short sides, and those whose copy
    threads share, are transposed by loops; four columns of some rows in registers.
    """
    fn, to, origin = p.fn, store.operands[1], load.operands[0]
    t = buffer_type(to).dtype
    alone = not fn.target.is_gpu and not fn.module.module.parallel
    known = all(n[0] != "%" for n in counts)
    block = known and len(counts) == 2 and counts[0] == str(turned_blocks.SIDE) and not fn.target.is_gpu
    if not block and (not alone or not t.is_float or len(counts) != 2 or known):
        return False
    (columns, rows), a, b = counts, p.buffer(to), p.buffer(origin)
    width, length = a.sizes[1], b.sizes[1]                   # of the rows in memory
    top, left = (p.scalar(offset) if offset is not None else "0"
                 for offset, _ in (_offset_and_counter(v, store.operands[2:]) for v in load.operands[1:]))
    begin = fn.address(t, b.ptr, fn.add(fn.mul(top, length), left))
    if block:
        return width == rows and turned_blocks.turn(fn, t, begin, length, a.ptr, int(rows), p.notes[to])
    rest = _remainder(fn, rows, transpose.side(fn.target, t))
    whole = fn.sub(rows, rest)
    fn.code.call_void(transpose.declare(fn.writer, t), ("ptr", a.ptr), ("i64", width), ("ptr", begin), ("i64", length),
                      ("i64", whole), ("i64", columns))
    if rest == "0":
        return True

    def row(i: str, _: list[str]) -> list[str]:
        i = fn.add(whole, i)
        return fn.loop(columns, lambda j, _: element(i, j), note=fn.writer.loop_note(cold=True))

    def element(i: str, j: str) -> list[str]:
        x = fn.load(t, begin, fn.add(fn.mul(i, length), j))
        fn.store(t, x, a.ptr, fn.add(fn.mul(j, width), i), p.notes[to])
        return []
    fn.loop(rest, row, each=columns)
    return True


def _remainder(fn: FunctionBuilder, n: str, side: int) -> str:
    """``n % side``, for a power of two."""
    return fn.code.arith("and", "i64", n, str(side - 1), hint="n") if n[0] == "%" else str(int(n) % side)
