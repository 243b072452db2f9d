"""Branches in loops whose sides join again, and conditions under which an extreme is updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.dominance import Dominators
from ...ir.expression_keys import alike
from ...ir.graph import Block, Edge, Op, Value
from ...ir.ops import ORDERS
from ...ir.types import is_float_scalar
from .loops import Loop

DEEP = 8
"""The depth to which a condition is examined."""


@dataclass(frozen=True, eq=False)
class Arms:
    """A branch at the end of ``head``: the blocks ``between``, in reverse postorder, and the ``join`` of the sides.

    Every path from the branch leads to the join, which has two incoming edges.  Nothing between is a loop or a call.
    """

    loop: Loop
    head: Block
    between: list[Block]
    join: Block

    @property
    def sides(self) -> list[Edge]:
        """The edges into the join, that of the first target of the branch first."""
        return [e for b in (self.head, *self.between) for e in (b.term.edges if b.term else ()) if e.block is self.join]


def arms_of(loop: Loop, dom: Dominators) -> list[Arms]:
    """The branches of a loop that are in no inner loop, and have none on their sides; inner branches first."""
    found, nested = [], {b for child in loop.children for b in child.blocks}
    for join in dom.in_order(loop.blocks):
        head = dom.idom[join]
        if head not in loop.blocks or join is loop.head or len(dom.preds[join]) != 2:
            continue
        assert head is not None and head.term is not None
        if head.term.name == "branch":
            between = _between(loop, dom, head, join)
            within = {*between, join}
            if nested.isdisjoint((head, *within)) and all(
                    b.term is not None and b.term.name != "call" and within.issuperset(b.successors())
                    for b in (head, *between)):
                found.append(Arms(loop, head, between, join))
    return found


def _between(loop: Loop, dom: Dominators, head: Block, join: Block) -> list[Block]:
    """The blocks of the loop that ``head`` dominates and ``join`` does not, in reverse postorder."""
    found: list[Block] = []
    todo = [head]
    while todo:
        new = [b for b in dom.children[todo.pop()] if b is not join and b in loop.blocks]
        found += new
        todo += new
    return dom.in_order(found)


def compares_floats(condition: Value) -> bool:
    """True for a condition that comparisons of floats decide: ``fission`` tests such checks ahead."""
    op = condition.op
    return op is not None and (
        op.name in ORDERS and is_float_scalar(op.operands[0].type)
        or op.name in ("not", "and", "or") and all(map(compares_floats, op.operands))
        or op.name == "select" and all(v.const is True or compares_floats(v) for v in op.operands[1:]))


def is_scattered(update: Op, loop: Loop) -> bool:
    """True if an element is updated at an index that an iteration reads, or pops: this prevents vectors."""
    return _depends(update.operands[2:], loop, lambda op: op.name in ("get", "cast", "pop"))


def reads_at_floats(loop: Loop) -> bool:
    """True if an element is read at an index that an iteration makes of a float."""
    def is_truncated(op: Op) -> bool:
        return op.name == "cast" and is_float_scalar(op.operands[0].type)
    return any(op.name == "get" and _depends(op.operands[1:], loop, is_truncated) for b in loop.blocks for op in b.ops)


def _depends(values: Sequence[Value], loop: Loop, wanted: Callable[[Op], bool]) -> bool:
    """True if the values depend on one of the wanted ops in the loop."""
    todo, seen = list(values), set[Value]()
    while todo:
        v = todo.pop()
        if v in seen or v.op is None or v.block not in loop.blocks:
            continue
        seen.add(v)
        if wanted(v.op):
            return True
        todo += v.op.operands
    return False


def extreme_of(condition: Value, new: Value, old: Value, depth: int = DEEP) -> tuple[Op, list[Value], set[Op]] | None:
    """The comparison of ``new`` with ``old`` in a conjunction, the other conditions, and the conjunctions above it."""
    op = condition.op
    if op is None or not depth:
        return None
    if _compares(op, new, old):
        return op, [], set()
    if op.name == "and" or op.name == "select" and op.operands[2].const is False:
        for part, other in (op.operands[:2], op.operands[1::-1]):
            if (found := extreme_of(part, new, old, depth - 1)) is not None:
                return found[0], [*found[1], other], {*found[2], op}
    return None


def _compares(op: Op, new: Value, old: Value) -> bool:
    if op.name not in ORDERS:
        return False
    x, y = op.operands
    return x is old and alike(y, new) or y is old and alike(x, new)
