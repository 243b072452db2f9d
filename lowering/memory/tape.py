"""Frames of the ``stack`` type, which the forward sweep saves for the reverse sweep.

A stack is a pointer to its top frame, null if it is empty.  A frame is a record in the arena that begins with the
pointer to the frame below; the parts of the pushed values follow, eight bytes each.  Frames are immutable.  An array
in a frame is a pointer, so its memory lives as long as the frame (``arena.py``).
"""

from __future__ import annotations

from ...ir.graph import Op
from ...ir.types import Array, Scalar, Type
from ..builder.function_builder import FunctionBuilder
from ..llvm import types
from . import arena

OPS = ("stack_empty", "push", "pop")


def lower(fn: FunctionBuilder, op: Op) -> None:
    """Lower ``stack_empty``, ``push`` or ``pop``."""
    if op.name == "stack_empty":
        fn.values[op.result] = "null"
    elif op.name == "push":
        _push(fn, op)
    else:
        _pop(fn, op)


def _fields(ts: list[Type]) -> list[str]:
    """The LLVM types of the parts of a frame's values; literal sizes are not saved."""
    out: list[str] = []
    for t in ts:
        out += ["ptr"] + ["i64"] * t.dims.count(None) if isinstance(t, Array) else types.parts_of(t)
    return out


def _push(fn: FunctionBuilder, op: Op) -> None:
    code, below = fn.code, fn.scalar(op.operands[0])
    parts: list[str] = []
    for v in op.operands[1:]:
        lowered = fn.values[v]
        if isinstance(lowered, types.Buffer):
            assert isinstance(v.type, Array)
            parts += [lowered.ptr, *(s for s, d in zip(lowered.sizes, v.type.dims) if d is None)]
        else:
            parts.append(lowered)
    frame = arena.reserve(fn, str(8 + 8 * len(parts)), align=8)
    code.store("ptr", below, frame)
    for i, (t, x) in enumerate(zip(_fields([v.type for v in op.operands[1:]]), parts)):
        at = code.address("i8", frame, 8 + 8 * i, hint="at")
        if t == "i1":
            t, x = "i8", code.cast("zext", "i1", x, "i8")
        code.store(t, x, at)
    fn.values[op.result] = frame


def _pop(fn: FunctionBuilder, op: Op) -> None:
    frame, kept = fn.scalar(op.operands[0]), [v.type for v in op.results]
    parts = iter(_or_zeros(fn, op, frame, kept) if op.attrs.get("zeros") else _load(fn, frame, kept))
    for v in op.results:
        fn.values[v] = _value(v.type, [next(parts) for _ in _fields([v.type])])


def _load(fn: FunctionBuilder, frame: str, kept: list[Type]) -> list[str]:
    """The parts of a frame, the pointer to the frame below first."""
    code, parts = fn.code, []
    for i, t in enumerate(_fields(kept)):
        at = code.address("i8", frame, 8 * i, hint="at") if i else frame
        x = code.load("i8" if t == "i1" else t, at, hint="v" if i else "below")
        parts.append(code.icmp("ne", "i8", x, "0") if t == "i1" else x)
    return parts


def _or_zeros(fn: FunctionBuilder, op: Op, frame: str, kept: list[Type]) -> list[str]:
    """The parts of a frame, or of a frame of zeros, for which arrays are allocated, if the stack is empty."""
    code = fn.code
    some, none, done = code.label("some"), code.label("none"), code.label("popped")
    out = [code.phi(t, done, "popped") for t in _fields(kept)]
    code.branch(code.icmp("eq", "ptr", frame, "null", hint="empty"), none, some)
    code.start(none)
    sizes = iter([fn.scalar(v) for v in op.operands[1:]])
    zeros: list[str] = []
    for t in kept:
        dims = [next(sizes) for d in t.dims if d is None] if isinstance(t, Array) else []
        zeros += [arena.cleared(fn, t, dims), *dims] if isinstance(t, Array) else map(_zero, _fields([t]))
    for phi, x in zip(out, zeros, strict=True):
        code.add_incoming(phi, x)
    code.jump(done)
    code.start(some)
    for phi, x in zip(out, _load(fn, frame, kept), strict=True):
        code.add_incoming(phi, x)
    code.jump(done)
    code.start(done)
    return out


def _zero(t: str) -> str:
    return "null" if t == "ptr" else "0.0" if t in ("float", "double") else "0"


def _value(t: Type, parts: list[str]) -> types.Lowered:
    if isinstance(t, Array):
        sizes = iter(parts[1:])
        return types.Buffer(parts[0], tuple(next(sizes) if d is None else str(d) for d in t.dims), t)
    assert isinstance(t, Scalar) or len(parts) == 1
    return parts[0]
