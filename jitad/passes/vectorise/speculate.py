"""Speculates that the checks of floats in a loop hold, chunk by chunk, and tests it after each chunk.

For loops in which the checks are all that prevents vectorisation.  All other ops are *free* (see ``fission``), add to a
sum, or store to an element of the iteration's own in an array that the loop does not read.  A chunk in which a check
fails is repeated by the *checked* loop, which is the original.  It starts with the sums from before the chunk, stores
the same elements again, and raises in the right iteration.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Function, Op, Value
from ...ir.types import BOOL, I64, Array, Scalar
from ...ir.uses import users
from ..analysis.cfg import own_exit
from ..analysis.loops import Counted, Loop

CHUNK = 512
"""The number of iterations between two tests."""


def carries_only_sums_and_stores(loop: Loop, known: Counted) -> bool:
    """True if a loop of one block carries only its counter, sums of floats, and arrays with stores to element ``iv``.

    The element may be one of a row that the loop does not change.
    LLVM vectorises such a loop, even if the order of the sums is fixed.
    """
    head, readers, back = loop.head, users(loop.head.all_ops()), loop.back_edge().args
    for p in head.params:
        if p is known.iv:
            continue
        if len(readers.get(p, ())) != 1:
            return False
        op = readers[p][0]
        last = len(op.results) == 1 and back[p.index] is op.result
        if not last or any(user is not head.term for user in readers[op.result]) or back.count(op.result) != 1:
            return False
        if isinstance(p.type, Scalar):
            if op.name != "add" or not p.type.is_float:
                return False
        elif op.name != "set" or op.operands[0] is not p or op.operands[-1] is not known.iv or any(
                v.block in loop.blocks and v.const is None for v in op.operands[2:-1]):
            return False
    return True


def can_speculate(loop: Loop, known: Counted, free: dict[Op, None]) -> bool:
    """True if a loop of one block with checks of floats has the form that ``speculate`` needs."""
    head, back = loop.head, loop.back_edge().args
    updates = {v.op for v in back}
    test = head.term.operands[0].op if head.term is not None else None
    if not all(op in free or op in updates or op is test or op.name == "check" for op in head.ops):
        return False
    here = {v for op in head.ops for v in op.results} | set(head.params)
    known_at_end = {*back}
    return carries_only_sums_and_stores(loop, known) and all(
        a in known_at_end or a not in here for a in loop.exit_edge().args)


def speculate(func: Function, loop: Loop, known: Counted, checks: list[Op]) -> None:
    """Insert the speculative loop over chunks before the loop, which becomes the checked loop."""
    head, preheader, leave = loop.head, loop.preheader, loop.exit
    assert preheader is not None and preheader.term is not None and head.term is not None and leave is not None
    loc, carried = head.ops[0].loc, [p for p in head.params if p is not known.iv]
    chunk, body, between, onward, failing = (
        func.new_block(n) for n in ("chunk", head.name, "between", "next", "failing"))
    start = chunk.add_param(I64, "start")
    before = [chunk.add_param(p.type, p.hint) for p in carried]
    first = [a for p, a in zip(head.params, loop.entry_edge().args) if p is not known.iv]
    conditions, outside = conditions_of(loop, checks)
    b = Builder(preheader, loc)
    preheader.term = None
    checked = before_checked(func, head)
    b.at(enter_if(b, outside, checked, [b.const(0), *first]))
    b.jump(chunk, [b.const(0), *first])

    b.at(chunk)
    length = b.minimum(b.sub(known.trip, start), CHUNK)
    b.jump(body, [b.const(0), *before, b.const(True)])
    after = _speculative_loop(body, between, loop, known, start, length, conditions)

    b.at(between)
    b.branch(after[-1], onward, [], failing, [])
    b.at(onward)
    again = b.add(start, CHUNK)
    at_end = dict(zip(loop.back_edge().args, [known.trip, *after])) | {known.next: known.trip}
    leaving = [at_end.get(a, a) for a in loop.exit_edge().args]
    b.branch(b.lt(again, known.trip), chunk, [again, *after[:-1]], leave, leaving)
    own_exit(func, head, leave)
    head.term.attrs["cold"] = True
    b.at(failing)
    b.jump(checked, [start, *(new if isinstance(new.type, Array) else old for old, new in zip(before, after))])


def conditions_of(loop: Loop, checks: list[Op]) -> tuple[list[Value], list[Value]]:
    """The conditions of the checks: those that the loop computes, and the loop-invariant ones."""
    every = dict.fromkeys(op.operands[0] for op in checks)
    return [c for c in every if c.block is loop.head], [c for c in every if c.block is not loop.head]


def before_checked(func: Function, head: Block) -> Block:
    """Make a preheader for the checked loop, which may have several predecessors."""
    block = func.new_block("checked")
    Builder(block, head.ops[0].loc).jump(head, [block.add_param(p.type, p.hint) for p in head.params])
    return block


def enter_if(b: Builder, conditions: list[Value], checked: Block, args: list[Value]) -> Block:
    """Branch to the checked loop if one of the conditions does not hold; returns the block for the other case.

    A loop-invariant condition may guard any op, even the read of an element.  So no op is moved before its test.
    """
    if not conditions:
        return b.block
    holds = b.const(True)
    for c in conditions:
        holds = b.and_(holds, c)
    func = checked.func
    enter, failing = func.new_block("enter"), func.new_block("failing")
    b.branch(holds, enter, [], failing, [])
    b.at(failing)
    b.jump(checked, args)
    return enter


def _speculative_loop(body: Block, between: Block, loop: Loop, known: Counted, start: Value, length: Value,
           conditions: list[Value]) -> list[Value]:
    """Emit the loop over one chunk without checks; returns its results, and last whether all conditions held."""
    head = loop.head
    j = body.add_param(I64, known.iv.hint)
    values = {p: body.add_param(p.type, p.hint) for p in head.params if p is not known.iv}
    holds = body.add_param(BOOL, "holds")
    b = Builder(body, head.ops[0].loc)
    values[known.iv] = b.add(start, j)
    assert head.term is not None
    for op in head.ops:
        if op.name != "check" and op is not known.next.op and op is not head.term.operands[0].op:
            copy = clone_op(op, values)
            copy.block = body
            body.ops.append(copy)
        elif op is known.next.op:
            values[op.result] = b.add(values[known.iv], 1)
    for condition in conditions:
        holds = b.and_(holds, values.get(condition, condition))
    nexts = [values.get(a, a) for p, a in zip(head.params, loop.back_edge().args) if p is not known.iv] + [holds]
    after = [between.add_param(v.type) for v in nexts]
    following = b.add(j, 1)
    b.branch(b.lt(following, length), body, [following, *nexts], between, nexts)
    return after
