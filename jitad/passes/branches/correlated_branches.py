"""Joins two branches on the same condition, if the second begins where the sides of the first one meet.

::

    branch %c, ^then, ^else                           branch %c, ^then, ^else
    ^then:  %v = …;  jump ^join(%x)                   ^then:  %v = …;  %v1 = …;  … %v1 …;  jump ^end(%x)
    ^else:  jump ^join(%y)                            ^else:  …;  jump ^end(%y)
    ^join(%z):  branch %c, ^then1, ^else1   becomes   ^end(%z):  …
    ^then1:  %v1 = …;  … %v1 …;  jump ^end
    ^else1:  …;  jump ^end
    ^end:  … %z …

An iteration that is recomputed and reversed at once has such pairs: what a side computes and what its adjoint reads
again are in one block then, and ``cse`` makes one of the two.  Ops at the join are copied to both sides.  Pairs with a
loop between them stay.  The gradient of a turned image, whose pixels are tested, takes 0.72 of the time.

``nest_joins`` gives each branch in an innermost loop a join of its own, which the sides of ``elif`` and the paths of
``continue`` share with others.  It becomes a block that jumps to the common one::

    ^else: branch d, ^a, ^b;  ^a: jump ^join(y);    ^b: jump ^join(z)                  # beside another jump ^join(x)
    ^else: branch d, ^a, ^b;  ^a: jump ^middle(y);  ^b: jump ^middle(z);  ^middle(v): jump ^join(v)

Passes that look for a branch and its join (``analysis.branches``) then find one for each branch, and the reverse sweep
recomputes the condition of each instead of saving which of the paths led to the join: a likelihood of answers, some of
which are missing, takes 0.6 of the time with its gradient.  ``simplify`` takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Module, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar
from ..analysis.cfg import Mapping, append, merge_chains, remove_unreachable, set_term
from ..analysis.loops import Loop, LoopForest, loop_forest
from ..analysis.ssa import Reaching

MOST_OPS = 32
"""The most ops of a join that are copied."""

ELEMENTS = frozenset({"get", "set", "add_at", "dim"})
"""The ops on arrays that are copied."""

ROUNDS = 8
"""Joining two branches of a nest inside others may make these adjacent."""


@dataclass
class Pair:
    """A join that tests what a block above has tested, and the edges to it from each side of that block's branch."""

    join: Block
    sides: tuple[list[Edge], list[Edge]]
    readers: dict[Value, dict[Block, None]] = field(default_factory=dict)      # other blocks, by value of the join


def correlated_branches(module: Module) -> bool:
    """Join the pairs of branches of all functions; returns True if there were any."""
    return any([_join_pairs(func) for func in module.functions.values()])


def _join_pairs(func: Function) -> bool:
    joined = False
    for _ in range(ROUNDS):
        if not _round(func):
            break
        joined = True
        remove_unreachable(func)
        merge_chains(func)
    return joined


def _round(func: Function) -> bool:
    """Join the pairs that are there now, but for those that read values of one another."""
    branches = [b for b in func.blocks if b.term is not None and b.term.name == "branch"]
    if len(branches) < 2:
        return False
    forest = loop_forest(func)
    heads = {loop.head for loop in forest.loops}
    pairs = {b: p for b in branches if b not in heads and (p := _pair(forest, b, heads)) is not None}
    _find_readers(func, pairs)
    preds = {b: list(es) for b, es in func.predecessors().items()} if pairs else {}
    known = {b: len(b.params) for b in pairs}
    gone: set[Block] = set()
    for join, pair in pairs.items():
        concerned = {join, *join.successors(), *(b for blocks in pair.readers.values() for b in blocks)}
        if len(join.params) == known[join] and not concerned & gone:      # new parameters have readers of their own
            _split(func, pair, preds, forest)
            gone |= concerned
    return bool(pairs)


def _pair(forest: LoopForest, join: Block, heads: set[Block]) -> Pair | None:
    """The pair whose second branch ends ``join``, in one iteration of a loop and without loops in it."""
    dom, loop = forest.dom, forest.loop_of(join)
    first = dom.idom[join]
    term = join.term
    assert term is not None
    if first is None or first.term is None or first.term.name != "branch" \
            or first.term.operands[0] is not term.operands[0] or len(join.ops) > MOST_OPS \
            or not all(op.name in ELEMENTS or all(isinstance(v.type, Scalar) for v in (*op.operands, *op.results))
                       for op in join.ops):
        return None
    if loop is None or forest.loop_of(first) is not loop or any(dom.dominates(first, x.head) for x in loop.children):
        return None
    if _become_selections(forest, loop, first, join):
        return None
    targets, ends = [e.block for e in first.term.edges], [e.block for e in term.edges]
    if targets[0] is targets[1] or any(len(dom.preds[b]) != 1 or b in heads for b in ends) or ends[0] is ends[1]:
        return None
    sides: tuple[list[Edge], list[Edge]] = ([], [])
    for source in dict.fromkeys(dom.preds[join]):
        assert source.term is not None
        for edge in (e for e in source.term.edges if e.block is join):
            if source.term.name == "call":
                return None
            side = _side(dom, first, source, edge, targets)
            if side is None:
                return None
            sides[side].append(edge)
    return Pair(join, sides) if sides[0] and sides[1] else None


def _become_selections(forest: LoopForest, loop: Loop, first: Block, join: Block) -> bool:
    """True if both branches choose between formulas, and what is stored in between waits for no branch.

    They become selections (``if_conversion``), and the loop vectors.  With the stores on its sides a branch stays.
    """
    stores = any(op.name in ("set", "add_at") for op in join.ops)
    if loop.children or not stores:
        return False
    dom = forest.dom
    behind = {b for e in (join.term.edges if join.term else ()) for b in (e.block,) if len(dom.preds[b]) == 1}
    sides = [b for b in loop.blocks if b is not first and dom.dominates(first, b) and not dom.dominates(join, b)]
    return all(op.name == "const" or OPS[op.name].elementwise and all(isinstance(v.type, Scalar) for v in op.operands)
               for b in (*sides, *behind) for op in b.ops)


def _side(dom: Dominators, first: Block, source: Block, edge: Edge, targets: list[Block]) -> int | None:
    """The side of the branch of ``first`` on which ``edge`` of ``source`` lies."""
    assert first.term is not None
    if source is first:
        return 0 if edge is first.term.edges[0] else 1
    return next((k for k, b in enumerate(targets) if len(dom.preds[b]) == 1 and dom.dominates(b, source)), None)


def _find_readers(func: Function, pairs: dict[Block, Pair]) -> None:
    for b in func.blocks if pairs else ():
        for op in b.all_ops():
            for v in op.used():
                if (home := v.block) is not b and home in pairs:
                    pairs[home].readers.setdefault(v, {})[b] = None


def _split(func: Function, pair: Pair, preds: dict[Block, list[tuple[Block, Edge]]], forest: LoopForest) -> None:
    """Give each side a copy of the join, which goes where the condition says."""
    join, term = pair.join, pair.join.term
    assert term is not None
    sources = {id(e): b for b, e in preds.pop(join)}
    copies: list[tuple[Block, Mapping]] = []
    for edges, end in zip(pair.sides, term.edges):
        copy = func.new_block(join.name)
        values: Mapping = {p: copy.add_param(p.type, p.hint) for p in join.params}
        for op in join.ops:
            append(copy, clone_op(op, values))
        onward = Edge(end.block, [values.get(a, a) for a in end.args])
        set_term(copy, "jump", edges=[onward])
        assert copy.term is not None
        copy.term.loc = term.loc
        preds[copy] = [(sources[id(e)], e) for e in edges]
        preds[end.block] = [(copy, onward)]
        for e in edges:
            e.block = copy
        copies.append((copy, values))
    bypass = {x.exit: x.preheader for x in forest.loops
              if x.exit is not None and x.preheader is not None and join not in x.blocks}
    for v, blocks in pair.readers.items():
        reaching = Reaching(preds, {copy: values[v] for copy, values in copies}, (), bypass)
        for b in blocks:
            own = {v: reaching.at_end(_before_loops(forest, b, join))}
            for op in b.all_ops():
                op.replace_uses(own)


def _before_loops(forest: LoopForest, block: Block, join: Block) -> Block:
    """The block in front of the loops around ``block`` that do not hold ``join``."""
    loop = forest.loop_of(block)
    while loop is not None and join not in loop.blocks and loop.preheader is not None:
        block, loop = loop.preheader, loop.parent
    return block


def nest_joins(module: Module, stored: bool = False) -> bool:
    """Nest the joins in every innermost loop; returns True if there were any.

    ``stored``: only those where several paths have stored an element, as the sides of an ``elif`` do, and the others
    have left the array as it was.
    """
    return any([_nest(func, blocks, loop.head, stored) for func in module.functions.values()
                for forest in (loop_forest(func),) for loop in forest.loops if not loop.children
                for blocks in (forest.dom.in_order(loop.blocks),)])


def _nest(func: Function, blocks: list[Block], head: Block, stored: bool) -> bool:
    incoming: dict[Block, list[Edge]] = {b: [] for b in blocks if b is not head}
    for b in blocks:
        for e in b.term.edges if b.term is not None else ():
            incoming.get(e.block, []).append(e)
    wanted = {b for b, edges in incoming.items() if not stored or _stored_by_several(b, edges)}
    changed = False
    for b in reversed(blocks):                               # inner branches first
        ends = [_end(e, incoming) for e in b.term.edges] if b.term is not None and b.term.name == "branch" else []
        join = ends[0].block if ends else head
        if join not in wanted or join is not ends[1].block or len(incoming[join]) < 3:
            continue
        middle = func.new_block("join")
        params = [middle.add_param(p.type, p.hint) for p in join.params]
        incoming[join] = [e for e in incoming[join] if e not in ends]
        for e in ends:
            e.block = middle
        Builder(middle, b.term.loc if b.term is not None else func.loc).jump(join, params)
        assert middle.term is not None
        incoming[join] += middle.term.edges
        incoming[middle] = ends
        changed = True
    return changed


def _stored_by_several(join: Block, edges: list[Edge]) -> bool:
    """True if an array arrives at ``join`` from stores on several paths, and unchanged from the others."""
    for p in join.params:
        if isinstance(p.type, Array):
            arrays = [e.argument(p) for e in edges]
            stores = [v.op for v in arrays if v is not None and v.op is not None and v.op.name in ("set", "add_at")]
            unchanged = {v for v in arrays if v is None or v.op not in stores}
            if len(stores) > 1 and (not unchanged or unchanged == {op.operands[0] for op in stores}):
                return True
    return False


def _end(edge: Edge, incoming: dict[Block, list[Edge]]) -> Edge:
    """The edge by which a side of a branch leaves: that of its only block, or ``edge`` itself."""
    term = edge.block.term
    own = term is not None and term.name == "jump" and len(incoming.get(edge.block, ())) == 1
    return term.edges[0] if own and term is not None else edge
