"""Bodies of nests that the 32 lanes of a warp execute together, such as the reduction of a row, or its softmax.

::

    %m = for {independent, reductions = ("max",)} %j = 0 to %n (…) { load %x, %i, %j … }
    store %m, %y, %i

Lane l runs the iterations l, l + 32, … of each independent loop of the body, so that the warp reads a row in whole
lines.  Reductions are combined by shuffles, after which every lane has the result.  All lanes compute what stands
outside of the loops; lane 0 stores it.
"""

from __future__ import annotations

from ....ir.graph import Function, Op, Value
from ....ir.types import Scalar
from ....loop_level.types import buffer_type
from ...llvm import types
from ..image import WARP
from . import reduce
from .emitter import Shared
from .function import DeviceFunction

_PLAIN = frozenset(("load", "store", "dim", "view", "reshape", "retype"))


def is_row(body: Function, indices: int) -> bool:
    """True if a body has independent loops that read along rows, and nothing reads, or stores again, what it stores."""
    ops = body.entry.ops
    loops = [op for op in ops if op.name == "for"]
    every = list(body.entry.nested_ops())
    if not loops or not all(op.attrs.get("independent") for op in loops) or not any(map(_is_long, loops)):
        return False
    if not all(op.name in _PLAIN or op.name in ("for", "yield", "return") or _is_arithmetic(op) for op in every):
        return False
    if not all(isinstance(v.type, Scalar) for op in loops for v in op.results):
        return False
    stores = [buffer_type(op.operands[1]).alias for op in every if op.name == "store"]
    stored = set(stores)
    read = {buffer_type(op.operands[0]).alias for op in every if op.name == "load"}
    if None in stored or stored & read or len(stores) > len(stored):
        return False
    outside = set(body.params[:indices])
    return any(_along(op, loop.regions[0].params[0]) for loop in loops for op in loop.regions[0].ops) and not any(
        op.name == "load" and op.operands[-1] in outside for loop in loops for op in loop.regions[0].ops)


def _is_arithmetic(op: Op) -> bool:
    return len(op.results) == 1 and isinstance(op.result.type, Scalar) and not op.regions and all(
        isinstance(v.type, Scalar) for v in op.operands) and op.name not in ("check", "pop")


def _is_long(op: Op) -> bool:
    lower, upper, step = (v.const for v in op.operands[:3])
    return None in (lower, upper, step) or len(range(lower, upper, step)) >= WARP


def _along(op: Op, iv: Value) -> bool:
    """True if an access runs along the last axis."""
    return op.name in ("load", "store") and op.operands[-1] is iv


class RowFunction(DeviceFunction):
    """A body for the lanes of a warp."""

    def __init__(self, shared: Shared, func: Function) -> None:
        super().__init__(shared, func)
        self._inside = False

    def op(self, op: Op) -> None:
        if op.name == "for":
            self.for_(op)
        elif op.name == "store":
            self.store_op(op)
        else:
            super().op(op)

    def lane(self) -> str:
        return self.code.op(f"and i64 {self.number('thread')}, {WARP - 1}", "lane")

    def for_(self, op: Op) -> None:
        """Divide a loop of the body between the lanes."""
        if self._inside:
            super().for_(op)
            return
        body = op.regions[0]
        term = body.term
        assert term is not None
        lower, upper, step = (self.scalar(v) for v in op.operands[:3])
        kinds = [reduce.ROLES[k] for k in op.attrs.get("reductions", ())]
        scalars = [v.type for v in op.operands[3:]]
        start = [(types.register(t), reduce.neutral(k, t)) for k, t in zip(kinds, scalars) if isinstance(t, Scalar)]
        known = op.operands[2].const

        def run(i: str, carried: list[str]) -> list[str]:
            self.values[body.params[0]] = i
            self.define(body.params[1:], carried)
            for inner in body.ops:
                self.op(inner)
            return [self.scalar(v) for v in term.operands]
        self._inside = True
        first = self.add(lower, self.mul(self.lane(), step))
        parts = self.loop(first, upper, self.mul(step, str(WARP)), run, start,
                          downwards=known is not None and known < 0, either=known is None)
        self._inside = False
        totals = []
        for k, t, x, v in zip(kinds, scalars, parts, op.operands[3:]):
            assert isinstance(t, Scalar)
            totals.append(reduce.combine(self, k, t, self.scalar(v), reduce.all_lanes(self, k, t, x)))
        self.define(op.results, totals)

    def store_op(self, op: Op) -> None:
        if self._inside:
            super().store_op(op)
        else:
            self.if_(self.code.op(f"icmp eq i64 {self.lane()}, 0", "c"), lambda: super(RowFunction, self).store_op(op))
