"""The selections that take the place of a branch (``if_conversion``).

Both sides are computed ahead, once where they compute the same.  Of two results that differ in one operand, that
operand is selected, and of a conditional sum the term: LLVM does not recognise a selection between the sums before and
after as a reduction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.expression_keys import key
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import EFFECTS, OPS
from ...ir.types import dtype_of
from ...ir.uses import counts, ops_of
from ..analysis.cfg import Mapping, append, resolve

Side = tuple[Block | None, Edge]
"""A side of a branch: its block, if it has one of its own, and the edge by which it leaves."""

FACTORED = frozenset(("add", "sub", "mul", "div"))

LONGEST = 4
"""The most terms of a conditional sum, which bounds the search.  Adjoints add one or two on a side."""


class Selections:
    """Replaces branches of the blocks of a loop.

    ``incoming``: the number of edges into each block.  ``uses`` are those before the first branch is replaced.
    """

    def __init__(self, func: Function, blocks: list[Block]) -> None:
        self.func, self.blocks = func, blocks
        self.incoming = Counter(s for b in blocks for s in b.successors())
        self.uses: Counter[Value] | None = None
        self.mapping: Mapping = {}

    def convert(self, head: Block, sides: list[Side]) -> None:
        """Compute both sides in ``head``, which then jumps to the join, or takes its place."""
        term, join = head.term, sides[0][1].block
        assert term is not None
        if self.uses is None:
            self.uses = counts(ops_of(self.blocks))
        for (block, _), edge in zip(sides, term.edges):
            if block is not None:
                self.mapping.update(edge.passed())
                self.func.blocks.remove(block)
        self._move(sides, head)
        head.term = None
        b = Builder(head, term.loc)
        args = [self._chosen(b, term.operands[0], resolve(self.mapping, x), resolve(self.mapping, y))
                for x, y in zip(*(edge.args for _, edge in sides))]
        self.incoming[join] -= 1
        if self.incoming[join] > 1:
            b.jump(join, args)
            return
        self.mapping.update(zip(join.params, args))
        for op in join.all_ops():
            op.block = head
        head.ops += join.ops
        head.term = join.term
        self.func.blocks.remove(join)

    def _move(self, sides: list[Side], head: Block) -> None:
        """Append ops of both sides to ``head``, once where both, or ``head``, compute the same.

        A check of a side applies if the side is taken.
        """
        assert head.term is not None
        (condition,), ops = head.term.operands, ops_of_sides(sides)
        number = {block: i for i, (block, _) in enumerate(sides)}
        known: dict[Hashable, Op] = {key(op): op for op in head.ops} if ops else {}
        for op in ops:
            if op.name == "check":
                b = Builder(head, op.loc)
                either = [resolve(self.mapping, op.operands[0]), b.const(True)]
                chosen = b.select(condition, *either[::-1 if number[op.block] else 1])
                append(head, clone_op(op, {op.operands[0]: chosen}))
                continue
            alike = known.setdefault(key(op, [resolve(self.mapping, v) for v in op.operands]), op)
            if alike is op or OPS[op.name].effect:
                append(head, op)
            else:
                self.mapping.update(zip(op.results, alike.results))

    def _chosen(self, b: Builder, condition: Value, x: Value, y: Value) -> Value:
        """Emit the value of a parameter of the join: ``x`` if the condition holds, else ``y``."""
        if x is y:
            return x
        for swapped, (total, start) in enumerate(((x, y), (y, x))):
            terms = self._terms(total, start)
            if terms:
                return self._conditional_sum(b, condition, bool(swapped), start, terms)
        at = self._difference(x.op, y.op) if x.op is not None and y.op is not None else None
        if at is None or x.op is None or y.op is None:
            return b.emit_op("select", [condition, x, y]).result
        sides = [resolve(self.mapping, op.operands[at]) for op in (x.op, y.op)]
        operands = [resolve(self.mapping, v) for v in x.op.operands]
        operands[at] = b.emit_op("select", [condition, *sides]).result
        return b.emit_op(x.op.name, operands, **x.op.attrs).result

    def _difference(self, x: Op, y: Op) -> int | None:
        """The operand in which two ops differ that have no other use; None if they differ in more than one."""
        assert self.uses is not None
        if x.name != y.name or x.name not in FACTORED or x.attrs != y.attrs or x.result.type != y.result.type \
                or self.uses[x.result] != 1 or self.uses[y.result] != 1:
            return None
        pairs = [(resolve(self.mapping, v), resolve(self.mapping, w)) for v, w in zip(x.operands, y.operands)]
        apart = [i for i, (v, w) in enumerate(pairs) if v is not w]
        return apart[0] if len(apart) == 1 and pairs[apart[0]][0].type == pairs[apart[0]][1].type else None

    def _terms(self, total: Value, start: Value, longest: int = LONGEST) -> list[tuple[Op, Value]] | None:
        """The additions and subtractions, each with its term, that lead from the float ``start`` to ``total``."""
        if total is start:
            return []
        op = total.op
        if not longest or op is None or op.name not in ("add", "sub") or not dtype_of(total.type).is_float:
            return None
        for before, term in (op.operands, op.operands[::-1])[:1 if op.name == "sub" else 2]:
            terms = self._terms(resolve(self.mapping, before), start, longest - 1)
            if terms is not None:
                return [*terms, (op, term)]
        return None

    def _conditional_sum(self, b: Builder, condition: Value, swapped: bool, start: Value,
                         terms: list[tuple[Op, Value]]) -> Value:
        """Emit a sum whose terms are replaced, where the condition chooses ``start``, by a zero that changes nothing.

        LLVM does not recognise a selection between the sums before and after as a reduction.
        """
        for op, term in terms:
            zero = b.const(0.0 if op.name == "sub" else -0.0, dtype_of(term.type))
            sides = [zero, term] if swapped else [term, zero]
            chosen = b.emit_op("select", [condition, *sides]).result
            start = b.emit_op(op.name, [start, chosen], **op.attrs).result
        return start


def ops_of_sides(sides: list[Side]) -> list[Op]:
    return [op for block, _ in sides if block is not None for op in block.ops]


def apart_of(ops: list[Op]) -> list[Op]:
    """The ops that only one side has: what both read or compute is executed anyway."""
    blocks: dict[Hashable, set[Block | None]] = {}
    places = [blocks.setdefault(key(op), set()) for op in ops]
    for op, place in zip(ops, places):
        place.add(op.block)
    return [op for op, place in zip(ops, places) if op.name in EFFECTS or len(place) < 2]
