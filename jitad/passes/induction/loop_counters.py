"""Counts the iterations of loops that step an integer by one up to a bound, as ``for`` does: from 0, first of all.

::

    ^preheader:                                ^preheader:
      jump ^loop(%x, %start)                     %trip = %bound - %start
    ^loop(%s, %j):               becomes         jump ^loop(0, %x, …)
      …                                        ^loop(%it, %s, …):
      %k = add %j, 1                             %j = %start + %it
      branch %k < %bound, ^loop(…, %k), …        …
                                                 branch %it + 1 < %trip, ^loop(%it + 1, …), …

``while j < n: …; j += 1`` is such a loop, as are those that count down or up to ``<=``, or with several bounds, as in
``while j < n and j <= i + radius``.  What is passed on behind the loop for ``j`` is its bound.  The trip count must
provably not wrap.  A loop that counts already gets its counter as the first parameter, since the passes that follow
look for it there.
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
    """A loop that is repeated while ``param`` plus ``sign`` is within all bounds.

    It is short of a bound, or equal to it if the bound is inclusive.
    """

    loop: Loop
    param: Value
    sign: int
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
    if None in found or len({b[:2] for b in found if b}) != 1:
        return None
    param, sign = next(b[:2] for b in found if b)
    return _Step(loop, param, sign, tuple(b[2:] for b in found if b))


def _tests(condition: Value, junction: str) -> list[Value]:
    """The conditions that ``and`` or ``or`` joins."""
    op = condition.op
    return [t for v in op.operands for t in _tests(v, junction)] if op and op.name == junction else [condition]


def _bound(loop: Loop, condition: Value, repeats: bool) -> tuple[Value, int, Value, bool] | None:
    """The parameter that a condition bounds, its step, the bound, and whether it is inclusive."""
    test = condition.op
    if test is None or test.name not in ORDERS or test.operands[0].type != I64:
        return None
    name = test.name if repeats else NEGATED[test.name]
    for following, bound, relation in (*zip(test.operands, test.operands[::-1], (name, MIRRORED[name])),):
        sign = 1 if relation in ("lt", "le") else -1
        param = _stepped(loop, following, sign)
        if param is not None and (bound.block not in loop.blocks or bound.const is not None):
            return param, sign, bound, relation in ("le", "ge")
    return None


def _stepped(loop: Loop, following: Value, sign: int) -> Value | None:
    """The parameter of the head that each iteration replaces by ``following``, which is it plus ``sign``."""
    for param, after in loop.back_edge().passed():
        if after is following and (step := stepped(loop, param)) is not None:
            amount, direction = step
            if amount.const is not None and direction * amount.const == sign:
                return param
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

        ``None`` if not, or if the loop may not be entered.
        """
        form, proves = self.ranges.form, self.prover.proves
        fits, behind = [], False
        for bound, inclusive in step.bounds:
            low, high = (step.start, bound) if step.sign > 0 else (bound, step.start)
            distance, extra = form(high).minus(form(low)), 1 if inclusive else 0
            if not proves(distance.plus(Affine(extra - 1))):
                return None
            up_to, past = (proves(form(low).plus(Affine(-k))) or proves(Affine(LARGEST - k).minus(distance))
                           for k in (0, extra))
            fits.append(up_to)
            behind |= up_to and past
        return fits if behind else None


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
    value = b.add(start, it) if step.sign > 0 else b.sub(start, it)
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
    near = ends[fits.index(True)]
    distances = []
    for v, fit in zip(ends, fits):
        if not fit:                                        # no further than one to which the distance does not wrap
            v = b.minimum(v, near) if up else b.maximum(v, near)
        distances.append(b.sub(v, start) if up else b.sub(start, v))
    trip = functools.reduce(b.minimum, distances)
    trip = b.add(trip, 1) if inclusive else trip
    if len(ends) > 1:
        return trip, b.add(start, trip) if up else b.sub(start, trip)
    return trip, b.add(ends[0], step.sign) if inclusive else ends[0]


def _move_first(loop: Loop, iv: Value) -> None:
    """Make a parameter of a loop's head the first one."""
    at = iv.index
    for edge in (loop.entry_edge(), loop.back_edge()):
        edge.args.insert(0, edge.args.pop(at))
    params = loop.head.params
    params.insert(0, params.pop(at))
    for i, p in enumerate(params):
        p.index = i
