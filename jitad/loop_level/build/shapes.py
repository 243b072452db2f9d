"""Sizes of results, views, and ops that rearrange elements."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Array
from ...lowering.planning.op_traits import is_contiguous
from . import nests
from .elements import Elements, Place, nest
from .state import Sizes, State
from .updates import row

# --- sizes of results -------------------------------------------------------------------------------------


def result_sizes(fn: State, op: Op) -> Sizes:
    """The sizes of an op's array result."""
    rule = _SIZES.get(op.name, _broadcast if OPS[op.name].elementwise else _same)
    return rule(fn, op)


def _same(fn: State, op: Op) -> Sizes:
    return fn.shape(op.operands[0])


def _broadcast(fn: State, op: Op) -> Sizes:
    t = op.result.type
    assert isinstance(t, Array)
    out = [fn.size(1)] * t.rank
    for v in op.operands:
        if isinstance(v.type, Array):
            for axis, size in enumerate(fn.shape(v), start=t.rank - v.type.rank):
                out[axis] = size if out[axis].const == 1 else out[axis]
    return tuple(out)


def _given(first: int, step: int = 1) -> Callable[[State, Op], Sizes]:
    return lambda fn, op: tuple(map(fn.scalar, op.operands[first::step]))


def _kept(fn: State, op: Op) -> Sizes:
    gone = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return tuple(s for axis, s in enumerate(fn.shape(op.operands[0])) if axis not in gone)


def _concat(fn: State, op: Op) -> Sizes:
    axis, out = op.attrs["axis"], list(fn.shape(op.operands[0]))
    for v in op.operands[1:]:
        out[axis] = fn.add(out[axis], fn.shape(v)[axis])
    return tuple(out)


def _matmul(fn: State, op: Op) -> Sizes:
    a, b = (fn.shape(v) for v in op.operands)
    rows = () if len(a) == 1 else (a[-1 if op.attrs.get("ta") else -2],)
    cols = () if len(b) == 1 else (b[-2 if op.attrs.get("tb") else -1],)
    return (a[:1] if len(a) == 3 else ()) + rows + cols


def _undefined(fn: State, op: Op) -> Sizes:
    t = op.result.type
    assert isinstance(t, Array)
    return tuple(fn.size(d or 0) for d in t.dims)


_SIZES: dict[str, Callable[[State, Op], Sizes]] = {
    "fill": _given(1), "broadcast_to": _given(1), "reshape": _given(1), "empty": _given(0), "iota": _given(0),
    "slice": _given(2, 3), "concat": _concat, "matmul": _matmul, "undef": _undefined,
    "transpose": lambda fn, op: tuple(fn.shape(op.operands[0])[p] for p in op.attrs["perm"]),
    "get": lambda fn, op: fn.shape(op.operands[0])[len(op.operands) - 1:],
    "take": lambda fn, op: fn.shape(op.operands[1]) + fn.shape(op.operands[0])[1:],
    "nonzero": _undefined,                           # known only after it has run
    **{name: _kept for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin")},
}


def dim(fn: State, op: Op) -> None:
    fn.values[op.result] = fn.shape(op.operands[0])[op.attrs["axis"]]


def empty(fn: State, op: Op) -> None:
    fn.values[op.result] = fn.destination(op.result)


def undef(fn: State, op: Op) -> None:
    fn.values[op.result] = fn.undefined(op.result)


# --- views --------------------------------------------------------------------------------------------------

def view(fn: State, op: Op) -> bool:
    """Make ``op``'s result a part of its operand's buffer if it is in C order.  Returns True if so."""
    rule = _VIEW.get(op.name)
    source = op.operands[0] if op.operands else None
    if rule is None or source is None or not is_array(source) or source in fn.plan.lazy or not fn.is_stored(source):
        return False                                 # (a member of a group may not be computed yet)
    found = rule(fn, op, fn.buffer(source))
    if found is not None:
        fn.values[op.result] = fn.typed(found, op.result)
    return found is not None


def _view_get(fn: State, op: Op, b: Value) -> Value | None:
    return row(fn, b, [fn.scalar(i) for i in op.operands[1:]], fn.shape(op.operands[0]))


def _view_slice(fn: State, op: Op, b: Value) -> Value | None:
    if not is_contiguous(op.operands[0], op.operands[1::3], op.operands[2::3], op.operands[3::3]):
        return None
    return fn.writer.do("view", [b, *map(fn.scalar, op.operands[1:])], contiguous=True).result


def _view_reshape(fn: State, op: Op, b: Value) -> Value | None:
    return fn.writer.do("reshape", [b, *map(fn.scalar, op.operands[1:])]).result


_VIEW: dict[str, Callable[[State, Op, Value], Value | None]] = {
    "get": _view_get, "slice": _view_slice, "reshape": _view_reshape, "as_type": lambda fn, op, b: b,
}


def get(fn: State, op: Op) -> None:
    """``get`` of an element, or of a subarray that is stored because ``view`` did not make it a view."""
    if is_array(op.result):
        nests.store(fn, op)
    else:
        fn.values[op.result] = Elements(fn).get(op.operands[0], Place(tuple(map(fn.scalar, op.operands[1:]))))


# --- concatenation, nonzero ---------------------------------------------------------------------------------

def concat(fn: State, op: Op) -> None:
    axis, buffer = op.attrs["axis"], fn.destination(op.result)
    fn.values[op.result] = buffer
    offset = fn.size(0)
    for v in op.operands:
        size = fn.shape(v)[axis]
        if axis == 0 and not fn.device:
            rest = [x for n in fn.shape(op.result)[1:] for x in (fn.size(0), n, fn.size(1))]
            part = fn.writer.do("view", [buffer, offset, size, fn.size(1), *rest], contiguous=True).result
            nests.fill(fn, part, v)
        else:
            _copy_part(fn, v, buffer, axis, offset)
        offset = fn.add(offset, size)


def _copy_part(fn: State, v: Value, buffer: Value, axis: int, offset: Value) -> None:
    def body(place: Place, _: list[Value]) -> list[Value]:
        at = [*place.at[:axis], fn.add(place.at[axis], offset), *place.at[axis + 1:]]
        fn.store(Elements(fn).get(v, place), buffer, at)
        return []
    nest(fn, fn.shape(v), body)


def nonzero(fn: State, op: Op) -> None:
    """Count the nonzero elements, then store their indices.

    The second loop stores every index, and advances only after one of a nonzero element: it has no branch.  The buffer
    of all indices has one element more than the result, which is a view of it.
    """
    source, w = op.operands[0], fn.writer
    n = fn.shape(source)[0]

    def found(i: Value) -> Value:
        return w.do("cast", [Elements(fn).get(source, Place((i,)))], dtype=I64).result

    count = w.loop(n, lambda i, c: [fn.add(c[0], found(i))], [fn.size(0)], independent=True, reductions=("sum",))[0]
    room = fn.new(op.result, [fn.add(count, fn.size(1))])

    def keep(i: Value, carried: list[Value]) -> list[Value]:
        fn.store(i, room, carried)
        return [fn.add(carried[0], found(i))]

    w.loop(n, keep, [fn.size(0)], compacts=True)
    fn.values[op.result] = w.do("view", [room, fn.size(0), count, fn.size(1)], contiguous=True).result
    fn.set_sizes(op.result, [count])
