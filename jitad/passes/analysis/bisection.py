"""Facts about the ends of an interval that a loop bisects.

Two parameters *bisect* an interval if each iteration replaces one of them, or both, by their mean, or by a neighbour of
it, and goes on while they are in order, as a binary search does in ``while hi - lo > 1: mid = (lo + hi) // 2; …``.
Neither passes its start, nor the other one, and what is computed as their mean lies between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from ...ir.graph import Value
from ...ir.types import I64
from .affine import Affine, AffineForms
from .induction import LONG, SMALL, BackPath, Choice, constant_step
from .ranges import Prover, Ranges


def learn_bisected(among: Iterable[Choice], paths: list[BackPath], ranges: Ranges, prover: Prover) -> None:
    """Add facts about pairs of choices in one loop that bisect an interval."""
    for lo, hi in permutations(among, 2):
        _learn(lo, hi, paths, ranges, prover)


def _learn(lo: Choice, hi: Choice, paths: list[BackPath], ranges: Ranges, prover: Prover) -> None:
    """Add what holds for the ends of an interval, ``lo`` and ``hi``, and for their mean, if the loop bisects it."""
    apart = min((_distance(path, lo.param.index, hi.param.index) for path in paths), default=-1)
    (first, _), (_, last) = ranges.interval(lo.start), ranges.interval(hi.start)
    starts = ranges.form(hi.start).minus(ranges.form(lo.start))
    if apart < 0 or first < -LONG or last > LONG or not prover.proves(starts.plus(Affine(-apart))):
        return
    means = dict[Value, None]()
    for choice, most in ((lo, apart // 2), (hi, (apart + 1) // 2)):
        for v in choice.others:
            mean, offset = _mean(v, lo.param, hi.param)
            if mean is None or offset * (-1 if choice is lo else 1) > most or abs(offset) > SMALL:
                return
            means[mean] = None
    ranges.intervals |= {lo.param: (first, last - apart), hi.param: (first + apart, last)}
    bottom, low, high, top = (ranges.form(v) for v in (lo.start, lo.param, hi.param, hi.start))
    for fact in (low.minus(bottom), top.minus(high), high.minus(low).plus(Affine(-apart))):
        prover.assume(fact)
    for mean in means:
        prover.assume(ranges.form(mean).minus(low).plus(Affine(-(apart // 2))))
        prover.assume(high.minus(ranges.form(mean)).plus(Affine(-((apart + 1) // 2))))


def _distance(path: BackPath, lo: int, hi: int) -> int:
    """The least by which the next ``hi`` exceeds the next ``lo`` on a back path; less than 0 if nothing tests that."""
    forms, found = AffineForms(), -1
    between = forms.of(path.args[hi]).minus(forms.of(path.args[lo]))
    for condition, truth in path.conditions:
        op = condition.op
        if op is None or op.name not in _SIGNS or op.operands[0].type != I64:
            continue
        sign, strict = _SIGNS[op.name]
        x, y = map(forms.of, op.operands)
        if any(abs(f.constant) > SMALL or any(abs(c) > 1 or not between.coefficient(v) for v, c in f.terms)
               for f in (x, y)):
            continue                                         # it might wrap
        rest = between.minus(x.minus(y).times(sign if truth else -sign))
        if not rest.terms and 0 <= rest.constant <= SMALL:
            found = max(found, rest.constant + (strict is truth))
    return found


def _mean(v: Value, lo: Value, hi: Value) -> tuple[Value | None, int]:
    """The mean of ``lo`` and ``hi``, rounded down, from which ``v`` is a constant away, and that distance."""
    step = constant_step(v.op)
    mean, offset = step if step is not None else (v, 0)
    forms = AffineForms()
    both, op = forms.of(lo).plus(forms.of(hi)), mean.op
    if op is not None and op.name == "add":                  # lo + (hi - lo) // 2
        half = next((x for x, y in (op.operands, op.operands[::-1]) if y is lo), None)
        both, op = forms.of(hi).minus(forms.of(lo)), half.op if half is not None else None
    divides = op is not None and len(op.operands) == 2 and (op.name, op.operands[1].const) in _HALVES
    return (mean, offset) if op is not None and divides and forms.of(op.operands[0]).is_same(both) else (None, 0)


_HALVES = (("floordiv", 2), ("shr", 1))
_SIGNS = {"gt": (1, True), "ge": (1, False), "lt": (-1, True), "le": (-1, False)}
"""By comparison: the sign of the left operand in the form that is not negative if it holds, and if it is strict."""
