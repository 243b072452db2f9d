"""Floats that cannot be negative, and bounds of the integer parts of others.

The check that guards ``math.sqrt(x * x + y * y)`` is then removed, and so are the checks of ``image[int(y), int(x)]``
behind ``if 0.0 <= y < rows and 0.0 <= x < columns``.

NaN is allowed everywhere: a comparison with NaN is false, and false is what is concluded here.  −0 counts as negative,
since 1 / −0 is −inf.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import MIRRORED, ORDERS
from ...ir.types import F64, I64, Scalar
from .affine import Affine
from .loops import Counted
from .ranges import Prover

DEEP = 12
"""The deepest expression that is looked into.  The cost is paid in every round of ``simplify``."""


def never(op: Op, given: Collection[Value] = ()) -> bool:
    """True if ``op`` compares a float with 0 or less (``<``, ``<=``, ``==``) and is false for all that it may be.

    ``given``: values that are known to be positive.
    """
    x, y = op.operands
    name = op.name
    if x.const is not None:
        x, y, name = y, x, {"gt": "lt", "ge": "le"}.get(name, name if name == "eq" else "")
    if y.const is None or not isinstance(x.type, Scalar) or not x.type.is_float or not y.const <= 0:
        return False
    if name == "lt" or y.const < 0:
        return name in ("lt", "le", "eq") and has_no_sign(x, DEEP, given)
    return name in ("le", "eq") and is_positive(x, DEEP, given)


def positive_inputs(op: Op, inside: set[Block]) -> list[Value] | None:
    """Values from outside the blocks ``inside``, such as arguments, for which ``never(op)`` holds if they are positive.

    ``None`` if that does not follow from any.
    """
    todo, found = list(op.operands), dict[Value, None]()
    for v in todo:                                       # grows
        if v.const is not None or not isinstance(v.type, Scalar) or not v.type.is_float:
            continue
        if v.block not in inside:
            found[v] = None
        elif v.op is not None and len(todo) < 2 * DEEP and not has_no_sign(v):
            todo += v.op.operands
    return list(found) if found and never(op, found) else None


def has_no_sign(v: Value, depth: int = DEEP, given: Collection[Value] = ()) -> bool:
    """True if ``v`` is +0, positive, or NaN."""
    op = v.op
    if v in given:
        return True
    if v.const is not None:
        return math.copysign(1.0, v.const) > 0
    if op is None or not depth:
        return False
    if op.name in ("abs", "exp", "exp2", "cosh"):
        return True
    xs = op.operands
    if op.name == "mul" and xs[0] is xs[1]:
        return True
    if op.name in ("add", "mul", "div", "minimum", "sqrt"):
        return all(has_no_sign(x, depth - 1, given) for x in xs)
    if op.name == "select":
        return all(has_no_sign(x, depth - 1, given) for x in xs[1:])
    return op.name == "maximum" and (all(has_no_sign(x, depth - 1, given) for x in xs) or is_positive(v, depth, given))


def is_positive(v: Value, depth: int = DEEP, given: Collection[Value] = ()) -> bool:
    """True if ``v`` is greater than 0, or NaN.  Products and quotients do not count, since they may underflow to 0."""
    op = v.op
    if v in given:
        return True
    if v.const is not None:
        return bool(v.const > 0)
    if op is None or not depth:
        return False
    xs = op.operands
    if op.name == "add":
        return any(is_positive(x, depth - 1, given) and has_no_sign(y, depth - 1, given) for x, y in (xs, xs[::-1]))
    if op.name in ("sqrt", "minimum"):
        return all(is_positive(x, depth - 1, given) for x in xs)
    if op.name == "select":
        return all(is_positive(x, depth - 1, given) for x in xs[1:])
    return op.name == "cosh" or (op.name == "maximum" and any(is_positive(x, depth - 1, given) for x in xs))


# --- magnitudes ---------------------------------------------------------------------------------------

def decided_below(op: Op, truth: bool) -> float:
    """The magnitude below which a float has the result ``truth`` in a test for a number, or an integer part; else 0."""
    if not op.operands or op.operands[0].type != F64:
        return 0.0
    if op.name == "isnan":
        return 0.0 if truth else 2.0**1000
    known = op.name in ("ge", "lt") and op.operands[1].const == (-TOO_LARGE if op.name == "ge" else TOO_LARGE)
    return TOO_LARGE / 2 if truth and known else 0.0


def is_bounded(v: Value, inside: set[Block], depth: int = DEEP - 4) -> bool:
    """True for a float that sums and products make of integers and values from outside the blocks ``inside``."""
    op = v.op
    if op is None or v.block not in inside or v.const is not None:
        return v.block not in inside or v.const is not None
    if op.name == "cast":
        return op.operands[0].type == I64
    return depth > 0 and op.name in ("add", "sub", "mul", "neg") and all(
        is_bounded(u, inside, depth - 1) for u in op.operands)


def bound(b: Builder, v: Value, inside: set[Block], loop: Counted) -> Value:
    """Emit, ahead of a loop, the same of magnitudes: rounding is monotone, so that ``v`` is not further from 0."""
    op = v.op
    if op is None or v.block not in inside or v.const is not None:
        return b.abs(v if v.const is None else b.const(v.const))
    if op.name == "cast":
        return b.emit("cast", loop.trip, dtype=F64) if op.operands[0] is loop.iv else b.const(TOO_LARGE)
    magnitudes = [bound(b, u, inside, loop) for u in op.operands]
    return magnitudes[0] if op.name == "neg" else b.emit("mul" if op.name == "mul" else "add", *magnitudes)


# --- integer parts ------------------------------------------------------------------------------------

LARGEST_EXACT, TOO_LARGE, LARGEST_PART, FAR = 2**53, 2.0**63, 2**63 - 1024, 1e250
"""Integers up to the first are floats without rounding, floats from the second on have no integer part of 64 bits, and
the third is the integer part of the largest float before them.  Bounds beyond the last are not used."""
WHOLE = frozenset({"floor", "trunc", "round", "ceil"})
_OF_ALL = frozenset({"neg", "abs", "floor", "trunc", "sin", "cos", "add", "sub", "mul", "div", "minimum", "maximum"})
Bounds = tuple[float, float]
_NEGATED = {"lt": "ge", "gt": "le", "le": "gt", "ge": "lt"}


class FloatFacts:
    """Conclusions about floats and their integer parts from comparisons that are known to hold, or not to hold.

    ``tests``: the comparisons of each float, and ``isnan`` of it.  ``known``: the truth of those that are known.
    """

    def __init__(self, func: Function, known: Mapping[Value, bool], prover: Prover) -> None:
        self.known, self.prover, self.ranges = known, prover, prover.ranges
        self.tests: dict[Value, list[Op]] = {}
        for op in func.all_ops():
            if op.name == "isnan" or op.name in ORDERS:
                for v in op.operands:
                    if v.type == F64 and v.const is None:
                        self.tests.setdefault(v, []).append(op)

    def decides(self, op: Op) -> bool | None:
        """The truth of ``isnan(x)``, or of a test that ``x`` has an integer part; ``None`` if unknown."""
        x = op.operands[0]
        if op.name == "isnan":
            return False if self._is_number(x) else None
        if op.name not in ("ge", "lt") or op.operands[1].const != {"ge": -TOO_LARGE, "lt": TOO_LARGE}[op.name]:
            return None
        return self._fits(x, op.name) or None

    def of_integer(self, cast: Op) -> list[Affine]:
        """Forms that are not negative for the integer part of a float, from the bounds of the float.

        The cast of what is too large for an integer may be any integer.
        """
        x = cast.operands[0]
        if not self._fits(x, "lt"):
            return []
        part, facts = self.ranges.form(cast.result), self._facts(x)
        found = [Affine(LARGEST_PART).minus(part)]
        lower = [self._whole(v) for name, v in facts if name in ("ge", "gt")]
        floor = x.op is not None and x.op.name == "floor" or any(
            form is not None and self.ranges.form_interval(form)[0] >= 0 for form in lower)
        found += [part.minus(form) for form in lower if form is not None]     # no part is less than the floor
        for name, v in facts:
            form = self._whole(v) if name in ("lt", "le") else None
            if form is not None:
                less = name == "lt" and (v.const is None or form.constant == v.const)
                found.append(form.minus(part).plus(Affine((-1 if less else 0) + (0 if floor else 1))))
        return found

    def whole(self, cast: Op) -> Value | None:
        """The whole float that became the integer which ``cast`` makes a float again, if it is within 64 bits."""
        part = cast.operands[0].op
        x = part.operands[0] if part is not None and part.name == "cast" else None
        known = x is not None and x.type == cast.result.type == F64 and x.op is not None and x.op.name in WHOLE
        return x if x is not None and known and self._fits(x, "ge") and self._fits(x, "lt") else None

    def _fits(self, x: Value, name: str) -> bool:
        """True if ``x`` is known not to be too small (``ge``) or too large (``lt``) for an integer."""
        if (within := self._bounds(x)) is not None and max(map(abs, within)) <= TOO_LARGE / 2:    # for any rounding
            return True
        if name == "ge":
            bounds = [self._bound(v, 0) for n, v in self._facts(x) if n in ("ge", "gt")]
            return any(b is not None and b >= -TOO_LARGE for b in bounds)
        limits = [(n, self._bound(v, 1)) for n, v in self._facts(x)]
        return any(b is not None and (n == "lt" and b <= TOO_LARGE or n == "le" and b < TOO_LARGE) for n, b in limits)

    def _is_number(self, x: Value) -> bool:
        """True if ``x`` is known not to be NaN: an ordered comparison of it holds, or it is finite."""
        known = self.known.get
        tests = (op for v in _wholes(x) for op in self.tests.get(v, ()))
        return self._bounds(x) is not None or any(known(op.result) is (op.name != "isnan") for op in tests)

    def _bounds(self, v: Value, depth: int = 8) -> Bounds | None:
        """Bounds of a float that is computed from integers and finite constants; ``None`` if it may not be finite."""
        op = v.op
        if v.const is not None:
            return (v.const, v.const) if math.isfinite(v.const) else None
        if op is None or not depth or v.type != F64:
            return None
        if op.name == "cast" and op.operands[0].type == I64:
            form, most = self.ranges.form(op.operands[0]), Affine(LARGEST_EXACT)
            low, high = self.prover.interval(form)
            return (float(-LARGEST_EXACT if low < -LARGEST_EXACT and self.prover.proves(most.plus(form)) else low),
                    float(LARGEST_EXACT if high > LARGEST_EXACT and self.prover.proves(most.minus(form)) else high))
        found: list[Bounds] = []
        for x in op.operands if op.name in _OF_ALL else ():
            if (bounds := self._bounds(x, depth - 1)) is None:
                return None
            found.append(bounds)
        result = _of_bounds(op.name, *found) if found else None
        return result if result is not None and max(map(abs, result)) < FAR else None

    def _facts(self, x: Value) -> list[tuple[str, Value]]:
        """Comparisons of ``x``, or of that of which it is the integer part, with what is no NaN."""
        found, number = [], self._is_number(x)
        for v in _wholes(x):
            for op in self.tests.get(v, ()):
                truth = self.known.get(op.result)
                if truth is None or op.name == "isnan" or not (truth or number):
                    continue
                left = op.operands[0] is v
                name, other = op.name if left else MIRRORED[op.name], op.operands[1 if left else 0]
                if self._bound(other, 0) is not None:
                    found.append((name if truth else _NEGATED[name], other))
        return found

    def _bound(self, v: Value, side: int) -> float | None:
        """The least (``side`` 0) or largest value of a constant or of a small integer as a float."""
        if v.const is not None:
            return None if math.isnan(v.const) else float(v.const)
        if v.op is None or v.op.name != "cast" or v.op.operands[0].type != I64:
            return None
        interval = self.ranges.interval(v.op.operands[0])
        return float(interval[side]) if max(map(abs, interval)) <= LARGEST_EXACT else None

    def _whole(self, v: Value) -> Affine | None:
        """The floor of a bound."""
        if v.const is None:
            return self.ranges.form(v.op.operands[0]) if v.op is not None else None
        return Affine(math.floor(v.const)) if abs(v.const) < TOO_LARGE else None


def _of_bounds(name: str, x: Bounds, y: Bounds = (0.0, 0.0)) -> Bounds | None:
    """Bounds of a function of floats within bounds: rounding keeps the order."""
    (a, b), (c, d) = x, y
    if name in ("sin", "cos"):
        return -2.0, 2.0
    if name in ("floor", "trunc"):
        return a - 1.0, b + 1.0
    if name in ("neg", "sub"):
        return (-b, -a) if name == "neg" else (a - d, b - c)
    if name == "abs":
        return 0.0, max(-a, b)
    if name == "add":
        return a + c, b + d
    if name in ("minimum", "maximum"):
        return min(a, c), max(b, d)
    if name == "div" and c <= 0 <= d:
        return None
    corners = [p * q if name == "mul" else p / q for p in x for q in y]
    return min(corners), max(corners)


def _wholes(x: Value) -> list[Value]:
    """A float, and that of which it is the integer part."""
    return [x, x.op.operands[0]] if x.op is not None and x.op.name in ("floor", "trunc") else [x]
