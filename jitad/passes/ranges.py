"""What is known of integers: sums of values, bounds on them, and proofs that such a sum is not negative.

A ``Form`` is a whole-number combination of i64 values (its atoms) and a constant.  An op is looked into only if its
numeric interval shows that it does not wrap; otherwise its result is an atom of its own, so a proof about forms is a
proof about machine integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.graph import Op, Value
from ..ir.types import ALL, I64, U64

LARGEST = 2**63 - 1
LARGEST_SIZE = 2**48
"""No array has more elements along an axis: addresses have fewer bits."""

LONGEST = 8
"""More atoms than this are not worth a proof."""

Interval = tuple[int, int]
EVERYTHING: Interval = (-LARGEST - 1, LARGEST)


@dataclass(frozen=True)
class Form:
    """``constant`` plus the sum of ``coefficient · atom``."""

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Form, times: int = 1) -> Form:
        terms = dict(self.terms)
        for v, c in other.terms:
            terms[v] = terms.get(v, 0) + times * c
        return Form(self.constant + times * other.constant, tuple((v, c) for v, c in terms.items() if c))

    def minus(self, other: Form) -> Form:
        return self.plus(other, -1)

    def times(self, k: int) -> Form:
        return Form(0).plus(self, k)


class Ranges:
    """Forms and intervals of values, which hold wherever the value is defined."""

    def __init__(self) -> None:
        self.intervals: dict[Value, Interval] = {}
        self._forms: dict[Value, Form] = {}

    def interval(self, v: Value) -> Interval:
        """The numbers that ``v`` can be, as far as its definition alone tells."""
        if v not in self.intervals:
            chain = [v]
            while chain:                                 # operands first, without recursion
                missing = [o for o in (chain[-1].op.operands if chain[-1].op else ()) if o.type == I64
                           and o not in self.intervals and o not in chain]
                if missing and len(chain) < 200:
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
        return (low, high) if -LARGEST - 1 <= low and high <= LARGEST else EVERYTHING

    def is_now(self, v: Value, other: Value) -> None:
        """``v`` has turned out to be equal to ``other``."""
        self.intervals[v], self._forms[v] = self.interval(other), self.form(other)

    def form(self, v: Value, depth: int = 12) -> Form:
        """``v`` as a sum, looked into as far as nothing wraps (and not endlessly)."""
        known = self._forms.get(v)
        if known is None:
            known = self._form(v, depth - 1) if depth else Form(0, ((v, 1),))
            self._forms[v] = known
        return known

    def _form(self, v: Value, depth: int) -> Form:
        op, atom = v.op, Form(0, ((v, 1),))
        if op is None or v.type != I64:
            return atom
        if op.name == "const":
            return Form(v.const)
        if op.name not in ("add", "sub", "mul", "neg") or not self._exact(op):
            return atom
        x = self.form(op.operands[0], depth)
        if op.name == "neg":
            return x.times(-1)
        y = self.form(op.operands[1], depth)
        if len(x.terms) + len(y.terms) > LONGEST:
            return atom
        if op.name == "mul":
            return x.times(y.constant) if not y.terms else y.times(x.constant) if not x.terms else atom
        return x.plus(y) if op.name == "add" else x.minus(y)

    def _exact(self, op: Op) -> bool:
        """Whether an op cannot wrap."""
        low, high = _apply(op, [self.interval(o) for o in op.operands])
        return -LARGEST - 1 <= low and high <= LARGEST

    def form_interval(self, form: Form) -> Interval:
        low = high = form.constant
        for v, c in form.terms:
            a, b = self.interval(v)
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high


_CASTS = {"bool": (0, 1)} | {t.name: (t.low, t.high) for t in ALL if t.is_int and t is not U64}


def _apply(op: Op, xs: list[Interval]) -> Interval:
    """The interval of an op's exact result."""
    if op.name == "neg":
        return -xs[0][1], -xs[0][0]
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
    return EVERYTHING


class Prover:
    """Facts, each ``form >= 0``, in scopes, and proofs from them.

    A fact bounds the youngest of its atoms (the one defined last) by older ones; a proof replaces the youngest atom of
    what is to be shown by a bound of it, until only a number is left."""

    STEPS = 24

    def __init__(self, ranges: Ranges, age: dict[Value, int]) -> None:
        self.ranges, self.age = ranges, age
        self.lower: dict[Value, list[Form]] = {}
        self.upper: dict[Value, list[Form]] = {}
        self.trail: list[list[Form]] = []                # lists to take the last entry off
        self._steps = 0

    def mark(self) -> int:
        return len(self.trail)

    def undo(self, mark: int) -> None:
        while len(self.trail) > mark:
            self.trail.pop().pop()

    def assume(self, form: Form) -> None:
        """From here on ``form >= 0``."""
        if not form.terms:
            return
        v, c = self._youngest(form)
        if c in (1, -1):
            rest = Form(form.constant, tuple(t for t in form.terms if t[0] is not v))
            bounds = (self.lower if c == 1 else self.upper).setdefault(v, [])
            bounds.append(rest.times(-c))
            self.trail.append(bounds)

    def proves(self, form: Form) -> bool:
        """Whether ``form >= 0`` follows."""
        self._steps = self.STEPS
        return self._proves(form)

    def _youngest(self, form: Form) -> tuple[Value, int]:
        return max(form.terms, key=lambda term: self.age[term[0]])

    def _proves(self, form: Form) -> bool:
        if self.ranges.form_interval(form)[0] >= 0:
            return True
        self._steps -= 1
        if not form.terms or self._steps < 0:
            return False
        v, c = self._youngest(form)
        rest = Form(form.constant, tuple(t for t in form.terms if t[0] is not v))
        return any(self._proves(rest.plus(bound, c // scale)) for bound, scale in self._bounds(v, c))

    def _bounds(self, v: Value, c: int) -> list[tuple[Form, int]]:
        """(bound, k): ``k·v`` is at most (for negative ``c``) or at least the bound; k divides c."""
        known = self.upper if c < 0 else self.lower
        out = [(bound, 1) for bound in reversed(known.get(v, ()))]
        if v.op is not None:
            out += self._bounds_of_op(v.op, c)
        number = self.ranges.interval(v)[1 if c < 0 else 0]
        if number not in EVERYTHING:
            out.append((Form(number), 1))
        return out

    def _bounds_of_op(self, op: Op, c: int) -> list[tuple[Form, int]]:
        form = self.ranges.form
        if op.name in ("maximum", "minimum") and (op.name == "minimum") == (c < 0):
            return [(form(v), 1) for v in op.operands]
        if op.name == "floordiv" and (k := op.operands[1].const) is not None and k > 0 and c % k == 0:
            x = form(op.operands[0])
            return [(x if c < 0 else x.plus(Form(1 - k)), k)]
        if op.name == "mod" and c < 0 and self.ranges.interval(op.operands[1])[0] >= 1:
            return [(form(op.operands[1]).plus(Form(-1)), 1)]
        return []
