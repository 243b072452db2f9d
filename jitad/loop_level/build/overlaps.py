"""Overlapping parts that are added to one array, as by the adjoint of a stencil: one pass over what they share.

Parts of one extent ``e``, of which the order of additions is free, have a box in common::

    a[s : s+e] += v; a[t : t+e] += w        # box = max(s, t) … min(s, t) + e
    for p in box: a[p] += v[p - s] + w[p - t]

so that each element of ``a`` is loaded and stored once.  What a part has outside of the box are its *rims*: along each
axis, the indices below the box and those above it, of which the axes before are within the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...ir.graph import Op, Value
from ...ir.types import Array
from .elements import Elements, Place, nest
from .state import Sizes, State
from .updates import write


def add_overlapping(fn: State, parts: Sequence[Op]) -> None:
    """Add ``parts``, with steps of 1 and of one extent, to the array that all of them update."""
    extent = fn.shape(parts[0].operands[1])
    starts = [tuple(map(fn.scalar, op.operands[2::2])) for op in parts]
    low = [_chosen(fn, "maximum", axis) for axis in zip(*starts)]
    high = [fn.add(_chosen(fn, "minimum", axis), e) for axis, e in zip(zip(*starts), extent)]
    box = [e if _is_one(axis) else fn.writer.do("maximum", [_minus(fn, h, b), fn.size(0)]).result
           for axis, e, b, h in zip(zip(*starts), extent, low, high)]
    first = [tuple(_inside(fn, b, s, e) for b, s, e in zip(low, at, extent)) for at in starts]
    _box(fn, parts, low, box, first)
    for op, at, begin in zip(parts, starts, first):
        for axis in range(len(extent)):
            if not _is_one([s[axis] for s in starts]):
                _rims(fn, op, at, begin, box, extent, axis)


def _box(fn: State, parts: Sequence[Op], low: Sequence[Value], box: Sequence[Value],
         first: Sequence[tuple[Value, ...]]) -> None:
    """The sums of the elements that the parts have in the box; ``first``: where it begins in each of them."""
    def body(place: Place, _: list[Value]) -> list[Value]:
        elements = Elements(fn)
        at: dict[tuple[Value, Value], Value] = {}

        def moved(by: Sequence[Value]) -> Place:
            return Place(tuple(at.setdefault((i, b), fn.add(i, b)) for i, b in zip(place.at, by)))
        terms = [elements.get(op.operands[1], moved(begin)) for op, begin in zip(parts, first)]
        bools = isinstance(t := parts[0].result.type, Array) and t.dtype.is_bool
        total = reduce(lambda x, y: fn.writer.do("or", [x, y]).result if bools
                       else fn.writer.do("add", [x, y], acc=True).result, terms)
        write(fn, parts[0], fn.buffer(parts[0].result), moved(low), total, add=True)
        return []
    nest(fn, box, body)


def _rims(fn: State, op: Op, start: Sequence[Value], begin: Sequence[Value], box: Sequence[Value], extent: Sizes,
          axis: int) -> None:
    """Add the elements of a part below and above the box along ``axis``, in a loop of two iterations."""
    end = fn.add(begin[axis], box[axis])
    above = _minus(fn, extent[axis], end)

    def side(k: Value, _: list[Value]) -> list[Value]:
        count = fn.add(begin[axis], fn.mul(k, _minus(fn, above, begin[axis])))
        offset = [*begin[:axis], fn.mul(k, end), *[fn.size(0)] * (len(extent) - axis - 1)]

        def body(place: Place, _: list[Value]) -> list[Value]:
            at = [fn.add(i, o) for i, o in zip(place.at, offset)]
            x = Elements(fn).get(op.operands[1], Place(tuple(at)))
            write(fn, op, fn.buffer(op.result), Place(tuple(fn.add(i, s) for i, s in zip(at, start))), x, add=True)
            return []
        nest(fn, [*box[:axis], count, *extent[axis + 1:]], body)
        return []
    fn.writer.loop(fn.size(2), side)


def _is_one(values: Sequence[Value]) -> bool:
    return all(v is values[0] for v in values)


def _chosen(fn: State, name: str, values: Sequence[Value]) -> Value:
    return reduce(lambda x, y: x if x is y else fn.writer.do(name, [x, y]).result, values)


def _minus(fn: State, x: Value, y: Value) -> Value:
    return fn.writer.emit("sub", x, y)


def _inside(fn: State, low: Value, start: Value, extent: Value) -> Value:
    """The beginning of the box in a part, or the part's end if no element is in the box."""
    if low is start:
        return fn.size(0)
    return fn.writer.do("minimum", [_minus(fn, low, start), extent]).result
