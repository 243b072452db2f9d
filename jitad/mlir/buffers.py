"""Memory: allocation, sizes, views, loads and stores of elements.

A view is a ``memref.reinterpret_cast``: its offset and strides are computed from those of its buffer, so it may have
the type that the loop level gives it.  Sizes, strides and offsets are literal as far as they are known (``Index``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Op, Value
from ..ir.types import Dim, Scalar
from ..loop_level.types import Buffer, buffer_type
from . import types
from .writer import Reg, Writer, names

Index = int | Reg


# --- allocation -----------------------------------------------------------------------------------------

def alloc(w: Writer, op: Op) -> Reg:
    """Memory of the kind ``frame`` is allocated once a call, at the head of the function."""
    t = buffer_type(op.result)
    if op.attrs["kind"] == "frame" and None not in t.dims:
        plain = w.at_head(f"memref.alloca() : {types.fresh(t)}", types.fresh(t))
        return w.convert("memref.cast", plain, types.register(t))
    return new(w, t, [w.index(v) for v in op.operands])


def new(w: Writer, t: Buffer, sizes: Sequence[Reg], how: str = "alloc") -> Reg:
    """Memory for a buffer of these sizes; those that the type tells are ignored."""
    given = names([n for n, d in zip(sizes, t.dims) if d is None])
    plain = w.text(f"memref.{how}({given}) : {types.fresh(t)}", types.fresh(t))
    return w.convert("memref.cast", plain, types.register(t))


def nothing(w: Writer, t: Buffer, how: str = "alloc") -> Reg:
    """A buffer that nothing looks at."""
    return new(w, t, [w.number(0)] * t.rank, how)


# --- elements -------------------------------------------------------------------------------------------

def size(w: Writer, b: Reg, axis: int) -> Reg:
    return w.text(f"memref.dim {b.name}, {w.number(axis).name} : {b.type}", "index")


def load(w: Writer, b: Reg, at: Sequence[Reg], t: Scalar) -> Reg:
    r = w.text(f"memref.load {b.name}[{names(at)}] : {b.type}", types.element(t))
    return w.convert("arith.trunci", r, "i1") if t.is_bool else r


def store(w: Writer, x: Reg, b: Reg, at: Sequence[Reg]) -> None:
    if x.type == "i1":
        x = w.convert("arith.extui", x, "i8")
    w.line(f"memref.store {x.name}, {b.name}[{names(at)}] : {b.type}")


# --- views ----------------------------------------------------------------------------------------------

def view(w: Writer, op: Op) -> Reg:
    """``b[s0 : s0+l0*t0 : t0, …]`` without the axes ``drop``, in the order ``perm``."""
    source, t = op.operands[0], buffer_type(op.result)
    offset, strides = _layout(w, source)
    rank = len(strides)
    for start, stride in zip(op.operands[1::3], strides):
        offset = plus(w, offset, times(w, _index(w, start), stride))
    lengths = [_index(w, v) for v in op.operands[2::3]]
    stepped = [times(w, _index(w, v), s) for v, s in zip(op.operands[3::3], strides)] if t.strides is not None else []
    kept = [a for a in range(rank) if a not in op.attrs.get("drop", ())]
    order = [kept[p] for p in op.attrs.get("perm", range(len(kept)))]
    return _cast(w, source, t, offset, [lengths[a] for a in order], [stepped[a] for a in order] if stepped else None)


def reshape(w: Writer, op: Op) -> Reg:
    offset, _ = _layout(w, op.operands[0])
    return _cast(w, op.operands[0], buffer_type(op.result), offset, [_index(w, v) for v in op.operands[1:]], None)


def retype(w: Writer, op: Op) -> Reg:
    b, type = w.use(op.operands[0]), types.register(buffer_type(op.result))
    return b if b.type == type else w.convert("memref.cast", b, type)


def _layout(w: Writer, v: Value) -> tuple[Index, list[Index]]:
    """The offset of a buffer and its strides."""
    t, b = buffer_type(v), w.use(v)
    base, offset = w.name(), Reg(w.name(), "index")
    sizes, strides = ([Reg(w.name(), "index") for _ in t.dims] for _ in "ns")
    w.line(f"{names([Reg(base, ''), offset, *sizes, *strides])} = memref.extract_strided_metadata {b.name} : {b.type}"
           f" -> memref<{types.element(t.dtype)}>, index{', index' * 2 * t.rank}")
    known = types.c_strides(t.dims) if t.strides is None else t.strides
    return offset, [s if k is None else k for s, k in zip(strides, known)]


def _cast(w: Writer, v: Value, t: Buffer, offset: Index, sizes: Sequence[Index],
          strides: Sequence[Index] | None) -> Reg:
    """Memory of ``v`` as a buffer of type ``t``; without ``strides`` in C order."""
    if strides is None:
        strides = _c_order(w, sizes)
        known: Sequence[Dim] = types.c_strides(t.dims)
    else:
        known = t.strides or ()
    where = [f"offset: [{_as_reg(w, offset).name}]", f"sizes: [{_mixed(w, sizes, t.dims)}]",
             f"strides: [{_mixed(w, strides, known)}]"]
    b, type = w.use(v), types.register(t)
    return w.text(f"memref.reinterpret_cast {b.name} to {', '.join(where)} : {b.type} to {type}", type)


def _c_order(w: Writer, sizes: Sequence[Index]) -> list[Index]:
    found: list[Index] = [1]
    for n in reversed(sizes[1:]):
        found.insert(0, times(w, n, found[0]))
    return found


def _mixed(w: Writer, given: Sequence[Index], known: Sequence[Dim]) -> str:
    """Numbers where the type has numbers, values elsewhere."""
    return ", ".join(_as_reg(w, x).name if d is None else str(d) for x, d in zip(given, known, strict=True))


# --- indices --------------------------------------------------------------------------------------------

def _index(w: Writer, v: Value) -> Index:
    return int(v.const) if v.const is not None else w.index(v)


def _as_reg(w: Writer, x: Index) -> Reg:
    return w.number(x) if isinstance(x, int) else x


def times(w: Writer, x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if 0 in (x, y):
        return 0
    if 1 in (x, y):
        return y if x == 1 else x
    return w.op("arith.muli", _as_reg(w, x), _as_reg(w, y))


def plus(w: Writer, x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if 0 in (x, y):
        return y if x == 0 else x
    return w.op("arith.addi", _as_reg(w, x), _as_reg(w, y))
