"""Splits a recurrence from what is computed of its states, so that transcendental functions of these are vectors.

``for r in returns: loss += log(v) + r * r / v; v = a + b * r * r + c * v`` calls one logarithm after the other, though
only ``v`` waits for the iteration before.  The states of a strip are computed ahead, and stored::

    for each strip:
      for j in the strip:  s[j] = v; v = a + b * r * r + c * v           # the recurrence
      for j in the strip:  loss += log(s[j]) + r * r / s[j]              # what is left of the loop

``fission`` then makes vectors of the functions in what is left.  The recurrence may read elements of arrays that the
loop does not change.  It has no checks, and those that are left test floats: no element is read ahead of a check of its
index.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import strongly_connected
from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar, is_float_scalar
from ..analysis.loops import Counted, Loop
from .speculate import CHUNK

MOST = 3
"""The most values of an iteration that are stored."""


def split_states(func: Function, loop: Loop, known: Counted, functions: Container[str]) -> bool:
    """Split a loop of one block if ``functions`` of its states are not part of the recurrence."""
    head = loop.head
    found = _functions_of_states(loop, functions)
    ahead = _before(head, known, [v for op in found for v in op.operands])
    if all(op in ahead for op in found) or not _may_run_ahead(head, ahead):
        return False
    moving = _moving(head, known, ahead)
    rest = [op for op in (*head.ops, head.term) if op is not None and op not in ahead]
    leaving = loop.exit_edge().args
    back = dict(zip(head.params, loop.back_edge().args))
    finals = {back[p] for p in head.params if p in ahead}
    read = [*(v for op in rest if op is not head.term for v in op.operands), *(v for v in leaving if v not in finals),
            *(v for p, v in back.items() if p not in ahead)]
    kept = [v for v in dict.fromkeys(read) if v in moving]
    if len(kept) > MOST or not all(is_float_scalar(v.type) for v in kept):
        return False
    _Strips(func, loop, known, [op for op in head.ops if op in ahead], kept, moving).run(ahead)
    return True


def _functions_of_states(loop: Loop, functions: Container[str]) -> list[Op]:
    """The functions of what the loop carries that are not part of a recurrence."""
    head, states = loop.head, {*loop.head.params[1:]}
    for op in head.ops:
        if not states.isdisjoint(op.operands):
            states.update(op.results)
    found = [op for op in head.ops if op.name in functions and not states.isdisjoint(op.operands)]
    if not found:
        return []
    following: dict[Value, list[Value]] = {v: [] for v in states}
    for op in head.ops:
        for v in following.keys() & op.operands:
            following[v] += op.results
    for p, v in zip(head.params, loop.back_edge().args):
        if v in following and p in following:
            following[v].append(p)
    cycles = {v for part in strongly_connected(following, following) if len(part) > 1 for v in part}
    return [op for op in found if op.result not in cycles]


def _before(head: Block, known: Counted, values: Iterable[Value]) -> set[Op | Value]:
    """The ops and carried values of a loop that values of an iteration depend on, also through those before."""
    assert head.term is not None
    back = next(e for e in head.term.edges if e.block is head)
    todo, seen = list(values), set[Op | Value]()
    while todo:
        v = todo.pop()
        x = v.op if v.op is not None else v
        if v.block is not head or v is known.iv or x in seen:
            continue
        seen.add(x)
        todo += v.op.operands if v.op is not None else [back.args[v.index]]
    return seen


def _may_run_ahead(head: Block, ahead: set[Op | Value]) -> bool:
    """True if the ops of the recurrence are pure, and no check guards what they read."""
    for x in ahead:
        if isinstance(x, Op):
            if not (OPS[x.name].elementwise or x.name in ("get", "const")) or _is_index_of_float(x):
                return False
            values = [*x.results, *(v for v in x.operands if v.block is head)]
        else:
            values = [x]
        if not all(isinstance(v.type, Scalar) for v in values):
            return False
    return all(_tests_floats(op.operands[0], head) for op in head.ops if op.name == "check")


def _is_index_of_float(op: Op) -> bool:
    """True for an integer that is cast from a float, which may be out of range without a check."""
    before = op.operands[0].type if op.name == "cast" else None
    after = op.results[0].type
    return isinstance(before, Scalar) and isinstance(after, Scalar) and before.is_float and not after.is_float


def _tests_floats(condition: Value, head: Block, sides: bool = True) -> bool:
    """True if a condition compares floats.  With ``sides``, also what one side of a branch checks if it is taken.

    Such a selection that is negated might test which side is taken, by an index.
    """
    op = condition.op
    if condition.block is not head or op is None or op.name == "const":
        return False
    if op.name == "select":
        return sides and all(v.const is True or _tests_floats(v, head) for v in op.operands[1:])
    if all(v.type == BOOL for v in op.operands):
        return all(_tests_floats(v, head, sides and op.name in ("and", "or")) for v in op.operands)
    return all(is_float_scalar(v.type) for v in op.operands)


def _moving(head: Block, known: Counted, ahead: set[Op | Value]) -> set[Value]:
    """The values of the recurrence that depend on the iterations before; others are computed again where needed."""
    found = {p for p in head.params if p in ahead}
    for op in head.ops:
        if op in ahead and any(v in found for v in op.operands):
            found.add(op.result)
    return found


class _Strips:
    """Emits the strips.  ``ops``: the recurrence.  ``kept``: what is stored for the rest of the loop."""

    def __init__(self, func: Function, loop: Loop, known: Counted, ops: list[Op], kept: list[Value],
                 moving: set[Value]) -> None:
        self.func, self.loop, self.known, self.ops, self.kept, self.moving = func, loop, known, ops, kept, moving
        self.head = loop.head
        self.strip, self.before, self.between, self.onward = (
            func.new_block(n) for n in ("strip", loop.head.name, "between", "next"))

    def run(self, ahead: set[Op | Value]) -> None:
        loop, head, known = self.loop, self.head, self.known
        preheader, leave = loop.preheader, loop.exit
        assert preheader is not None and preheader.term is not None and leave is not None and head.term is not None
        loc, trip = head.term.loc, known.trip
        back, leaving, entry = loop.back_edge().args, loop.exit_edge().args, loop.entry_edge().args
        states, others = ([p for p in head.params[1:] if (p in ahead) is which] for which in (True, False))
        states_next, others_next = ([back[p.index] for p in ps] for ps in (states, others))
        types = [Array(v.type, (CHUNK,)) for v in self.kept if isinstance(v.type, Scalar)]
        b = Builder(preheader, loc)
        preheader.term = None
        arrays = [b.emit_op("empty", [b.const(CHUNK)], dtype=t.dtype).result for t in types]
        b.jump(self.strip, [b.const(0), *(entry[p.index] for p in (*states, *others)), *arrays])

        b.at(self.strip)
        start = self.strip.add_param(I64, "start")
        now, carried = ([self.strip.add_param(p.type, p.hint) for p in ps] for ps in (states, others))
        arrays = [self.strip.add_param(t) for t in types]
        length = b.minimum(b.sub(trip, start), CHUNK)
        b.jump(self.before, [b.const(0), *now, *arrays])
        after = self._recurrence(b, start, length, states, states_next, types)

        b.at(self.between)
        b.jump(head, [b.const(0), *carried])
        finals = dict(zip(states_next, after))
        wanted = [*others_next, *(v for v in leaving if v not in finals and v.block is head)]
        passed = self._rest(start, length, dict(zip(self.kept, after[len(states):])), others, others_next, wanted)
        b.at(self.onward)
        again = b.add(start, CHUNK)
        b.branch(b.lt(again, trip), self.strip,
                 [again, *after[:len(states)], *(passed[v] for v in others_next), *after[len(states):]],
                 leave, [finals.get(v, passed.get(v, v)) for v in leaving])

    def _recurrence(self, b: Builder, start: Value, length: Value, states: list[Value], states_next: list[Value],
                    types: list[Array]) -> list[Value]:
        """Emit the loop over the states of a strip; returns the last ones, and the arrays of those that are kept."""
        before = self.before
        b.at(before)
        j = before.add_param(I64, self.known.iv.hint)
        values: dict[Value, Value] = {p: before.add_param(p.type, p.hint) for p in states}
        arrays = [before.add_param(t) for t in types]
        values[self.known.iv] = b.add(start, j)
        for op in self.ops:
            copy = clone_op(op, values)
            copy.block = before
            before.ops.append(copy)
        nexts = [values.get(v, v) for v in states_next]
        nexts += [b.emit_op("set", [a, values[v], j]).result for a, v in zip(arrays, self.kept)]
        following = b.add(j, 1)
        after = [self.between.add_param(v.type) for v in nexts]
        b.branch(b.lt(following, length), before, [following, *nexts], self.between, nexts)
        return after

    def _rest(self, start: Value, length: Value, arrays: dict[Value, Value], others: list[Value],
              others_next: list[Value], wanted: list[Value]) -> dict[Value, Value]:
        """Let the loop count within the strip, and read the states; returns what it passes on, by its old value."""
        head, known = self.head, self.known
        ops, head.ops, head.term = head.ops, [], None
        b = Builder(head)
        number = b.add(start, known.iv)
        values: dict[Value, Value] = {known.iv: number, known.next: b.add(number, 1)}
        values |= {v: b.get(a, known.iv) for v, a in arrays.items()}
        for op in ops:
            if op is not known.next.op and not any(v in self.moving for v in op.results):
                op.replace_uses(values)
                head.ops.append(op)
        following = b.add(known.iv, 1)
        results = {v: values.get(v, v) for v in dict.fromkeys(wanted)}
        params = {v: self.onward.add_param(v.type) for v in results}
        for p in [p for p in head.params[1:] if p not in others][::-1]:
            head.remove_param(p.index)
        b.branch(b.lt(following, length), head, [following, *(results[v] for v in others_next)],
                 self.onward, list(results.values()))
        return params
