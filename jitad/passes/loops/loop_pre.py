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

What is computed from the choice behind the loop, as the value of the best one, is the value that the loop has carried::

    ^exit(best):                                        ^exit(best, e):
      y = get a, best                       becomes       … e …

If a path past the loop joins there, what is read and the checks ahead of it are computed on both paths, and the join
receives the result.  On the one from the loop checks of the index hold, since the loop has read at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.expression_keys import alike, translated
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ..analysis.affine import unwrapped
from ..analysis.loops import Loop, LoopForest, loop_forest

Mapping = dict[Value, Value]


def loop_pre(module: Module) -> None:
    """Carry such values in every innermost loop; expects normal form."""
    for func in module.functions.values():
        if any(op.name == "select" for op in func.all_ops()):
            forest = loop_forest(func)
            for loop in forest.loops:
                if loop.latch is loop.head and loop.preheader is not None and _is_free(loop.head):
                    for p in list(loop.head.params):
                        _Carried(loop, p, forest).run()


def _is_free(block: Block) -> bool:
    return not any(OPS[op.name].effect or op.name in ("push", "pop") for op in block.ops)


class _Carried:
    """Carries the expressions of one choice ``p``, whose next value is ``following``.

    ``expressions``: the ops computed from ``p`` and invariant values, in order.
    """

    def __init__(self, loop: Loop, p: Value, forest: LoopForest) -> None:
        self.loop, self.p, self.head, self.forest = loop, p, loop.head, forest
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
        copies: Mapping = {}
        behind = [clone_op(op, copies) for op in expressions]
        final = {copies[e]: self._carry(e, expressions, {o: found[e] for o, found in zip(self.others, same)})
                 for e in carried}
        if carried:
            read = [op for op in expressions if op.name == "get" and all(op.result in found for found in same)]
            inside = {(op.operands[0], axis) for op in read for axis, v in enumerate(op.operands[1:]) if v is self.p}
            self._drop(expressions)
            if self.loop.exit is not None:
                _Behind(self, behind, final, inside).run(self.loop.exit)

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

    def _carry(self, e: Value, expressions: list[Op], same: Mapping) -> Value:
        """Carry ``e``: the start is computed before the loop, and selected in the way in which ``p`` is.

        Returns the value for the next iteration.
        """
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
        following = self._chosen(self.following, carried, same)
        loop.back_edge().args.append(following)
        return following

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


class _Behind:
    """Replaces what is computed from the choice behind the loop.

    ``expressions``: copies of the ops that compute it from ``p``; ``final``: what the loop has carried of them at last.
    ``inside``: arrays and axes where the choice is in bounds, whichever it is.
    """

    def __init__(self, carried: _Carried, expressions: list[Op], final: Mapping, inside: set[tuple[Value, int]]
                 ) -> None:
        self.loop, self.p, self.following, self.dom = carried.loop, carried.p, carried.following, carried.forest.dom
        self.expressions, self.final, self.inside = expressions, final, inside

    def run(self, exit: Block) -> None:
        at = next((v for v in exit.params if self.loop.exit_edge().argument(v) is self.following), None)
        if at is None:
            return
        blocks = [exit]
        for block in blocks:
            blocks += self.dom.children[block]
        found = self._found(at, [op for block in blocks for op in block.ops])
        if found:
            given = {value: self._left(exit, e) for value, e in found.items()}
            for block in blocks:
                for op in block.all_ops():
                    op.replace_uses(given)
            _drop_dead(exit.func, [value.op for value in found if value.op is not None])
        elif not exit.ops and exit.term is not None and exit.term.name == "jump":
            self._run_join(exit, at, exit.term.edges[0].block)

    def _left(self, exit: Block, e: Value) -> Value:
        """A parameter of the exit for what the loop has carried."""
        self.loop.exit_edge().args.append(self.final[e])
        return exit.add_param(e.type, e.hint)

    def _found(self, at: Value, ops: Iterable[Op]) -> Mapping:
        """The results of ``ops`` that are what the loop has carried, for the choice ``at``."""
        ops = list(ops)
        index = {op.result: at for op in ops if self.inside and op.name == "select" and unwrapped(op.result) is at}
        known = {translated(op, index): op.result for op in reversed(ops) if len(op.results) == 1}
        found: Mapping = {self.p: at}
        own = {op.result for op in self.expressions} | {self.p}
        for op in self.expressions:
            if all(v in found for v in op.operands if v in own):
                value = known.get(translated(op, found))
                if value is not None:
                    found[op.result] = value
        return {found[e]: e for e in self.final if e in found}

    # --- a path past the loop -----------------------------------------------------------------------

    def _run_join(self, exit: Block, at: Value, join: Block) -> None:
        """As ``run``, if ``exit`` leads to a join with a path past the loop."""
        assert exit.term is not None
        edge = exit.term.edges[0]
        joined = next((v for v in join.params if edge.argument(v) is at), None)
        past = [b for b in self.dom.preds[join] if b is not exit]
        if joined is None or len(past) != 1 or past[0].ops or past[0].term is None or past[0].term.name != "jump":
            return
        found = self._found(joined, join.ops)
        moving = _needed(join, found)
        if moving:
            self._split(exit, join, past[0], found, moving)

    def _split(self, exit: Block, join: Block, past: Block, found: Mapping, moving: list[Op]) -> None:
        """Compute ``moving`` ahead of ``join``, on each path."""
        assert exit.term is not None and past.term is not None
        ways = [block.term.edges[0] for block in (exit, past) if block.term is not None]
        mine, other = ({v: a for v in join.params if (a := e.argument(v)) is not None} for e in ways)
        for op in moving:
            copy = clone_op(op, other)
            copy.block = past
            past.ops.append(copy)
        inside = set(moving)
        join.ops = [op for op in join.ops if op not in inside]
        results = [v for op in moving for v in op.results]
        read = {v for b in join.func.blocks for op in b.all_ops() if op not in inside for v in op.used()}
        given = {v: join.add_param(v.type, v.hint) for v in results if v in read}
        for b in join.func.blocks:
            for op in b.all_ops():
                if op not in inside:
                    op.replace_uses(given)
        for op in moving:
            op.block = exit
            op.replace_uses(mine)
        at = exit.params[next(v for v in exit.params if self.loop.exit_edge().argument(v) is self.following).index]
        exit.ops += [op for op in moving if op.name != "check" or not self._holds(op.operands[0], at)
                     and not self._is_checked(op.operands[0], exit)]
        left = {value: self._left(exit, e) for value, e in found.items() if value in given}
        for v in given:
            ways[0].args.append(left.get(v, v))
            ways[1].args.append(other[v])
        _drop_dead(join.func, [op for op in exit.ops if op.name != "check"])

    def _holds(self, condition: Value, at: Value) -> bool:
        """True for comparisons of the index ``at`` with the bounds of an array at which the loop has read there."""
        op = condition.op
        if op is None or not self.inside:
            return False
        if op.name == "and":
            return all(self._holds(v, at) for v in op.operands)
        x, *bound = op.operands
        is_index = unwrapped(x) is at
        if op.name == "ge":
            return is_index and bool(bound[0].const == 0)
        size = bound[0].op if bound else None
        return op.name == "lt" and is_index and size is not None and size.name == "dim" and \
            (size.operands[0], size.attrs["axis"]) in self.inside

    def _is_checked(self, condition: Value, block: Block | None) -> bool:
        """True if a check ahead of ``block`` tests the same."""
        while (block := self.dom.idom[block] if block is not None else None) is not None:
            if any(op.name == "check" and alike(op.operands[0], condition) for op in block.ops):
                return True
        return False


def _needed(join: Block, found: Mapping) -> list[Op]:
    """The checks up to the last of the values ``found``, these, and what they are computed from; [] if not of scalars.
    """
    last = max((k for k, op in enumerate(join.ops) if not found.keys().isdisjoint(op.results)), default=-1)
    needed: list[Op] = []
    read = set(found)
    for op in reversed(join.ops[:last + 1]):
        if op.name == "check" or not read.isdisjoint(op.results):
            if any(not isinstance(v.type, Scalar) for v in op.results):
                return []
            needed.append(op)
            read.update(op.operands)
        elif OPS[op.name].effect:
            return []
    return needed[::-1]


def _drop_dead(func: Function, ops: list[Op]) -> None:
    """Drop those of ``ops``, and of what they alone read, that nothing reads."""
    read = Counter(v for b in func.blocks for op in b.all_ops() for v in op.used())
    todo = list(ops)
    while todo:
        op = todo.pop()
        block = op.block
        if block is None or op not in block.ops or OPS[op.name].effect or any(read[v] for v in op.results):
            continue
        block.ops.remove(op)
        read.subtract(op.used())
        todo += [v.op for v in op.operands if v.op is not None and v.op.name != "const"]
