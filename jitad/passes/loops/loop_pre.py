"""Partial redundancy elimination across iterations: what is computed from a choice is carried beside it.

A loop that looks for the best candidate by its index computes the value of the best one again in each iteration::

    ^loop(i, best):                                     e0 = get a, b0
      x = get a, i                                      ^loop(i, best, e):
      y = get a, best                       becomes       x = get a, i
      c = gt x, y                                         c = gt x, e
      next = select c, i, best                            next = select c, i, best
      branch …, ^loop(j, next)                            branch …, ^loop(j, next, (select c, x, e))

``best`` is what it was or ``i``, for which the iteration has computed the same expression already.  So the next
iteration can be given the value.  Otherwise each iteration waits for a load whose address the one before has chosen.

Applies to loops of one block without checks: the reads in the first iteration are then in bounds before the loop too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.expression_keys import translated
from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ..analysis.loops import Loop, loop_forest

Mapping = dict[Value, Value]


def loop_pre(module: Module) -> None:
    """Carry such values in every innermost loop; expects normal form."""
    for func in module.functions.values():
        if any(op.name == "select" for op in func.all_ops()):
            for loop in loop_forest(func).loops:
                if loop.latch is loop.head and loop.preheader is not None and _is_free(loop.head):
                    for p in list(loop.head.params):
                        _Carried(loop, p).run()


def _is_free(block: Block) -> bool:
    return not any(OPS[op.name].effect or op.name in ("push", "pop") for op in block.ops)


class _Carried:
    """Carries the expressions of one choice ``p``, whose next value is ``following``.

    ``expressions``: the ops computed from ``p`` and invariant values, in order.
    """

    def __init__(self, loop: Loop, p: Value) -> None:
        self.loop, self.p, self.head = loop, p, loop.head
        self.following = loop.back_edge().args[p.index]
        self.others = list(dict.fromkeys(v for v in self._leaves(self.following) if v is not p))

    def _leaves(self, v: Value) -> Iterator[Value]:
        """The values among which selections choose ``v``."""
        if v.block is self.head and v.op is not None and v.op.name == "select":
            for side in v.op.operands[1:]:
                yield from self._leaves(side)
        else:
            yield v

    def run(self) -> None:
        if not isinstance(self.p.type, Scalar) or self.following.op is None or self.following.block is not self.head \
                or not self.others or self.p not in self._leaves(self.following):
            return
        expressions = self._expressions()
        roots = self._roots(expressions) if expressions else []
        if not any(_is_worth(op) for op in expressions):
            return
        same = [self._computed_for(other, expressions) for other in self.others]
        carried = [e for e in roots if all(e in found for found in same)]
        for e in carried:
            self._carry(e, expressions, {o: found[e] for o, found in zip(self.others, same)})
        if carried:
            self._drop(expressions)

    def _drop(self, expressions: list[Op]) -> None:
        """Drop the expressions that nothing reads any more."""
        read = Counter(v for b in self.loop.head.func.blocks for op in b.all_ops() for v in op.used())
        for op in reversed(expressions):
            if not read[op.result]:
                self.head.ops.remove(op)
                read.subtract(op.used())

    def _expressions(self) -> list[Op]:
        found: list[Op] = []
        known = {self.p}
        for op in self.head.ops:
            definition = OPS[op.name]
            own = [v for v in op.operands if v.block is self.head and v.const is None]
            if own and all(v in known for v in own) and not definition.consumes and len(op.results) == 1 and \
                    isinstance(op.result.type, Scalar):
                known.add(op.result)
                found.append(op)
        return found

    def _roots(self, expressions: list[Op]) -> list[Value]:
        """The results that other ops of the loop read."""
        inside = set(expressions)
        assert self.head.term is not None
        read = {v for op in (*self.head.ops, self.head.term) if op not in inside for v in op.used()}
        return [op.result for op in expressions if op.result in read]

    def _computed_for(self, other: Value, expressions: list[Op]) -> Mapping:
        """For each expression, the value that the loop computes for ``other`` in the place of ``p``, if it does."""
        available = {translated(op, {}): op.result for op in self.head.ops if op.results}
        found: Mapping = {self.p: other}
        for op in expressions:
            if all(v in found for v in op.operands if v.block is self.head and v.const is None):
                value = available.get(translated(op, found))
                if value is not None:
                    found[op.result] = value
        return found

    def _carry(self, e: Value, expressions: list[Op], same: Mapping) -> None:
        """Carry ``e``: the start is computed before the loop, and selected in the way in which ``p`` is."""
        loop, preheader = self.loop, self.loop.preheader
        assert preheader is not None and preheader.term is not None
        values: Mapping = {self.p: loop.entry_edge().args[self.p.index]}
        for op in (*self._constants(), *expressions):
            copy = clone_op(op, values)
            copy.block = preheader
            preheader.ops.append(copy)
        carried = self.head.add_param(e.type, e.hint)
        loop.entry_edge().args.append(values[e])
        for op in self.head.all_ops():
            op.replace_uses({e: carried})
        loop.back_edge().args.append(self._chosen(self.following, carried, same))

    def _constants(self) -> list[Op]:
        return [op for op in self.head.ops if op.name == "const"]

    def _chosen(self, v: Value, carried: Value, same: Mapping) -> Value:
        if v is self.p:
            return carried
        if v.op is None or v.block is not self.head or v.op.name != "select":
            return same[v]
        c, x, y = v.op.operands
        b = Builder(self.head, v.op.loc)
        return b.select(c, self._chosen(x, carried, same), self._chosen(y, carried, same))


def _is_worth(op: Op) -> bool:
    """True for a read, or an op that takes longer than the selection."""
    return op.name == "get" or OPS[op.name].cost >= EXPENSIVE
