"""Copies of functions and of groups of blocks."""

from __future__ import annotations

from collections.abc import Iterable

from .graph import Block, Edge, Function, Op, Value

Mapping = dict[Value, Value]


def clone_op(op: Op, values: Mapping, blocks: dict[Block, Block] | None = None) -> Op:
    """Copy one op with operands, edge arguments and targets mapped; its results are entered in ``values``."""
    copy = _begin(op, values)
    _finish(op, copy, values, blocks or {})
    return copy


def _begin(op: Op, values: Mapping) -> Op:
    """A copy without operands and edges."""
    copy = Op(op.name, (), [r.type for r in op.results], dict(op.attrs), (), op.loc)
    for old, new in zip(op.results, copy.results):
        new.hint = old.hint
        values[old] = new
    return copy


def _finish(op: Op, copy: Op, values: Mapping, blocks: dict[Block, Block]) -> None:
    copy.operands = [values.get(v, v) for v in op.operands]
    copy.edges = [Edge(blocks.get(e.block, e.block), [values.get(a, a) for a in e.args]) for e in op.edges]


def clone_blocks(source: Iterable[Block], into: Function, values: Mapping) -> dict[Block, Block]:
    """Copy blocks, in any order, to the end of ``into``.

    Edges to blocks outside the group and values from outside are not mapped; ``values`` receives old → new.
    """
    group = list(source)
    blocks: dict[Block, Block] = {}
    for old in group:
        new = blocks[old] = into.new_block(old.name)
        for p in old.params:
            values[p] = new.add_param(p.type, p.hint)
    _copy_ops(blocks, values)
    return blocks


def clone_function(func: Function, name: str) -> tuple[Function, Mapping]:
    """A copy under another name, and the map from its values to the copy's."""
    copy = Function(name, func.param_types, func.result_types, [p.hint for p in func.params])
    copy.own, copy.attrs, copy.loc = set(func.own), dict(func.attrs), func.loc
    values: Mapping = dict(zip(func.params, copy.params))
    blocks: dict[Block, Block] = {func.entry: copy.entry}
    copy.entry.name = func.entry.name
    for old in func.blocks[1:]:
        new = blocks[old] = copy.new_block(old.name)
        for p in old.params:
            values[p] = new.add_param(p.type, p.hint)
    _copy_ops(blocks, values)
    return copy, values


def _copy_ops(blocks: dict[Block, Block], values: Mapping) -> None:
    """Fill the copies: first all definitions, then operands and edges."""
    pairs: list[tuple[Op, Op]] = []
    for old, new in blocks.items():
        for op in old.ops:
            copy = _begin(op, values)
            copy.block = new
            new.ops.append(copy)
            pairs.append((op, copy))
        if old.term is not None:
            new.term = _begin(old.term, values)
            new.term.block = new
            pairs.append((old.term, new.term))
    for op, copy in pairs:
        _finish(op, copy, values, blocks)
