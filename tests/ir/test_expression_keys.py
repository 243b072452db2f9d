"""Keys of expressions: equal exactly where ops compute the same."""

from __future__ import annotations

from jitad.ir.builder import Builder
from jitad.ir.expression_keys import key, translated
from jitad.ir.graph import Function, Op, Value
from jitad.ir.types import F32, F64, I64


def block():
    func = Function("f", [F64, F64, I64])
    return Builder(func.entry), func.entry.params


def op(v: Value) -> Op:
    assert v.op is not None
    return v.op


def test_operands_of_commutative_ops_have_no_order():
    b, (x, y, _) = block()
    assert key(op(b.add(x, y))) == key(op(b.add(y, x)))
    assert key(op(b.sub(x, y))) != key(op(b.sub(y, x)))


def test_types_attributes_and_signs_of_zero_count():
    b, (x, _, n) = block()
    assert key(op(b.cast(n, dtype=F32))) != key(op(b.cast(n, dtype=F64)))
    assert key(op(b.const(1.0, F32))) != key(op(b.const(1.0, F64)))
    assert key(op(b.const(0.0))) != key(op(b.const(-0.0)))
    assert key(op(b.const(1))) != key(op(b.const(True)))


def test_translated_operands_and_constants_by_value():
    b, (x, y, _) = block()
    assert translated(op(b.mul(x, b.const(2.0))), {x: y}) == translated(op(b.mul(y, b.const(2.0))), {})
    assert translated(op(b.mul(x, b.const(2.0))), {}) != translated(op(b.mul(x, b.const(3.0))), {})
