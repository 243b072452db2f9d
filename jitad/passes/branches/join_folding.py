"""Skips what a join computes for an edge that decides all of it, as a distance of infinity that is never the least.

::

    ^miss:                                            ^miss:
      jump ^join(inf)                                   jump ^join(%k, %least)
    ^hit:                                             ^hit:
      jump ^join(%t)                                    %c = lt %t, %least
    ^join(%d):                                          %at, %new = select %c, …
      %c = lt %d, %least                   becomes      jump ^join(%at, %new)
      %at = select %c, %i, %k                         ^join(%at, %new):
      %new = select %c, %d, %least

The next iteration need not wait for a comparison and selections whose outcome is known.  Such an edge comes from a
helper that returns early.  Vectors are made of selections before this pass, which runs on the branches that are left.
"""

from __future__ import annotations

import math

from ...ir.evaluate.fold import fold
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import MIRRORED, ORDERS
from ...ir.types import Scalar
from ...ir.uses import ops_of, users
from ..analysis.loops import loop_forest

MOVED = frozenset((*ORDERS, "select", "and", "or", "not", "minimum", "maximum"))
"""What may be decided: comparisons, selections, and conditions."""
MOST_OPS = 8


def join_folding(module: Module) -> bool:
    """Rewrite the joins of all loops; returns True if there were any."""
    return any([_fold_joins(func) for func in module.functions.values()])


def _fold_joins(func: Function) -> bool:
    forest = loop_forest(func)
    heads = {loop.head for loop in forest.loops}
    joins = [b for b in forest.dom.order if b in forest.innermost and b not in heads and b.params
             and len(forest.dom.preds[b]) == 2]
    readers = users(ops_of(func.blocks)) if joins else {}
    changed = False
    for join in joins:
        changed |= _fold(join, forest.dom.preds[join], readers)
    return changed


def _fold(join: Block, before: list[Block], readers: dict[Value, list[Op]]) -> bool:
    """Move what a join decides into the only block for which it is not known; returns True if there was anything."""
    ends = [b.term for b in before]
    if before[0] is before[1] or any(t is None or len(t.edges) != 1 for t in ends):
        return False
    edges = [t.edges[0] for t in ends if t is not None]
    for known, other, block in ((edges[0], edges[1], before[1]), (edges[1], edges[0], before[0])):
        if any(_is_infinite(v) for v in known.args):
            moved = _decided(join, known)
            outside = [op for op in moved if any(r not in moved for r in readers.get(op.result, ()))]
            if outside and all(isinstance(moved[op], Value) for op in outside):
                _move(join, known, (other, block), moved, outside, readers)
                return True
    return False


def _is_infinite(v: Value) -> bool:
    return isinstance(v.const, float) and math.isinf(v.const)


def _decided(join: Block, edge: Edge) -> dict[Op, Value | bool | None]:
    """The ops that depend on the parameters of a join, and what they are on one edge, if that is known."""
    values: dict[Value, Value | bool | None] = dict(edge.passed())
    found: dict[Op, Value | bool | None] = {}
    for op in join.ops[:4 * MOST_OPS]:
        if any(v in values for v in op.operands) and op.name in MOVED and isinstance(op.result.type, Scalar):
            if any(v not in values and v.block is join for v in op.operands):
                return {}                                    # it cannot move ahead of what the join computes anyway
            found[op] = values[op.result] = _known(op, [values.get(v, v) for v in op.operands])
    return found if len(found) <= MOST_OPS else {}


def _known(op: Op, operands: list[Value | bool | None]) -> Value | bool | None:
    """An op's value on an edge, for these operands: a value, a bool, or None if it is not known."""
    if op.name == "select" and isinstance(operands[0], bool):
        return operands[1] if operands[0] else operands[2]
    if op.name in ("and", "or") and (op.name == "or") in operands:
        return op.name == "or"
    if any(isinstance(v, bool) or v is None for v in operands):
        return None
    values = [v for v in operands if isinstance(v, Value)]
    if op.name in ORDERS:
        (x, y), name = values, op.name
        if not _is_infinite(x):
            x, y, name = y, x, MIRRORED[name]
        beyond = "lt" if _is_infinite(x) and x.const > 0 else "gt"       # nothing is, NaN neither
        return False if _is_infinite(x) and name == beyond else None
    if op.name in ("minimum", "maximum"):
        x, y = values if _is_infinite(values[0]) else values[::-1]
        return y if _is_infinite(x) and (x.const > 0) == (op.name == "minimum") else None       # also if it is NaN
    made = fold(op.name, values, op.attrs)
    return made if isinstance(made, Value) else None


def _move(join: Block, known: Edge, other: tuple[Edge, Block], moved: dict[Op, Value | bool | None],
          outside: list[Op], readers: dict[Value, list[Op]]) -> None:
    edge, block = other
    here: dict[Value, Value] = dict(edge.passed())
    join.ops = [op for op in join.ops if op not in moved]
    for op in moved:
        op.replace_uses(here)
        op.block = block
        block.ops.append(op)
    for op in outside:
        p = join.add_param(op.result.type, op.result.hint)
        for reader in readers[op.result]:
            if reader not in moved:
                reader.replace_uses({op.result: p})
        value = moved[op]
        assert isinstance(value, Value)
        known.args.append(value)
        edge.args.append(op.result)
