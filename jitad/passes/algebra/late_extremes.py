"""Python's ``min`` and ``max`` of floats take the operand that the next iteration waits for last.

::

    ^loop(i, left, …):                                 ^loop(i, left, …):
      v = add left, one                                  v = add left, one
      best = select (lt v, above), v, above    becomes   m = select (lt t, above), t, above
      next = select (lt t, best), t, best                next = select (lt v, m), v, m
      branch …, ^loop(j, next, …)                        branch …, ^loop(j, next, …)

Both are NaN if ``above`` is, and pass over a NaN in ``v`` or ``t``.  Where ``v`` and ``t`` are equal and less than
``above``, the one form yields the one and the other the other.  These are the same, unless one is +0 and the other −0;
so neither may be −0, as no sum is in which one term is not.  Where that term is a number from outside of the loop, as
the cost of an edit, there are two versions of the loop: one for numbers that are not zero, and the loop as it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import Scalar, is_float_scalar
from ...ir.uses import counts, ops_of
from ..analysis.cfg import own_exit, set_term
from ..analysis.loops import Loop, loop_forest

DEEP = 6
"""The deepest expression that is looked into for −0."""
MOST = 3
"""The most numbers from outside that are compared with zero."""
TESTS = ("lt", "gt")


@dataclass
class _Pair:
    """``select`` yields ``t`` or ``best``; ``below``, which yields ``best``, is ``v``, which is late, or ``above``."""

    select: Op
    kind: str
    t: Value
    below: Op
    v: Value
    above: Value


def late_extremes(order: list[Block], late: set[Value], read: Counter[Value], given: Collection[Value]) -> None:
    """Rewrite such selections in the blocks of a loop.

    ``late``: what an iteration waits for; ``read``: the number of uses of each value; ``given``: values that are not
    zero.
    """
    late = set(late)
    for block in order:
        for op in list(block.ops):
            pair = _pair(op, late, read) if op.block is block else None
            if pair is not None and all(_may_be_minus_zero(x).keys() <= set(given) for x in (pair.v, pair.t)):
                _pull(pair, read)
            if not late.isdisjoint(op.operands):
                late.update(op.results)


def versions(func: Function, late_in: Callable[[Loop, list[Block]], set[Value]]) -> dict[Block, set[Value]]:
    """Make two versions of each loop of one block that has such selections if numbers from outside are not zero.

    Returns these numbers, by the head of the version.
    """
    forest, found = loop_forest(func), dict[Loop, dict[Value, None]]()
    for loop in forest.loops:
        if loop.latch is not loop.head or loop.preheader is None or loop.exit is None or \
                loop.head.term is None or loop.head.term.attrs.get("cold"):
            continue
        if any(op.name == "select" and is_float_scalar(op.result.type) for op in loop.head.ops):
            if wanted := _wanted(loop, late_in(loop, [loop.head])):
                found[loop] = wanted
    opened = forest.open_loops() if found else set()
    return {_version(func, loop, wanted): set(wanted) for loop, wanted in found.items() if loop not in opened}


def _wanted(loop: Loop, late: set[Value]) -> dict[Value, None]:
    """The numbers from outside of a loop that must not be zero; none if nothing is gained or they are too many."""
    late, read, wanted = set(late), counts(ops_of([loop.head])), dict[Value, None]()
    for op in loop.head.ops:
        pair = _pair(op, late, read) if late else None
        if pair is not None:
            wanted |= _may_be_minus_zero(pair.v) | _may_be_minus_zero(pair.t)
        if not late.isdisjoint(op.operands):
            late.update(op.results)
    known = all(v.block is not loop.head and v.const is None for v in wanted)
    return wanted if known and len(wanted) <= MOST else {}


def _version(func: Function, loop: Loop, wanted: Iterable[Value]) -> Block:
    """Copy a loop for numbers that are not zero; returns the head of the copy."""
    preheader, head, leave, entry = loop.preheader, loop.head, loop.exit, loop.entry_edge()
    assert preheader is not None and leave is not None and head.term is not None
    copy = clone_blocks([head], func, {})[head]
    head.term.attrs["cold"] = True                       # the lowering keeps its code small
    term, preheader.term = preheader.term, None
    assert term is not None
    b = Builder(preheader, term.loc)
    holds = b.const(True)
    for v in wanted:
        assert isinstance(v.type, Scalar)
        holds = b.and_(holds, b.ne(v, b.const(0.0, v.type)))
    fast, slow = func.new_block("fast"), func.new_block("zero")
    set_term(fast, "jump", edges=[Edge(copy, list(entry.args))])
    set_term(slow, "jump", edges=[Edge(head, list(entry.args))])
    set_term(preheader, "branch", [holds], [Edge(fast), Edge(slow)])
    for end in (head, copy):
        own_exit(func, end, leave)
    return copy


def _pair(op: Op, late: set[Value], read: Counter[Value]) -> _Pair | None:
    """The two selections of which ``op`` is the second, if the late operand is that of the first."""
    outer = _extreme(op)
    if outer is None or outer[1] in late or outer[2] not in late:
        return None
    kind, t, best = outer
    below, test = best.op, op.operands[0].op
    inner = _extreme(below) if below is not None and below.block is op.block else None
    assert test is not None
    if below is None or inner is None or inner[0] != kind or inner[1] not in late or inner[2] in late:
        return None
    first = below.operands[0].op
    assert first is not None
    own = test.block is first.block is op.block and read[best] == 2 and read[test.result] == read[first.result] == 1
    return _Pair(op, kind, t, below, inner[1], inner[2]) if own else None


def _pull(pair: _Pair, read: Counter[Value]) -> None:
    op, block, (condition, t, _) = pair.select, pair.select.block, pair.select.operands
    test, first = condition.op, pair.below.operands[0].op
    assert block is not None and test is not None and first is not None
    at = block.ops.index(test)
    early_test = Op(pair.kind, [t, pair.above], [condition.type], loc=op.loc)
    early = Op("select", [early_test.result, t, pair.above], [op.result.type], loc=op.loc)
    early_test.block = early.block = block
    block.ops[at:at] = [early_test, early]
    test.name, test.operands = pair.kind, [pair.v, early.result]
    op.operands = [condition, pair.v, early.result]
    for gone in (pair.below, first):
        block.ops.remove(gone)
        gone.block = None
    read.update({early_test.result: 1, early.result: 2})


def _extreme(op: Op) -> tuple[str, Value, Value] | None:
    """For ``x if x < y else y`` of floats the comparison by which ``x`` replaces ``y``, ``x`` and ``y``."""
    if op.name != "select" or not is_float_scalar(op.result.type):
        return None
    condition, x, y = op.operands
    test = condition.op
    if test is None or test.name not in TESTS or x is y:
        return None
    if test.operands == [x, y]:
        return test.name, x, y
    return (TESTS[test.name == "lt"], x, y) if test.operands == [y, x] else None


def _may_be_minus_zero(v: Value, depth: int = DEEP) -> dict[Value, None]:
    """The values all of which are not zero only if ``v`` is not −0; itself if that does not follow from others."""
    if v.const is not None:
        return {v: None} if v.const == 0 and math.copysign(1.0, v.const) < 0 else {}
    op = v.op
    if op is None or not depth:
        return {v: None}
    if op.name == "add":                                  # −0 is the sum of −0 and −0 alone
        return min((_may_be_minus_zero(x, depth - 1) for x in op.operands), key=lambda found: _rank(found, op.block))
    if op.name == "sub":                                  # and the difference of −0 and +0
        return _may_be_minus_zero(op.operands[0], depth - 1)
    if op.name == "select":
        return _may_be_minus_zero(op.operands[1], depth - 1) | _may_be_minus_zero(op.operands[2], depth - 1)
    if op.name == "cast" and isinstance(t := op.operands[0].type, Scalar) and (t.is_int or t.is_bool):
        return {}
    if op.name == "mul" and op.operands[0] is op.operands[1] or op.name in ("abs", "exp"):
        return {}
    return {v: None}


def _rank(found: Collection[Value], block: Block | None) -> tuple[int, int]:
    """Values from outside of a block come before its own."""
    return sum(v.block is block for v in found), len(found)
