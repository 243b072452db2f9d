"""Counts the iterations of loops that step an integer up to a bound, as ``for`` does: from 0, first of all.

::

    ^preheader:                                ^preheader:
      jump ^loop(%x, %start)                     %trip = %bound - %start
    ^loop(%s, %j):               becomes         jump ^loop(0, %x, …)
      …                                        ^loop(%it, %s, …):
      %k = add %j, 1                             %j = %start + %it
      branch %k < %bound, ^loop(…, %k), …        …
                                                 branch %it + 1 < %trip, ^loop(%it + 1, …), …

``while j < n: …; j += 1`` is such a loop, as are those that count down or up to ``<=``, or with several bounds, as in
``while j < n and j <= i + radius``.  What is passed on behind the loop for ``j`` is its bound.  With several bounds the
trip count must provably not wrap.  With one, a trip count that has wrapped is not positive, since the loop is entered:
the largest integer takes its place, which is as good as the number itself, as no loop comes to its end.

With one bound, the step may be another one, ``n // 2`` as well.  A sieve's ``while j <= n: …; j += i`` is such a loop.
It goes on for ever if ``i`` turns out not to be positive, and has the largest integer for its trip count.

A loop that counts already gets its counter as the first parameter, since the passes that follow look for it there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Value
from ...ir.ops import MIRRORED, NEGATED, ORDERS
from ...ir.types import I64
from ..analysis.affine import Affine
from ..analysis.facts import Walk
from ..analysis.loops import Loop, counted, loop_forest, stepped
from ..analysis.ranges import LARGEST


def loop_counters(module: Module) -> bool:
    """Count every such loop; expects normal form.  Returns True if anything has changed."""
    changed = False
    for func in module.functions.values():
        steps = [s for s in map(_step, loop_forest(func).loops) if s is not None]
        if steps:
            _Counting(func, steps).run()
            changed = True
        for loop in loop_forest(func).loops:
            known = counted(loop)
            if known is not None and known.iv.index:
                _move_first(loop, known.iv)
                changed = True
    return changed


@dataclass(frozen=True)
class _Step:
    """A loop that is repeated while ``param`` plus ``by``, or minus it as ``sign`` says, is within all bounds.

    It is short of a bound, or equal to it if the bound is inclusive.  ``by`` is positive or a loop-invariant value.
    """

    loop: Loop
    param: Value
    sign: int
    by: int | Value
    bounds: tuple[tuple[Value, bool], ...]

    @property
    def start(self) -> Value:
        return self.loop.entry_edge().args[self.param.index]


def _step(loop: Loop) -> _Step | None:
    """The counting of a loop, if ``counted`` does not take it as it is."""
    latch = loop.latch
    if loop.preheader is None or latch is None or loop.exit is None or latch.term is None or counted(loop) is not None:
        return None
    if latch.term.name != "branch":
        return None
    repeats = latch.term.edges[0].block is loop.head
    found = [_bound(loop, test, repeats) for test in _tests(latch.term.operands[0], "and" if repeats else "or")]
    if None in found or len({b[:3] for b in found if b}) != 1:
        return None
    param, sign, by = next(b[:3] for b in found if b)
    return _Step(loop, param, sign, by, tuple(b[3:] for b in found if b)) if by == 1 or len(found) == 1 else None


def _tests(condition: Value, junction: str) -> list[Value]:
    """The conditions that ``and`` or ``or`` joins."""
    op = condition.op
    return [t for v in op.operands for t in _tests(v, junction)] if op and op.name == junction else [condition]


def _bound(loop: Loop, condition: Value, repeats: bool) -> tuple[Value, int, int | Value, Value, bool] | None:
    """The parameter that a condition bounds, how it steps to the bound, the bound, and whether that is inclusive."""
    test = condition.op
    if test is None or test.name not in ORDERS or test.operands[0].type != I64:
        return None
    name = test.name if repeats else NEGATED[test.name]
    for following, bound, relation in (*zip(test.operands, test.operands[::-1], (name, MIRRORED[name])),):
        sign = 1 if relation in ("lt", "le") else -1
        found = _stepped(loop, following, sign)
        if found is not None and (bound.block not in loop.blocks or bound.const is not None):
            param, by = found
            return param, sign, by, bound, relation in ("le", "ge")
    return None


def _stepped(loop: Loop, following: Value, sign: int) -> tuple[Value, int | Value] | None:
    """The parameter of the head that each iteration replaces by ``following``, and by what it steps that way."""
    for param, after in loop.back_edge().passed():
        if after is following and (step := stepped(loop, param)) is not None:
            amount, direction = step
            if amount.const is not None and direction * sign * amount.const > 0:
                return param, abs(amount.const)
            if amount.const is None and direction == sign:
                return param, amount
    return None


class _Counting(Walk):
    """Proves, at the end of each preheader, that the trip count is positive and does not wrap; counts such loops."""

    def __init__(self, func: Function, steps: list[_Step]) -> None:
        super().__init__(func)
        self.steps = {s.loop.preheader: s for s in steps}
        self.proved: list[tuple[_Step, list[bool]]] = []

    def run(self) -> None:
        super().run()
        for step, fits in self.proved:
            _count(step, fits)

    def end(self, block: Block) -> None:
        step = self.steps.get(block)
        if step is None:
            return
        fits = self._fits(step)
        if fits is not None:
            self.proved.append((step, fits))

    def _fits(self, step: _Step) -> list[bool] | None:
        """For each bound, whether the distance to it provably does not wrap; at least one more to one of them neither.

        ``None`` if not, unless there is one bound, or if the loop may not be entered.
        """
        form, proves = self.ranges.form, self.prover.proves
        fits, behind = [], False
        rest = step.by - 1 if isinstance(step.by, int) else 0
        for bound, inclusive in step.bounds:
            low, high = (step.start, bound) if step.sign > 0 else (bound, step.start)
            distance, extra = form(high).minus(form(low)), 1 if inclusive else 0
            if not proves(distance.plus(Affine(extra - 1))):
                return None
            up_to, past = (proves(form(low).plus(Affine(-k))) or proves(Affine(LARGEST - k).minus(distance))
                           for k in (rest, rest + extra))
            fits.append(up_to)
            behind |= up_to and past
        if len(fits) > 1:
            return fits if behind else None
        return [behind and (isinstance(step.by, int) or proves(form(step.by).plus(Affine(-1))))]


def _count(step: _Step, fits: list[bool]) -> None:
    """Let a loop count from 0, and compute from that what it steps."""
    loop, param, start = step.loop, step.param, step.start
    preheader, latch, head = loop.preheader, loop.latch, loop.head
    assert preheader is not None and latch is not None and latch.term is not None
    entry, back, leave = loop.entry_edge(), loop.back_edge(), loop.exit_edge()
    following = back.args[param.index]
    term, preheader.term = preheader.term, None
    b = Builder(preheader, latch.term.loc)
    trip, end = _trip(b, step, start, fits)
    zero = b.const(0)
    preheader.term = term
    leave.args = [end if a is following else a for a in leave.args]

    it = head.add_param(I64, "it")
    entry.args.append(zero)
    ops, head.ops = head.ops, []
    b = Builder(head, latch.term.loc)
    moved = it if step.by == 1 else b.mul(it, step.by)
    value = b.add(start, moved) if step.sign > 0 else b.sub(start, moved)
    head.ops += ops
    for block in loop.blocks:
        for op in block.all_ops():
            op.replace_uses({param: value})
    term, latch.term = latch.term, None
    b = Builder(latch, term.loc)
    after = b.add(it, 1)
    again = b.lt(after, trip)
    back.args.append(after)
    term.operands = [again]
    term.edges = [back, leave]
    latch.term = term


def _trip(b: Builder, step: _Step, start: Value, fits: list[bool]) -> tuple[Value, Value]:
    """Emit the trip count, and the first value that is not within all bounds."""
    up, inclusive = step.sign > 0, any(within for _, within in step.bounds)
    ends = [b.again(v) for v, _ in step.bounds]
    if inclusive:
        ends = [v if within else b.sub(v, step.sign) for v, (_, within) in zip(ends, step.bounds)]
    near = ends[fits.index(True)] if any(fits) else ends[0]
    distances = []
    for v, fit in zip(ends, fits):
        if not fit and len(ends) > 1:                      # no further than one to which the distance does not wrap
            v = b.minimum(v, near) if up else b.maximum(v, near)
        distances.append(b.sub(v, start) if up else b.sub(start, v))
    trip = functools.reduce(b.minimum, distances)
    trip = b.add(trip, 1) if inclusive else trip
    if step.by != 1:
        return _strided(b, step, start, trip, all(fits))
    if not any(fits):
        trip = b.select(b.gt(trip, 0), trip, b.const(LARGEST))
    if len(ends) > 1:
        return trip, b.add(start, trip) if up else b.sub(start, trip)
    return trip, b.add(ends[0], step.sign) if inclusive else ends[0]


def _strided(b: Builder, step: _Step, start: Value, distance: Value, fits: bool) -> tuple[Value, Value]:
    """The same for a step other than one."""
    if isinstance(step.by, int):
        trip = b.floordiv(b.add(distance, step.by - 1), step.by)
        goes_on = b.le(trip, 0)
    else:
        trip = b.add(b.floordiv(b.sub(distance, 1), b.maximum(step.by, 1)), 1)
        goes_on = b.or_(b.le(trip, 0), b.le(step.by, 0))
    if not fits:
        trip = b.select(goes_on, b.const(LARGEST), trip)
    moved = b.mul(trip, step.by)
    return trip, b.add(start, moved) if step.sign > 0 else b.sub(start, moved)


def _move_first(loop: Loop, iv: Value) -> None:
    """Make a parameter of a loop's head the first one."""
    at = iv.index
    for edge in (loop.entry_edge(), loop.back_edge()):
        edge.args.insert(0, edge.args.pop(at))
    params = loop.head.params
    params.insert(0, params.pop(at))
    for i, p in enumerate(params):
        p.index = i
