"""Stacks of frames, which external functions keep; a stack is the handle of its topmost frame, 0 if it is empty.

::

    jitad_push(stack) -> stack                       ; a new frame on top; the old stack stays valid
    jitad_put_T(stack, value)                        ; the next value of the topmost frame
    jitad_below(stack) -> stack
    jitad_get_T(stack, i64) -> value                 ; the value of the topmost frame with this number

T is the MLIR type of a scalar, ``index`` for a stack, or for a buffer its element type and rank: ``f64_2``.  A buffer
is passed with sizes, strides and offset unknown; its memory belongs to the frame and is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Op
from ..ir.types import Scalar
from ..loop_level.types import Buffer, LoopType, Vector, type_of
from . import buffers, types
from .products import nest
from .types import NoText
from .writer import Reg, Writer


def empty(w: Writer, op: Op) -> Reg:
    return w.number(0)


def push(w: Writer, op: Op) -> Reg:
    stack, *values = w.uses(op.operands)
    (frame,) = w.call("jitad_push", [stack], ["index"])
    for v, x in zip(op.operands[1:], values):
        suffix, type = _passed(type_of(v))
        w.call(f"jitad_put_{suffix}", [frame, _cast(w, x, type)], [])
    return frame


def pop(w: Writer, op: Op) -> list[Reg]:
    """With ``zeros`` the operands after the stack are the sizes of the zeros in place of buffers."""
    stack = w.use(op.operands[0])
    kinds = [type_of(r) for r in op.results[1:]]

    def found() -> list[Reg]:
        (below,) = w.call("jitad_below", [stack], ["index"])
        return [below, *(_value(w, stack, k, t) for k, t in enumerate(kinds))]
    if not op.attrs.get("zeros"):
        return found()
    sizes = [w.index(v) for v in op.operands[1:]]
    is_empty = w.compare("eq", stack, w.number(0))
    return w.if_(is_empty, lambda: [stack, *_zeros(w, kinds, sizes)], found, ["index", *map(types.register, kinds)])


def _passed(t: LoopType) -> tuple[str, str]:
    """The suffix of the functions for a type, and the type that they take."""
    if isinstance(t, Buffer):
        return f"{types.element(t.dtype)}_{t.rank}", types.unknown(t)
    type = types.register(t)
    if type.startswith("vector"):
        raise NoText(f"MLIR: {t} in a frame")
    return type, type


def _value(w: Writer, stack: Reg, number: int, t: LoopType) -> Reg:
    suffix, type = _passed(t)
    (r,) = w.call(f"jitad_get_{suffix}", [stack, w.number(number, "i64")], [type])
    return _cast(w, r, types.register(t))


def _cast(w: Writer, x: Reg, type: str) -> Reg:
    return x if x.type == type else w.convert("memref.cast", x, type)


def _zeros(w: Writer, kinds: Sequence[LoopType], sizes: Sequence[Reg]) -> list[Reg]:
    rest = iter(sizes)
    return [_zero_buffer(w, t, [next(rest) if d is None else w.number(d) for d in t.dims]) if isinstance(t, Buffer)
            else zero(w, t) for t in kinds]


def zero(w: Writer, t: LoopType) -> Reg:
    """Zero, the empty stack, or a buffer that nothing looks at."""
    if isinstance(t, Buffer):
        return buffers.nothing(w, t)
    return w.const(0, t) if isinstance(t, (Scalar, Vector)) else w.number(0)


def _zero_buffer(w: Writer, t: Buffer, sizes: list[Reg]) -> Reg:
    b, x = buffers.new(w, t, sizes), w.const(0, t.dtype)
    nest(w, sizes, lambda place: buffers.store(w, x, b, place), [])
    return b
