"""Moves conditions on a counter into the bounds of its loop (guard elimination).

::

    for q in range(n):                           for q in range(max(0, r - j), min(n, w + r - j)):
        if 0 <= j + q - r and j + q - r < w:  →      s += f[q] * x[j + q - r]
            s += f[q] * x[j + q - r]

Windows that hang over a border, bands and triangles are written so.  Without the condition the loop becomes vectors,
its checks are hoisted, and a derivative keeps no condition.  Every iteration that is left out would have changed
nothing, so this is exact.  Conditions that do not change in the loop are tested ahead of it; those that depend on data
stay.

The sums in a condition are known not to wrap (``Ranges``; no loop runs ``LONGEST`` iterations).  A bound that may be
any integer is clamped first, which does not change its comparison with smaller numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import MIRRORED, NEGATED, ORDERS
from ...ir.types import I64
from ..analysis.affine import Affine, atom
from ..analysis.cfg import is_pure, merge_chains, remove_unreachable
from ..analysis.loops import Counted, Loop, counted, exit_values, loop_forest
from ..analysis.ranges import Ranges

LONGEST = 2**56
FAR = 2**61
"""Sums below this do not wrap when they are added; other bounds are clamped to it."""
SHORTEST = 6
"""The least constant trip count; shorter loops are unrolled."""


@dataclass
class Bounds:
    """``low <= counter < high`` for each of the forms, and what else a branch tests: ``ahead`` of the loop, and in it.

    ``inside``: the edge that is taken where all of it holds.
    """

    inside: Edge
    low: list[Affine] = field(default_factory=list)
    high: list[Affine] = field(default_factory=list)
    ahead: list[tuple[Value, bool]] = field(default_factory=list)
    rest: list[tuple[Value, bool]] = field(default_factory=list)


def loop_bounds(module: Module) -> bool:
    """Narrow every such loop; expects normal form.  Returns True if there was one."""
    changed = False
    for func in module.functions.values():
        while _narrow_some(func):                        # a test ahead of a loop may be one of the loop around it
            remove_unreachable(func)
            merge_chains(func)
            changed = True
    return changed


def _narrow_some(func: Function) -> bool:
    """Narrow loops none of which is in another."""
    forest = loop_forest(func)
    ranges, done = Ranges(), set[Block]()
    for loop in forest.loops:
        if (known := counted(loop)) is not None:
            ranges.intervals[known.iv] = 0, LONGEST
    for loop in forest.loops:
        if done.isdisjoint(loop.blocks) and (found := Guard(loop, ranges).bounds()) is not None:
            done |= loop.blocks
            _narrow(func, loop, found, ranges)
    return bool(done)


class Guard:
    """A branch at the head of a loop, one side of which changes nothing."""

    def __init__(self, loop: Loop, ranges: Ranges) -> None:
        self.loop, self.ranges = loop, ranges

    def bounds(self) -> Bounds | None:
        """The bounds that the branch sets the counter, if there are any."""
        loop, term = self.loop, self.loop.head.term
        known = counted(loop) if loop.exit is not None else None
        if known is None or term is None or term.name != "branch" or loop.head is loop.latch or \
                known.trip.const is not None and known.trip.const < SHORTEST or \
                exit_values(loop, known) is None or not all(map(is_pure, loop.head.ops)):
            return None
        for inside, outside in (term.edges, term.edges[::-1]):
            if self._changes_nothing(known, outside) and not self._is_entry(inside, term.operands[0]):
                found = Bounds(inside)
                for condition, holds in conjuncts(term.operands[0], inside is term.edges[0]):
                    self.add(found, known.iv, condition, holds)
                return found if found.low or found.high else None
        return None

    def _is_entry(self, edge: Edge, condition: Value) -> bool:
        """True if a branch only tests whether an inner loop has iterations."""
        for loop in self.loop.children:
            known = counted(loop)
            if known is not None and edge.block is loop.preheader and condition.op is not None:
                return condition.op.name == "lt" and condition.op.operands[1] is known.trip
        return False

    def _changes_nothing(self, known: Counted, edge: Edge) -> bool:
        """True if an edge leads straight to the latch with nothing but the values that the iteration began with."""
        passed: dict[Value, Value] = {}
        while True:
            block, term = edge.block, edge.block.term
            if term is None or block not in self.loop.blocks or block is self.loop.head or \
                    not all(map(is_pure, block.ops)):
                return False
            passed |= {p: passed.get(v, v) for p, v in edge.passed()}
            if block is self.loop.latch:
                break
            if term.name != "jump":
                return False
            edge = term.edges[0]
        return all(p is known.iv or passed.get(v, v) is p for p, v in self.loop.back_edge().passed())

    def add(self, found: Bounds, iv: Value, condition: Value, holds: bool) -> None:
        """Add to ``found`` what a condition, which holds or not, tells of the counter ``iv``."""
        op = condition.op
        if self.is_outside(condition):
            found.ahead.append((condition, holds))
        elif op is None or op.name not in ORDERS or op.operands[0].type != I64 or not self._is_bound(
                found, iv, op.name if holds else NEGATED[op.name], *op.operands):
            found.rest.append((condition, holds))

    def _is_bound(self, found: Bounds, iv: Value, relation: str, x: Value, y: Value) -> bool:
        """Add the bounds of the counter that a comparison sets; returns False if it sets none."""
        for name, moving, border in ((relation, x, y), (MIRRORED[relation], y, x)):
            limit = atom(border) if self.is_outside(border) else self.ranges.form(border)
            forms = [self.ranges.form(moving)]
            if moving.op is not None and moving.op.name == "abs" and name in ("lt", "le"):
                form = self.ranges.form(moving.op.operands[0])
                forms = [form, form.times(-1)]
            if all(f.coefficient(iv) in (1, -1) and self.is_near(f.without(iv)) for f in forms) and \
                    (self.is_outside(border) or self.is_near(limit)):
                for form in forms:
                    _bound(found, name, form, iv, limit)
                return True
        return False

    def is_outside(self, v: Value) -> bool:
        return v.block not in self.loop.blocks

    def is_near(self, form: Affine) -> bool:
        low, high = self.ranges.form_interval(form)
        return -FAR <= low and high <= FAR and all(self.is_outside(v) for v, _ in form.terms)


def _bound(found: Bounds, relation: str, form: Affine, iv: Value, limit: Affine) -> None:
    """Add the bound that ``form relation limit`` is for ``iv``, which the form has plus or minus once."""
    sign = form.coefficient(iv)
    at, relation = limit.minus(form.without(iv)).times(sign), relation if sign == 1 else MIRRORED[relation]
    (found.high if relation in ("lt", "le") else found.low).append(at.plus(Affine(int(relation in ("le", "gt")))))


def conjuncts(condition: Value, holds: bool) -> list[tuple[Value, bool]]:
    """The conditions, and how each must turn out, of which ``condition`` being ``holds`` is the conjunction."""
    op = condition.op
    if op is not None and op.name == ("and" if holds else "or"):
        return [pair for v in op.operands for pair in conjuncts(v, holds)]
    if op is not None and op.name == "not":
        return conjuncts(op.operands[0], not holds)
    return [(condition, holds)]


def _narrow(func: Function, loop: Loop, bounds: Bounds, ranges: Ranges) -> None:
    known, preheader, latch = counted(loop), loop.preheader, loop.latch
    assert known is not None and preheader is not None and latch is not None and latch.term is not None
    results, start, leave = exit_values(loop, known), loop.entry_edge().args, loop.exit_edge()
    assert results is not None
    enter, skip = map(func.new_block, ("preheader", "skip"))
    b = Builder(preheader, latch.term.loc)
    preheader.term = None
    low, high = b.const(0), known.trip
    for form in bounds.low:
        low = b.maximum(low, bound_value(b, form, ranges))
    for form in bounds.high:
        high = b.minimum(high, bound_value(b, form, ranges))
    b.branch(_all(b, b.lt(low, high), bounds.ahead), enter, [], skip, [])
    b.at(skip)
    b.jump(leave.block, [start[r] if isinstance(r, int) else r for r in results])
    b.at(enter)
    trip = b.sub(high, low)
    b.jump(loop.head, start)
    _count(func, loop, known, low, trip)
    _test_the_rest(loop.head, bounds)


def _count(func: Function, loop: Loop, known: Counted, low: Value, trip: Value) -> None:
    """Let a loop count ``trip`` iterations, from ``low`` on."""
    latch, back, leave = loop.latch, loop.back_edge(), loop.exit_edge()
    assert latch is not None and latch.term is not None
    number = Op("add", [known.iv, low], [I64], loc=latch.term.loc)
    for op in (op for block in loop.blocks for op in block.all_ops()):
        op.replace_uses({known.iv: number.result})
    number.block = loop.head
    loop.head.ops.insert(0, number)
    b, behind = Builder(latch, latch.term.loc), func.new_block("exit")
    latch.term = None
    back.args[known.iv.index] = following = b.add(known.iv, 1)
    b.branch(b.lt(following, trip), loop.head, back.args, behind, leave.args)
    b.at(behind)
    b.jump(leave.block, [behind.add_param(v.type, v.hint) for v in leave.args])


def _test_the_rest(head: Block, bounds: Bounds) -> None:
    """Leave in the loop what sets no bound."""
    term, inside = head.term, bounds.inside
    assert term is not None
    outside = next(e for e in term.edges if e is not inside)
    head.term = None
    b = Builder(head, term.loc)
    if bounds.rest:
        b.branch(_all(b, None, bounds.rest), inside.block, inside.args, outside.block, outside.args)
    else:
        b.jump(inside.block, inside.args)


def _all(b: Builder, test: Value | None, conditions: Sequence[tuple[Value, bool]]) -> Value:
    """Emit the conjunction of ``test`` with conditions, each of which must turn out as told."""
    for condition, holds in conditions:
        one = condition if holds else b.not_(condition)
        test = one if test is None else b.and_(test, one)
    assert test is not None
    return test


def bound_value(b: Builder, form: Affine, ranges: Ranges) -> Value:
    """Emit the value of a form, each atom of which is clamped if it may be far."""
    total = b.const(form.constant)
    for v, times in form.terms:
        low, high = ranges.interval(v)
        if not -FAR <= low <= high <= FAR:
            v = b.minimum(b.maximum(v, -FAR), FAR)
        total = b.sub(total, v) if times == -1 else b.add(total, v if times == 1 else b.mul(v, times))
    return total
