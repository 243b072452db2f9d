"""Moves the condition of a ``break`` at the beginning of a loop into the bound of the loop.

::

    for k in range(1, lags + 1):                 for k in range(1, min(lags + 1, n - i)):
        if i + k >= n:                    →          g[k] += (x[i + k] - x[i]) ** 2
            break
        g[k] += (x[i + k] - x[i]) ** 2

The condition compares the counter, so the iteration in which it holds first is known ahead of the loop.  A loop with a
``break`` is not counted: it becomes no vectors, and its derivative keeps the number of iterations and all counters.
Conditions that do not change in the loop, or that hold in the first iteration if at all, are tested ahead of it.

The loop is in normal form: its latch receives a number, negative for another iteration, or else the number of the exit
(``loops/loop_simplify.py``).  Where later code reads the number, it is chosen behind the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import BOOL, I64
from ...ir.uses import users
from ..analysis.affine import Affine
from ..analysis.cfg import is_pure, merge_chains, remove_unreachable, set_term
from ..analysis.loops import Loop, counted, loop_forest
from ..analysis.ranges import Ranges
from .loop_bounds import LONGEST, Bounds, Guard, bound_value, conjuncts


def break_bounds(module: Module) -> bool:
    """Rewrite every such loop; expects normal form.  Returns True if there was one."""
    changed = False
    for func in module.functions.values():
        while _rewrite_some(func):                           # one ``break`` may follow another
            remove_unreachable(func)
            merge_chains(func)
            _test_counters(func)
            changed = True
    return changed


def _test_counters(func: Function) -> None:
    """Let latches that receive the number of no other exit test what the number has been chosen by."""
    for term in (block.term for block in func.blocks if block.term is not None and block.term.name == "branch"):
        test = term.operands[0].op
        chosen = test.operands[0].op if test is not None and test.name == "lt" and test.operands[1].const == 0 else None
        if chosen is not None and chosen.name == "select" and chosen.operands[1].const == -1 and \
                (number := chosen.operands[2].const) is not None and number >= 0:
            term.operands = [chosen.operands[0]]


@dataclass(frozen=True)
class _Count:
    """How a loop counts: ``edge``, into the latch, passes ``number`` once ``following`` is not below ``trip``.

    ``code``: the parameter of the latch that receives the numbers.
    """

    iv: Value
    following: Value
    trip: Value
    code: Value
    number: int
    edge: Edge


@dataclass(frozen=True)
class _Break:
    """A branch at the head: ``inside`` where the loop goes on, and the ``passed`` values with which it ends.

    ``equal``: iterations in which it ends the loop, if they are not negative.
    """

    inside: Edge
    passed: dict[Value, Value]
    bounds: Bounds
    equal: list[Affine]


def _rewrite_some(func: Function) -> bool:
    """Rewrite loops none of which is in another."""
    done = set[Block]()
    loops = [loop for loop in loop_forest(func).loops if _count(loop) is not None]
    if not loops:
        return False
    ranges, read = Ranges(), users(op for block in func.blocks for op in block.all_ops())
    for loop in loop_forest(func).loops:
        if (known := counted(loop) or _count(loop)) is not None:
            ranges.intervals[known.iv] = 0, LONGEST
    for loop in loops:
        count = _count(loop)
        if count is not None and done.isdisjoint(loop.blocks) and (found := _find(loop, count, ranges)) is not None:
            results = _results(loop, count, found, read)
            if results is not None:
                done |= loop.blocks
                _rewrite(func, loop, count, found, results, ranges)
    return bool(done)


def _count(loop: Loop) -> _Count | None:
    """How a loop counts whose latch receives the numbers of its exits."""
    latch = loop.latch
    test = latch.term.operands[0].op if latch is not None and latch.term is not None and latch.term.operands else None
    if latch is None or loop.exit is None or loop.preheader is None or test is None or test.name != "lt" or \
            test.operands[1].const != 0 or test.operands[0].owner is not latch or loop.head is latch or \
            latch.term is None or latch.term.edges[0].block is not loop.head:
        return None
    code, found = test.operands[0], list[_Count]()
    for edge in (e for b in loop.blocks if b.term is not None for e in b.term.edges if e.block is latch):
        passed = edge.argument(code)
        if passed is None or passed.const is not None and passed.const < 0:
            return None
        if passed.const is None:
            one = _counts(loop, code, edge, passed.op)
            if one is None:
                return None
            found.append(one)
    return found[0] if len(found) == 1 else None


def _counts(loop: Loop, code: Value, edge: Edge, chosen: Op | None) -> _Count | None:
    """How the loop counts if ``edge`` passes ``chosen``, ``select(following < trip, -1, number)``."""
    if chosen is None or chosen.name != "select" or chosen.operands[1].const != -1:
        return None
    test, number = chosen.operands[0].op, chosen.operands[2].const
    if test is None or test.name != "lt" or number is None or number < 0 or test.operands[1].block in loop.blocks:
        return None
    following, trip = test.operands
    step, back = following.op, loop.back_edge()
    if step is None or step.name != "add" or step.operands[1].const != 1:
        return None
    iv = step.operands[0]
    if iv.owner is not loop.head or loop.entry_edge().args[iv.index].const != 0:
        return None
    again = back.args[iv.index]
    if again is not following and (again.owner is not loop.latch or edge.argument(again) is not following):
        return None
    return _Count(iv, following, trip, code, number, edge)


def _find(loop: Loop, count: _Count, ranges: Ranges) -> _Break | None:
    """The branch at the head, if one side ends the loop, for a condition of the counter."""
    term = loop.head.term
    if term is None or term.name != "branch" or not all(map(is_pure, loop.head.ops)):
        return None
    for inside, outside in (term.edges, term.edges[::-1]):
        passed = _passed(loop, outside)
        number = passed[count.code].const if passed is not None else None
        if passed is None or number is None or number < 0:
            continue
        guard, bounds, equal = Guard(loop, ranges), Bounds(inside), list[Affine]()
        for condition, holds in conjuncts(term.operands[0], inside is term.edges[0]):
            if (at := _equals(guard, count.iv, condition, holds)) is not None:
                equal.append(at)
            else:
                guard.add(bounds, count.iv, condition, holds)
        if not bounds.rest and (bounds.high or bounds.low or equal):
            return _Break(inside, passed, bounds, equal)
    return None


def _passed(loop: Loop, edge: Edge) -> dict[Value, Value] | None:
    """What the latch receives by an edge that leads straight to it."""
    passed: dict[Value, Value] = {}
    while True:
        passed |= {p: passed.get(v, v) for p, v in edge.passed()}
        block, term = edge.block, edge.block.term
        if block is loop.latch:
            return passed
        if term is None or term.name != "jump" or block not in loop.blocks or block is loop.head or \
                not all(map(is_pure, block.ops)):
            return None
        edge = term.edges[0]


def _equals(guard: Guard, iv: Value, condition: Value, holds: bool) -> Affine | None:
    """The only number of the counter for which a comparison of integers does not turn out as told."""
    op = condition.op
    if op is None or op.name != ("ne" if holds else "eq") or op.operands[0].type != I64 or guard.is_outside(condition):
        return None
    x, y = (guard.ranges.form(v) for v in op.operands)
    difference = x.minus(y)
    times = difference.coefficient(iv)
    if times not in (1, -1) or not guard.is_near(x.without(iv)) or not guard.is_near(y.without(iv)):
        return None
    return difference.without(iv).times(-times)


def _results(loop: Loop, count: _Count, found: _Break, read: dict[Value, list[Op]]) -> list[int | Value | None] | None:
    """What the exit receives if the loop ends ahead of an iteration: carried values by position, or values.

    ``None`` in the list: nothing reads it.  The result is ``None`` if the end of the iteration before passes other
    values.
    """
    back, leave, results = loop.back_edge().args, loop.exit_edge(), list[int | Value | None]()
    for p, v in leave.passed():
        if not read.get(p):
            results.append(None)
        elif v is count.code or v.block not in loop.blocks:
            results.append(found.passed.get(v, v))
        elif v.owner is loop.latch and (at := next((i for i, a in enumerate(back) if a is v), None)) is not None and \
                found.passed[v] is loop.head.params[at] and at != count.iv.index:
            results.append(at)
        else:
            return None
    return results


def _rewrite(func: Function, loop: Loop, count: _Count, found: _Break, results: list[int | Value | None],
             ranges: Ranges) -> None:
    preheader, latch = loop.preheader, loop.latch
    assert preheader is not None and latch is not None and preheader.term is not None and latch.term is not None
    loc, start, leave = latch.term.loc, loop.entry_edge().args, loop.exit_edge()
    enter, skip = map(func.new_block, ("preheader", "skip"))
    b = Builder(preheader, loc)
    preheader.term = None
    end = count.trip
    for form in found.bounds.high:
        end = b.minimum(end, bound_value(b, form, ranges))
    for form in found.equal:
        at = bound_value(b, form, ranges)
        end = b.select(b.lt(at, 0), end, b.minimum(end, at))
    goes_on = b.lt(0, end)
    for form in found.bounds.low:
        goes_on = b.and_(goes_on, b.le(bound_value(b, form, ranges), 0))
    for condition, holds in found.bounds.ahead:
        goes_on = b.and_(goes_on, condition if holds else b.not_(condition))
    b.branch(goes_on, enter, [], skip, [])
    b.at(skip)
    first = [start[r] if isinstance(r, int) else b.undef(v.type) if r is None else r
             for r, v in zip(results, leave.args, strict=True)]
    b.jump(leave.block, first)
    b.at(enter)
    b.jump(loop.head, start)
    set_term(loop.head, "jump", edges=[found.inside])
    _count_to(count, end)
    _leave(func, loop, count, end, found.passed[count.code])


def _count_to(count: _Count, end: Value) -> None:
    """Let the loop end ahead of iteration ``end``."""
    chosen = count.edge.argument(count.code)
    assert chosen is not None and chosen.op is not None and chosen.op.block is not None
    block, place = chosen.op.block, chosen.op.block.ops.index(chosen.op)
    test = Op("lt", [count.following, end], [BOOL], loc=chosen.op.loc)
    number = Op("select", [test.result, *chosen.op.operands[1:]], [I64], loc=chosen.op.loc)
    test.block = number.block = block
    block.ops[place:place] = [test, number]
    count.edge.args[count.code.index - count.edge.offset] = number.result


def _leave(func: Function, loop: Loop, count: _Count, end: Value, broken: Value) -> None:
    """Behind the loop, let the number of the exit be that of the ``break`` if ``end`` is not the end of the count."""
    leave, latch = loop.exit_edge(), loop.latch
    assert latch is not None and latch.term is not None
    behind = func.new_block("exit")
    passed = [behind.add_param(v.type, v.hint) for v in leave.args]
    b = Builder(behind, latch.term.loc)
    arguments = [
        b.select(b.and_(b.eq(p, count.number), b.lt(end, count.trip)), broken, p) if v is count.code else p
        for p, v in zip(passed, leave.args, strict=True)]
    b.jump(leave.block, arguments)
    leave.block = behind
