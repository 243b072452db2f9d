"""Ranges of integers: intervals, and proofs that an affine form (``affine``) is not negative.

A form looks through an op only if its interval shows that it does not wrap.  Otherwise the result is an atom.  So a
proof about forms is a proof about machine integers.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Op, Value
from ...ir.types import ALL, I64, U64
from .affine import Affine, AffineForms

SMALLEST, LARGEST = -2**63, 2**63 - 1
LARGEST_SIZE = 2**48
"""A bound of sizes: addresses have fewer bits."""

DEEPEST = 200
"""The longest chain of operands that is followed.  Bounds the memory for long chains; the end of a longer one counts as
any integer."""
Interval = tuple[int, int]
EVERYTHING: Interval = (SMALLEST, LARGEST)


class Ranges:
    """Affine forms and intervals of values, which hold wherever the value is defined."""

    def __init__(self) -> None:
        self.intervals: dict[Value, Interval] = {}
        self.forms = AffineForms(self.exact)

    def interval(self, v: Value) -> Interval:
        """The interval of ``v`` that follows from its definition alone."""
        if v not in self.intervals:
            chain = [v]
            while chain:                                 # operands first, without recursion
                missing = [o for o in (chain[-1].op.operands if chain[-1].op else ()) if o.type == I64
                           and o not in self.intervals and o not in chain]
                if missing and len(chain) < DEEPEST:
                    chain.append(missing[0])
                else:
                    last = chain.pop()
                    self.intervals[last] = self._interval(last)
        return self.intervals[v]

    def _interval(self, v: Value) -> Interval:
        op = v.op
        if op is None or v.type != I64:
            return EVERYTHING
        if op.name == "const":
            return v.const, v.const
        if op.name == "dim":
            return 0, LARGEST_SIZE
        if op.name == "cast" and op.operands[0].type != I64:
            return _CASTS.get(str(op.operands[0].type), EVERYTHING)
        xs = [self.intervals.get(o, EVERYTHING) for o in op.operands]
        low, high = _apply(op, xs)
        return (low, high) if SMALLEST <= low and high <= LARGEST else EVERYTHING

    def is_now(self, v: Value, other: Value) -> None:
        """Record that ``v`` is equal to ``other``."""
        self.intervals[v], self.forms.known[v] = self.interval(other), self.form(other)

    def form(self, v: Value) -> Affine:
        """The affine form of ``v`` as a number: ops that may wrap are atoms."""
        return self.forms.of(v)

    def exact(self, op: Op) -> bool:
        """True if an op cannot wrap."""
        low, high = _apply(op, [self.interval(o) for o in op.operands])
        return SMALLEST <= low and high <= LARGEST

    def form_interval(self, form: Affine, interval: Callable[[Value], Interval] | None = None) -> Interval:
        """The interval of a form that follows from those of its atoms; ``interval`` may know narrower ones."""
        low = high = form.constant
        for v, c in form.terms:
            a, b = (interval or self.interval)(v)
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high


_CASTS = {"bool": (0, 1)} | {t.name: (t.low, t.high) for t in ALL if t.is_int and t is not U64}


def _apply(op: Op, xs: list[Interval]) -> Interval:
    """The interval of an op's exact result."""
    if op.name == "neg":
        return -xs[0][1], -xs[0][0]
    if op.name == "abs":
        low, high = xs[0]
        return (max(low, -high, 0), max(-low, high)) if low > SMALLEST else EVERYTHING
    if op.name in ("clz", "popcount"):
        low, high = xs[0]
        return (64 - high.bit_length(), 64 - low.bit_length()) if low >= 0 and op.name == "clz" else (0, 64)
    if op.name == "select":
        return min(xs[1][0], xs[2][0]), max(xs[1][1], xs[2][1])
    if len(xs) != 2:
        return EVERYTHING
    (a, b), (c, d) = xs
    if op.name == "add":
        return a + c, b + d
    if op.name == "sub":
        return a - d, b - c
    if op.name == "mul":
        corners = [a * c, a * d, b * c, b * d]
        return min(corners), max(corners)
    if op.name == "maximum":
        return max(a, c), max(b, d)
    if op.name == "minimum":
        return min(a, c), min(b, d)
    if op.name == "floordiv" and c >= 1:
        return min(a // c, a // d), max(b // c, b // d)
    if op.name == "mod" and c >= 0:
        return 0, max(0, d - 1)
    return _of_bits(op.name, a, b, c, d)


def _of_bits(name: str, a: int, b: int, c: int, d: int) -> Interval:
    """The interval of an op on the bits of a number from ``a`` to ``b`` and one from ``c`` to ``d``."""
    if name == "and" and (a >= 0 or c >= 0):
        return 0, min(high for low, high in ((a, b), (c, d)) if low >= 0)
    if name in ("or", "xor") and a >= 0 and c >= 0:
        return max(a, c) if name == "or" else 0, (1 << max(b, d).bit_length()) - 1
    if name == "shr" and c >= 0:
        shifts = min(c, 64), min(d, 64)
        return min(a >> k for k in shifts), max(b >> k for k in shifts)
    if name == "shl" and a >= 0 and 0 <= c and d < 64:
        return a << c, b << d
    return EVERYTHING


class Prover:
    """Facts of the form ``form >= 0``, in scopes, and proofs from them.

    A fact bounds its youngest atom, the one defined last, by older atoms.  A proof replaces the youngest atom of the
    goal by one of its bounds, until only a number is left.  An atom that is one of several values, such as a minimum
    that is to be bounded from below, is replaced by each of them, and each goal has to be proved.
    """

    STEPS = 24
    """The most replacements in a proof.  Indices of up to four loops with a few bounds each take fewer than twelve."""

    def __init__(self, ranges: Ranges, age: dict[Value, int]) -> None:
        self.ranges, self.age = ranges, age
        self.lower: dict[Value, list[Affine]] = {}
        self.upper: dict[Value, list[Affine]] = {}
        self.trail: list[list[Affine]] = []                # lists whose last entry ``undo`` removes
        self._steps = 0

    def mark(self) -> int:
        return len(self.trail)

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            self.trail.pop().pop()

    def assume(self, form: Affine) -> None:
        """Add the fact ``form >= 0``, until the next ``undo`` of an earlier mark."""
        if not form.terms:
            return
        v, c = self._youngest(form)
        if c in (1, -1):
            rest = form.without(v)
            bounds = (self.lower if c == 1 else self.upper).setdefault(v, [])
            bounds.append(rest.times(-c))
            self.trail.append(bounds)

    def proves(self, form: Affine) -> bool:
        """True if ``form >= 0`` follows from the facts."""
        self._steps = self.STEPS
        return self._proves(form)

    def interval(self, form: Affine) -> Interval:
        """The interval of a form that follows from those of its atoms and from facts that bound one atom by a number.
        """
        def narrowed(v: Value) -> Interval:
            low, high = self.ranges.interval(v)
            return (max([low, *(bound.constant for bound in self.lower.get(v, ()) if not bound.terms)]),
                    min([high, *(bound.constant for bound in self.upper.get(v, ()) if not bound.terms)]))
        return self.ranges.form_interval(form, narrowed)

    def _youngest(self, form: Affine) -> tuple[Value, int]:
        return max(form.terms, key=lambda term: self.age[term[0]])

    def _proves(self, form: Affine) -> bool:
        if self.ranges.form_interval(form)[0] >= 0:
            return True
        self._steps -= 1
        if not form.terms or self._steps < 0:
            return False
        v, c = self._youngest(form)
        rest = form.without(v)
        if any(self._proves(rest.plus(bound, c // scale)) for bound, scale in self._bounds(v, c)):
            return True
        values = self._values(v, c)
        return bool(values) and all(self._proves(rest.plus(value, c)) for value in values)

    def _bounds(self, v: Value, c: int) -> list[tuple[Affine, int]]:
        """Pairs (bound, k), where k divides c: ``k·v`` is at most the bound if ``c`` is negative, else at least."""
        known = self.upper if c < 0 else self.lower
        out = [(bound, 1) for bound in reversed(known.get(v, ()))]
        if v.op is not None:
            out += self._bounds_of_op(v.op, c)
        number = self.ranges.interval(v)[1 if c < 0 else 0]
        if number not in EVERYTHING:
            out.append((Affine(number), 1))
        return out

    def _values(self, v: Value, c: int) -> list[Affine]:
        """The values one of which an extreme is, if each of its operands alone does not bound it on this side."""
        op = v.op
        if op is None or op.name != ("maximum" if c < 0 else "minimum"):
            return []
        return [self.ranges.form(x) for x in op.operands]

    def _bounds_of_op(self, op: Op, c: int) -> list[tuple[Affine, int]]:
        form = self.ranges.form
        if op.name in ("maximum", "minimum") and (op.name == "minimum") == (c < 0):
            return [(form(v), 1) for v in op.operands]
        if op.name == "floordiv" and (k := op.operands[1].const) is not None and k > 0 and c % k == 0:
            x = form(op.operands[0])
            return [(x if c < 0 else x.plus(Affine(1 - k)), k)]
        if op.name == "mod" and c < 0 and self.ranges.interval(op.operands[1])[0] >= 1:
            return [(form(op.operands[1]).plus(Affine(-1)), 1)]
        return []
