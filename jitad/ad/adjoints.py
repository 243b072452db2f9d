"""The adjoints at one point of the reverse sweep, and the contributions of each op to them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.graph import Block, Op, Value
from ..ir.types import Scalar, Stack, carries_adjoint, dims_of
from .activity import differentiable_operands
from .derivatives import BILINEAR, LINEAR, PARTIALS, WEIGHTS, ZERO, spread

Env = dict[Value, Value]


class Adjoints:
    """``env`` maps values to their adjoints as far as they are known; only ``active`` values have one."""

    def __init__(self, active: set[Value]) -> None:
        self.active = active
        self.b = Builder()
        self.env: Env = {}
        self.block: Block | None = None                 # of the op whose contributions are added

    def zero(self, v: Value) -> Value:
        return self.b.stack_empty() if isinstance(v.type, Stack) else self.b.typed(self.b.zeros_like(v), v.type)

    def wants(self, x: Value) -> bool:
        return x in self.active

    def add(self, x: Value, contribution: Value) -> None:
        """``x_bar += contribution``, summed over the axes along which ``x`` was broadcast."""
        if x not in self.active:
            return
        if contribution.type is not x.type and not isinstance(x.type, Stack):
            contribution = self.b.typed(self._unbroadcast(contribution, x), x.type)
        have = self.env.get(x)
        self.env[x] = contribution if have is None else self.b.emit("add", have, contribution, acc=True)

    def _unbroadcast(self, g: Value, x: Value) -> Value:
        have, want = dims_of(g.type), dims_of(x.type)
        extra = len(have) - len(want)
        axes = tuple(i for i in range(len(have)) if i < extra or (want[i - extra] == 1 and have[i] != 1))
        if axes:
            g = self.b.sum(g, axes=axes, acc=True)
        if not want or len(dims_of(g.type)) == len(want):
            return g if len(have) >= len(want) else self.b.broadcast_to(g, *self.b.dims(x))
        return self.b.reshape(g, *self.b.dims(x)) if dims_of(g.type) else self.b.broadcast_to(g, *self.b.dims(x))

    def update(self, x: Value, how: str, v: Value, at: Sequence[Value]) -> None:
        if x in self.active and not (how == "add_slice" and self._added_to_whole(x, v, at)):
            have = self.env.get(x)
            x_bar = have if have is not None else self.b.zeros_like(x)
            self.env[x] = self.b.emit(how, x_bar, v, *at, acc=True)

    def _added_to_whole(self, x: Value, v: Value, at: Sequence[Value]) -> bool:
        """Add to a part of the row ``x`` in the adjoint of its array, if there is that, but none of the row yet.

        An adjoint of the row would be cleared, and then be added as a whole.
        """
        get, b = x.op, self.b
        if get is None or get.name != "get" or get.block is not self.block or x in self.env:
            return False
        a, *indices = get.operands
        a_bar = self.env.get(a)
        if a not in self.active or a_bar is None:
            return False
        part = b.broadcast_to(v, *[1] * len(indices), *b.dims(v))
        rows = [y for i in indices for y in (i, b.const(1))]
        self.env[a] = b.emit("add_slice", a_bar, part, *rows, *at, acc=True)
        return True

    def op(self, op: Op) -> None:
        self.block = op.block
        if op.name == "push":
            return self._push(op)
        if op.name == "pop":
            return self._pop(op)
        ct = self.env.pop(op.results[0], None) if len(op.results) == 1 else None
        if ct is None or op.name in ZERO or not any(v in self.active for v in differentiable_operands(op)):
            return None
        if op.name in PARTIALS:
            return self._elementwise(op, ct)
        if op.name in WEIGHTS:
            a, (weights, n) = op.operands[0], WEIGHTS[op.name](self.b, op)
            return self.add(a, self.b.mul(weights, spread(self.b, self.b.div(ct, n), a, op.attrs["axes"])))
        rule = LINEAR.get(op.name) or BILINEAR.get(op.name)
        if rule is None:
            raise DifferentiationError(f"{op.name} has no derivative", op.loc)
        return rule(self, op, ct)

    def _elementwise(self, op: Op, ct: Value) -> None:
        b = self.b
        if op.name == "mul" and op.operands[0] is op.operands[1] and isinstance(ct.type, Scalar):
            return self._square(op.operands[0], ct)
        for x, partial in zip(op.operands, PARTIALS[op.name]):
            if partial is None or x not in self.active:
                continue
            slope = partial(b, op.result, *op.operands) if callable(partial) else partial
            if slope == 1.0:
                self.add(x, ct)
            elif slope == -1.0:
                self.add(x, b.neg(ct))
            else:
                x_bar = b.mul(slope, ct)
                self.add(x, self._unless_zero(ct, x_bar) if op.attrs.get("speculated") else x_bar)

    def _unless_zero(self, ct: Value, x_bar: Value) -> Value:
        """The multiple ``x_bar`` of ``ct``, or zero if that is: what was not executed may have an infinite slope."""
        return self.b.select(self.b.ne(ct, 0.0), x_bar, 0.0)

    def _square(self, x: Value, ct: Value) -> None:
        """``x_bar += x (ct + ct)``: squares that are added up share the sum, which may not change in a loop."""
        self.add(x, self.b.mul(x, self.b.emit("add", ct, ct, acc=True)))

    def _push(self, op: Op) -> None:
        """The adjoint of ``push`` is ``pop``; the adjoint's frame has one entry for each float of the frame.

        A stack from which no executed path popped has the adjoint ``stack_empty``, which means zeros.
        """
        below, *kept = op.operands
        ct = self.env.pop(op.result, None)
        if ct is None:
            return
        floats = [v for v in kept if carries_adjoint(v.type)]
        stack_bar, bars = self.b.pop_like(ct, floats)
        self.env[below] = stack_bar
        for v, v_bar in zip(floats, bars):
            self.add(v, v_bar)

    def _pop(self, op: Op) -> None:
        """The adjoint of ``pop`` is ``push``."""
        below, *values = op.results
        bars = [self.b.typed(self.env.pop(v), v.type) if v in self.env else self.zero(v)
                for v in values if carries_adjoint(v.type)]
        stack_bar = self.env.pop(below, None)
        if stack_bar is None:
            stack_bar = self.b.stack_empty()
        self.env[op.operands[0]] = self.b.push(stack_bar, *bars)
