"""Reductions and scans, fused with the computation of their operand.

On a device the loops over the axes that stay are outermost, and those over the reduced axes carry the partial results.
Elsewhere only the trailing reduced axes, which are innermost, do so.  Partial results of the other reduced axes are
combined in the result's memory, so that the inner loop of ``a.sum(0)`` still runs along rows: several rows at once, as
else each row would wait for the stores of the row before.

Float sums and products may be reassociated.  With several vector accumulators they are about as accurate as NumPy's
pairwise summation and more accurate than a plain loop, but bitwise equal to neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.ops import OPS as IR_OPS
from ...ir.types import I64, Array, Scalar, dtype_of
from .elements import Elements, Place, can_be_flat, nest, put
from .state import COMBINE, State, combine, identity


def fold(fn: State, op: Op) -> None:
    """``sum``, ``prod``, ``max``, ``min``, ``all``, ``any``."""
    axes, rank = op.attrs["axes"], len(fn.shape(op.operands[0]))
    tail = rank
    while tail and tail - 1 in axes:
        tail -= 1
    if fn.device or len(axes) == rank - tail:
        _at_each(fn, op, lambda outer: _partial(fn, op, axes, outer))
    else:
        _fold_into_memory(fn, op, tail)


def _partial(fn: State, op: Op, axes: Collection[int], outer: Place) -> Value:
    """The reduction over some axes, at the indices ``outer`` of the others, as a carried value."""
    source, extent = op.operands[0], fn.shape(op.operands[0])
    assert isinstance(source.type, Array)
    flat = not outer.at and can_be_flat(fn, [source], source.type)

    def body(place: Place, acc: list[Value]) -> list[Value]:
        if not flat:
            kept, reduced = iter(outer.at), iter(place.at)
            place = Place(tuple(next(reduced if axis in axes else kept) for axis in range(len(extent))))
        return [combine(fn, op.name, acc[0], Elements(fn).get(source, place))]
    start = identity(fn, op.name, dtype_of(source.type))
    return nest(fn, [n for axis, n in enumerate(extent) if axis in axes], body, [start], [op.name], flat=flat)[0]


def _fold_into_memory(fn: State, op: Op, tail: int) -> None:
    """Combine what the axes from ``tail`` on give with the elements of the result, which begin as the identity."""
    source, axes, t = op.operands[0], op.attrs["axes"], dtype_of(op.result.type)
    extent = fn.shape(source)
    inner = range(tail, len(extent))
    buffer = fn.values[op.result] = fn.destination(op.result)
    _set_all(fn, buffer, fn.shape(op.result), identity(fn, op.name, t))
    along = max(axis for axis in axes if axis < tail)
    n, none, others = extent[along], fn.size(0), extent[along + 1:tail]
    before, row = fn.nest, _row(fn, source, others) if along == 0 and not inner else None
    if row is not None:
        others, buffer = (row,), fn.writer.do("reshape", [buffer, row]).result
        fn.nest = fn.writer.block, fn.mul(n, row), {}

    def element(at: Sequence[Value], elements: Elements) -> Value:
        place = Place(tuple(at)) if row is None else Place((), fn.add(fn.mul(at[0], row), at[1]))
        return _partial(fn, op, inner, place) if inner else elements.get(source, place)

    def rows(first: Value, number: int, count: Value) -> None:
        """The nest over ``count`` groups of rows of the last of these axes, ``number`` in each."""
        def body(place: Place, _: list[Value]) -> list[Value]:
            kept = [i for axis, i in enumerate(place.at) if axis not in axes]
            start, elements = fn.add(first, fn.mul(place.at[along], fn.size(number))), Elements(fn)
            found = [element([*place.at[:along], fn.add(start, fn.size(k)), *place.at[along + 1:]], elements)
                     for k in range(number)]
            fn.store(_all_of(fn, op, [fn.load(buffer, kept), *found]), buffer, kept)
            return []
        nest(fn, [*extent[:along], count, *others], body, independent=False)

    number = _rows_at_once(fn, source, len(axes)) if not inner else 1
    if number == 1 or (n.const is not None and n.const < number):
        rows(none, 1, n)
    else:
        groups = fn.writer.emit("floordiv", n, fn.size(number))
        done = fn.mul(groups, fn.size(number))
        rows(none, number, groups)
        rows(done, 1, fn.writer.emit("sub", n, done))
    fn.nest = before


def _row(fn: State, source: Value, sizes: Sequence[Value]) -> Value | None:
    """The size of the axes behind the first, if a single loop can walk along them."""
    assert isinstance(source.type, Array)
    return fn.product(sizes) if len(sizes) > 1 and can_be_flat(fn, [source], source.type) else None


def _all_of(fn: State, op: Op, values: list[Value]) -> Value:
    """The reduction of a few values: of floats a sum is in order, as in NumPy; else pairs are combined beside.

    So are the sums of a derivative, whose order is free.
    """
    name = op.name
    if name in ("sum", "prod") and dtype_of(values[0].type).is_float and len(values) > 2 and not op.attrs.get("acc"):
        return reduce(lambda x, y: fn.writer.do(COMBINE[name], [x, y]).result, values)
    while len(values) > 2:
        first, *rest = values
        values = [first, *(combine(fn, name, *rest[k:k + 2]) if k + 1 < len(rest) else rest[k]
                           for k in range(0, len(rest), 2))]
    return reduce(lambda x, y: combine(fn, name, x, y), values)


ROWS = 4
ROWS_OF_WINDOW = 2
SHORT = 12
"""The most ops of an element of which several rows are computed at once."""


def _rows_at_once(fn: State, source: Value, axes: int) -> int:
    """The number of rows to combine with the result at once: one if it takes many ops to compute an element.

    Several axes are often those of a window, which has few rows along each.
    """
    todo, ops = [source], set[Op]()
    while todo and len(ops) <= SHORT:
        v = todo.pop()
        if v in fn.plan.lazy and v.op is not None and v.op not in ops:
            ops.add(v.op)
            todo += v.op.operands
    many = len(ops) > SHORT or any(IR_OPS[op.name].vector for op in ops)
    return 1 if many else ROWS if axes == 1 else ROWS_OF_WINDOW


def _set_all(fn: State, buffer: Value, sizes: Sequence[Value], value: Value) -> None:
    def body(place: Place, _: list[Value]) -> list[Value]:
        put(fn, value, buffer, place)
        return []
    nest(fn, sizes, body, flat=True)


def _at_each(fn: State, op: Op, value: Callable[[Place], Value]) -> None:
    """Store ``value`` at each place of an op's result; a scalar result is its only value."""
    if not is_array(op.result):
        fn.values[op.result] = value(Place(()))
        return
    buffer = fn.values[op.result] = fn.destination(op.result)

    def body(place: Place, _: list[Value]) -> list[Value]:
        fn.store(value(place), buffer, place.at)
        return []
    nest(fn, fn.shape(op.result), body)


# --- argmax, argmin ---------------------------------------------------------------------------------------

def arg(fn: State, op: Op) -> None:
    """``argmax``, ``argmin``: the least index of an extreme element, or of a NaN if there is one."""
    source, axis = op.operands[0], op.attrs["axis"]

    def best(outer: Place) -> Value:
        def element(i: Value) -> Value:
            return Elements(fn).get(source, Place((*outer.at[:axis], i, *outer.at[axis:])))
        search = _in_one_loop if fn.device else _in_two_loops if source in fn.plan.lazy else _by_length
        return search(fn, op, fn.shape(source)[axis], dtype_of(source.type), element)

    _at_each(fn, op, best)


Element = Callable[[Value], Value]

LONG = 32
"""The least length for two loops over memory.  Four elements take 2.8 times as long by vectors, 24 as long as in order.

What is computed on the way is cheaper by vectors: of eight exponentials, in 0.8 of the time.
"""


def _by_length(fn: State, op: Op, n: Value, t: Scalar, element: Element) -> Value:
    """One loop or two, of elements in memory: only one of the ways has iterations."""
    w = fn.writer
    if n.const is not None:
        return (_in_order if n.const < LONG else _in_two_loops)(fn, op, n, t, element)
    none, short = w.const(0, I64), w.do("lt", [n, w.const(LONG, I64)]).result
    one = _in_order(fn, op, w.do("select", [short, n, none]).result, t, element)
    two = _in_two_loops(fn, op, w.do("select", [short, none, n]).result, t, element)
    return w.do("select", [short, one, two]).result


def _in_one_loop(fn: State, op: Op, n: Value, t: Scalar, element: Element) -> Value:
    w, better = fn.writer, "gt" if op.name == "argmax" else "lt"

    def body(i: Value, carried: list[Value]) -> list[Value]:
        x = element(i)
        takes = w.do(better, [x, carried[0]]).result
        if t.is_float:
            first = w.do("not", [w.do("isnan", [carried[0]]).result]).result
            takes = w.do("or", [takes, w.do("and", [w.do("isnan", [x]).result, first]).result]).result
        return [w.do("select", [takes, new, old]).result for new, old in zip((x, i), carried)]
    start = identity(fn, op.name[3:], t), w.const(0, I64)
    return w.loop(n, body, start, best=op.name[3:])[1]


def _in_order(fn: State, op: Op, n: Value, t: Scalar, element: Element) -> Value:
    """One loop whose next iteration waits for a comparison alone: the first NaN is found beside."""
    w, name = fn.writer, op.name[3:]

    def body(i: Value, carried: list[Value]) -> list[Value]:
        x = element(i)
        takes = w.do("lt" if name == "min" else "gt", [x, carried[0]]).result
        chosen = [w.do("select", [takes, new, old]).result for new, old in zip((x, i), carried)]
        if t.is_float:
            here = w.do("select", [w.do("isnan", [x]).result, i, n]).result
            chosen.append(combine(fn, "min", carried[2], here))
        return chosen
    _, at, *nan = w.loop(n, body, [identity(fn, name, t), w.const(0, I64), *([n] if t.is_float else [])])
    return w.do("select", [w.do("lt", [nan[0], n]).result, nan[0], at]).result if nan else at


def _in_two_loops(fn: State, op: Op, n: Value, t: Scalar, element: Element) -> Value:
    """Find the extreme element, then its least index: each loop can be vectorised, while a single one could not."""
    w, name = fn.writer, op.name[3:]
    best = nest(fn, [n], lambda place, c: [combine(fn, name, c[0], element(place.at[0]))], [identity(fn, name, t)],
                [name])[0]
    best_is_nan = w.do("isnan", [best]).result if t.is_float else None

    def first(place: Place, carried: list[Value]) -> list[Value]:
        x = element(place.at[0])
        here = w.do("eq", [x, best]).result
        if best_is_nan is not None:
            here = w.do("or", [here, w.do("and", [w.do("isnan", [x]).result, best_is_nan]).result]).result
        return [combine(fn, "min", carried[0], w.do("select", [here, place.at[0], n]).result)]
    return nest(fn, [n], first, [n], ["min"])[0]


# --- scans ------------------------------------------------------------------------------------------------

def scan(fn: State, op: Op) -> None:
    """``cumsum``, ``cumprod``: the loop along the axis carries the total.

    Along another axis than the last a loop that runs along rows adds to the row before, unless it is for a device.
    """
    source, axis = op.operands[0], op.attrs["axis"]
    buffer = fn.values[op.result] = fn.destination(op.result)
    extent, start = fn.shape(source), identity(fn, op.name, dtype_of(source.type))

    def step(at: tuple[Value, ...], before: Value) -> list[Value]:
        total = combine(fn, op.name, before, Elements(fn).get(source, Place(at)))
        fn.store(total, buffer, at)
        return [total]

    def along(outer: Place, _: list[Value]) -> list[Value]:
        fn.writer.loop(extent[axis], lambda i, c: step((*outer.at[:axis], i, *outer.at[axis:]), c[0]), [start])
        return []

    def by_rows(place: Place, _: list[Value]) -> list[Value]:
        step(place.at, _row_before(fn, buffer, place.at, axis, start))
        return []
    if fn.device or axis == len(extent) - 1:
        nest(fn, extent[:axis] + extent[axis + 1:], along)
    else:
        nest(fn, extent, by_rows, independent=False)


def _row_before(fn: State, buffer: Value, at: tuple[Value, ...], axis: int, start: Value) -> Value:
    """The element before along an axis; at the first one ``start``: an element of any value is loaded, and not used."""
    w, row = fn.writer, at[axis]
    later = w.do("gt", [row, fn.size(0)]).result
    back = w.do("sub", [row, w.do("cast", [later], dtype=I64).result]).result
    return w.do("select", [later, fn.load(buffer, (*at[:axis], back, *at[axis + 1:])), start]).result
