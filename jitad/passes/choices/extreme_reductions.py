"""Smallest and largest values of a loop become reductions, which LLVM vectorises without ``fastmath`` too.

::

    ^loop(i, best):                                   ^loop(i, part):                    part begins as −∞
      …                                                 …
      c = gt x, best                                    y = select (gt x, −∞), x, −∞     NaN is never chosen
      found = and free, c                               z = select free, y, −∞
      next = select found, x, best        becomes       next = maximum part, z
      branch …, ^loop(j, next), ^exit(next)             branch …, ^loop(j, next), ^own(next)
    ^exit(largest):                                   ^own(part):
                                                        c = gt part, first               first: best at entry
                                                        r = select c, part, first
                                                        branch (c and part = 0), ^ordered, ^done(r)

The chain of comparisons and selections takes 5 to 8 cycles for each element, the reduction less than one.  The result
is the same, but for one case: of zeros of both signs the first is chosen.  If the result is a zero that no value at
entry decides, and if negative zeros are possible, the loop runs again as it was written (``^ordered``).

Only a selection of ``x`` where an ordered comparison holds is taken: of NaN it keeps the old value.  ``max(x, best)``
takes ``x`` where ``best > x`` does not hold, so NaN replaces what was found before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar, dtype_of
from ...ir.uses import ops_of, users
from ..analysis.branches import extreme_of
from ..analysis.cfg import own_exit, set_term
from ..analysis.float_facts import has_no_sign
from ..analysis.loops import Counted, Loop, counted, loop_forest

SHORTEST = 16
"""The least constant trip count: shorter loops have no vectors to fill."""
LARGEST = 120
"""The most ops of a loop that is copied."""
GREATER = {("gt", True): True, ("ge", True): True, ("lt", False): True, ("le", False): True,
           ("lt", True): False, ("le", True): False, ("gt", False): False, ("ge", False): False}
"""By the comparison, and whether the new value is its first operand: True if it looks for the largest."""


@dataclass(frozen=True)
class Extreme:
    """An update of the carried value ``old`` by ``new`` where ``test`` and all of ``others`` hold.

    ``ops``: the selections and conjunctions on the way from the test to the ``result``, the next carried value.
    """

    old: Value
    new: Value
    result: Value
    test: Op
    others: tuple[Value, ...]
    ops: frozenset[Op]

    @property
    def largest(self) -> bool:
        return GREATER[self.test.name, self.test.operands[1] is self.old]


def extreme_reductions(module: Module) -> bool:
    """Rewrite every innermost counted loop that carries only extremes; returns True if there were any."""
    if module.fastmath:
        return False                                     # LLVM may reorder the comparisons itself
    return any([_rewrite(func, loop, known.trip, found) for func in module.functions.values()
                for loop in loop_forest(func).loops if (known := counted(loop)) is not None and is_plain(loop, known)
                for found in [_extremes(loop, known)] if found])


# --- what is rewritten --------------------------------------------------------------------------------

def is_plain(loop: Loop, known: Counted) -> bool:
    """True for an innermost loop of one block on scalars, without effects, that nothing keeps from vectors."""
    head, term = loop.head, loop.head.term
    return (loop.blocks == {head} and loop.exit is not None and term is not None and not term.attrs.get("cold")
            and len(head.ops) <= LARGEST and (known.trip.const or SHORTEST) >= SHORTEST
            and all(isinstance(p.type, Scalar) for p in head.params)
            and all(not OPS[op.name].effect and isinstance(op.result.type, Scalar) for op in head.ops))


def _extremes(loop: Loop, known: Counted) -> list[Extreme]:
    """The extremes that a loop carries; none if it carries anything else."""
    readers = users(ops_of(loop.blocks))
    found = [_extreme(p, a, readers) for p, a in loop.back_edge().passed() if p is not known.iv]
    kept = [e for e in found if e is not None]
    return kept if len(kept) == len(found) else []


def _extreme(old: Value, result: Value, readers: dict[Value, list[Op]]) -> Extreme | None:
    """The update of ``old`` if it is an extreme of which nothing else in the loop reads a part."""
    if not dtype_of(old.type).is_float or old.block is None:
        return None
    others: list[Value] = []
    ops: set[Op] = set()
    value, test = result, None
    while (op := value.op) is not None and op.name == "select" and op.block is old.block and op.operands[2] is old:
        condition, value = op.operands[:2]
        ops.add(op)
        found = extreme_of(condition, _innermost(value, old), old)
        if found is None:
            others.append(condition)
        elif test is not None:
            return None
        else:
            test = found[0]
            others += found[1]
            ops |= found[2]
    if test is None or value is old:
        return None
    within = {*ops, test}
    private = all(user in within for op in (test, *ops) if op.result is not result for user in readers[op.result])
    ends = all(user is old.block.term for user in readers[result])
    if not (private and ends and all(user in within for user in readers[old])):
        return None
    return Extreme(old, value, result, test, tuple(others), frozenset(ops))


def _innermost(value: Value, old: Value) -> Value:
    """The new value below selections that may keep the old one."""
    while value.op is not None and value.op.name == "select" and value.op.operands[2] is old:
        value = value.op.operands[1]
    return value


# --- the reduction ------------------------------------------------------------------------------------

def _rewrite(func: Function, loop: Loop, trip: Value, extremes: list[Extreme]) -> bool:
    """Write the reductions, and the loop as it was behind them where signs of zeros may matter."""
    head, leave, entry = loop.head, loop.exit, loop.entry_edge()
    assert leave is not None and head.term is not None
    signed = any(not has_no_sign(e.new) for e in extremes)
    copy = clone_blocks([head], func, {})[head] if signed else None
    args, first = list(entry.args), {e.result: entry.args[e.old.index] for e in extremes}
    own = own_exit(func, head, leave)
    passed = dict(zip(own.params, next(e for e in head.term.edges if e.block is own).args))
    for extreme in extremes:
        _reduce(loop, trip, extreme)
    assert own.term is not None
    target, b = own.term.edges[0], Builder(own, head.term.loc)
    own.term = None
    results, zeros = _joined(b, extremes, passed, first)
    out = Edge(target.block, [results.get(v, v) for v in target.args])
    if copy is None:
        b.jump(out.block, out.args)
        return True
    ordered, done = func.new_block("ordered"), func.new_block("done")
    b.branch(zeros, ordered, [], done, [])
    set_term(done, "jump", edges=[out])
    set_term(ordered, "jump", edges=[Edge(copy, args)])
    own_exit(func, copy, leave)
    assert copy.term is not None
    copy.term.attrs["cold"] = True
    return True


def _infinity(b: Builder, trip: Value, value: float, t: Scalar) -> Value:
    """An infinity that LLVM does not know.

    With a constant it moves the selections behind the minimum or maximum, and does not vectorise them there.
    """
    return b.mul(b.cast(trip, dtype=t), b.const(value, t)) if trip.const is None else b.const(value, t)


def _reduce(loop: Loop, trip: Value, extreme: Extreme) -> None:
    """Replace the selections by a minimum or maximum, which begins as an infinity."""
    head, preheader, old = loop.head, loop.preheader, extreme.old
    assert head.term is not None and preheader is not None and preheader.term is not None
    name, relation, bound = ("maximum", "gt", -math.inf) if extreme.largest else ("minimum", "lt", math.inf)
    start = _infinity(Builder(preheader, head.term.loc), trip, bound, dtype_of(old.type))
    loop.entry_edge().args[old.index] = start
    head.ops = [op for op in head.ops if op not in extreme.ops and op is not extreme.test]
    b = Builder(head, head.term.loc)
    value = b.select(b.emit(relation, extreme.new, start), extreme.new, start)
    for condition in extreme.others:
        value = b.select(condition, value, start)
    result = b.emit_op(name, [old, value], acc=True, numbers=True).result
    head.term.replace_uses({extreme.result: result})


def _joined(b: Builder, extremes: list[Extreme], passed: dict[Value, Value], first: dict[Value, Value]
            ) -> tuple[dict[Value, Value], Value]:
    """Join what was found with the values at entry; the second result tells whether one is a zero of either sign."""
    results: dict[Value, Value] = {}
    zeros = b.const(False)
    by_result = {e.result: e for e in extremes}
    for p, a in passed.items():
        extreme = by_result.get(a)
        if extreme is not None:
            pair = (p, first[a]) if extreme.test.operands[1] is extreme.old else (first[a], p)
            chosen = b.emit(extreme.test.name, *pair)
            results[p] = b.select(chosen, p, first[a])
            if not has_no_sign(extreme.new):
                zeros = b.or_(zeros, b.and_(b.eq(p, 0.0), chosen))    # zeros are rare: tested first
    return results, zeros
