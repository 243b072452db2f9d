"""Sizes, views and rearrangements.

A contiguous view of a stored array (``a[i]``, ``a[i:j]``, any reshape) is a pointer into it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Array
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer
from ..planning.op_traits import is_contiguous
from . import elementwise
from .elements import Elements, Place, masked_tail, nest, note, position, sizes

Sizes = tuple[str, ...]


# --- sizes of results -------------------------------------------------------------------------------------

def result_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    """The sizes of an op's array result, with literals where the type has them."""
    t = op.result.type
    assert isinstance(t, Array)
    rule = _SIZES.get(op.name, _broadcast_sizes if OPS[op.name].elementwise else _same_sizes)
    return tuple(s if d is None else str(d) for s, d in zip(rule(fn, op), t.dims))


def _same_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    return sizes(fn, op.operands[0])


def _broadcast_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    t = op.result.type
    assert isinstance(t, Array)
    out = ["1"] * t.rank
    for v in op.operands:
        for axis, size in enumerate(sizes(fn, v), start=t.rank - len(sizes(fn, v))):
            out[axis] = size if out[axis] == "1" else out[axis]
    return tuple(out)


def _given(first: int, step: int = 1) -> Callable[[FunctionBuilder, Op], Sizes]:
    return lambda fn, op: tuple(fn.scalar(v) for v in op.operands[first::step])


def _kept(fn: FunctionBuilder, op: Op) -> Sizes:
    gone = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return tuple(s for axis, s in enumerate(sizes(fn, op.operands[0])) if axis not in gone)


def _concat_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    axis, out = op.attrs["axis"], list(sizes(fn, op.operands[0]))
    for v in op.operands[1:]:
        out[axis] = fn.add(out[axis], sizes(fn, v)[axis])
    return tuple(out)


def _matmul_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    a, b = (sizes(fn, v) for v in op.operands)
    rows = () if len(a) == 1 else (a[-1 if op.attrs.get("ta") else -2],)
    cols = () if len(b) == 1 else (b[-2 if op.attrs.get("tb") else -1],)
    return (a[:1] if len(a) == 3 else ()) + rows + cols


def _undef_sizes(fn: FunctionBuilder, op: Op) -> Sizes:
    t = op.result.type
    assert isinstance(t, Array)
    return tuple("0" if d is None else str(d) for d in t.dims)


_SIZES: dict[str, Callable[[FunctionBuilder, Op], Sizes]] = {
    "fill": _given(1), "broadcast_to": _given(1), "reshape": _given(1), "empty": _given(0), "iota": _given(0),
    "slice": _given(2, 3), "concat": _concat_sizes, "matmul": _matmul_sizes, "undef": _undef_sizes,
    "transpose": lambda fn, op: tuple(sizes(fn, op.operands[0])[p] for p in op.attrs["perm"]),
    "get": lambda fn, op: sizes(fn, op.operands[0])[len(op.operands) - 1:],
    "take": lambda fn, op: sizes(fn, op.operands[1]) + sizes(fn, op.operands[0])[1:],
    "nonzero": lambda fn, op: ("0",),                # known only after it has run
    **{name: _kept for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin")},
}


# --- sizes and memory as values -----------------------------------------------------------------------------

def dim(fn: FunctionBuilder, op: Op) -> None:
    fn.values[op.result] = sizes(fn, op.operands[0])[op.attrs["axis"]]


def empty(fn: FunctionBuilder, op: Op) -> None:
    fn.values[op.result] = elementwise.destination(fn, op.result)


def undef(fn: FunctionBuilder, op: Op) -> None:
    """Allocate memory of the literal sizes, since an edge may copy it; unknown sizes are 0."""
    fn.values[op.result] = elementwise.destination(fn, op.result)


# --- views ----------------------------------------------------------------------------------------------------

def view(fn: FunctionBuilder, op: Op) -> bool:
    """Make ``op``'s result a pointer into its operand if possible.  Returns True if so."""
    start = _VIEW.get(op.name)
    if start is None:
        return False
    source = op.operands[0]
    if not is_array(source) or source in fn.plan.lazy or source not in fn.values:
        return False                                 # (a member of a group may not be emitted yet)
    offset = start(fn, op)
    if offset is None:
        return False
    t, ptr = op.result.type, fn.array(source).ptr
    assert isinstance(t, Array)
    fn.values[op.result] = Buffer(fn.address(t.dtype, ptr, offset), fn.plan.sizes[op.result], t)
    return True


def _get_start(fn: FunctionBuilder, op: Op) -> str | None:
    source = op.operands[0]
    return position(fn, sizes(fn, source), [fn.scalar(i) for i in op.operands[1:]])


def _slice_start(fn: FunctionBuilder, op: Op) -> str | None:
    source = op.operands[0]
    if not is_contiguous(source, op.operands[1::3], op.operands[2::3], op.operands[3::3]):
        return None
    return position(fn, sizes(fn, source), [fn.scalar(s) for s in op.operands[1::3]])


def _no_offset(fn: FunctionBuilder, op: Op) -> str | None:
    return "0"


_VIEW: dict[str, Callable[[FunctionBuilder, Op], str | None]] = {
    "get": _get_start, "slice": _slice_start, "reshape": _no_offset, "as_type": _no_offset,
}


def get(fn: FunctionBuilder, op: Op) -> None:
    """Lower ``get`` of an element, or of a subarray that is stored because ``view`` did not make it a view."""
    if is_array(op.result):
        elementwise.store(fn, op)
        return
    at = tuple(fn.scalar(i) for i in op.operands[1:])
    fn.values[op.result] = Elements(fn).get(op.operands[0], Place(at))


# --- concatenation, nonzero -------------------------------------------------------------------------------------

def concat(fn: FunctionBuilder, op: Op) -> None:
    axis, buffer = op.attrs["axis"], elementwise.destination(fn, op.result)
    fn.values[op.result] = buffer
    offset = "0"
    for v in op.operands:
        if axis == 0:
            start = fn.mul(offset, fn.product(buffer.sizes[1:]))
            part = Buffer(fn.address(buffer.dtype, buffer.ptr, start), sizes(fn, v), buffer.type)
            elementwise.fill_buffer(fn, part, v, op.result)
        else:
            _copy_part(fn, op, v, buffer, offset)
        offset = fn.add(offset, sizes(fn, v)[axis])


def _copy_part(fn: FunctionBuilder, op: Op, v: Value, buffer: Buffer, offset: str) -> None:
    axis, mark = op.attrs["axis"], note(fn, op.result)

    def body(place: Place, _: list[str]) -> list[str]:
        at = (*place.at[:axis], fn.add(place.at[axis], offset), *place.at[axis + 1:])
        fn.store(buffer.dtype, Elements(fn).get(v, place), buffer.ptr, position(fn, buffer.sizes, at), mark)
        return []

    nest(fn, sizes(fn, v), body, note=masked_tail(fn, v))


def nonzero(fn: FunctionBuilder, op: Op) -> None:
    """Count the nonzero elements, then store their indices.

    The second loop is free of branches, which would be mispredicted: it stores every index and advances only after an
    index of a nonzero element.  The buffer therefore holds one element more than the count.
    """
    source, t = op.operands[0], op.result.type
    assert isinstance(t, Array)
    n, mark = sizes(fn, source)[0], note(fn, op.result)

    def found(i: str) -> str:
        return fn.code.op(f"zext i1 {Elements(fn).get(source, Place((i,)))} to i64")

    count = fn.loop(n, lambda i, c: [fn.add(c[0], found(i))], [("i64", "0")], unbounded=True)[0]
    room = fn.alloc(t, (fn.add(count, "1"),), op.result)
    fn.values[op.result] = Buffer(room.ptr, (count,), t)

    def keep(i: str, carried: list[str]) -> list[str]:
        fn.store(I64, i, room.ptr, carried[0], mark)
        return [fn.add(carried[0], found(i))]

    fn.loop(n, keep, [("i64", "0")], unbounded=True)
