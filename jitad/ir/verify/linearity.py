"""Verifies that every array update can be done in place: the memory part of ``verify``.

After an op consumed a value, nothing that may share memory with it (``aliasing.may_alias``) is used on any path.  An op
does not consume a value that may share with another of its operands, nor one that may share with a parameter that the
function does not own.

The analysis walks the graph forward, with the set of values that may be used up at the start of each block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..aliasing.consumption import consumed_operands
from ..aliasing.may_alias import MayAlias, Pairs, Summaries, bits
from ..dataflow import fixed_point
from ..graph import Block, Function, Module, Op, Value
from ..text.printer import FunctionPrinter

Fault = tuple[str, Op, Value]


def faults(func: Function, module: Module, summaries: Summaries) -> Iterator[Fault]:
    """Violations of the rules in one function, in the order of the text: a message, the op and its operand."""
    found = _Function(func, module, summaries).found
    for op in func.all_ops():
        for v in dict.fromkeys(op.used()):
            if (op, v) in found:
                yield found[op, v]


@dataclass
class _Dead:
    """Values that may be used up, as bits of ``MayAlias.number``."""

    mask: int = 0

    def join(self, other: _Dead) -> bool:
        before = self.mask
        self.mask |= other.mask
        return self.mask != before


class _Function:
    """``found``: the faults of one function; ``killers``: the op that used up each value, for their messages."""

    def __init__(self, func: Function, module: Module, summaries: Summaries) -> None:
        self.func, self.module = func, module
        self.alias = MayAlias(func, summaries)
        self.borrowed = self.alias.bits(p for i, p in enumerate(func.params) if i not in func.own)
        self.found: dict[tuple[Op, Value], Fault] = {}
        self.killers: dict[int, Op] = {}
        self.dead: dict[Block, _Dead] = {func.entry: _Dead()}
        if self.alias.number:
            fixed_point(func, self.dead, self._after)

    def _after(self, block: Block) -> Iterator[tuple[Block, _Dead]]:
        pairs, dead = self.alias.states[block].copy(), self.dead[block].mask
        for op in block.ops:
            self._alive(dead, op, op.operands)
            dead |= self._consume(pairs, op)
            dead &= ~self.alias.bits(op.results)
            self.alias.step(pairs, op)
        term = block.term
        assert term is not None
        self._alive(dead, term, term.operands)
        dead |= self._consume(pairs, term)
        for edge in term.edges:
            self._alive(dead, term, edge.args)
            yield edge.block, _Dead(dead & ~self.alias.bits(edge.block.params))

    def _alive(self, dead: int, op: Op, values: Sequence[Value]) -> None:
        """Note those of the values that are used up."""
        for v in values:
            n = self.alias.number.get(v)
            if n is not None and dead >> n & 1 and (op, v) not in self.found:
                line = FunctionPrinter(self.func).op(self.killers[n])
                self.found[op, v] = f"used after its memory was given up: {line}", op, v

    def _consume(self, pairs: Pairs, op: Op) -> int:
        """The values that an op uses up."""
        dead = 0
        for i in consumed_operands(self.module, op):
            v = op.operands[i]
            if v not in self.alias.number:
                continue
            gone = self.alias.with_self(pairs, v)
            if gone & self.borrowed:
                self.found.setdefault((op, v), ("consumes what the function does not own", op, v))
            elif gone & self.alias.bits(w for j, w in enumerate(op.operands) if j != i):
                self.found.setdefault((op, v), ("consumes the memory of another operand", op, v))
            gone &= ~self.borrowed
            dead |= gone
            for w in bits(gone):
                self.killers.setdefault(w, op)
        return dead
