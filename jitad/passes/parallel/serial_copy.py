"""Gives serial loops around outlined ones a copy without the tests whether several threads pay.

A short loop that runs often pays for a test before it, and for the call that may clobber its registers: an
autoregression over four lags takes 1.23 times as long.  Where the estimates do not change in the serial loop, one test
before it is enough::

    for t in …:                                     if time >= ENOUGH:
        if time >= ENOUGH: call {threads} …             for t in …: call {threads} …
        else: for k in …: …               becomes   else:
                                                        for t in …:
                                                            for k in …: …

With several tests, the first loop keeps them, and runs if one of them holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Op, Value
from ..analysis.cfg import append, is_pure, own_exit, remove_unreachable, set_term
from ..analysis.loops import Loop, LoopForest, loop_forest, raising_blocks

LARGEST = 100
"""The most ops of a loop that is copied, as for ``loop_unswitch``: the tests matter where iterations are short."""


def serial_copies(func: Function, tests: Iterable[Block]) -> None:
    """Copy the loops around ``tests``: blocks that branch to the call on several threads or to the loop itself."""
    forest = loop_forest(func)
    unclosed = forest.open_loops()
    around: dict[Loop, list[tuple[Block, list[Op]]]] = {}
    for block in tests:
        loop, estimate = _outermost(forest, unclosed, block)
        if loop is not None:
            around.setdefault(loop, []).append((block, estimate))
    for loop in sorted(around, key=lambda x: x.depth):               # a copy has all that was in the loop
        _copy(func, forest, loop, around[loop])
    if around:
        remove_unreachable(func)


def _outermost(forest: LoopForest, unclosed: set[Loop], block: Block) -> tuple[Loop | None, list[Op]]:
    """The outermost loop that may be copied and does not change the test, with the ops in it that compute the test."""
    found: tuple[Loop | None, list[Op]] = None, []
    assert block.term is not None
    loop = forest.loop_of(block)
    while loop is not None and loop not in unclosed and loop.preheader is not None and loop.exit is not None:
        estimate: dict[Op, None] = {}
        if loop.latch is None or sum(len(b.ops) for b in loop.blocks) > LARGEST \
                or not _is_invariant(block.term.operands[0], loop, estimate):
            break
        found = loop, list(estimate)
        loop = loop.parent
    return found


def _is_invariant(v: Value, loop: Loop, needed: dict[Op, None]) -> bool:
    """True if ``v`` can be computed before ``loop``; adds the ops in the loop that compute it, operands first."""
    op = v.op
    if v.block not in loop.blocks or op in needed:
        return True
    if op is None or not is_pure(op) or not all(_is_invariant(x, loop, needed) for x in op.operands):
        return False
    needed[op] = None
    return True


def _copy(func: Function, forest: LoopForest, loop: Loop, tests: list[tuple[Block, list[Op]]]) -> None:
    preheader, latch, leave = loop.preheader, loop.latch, loop.exit
    assert preheader is not None and latch is not None and leave is not None and preheader.term is not None
    entry = list(loop.entry_edge().args)
    preheader.term = None
    hoisted = dict.fromkeys(op for _, estimate in tests for op in estimate if op.block in loop.blocks)
    for block in {op.block: None for op in hoisted}:
        assert block is not None
        block.ops = [op for op in block.ops if op not in hoisted]
    for op in hoisted:
        append(preheader, op)
    b, conditions = Builder(preheader), [block.term.operands[0] for block, _ in tests if block.term is not None]
    any_of = conditions[0]
    for condition in dict.fromkeys(conditions[1:]):
        any_of = b.or_(any_of, condition)
    copies = clone_blocks(forest.dom.in_order(loop.region(raising_blocks(forest.dom))), func, {})
    for block, _ in tests:
        _take(copies[block], 1)
        if len(tests) == 1:
            _take(block, 0)
    threads, serial = func.new_block("with_threads"), func.new_block("serial")
    set_term(threads, "jump", edges=[Edge(loop.head, entry)])
    set_term(serial, "jump", edges=[Edge(copies[loop.head], list(entry))])
    b.at(preheader)
    b.branch(any_of, threads, [], serial, [])
    for end in (latch, copies[latch]):
        own_exit(func, end, leave)


def _take(block: Block, side: int) -> None:
    """Let a branch take one side always."""
    assert block.term is not None
    set_term(block, "jump", edges=[block.term.edges[side]])
