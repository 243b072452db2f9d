"""What holds of the parameters of a loop's head in every iteration, by induction.

``steps``: how much a parameter may grow or shrink in an iteration.  ``Way``: one way back to the head, with its
arguments and the conditions under which it is taken; where the latch is told by a number whether to go on (see
``loop_simplify``), each edge into the latch that may say "again" is a way of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.graph import Block, Edge, Op, Value
from ...ir.types import I64
from .affine import Affine
from .loops import Loop
from .ranges import LARGEST, Prover, Ranges

FAR = 2**62
SMALL = 16
"""A counter that starts within ``FAR`` of zero and moves by at most ``SMALL`` does not get to the end of i64: that
takes years of doing nothing else."""

Incoming = dict[Block, list[Edge]]


@dataclass(frozen=True)
class Way:
    args: list[Value]
    conditions: list[tuple[Value, bool]]


def learn_head(loop: Loop, incoming: Incoming, ranges: Ranges, prover: Prover) -> None:
    """Note what holds of the head's integer parameters; the prover knows what holds at the preheader."""
    if loop.preheader is None or loop.latch is None:
        return
    ways = list(_ways(loop, incoming))
    for p in loop.head.params:
        start = loop.entry_edge().argument(p) if p.type == I64 else None
        moves = _moves(p, [w.args[p.index] for w in ways], loop, incoming) if start is not None else None
        if start is None or not moves:
            continue
        for sign in (1, -1):
            if all(0 <= sign * s <= SMALL for s in moves):
                _learn(p, start, sign, ways, loop, ranges, prover, max(map(abs, moves)))
                break


def _learn(p: Value, start: Value, sign: int, ways: list[Way], loop: Loop, ranges: Ranges, prover: Prover,
           fastest: int) -> None:
    """``p`` moves one way: before the bound that every way back tests, and (if nothing wraps) not behind its start."""
    low, high = ranges.interval(start)
    safe = -FAR <= low and high <= FAR
    end = LARGEST - SMALL
    form, first = ranges.form(p), ranges.form(start)
    if (found := _common_bound(p, sign, ways, loop)) is not None:
        bound, slack = found
        if prover.proves(_short_of(first, ranges.form(bound), sign, slack)):
            prover.assume(_short_of(form, ranges.form(bound), sign, slack))
            edges = ranges.interval(bound)
            end = (edges[1] if sign > 0 else -edges[0]) - slack
            safe = safe or fastest <= slack or end <= LARGEST - SMALL
    if safe:
        ranges.intervals[p] = (low, max(end, low)) if sign > 0 else (min(-end, high), high)
        prover.assume(form.minus(first).times(sign))


def _short_of(x: Affine, bound: Affine, sign: int, slack: int) -> Affine:
    """``x`` does not get past ``bound``, in direction ``sign``, and stays ``slack`` short of it: as a form >= 0."""
    return bound.minus(x).times(sign).plus(Affine(-slack))


def _common_bound(p: Value, sign: int, ways: list[Way], loop: Loop) -> tuple[Value, int] | None:
    """A value from outside, and how short of it every way back ends."""
    found: tuple[Value, int] | None = None
    for way in ways:
        v = way.args[p.index]
        if v is p:
            continue
        mine = next((b for c, truth in way.conditions if (b := _bound(c.op, truth, v, sign)) is not None
                     and b[0].block not in loop.blocks), None)
        if mine is None or (found is not None and mine != found):
            return None
        found = mine
    return found


# (op, whether it holds, whether v stands on the left) → (direction in which v is bounded, how short of the bound it is)
_BOUNDS = {
    ("lt", True, True): (1, 1), ("le", True, True): (1, 0), ("gt", True, True): (-1, 1), ("ge", True, True): (-1, 0),
    ("ge", False, True): (1, 1), ("gt", False, True): (1, 0), ("le", False, True): (-1, 1),
    ("lt", False, True): (-1, 0),
    ("gt", True, False): (1, 1), ("ge", True, False): (1, 0), ("lt", True, False): (-1, 1),
    ("le", True, False): (-1, 0),
    ("le", False, False): (1, 1), ("lt", False, False): (1, 0), ("ge", False, False): (-1, 1),
    ("gt", False, False): (-1, 0),
}


def _bound(op: Op | None, truth: bool, v: Value, sign: int) -> tuple[Value, int] | None:
    if op is None or len(op.operands) != 2 or v not in op.operands:
        return None
    left = op.operands[0] is v
    direction, slack = _BOUNDS.get((op.name, truth, left), (0, 0))
    return (op.operands[1 if left else 0], slack) if direction == sign else None


# --- ways back ------------------------------------------------------------------------------------

def _ways(loop: Loop, incoming: Incoming) -> Iterator[Way]:
    assert loop.latch is not None and loop.latch.term is not None
    latch, term, edge = loop.latch, loop.latch.term, loop.back_edge()
    if term.name != "branch":
        yield Way(edge.args, [])
        return
    condition, truth = term.operands[0], term.edges[0] is edge
    signal = _signal(condition, latch)
    if signal is None:
        yield Way(edge.args, _parts(condition, truth))
        return
    for e in incoming[latch]:
        passed = {q: a for q in latch.params if (a := e.argument(q)) is not None}
        conditions = _says_again(passed[signal], condition, truth) if signal in passed else []
        if conditions is not None:
            yield Way([passed.get(a, a) for a in edge.args], conditions)


def _signal(condition: Value, latch: Block) -> Value | None:
    """The latch's parameter that its branch tests, directly or by ``lt`` with a constant."""
    if condition.owner is latch:
        return condition
    op = condition.op
    if op is not None and op.name == "lt" and op.operands[0].owner is latch and op.operands[1].const is not None:
        return op.operands[0]
    return None


def _says_again(v: Value, condition: Value, truth: bool) -> list[tuple[Value, bool]] | None:
    """Under which conditions ``v``, passed as the signal, means another iteration; ``None``: under none."""
    def again(x: Value) -> bool:
        if x.const is None:
            return True
        test = x.const if condition.op is None else x.const < condition.op.operands[1].const
        return bool(test) is truth

    if v.op is not None and v.op.name == "select" and v.const is None:
        sides = [again(x) for x in v.op.operands[1:]]
        if sides == [False, False]:
            return None
        return [] if all(sides) else _parts(v.op.operands[0], sides[0])
    if v.const is not None:
        return [] if again(v) else None
    return _parts(v, truth) if condition.op is None else []


def _parts(condition: Value, truth: bool) -> list[tuple[Value, bool]]:
    """A condition, and what it is made of."""
    out, todo = [], [(condition, truth)]
    while todo:
        c, t = todo.pop()
        out.append((c, t))
        if c.op is not None and ((c.op.name == "and" and t) or (c.op.name == "or" and not t)):
            todo += [(x, t) for x in c.op.operands]
        elif c.op is not None and c.op.name == "not":
            todo.append((c.op.operands[0], not t))
    return out


def _moves(p: Value, values: list[Value], loop: Loop, incoming: Incoming) -> set[int] | None:
    """All differences from ``p`` with which it can come back, or ``None`` when something else may come back."""
    found: set[int] = set()
    todo = [(v, 0) for v in values]
    seen: set[tuple[Value, int]] = set()
    while todo:
        v, s = todo.pop()
        if (v, s) in seen:
            continue
        seen.add((v, s))
        step = _constant_step(v.op)
        if v is p:
            found.add(s)
        elif step is not None:
            todo.append((step[0], s + step[1]))
        elif v.op is None and v.block in loop.blocks and v.block is not loop.head and len(seen) < 50:
            args = [e.argument(v) for e in incoming[v.block]]
            if any(a is None for a in args):
                return None
            todo += [(a, s) for a in args if a is not None]
        elif v.op is None or v.op.name != "undef":
            return None
    return found


def _constant_step(op: Op | None) -> tuple[Value, int] | None:
    """``x`` and ``k`` where the op is ``x + k``."""
    if op is None or op.name not in ("add", "sub"):
        return None
    x, y = op.operands
    if y.const is not None:
        return x, y.const if op.name == "add" else -y.const
    return (y, x.const) if x.const is not None and op.name == "add" else None
