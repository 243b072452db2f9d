"""The results of an iteration whose cotangents are zero: which values *vanish* with them, and which stay as they were.

Products with a zero, quotients, sums and selections of such values vanish.  An array to which only vanishing values are
added is *kept*.  Where a factor is infinite the product would be NaN; the derivative of what was not chosen is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Op, Value
from ...ir.types import dtype_of, is_float_scalar
from .loops import Loop


def may_be_zero(v: Value, dom: Dominators | None = None) -> bool:
    """True for a selection with a zero, or of such values, by branches too if ``dom`` is given."""
    op = v.op
    if op is not None and op.name == "add" and op.operands[0] is op.operands[1]:      # the adjoint of a square
        return may_be_zero(op.operands[0], dom)
    if dom is not None and v.owner in dom.preds and is_float_scalar(v.type):
        joined = dom.arguments(v)
        return len(joined) > 1 and all(a is not None and (is_zero(a) or may_be_zero(a)) for a in joined)
    return op is not None and op.name == "select" and is_float_scalar(v.type) and \
        (any(map(is_zero, op.operands[1:])) or all(map(may_be_zero, op.operands[1:])))


def is_zero(v: Value) -> bool:
    return v.const is not None and v.const == 0


def without(block: Block, zs: Collection[Value], ahead: bool = False) -> tuple[dict[Value, Value], set[Value]]:
    """For each value that equals a parameter of the block if ``zs`` are zero, that parameter; and what vanishes.

    ``ahead``: for each that equals a value from before the block too, that value.
    """
    vanishing = set(zs)
    kept = {p: p for p in block.params if p not in vanishing}
    cleared: dict[Value, Value] = {}                     # an array without an element that will be added again
    for op in block.ops:
        if len(op.results) != 1 or op.result in vanishing:
            continue
        to = _added_to(op, vanishing)
        if _vanishes(op, vanishing):
            vanishing.add(op.result)
        elif to is not None and (to in kept or ahead and to.block is not block):
            kept[op.result] = kept.get(to, to)
        elif to in cleared:
            cleared[op.result] = cleared[to]
        elif same := next((v for z in zs if (v := _selected(op, z, kept) or cleared_array(op, z)) in kept), None):
            kept[op.result] = kept[same]
        elif any((x := _source(z)) is not None and cleared_array(op, x) in kept for z in zs):
            cleared[op.result] = kept[op.operands[0]]
        elif any(_restores(op, z, cleared) for z in zs):
            kept[op.result] = cleared[op.operands[0]]
    return kept, vanishing


def _source(z: Value) -> Value | None:
    """The element ``x`` of ``z = select(c, x, 0)`` or ``select(c, 0, x)``."""
    if z.op is None or z.op.name != "select":
        return None
    loads = [v for v in z.op.operands[1:] if v.op is not None and v.op.name == "get"]
    return loads[0] if len(loads) == 1 and any(map(is_zero, z.op.operands[1:])) else None


def _restores(op: Op, z: Value, cleared: Collection[Value]) -> bool:
    """True if ``op`` adds the element to where it has been cleared, unless ``z`` has selected it.

    If ``z`` is zero although it has, the element is zero.
    """
    x, value = _source(z), op.operands[1].op if op.name == "add_at" and op.attrs.get("acc") else None
    if x is None or value is None or value.name != "select" or op.operands[0] not in cleared:
        return False
    assert x.op is not None and z.op is not None
    return value.operands[0] is z.op.operands[0] and op.operands[2:] == x.op.operands[1:] and all(
        is_zero(mine) and other is x or mine is x and is_zero(other)
        for mine, other in zip(value.operands[1:], z.op.operands[1:]))


def _selected(op: Op, z: Value, kept: dict[Value, Value]) -> Value | None:
    """The value that a selection yields if ``z`` is zero: one value from both sides, or what ``z`` does not select."""
    if op.name != "select":
        return None
    c, x, y = op.operands
    if x in kept and y in kept and kept[x] is kept[y]:
        return x
    if z.op is None or z.op.name != "select" or z.op.operands[0] is not c:
        return None
    other = z.op.operands[2:0:-1]                            # select c, z, 0 beside select c, 0, z
    pairs = list(zip((x, y), other))
    same = [u for u, v in pairs if u is v and u in kept]
    return same[0] if len(same) == 1 and all(u is v or is_zero(u) and is_zero(v) for u, v in pairs) else None


def cleared_array(op: Op, z: Value) -> Value | None:
    """The array of which ``op`` clears the element that was loaded as ``z``, a zero."""
    load = z.op
    if op.name != "set" or load is None or load.name != "get" or not is_zero(op.operands[1]):
        return None
    return op.operands[0] if [op.operands[0], *op.operands[2:]] == load.operands else None


def _vanishes(op: Op, vanishing: set[Value]) -> bool:
    if op.name == "mul":
        return any(v in vanishing for v in op.operands)
    if op.name in ("add", "sub", "neg"):
        return all(v in vanishing for v in op.operands)
    if op.name == "div":
        return op.operands[0] in vanishing
    if op.name == "select":
        return all(v in vanishing or is_zero(v) for v in op.operands[1:])
    return False


def _added_to(op: Op, vanishing: set[Value]) -> Value | None:
    """The value to which an op of the reverse sweep adds what vanishes.

    The program's own additions have no ``acc``: there a product with zero may be NaN, and has to be.
    """
    if not op.attrs.get("acc"):
        return None
    if op.name == "add_at" and op.operands[1] in vanishing:
        return op.operands[0]
    if op.name == "add":
        return next((v for v, other in (op.operands, op.operands[::-1]) if other in vanishing), None)
    return None


def any_nonzero(b: Builder, zs: Iterable[Value]) -> Value:
    return reduce(b.or_, (b.ne(z, b.const(0.0, dtype_of(z.type))) for z in zs))


def read_behind(func: Function, loop: Loop) -> list[Value]:
    """The values of the loop that later code reads directly, not as parameters of its exit."""
    return list(dict.fromkeys(v for b in func.blocks if b not in loop.blocks for op in b.all_ops() for v in op.used()
                              if v.block in loop.blocks))


def needed_ops(block: Block, values: Iterable[Value]) -> set[Op]:
    """The ops of a block that compute ``values``."""
    found, todo = set[Op](), list(values)
    while todo:
        op = todo.pop().op
        if op is not None and op.block is block and op not in found:
            found.add(op)
            todo += op.operands
    return found


def kept_if_zero(loop: Loop, zs: Collection[Value]) -> dict[Value, Value] | None:
    """For each value that equals a parameter of the loop if ``zs`` are zero, that parameter.

    None if the loop adds nothing to an array.
    """
    if not all(op.results for op in loop.head.ops):
        return None                                      # a check
    kept, vanishing = without(loop.head, zs)
    kept |= {a: p for p, a in zip(loop.head.params, loop.back_edge().args) if p in zs and a in vanishing}
    return kept if any(v.op is not None and v.op.name == "add_at" for v in kept) else None
