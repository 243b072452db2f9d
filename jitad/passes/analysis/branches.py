"""Branches of innermost loops whose sides join again."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge
from .loops import Loop


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
    """The branches of an innermost loop, inner ones first."""
    found = []
    blocks = dom.in_order(loop.blocks)
    for join in blocks:
        head = dom.idom[join]
        if head not in loop.blocks or join is loop.head or len(dom.preds[join]) != 2:
            continue
        assert head is not None and head.term is not None
        between = [b for b in blocks if b is not head and dom.dominates(head, b) and not dom.dominates(join, b)]
        if head.term.name == "branch" and all(b.term is not None and b.term.name != "call" and
                                              set(b.successors()) <= {*between, join} for b in (head, *between)):
            found.append(Arms(loop, head, between, join))
    return found
