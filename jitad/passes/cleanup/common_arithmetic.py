"""Moves arithmetic that both sides of a branch do out of them.

What is computed from the same values goes ahead of the branch, and what differs in one operand goes behind the join::

    ^here:  branch c, ^then, ^else                               ^here:  w = mul r, s;  branch c, ^then, ^else
    ^then:  x = sub a, b;  w = mul r, s                          ^then:  x = sub a, b;  jump ^join(x)
            y = mul w, x;  jump ^join(y)                         ^else:  u = sub b, d;  jump ^join(u)
    ^else:  u = sub b, d;  t = mul r, s                 becomes  ^join(q):  z = mul w, q; …
            v = mul t, u;  jump ^join(v)
    ^join(z): …

An update of an element is moved ahead too, as that of the cotangent of an element that both sides have read, if a side
reads the array only there.  A selection of such results is one of the operands.  Nothing is computed that was not
before.  Each side is shorter, and the derivative saves one value instead of one for each side.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.expression_keys import key, same, translated
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ...ir.uses import counts
from ..analysis.cfg import substitute
from ..analysis.loops import loop_forest


def common_arithmetic(module: Module) -> bool:
    """Rewrite the branches of every function of normal form; returns True if anything changed."""
    return any([_rewrite(func) for func in module.functions.values() if len(func.blocks) > 3])


def _rewrite(func: Function) -> bool:
    forest = loop_forest(func)
    dom, values = forest.dom, dict[Value, Value]()
    for block in dom.order:
        if block.term is not None and block.term.name == "branch":
            one, two = (e.block for e in block.term.edges)
            if one is not two and all(
                    dom.preds[x] == [block] and forest.loop_of(x) is forest.loop_of(block) for x in (one, two)):
                _hoist(block, one, two, values)
    substitute(func, values)
    uses = counts(func.all_ops())
    sunk = False
    for block in dom.order:
        sides = dom.preds[block]
        edges = [b.term.edges[0] for b in sides if b.term is not None and b.term.name == "jump"]
        if len(edges) == len(sides) == 2 and not any(dom.dominates(block, side) for side in sides):
            sunk |= _sink(block, edges, sides, uses)
        for op in [op for op in block.ops if op.name == "select" and isinstance(op.operands[0].type, Scalar)]:
            sunk |= _choose_operand(block, op, uses)
    return sunk or bool(values)


def _is_scalar_arithmetic(op: Op) -> bool:
    return OPS[op.name].elementwise and all(isinstance(v.type, Scalar) for v in (op.result, *op.operands))


def _is_movable(op: Op, side: Block) -> bool:
    if op.name not in ("set", "add_at"):
        return _is_scalar_arithmetic(op)
    return isinstance(op.operands[1].type, Scalar) and sum(x.used().count(op.operands[0]) for x in side.all_ops()) == 1


def _hoist(block: Block, one: Block, two: Block, values: dict[Value, Value]) -> None:
    """Move what both sides compute alike ahead of the branch; ``values`` maps the results of the second side."""
    first = {translated(op, {}): op for op in reversed(one.ops) if _is_movable(op, one)}
    moved: dict[Op, None] = {}
    for op in two.ops:
        twin = first.pop(translated(op, values), None) if _is_movable(op, two) else None
        if twin is not None:                             # its operands are from above, or have moved
            moved |= {twin: None, op: None}
            values[op.result] = twin.result
    term, block.term = block.term, None
    b = Builder(block)
    for op in moved:
        if op.block is one:
            op.operands = [b.again(v) for v in op.operands]
            op.block = block
            block.ops.append(op)
    block.term = term
    for side in (one, two):
        side.ops = [op for op in side.ops if op not in moved]


def _sink(block: Block, edges: list[Edge], sides: list[Block], uses: dict[Value, int]) -> bool:
    """Move what both sides pass to a join, and compute alike but for one operand, behind the join."""
    changed, todo = False, list(block.params)
    while todo:
        p = todo.pop()
        passed = [e.args[p.index] for e in edges]
        ops = [v.op for v, side in zip(passed, sides) if v.op is not None and v.op.block is side and uses[v] == 1]
        if len(ops) == 2 and (q := _sink_one(block, p, edges, ops)) is not None:
            todo.append(q)
            changed = True
    return changed


def _difference(one: Op, two: Op) -> int | None:
    """The number of the only operand in which two ops differ."""
    if key(one, ()) != key(two, ()) or not _is_scalar_arithmetic(one):
        return None
    pairs = list(zip(one.operands, two.operands))
    others = [k for k, (x, y) in enumerate(pairs) if not same(x, y)]
    return others[0] if len(others) == 1 and pairs[others[0]][0].type == pairs[others[0]][1].type else None


def _choose_operand(block: Block, op: Op, uses: dict[Value, int]) -> bool:
    """Let the selection of two results, which nothing else reads, select the operand that differs."""
    _, x, y = op.operands
    if x.op is None or y.op is None or uses[x] != 1 or uses[y] != 1 or (k := _difference(x.op, y.op)) is None:
        return False
    chosen = Op("select", [op.operands[0], x.op.operands[k], y.op.operands[k]], [x.op.operands[k].type], loc=op.loc)
    chosen.block = block
    block.ops.insert(block.ops.index(op), chosen)
    op.name, op.attrs = x.op.name, x.op.attrs
    op.operands = [chosen.result if i == k else v for i, v in enumerate(x.op.operands)]
    _choose_operand(block, chosen, uses)
    return True


def _sink_one(block: Block, p: Value, edges: list[Edge], ops: list[Op]) -> Value | None:
    """Sink the ops whose results are passed for ``p``; returns the parameter for the operand that differs."""
    one, k = ops[0], _difference(*ops)
    if k is None:
        return None
    q = block.params[p.index] = Value(one.operands[k].type, block, p.index)
    for edge, op in zip(edges, ops):
        assert op.block is not None
        op.block.ops.remove(op)
        edge.args[q.index] = op.operands[k]
    rest, term, block.ops, block.term = block.ops, block.term, [], None
    b = Builder(block, one.loc)
    operands = [b.again(v) for v in one.operands]
    operands[k] = q
    b.emit_op(one.name, operands, **one.attrs).define(p)
    block.ops, block.term = block.ops + rest, term
    return q
