"""Products of matrices: a kernel with an out-buffer; a product of two vectors is a loop."""

from __future__ import annotations

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op, Value
from ...ir.types import dtype_of
from ...lowering.planning.op_traits import exchanges, is_block
from .elements import Place, nest
from .state import State, combine, identity


def matmul(fn: State, op: Op) -> None:
    if is_array(op.result):
        fn.values[op.result] = fn.new(op.result)
        _into(fn, op, fn.values[op.result], add=False)
    else:
        fn.values[op.result] = _dot(fn, op)


def accumulate(fn: State, op: Op) -> None:
    """``add(c, matmul(a, b))`` that takes over the buffer of ``c``."""
    fn.values[op.result] = fn.destination(op.result)
    _into(fn, fn.plan.accumulate[op.result], fn.values[op.result], add=True)


def _into(fn: State, op: Op, out: Value, add: bool) -> None:
    operands = [_operand(fn, v, bool(op.attrs.get(flag))) for v, flag in zip(op.operands, ("ta", "tb"))]
    attrs = {flag: True for flag, (_, turned) in zip(("ta", "tb"), operands) if turned} | ({"add": True} if add else {})
    attrs |= {"ordered": True} if op.attrs.get("ordered") else {}
    fn.writer.do("matmul", [out, *(b for b, _ in operands)], **attrs)


def _operand(fn: State, v: Value, turned: bool) -> tuple[Value, bool]:
    """The stored operand, or a block of one, and True if it is stored transposed."""
    if v in fn.plan.lazy and exchanges(v.op):
        assert v.op is not None
        v, turned = v.op.operands[0], not turned
    if v in fn.plan.lazy and is_block(v.op):
        assert v.op is not None
        base, *where = v.op.operands
        return fn.writer.do("view", [fn.buffer(base), *map(fn.scalar, where)]).result, turned
    return fn.buffer(v), turned


def _dot(fn: State, op: Op) -> Value:
    a, b = map(fn.buffer, op.operands)

    def body(place: Place, acc: list[Value]) -> list[Value]:
        product = fn.writer.do("mul", [fn.load(a, place.at), fn.load(b, place.at)]).result
        return [combine(fn, "sum", acc[0], product)]
    start = identity(fn, "sum", dtype_of(op.operands[0].type))
    return nest(fn, fn.shape(op.operands[0]), body, [start], ["sum"])[0]
