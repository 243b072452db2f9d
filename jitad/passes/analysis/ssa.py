"""SSA construction for one variable, on a finished graph (Braun et al. 2013).

Makes the variable available in blocks that none of its definitions dominates.  A block parameter is added where paths
join.  On paths without a definition the variable is ``undef``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Op, Value

Preds = Mapping[Block, list[tuple[Block, Edge]]]


class Reaching:
    """A variable with its definitions ``defs``: its value at the end of blocks.

    ``starts``: blocks at whose start the variable is undefined, such as the entry or a loop's head.
    ``bypass``: exits of loops that do not change the variable, each with the loop's preheader.
    ``dom``: the dominators of the graph, if they are known; then only the blocks where definitions meet are visited.
    """

    def __init__(self, preds: Preds, defs: dict[Block, Value], starts: Iterable[Block],
                 bypass: Mapping[Block, Block] | None = None, dom: Dominators | None = None) -> None:
        self.preds, self.defs = preds, defs
        self.starts, self.bypass = set(starts), bypass or {}
        self.type = next(iter(defs.values())).type
        self._start: dict[Block, Value] = {}
        self._open: list[tuple[Block, Edge]] = []
        self._dom = dom
        self._above = _deepest_first(dom, {*defs, *self.starts}) if dom is not None else []

    def at_end(self, block: Block) -> Value:
        """The variable's value at the end of ``block``."""
        value = self._at_end(block)
        while self._open:
            pred, edge = self._open.pop()
            edge.args.append(self._at_end(pred))
        return value

    def _at_end(self, block: Block) -> Value:
        walked: list[Block] = []
        if self._dom is not None:
            block = next(b for b in self._above if self._dom.dominates(b, block))
        while True:
            if block in self.defs:
                value = self.defs[block]
                break
            if block in self._start:
                value = self._start[block]
                break
            walked.append(block)
            incoming = self.preds[block]
            if block in self.starts or not incoming:
                value = self._undefined(block)
                break
            if block in self.bypass:
                block = self.bypass[block]
            elif len(incoming) == 1:
                block = incoming[0][0]
            else:
                value = block.add_param(self.type)
                self._open += incoming
                break
        for b in walked:
            self._start[b] = value
        return value

    def _undefined(self, block: Block) -> Value:
        op = Op("undef", (), [self.type], {"type": self.type})
        op.block = block
        block.ops.insert(0, op)
        return op.result


def _deepest_first(dom: Dominators, defs: set[Block]) -> list[Block]:
    """The definitions and the blocks where paths from different ones meet, each after those that it dominates."""
    found, todo = set(defs), list(defs)
    while todo:
        new = dom.frontiers.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return sorted(found, key=dom.number.__getitem__, reverse=True)
