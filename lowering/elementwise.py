"""Stores an array that is computed element by element: elementwise ops, copies, views that need memory of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.graph import Op, Value
from ..ir.types import Array
from .elements import Elements, Place, can_be_flat, nest, note, position, sizes
from .types import Buffer

if TYPE_CHECKING:
    from .function import FunctionLowering


def store(fn: FunctionLowering, op: Op) -> None:
    """Compute every element of ``op``'s result into its buffer."""
    result = op.result
    target = fn.plan.reuse.get(result)
    fn.values[result] = destination(fn, result)
    if target is not None and op.name == "copy" and op.operands[0] is target:
        return                                       # nobody reads the original again, so it is the copy
    # The result counts as lazy while its elements are computed: they come from its operands.
    fn.plan.lazy.add(result)
    try:
        fill_buffer(fn, fn.values[result], result, result)
    finally:
        fn.plan.lazy.discard(result)


def destination(fn: FunctionLowering, result: Value) -> Buffer:
    """The buffer for a result: the one it takes over, or a new one."""
    t = result.type
    assert isinstance(t, Array)
    target = fn.plan.reuse.get(result)
    if target is not None:
        return Buffer(fn.array(target).ptr, sizes(fn, result), t)
    return fn.alloc(t, fn.plan.sizes[result], result)


def fill_buffer(fn: FunctionLowering, buffer: object, source: Value, owner: Value) -> None:
    """Put every element of ``source`` into ``buffer``, which belongs to the root of ``owner``."""
    assert isinstance(buffer, Buffer) and isinstance(source.type, Array)
    extent, mark = buffer.sizes, note(fn, owner)
    flat = can_be_flat(fn, source, source.type)

    def body(place: Place, _: list[str]) -> list[str]:
        value = Elements(fn).get(source, place)
        index = place.flat if place.flat is not None else position(fn, extent, place.at)
        fn.store(buffer.dtype, value, buffer.ptr, index, mark)
        return []

    nest(fn, extent, body, flat=flat)
