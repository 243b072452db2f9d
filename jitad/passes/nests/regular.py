"""Regular nests: counted loops inside one another that do nothing but compute, and whose checks compare counters."""

from __future__ import annotations

from ...ir.expression_keys import same
from ...ir.graph import Block, Value
from ...ir.types import Stack
from ..analysis.loops import Counted, Loop, LoopForest, counted


class Regular:
    """The counted loops of a function that have one exit and a preheader, with their counters."""

    def __init__(self, forest: LoopForest) -> None:
        self.forest, self.dom = forest, forest.dom
        self.known: dict[Loop, Counted] = {}
        for loop in forest.loops if not forest.irreducible else ():
            found = counted(loop) if loop.exit is not None else None
            if found is not None and found.iv.index == 0:
                self.known[loop] = found

    def inside(self, loop: Loop) -> list[Loop]:
        """The loops in ``loop``, itself first."""
        return [loop, *(inner for child in loop.children for inner in self.inside(child))]

    def only_computes(self, loop: Loop) -> bool:
        """True if a loop and those in it are counted, call and raise nothing but in checks, and keep no frames."""
        if any(inner not in self.known for inner in self.inside(loop)):
            return False
        for block in loop.blocks:
            if block.term is None or block.term.name not in ("jump", "branch"):
                return False
            if any(s not in loop.blocks and s is not loop.exit for s in block.successors()):
                return False
            if any(isinstance(v.type, Stack) for v in block.params):
                return False
        return True

    def always(self, block: Block, outer: Loop, leaving: bool = True) -> list[Loop] | None:
        """The inner loops that must each have an iteration, so that every one of ``outer`` executes ``block``.

        ``None`` if that depends on anything else.  Without ``leaving``, an iteration that ends in ``break`` need not.
        """
        needed: dict[Loop, None] = {}
        loop, at = self.forest.loop_of(block), block
        while loop is not None and loop.latch is not None:
            if self.dom.dominates(at, loop.latch if leaving else self.onward(loop)):
                if loop is outer:
                    return list(needed)
                if loop.preheader is None:
                    return None
                needed[loop] = None
                at, loop = loop.preheader, loop.parent
                continue
            guard = self.dom.idom.get(at)
            if (before := self._behind(at, guard, loop)) is not None:
                at = before
                continue
            tested = self._tested(guard, at, outer) if guard is not None and guard in loop.blocks else None
            if guard is None or tested is None:
                return None
            needed.update(dict.fromkeys(tested))
            at = guard
        return None

    def onward(self, loop: Loop) -> Block:
        """The only block from which the loop goes on, if ``break`` passes the number of an exit to the latch."""
        latch = loop.latch
        assert latch is not None and latch.term is not None
        test = latch.term.operands[0].op if latch.term.name == "branch" else None
        if test is None or test.name != "lt" or test.operands[1].const != 0 or test.operands[0].owner is not latch:
            return latch
        number = test.operands[0].index
        edges = [(b, e) for b in self.dom.preds[latch] if b.term is not None for e in b.term.edges if e.block is latch]
        onward = {b for b, e in edges if not ((n := e.args[number].const) is not None and n >= 0)}
        return onward.pop() if len(onward) == 1 and latch.term.edges[0].block is loop.head else latch

    def _behind(self, block: Block, latch: Block | None, loop: Loop) -> Block | None:
        """The preheader of the loop within ``loop`` that leaves to ``block``, if that is all that leads there."""
        inner = self.forest.loop_of(latch) if latch is not None else None
        while inner is not None and inner.parent is not loop:
            inner = inner.parent
        if inner is None or inner not in self.known or inner.exit is not block or len(self.dom.preds[block]) != 1:
            return None
        return inner.preheader

    def _argument(self, v: Value) -> Value:
        """The value of a join where it is read: other edges pass what is undefined."""
        loop = self.forest.loop_of(v.block)
        if v.op is not None or v.block is self.dom.order[0] or loop is not None and loop.head is v.block:
            return v
        known = [x for x in set(self.dom.arguments(v)) if x is None or x.op is None or x.op.name != "undef"]
        return known[0] if len(known) == 1 and known[0] is not None and known[0].op is not None else v

    def _tested(self, guard: Block, block: Block, outer: Loop) -> list[Loop] | None:
        """The loops that must have an iteration, so that control goes on from ``guard`` to ``block``."""
        term = guard.term
        assert term is not None
        if term.name == "jump" and term.edges[0].block is block:
            return []
        if term.name != "branch" or not self.dom.dominates(term.edges[0].block, block):
            return None
        found: list[Loop] = []
        tests = [term.operands[0]]
        for v in tests:                                          # grows
            v = self._argument(v)
            if v.op is not None and v.op.name == "and":
                tests += v.op.operands
                continue
            if v.op is None or v.op.name != "lt" or v.op.operands[0].const != 0:
                return None
            counts = [x for x in self.inside(outer) if x in self.known and same(v.op.operands[1], self.known[x].trip)]
            if not counts:
                return None
            found += counts[:1]
        return found


def is_fixed(v: Value, loop: Loop) -> bool:
    """True if a value is a constant or comes from outside ``loop``."""
    return v.const is not None or v.block not in loop.blocks
