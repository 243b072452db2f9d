"""Copies of functions and of groups of blocks."""

from __future__ import annotations

from collections.abc import Iterable

from .graph import Block, Edge, Function, Op, Value

Mapping = dict[Value, Value]


def clone_op(op: Op, values: Mapping, blocks: dict[Block, Block] | None = None) -> Op:
    """One op with operands, edge arguments and targets mapped; its results are entered in ``values``."""
    to = blocks or {}
    copy = Op(op.name, [values.get(v, v) for v in op.operands], [r.type for r in op.results], dict(op.attrs),
              [Edge(to.get(e.block, e.block), [values.get(a, a) for a in e.args]) for e in op.edges], op.loc)
    for old, new in zip(op.results, copy.results):
        new.hint = old.hint
        values[old] = new
    return copy


def clone_blocks(source: Iterable[Block], into: Function, values: Mapping) -> dict[Block, Block]:
    """Copy blocks (in an order in which definitions come before uses) to the end of ``into``.

    Edges to blocks outside the group and values from outside stay as they are; ``values`` receives old → new.
    """
    group = list(source)
    blocks: dict[Block, Block] = {}
    for old in group:
        new = blocks[old] = into.new_block(old.name)
        for p in old.params:
            values[p] = new.add_param(p.type, p.hint)
    for old in group:
        for op in old.ops:
            copy = clone_op(op, values)
            copy.block = blocks[old]
            blocks[old].ops.append(copy)
    for old in group:
        if old.term is not None:
            blocks[old].term = clone_op(old.term, values, blocks)
            blocks[old].term.block = blocks[old]  # type: ignore[union-attr]
    return blocks


def clone_function(func: Function, name: str) -> tuple[Function, Mapping]:
    """A copy under another name, and the map from its values to the copy's.

    Blocks may stand in any order; ops are copied block by block, operands are fixed up at the end.
    """
    copy = Function(name, func.param_types, func.result_types, [p.hint for p in func.params])
    copy.own, copy.attrs, copy.loc = set(func.own), dict(func.attrs), func.loc
    values: Mapping = dict(zip(func.params, copy.params))
    blocks: dict[Block, Block] = {func.entry: copy.entry}
    copy.entry.name = func.entry.name
    for old in func.blocks[1:]:
        new = blocks[old] = copy.new_block(old.name)
        for p in old.params:
            values[p] = new.add_param(p.type, p.hint)
    for old in func.blocks:
        new = blocks[old]
        for op in old.ops:
            twin = clone_op(op, values)
            twin.block = new
            new.ops.append(twin)
        if old.term is not None:
            new.term = clone_op(old.term, values, blocks)
            new.term.block = new
    for op in copy.all_ops():
        op.replace_uses(values)
    return copy, values
