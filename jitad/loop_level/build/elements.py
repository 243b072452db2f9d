"""Single elements of arrays: a load from a buffer, or for a lazy array the computation of that element.

A place is a list of indices, one for each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Op, Value
from ...ir.types import Array
from .state import State

Place = tuple[Value, ...]
NestBody = Callable[[Place, list[Value]], Sequence[Value]]


def nest(fn: State, sizes: Sequence[Value], body: NestBody, start: Sequence[Value] = (), kinds: Sequence[str] = (),
         independent: bool = True) -> list[Value]:
    """Append one loop for each size, the last innermost; returns the carried values after them.

    ``start``: the carried values, which are reductions of ``kinds``.  ``independent``: see ``ops.py``.
    """
    marks = ({"independent": True} if independent else {}) | ({"reductions": tuple(kinds)} if kinds else {})

    def level(place: Place, carried: list[Value]) -> Sequence[Value]:
        if len(place) == len(sizes):
            return body(place, carried)
        return fn.writer.loop(sizes[len(place)], lambda i, c: level((*place, i), c), carried, **marks)
    return list(level((), list(start)))


class Elements:
    """Computes elements in one loop body, each element once."""

    def __init__(self, fn: State) -> None:
        self.fn = fn
        self._known: dict[tuple[Value, Place], Value] = {}

    def get(self, v: Value, place: Place) -> Value:
        """The element of ``v`` at ``place`` (broadcast to the rank of ``place``); a scalar is its own element."""
        if not isinstance(v.type, Array):
            return self.fn.scalar(v)
        at = place[len(place) - v.type.rank:]
        at = tuple(self.fn.size(0) if d == 1 else i for i, d in zip(at, v.type.dims))
        key = (v, at)
        if key not in self._known:
            self._known[key] = self._compute(v, at)
        return self._known[key]

    def _compute(self, v: Value, place: Place) -> Value:
        fn = self.fn
        if v not in fn.plan.lazy:
            return fn.load(fn.buffer(v), place)
        op = v.op
        assert op is not None
        rule = _ELEMENT.get(op.name)
        if rule is not None:
            return rule(self, op, place)
        return fn.writer.do(op.name, [self.get(o, place) for o in op.operands], **op.attrs).result


def _fill(e: Elements, op: Op, place: Place) -> Value:
    return e.fn.scalar(op.operands[0])


def _iota(e: Elements, op: Op, place: Place) -> Value:
    return place[0]


def _same_place(e: Elements, op: Op, place: Place) -> Value:
    return e.get(op.operands[0], place)


def _slice(e: Elements, op: Op, place: Place) -> Value:
    fn, at = e.fn, []
    for axis, i in enumerate(place):
        start, step = fn.scalar(op.operands[1 + 3 * axis]), fn.scalar(op.operands[3 + 3 * axis])
        at.append(fn.add(start, fn.mul(i, step)))
    return e.get(op.operands[0], tuple(at))


def _transpose(e: Elements, op: Op, place: Place) -> Value:
    at = dict(zip(op.attrs["perm"], place))
    return e.get(op.operands[0], tuple(at[axis] for axis in range(len(place))))


def _reshape(e: Elements, op: Op, place: Place) -> Value:
    """A lazy reshape only adds or drops axes of literal size 1."""
    source, target = op.operands[0].type, op.result.type
    assert isinstance(source, Array) and isinstance(target, Array)
    wide = iter([i for i, d in zip(place, target.dims) if d != 1])
    return e.get(op.operands[0], tuple(e.fn.size(0) if d == 1 else next(wide) for d in source.dims))


def _get(e: Elements, op: Op, place: Place) -> Value:
    return e.get(op.operands[0], tuple(map(e.fn.scalar, op.operands[1:])) + place)


def _take(e: Elements, op: Op, place: Place) -> Value:
    index = op.operands[1]
    assert isinstance(index.type, Array)
    row = e.get(index, place[:index.type.rank])
    return e.get(op.operands[0], (row, *place[index.type.rank:]))


_ELEMENT: dict[str, Callable[[Elements, Op, Place], Value]] = {
    "fill": _fill, "iota": _iota, "slice": _slice, "transpose": _transpose, "reshape": _reshape, "get": _get,
    "take": _take, "as_type": _same_place, "broadcast_to": _same_place, "copy": _same_place, "stop": _same_place,
}
