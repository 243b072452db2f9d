"""Skips loops of the reverse sweep that would add multiples of a cotangent that is zero.

The cotangent of a value that a minimum, a maximum or a branch did not choose is zero: ``select(c, x, 0.0)``.  If the
value was computed in a loop, such as the distance to a centre that is not the nearest, the reverse loop adds zeros::

    head:  jump loop(0, a)                            head:  branch z != 0.0, enter, skip
    loop(i, b):  c = add_at b, z * w[i], i    →       enter: jump loop(0, a)       skip: jump join(a)
                 branch more, loop(i + 1, c), exit(c)        … exit(c): jump join(c)

A loop qualifies if all that it passes on is what it received, with additions of values that *vanish* with the
cotangent: products with it, quotients, sums and selections of such values.  Where a factor is infinite the product
would be NaN; the derivative of what was not chosen is zero.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Scalar, dtype_of
from ..analysis.cfg import set_term
from ..analysis.loops import Loop, loop_forest


def zero_cotangents(module: Module) -> None:
    for func in module.functions.values():
        if any(op.attrs.get("acc") for op in func.all_ops()):          # there is a reverse sweep
            for loop in loop_forest(func).loops:
                _try(func, loop)


def _try(func: Function, loop: Loop) -> None:
    if loop.preheader is None or loop.exit is None or loop.latch is None or len(loop.blocks) > 1:
        return
    for z in dict.fromkeys(v for op in loop.head.ops for v in op.operands if v.block not in loop.blocks):
        kept = _kept(func, loop, z) if _may_be_zero(z) else None
        if kept is not None:
            return _guard(func, loop, z, kept)


def _may_be_zero(v: Value) -> bool:
    op = v.op
    return op is not None and op.name == "select" and isinstance(v.type, Scalar) and v.type.is_float and \
        any(map(_is_zero, op.operands[1:]))


def _is_zero(v: Value) -> bool:
    return v.const is not None and v.const == 0


def _kept(func: Function, loop: Loop, z: Value) -> dict[Value, Value] | None:
    """For each value that equals a parameter of the loop if ``z`` is zero, that parameter.

    None if the loop then passes on anything else, or if it adds nothing to an array.
    """
    vanishing = {z}
    kept = {p: p for p in loop.head.params}
    updates = False
    for op in loop.head.ops:
        if not op.results:
            return None                                  # a check
        to = _added_to(op, vanishing)
        if _vanishes(op, vanishing):
            vanishing.add(op.result)
        elif to in kept:
            kept[op.result] = kept[to]
            updates |= op.name == "add_at"
    back = loop.back_edge()
    unchanged = {p for p in loop.head.params if kept.get(back.args[p.index]) is p}
    leaving = (*loop.exit_edge().args, *_read_behind(func, loop)) if updates else ()
    return kept if updates and all(kept.get(a) in unchanged for a in leaving) else None


def _vanishes(op: Op, vanishing: set[Value]) -> bool:
    if op.name == "mul":
        return any(v in vanishing for v in op.operands)
    if op.name in ("add", "sub", "neg"):
        return all(v in vanishing for v in op.operands)
    if op.name == "div":
        return op.operands[0] in vanishing
    if op.name == "select":
        return all(v in vanishing or _is_zero(v) for v in op.operands[1:])
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


def _guard(func: Function, loop: Loop, z: Value, kept: dict[Value, Value]) -> None:
    """Branch around the loop if ``z`` is zero.  The code behind the loop moves to a block where both ways meet."""
    before, edge, outside = loop.preheader, loop.entry_edge(), loop.exit
    assert before is not None and before.term is not None and outside is not None
    leaving = _read_behind(func, loop)
    start = {v: edge.args[kept[v].index] for v in leaving}
    passed = [edge.args[kept[a].index] for a in loop.exit_edge().args]
    enter, skip, join = (func.new_block(name) for name in ("nonzero", "zero", "behind"))
    joined = {v: join.add_param(v.type, v.hint) for v in (*outside.params, *leaving)}
    _move(outside, join, joined, [b for b in func.blocks if b not in loop.blocks])
    set_term(outside, "jump", edges=[Edge(join, [*outside.params, *leaving])])
    set_term(enter, "jump", edges=[edge])
    set_term(skip, "jump", edges=[Edge(join, [*passed, *start.values()])])
    loc, before.term = before.term.loc, None
    b = Builder(before, loc)
    b.branch(b.ne(z, b.const(0.0, dtype_of(z.type))), enter, [], skip, [])


def _read_behind(func: Function, loop: Loop) -> list[Value]:
    """The values of the loop that later code reads directly, not as parameters of its exit."""
    return list(dict.fromkeys(v for b in func.blocks if b not in loop.blocks for op in b.all_ops() for v in op.used()
                              if v.block in loop.blocks))


def _move(source: Block, target: Block, params: dict[Value, Value], behind: list[Block]) -> None:
    """Move the code of a block, and let it and the code behind it read the parameters of ``target``."""
    target.ops, target.term = source.ops, source.term
    source.ops, source.term = [], None
    for op in target.all_ops():
        op.block = target
    for block in behind:
        for op in block.all_ops():
            op.replace_uses(params)
