"""Partial redundancy elimination of loop conditions: what the condition has computed, the next iteration reads.

A loop is entered through a test of its condition, and its latch tests it again, for the next values of what the loop
carries.  What the body then computes from these values, it often computes as the condition did::

    ^entry:  e0 = exp x0 …                           ^entry:  e0 = exp x0 …
    ^loop(x):                                        ^loop(x, e):
      e = exp x                                        y = …
      y = …                        becomes             e1 = exp y
      e1 = exp y                                       branch …, ^loop(y, e1), …
      branch …, ^loop(y), …

The pass *translates* each op of the loop along both edges into it: parameters become arguments, results that have been
found become what was found for them.  If the same op has been executed on both edges, or folds to a value that is known
there, a parameter takes the place of its result.  So nothing is computed that was not before.  Checks whose condition
has been checked on both edges hold.

Counted loops stay as they are: their conditions are comparisons of counters.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.evaluate.fold import fold
from ...ir.expression_keys import translated
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ..analysis.loops import Loop, LoopForest, counted, loop_forest

KEPT = frozenset(("push", "pop", "const", "undef"))
NEAR = 8
"""The most blocks in which a check is looked for."""


def condition_pre(module: Module) -> bool:
    """Carry such values through all loops that are not counted; expects normal form, returns True if there were any."""
    return any([_in_function(func) for func in module.functions.values()])


def _in_function(func: Function) -> bool:
    forest = loop_forest(func)
    loops = [loop for loop in forest.loops if loop.latch is not None and loop.preheader is not None
             and counted(loop) is None]
    if not loops:
        return False
    known: dict[Hashable, list[Op]] = {}
    for block in forest.dom.order:
        for op in block.ops:
            if _is_pure(op):
                known.setdefault(translated(op, {}), []).append(op)
    return any([_Loop(loop, forest, known).run() for loop in reversed(loops)])


@dataclass
class _Loop:
    """One loop.  ``known``: the ops of the function by key.

    ``entry`` and ``again``: what values of the loop are on the edge from outside, and on the edge from the latch.
    """

    loop: Loop
    forest: LoopForest
    known: dict[Hashable, list[Op]]
    entry: dict[Value, Value] = field(default_factory=dict)
    again: dict[Value, Value] = field(default_factory=dict)
    found: list[Op] = field(default_factory=list)

    def run(self) -> bool:
        """Carry what is worth it; returns True if anything was."""
        self.entry.update(self.loop.entry_edge().passed())
        self.again.update(self.loop.back_edge().passed())
        blocks = self.forest.dom.in_order(self.loop.blocks)
        held = self._find([b for b in blocks if self.forest.loop_of(b) is self.loop])
        replaced = self._carry(held) if self.found else {}
        for op in held:
            assert op.block is not None
            op.block.ops.remove(op)
        if replaced:
            for op in (op for b in self.loop.blocks for op in b.all_ops()):
                op.replace_uses(replaced)
        return bool(replaced or held)

    def _find(self, blocks: list[Block]) -> list[Op]:
        """Translate the ops of the loop in order; returns the checks that hold."""
        held = []
        for op in (op for b in blocks for op in b.ops):
            if not self._depends(op):
                continue
            if op.name == "check":
                if self._is_checked(op):
                    held.append(op)
                continue
            if not _is_pure(op):
                continue
            before = self._on_edge(op, self.entry, self.loop.preheader)
            after = self._on_edge(op, self.again, self.loop.latch)
            if before is not None and after is not None:
                self.entry[op.result], self.again[op.result] = before, after
                self.found.append(op)
        return held

    def _on_edge(self, op: Op, values: dict[Value, Value], block: Block | None) -> Value | None:
        """The result that ``op`` would have at the end of ``block``, if it is known there."""
        assert block is not None
        made = self._executed(translated(op, values), block)
        if made is not None:
            return made.result
        folded = fold(op.name, [values.get(v, v) for v in op.operands], op.attrs)
        return folded if folded is None or isinstance(folded, Value) else Builder(block).const(*folded)

    def _depends(self, op: Op) -> bool:
        """True if translation changes an operand, and all operands that the loop computes are known on both edges."""
        own = [v for v in op.operands if v.block in self.loop.blocks and v.const is None]
        return bool(own) and all(v in self.entry for v in own)

    def _is_checked(self, op: Op) -> bool:
        condition = op.operands[0]
        return condition in self.entry and all(
            values[condition].const is True or any(other.name == "check" and other.operands[0] is values[condition]
                for b in self._above(block) for other in b.ops)
            for values, block in ((self.entry, self.loop.preheader), (self.again, self.loop.latch)) if block)

    def _above(self, block: Block) -> list[Block]:
        """``block`` and the few blocks that dominate it, nearest first."""
        found = [block]
        while len(found) < NEAR and (above := self.forest.dom.idom[found[-1]]) is not None:
            found.append(above)
        return found

    def _executed(self, key: Hashable, block: Block) -> Op | None:
        """The op of this key whose result may be read at the end of ``block``."""
        for op in self.known.get(key, ()):
            assert op.block is not None
            home = self.forest.loop_of(op.block)
            if self.forest.dom.dominates(op.block, block) and (home is None or block in home.blocks):
                return op
        return None

    def _carry(self, held: list[Op]) -> dict[Value, Value]:
        """Add a parameter for each found value that other ops read, if it saves an op that takes long."""
        inside = {*self.found, *held}
        read = {v for b in self.loop.blocks for op in b.all_ops() if op not in inside for v in op.used()}
        worth: set[Value] = set()
        replaced = {}
        for op in self.found:
            if _is_worth(op) or not worth.isdisjoint(op.operands):
                worth.add(op.result)
                if op.result in read and isinstance(op.result.type, Scalar):
                    replaced[op.result] = self.loop.head.add_param(op.result.type, op.result.hint)
                    self.loop.entry_edge().args.append(self.entry[op.result])
                    self.loop.back_edge().args.append(self.again[op.result])
        return replaced


def _is_worth(op: Op) -> bool:
    """True for what reads arrays, and for an op that takes longer than a move."""
    return OPS[op.name].cost >= EXPENSIVE or not all(isinstance(v.type, Scalar) for v in op.operands)


def _is_pure(op: Op) -> bool:
    definition = OPS[op.name]
    return not definition.effect and not definition.consumes and op.name not in KEPT and len(op.results) == 1
