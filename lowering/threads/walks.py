"""Walks: loops that count a number up or down to a bound, and may end before.

::

    while p > 0 and best[p - 1] < s:          while k < n - 1 and x[k + 1] < t:
        p -= 1                                    k += 1

In a loop around they need no counter of their own, as counted loops do not: what they have run is known when they are
left.  LLVM then unrolls the loop around, if that has few iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.dominance import Dominators
from ...ir.graph import Block, Value
from ...ir.ops import MIRRORED, NEGATED, ORDERS
from ...ir.types import I64
from ...passes.analysis.loops import Loop, counted, stepped

FAR = 2**62
"""Constants that a number is compared with are nearer to zero, so that it does not pass them by wrapping around."""
FEW = 16
"""Walks of at most this many steps are not counted, and loops of so many iterations do not poll."""


@dataclass(frozen=True)
class Walk:
    """A parameter of the head that moves from ``start`` in the direction ``sign`` while it is short of ``bound``."""

    param: Value
    start: Value
    sign: int
    bound: Value


def walk_of(loop: Loop, dom: Dominators) -> Walk | None:
    """The walk that a loop in another one makes, if each iteration tests it."""
    if loop.latch is None or loop.preheader is None or loop.parent is None:
        return None
    for p in loop.head.params:
        step = stepped(loop, p) if p.type == I64 else None
        if step is None or not 0 < (step[0].const or 0) <= FAR:
            continue
        for block in loop.blocks:
            bound = _bound(block, loop, p, step[0].const, step[1]) if dom.dominates(block, loop.latch) else None
            if bound is not None:
                return Walk(p, loop.entry_edge().args[p.index], step[1], bound)
    return None


def is_short(walk: Walk, loop: Loop) -> bool:
    """True if a walk has few steps: its bound is known, and its start, or that is the counter of a short loop."""
    outer, first = loop.parent, walk.start.const
    while outer is not None and walk.start.owner is not outer.head:
        outer = outer.parent
    if outer is not None and (known := counted(outer)) is not None and known.iv is walk.start:
        first = known.trip.const if walk.sign < 0 else 0
    return first is not None and walk.bound.const is not None and walk.sign * (walk.bound.const - first) <= FEW


def _bound(block: Block, loop: Loop, p: Value, amount: int, sign: int) -> Value | None:
    """The loop-invariant value of which ``p`` must be short in the direction ``sign``, or ``block`` leaves the loop."""
    term = block.term
    stay = [e.block in loop.blocks for e in term.edges] if term is not None and term.name == "branch" else []
    test = term.operands[0].op if term is not None and stay in ([True, False], [False, True]) else None
    if test is None or test.name not in ORDERS or p not in test.operands:
        return None
    name, bound = (test.name, test.operands[1]) if test.operands[0] is p else (MIRRORED[test.name], test.operands[0])
    name = name if stay[0] else NEGATED[name]
    if bound.block in loop.blocks and bound.const is None or name not in (("lt", "le") if sign > 0 else ("gt", "ge")):
        return None
    near = bound.const is not None and abs(bound.const) <= FAR
    return bound if near or amount == 1 and name in ("lt", "gt") else None
