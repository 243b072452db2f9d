"""The normal form of ``algebra``: a sum of products of powers (a Laurent polynomial), in which equal terms cancel.

::

    sum      = {term: coefficient}                  no coefficient is 0
    term     = (((atom, power), …), exponential)    powers are integers other than 0; by atom
    exponential                                     the number of a sum whose exp is a factor; 0: none

So ``exp(x) * exp(y)`` and ``exp(x + y)`` are the same term.  Coefficients are floats.  Two coefficients that differ by
rounding errors of a few operations count as equal; otherwise ``0.7071… * 0.7071…`` would not be 0.5.
"""

from __future__ import annotations

import math

Powers = tuple[tuple[int, int], ...]
Term = tuple[Powers, int]
Sum = dict[Term, float]
Key = frozenset[tuple[Term, float]]

ONE: Term = ((), 0)
TERMS, PRODUCTS, POWER, FACTORS = 12, 36, 12, 12
"""The most terms of a sum, products of terms in a multiplication, the largest power, and the most atoms of a term.
Larger forms become atoms: most of them would not cancel."""


LARGE = 50.0
"""A constant in an exponent becomes a factor if it is below this."""


class Arithmetic:
    """Arithmetic on sums; a method returns ``None`` if the result is too long or too large.

    ``bits``: the bits of a coefficient that rounding errors leave alone.  ``largest``: a bound of coefficients and of
    their inverses.
    """

    def __init__(self, bits: int, largest: float) -> None:
        self.bits, self.largest = bits, largest
        self.exponents: list[Sum] = [{}]
        self._numbers: dict[Key, int] = {frozenset(): 0}
        # Square root or logarithm → its argument.  Arguments are plain, or chains of roots would be followed.
        self.squares: dict[int, Sum] = {}
        self.logs: dict[int, Sum] = {}

    def add(self, x: Sum, y: Sum, sign: float = 1.0) -> Sum | None:
        out = dict(x)
        for term, c in y.items():
            old = out.get(term, 0.0)
            new = old + sign * c
            if abs(new) <= abs(c) * 2.0 ** -self.bits:
                out.pop(term, None)
            elif self._fits(new):
                out[term] = new
            else:
                return None
        return out if len(out) <= TERMS else None

    def multiply(self, x: Sum, y: Sum) -> Sum | None:
        if len(x) * len(y) > PRODUCTS:
            return None
        out: Sum = {}
        for s, c in x.items():
            for t, d in y.items():
                product = self._product(s, t, c * d)
                total = None if product is None else self.add(out, product)
                if total is None:
                    return None
                out = total
        return out

    def inverse(self, x: Sum) -> Sum | None:
        """The inverse of a sum of one term."""
        ((powers, e), c), = x.items()
        below = self._reduced(tuple((a, -n) for a, n in powers), 0, 1.0 / c)
        above = self.exp({t: -d for t, d in self.exponents[e].items()})
        return None if below is None or above is None else self.multiply(below, above)

    def power(self, x: Sum, n: int) -> Sum | None:
        base = self.inverse(x) if n < 0 else x
        out: Sum | None = {ONE: 1.0} if abs(n) <= POWER else None
        for _ in range(min(abs(n), POWER)):
            out = self.multiply(out, base) if out is not None and base is not None else None
        return out

    def key(self, x: Sum) -> Key:
        """A key that is equal for sums that are equal up to rounding errors."""
        return frozenset((term, self._rounded(c)) for term, c in x.items())

    def exp(self, x: Sum) -> Sum | None:
        """The exponential as one term: constants and integer multiples of logarithms are moved out of the exponent."""
        out: Sum | None = {ONE: 1.0}
        left: Sum = {}
        for term, c in x.items():
            a = lone({term: 1.0})
            base = None if a is None or abs(c) > POWER else self.logs.get(a)
            multiple = math.floor(c + abs(c) * 2.0 ** -self.bits) if base is not None else 0
            if abs(c - multiple) > abs(c) * 2.0 ** -self.bits:
                left[term] = c - multiple
            if term == ONE and abs(c) < LARGE:
                factor: Sum | None = constant(math.exp(left.pop(term)))
            else:
                factor = {ONE: 1.0} if base is None else self.power(base, multiple)
            out = None if out is None or factor is None else self.multiply(out, factor)
        key = self.key(left)
        if key not in self._numbers:
            self._numbers[key] = len(self.exponents)
            self.exponents.append(left)
        e = self._numbers[key]
        return self.multiply(out, {((), e): 1.0}) if out is not None and e else out

    def _product(self, s: Term, t: Term, c: float) -> Sum | None:
        powers, (e, f) = _merged(s[0], t[0]), (s[1], t[1])
        if not e or not f:
            return self._reduced(powers, e or f, c)
        exponent = self.add(self.exponents[e], self.exponents[f])
        both, rest = None if exponent is None else self.exp(exponent), self._reduced(powers, 0, c)
        return None if both is None or rest is None else self.multiply(both, rest)

    def _reduced(self, powers: Powers, e: int, c: float) -> Sum | None:
        """A term with each power of a square root reduced to 0 or 1."""
        if len(powers) > FACTORS:
            return None
        for a, n in powers:
            if a in self.squares and n not in (0, 1):
                rest = tuple((b, m) for b, m in powers if b != a)
                square = self.power(self.squares[a], n // 2)
                kept = _merged(rest, ((a, n % 2),) if n % 2 else ())
                return None if square is None else self.multiply({(kept, e): c}, square)
        return {(powers, e): c} if self._fits(c) and all(abs(n) <= POWER for _, n in powers) else None

    def is_plain(self, x: Sum) -> bool:
        """True if this is one term without exponentials, roots and logarithms."""
        return len(x) == 1 and all(not e and all(a not in self.squares and a not in self.logs for a, _ in powers)
                                   for powers, e in x)

    def _fits(self, c: float) -> bool:
        return 1 / self.largest < abs(c) < self.largest

    def _rounded(self, c: float) -> float:
        if not self._fits(c):
            return c
        mantissa, exponent = math.frexp(c)
        return math.ldexp(round(math.ldexp(mantissa, self.bits)), exponent - self.bits)


def atom(number: int) -> Sum:
    return {(((number, 1),), 0): 1.0}


def constant(c: float) -> Sum:
    return {ONE: c} if c else {}


def single(x: Sum) -> tuple[Term, float] | None:
    """The one term of a sum, with its coefficient."""
    return next(iter(x.items())) if len(x) == 1 else None


def lone(x: Sum) -> int | None:
    """The atom to which this sum is equal, if there is one."""
    one = single(x)
    if one is None:
        return None
    (powers, exponential), c = one
    alone = not exponential and c == 1.0 and len(powers) == 1 and powers[0][1] == 1
    return powers[0][0] if alone else None


def _merged(p: Powers, q: Powers) -> Powers:
    if not p or not q:
        return p or q
    out = dict(p)
    for a, n in q:
        out[a] = out.get(a, 0) + n
    return tuple(sorted((a, n) for a, n in out.items() if n))
