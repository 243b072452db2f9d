"""Branches that ask again what the branch before has decided become one.

The merged loops of a derivative have an ``if`` of the source twice, once for its value and once for its adjoint::

    ^head:            branch c, ^then, ^else         ^head:  branch c, ^then, ^else
    ^then: …          jump ^join(x)                  ^then:  …; …
    ^else: …          jump ^join(y)            →             jump ^end(a, x)
    ^join(v):         branch c, ^then2, ^else2       ^else:  …; …
    ^then2: …         jump ^end(a)                           jump ^end(b, y)
    ^else2: …         jump ^end(b)                   ^end(w, v): …
    ^end(w): …                                       (reads v)

What the first side has computed, the second need not compute again: indices, their checks, loads.  The join has no ops:
they would have to go to the end of both sides, and a sum that each iteration adds to would be added to behind a branch.
"""

from __future__ import annotations

from ...ir.dominance import Dominators, dominators
from ...ir.graph import Block, Edge, Function, Module, Value
from ..analysis.cfg import Mapping, merge_chains, set_term

ROUNDS = 4
"""The most branches on one condition, in a row, that become one."""


def repeated_branches(module: Module) -> bool:
    """Join such branches in all functions; returns True if there were any."""
    return any([_in_function(func) for func in module.functions.values()])


def _in_function(func: Function) -> bool:
    """Join the branches of one function; one that follows two others on its condition is left to the next round."""
    for n in range(ROUNDS):
        if not _round(func):
            return n > 0
        merge_chains(func)
    return True


def _round(func: Function) -> bool:
    """Join branches that have no block in common; returns True if there were any."""
    dom = dominators(func)
    sources: dict[Block, list[tuple[Block, Edge]]] = {}
    found: list[_Repeated] = []
    touched: set[Block] = set()
    for join in dom.order:
        head = dom.idom[join]
        if head is None or len(dom.preds[join]) != 2 or join.ops or not _asks_again(head, join):
            continue
        sources = sources or func.predecessors()
        repeated = _Repeated.of(dom, head, join, sources)
        if repeated is not None and touched.isdisjoint(repeated.blocks):
            touched |= repeated.blocks
            found.append(repeated)
    readers = _readers(func, {r.join for r in found})
    found = [r for r in found if r.reaches(dom, readers[r.join])]
    for r in found:
        r.run(dom, readers[r.join])
    gone = {r.join for r in found}
    func.blocks[:] = [b for b in func.blocks if b not in gone]
    return bool(found)


def _asks_again(head: Block, join: Block) -> bool:
    return (head.term is not None and join.term is not None and head.term.name == join.term.name == "branch" and
            head.term.operands[0] is join.term.operands[0] and all(
                len({e.block for e in b.term.edges}) == 2 for b in (head, join) if b.term is not None))


def _readers(func: Function, joins: set[Block]) -> dict[Block, dict[Value, list[Block]]]:
    """The other blocks that read a value of each join."""
    found: dict[Block, dict[Value, list[Block]]] = {join: {} for join in joins}
    for b in func.blocks if joins else ():
        for op in b.all_ops():
            for v in op.used():
                if (home := v.block) is not b and home in found:
                    found[home].setdefault(v, []).append(b)
    return found


class _Repeated:
    """A branch in ``join`` on the condition of that in ``head``.

    ``before``: the edges to the join from the first and from the second side.  ``after``: the edges to ``end`` from its
    own sides.
    """

    def __init__(self, head: Block, join: Block, end: Block, before: list[tuple[Block, Edge]],
                 after: list[tuple[Block, Edge]]) -> None:
        self.join, self.end, self.before, self.after = join, end, before, after
        assert join.term is not None
        self.blocks = {head, join, end, *(b for b, _ in (*before, *after)), *join.successors(), *head.successors()}

    @classmethod
    def of(cls, dom: Dominators, head: Block, join: Block,
           sources: dict[Block, list[tuple[Block, Edge]]]) -> _Repeated | None:
        """The branches, if their sides have no other entry and no other exit."""
        before = _by_side(dom, head, sources[join])
        if before is None or any(b.term is None or b.term.name != "jump" for b, _ in before):
            return None
        for end in dom.children[join]:
            if len(dom.preds[end]) == 2 and (after := _by_side(dom, join, sources[end])) is not None:
                return cls(head, join, end, before, after)
        return None

    def reaches(self, dom: Dominators, readers: dict[Value, list[Block]]) -> bool:
        """True if each reader of a value of the join is on one of its sides, or behind ``end``."""
        return all(self._side(dom, b) is not None or dom.dominates(self.end, b)
                   for blocks in readers.values() for b in blocks)

    def _side(self, dom: Dominators, b: Block) -> int | None:
        """The number of the side of the second branch on which a block lies."""
        assert self.join.term is not None
        return next((k for k, e in enumerate(self.join.term.edges)
                     if e.block is not self.end and dom.dominates(e.block, b)), None)

    def run(self, dom: Dominators, readers: dict[Value, list[Block]]) -> None:
        """Let each side of the first branch lead to that of the second; ``end`` gets what is read behind it."""
        join, end = self.join, self.end
        term = join.term
        assert term is not None
        sides: list[Mapping] = []
        for (source, edge), onward in zip(self.before, term.edges):
            values: Mapping = dict(edge.passed())
            set_term(source, "jump", edges=[Edge(onward.block, [values.get(a, a) for a in onward.args])])
            sides.append(values)
        after = [(source, edge) if source is not join else (self.before[k][0], _only_edge(self.before[k][0]))
                 for k, (source, edge) in enumerate(self.after)]
        behind: Mapping = {}
        for v, blocks in readers.items():
            for b in dict.fromkeys(blocks):
                k = self._side(dom, b)
                if k is None and v not in behind:
                    behind[v] = end.add_param(v.type, v.hint)
                    for values, (_, edge) in zip(sides, after):
                        edge.args.append(values[v])
                own = behind if k is None else sides[k]
                for op in b.all_ops():
                    op.replace_uses({v: own[v]})


def _only_edge(b: Block) -> Edge:
    assert b.term is not None
    return b.term.edges[0]


def _by_side(dom: Dominators, branch: Block, edges: list[tuple[Block, Edge]]) -> list[tuple[Block, Edge]] | None:
    """The two edges in the order of the sides of a branch from which they come; ``None`` if they do not."""
    assert branch.term is not None
    found: list[tuple[Block, Edge]] = []
    for e in branch.term.edges:
        own = len(dom.preds[e.block]) == 1
        found += [(b, x) for b, x in edges if x is e or b is not branch and own and dom.dominates(e.block, b)]
    return found if len(found) == 2 and found[0][1] is not found[1][1] and len(edges) == 2 else None
