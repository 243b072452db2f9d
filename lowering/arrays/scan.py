"""Cumulative sums and products along an axis."""

from __future__ import annotations

from ...ir.graph import Op
from ...ir.types import Array
from ..builder.function_builder import FunctionBuilder
from ..llvm import types
from ..math import ops
from .elements import Elements, Place, nest, note, position, sizes
from .reduce import combine, identity


def cumulative(fn: FunctionBuilder, op: Op) -> None:
    """Lower cumsum, cumprod: along the last axis in a register, along others by adding to the preceding row."""
    source, result, axis = op.operands[0], op.result, op.attrs["axis"]
    assert isinstance(result.type, Array)
    t, extent = result.type.dtype, sizes(fn, source)
    buffer = fn.alloc(result.type, fn.plan.sizes[result], result)
    fn.values[result] = buffer
    mark, start = note(fn, result), identity(op.name, t)

    def step(at: tuple[str, ...], before: str) -> list[str]:
        total = combine(fn, op.name, t, before, Elements(fn).get(source, Place(at)))
        fn.store(t, total, buffer.ptr, position(fn, buffer.sizes, at), mark)
        return [total]

    def along_last(place: Place, _: list[str]) -> list[str]:
        fn.loop(extent[-1], lambda i, c: step((*place.at, i), c[0]), [(types.register(t), start)], unbounded=True)
        return []

    def along_other(place: Place, _: list[str]) -> list[str]:
        # At the first row ``before`` is uninitialised memory of the result: it is loaded but not used.
        at, row = place.at, place.at[axis]
        first, later = (fn.code.op(f"icmp {how} i64 {row}, 0", "c") for how in ("eq", "ne"))
        back = fn.sub(row, fn.code.op(f"zext i1 {later} to i64"))
        index = position(fn, buffer.sizes, (*at[:axis], back, *at[axis + 1:]))
        before = fn.code.op(f"freeze {types.register(t)} {fn.load(t, buffer.ptr, index, mark)}")
        step(at, ops.select(fn, t, first, start, before))
        return []

    if axis == len(extent) - 1:
        nest(fn, extent[:-1], along_last)
    else:
        nest(fn, extent, along_other)
