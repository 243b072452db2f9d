"""Finishes the last elements of a strip one by one: see ``predicate``."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Value
from ...ir.types import I64
from ..analysis.loops import Loop
from .batch_rules import NoRows, Rows


def finish(rows: Rows, loop: Loop, body: Sequence[Block], states: Sequence[Value], there: Value, made: Sequence[Value],
           results: Sequence[Value], after: Block) -> None:
    """For each element that is there: go on with the loop from its ``states``, and store what it leaves with.

    ``body`` are the loop's blocks in order, ``made`` the values that leave it, ``results`` the arrays of those of the
    elements that have left.  Goes on in ``after``, which takes these arrays.
    """
    b, func = rows.b, after.func
    blocks = {name: func.new_block(name) for name in ("next", "straggler", "left", "skip", "joined", "done")}
    head = blocks["next"]
    j = head.add_param(I64, "j")
    arrays = [head.add_param(v.type) for v in results]
    b.jump(head, [b.const(0), *results])
    b.at(head)
    b.branch(b.get(there, j), blocks["straggler"], [], blocks["skip"], [])
    b.at(blocks["skip"])
    b.jump(blocks["joined"], arrays)

    b.at(blocks["straggler"])
    first = [b.get(v, j) for v in states]
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
    """What the loop reads from around it."""
    found = {v: None for block in loop.blocks for op in block.all_ops() for v in op.used()}
    return [v for v in found if v.block not in loop.blocks]


def _element(rows: Rows, v: Value, j: Value) -> Value:
    if v in rows.rows:
        return rows.b.get(rows.rows[v], j)
    if v in rows.bound:
        raise NoRows
    return rows.same.get(v, v)


def _leave_to(loop: Loop, copies: dict[Block, Block], left: Block, leaving: list[Value]) -> None:
    """Let the copy of the loop leave to another block with other values."""
    assert loop.latch is not None
    term = copies[loop.latch].term
    assert term is not None
    term.edges = [Edge(left, leaving) if e.block is loop.exit else e for e in term.edges]
