"""Updates in place: the updated array is consumed, so its buffer becomes the result's.

The stored values never read that buffer at another index (``lowering/arrays/update.py`` says why).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.types import Array
from ..types import buffer_type
from .elements import Elements, Place, nest
from .state import State


def update(fn: State, op: Op) -> Value:
    """The consumed operand's buffer, which becomes the result's."""
    fn.values[op.result] = fn.renamed(op.operands[0], op.result)
    return fn.values[op.result]


def write(fn: State, op: Op, at: Sequence[Value], x: Value, add: bool) -> None:
    """Store or add one element of the updated array."""
    b = fn.buffer(op.result)
    if add:
        name = "or" if buffer_type(b).dtype.is_bool else "add"
        attrs = {"acc": True} if op.attrs.get("acc") and name == "add" else {}
        x = fn.writer.do(name, [fn.load(b, at), x], **attrs).result
    fn.store(x, b, at)


def at_index(fn: State, op: Op) -> None:
    """``set`` and ``add_at``."""
    update(fn, op)
    v, first, add = op.operands[1], tuple(map(fn.scalar, op.operands[2:])), op.name == "add_at"
    if not is_array(v):
        write(fn, op, first, fn.scalar(v), add)
        return

    def body(place: Place, _: list[Value]) -> list[Value]:
        write(fn, op, first + place, Elements(fn).get(v, place), add)
        return []
    nest(fn, fn.shape(v), body)


def in_slice(fn: State, op: Op) -> None:
    """``set_slice`` and ``add_slice``."""
    update(fn, op)
    v = op.operands[1]

    def body(place: Place, _: list[Value]) -> list[Value]:
        write(fn, op, part(fn, op, place), Elements(fn).get(v, place), op.name == "add_slice")
        return []
    nest(fn, fn.shape(v), body)


def part(fn: State, op: Op, place: Place) -> list[Value]:
    """The indices in the updated array of an element of the part that ``op`` writes."""
    starts, steps = (map(fn.scalar, op.operands[first::2]) for first in (2, 3))
    return [fn.add(s, fn.mul(i, t)) for s, i, t in zip(starts, place, steps)]


def at_indices(fn: State, op: Op) -> None:
    """``put`` and ``add_put``: in order, since indices may occur twice."""
    update(fn, op)
    v, index = op.operands[1:]
    assert isinstance(index.type, Array)
    rank = index.type.rank

    def body(place: Place, _: list[Value]) -> list[Value]:
        elements = Elements(fn)
        row = elements.get(index, place[:rank])
        write(fn, op, (row, *place[rank:]), elements.get(v, place), op.name == "add_put")
        return []
    nest(fn, fn.shape(v), body, independent=False)
