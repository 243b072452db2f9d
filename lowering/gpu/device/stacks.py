"""Frames that a forward sweep saves for the reverse sweep, in memory of the thread.

A frame is words: the stack below, then the parts of its values.  Word k of a thread is at ``base + k * stride``
(``thread.py``).  A stack is the number of the first word of its topmost frame; word 0 is never used.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Op
from ....loop_level.types import Buffer, buffer_type
from . import memory
from .memory import Writes
from .values import assemble, parts_of, split, zero


def empty(fn: Writes, op: Op) -> None:
    fn.values[op.result] = "0"


def push(fn: Writes, op: Op) -> None:
    stack, *values = op.operands
    kinds = ["i64", *(t for v in values for t in parts_of(v.type))]
    parts = [fn.scalar(stack), *(x for v in values for x in split(fn.value(v)))]
    frame = memory.reserve(fn, "frame", "limit", str(len(parts)))
    for k, (kind, x) in enumerate(zip(kinds, parts)):
        fn.store_word(kind, x, _word(fn, frame, k))
    fn.values[op.result] = frame


def pop(fn: Writes, op: Op) -> None:
    """With ``zeros`` the operands after the stack are the sizes of the zeros in place of buffers."""
    frame, kinds = fn.scalar(op.operands[0]), ["i64", *(t for r in op.results[1:] for t in parts_of(r.type))]
    if not op.attrs.get("zeros"):
        fn.define(op.results, _read(fn, frame, kinds))
        return
    code = fn.code
    some, none, done = code.label("some"), code.label("none"), code.label("popped")
    out = [code.phi(t, done) for t in kinds]
    code.branch(code.op(f"icmp eq i64 {frame}, 0", "c"), none, some)
    code.start(none)
    for phi, x in zip(out, _zeros(fn, op), strict=True):
        code.add_incoming(phi, x)
    code.jump(done)
    code.start(some)
    for phi, x in zip(out, _read(fn, frame, kinds), strict=True):
        code.add_incoming(phi, x)
    code.jump(done)
    code.start(done)
    fn.define(op.results, out)


def _word(fn: Writes, frame: str, k: int) -> str:
    return fn.offset(fn.thread.get("base"), fn.mul(fn.add(frame, str(k)), fn.thread.get("stride")))


def _read(fn: Writes, frame: str, kinds: Sequence[str]) -> list[str]:
    return [fn.load_word(kind, _word(fn, frame, k)) for k, kind in enumerate(kinds)]


def _zeros(fn: Writes, op: Op) -> list[str]:
    sizes = iter([fn.scalar(v) for v in op.operands[1:]])
    parts = ["0"]
    for r in op.results[1:]:
        kinds = parts_of(r.type)
        if not isinstance(r.type, Buffer):
            parts.append(zero(kinds[0]))
            continue
        t = buffer_type(r)
        known = [next(sizes) if d is None else str(d) for d in t.dims]
        b = memory.new(fn, t, known)
        memory.clear(fn, b)
        parts += split(assemble(t, [b.ptr, *known]))
    return parts
