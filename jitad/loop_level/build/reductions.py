"""Reductions and scans, fused with the computation of their operand.

The loops over the axes that stay are outermost, and those over the reduced axes carry the partial results.  Another
order of the loops is left to later stages: the loops say which of them are reductions.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.types import I64, dtype_of
from .elements import Elements, Place, nest
from .state import State, combine, identity


def fold(fn: State, op: Op) -> None:
    """``sum``, ``prod``, ``max``, ``min``, ``all``, ``any``."""
    source, axes = op.operands[0], op.attrs["axes"]
    inner = [n for axis, n in enumerate(fn.shape(source)) if axis in axes]

    def partial(outer: Place) -> Value:
        def body(place: Place, acc: list[Value]) -> list[Value]:
            kept, reduced = iter(outer), iter(place)
            at = tuple(next(reduced if axis in axes else kept) for axis in range(len(fn.shape(source))))
            return [combine(fn, op.name, acc[0], Elements(fn).get(source, at))]
        start = identity(fn, op.name, dtype_of(source.type))
        return nest(fn, inner, body, [start], [op.name])[0]

    _at_each(fn, op, partial)


def _at_each(fn: State, op: Op, value: Callable[[Place], Value]) -> None:
    """Store ``value`` at each place of an op's result; a scalar result is its only value."""
    if not is_array(op.result):
        fn.values[op.result] = value(())
        return
    buffer = fn.values[op.result] = fn.destination(op.result)

    def body(place: Place, _: list[Value]) -> list[Value]:
        fn.store(value(place), buffer, place)
        return []
    nest(fn, fn.shape(op.result), body)


def arg(fn: State, op: Op) -> None:
    """``argmax``, ``argmin``: the least index of an extreme element, or of a NaN if there is one."""
    source, axis, w = op.operands[0], op.attrs["axis"], fn.writer
    t, better = dtype_of(source.type), "gt" if op.name == "argmax" else "lt"

    def best(outer: Place) -> Value:
        def body(i: Value, carried: list[Value]) -> list[Value]:
            x = Elements(fn).get(source, (*outer[:axis], i, *outer[axis:]))
            takes = w.do(better, [x, carried[0]]).result
            if t.is_float:
                first = w.do("not", [w.do("isnan", [carried[0]]).result]).result
                takes = w.do("or", [takes, w.do("and", [w.do("isnan", [x]).result, first]).result]).result
            return [w.do("select", [takes, new, old]).result for new, old in zip((x, i), carried)]
        start = identity(fn, op.name[3:], t), w.const(0, I64)
        return w.loop(fn.shape(source)[axis], body, start, best=op.name[3:])[1]

    _at_each(fn, op, best)


def scan(fn: State, op: Op) -> None:
    """``cumsum``, ``cumprod``: the loop along the axis carries the total."""
    source, axis = op.operands[0], op.attrs["axis"]
    buffer = fn.values[op.result] = fn.destination(op.result)
    extent = fn.shape(source)

    def along(outer: Place, _: list[Value]) -> list[Value]:
        def step(i: Value, carried: list[Value]) -> list[Value]:
            at = (*outer[:axis], i, *outer[axis:])
            total = combine(fn, op.name, carried[0], Elements(fn).get(source, at))
            fn.store(total, buffer, at)
            return [total]
        fn.writer.loop(extent[axis], step, [identity(fn, op.name, dtype_of(source.type))])
        return []
    nest(fn, extent[:axis] + extent[axis + 1:], along)
