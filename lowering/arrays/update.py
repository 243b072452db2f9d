"""Updates in place.  The updated array is consumed, so its buffer becomes the result's.

The stored values read that buffer only where they are stored.  The verifier refuses a view of the array
(``a[1:] = a[:-1]`` needs a copy), and an expression that reads other elements than those that it replaces is not lazy
(``planning/own_places``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.types import Array, Scalar
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer
from ..math import ops
from .elements import Elements, Place, can_be_flat, masked_tail, nest, note, position, sizes
from .elementwise import clear, is_zero


def set_(fn: FunctionBuilder, op: Op) -> None:
    _at_index(fn, op, add=False)


def add_at(fn: FunctionBuilder, op: Op) -> None:
    _at_index(fn, op, add=True)


def set_slice(fn: FunctionBuilder, op: Op) -> None:
    _in_slice(fn, op, add=False)


def add_slice(fn: FunctionBuilder, op: Op) -> None:
    _in_slice(fn, op, add=True)


def put(fn: FunctionBuilder, op: Op) -> None:
    _at_indices(fn, op, add=False)


def add_put(fn: FunctionBuilder, op: Op) -> None:
    _at_indices(fn, op, add=True)


def updated(fn: FunctionBuilder, op: Op) -> Buffer:
    """The consumed operand's buffer, which becomes the result's."""
    t = op.result.type
    assert isinstance(t, Array)
    old = op.operands[0]
    buffer = Buffer(fn.array(old).ptr, sizes(fn, old), t)
    fn.values[op.result] = buffer
    return buffer


def write(fn: FunctionBuilder, op: Op, buffer: Buffer, index: str, x: str, add: bool, mark: str = "") -> None:
    """Store or add one element; ``mark`` replaces the array's alias metadata if it is given."""
    t, mark = buffer.dtype, mark or note(fn, op.result)
    if add:
        x = _sum(fn, op, t, fn.load(t, buffer.ptr, index, mark), x)
    fn.store(t, x, buffer.ptr, index, mark)


def _sum(fn: FunctionBuilder, op: Op, t: Scalar, x: str, y: str) -> str:
    return ops.TABLE["or" if t.is_bool else "add"](fn, t, [x, y], ops.flags(fn.options, op.attrs))


def _write_block(fn: FunctionBuilder, op: Op, buffer: Buffer, start: str, v: Value, add: bool) -> None:
    """Store or add an array to a contiguous part of the buffer that begins at ``start``."""
    part = Buffer(fn.address(buffer.dtype, buffer.ptr, start), (), buffer.type)
    extent = sizes(fn, v)
    assert isinstance(v.type, Array)
    if not add and is_zero(v) and clear(fn, part, extent):
        return

    def body(place: Place, _: list[str]) -> list[str]:
        index = place.flat if place.flat is not None else position(fn, extent, place.at)
        write(fn, op, part, index, Elements(fn).get(v, place), add)
        return []

    nest(fn, extent, body, flat=can_be_flat(fn, v, v.type), note=masked_tail(fn, v), cut=True)


def _at_index(fn: FunctionBuilder, op: Op, add: bool) -> None:
    buffer = updated(fn, op)
    start = position(fn, buffer.sizes, [fn.scalar(i) for i in op.operands[2:]])
    if is_array(op.operands[1]):
        _write_block(fn, op, buffer, start, op.operands[1], add)
    else:
        write(fn, op, buffer, start, fn.scalar(op.operands[1]), add)


def _in_slice(fn: FunctionBuilder, op: Op, add: bool) -> None:
    a, v, starts, steps = op.operands[0], op.operands[1], op.operands[2::2], op.operands[3::2]
    buffer = updated(fn, op)
    extent, first = sizes(fn, v), [fn.scalar(s) for s in starts]
    if _is_one_piece(fn, a, v, starts, steps):
        _write_block(fn, op, buffer, position(fn, buffer.sizes, first), v, add)
        return

    def body(place: Place, _: list[str]) -> list[str]:
        write(fn, op, buffer, part_position(fn, op, buffer, place), Elements(fn).get(v, place), add)
        return []

    nest(fn, extent, body, note=masked_tail(fn, v), cut=True)


def part_position(fn: FunctionBuilder, op: Op, buffer: Buffer, place: Place) -> str:
    """The offset in the updated buffer of an element of the part that ``op`` (``add_slice``, ``set_slice``) writes."""
    starts, steps = ([fn.scalar(v) for v in op.operands[first::2]] for first in (2, 3))
    if place.flat is not None:
        return fn.add(position(fn, buffer.sizes, starts), place.flat)
    return position(fn, buffer.sizes, [fn.add(s, fn.mul(i, t)) for s, i, t in zip(starts, place.at, steps)])


def is_one_piece(fn: FunctionBuilder, op: Op) -> bool:
    """True if the part that ``op`` writes is contiguous."""
    return _is_one_piece(fn, op.operands[0], op.operands[1], op.operands[2::2], op.operands[3::2])


def _is_one_piece(fn: FunctionBuilder, a: Value, v: Value, starts: Sequence[Value], steps: Sequence[Value]) -> bool:
    """True if the part is contiguous; ``op_traits.is_contiguous`` with the sizes of ``v`` as lengths."""
    whole, extent = sizes(fn, a), sizes(fn, v)
    axis = 0
    while axis < len(extent) and extent[axis] == "1":
        axis += 1
    if axis < len(extent) and steps[axis].const != 1:
        return False
    return all(starts[k].const == 0 and steps[k].const == 1 and extent[k] == whole[k]
               for k in range(axis + 1, len(extent)))


def _at_indices(fn: FunctionBuilder, op: Op, add: bool) -> None:
    _, v, index = op.operands
    assert isinstance(index.type, Array)
    rank = index.type.rank
    buffer = updated(fn, op)

    def body(place: Place, _: list[str]) -> list[str]:
        elements = Elements(fn)
        row = elements.get(index, Place(place.at[:rank]))
        at = position(fn, buffer.sizes, (row, *place.at[rank:]))
        write(fn, op, buffer, at, elements.get(v, place), add)
        return []

    nest(fn, sizes(fn, v), body, note=masked_tail(fn, v))

