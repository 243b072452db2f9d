"""Cancels a doubling of a derivative against a factor of one half.

The derivative of ``sqrt(dx * dx + dy * dy)`` has a half of the root and a sum of two equal terms of each square::

    t = 1 / r * 0.5 * g                     t = 1 / r * g
    w = t + t                       →       … t * dx, t * dy
    … w * dx, w * dy

Both are exact but for numbers at the ends of the range.  In a loop of few operations around a root and a division,
they lengthen the chain from the loads to the updates by a tenth.  Only sums of the reverse sweep are changed.
"""

from __future__ import annotations

from ...ir.graph import Function, Module, Op, Value
from ...ir.uses import users

LONGEST = 8
"""The longest chain of factors that is followed."""


def doubled_halves(module: Module) -> bool:
    """Rewrite all of them; returns True if there were any."""
    return any([_rewrite(func) for func in module.functions.values()])


def _rewrite(func: Function) -> bool:
    doubled = [op for op in func.all_ops() if op.name == "add" and op.attrs.get("acc")
               and op.operands[0] is op.operands[1] and op.operands[0].type == op.result.type]
    if not doubled:
        return False
    readers = users(func.all_ops())
    replaced: dict[Value, Value] = {}
    for op in doubled:
        term = op.operands[0]
        chain = _chain(term, readers) if readers.get(term) == [op, op] else None
        if chain is None:
            continue
        *above, half = chain
        whole = next(v for v in half.operands if v.const != 0.5)
        for reader in above[-1:]:
            reader.replace_uses({half.result: whole})
        replaced[op.result] = term if above else whole
    if not replaced:
        return False
    for op in func.all_ops():
        op.replace_uses({v: _last(v, replaced) for v in op.used() if v in replaced})
    return True


def _last(v: Value, replaced: dict[Value, Value]) -> Value:
    while v in replaced:
        v = replaced[v]
    return v


def _chain(term: Value, readers: dict[Value, list[Op]]) -> list[Op] | None:
    """The ops from a product down to the one with a factor of one half; none of their results is read elsewhere."""
    found: list[Op] = []
    while len(found) < LONGEST and (op := term.op) is not None:
        if op.name == "mul" and any(v.const == 0.5 for v in op.operands):
            whole = [v for v in op.operands if v.const != 0.5]
            return [*found, op] if whole and whole[0].type == op.result.type else None
        parts = op.operands if op.name == "mul" else op.operands[:1] if op.name in ("neg", "div") else ()
        following = [v for v in parts if v.type == op.result.type and readers.get(v) == [op] and v.op is not None
                     and v.op.name in ("mul", "neg", "div")]
        if not following:
            return None
        found.append(op)
        term = following[0]
    return None
