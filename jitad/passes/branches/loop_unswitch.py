"""Gives innermost loops that branch on what does not change a version without these branches.

::

    for j in range(1, m - 1):                    if i > 0 and i < n - 1:
        s = 0.0                                      for j in range(1, m - 1):
        if i > 0: s += u[i - 1, j]                       s = 0.0 + u[i - 1, j] + u[i + 1, j]
        if i < n - 1: s += u[i + 1, j]     becomes       …
        …                                        else:
                                                     the loop as it is

The version assumes, of each condition, the side that does more: borders and options are where something is left out.
Checks of loop-invariant conditions are assumed to pass.  With one condition the other loop has the other side alone.
The pass runs after differentiation, so that sweeps have versions of their own, and the derivative no second copy.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module, Value
from ...ir.types import Array
from ..analysis.cfg import own_exit, set_term
from ..analysis.loops import Loop, counted, loop_forest

LARGEST = 100
"""The most ops of a loop that is copied, as for ``peel``."""
SHORTEST = 6
"""The least constant trip count."""


def loop_unswitch(module: Module) -> bool:
    """Split every innermost counted loop with such branches; expects normal form.  Returns True if there was one."""
    changed = False
    for func in module.functions.values():
        forest = loop_forest(func)
        unclosed = forest.open_loops() if forest.loops else set()
        for loop in forest.loops:
            if not loop.children and loop not in unclosed and _may_split(loop):
                order = forest.dom.in_order(loop.blocks)
                assumed = _conditions(loop, order)
                if assumed:
                    _split(func, loop, order, assumed)
                    changed = True
    return changed


def _may_split(loop: Loop) -> bool:
    known = counted(loop)
    if known is None or loop.exit is None or loop.preheader is None or len(loop.blocks) == 1:
        return False
    if known.trip.const is not None and known.trip.const < SHORTEST:
        return False
    ops = [op for b in loop.blocks for op in b.ops]
    return len(ops) <= LARGEST and not any(b.call for b in loop.blocks) and not any(
        isinstance(v.type, Array) and op.name not in ("set", "add_at") for op in ops for v in op.results)


def _conditions(loop: Loop, order: list[Block]) -> dict[Value, bool]:
    """The loop-invariant conditions of branches, each with the value that is assumed; empty if there are none."""
    found: dict[Value, bool] = {}
    for b in order:
        if b.term is not None and b.term.name == "branch" and b is not loop.latch:
            condition = b.term.operands[0]
            if condition.block not in loop.blocks and condition.const is None:
                yes, no = (len(e.block.ops) for e in b.term.edges)
                found.setdefault(condition, yes >= no)
    return found


def _split(func: Function, loop: Loop, order: list[Block], assumed: dict[Value, bool]) -> None:
    """Emit the version before the loop, and the branch to one of them at the end of the preheader."""
    preheader, latch, leave = loop.preheader, loop.latch, loop.exit
    assert preheader is not None and latch is not None and leave is not None and latch.term is not None
    term, preheader.term = preheader.term, None
    b = Builder(preheader, latch.term.loc)
    holds, checked = b.const(True), _invariant_checks(loop, order)
    for condition, truth in (assumed | dict.fromkeys(checked, True)).items():
        holds = b.and_(holds, condition if truth else b.not_(condition))
    preheader.term = term
    blocks = clone_blocks(order, func, {})
    for block in blocks.values():
        _assume(block, assumed)
        block.ops = [op for op in block.ops if op.name != "check" or op.operands[0] not in checked]
    if len(assumed) == 1 and not checked:
        for block in order:
            _assume(block, {c: not truth for c, truth in assumed.items()})
    entry = loop.entry_edge()
    fast, other = func.new_block("uniform"), func.new_block("branching")
    set_term(fast, "jump", edges=[Edge(blocks[loop.head], list(entry.args))])
    set_term(other, "jump", edges=[Edge(loop.head, list(entry.args))])
    set_term(preheader, "branch", [holds], [Edge(fast), Edge(other)])
    for end in (latch, blocks[latch]):
        own_exit(func, end, leave)


def _invariant_checks(loop: Loop, order: list[Block]) -> list[Value]:
    """The loop-invariant conditions of checks."""
    return [op.operands[0] for b in order for op in b.ops if op.name == "check"
            and op.operands[0].block not in loop.blocks and op.operands[0].const is None]


def _assume(block: Block, values: dict[Value, bool]) -> None:
    """Replace the branch of ``block`` by a jump if its condition is known."""
    term = block.term
    if term is not None and term.name == "branch" and term.operands[0] in values:
        set_term(block, "jump", edges=[term.edges[not values[term.operands[0]]]])
