"""Expands ``prod`` and ``cumprod`` to loops before differentiation.

The derivative of a product by one factor is the product of the others.  Dividing the product by the factor is wrong
at zeros, and in second derivatives even if only one factor is zero.  The loop's own derivative has neither problem,
and costs the same.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Block, Function, Op, Value
from ..ir.types import Array, dtype_of, is_float
from .derivatives import EXPANDED


def expand(func: Function) -> None:
    """Replace every product over floats in ``func``, which must be in cps form and remains so."""
    todo = [op for op in func.all_ops() if op.name in EXPANDED and is_float(op.result.type)]
    for op in todo:
        _Product(func, op)


class _Product:
    """The expansion of one op.

    The loop runs over ``t``, the operand with the multiplied axes moved to the front as one axis.
    """

    def __init__(self, func: Function, op: Op) -> None:
        self.func, self.op = func, op
        assert op.block is not None
        self.before: Block = op.block
        self.after = self._split()
        b = self.b = Builder(self.before, op.loc)
        a = op.operands[0]
        assert isinstance(a.type, Array)
        axes = op.attrs["axes"] if op.name == "prod" else (op.attrs["axis"],)
        rest = [i for i in range(a.type.rank) if i not in axes]
        self.perm = (*axes, *rest)
        self.sizes = b.dims(a)
        self.rest = [self.sizes[i] for i in rest]
        count = b.const(1)
        for i in axes:
            count = b.mul(count, self.sizes[i])
        t = b.reshape(b.transpose(a, perm=self.perm), count, *self.rest)
        result = self._loop(t, count)
        mapping = {op.result: self._shaped(result)}
        b.jump(self.after)
        for other in func.all_ops():
            other.replace_uses(mapping)

    def _split(self) -> Block:
        """Move the ops after the product to a block of their own."""
        after = self.func.new_block(f"{self.before.name}_on")
        at = self.before.ops.index(self.op)
        after.ops, self.before.ops = self.before.ops[at + 1:], self.before.ops[:at]
        after.term, self.before.term = self.before.term, None
        for op in after.all_ops():
            op.block = after
        return after

    def _one(self) -> Value:
        one = self.b.const(1.0, dtype_of(self.op.result.type))
        return self.b.fill(one, *self.rest) if self.rest else one

    def _loop(self, t: Value, count: Value) -> Value:
        """A rotated, guarded loop.  It carries the product so far, and for ``cumprod`` the array of all products."""
        b, func = self.b, self.func
        products = [self._one()]
        if self.op.name == "cumprod":
            products.append(b.empty(count, *self.rest, dtype=dtype_of(t.type)))
        skip, pre, head, leave, done = (func.new_block(n) for n in ("skip", "pre", "head", "exit", "product"))
        b.branch(b.lt(0, count) if count.const is None else b.const(count.const > 0), pre, [], skip, [])
        b.at(skip)
        b.jump(done, [products[-1]])
        b.at(pre)
        b.jump(head, [b.const(0), *products])
        i = head.add_param(self.sizes[0].type, "i")
        state = [head.add_param(v.type) for v in products]
        b.at(head)
        state[0] = b.mul(state[0], b.get(t, i))
        if len(state) > 1:
            state[1] = b.set(state[1], state[0], i)
        following = b.add(i, 1)
        b.branch(b.lt(following, count), head, [following, *state], leave, [state[-1]])
        b.at(leave)
        b.jump(done, [leave.add_param(products[-1].type)])
        b.at(done)
        return done.add_param(products[-1].type)

    def _shaped(self, result: Value) -> Value:
        if self.op.name == "prod":
            return result
        inverse = tuple(self.perm.index(i) for i in range(len(self.perm)))
        return self.b.transpose(result, perm=inverse)
