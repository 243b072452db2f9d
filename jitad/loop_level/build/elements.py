"""Single elements of arrays: a load from a buffer, or for a lazy array the computation of that element.

A *place* identifies an element: one index for each axis or, if all arrays involved have the same sizes (``flat``),
one offset in C order, so that a nest is a single loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...ir.graph import Op, Value
from ...ir.types import Array, dtype_of
from ...lowering.planning.op_traits import is_flat
from .state import State


class Place(NamedTuple):
    """One element: its indices ``at``, or its offset ``flat`` in C order with ``at`` empty."""

    at: tuple[Value, ...]
    flat: Value | None = None


NestBody = Callable[[Place, list[Value]], Sequence[Value]]


def nest(fn: State, sizes: Sequence[Value], body: NestBody, start: Sequence[Value] = (), kinds: Sequence[str] = (),
         independent: bool = True, flat: bool = False) -> list[Value]:
    """Append one loop for each size, the last innermost, or a single loop over all elements with ``flat``.

    ``start``: the carried values, which are reductions of ``kinds``; they are returned as they are after the loops.
    ``independent``: see ``ops.py``.
    """
    marks = ({"independent": True} if independent else {}) | ({"reductions": tuple(kinds)} if kinds else {})

    def level(at: tuple[Value, ...], carried: list[Value]) -> Sequence[Value]:
        if len(at) == len(sizes):
            return body(Place(at), carried)
        return fn.writer.loop(sizes[len(at)], lambda i, c: level((*at, i), c), carried, **marks)
    if not flat:
        return list(level((), list(start)))
    count, before = fn.product(sizes), fn.nest
    fn.nest = fn.writer.block, count, {}
    results = fn.writer.loop(count, lambda i, c: body(Place((), i), c), start, **marks)
    fn.nest = before
    return results


def can_be_flat(fn: State, values: Iterable[Value], like: Array) -> bool:
    """True if the elements of ``values`` at a flat offset in an array of type ``like`` depend on that offset alone."""
    return not fn.device and is_flat(fn.plan.lazy, values, like)


def put(fn: State, x: Value, b: Value, place: Place) -> None:
    """Store an element of a buffer."""
    fn.store(x, *_where(fn, b, place))


def fetch(fn: State, b: Value, place: Place) -> Value:
    """Load an element of a buffer."""
    return fn.load(*_where(fn, b, place))


def _where(fn: State, b: Value, place: Place) -> tuple[Value, Sequence[Value]]:
    return (b, place.at) if place.flat is None else (fn.flattened(b), (place.flat,))


class Elements:
    """Computes elements in one loop body, each element once."""

    def __init__(self, fn: State) -> None:
        self.fn = fn
        self._known: dict[tuple[Value, Place], Value] = {}

    def get(self, v: Value, place: Place) -> Value:
        """The element of ``v`` at ``place`` (broadcast to the rank of ``place``); a scalar is its own element."""
        if not isinstance(v.type, Array):
            return self.fn.scalar(v)
        place = self._narrow(v.type, place)
        known = self._known.get((v, place))
        if known is None:
            known = self._known[v, place] = self._compute(v, place)
        return known

    def _narrow(self, t: Array, place: Place) -> Place:
        """The place in an operand of type ``t`` that is broadcast to ``place`` in the result."""
        if place.flat is not None:
            return place
        at = place.at[len(place.at) - t.rank:]
        return Place(tuple(self.fn.size(0) if d == 1 else i for i, d in zip(at, t.dims)))

    def _compute(self, v: Value, place: Place) -> Value:
        fn = self.fn
        if v not in fn.plan.lazy:
            return fetch(fn, fn.buffer(v), place)
        op = v.op
        assert op is not None
        rule = _ELEMENT.get(op.name)
        if rule is not None:
            return rule(self, op, place)
        return fn.writer.of(dtype_of(v.type), op.name, [self.get(o, place) for o in op.operands], dict(op.attrs))


def _fill(e: Elements, op: Op, place: Place) -> Value:
    return e.fn.scalar(op.operands[0])


def _iota(e: Elements, op: Op, place: Place) -> Value:
    return place.flat if place.flat is not None else place.at[0]


def _same_place(e: Elements, op: Op, place: Place) -> Value:
    return e.get(op.operands[0], place)


def _slice(e: Elements, op: Op, place: Place) -> Value:
    fn, at = e.fn, []
    for axis, i in enumerate(place.at):
        start, step = fn.scalar(op.operands[1 + 3 * axis]), fn.scalar(op.operands[3 + 3 * axis])
        at.append(fn.add(start, fn.mul(i, step)))
    return e.get(op.operands[0], Place(tuple(at)))


def _transpose(e: Elements, op: Op, place: Place) -> Value:
    at = dict(zip(op.attrs["perm"], place.at))
    return e.get(op.operands[0], Place(tuple(at[axis] for axis in range(len(at)))))


def _reshape(e: Elements, op: Op, place: Place) -> Value:
    """A lazy reshape only adds or drops axes of literal size 1."""
    source, target = op.operands[0].type, op.result.type
    assert isinstance(source, Array) and isinstance(target, Array)
    wide = iter([i for i, d in zip(place.at, target.dims) if d != 1])
    return e.get(op.operands[0], Place(tuple(e.fn.size(0) if d == 1 else next(wide) for d in source.dims)))


def _get(e: Elements, op: Op, place: Place) -> Value:
    return e.get(op.operands[0], Place((*map(e.fn.scalar, op.operands[1:]), *place.at)))


def _take(e: Elements, op: Op, place: Place) -> Value:
    index = op.operands[1]
    assert isinstance(index.type, Array)
    row = e.get(index, Place(place.at[:index.type.rank]))
    return e.get(op.operands[0], Place((row, *place.at[index.type.rank:])))


_ELEMENT: dict[str, Callable[[Elements, Op, Place], Value]] = {
    "fill": _fill, "iota": _iota, "slice": _slice, "transpose": _transpose, "reshape": _reshape, "get": _get,
    "take": _take, "as_type": _same_place, "broadcast_to": _same_place, "copy": _same_place, "stop": _same_place,
}
