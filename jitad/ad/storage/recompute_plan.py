"""Case 2 of the frames: which loops are run again inside their backward loops, and keep nothing across iterations.

A loop whose iterations only feed reductions is the commonest there is.  What its backward sweep reads does not depend
on the values that the loop carries, so an iteration can be run again from its index alone.  It is done where the
forward loop then is not needed at all: nothing reads what it computes but the backward sweep of the loop itself.
Then the two sweeps become one pass over the iterations.

*Merged*: the function's results do need what the loop computes, but nothing before its backward sweep does.  Then the
one pass, in forward order, carries on what the loop carries, and what follows the loop on the way to the results is
computed after it (``late_results.py``).

*Kept*: something needs what the loop computes before its backward sweep, so the forward loop stays as well.  That is
done for several threads alone: frames on a stack would bind each iteration to the one before.

*In order*: an iteration that may raise is not put off behind a loop that may have no end.

*Tainted*: a value of the loop that depends on something that the loop carries other than its index.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.uses import EDGE, ops_of, uses
from ...passes.analysis.cfg import reached
from ...passes.analysis.loops import Loop, counted
from ..control_tape import LoopBack
from ..reverse import ThereAndBack
from . import late_results


@dataclass(frozen=True)
class Plan:
    """A loop to run again, the values that are then not to be had, and whether the forward loop is merged into it, or
    kept beside it.  Where the order does not matter the iterations are run ``upwards``, as memory is best read, and as
    the first to fail is the first."""

    back: LoopBack
    taint: set[Value]
    merged: bool = False
    kept: bool = False
    upwards: bool = False


def candidates(sweep: ThereAndBack, results: bool) -> list[Plan]:
    """The outermost loops to run again."""
    found: dict[Loop, Plan] = {}
    for loop in sweep.forest.roots:
        back = sweep.loops.get(loop)
        known = counted(loop)
        if back is None or known is None or back.top is None or loop.exit is None:
            continue
        taint = tainted(loop, back.iv)
        if taint is not None and not any(v in taint for v in _read_by(sweep, loop)):
            found[loop] = Plan(back, taint)
    possible = dict(found)
    for loop in [loop for loop, plan in found.items() if _raises(loop) and _may_wait_for_ever(sweep, plan.back)]:
        del found[loop]
    _keep_unneeded(sweep, found, [])
    if results:
        merged = [loop for loop, plan in found.items() if order_free(sweep, plan.back)]
        before: list[Loop] = []
        while before != merged:                              # with fewer loops merged less can wait for the end
            result_values = [v for v in sweep.results if not late_results.computable(sweep, v, merged)]
            _keep_unneeded(sweep, found, [*result_values, *late_results.reads(sweep, sweep.results, merged)])
            before, merged = merged, [loop for loop in merged if loop in found]
        wanted = needed_forward(sweep, sweep.results, found)
        for loop in list(found):
            if any(v.block in loop.blocks for v in wanted):
                if loop in merged:
                    found[loop] = replace(found[loop], merged=True)
                else:
                    del found[loop]
    kept = [replace(plan, kept=True) for loop, plan in possible.items() if loop not in found and loop.children]
    chosen = [*found.values(), *(kept if sweep.module.parallel else [])]
    return [replace(plan, upwards=order_free(sweep, plan.back)) for plan in chosen]


def _raises(loop: Loop) -> bool:
    """Whether an iteration may raise: blocks that only do that are no part of a loop."""
    return any(op.name in ("check", "call") for b in loop.blocks for op in b.all_ops()) or any(
        s not in loop.blocks and s is not loop.exit for b in loop.blocks for s in b.successors())


def _may_wait_for_ever(sweep: ThereAndBack, back: LoopBack) -> bool:
    """Whether anything that runs before the iterations, where they are put off to the way back, may have no end."""
    assert back.loop.exit is not None
    behind = reached([back.loop.exit])
    if not order_free(sweep, back):                          # later iterations come before earlier ones
        behind |= back.loop.blocks - {back.loop.head}
    return any(b in behind and b.term is not None and b.term.name == "call" for b in sweep.forward) or any(
        loop.head in behind and counted(loop) is None for loop in sweep.forest.loops)


def _keep_unneeded(sweep: ThereAndBack, found: dict[Loop, Plan], seeds: list[Value]) -> None:
    """Drop loops whose forward values something needs; their own needs may then need others."""
    while found:
        needed = needed_forward(sweep, seeds, found)
        late = [loop for loop in found if any(v.block in loop.blocks for v in needed)]
        if not late:
            return
        for loop in late:
            del found[loop]


def order_free(sweep: ThereAndBack, back: LoopBack) -> bool:
    """Whether the backward iterations may run in any order: what they carry is passed on unchanged or only added to."""
    assert back.top is not None and back.back is not None
    following = back.back[1].args
    blocks = [b for b, home in sweep.home.items() if home in back.loop.blocks]
    used, given = uses(ops_of(blocks)), _passed(blocks)
    return not back.outside and not _last_one_counts(sweep, back, blocks) and all(
        following[p.index] is p or _only_added_to(p, following[p.index], back.top, used, given)
        for p in back.top.params if p is not back.count)


def _last_one_counts(sweep: ThereAndBack, back: LoopBack, blocks: list[Block]) -> bool:
    """Whether something of the last backward iteration is used after it that is not carried: what the first iteration
    alone reads of a variable that each assigns.
    """
    assert back.back is not None
    latch, edge = back.back
    inside, carried = set(blocks), {*edge.args}
    after = [v for e in (latch.term.edges if latch.term else ()) if e is not edge for v in e.args]
    after += [v for b in sweep.home if b not in inside for op in b.all_ops() for v in op.used()]
    return any(v.block in inside and v not in carried for v in after)


def _passed(blocks: list[Block]) -> dict[Value, set[Value]]:
    """What the edges from ``blocks`` pass for each parameter."""
    found: dict[Value, set[Value]] = {}
    for edge in (e for b in blocks for e in (b.term.edges if b.term else ())):
        for param, arg in edge.passed():
            found.setdefault(param, set()).add(arg)
    return found


def _only_added_to(p: Value, last: Value, top: Block, used: dict[Value, list[tuple[Op, int]]],
                   given: dict[Value, set[Value]]) -> bool:
    """Whether ``last``, which the next iteration gets for ``p``, is a sum of ``p`` and something on every path: where
    one clears it, as that of a variable that was assigned, the order counts.
    """
    todo, seen = [p], {p}
    while todo:
        v = todo.pop()
        for op, i in used.get(v, ()):
            following: list[Value] = []
            if i != EDGE:
                sums = op.name == "add" and op.attrs.get("acc")
                if not sums and not (op.name in ("add_at", "add_slice", "add_put") and i == 0):
                    return False
                following = op.results
            for edge in op.edges:
                for q, a in edge.passed():
                    if a is v and edge.block is top and q is not p:
                        return False
                    if a is v:
                        following.append(q)
            for w in following:
                if w not in seen:
                    seen.add(w)
                    todo.append(w)
    once = all(sum(u in seen for u in w.op.operands) == 1 for w in seen if w.op is not None)
    return once and last in seen and all(w is p or given.get(w, seen) <= seen for w in seen)


def _read_by(sweep: ThereAndBack, loop: Loop) -> list[Value]:
    """What the backward sweep of ``loop`` reads of it."""
    return [v for block, home in sweep.home.items() if home in loop.blocks
            for op in block.all_ops() for v in op.used() if v.block in loop.blocks]


def needed_forward(sweep: ThereAndBack, seeds: list[Value], rerun: Container[Loop]) -> set[Value]:
    """Forward values that are needed when the loops in ``rerun`` are run again in the backward sweep.

    Needed are ``seeds`` and with them what the backward sweep reads, but for what a loop that is run again reads of
    itself; what such a loop takes from outside; conditions, arguments of calls and checks elsewhere.
    """
    forward = set(sweep.forward)
    outermost = {b: loop for loop in sweep.forest.roots for b in loop.blocks}
    todo = list(seeds)
    for block, home in sweep.home.items():
        own = outermost.get(home)
        todo += [v for op in block.all_ops() for v in op.used()
                 if v.block in forward and not (own in rerun and own is outermost.get(v.block))]
    entered: set[Block] = set()
    for block in sweep.forward:
        loop = outermost.get(block)
        if loop is None or loop not in rerun:                # its values may not be needed, but it runs
            _enter(block, entered, todo)
        else:
            todo += [v for op in block.all_ops() for v in op.used() if v.block not in loop.blocks]
    found: set[Value] = set()
    while todo:
        v = todo.pop()
        if v in found or v.block not in forward:
            continue
        found.add(v)
        for inside in outermost[v.block].blocks if v.block in outermost else ():
            _enter(inside, entered, todo)
        todo += v.op.operands if v.op is not None else _arguments(sweep, v)
    return found


def _enter(block: Block, entered: set[Block], todo: list[Value]) -> None:
    """Everything that must be there for ``block`` to do what it does to others."""
    if block in entered:
        return
    entered.add(block)
    for op in block.ops:
        if OPS[op.name].effect:
            todo += op.operands
    if block.term is not None and block.term.name != "return":
        todo += block.term.operands


def _arguments(sweep: ThereAndBack, p: Value) -> list[Value]:
    """What the edges into its block give a parameter."""
    found: list[Value] = []
    for pred, edge in sweep.preds.get(p.block, ()):
        if (given := edge.argument(p)) is not None:
            found.append(given)
        elif pred.term is not None:
            found += pred.term.operands
    return found


def tainted(loop: Loop, iv: Value) -> set[Value] | None:
    """The tainted values, or ``None`` when control flow, a check or a call depends on one."""
    found = {p for p in loop.head.params if p is not iv}
    grown = True
    while grown:
        grown = False
        for block in loop.blocks:
            for op in block.ops:
                if any(v in found for v in op.operands):
                    if OPS[op.name].effect:
                        return None
                    grown |= _mark(found, op.results)
            for edge in block.term.edges if block.term else ():
                if edge.block in loop.blocks and edge.block is not loop.head:
                    grown |= _mark(found, [p for p, a in edge.passed() if a in found])
    for block in loop.blocks:
        if block.term is not None and any(v in found for v in block.term.operands):
            return None
    return found


def _mark(found: set[Value], values: list[Value]) -> bool:
    new = [v for v in values if v not in found]
    found.update(new)
    return bool(new)
