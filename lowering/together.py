"""One nest of loops for the members of a group (``groups``): arrays stored, reductions kept in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.graph import Op, Value
from ..ir.types import Array, dtype_of
from . import reduce, types
from .elements import Elements, Place, can_be_flat, is_bounded, masked_tail, nest, note, position, sizes
from .elementwise import destination, taking_over
from .groups import REDUCTIONS, shape_of

if TYPE_CHECKING:
    from .function import FunctionLowering


def emit(fn: FunctionLowering, members: list[Op]) -> None:
    """Compute the members of a group element by element."""
    reductions = [op for op in members if op.name in REDUCTIONS]
    computed = [op.result for op in members if op.name not in REDUCTIONS]
    stored = [v for v in computed if v not in fn.plan.passing]
    for v in stored:
        fn.values[v] = destination(fn, v)
    with taking_over(fn, stored, [v for v in computed if v in fn.plan.passing]):
        results = _nest(fn, _extent(fn, members), computed, stored, reductions, members)
    fn.values.update(zip((op.result for op in reductions), results))


def _extent(fn: FunctionLowering, members: list[Op]) -> list[str]:
    """The sizes that all members loop over, literal where one of them knows."""
    known = zip(*(sizes(fn, shape_of(op)) for op in members))
    return [next((s for s in axis if s[0] != "%"), axis[0]) for axis in known]


def _nest(fn: FunctionLowering, extent: list[str], every: list[Value], stored: list[Value], reductions: list[Op],
          members: list[Op]) -> list[str]:
    """The loops; yields what the reductions come to.

    An element is stored when all are computed, since a buffer that is taken over may be read by another member.
    """
    like = shape_of(members[0]).type
    assert isinstance(like, Array)
    sources = [op.operands[0] for op in reductions]
    dtypes = [dtype_of(v.type) for v in sources]
    marks = [note(fn, v) for v in stored]
    everything = [*stored, *sources]

    def body(place: Place, partial: list[str]) -> list[str]:
        elements = Elements(fn)
        index = place.flat if place.flat is not None else position(fn, extent, place.at)
        for v in every:                              # in their order, so that none waits for many others
            elements.get(v, place)
        computed = {v: elements.get(v, place) for v in everything}
        summands = [computed[v] for v in sources]
        for v, mark in zip(stored, marks):
            buffer = fn.array(v)
            fn.store(buffer.dtype, computed[v], buffer.ptr, index, mark)
        return join(partial, summands)

    def join(xs: list[str], ys: list[str]) -> list[str]:
        return [reduce.combine(fn, op.name, t, x, y) for op, t, x, y in zip(reductions, dtypes, xs, ys)]

    carried = [(types.register(t), reduce.identity(op.name, t)) for op, t in zip(reductions, dtypes)]
    hint = masked_tail(fn, *everything) or (reduce.interleaved(fn) if reductions else "")
    return nest(fn, extent, body, carried, flat=all(can_be_flat(fn, v, like) for v in everything), note=hint,
                unbounded=not any(is_bounded(fn, v) for v in everything), cut=True, join=join)
