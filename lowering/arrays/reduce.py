"""Reductions, fused with the computation of their operand.

The trailing reduced axes are the innermost loops, with the partial result in registers.  Partial results of the other
reduced axes are combined in the result's memory, so that the inner loop of ``a.sum(0)`` still runs along rows.

Float sums and products may be reassociated.  They use several vector accumulators, which is about as accurate as
NumPy's pairwise summation and more accurate than a plain loop, but bitwise equal to neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Op, Value
from ...ir.types import I64, Array, Scalar, dtype_of
from ..builder.function_builder import FunctionBuilder
from ..llvm import types
from ..llvm.types import Buffer, literal
from ..math import ops
from .elements import Elements, Place, can_be_flat, is_bounded, masked_tail, nest, note, position, sizes
from .elementwise import clear

_COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or",
            "cumsum": "add", "cumprod": "mul"}


def identity(name: str, t: Scalar) -> str:
    """The neutral element of the reduction ``name``."""
    if name in ("sum", "cumsum", "prod", "cumprod"):
        return literal({"sum": 0.0, "cumsum": -0.0}.get(name, 1), t)
    if t.is_bool:
        return literal(name in ("all", "min"), t)
    if t.is_float:
        return literal(float("-inf") if name == "max" else float("inf"), t)
    return literal(t.low if name == "max" else t.high, t)


def combine(fn: FunctionBuilder, name: str, t: Scalar, x: str, y: str) -> str:
    """One step of the reduction ``name``.  A maximum of zeros of both signs returns either one."""
    op = _COMBINE[name]
    flags = ops.flags(fn.options, {"acc": True}) if op in ("add", "mul") else "nsz" if t.is_float else ""
    return ops.TABLE[op](fn, t, [x, y], flags)


def interleaved(fn: FunctionBuilder) -> str:
    """Loop metadata for a reduction: four vector accumulators hide the latency of one."""
    count = fn.writer.node('!"llvm.loop.interleave.count", i32 4')
    return f", !llvm.loop {fn.writer.distinct(lambda me: f'{me}, {count}')}"


def fold(fn: FunctionBuilder, op: Op) -> None:
    """Lower sum, prod, max, min, all, any."""
    source, axes = op.operands[0], set(op.attrs["axes"])
    assert isinstance(source.type, Array)
    rank = source.type.rank
    tail = rank
    while tail and tail - 1 in axes:
        tail -= 1
    if len(axes) == rank:
        flat = can_be_flat(fn, source, source.type)
        fn.values[op.result] = _partial(fn, op, sizes(fn, source), (), flat)
        return
    _fold_into_memory(fn, op, tail, revisited=any(a < tail for a in axes))


def _partial(fn: FunctionBuilder, op: Op, inner: Sequence[str], outer: tuple[str, ...], flat: bool = False) -> str:
    """The reduction over the innermost axes at fixed outer indices, in a register."""
    source, t = op.operands[0], dtype_of(op.operands[0].type)

    def body(place: Place, acc: list[str]) -> list[str]:
        if not flat:
            place = Place(outer + place.at)
        return [combine(fn, op.name, t, acc[0], Elements(fn).get(source, place))]

    start = [(types.register(t), identity(op.name, t))]
    total = nest(fn, inner, body, start, flat, masked_tail(fn, source) or interleaved(fn),
                 unbounded=not is_bounded(fn, source),
                 cut=not outer, join=lambda xs, ys: [combine(fn, op.name, t, xs[0], ys[0])])[0]
    if op.name == "sum" and t.is_float and all(n.isdigit() for n in inner):
        # A loop that LLVM unrolls starts from the first element, so a sum of negative zeros would be -0, not 0.
        total = ops.TABLE["add"](fn, t, [total, literal(0, t)], ops.flags(fn.options, {}))
    return total


def _fold_into_memory(fn: FunctionBuilder, op: Op, tail: int, revisited: bool) -> None:
    source, result, axes = op.operands[0], op.result, set(op.attrs["axes"])
    assert isinstance(result.type, Array)
    t, extent = result.type.dtype, sizes(fn, source)
    buffer = fn.alloc(result.type, fn.plan.sizes[result], result)
    fn.values[result] = buffer
    mark = note(fn, result)
    if revisited and not (op.name == "sum" and clear(fn, buffer, buffer.sizes)):
        start = identity(op.name, t)
        fn.loop(fn.product(buffer.sizes), lambda i, _: _put(fn, buffer, start, i, mark))

    def body(place: Place, _: list[str]) -> list[str]:
        if tail < len(extent):
            value = _partial(fn, op, extent[tail:], place.at)
        else:
            value = Elements(fn).get(source, place)
        index = position(fn, buffer.sizes, [i for axis, i in enumerate(place.at) if axis not in axes])
        if revisited:
            value = combine(fn, op.name, t, fn.load(t, buffer.ptr, index, mark), value)
        return _put(fn, buffer, value, index, mark)

    nest(fn, extent[:tail], body, unbounded=not is_bounded(fn, source), cut=not revisited)


def _put(fn: FunctionBuilder, buffer: Buffer, value: str, index: str, mark: str) -> list[str]:
    fn.store(buffer.dtype, value, buffer.ptr, index, mark)
    return []


def arg(fn: FunctionBuilder, op: Op) -> None:
    """Lower argmax, argmin: the least index of an extreme element, or of a NaN if there is one."""
    source, result, axis = op.operands[0], op.result, op.attrs["axis"]
    extent = sizes(fn, source)
    if not isinstance(result.type, Array):
        fn.values[result] = _best(fn, op, extent[axis], (), ())
        return
    buffer = fn.alloc(result.type, fn.plan.sizes[result], result)
    fn.values[result] = buffer
    mark = note(fn, result)

    def body(place: Place, _: list[str]) -> list[str]:
        best = _best(fn, op, extent[axis], place.at[:axis], place.at[axis:])
        return _put(fn, buffer, best, position(fn, buffer.sizes, place.at), mark)

    nest(fn, buffer.sizes, body)


def _best(fn: FunctionBuilder, op: Op, n: str, before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """Find the extreme element, then its least index, in two loops: each vectorises, while a single loop would not."""
    source: Value = op.operands[0]
    t, name = dtype_of(source.type), op.name[3:]

    def element(i: str) -> str:
        return Elements(fn).get(source, Place((*before, i, *after)))

    start = [(types.register(t), identity(name, t))]
    unbounded = not is_bounded(fn, source)
    best = fn.loop(n, lambda i, c: [combine(fn, name, t, c[0], element(i))], start, note=interleaved(fn),
                   unbounded=unbounded)[0]

    def first(i: str, carried: list[str]) -> list[str]:
        here = ops.select(fn, I64, _equal(fn, t, element(i), best), i, n)
        return [combine(fn, "min", I64, carried[0], here)]

    return fn.loop(n, first, [("i64", n)], note=interleaved(fn), unbounded=unbounded)[0]


def _equal(fn: FunctionBuilder, t: Scalar, x: str, best: str) -> str:
    """A bool that is true if ``x`` equals ``best``; two NaNs count as equal."""
    if not t.is_float:
        return ops.TABLE["eq"](fn, t, [x, best], "")
    of = types.register(t)
    both = fn.code.op(f"and i1 {ops.TABLE['isnan'](fn, t, [x], '')}, {ops.TABLE['isnan'](fn, t, [best], '')}", "c")
    return fn.code.op(f"or i1 {fn.code.op(f'fcmp oeq {of} {x}, {best}', 'c')}, {both}", "c")
