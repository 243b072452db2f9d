"""Facts about the parameters of a loop's head that hold in every iteration, by induction.

A *back path* is a path to the head through the back edge, with the arguments that the head receives and the conditions
under which the path is taken, those on the way from the head included.  A latch with several exits branches on a
number that its predecessors pass (see ``loop_simplify``).  Each edge into such a latch that may ask for another
iteration is a back path of its own.

If every back path tests an integer parameter against one loop-invariant value, as in ``while top > 0``, and its start
is on the right side of that value, it stays there.  The *steps* of a parameter are the amounts by which it may change
in one iteration.  If all have one sign, the parameter stays on one side of its start as well.  An inner loop that
continues from the parameter, as a scan for the end of a run does in ``j = i; while …: j += 1; …; i = j``, makes steps
of its own, each in one of its iterations.

A *choice* is a parameter that each iteration keeps or replaces by one of some values: the index of the least element so
far.  What holds for its start, and in every iteration for what may replace it, holds for the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Op, Value
from ...ir.types import I64
from .affine import Affine
from .loops import Loop
from .ranges import EVERYTHING, LARGEST, Prover, Ranges

FAR = 2**62
SMALL = 16
LONG = 2**60
"""A counter that starts within ``FAR`` of zero and moves by at most ``SMALL`` does not overflow an i64 in practice, nor
does it get ``LONG`` away from its start: it would have to run for years."""
LONGEST = 50
"""The most (value, offset) pairs that are visited when the steps of one parameter are collected."""

Incoming = dict[Block, list[Edge]]
Ways = dict[Block, list[tuple[Block, Edge]]]         # the edges to each block, with the blocks that they leave


@dataclass(frozen=True)
class BackPath:
    """``args``: what the head receives.  ``conditions``: those that hold on this path, each with its truth."""

    args: list[Value]
    conditions: list[tuple[Value, bool]]


@dataclass(frozen=True)
class Choice:
    """``param``, of the head of ``loop``, is ``start`` at first, then what it was or one of ``others``."""

    loop: Loop
    param: Value
    start: Value
    others: list[Value]


def choices(loop: Loop, incoming: Incoming) -> dict[Value, Choice]:
    """The integer parameters of the head that are choices.  No inner loop computes what replaces them."""
    found: dict[Value, Choice] = {}
    if loop.preheader is None or loop.latch is None:
        return found
    inner = {b for child in loop.children for b in child.blocks}
    for p, v in loop.back_edge().passed():
        start = loop.entry_edge().argument(p)
        if p.type == I64 and v is not p and start is not None:
            others = _others(p, v, loop.blocks - inner, inner, incoming)
            if others is not None:
                found[p] = Choice(loop, p, start, others)
    return found


def _others(p: Value, following: Value, own: set[Block], inner: set[Block], incoming: Incoming) -> list[Value] | None:
    """The values other than ``p`` among which selections and branches choose the next ``p``, if ``p`` is one."""
    seen: set[Value] = set()
    todo, others = [following], []
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.block in inner or len(seen) > LONGEST:
            return None
        if v is p:
            continue
        if v.op is not None and v.op.name == "select" and v.block in own:
            todo += v.op.operands[1:]
        elif v.op is None and v.block in own and v.block is not p.block:
            args = [e.argument(v) for e in incoming[v.block]]
            if any(a is None for a in args):
                return None
            todo += [a for a in args if a is not None]
        else:
            others.append(v)
    return others if p in seen and others else None


def learn_head(loop: Loop, paths: list[BackPath], incoming: Incoming, ranges: Ranges, prover: Prover) -> None:
    """Add facts about the integer parameters of the head of a loop in normal form to ``ranges`` and ``prover``.

    The prover already knows what holds at the preheader.
    """
    for p in loop.head.params:
        start = loop.entry_edge().argument(p) if p.type == I64 else None
        if start is None:
            continue
        _learn_interval(p, start, paths, loop, incoming, ranges)
        steps = _steps(p, [w.args[p.index] for w in paths], loop, incoming)
        for sign in (1, -1):
            if steps is not None and steps.each and all(0 <= sign * s <= SMALL for s in steps.each):
                fastest = FAR if steps.repeated else max(map(abs, steps.each))
                _learn(p, start, sign, paths, loop, ranges, prover, fastest)
                break
        else:
            _learn_tested(p, start, paths, loop, ranges, prover)
            following = _alternatives([w.args[p.index] for w in paths], loop, incoming)
            _learn_remainder(p, start, following, loop, ranges, prover)
            _learn_growth(p, start, following, ranges)


def _learn_remainder(p: Value, start: Value, values: set[Value], loop: Loop, ranges: Ranges, prover: Prover) -> None:
    """Add the bounds of a ``p`` whose next ``values`` are remainders by one number, as ``(slot + 1) % n``."""
    sizes = {v.op.operands[1] if v.op is not None and v.op.name == "mod" else p for v in values - {p}}
    if len(sizes) != 1 or (n := sizes.pop()).block in loop.blocks:
        return
    form, first, size = ranges.form(p), ranges.form(start), ranges.form(n)
    if prover.proves(size) and prover.proves(first):
        prover.assume(form)
        if prover.proves(size.plus(Affine(-1))) and prover.proves(_short_of(first, size, 1, 1)):
            prover.assume(_short_of(form, size, 1, 1))


def _learn_growth(p: Value, start: Value, following: set[Value], ranges: Ranges) -> None:
    """Add that ``p``, which a test bounds from above, does not get below its start, if it only grows from there.

    A step down a tree is such a value: ``node = 2 * node + 1`` in ``while node < leaves``.
    """
    low, high = ranges.interval(p)
    first = ranges.interval(start)[0]
    if low >= first or high > FAR or first < -FAR:
        return
    _forget(following, p, ranges)                              # what has been found without the bounds
    ranges.intervals[p] = first, high
    if not all(ranges.interval(v)[0] >= first for v in following - {p}):
        _forget(following, p, ranges)
        ranges.intervals[p] = low, high


def _forget(values: set[Value], p: Value, ranges: Ranges) -> None:
    """Drop the intervals of ``values`` and of what they are computed from, up to ``p``."""
    todo, seen = list(values - {p}), {p}
    while todo:
        v = todo.pop()
        if v not in seen and v.type == I64:
            seen.add(v)
            ranges.intervals.pop(v, None)
            todo += v.op.operands if v.op is not None and len(seen) < LONGEST else []


def _learn_interval(p: Value, start: Value, paths: list[BackPath], loop: Loop, incoming: Incoming, ranges: Ranges
                    ) -> None:
    """Add the interval of ``p`` that follows from those of its start and of its next values, whatever ``p`` is now.

    A remainder is such a value: ``state = (a * state + c) % m``.
    """
    before = set(ranges.intervals)
    found = [ranges.interval(v) for v in _alternatives([path.args[p.index] for path in paths], loop, incoming) - {p}]
    for v in ranges.intervals.keys() - before:             # they may be less, now that the one of ``p`` is known
        del ranges.intervals[v]
    first = ranges.interval(start)
    if found and EVERYTHING not in found:
        ranges.intervals[p] = min(first[0], *(low for low, _ in found)), max(first[1], *(high for _, high in found))


def _alternatives(values: list[Value], loop: Loop, incoming: Incoming) -> set[Value]:
    """The values one of which each of ``values`` is: behind joins in the loop, those that come there."""
    found: set[Value] = set()
    todo, seen = list(values), set[Value]()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        args = [e.argument(v) for e in incoming[v.block]] if v.op is None and v.block in loop.blocks and \
            v.block is not loop.head and len(seen) < LONGEST else [None]
        if None in args:
            found.add(v)
        todo += [a for a in args if a is not None]
    return found


def _learn_tested(p: Value, start: Value, paths: list[BackPath], loop: Loop, ranges: Ranges, prover: Prover) -> None:
    """Add that ``p``, whose steps may have any sign, stays on one side of what every back path tests it against."""
    for sign in (1, -1):
        if (found := _common_bound(p, sign, paths, loop)) is not None:
            bound, slack = found
            if prover.proves(_short_of(ranges.form(start), ranges.form(bound), sign, slack)):
                prover.assume(_short_of(ranges.form(p), ranges.form(bound), sign, slack))
                (low, high), (least, most) = ranges.interval(p), ranges.interval(bound)
                ranges.intervals[p] = (low, min(high, most - slack)) if sign > 0 else (max(low, least + slack), high)


def _learn(p: Value, start: Value, sign: int, paths: list[BackPath], loop: Loop, ranges: Ranges, prover: Prover,
           fastest: int) -> None:
    """Add facts about ``p``, whose steps have the sign ``sign``, and which an iteration moves by ``fastest`` at most.

    ``p`` does not pass the bound that every back path tests.  If it cannot wrap, it also stays on its start's side.
    """
    (low, high), (least, most) = ranges.interval(start), prover.interval(ranges.form(start))
    low, high = max(low, least), min(high, most)
    safe = -FAR <= low and high <= FAR
    end = (high if sign > 0 else -low) + LONG if safe else LARGEST - SMALL
    form, first = ranges.form(p), ranges.form(start)
    if (found := _common_bound(p, sign, paths, loop)) is not None:
        bound, slack = found
        edges = ranges.interval(bound)
        last = (edges[1] if sign > 0 else -edges[0]) - slack
        if prover.proves(_short_of(first, ranges.form(bound), sign, slack)):
            prover.assume(_short_of(form, ranges.form(bound), sign, slack))
            end, safe = min(end, last), safe or fastest <= slack or last <= LARGEST - SMALL
        else:                                              # it is short of the bound, or still at its start
            end = min(end, max(last, high if sign > 0 else -low))
    if safe:
        ranges.intervals[p] = (low, max(end, low)) if sign > 0 else (min(-end, high), high)
        prover.assume(form.minus(first).times(sign))


def _short_of(x: Affine, bound: Affine, sign: int, slack: int) -> Affine:
    """The form that is >= 0 if ``x``, which moves in direction ``sign``, is at least ``slack`` short of ``bound``."""
    return bound.minus(x).times(sign).plus(Affine(-slack))


def _common_bound(p: Value, sign: int, paths: list[BackPath], loop: Loop) -> tuple[Value, int] | None:
    """(bound, slack): a loop-invariant value of which the next ``p`` is ``slack`` short on every back path."""
    found: tuple[Value, int] | None = None
    for path in paths:
        v = path.args[p.index]
        if v is p:
            continue
        bounds = (b for find in (_bound, partial(_bound_before, p)) for c, truth in path.conditions
                  if (b := find(c.op, truth, v, sign)) is not None)
        mine = next((b for b in bounds if b[0].block not in loop.blocks), None)
        if mine is None or (found is not None and mine != found):
            return None
        found = mine
    return found


# (op, its truth, True if v is the left operand) → (direction in which v is bounded, slack to the bound)
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


def _bound_before(p: Value, op: Op | None, truth: bool, v: Value, sign: int) -> tuple[Value, int] | None:
    """A bound of the next value ``v`` of ``p`` by a comparison of ``p``: ``p > 0`` bounds ``p - 1``.

    It may pass a constant: ``p >= 0`` tells that it is not below -1.
    """
    (x, step), (bound, slack) = constant_step(v.op) or (v, 0), _bound(op, truth, p, sign) or (v, 0)
    near = bound.const is not None and abs(bound.const) <= FAR and abs(step) <= SMALL
    return (bound, slack - sign * step) if x is p and 0 < sign * step and (near or sign * step <= slack) else None


# --- back paths -----------------------------------------------------------------------------------

def back_paths(loop: Loop, incoming: Incoming) -> Iterator[BackPath]:
    """The paths on which another iteration follows, of a loop in normal form."""
    assert loop.latch is not None and loop.latch.term is not None
    latch, term, edge = loop.latch, loop.latch.term, loop.back_edge()
    ways: Ways = {b: [] for b in loop.blocks}
    for block, e in ((b, e) for b in loop.blocks for e in (b.term.edges if b.term else ()) if e.block in ways):
        ways[e.block].append((block, e))
    if term.name != "branch":
        yield BackPath(edge.args, _on_the_way(latch, loop, ways))
        return
    condition, truth = term.operands[0], term.edges[0] is edge
    signal = _signal(condition, latch)
    if signal is None or not any(_is_number(e.argument(signal)) for e in incoming[latch]):
        yield BackPath(edge.args, _implied(condition, truth) + _on_the_way(latch, loop, ways))
        return
    for e in incoming[latch]:
        passed = {q: a for q in latch.params if (a := e.argument(q)) is not None}
        conditions = _repeats_if(passed[signal], condition, truth) if signal in passed else []
        if conditions is not None:
            yield BackPath([passed.get(a, a) for a in edge.args], conditions + _on_the_way(latch, loop, ways, e))


def _on_the_way(block: Block, loop: Loop, ways: Ways, last: Edge | None = None) -> list[tuple[Value, bool]]:
    """Conditions that hold on the way from the head, or from an inner loop, to ``block``, by ``last`` if it is given.

    ``a and b`` is a branch on ``a``, one side of which passes ``b`` and the other False.
    """
    found: list[tuple[Value, bool]] = []
    passed: tuple[Value, bool] | None = None                   # a parameter of the block, and its truth
    heads = {loop.head, *(inner.head for inner in _within(loop))}
    for _ in range(LONGEST):
        here = [(b, e) for b, e in ways[block] if (last is None or e is last) and _may_pass(e, passed)]
        if block in heads or len(here) != 1:
            break
        (block, edge), last = here[0], None
        if passed is not None and (v := edge.argument(passed[0])) is not None:
            found += _implied(v, passed[1])
        passed, term = None, block.term
        if term is not None and term.name == "branch":
            condition, truth = term.operands[0], term.edges[0] is edge
            found += _implied(condition, truth)
            passed = (condition, truth) if condition.owner is block else None
    return found


def _may_pass(edge: Edge, passed: tuple[Value, bool] | None) -> bool:
    """True unless an edge passes a constant of the other truth."""
    v = edge.argument(passed[0]) if passed else None
    return v is None or v.const is None or not passed or bool(v.const) is passed[1]



def repeating(loop: Loop, dom: Dominators) -> list[Block]:
    """The blocks from which another iteration may follow: those before a latch to which a ``break`` leads as well."""
    latch = loop.latch
    assert latch is not None and latch.term is not None
    if latch.term.name != "branch" or (signal := _signal(latch.term.operands[0], latch)) is None:
        return [latch]
    condition, truth = latch.term.operands[0], latch.term.edges[0] is loop.back_edge()
    found = []
    for block in dict.fromkeys(dom.preds[latch]):
        passed = [e.argument(signal) for e in (block.term.edges if block.term else ()) if e.block is latch]
        if any(v is None or _repeats_if(v, condition, truth) is not None for v in passed):
            found.append(block)
    return found


def _signal(condition: Value, latch: Block) -> Value | None:
    """The latch's parameter that its branch tests, directly or by ``lt`` with a constant."""
    if condition.owner is latch:
        return condition
    op = condition.op
    if op is not None and op.name == "lt" and op.operands[0].owner is latch and op.operands[1].const is not None:
        return op.operands[0]
    return None


def _is_number(v: Value | None) -> bool:
    """True for a constant, and for a choice of one: only those may be the numbers of exits."""
    return v is None or v.const is not None or v.op is not None and v.op.name == "select" and \
        any(x.const is not None for x in v.op.operands[1:])


def _repeats_if(v: Value, condition: Value, truth: bool) -> list[tuple[Value, bool]] | None:
    """The conditions under which ``v``, passed as the signal, asks for another iteration; ``None``: it never does."""
    def again(x: Value) -> bool:
        if x.const is None:
            return True
        test = x.const if condition.op is None else x.const < condition.op.operands[1].const
        return bool(test) is truth

    if v.op is not None and v.op.name == "select" and v.const is None:
        sides = [again(x) for x in v.op.operands[1:]]
        if sides == [False, False]:
            return None
        return [] if all(sides) else _implied(v.op.operands[0], sides[0])
    if v.const is not None:
        return [] if again(v) else None
    return _implied(v, truth) if condition.op is None else []


def _implied(condition: Value, truth: bool) -> list[tuple[Value, bool]]:
    """A condition, and the conditions that it implies as a conjunction, negated disjunction or negation."""
    out, todo = [], [(condition, truth)]
    while todo:
        c, t = todo.pop()
        out.append((c, t))
        if c.op is not None and ((c.op.name == "and" and t) or (c.op.name == "or" and not t)):
            todo += [(x, t) for x in c.op.operands]
        elif c.op is not None and c.op.name == "not":
            todo.append((c.op.operands[0], not t))
    return out


@dataclass
class _Steps:
    """``each``: the amounts of single steps.  ``repeated``: an inner loop makes any number of them."""

    each: set[int] = field(default_factory=set)
    repeated: bool = False


def _within(loop: Loop) -> Iterator[Loop]:
    """The loops in a loop."""
    for child in loop.children:
        yield child
        yield from _within(child)


def _steps(p: Value, values: list[Value], loop: Loop, incoming: Incoming) -> _Steps | None:
    """The steps of ``p`` to ``values``, which it has in the next iteration; ``None`` if one is not reached by steps."""
    found, inner = _Steps(), {c.head for c in _within(loop)}
    todo = [(v, 0) for v in values]
    seen: set[tuple[Value, int]] = set()
    while todo:
        v, s = todo.pop()
        if (v, s) in seen:
            continue
        seen.add((v, s))
        step = constant_step(v.op)
        if v is p:
            found.each.add(s)
        elif step is not None:
            todo.append((step[0], s + step[1]))
        elif v.op is None and v.block in loop.blocks and v.block is not loop.head and len(seen) < LONGEST:
            args = [e.argument(v) for e in incoming[v.block]]
            if any(a is None for a in args):
                return None
            if v.block in inner:
                found.each.add(s)
                found.repeated, s = True, 0
            todo += [(a, s) for a in args if a is not None]
        elif v.op is None or v.op.name != "undef":
            return None
    return found


def constant_step(op: Op | None) -> tuple[Value, int] | None:
    """``(x, k)`` if the op is ``x + k``."""
    if op is None or op.name not in ("add", "sub"):
        return None
    x, y = op.operands
    if y.const is not None:
        return x, y.const if op.name == "add" else -y.const
    return (y, x.const) if x.const is not None and op.name == "add" else None
