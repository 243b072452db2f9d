"""Stores arrays that are computed element by element: elementwise ops, copies, views that need memory of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...ir.graph import Op, Value
from ...ir.types import Array
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer, width
from . import transpose
from .elements import WRITTEN_OUT, Elements, Place, can_be_flat, masked_tail, nest, note, position, sizes


def store(fn: FunctionBuilder, op: Op) -> None:
    """Compute every element of ``op``'s result into its buffer."""
    result, target = op.result, fn.plan.reuse.get(op.result)
    fn.values[result] = destination(fn, result)
    if target is not None and op.name in ("copy", "stop") and op.operands[0] is target:
        return                                       # the original has no later reader and becomes the copy
    with taking_over(fn, [result]):
        fill_buffer(fn, fn.array(result), result, result)


@contextmanager
def taking_over(fn: FunctionBuilder, stored: list[Value], passing: Sequence[Value] = ()) -> Iterator[None]:
    """Mark ``stored`` and ``passing`` as lazy while their elements are computed.

    A reused buffer is read with the sizes with which it is written.  They equal its own, which LLVM does not know.
    This holds only inside the context: on other paths the sizes of the result may be undefined.
    """
    taken = {fn.plan.reuse[r]: r for r in stored if r in fn.plan.reuse}
    old = {v: fn.array(v) for v in taken}
    fn.values.update({v: replace(fn.array(r), type=old[v].type) for v, r in taken.items()})
    fn.plan.lazy.update(stored, passing)
    try:
        yield
    finally:
        fn.plan.lazy.difference_update(stored, passing)
        fn.values.update(old)


def destination(fn: FunctionBuilder, result: Value) -> Buffer:
    """The buffer for a result: the one that it reuses, or a new one."""
    t = result.type
    assert isinstance(t, Array)
    target = fn.plan.reuse.get(result)
    if target is not None:
        return Buffer(fn.array(target).ptr, sizes(fn, result), t)
    return fn.alloc(t, fn.plan.sizes[result], result)


def fill_buffer(fn: FunctionBuilder, buffer: Buffer, source: Value, owner: Value) -> None:
    """Store every element of ``source`` in ``buffer``, which belongs to the root of ``owner``."""
    assert isinstance(source.type, Array)
    extent, mark = buffer.sizes, note(fn, owner)
    if not _few(fn, extent) and _in_one_piece(fn, buffer, source):
        return
    flat = can_be_flat(fn, source, source.type)

    def body(place: Place, _: list[str]) -> list[str]:
        value = Elements(fn).get(source, place)
        index = place.flat if place.flat is not None else position(fn, extent, place.at)
        fn.store(buffer.dtype, value, buffer.ptr, index, mark)
        return []

    turns = _is_turned_copy(fn, source)
    if turns and _has_routine(fn, buffer):
        _turn(fn, buffer, source, mark)
        return
    nest(fn, extent, body, flat=flat, note=fn.writer.loop_note(cold=True) if turns else masked_tail(fn, source),
         cut=True)


def _has_routine(fn: FunctionBuilder, buffer: Buffer) -> bool:
    """True if the routine of ``transpose.py`` is to be used: not for small arrays, nor if threads share the work."""
    alone = not fn.target.is_gpu and not fn.module.module.parallel
    return alone and buffer.dtype.is_float and len(buffer.sizes) == 2 and any(s[0] == "%" for s in buffer.sizes)


def _turn(fn: FunctionBuilder, buffer: Buffer, source: Value, mark: str) -> None:
    """Transpose a matrix by the routine, and the rows that remain (columns of the result) element by element."""
    t, (columns, rows), origin = buffer.dtype, buffer.sizes, fn.array(_original(fn, source))
    rest = fn.code.op(f"and i64 {rows}, {transpose.side(fn.target, t) - 1}", "n")
    whole = fn.sub(rows, rest)
    fn.code.do(f"call void {transpose.declare(fn.writer, t)}(ptr {buffer.ptr}, i64 {rows}, ptr {origin.ptr}, "
               f"i64 {columns}, i64 {whole}, i64 {columns})")

    def element(place: Place, _: list[str]) -> list[str]:
        i, j = fn.add(whole, place.at[0]), place.at[1]
        x = fn.load(t, origin.ptr, fn.add(fn.mul(i, columns), j))
        fn.store(t, x, buffer.ptr, fn.add(fn.mul(j, rows), i), mark)
        return []
    nest(fn, (rest, columns), element, note=fn.writer.loop_note(cold=True))


def _original(fn: FunctionBuilder, source: Value) -> Value:
    """The stored array whose transpose ``source`` is."""
    while source in fn.plan.lazy:
        assert source.op is not None
        source = source.op.operands[0]
    return source


def _few(fn: FunctionBuilder, extent: Sequence[str]) -> bool:
    return all(s[0] != "%" for s in extent) and int(fn.product(extent)) <= WRITTEN_OUT


def _in_one_piece(fn: FunctionBuilder, buffer: Buffer, source: Value) -> bool:
    """Store zeros by memset, or the copy of a stored array by memcpy.  Returns False if ``source`` is neither."""
    stored = _copied(fn, source)
    if stored is not None:
        size = fn.mul(fn.product(buffer.sizes), str(width(buffer.dtype)))
        callee = fn.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        fn.code.do(f"call void {callee}(ptr align {width(buffer.dtype)} {buffer.ptr}, "
                   f"ptr align {width(buffer.dtype)} {fn.array(stored).ptr}, i64 {size}, i1 false)")
        return True
    return is_zero(source) and clear(fn, buffer, buffer.sizes)


def clear(fn: FunctionBuilder, buffer: Buffer, extent: Sequence[str]) -> bool:
    """Set an array of these sizes to zero by memset.

    Returns False, without code, if the array is so small that stores suffice.
    """
    if _few(fn, extent):
        return False
    size = fn.mul(fn.product(extent), str(width(buffer.dtype)))
    callee = fn.writer.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    fn.code.do(f"call void {callee}(ptr align {width(buffer.dtype)} {buffer.ptr}, i8 0, i64 {size}, i1 false)")
    return True


def _copied(fn: FunctionBuilder, source: Value) -> Value | None:
    """The stored array of which ``source`` is a copy, in the same order; None if there is none."""
    while source in fn.plan.lazy:
        if source.op is None or source.op.name not in ("copy", "stop", "as_type"):
            return None
        source = source.op.operands[0]
    return source


def _is_turned_copy(fn: FunctionBuilder, source: Value) -> bool:
    """True if ``source`` is a copy of a stored array with its last axis moved.

    It is stored element by element: the loads are strided, so vectors bring nothing, and LLVM need not find that out.
    """
    while source.op is not None and source.op.name in ("copy", "stop") and source in fn.plan.lazy:
        source = source.op.operands[0]
    op = source.op
    if op is None or op.name != "transpose" or source not in fn.plan.lazy or op.operands[0] in fn.plan.lazy:
        return False
    perm = op.attrs["perm"]
    return bool(perm[-1] != len(perm) - 1)


def is_zero(source: Value) -> bool:
    """True if all elements are known to be 0, and not −0."""
    op = source.op
    if op is None or op.name not in ("fill", "broadcast_to"):
        return False
    known = op.operands[0].const
    return known is not None and known == 0 and math.copysign(1.0, known) > 0
