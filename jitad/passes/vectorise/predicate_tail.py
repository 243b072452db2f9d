"""Finishes the last active elements of a chunk one by one: see ``predicate``."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Value
from ...ir.types import I64, Array
from ..analysis.loops import Loop
from .batch_rules import NoRows, Rows


def finish(rows: Rows, loop: Loop, body: Sequence[Block], states: Sequence[Value], active: Value, made: Sequence[Value],
           results: Sequence[Value], after: Block) -> None:
    """Emit a loop over the elements: an active one continues ``loop`` from its ``states``, and stores its results.

    ``body``: the blocks of ``loop``, in order.  ``made``: the results of ``loop``.  ``results``: the arrays of results,
    which have those of the inactive elements.  Control then goes to ``after``, with these arrays.
    """
    b, func = rows.b, after.func
    blocks = {name: func.new_block(name) for name in ("next", "active", "left", "skip", "joined", "done")}
    head = blocks["next"]
    j = head.add_param(I64, "j")
    arrays = [head.add_param(v.type) for v in results]
    b.jump(head, [b.const(0), *results])
    b.at(head)
    b.branch(b.get(active, j), blocks["active"], [], blocks["skip"], [])
    b.at(blocks["skip"])
    b.jump(blocks["joined"], arrays)

    b.at(blocks["active"])
    first = [b.get(v, j) if isinstance(v.type, Array) else v for v in states]
    values = {v: _element(rows, v, j) for v in _read(loop)}
    copies = clone_blocks(body, func, values)
    b.jump(copies[loop.head], first)
    _leave_to(loop, copies, blocks["left"], [values[v] for v in made])
    left = [blocks["left"].add_param(v.type) for v in made]
    b.at(blocks["left"])
    b.jump(blocks["joined"], [b.set(a, v, j) for a, v in zip(arrays, left)])

    joined = [blocks["joined"].add_param(v.type) for v in results]
    b.at(blocks["joined"])
    following = b.add(j, 1)
    b.branch(b.lt(following, rows.length), head, [following, *joined], blocks["done"], joined)
    done = [blocks["done"].add_param(v.type) for v in results]
    b.at(blocks["done"])
    b.jump(after, done)


def _read(loop: Loop) -> list[Value]:
    """The values from outside that the loop reads."""
    found = {v: None for block in loop.blocks for op in block.all_ops() for v in op.used()}
    return [v for v in found if v.block not in loop.blocks]


def _element(rows: Rows, v: Value, j: Value) -> Value:
    if v in rows.rows:
        return rows.b.get(rows.rows[v], j)
    if v is rows.iv:
        return rows.b.add(rows.start, j)
    if v in rows.bound:
        raise NoRows
    return rows.same.get(v, v)


def _leave_to(loop: Loop, copies: dict[Block, Block], left: Block, leaving: list[Value]) -> None:
    """Redirect the exit edge of the loop's copy to ``left``, with the arguments ``leaving``."""
    assert loop.latch is not None
    term = copies[loop.latch].term
    assert term is not None
    term.edges = [Edge(left, leaving) if e.block is loop.exit else e for e in term.edges]
