"""Edits of the control-flow graph that several passes share: substitution, merging, splitting.

Each function leaves the graph valid.  None updates an analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.dominance import reverse_postorder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS

Mapping = dict[Value, Value]


def resolve(mapping: Mapping, v: Value) -> Value:
    """Follow ``mapping`` from ``v`` to its end, with path compression."""
    if v not in mapping:
        return v
    path = [v]
    while (following := mapping.get(path[-1])) is not None:
        path.append(following)
    for x in path[:-1]:
        mapping[x] = path[-1]
    return path[-1]


def substitute(func: Function, mapping: Mapping) -> None:
    """Rewrite every use by ``mapping``, whose values may be mapped themselves."""
    if not mapping:
        return
    for v in list(mapping):
        resolve(mapping, v)
    get, unaffected = mapping.get, mapping.keys().isdisjoint
    for block in func.blocks:
        for op in block.ops:
            if not unaffected(op.operands):
                op.operands = [get(v, v) for v in op.operands]
        if block.term is not None:
            block.term.replace_uses(mapping)


def is_pure(op: Op) -> bool:
    """True if ``op`` may be dropped when nothing reads it: it has no effect and is no terminator."""
    definition = OPS.get(op.name)
    return definition is not None and not definition.effect


def set_term(block: Block, name: str, operands: Iterable[Value] = (), edges: Iterable[Edge] = ()) -> None:
    """Set or replace the terminator of ``block``; the source position of the old one is kept."""
    term = Op(name, operands, edges=edges)
    if block.term is not None:
        term.loc = block.term.loc
    term.block = block
    block.term = term


def append(block: Block, op: Op) -> None:
    op.block = block
    block.ops.append(op)


def landing(edge: Edge, func: Function, name: str = "") -> Block:
    """Split ``edge`` by an empty block, which is returned; the results of a call become its parameters."""
    block = func.new_block(name)
    results = [block.add_param(p.type, p.hint) for p in edge.results]
    set_term(block, "jump", edges=[Edge(edge.block, results + edge.args)])
    edge.block, edge.args = block, []
    return block


def own_exit(func: Function, source: Block, leave: Block) -> Block:
    """Split the edge from ``source`` to ``leave``, so that a copy of ``source`` may also go to ``leave``.

    Returns the new block, which has the parameters of ``leave``.
    """
    assert source.term is not None
    edge = next(e for e in source.term.edges if e.block is leave)
    own = func.new_block(leave.name)
    params = [own.add_param(p.type, p.hint) for p in leave.params]
    set_term(own, "jump", edges=[Edge(leave, list(params))])
    edge.block = own
    return own


def remove_unreachable(func: Function) -> bool:
    """Drop unreachable blocks and put the others in reverse postorder; returns True if any was dropped."""
    order = reverse_postorder(func)
    dropped = len(order) < len(func.blocks)
    func.blocks[:] = order
    return dropped


def reached(starts: Iterable[Block], step: Callable[[Block], Iterable[Block]] = Block.successors) -> set[Block]:
    """The blocks reachable from ``starts``, these included, by ``step``."""
    found: set[Block] = set()
    todo = list(starts)
    while todo:
        block = todo.pop()
        if block not in found:
            found.add(block)
            todo += step(block)
    return found


def incoming(func: Function) -> dict[Block, int]:
    """The number of edges into each block."""
    count = dict.fromkeys(func.blocks, 0)
    for b in func.blocks:
        for s in b.successors():
            count[s] += 1
    return count


def merge_chains(func: Function) -> bool:
    """Merge each block into its only predecessor, if that ends in a jump; returns True if any was merged."""
    count = incoming(func)
    mapping: Mapping = {}
    gone: set[Block] = set()
    for b in func.blocks:
        if b in gone:
            continue
        while b.term is not None and b.term.name == "jump":
            edge = b.term.edges[0]
            s = edge.block
            if count[s] != 1 or s is b or s is func.entry:
                break
            mapping.update(edge.passed())
            for op in s.all_ops():
                op.block = b
            b.ops += s.ops
            b.term = s.term
            gone.add(s)
    func.blocks[:] = [b for b in func.blocks if b not in gone]
    substitute(func, mapping)
    return bool(gone)


def split_critical_edges(func: Function, calls_only: bool = False) -> bool:
    """Split critical edges, except the back edges of rotated loops; returns True if any was split.

    An edge is critical if its target has several predecessors and its source is a call or has several successors.
    The target of a back edge does not come after its source in reverse postorder.
    """
    count = incoming(func)
    number = {b: i for i, b in enumerate(reverse_postorder(func))}
    split = False
    for b in list(func.blocks):
        assert b.term is not None
        if b.term.name != "call" and (calls_only or len(b.term.edges) < 2):
            continue
        for edge in b.term.edges:
            back = number[edge.block] <= number[b] and b.term.name == "branch"
            if count[edge.block] > 1 and not back:
                landing(edge, func)
                split = True
    return split


def passes_on(block: Block) -> bool:
    """True if a block has no ops and ends in a jump.  Other blocks may read its parameters: see ``shared_params``."""
    return not block.ops and block.term is not None and block.term.name == "jump"


def shared_params(func: Function, candidates: Iterable[Block]) -> set[Block]:
    """Those of ``candidates`` with a parameter that another block reads."""
    params = {p for b in candidates for p in b.params}
    if not params:
        return set()
    unread = params.isdisjoint
    found: set[Block] = set()
    for b in func.blocks:
        for op in (*b.ops, b.term) if b.term is not None else b.ops:
            if not unread(read := op.used() if op.edges else op.operands):
                found.update(v.block for v in read if v in params and v.owner is not b)
    return found


def go_past(edge: Edge) -> None:
    """Redirect an edge past its target, a block that ``passes_on``."""
    assert edge.block.term is not None
    mapping = dict(edge.passed())
    onward = edge.block.term.edges[0]
    edge.block, edge.args = onward.block, [mapping.get(a, a) for a in onward.args]
