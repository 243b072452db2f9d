"""Loads and stores of vectors, and what else has no counterpart among scalars.

Consecutive elements of a buffer in C order are one ``vector.load``.  Other accesses, those of bools too (a vector of
``i1`` has eight lanes in a byte), are loops over the lanes in order, since lanes of a ``scatter`` may coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Op, Value
from ..ir.types import I64, Scalar
from ..loop_level.types import Buffer, Vector, buffer_type, type_of
from . import buffers, types
from .arithmetic import compute
from .types import NoText
from .writer import Reg, Writer, names

_FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or"}


def splat(w: Writer, op: Op) -> Reg:
    x, type = w.use(op.operands[0]), types.register(type_of(op.result))
    return w.text(f"vector.broadcast {x.name} : {x.type} to {type}", type)


def lane_ids(w: Writer, op: Op) -> Reg:
    lanes = range(op.attrs["lanes"])
    return w.text(f"arith.constant dense<[{', '.join(map(str, lanes))}]> : {types.register(type_of(op.result))}",
                  types.register(type_of(op.result)))


def fold_lanes(w: Writer, op: Op) -> Reg:
    """The lanes combined one after the other: a NaN wins, as it does in the scalar op."""
    t, x = type_of(op.operands[0]), w.use(op.operands[0])
    if not isinstance(t, Vector):
        raise NoText(f"MLIR: lanes of {t}")
    out, *rest = (_lane(w, x, str(k), t.dtype) for k in range(t.lanes))
    for lane in rest:
        out = compute(w, _FOLDS[op.attrs["kind"]], t.dtype, [out, lane])
    return out


def _lane(w: Writer, x: Reg, at: str, t: Scalar) -> Reg:
    return w.text(f"vector.extract {x.name}[{at}] : {types.scalar(t)} from {x.type}", types.scalar(t))


def load(w: Writer, op: Op) -> Reg:
    """``load`` with lanes, and ``gather``; lanes that the mask leaves out are zero."""
    t, mask, (b, *at) = type_of(op.result), *_masked(w, op)
    if not isinstance(t, Vector):
        raise NoText(f"MLIR: lanes of {t}")
    zeros = w.const(0, t)
    if op.name == "load" and _is_plain(b):
        place = f"{w.use(b).name}[{names([w.index(i) for i in at])}]"
        return (w.text(f"vector.load {place} : {w.use(b).type}, {zeros.type}", zeros.type) if mask is None else
                w.text(f"vector.maskedload {place}, {mask.name}, {zeros.name} : {w.use(b).type}, {mask.type}, "
                       f"{zeros.type} into {zeros.type}", zeros.type))
    dtype = t.dtype

    def lane(k: Reg, carried: list[Reg]) -> list[Reg]:
        def found() -> list[Reg]:
            x = buffers.load(w, w.use(b), _place(w, op, at, k), dtype)
            return [w.text(f"vector.insert {x.name}, {carried[0].name}[{k.name}] : {x.type} into {zeros.type}",
                           zeros.type)]
        return _if(w, mask, k, found, carried)
    return w.loop(w.number(t.lanes), lane, [zeros])[0]


def store(w: Writer, op: Op) -> None:
    """``store`` of a vector, and ``scatter``."""
    mask, (v, b, *at) = _masked(w, op)
    t, x = type_of(v), w.use(v)
    if not isinstance(t, Vector):
        raise NoText(f"MLIR: lanes of {t}")
    if op.name == "store" and _is_plain(b):
        place = f"{w.use(b).name}[{names([w.index(i) for i in at])}]"
        w.line(f"vector.store {x.name}, {place} : {w.use(b).type}, {x.type}" if mask is None else
               f"vector.maskedstore {place}, {mask.name}, {x.name} : {w.use(b).type}, {mask.type}, {x.type}")
        return
    dtype = t.dtype

    def lane(k: Reg, carried: list[Reg]) -> list[Reg]:
        def done() -> list[Reg]:
            buffers.store(w, _lane(w, x, k.name, dtype), w.use(b), _place(w, op, at, k))
            return []
        return _if(w, mask, k, done, [])
    w.loop(w.number(t.lanes), lane)


def _masked(w: Writer, op: Op) -> tuple[Reg | None, Sequence[Value]]:
    """The mask, and the operands after it."""
    return (w.use(op.operands[0]), op.operands[1:]) if op.attrs.get("masked") else (None, op.operands)


def _is_plain(b: Value) -> bool:
    t: Buffer = buffer_type(b)
    return t.strides is None and not t.dtype.is_bool


def _place(w: Writer, op: Op, at: Sequence[Value], k: Reg) -> list[Reg]:
    """The indices of one lane: consecutive along the last axis, or given as vectors."""
    if op.name in ("load", "store"):
        return [*(w.index(i) for i in at[:-1]), w.op("arith.addi", w.index(at[-1]), k)]
    return [w.to_index(_lane(w, w.use(i), k.name, I64)) if isinstance(type_of(i), Vector) else w.index(i) for i in at]


def _if(w: Writer, mask: Reg | None, k: Reg, then: Callable[[], list[Reg]], otherwise: list[Reg]) -> list[Reg]:
    """``then`` where the mask, if there is one, has lane ``k``."""
    if mask is None:
        return then()
    return w.if_(w.text(f"vector.extract {mask.name}[{k.name}] : i1 from {mask.type}", "i1"), then,
                 lambda: otherwise, [x.type for x in otherwise])
