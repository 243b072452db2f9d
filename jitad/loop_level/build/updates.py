"""Updates in place: the updated array is consumed, so its buffer becomes the result's.

The stored values read that buffer only where they are stored.  The verifier refuses a view of the array
(``a[1:] = a[:-1]`` needs a copy), and an expression that reads other elements than those that it replaces is not lazy
(``planning/own_places.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.types import Array
from ..types import buffer_type
from .elements import Elements, Place, can_be_flat, fetch, nest, put
from .state import Sizes, State


def update(fn: State, op: Op) -> Value:
    """The consumed operand's buffer, which becomes the result's."""
    fn.values[op.result] = fn.renamed(op.operands[0], op.result)
    return fn.values[op.result]


def write(fn: State, op: Op, b: Value, place: Place, x: Value, add: bool) -> None:
    """Store an element of the updated array, or of a part of it, or add to it."""
    if add:
        name = "or" if buffer_type(b).dtype.is_bool else "add"
        attrs = {"acc": True} if op.attrs.get("acc") and name == "add" else {}
        x = fn.writer.do(name, [fetch(fn, b, place), x], **attrs).result
    put(fn, x, b, place)


def at_index(fn: State, op: Op) -> None:
    """``set`` and ``add_at``."""
    update(fn, op)
    v, at, add = op.operands[1], tuple(map(fn.scalar, op.operands[2:])), op.name == "add_at"
    if not is_array(v):
        write(fn, op, fn.buffer(op.result), Place(at), fn.scalar(v), add)
    elif fn.device:
        _write_block(fn, op, fn.buffer(op.result), v, add, at)
    else:
        _write_block(fn, op, row(fn, fn.buffer(op.result), at, fn.shape(op.result)), v, add)


def row(fn: State, b: Value, at: Sequence[Value], sizes: Sizes) -> Value:
    """The part of a buffer at these indices of its first axes."""
    zero, one = fn.size(0), fn.size(1)
    where = [x for i in at for x in (i, one, one)] + [x for n in sizes[len(at):] for x in (zero, n, one)]
    return fn.writer.do("view", [b, *where], drop=tuple(range(len(at))), contiguous=True).result


def _write_block(fn: State, op: Op, b: Value, v: Value, add: bool, first: tuple[Value, ...] = ()) -> None:
    """Store an array in a buffer, at the indices ``first`` of the first axes, or add it."""
    assert isinstance(v.type, Array)

    def body(place: Place, _: list[Value]) -> list[Value]:
        write(fn, op, b, Place(first + place.at, place.flat), Elements(fn).get(v, place), add)
        return []
    nest(fn, fn.shape(v), body, flat=can_be_flat(fn, [v], v.type))


def in_slice(fn: State, op: Op) -> None:
    """``set_slice`` and ``add_slice``."""
    update(fn, op)
    v, add = op.operands[1], op.name == "add_slice"
    b = piece(fn, op)
    if b is not None:
        _write_block(fn, op, b, v, add)
        return

    def body(place: Place, _: list[Value]) -> list[Value]:
        write_part(fn, op, None, place, Elements(fn).get(v, place), add)
        return []
    nest(fn, fn.shape(v), body)


def piece(fn: State, op: Op) -> Value | None:
    """The part that ``op`` (``add_slice``, ``set_slice``) writes as a buffer in C order, or None if it is in pieces."""
    v, starts, steps = op.operands[1], op.operands[2::2], op.operands[3::2]
    if fn.device or not _is_one_piece(fn.shape(op.result), fn.shape(v), starts, steps):
        return None
    where = [x for start, n in zip(starts, fn.shape(v)) for x in (fn.scalar(start), n, fn.size(1))]
    return fn.writer.do("view", [fn.buffer(op.result), *where], contiguous=True).result


def _is_one_piece(sizes: Sizes, extent: Sizes, starts: Sequence[Value], steps: Sequence[Value]) -> bool:
    """True if the part is contiguous; ``op_traits.is_contiguous`` with given lengths."""
    axis = 0
    while axis < len(extent) and extent[axis].const == 1:
        axis += 1
    if axis < len(extent) and steps[axis].const != 1:
        return False
    return all(starts[k].const == 0 and steps[k].const == 1 and extent[k] is sizes[k]
               for k in range(axis + 1, len(extent)))


def write_part(fn: State, op: Op, b: Value | None, place: Place, x: Value, add: bool) -> None:
    """Write an element of the part; ``b``: the part as ``piece`` returns it."""
    if b is None:
        starts, steps = (map(fn.scalar, op.operands[first::2]) for first in (2, 3))
        b = fn.buffer(op.result)
        place = Place(tuple(fn.add(s, fn.mul(i, t)) for s, i, t in zip(starts, place.at, steps)))
    write(fn, op, b, place, x, add)


def at_indices(fn: State, op: Op) -> None:
    """``put`` and ``add_put``: in order, since indices may occur twice."""
    update(fn, op)
    v, index = op.operands[1:]
    assert isinstance(index.type, Array)
    rank = index.type.rank

    def body(place: Place, _: list[Value]) -> list[Value]:
        elements = Elements(fn)
        i = elements.get(index, Place(place.at[:rank]))
        at = Place((i, *place.at[rank:]))
        write(fn, op, fn.buffer(op.result), at, elements.get(v, place), op.name == "add_put")
        return []
    nest(fn, fn.shape(v), body, independent=False)
