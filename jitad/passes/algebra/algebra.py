"""Algebraic simplification of float formulas, under ``fastmath`` only.

Derivatives of derivatives are long sums in which most terms cancel.  The pass computes for each float a normal form
(``laurent``): a sum of *terms*, which are products of powers of *atoms*.  Atoms are values that the pass does not look
into, such as loads, parameters and ``erf(x)``.  A quotient is a negative power, a square root is half a power, the
product of exponentials is one exponential, and ``exp(log(x) + y)`` is ``x * exp(y)``.  Then

* a value whose form is a constant is replaced by that constant;
* a value that is one term, and equals another value of the block, is replaced by it;
* a value that is one term is recomputed from that term, if that costs less than the ops that then become dead.

A sum of several terms is not rewritten: ``(x - y)²`` must not become ``x² - 2xy + y²``, which loses all digits if x is
close to y.  In a single term nothing can cancel, so results become more accurate, if anything.  But the last digits
change, and so do the inputs for which an intermediate overflows.  Only ``fastmath`` allows this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

from ...ir.dominance import reverse_postorder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import F32, F64, Scalar
from ..analysis.cfg import Mapping, resolve, substitute
from ..analysis.cost import formula_cost
from .laurent import ONE, Arithmetic, Key, Powers, Sum, atom, constant, lone, single

PRECISION = {F64: (49, 2.0 ** 900), F32: (20, 2.0 ** 100)}
"""For coefficients: the bits that count (eight units in the last place count as rounding errors), and a bound."""

PLAIN = 2.0 ** 12
"""Coefficients between its inverse and it hardly change for which inputs a product overflows."""

STABILITY = 3
"""The additional cost, in additions, that a term may have if it replaces an addition or subtraction, whose terms may
cancel numerically."""

CONE = 300
"""The most ops of a formula whose cost is counted."""


def algebra(module: Module) -> None:
    """Simplify the float formulas of every function."""
    for func in module.functions.values():
        for type in (F64, F32):
            if any(op.name in ("mul", "div") and op.result.type == type for op in func.all_ops()):
                _Formulas(func, type).rewrite()


class _Formulas:
    """The float values of one type in one function."""

    def __init__(self, func: Function, type: Scalar) -> None:
        self.func, self.type = func, type
        self.math = Arithmetic(*PRECISION[type])
        self.sums: dict[Value, Sum] = {}
        self.atoms: list[Value] = []
        self.numbers: dict[Value, int] = {}
        self.uses = Counter(v for op in func.all_ops() for v in op.used())
        self.mapping: Mapping = {}

    def rewrite(self) -> None:
        for block in reverse_postorder(self.func):
            # Of this block: form → value, exponential → value of a single term, function and arguments → value.
            self.available: dict[Key, Value] = {}
            self.carriers: dict[int, Value] = {}
            self.known: dict[tuple[str, tuple[Key, ...]], Value] = {}
            self.kept: list[Op] = []
            for op in block.ops:
                op.operands = [resolve(self.mapping, v) for v in op.operands]
                new = self._replacement(op) if len(op.results) == 1 and op.result.type == self.type else None
                if new is None:
                    self.kept.append(op)
                else:
                    self._replace(op, new)
            block.ops = self.kept
        substitute(self.func, self.mapping)

    # --- replacements -------------------------------------------------------------------------------

    def _replacement(self, op: Op) -> Value | None:
        """The value that should replace the op's result, or ``None``."""
        v = op.result
        x = self.sums[v] = self._sum(op)
        if op.name == "const":
            return None
        one = single(x)
        if not x or (one is not None and one[0] == ONE):
            return self._emit(op, "const", value=one[1] if one else 0.0, type=self.type)
        if one is None:
            return self._other(op)
        (powers, exponential), c = one
        if (a := lone(x)) is not None:
            return None if self.atoms[a] is v else self.atoms[a]
        if (equal := self.available.get(self.math.key(x))) is not None:
            return equal
        if not exponential or self._carries(exponential, powers):
            factors, c = self._factors(powers, exponential, c)
            saved = self._saved_cost(op, factors)
            if _cost_of_product(factors, c) < saved + (STABILITY if op.name in ("add", "sub") else 0):
                v = self._product(op, factors, c)
        if v is not op.result or op.name not in ("add", "sub"):
            self.available[self.math.key(x)] = v
            if exponential and (exponential not in self.carriers or not powers):
                self.carriers[exponential] = v
        return None if v is op.result else v

    def _other(self, op: Op) -> Value | None:
        """The other operand of an addition of 0, or of a subtraction of 0."""
        x, y = op.operands if op.name in ("add", "sub") else (op.result, op.result)
        return x if not self._of(y) else y if not self._of(x) and op.name == "add" else None

    def _carries(self, exponential: int, powers: Powers) -> bool:
        """True if a value of the block has this exponential, and is 0 or infinite only where this term is."""
        if exponential not in self.carriers:
            return False
        ((has, _), d), = self.sums[self.carriers[exponential]].items()
        given = dict(powers)
        kept = all(0 < n <= given.get(a, 0) or given.get(a, 0) <= n < 0 for a, n in has)
        return kept and 1 / PLAIN <= abs(d) <= PLAIN

    def _factors(self, powers: Powers, exponential: int, c: float) -> tuple[dict[Value, int], float]:
        """Values with powers, and a constant, whose product is this term."""
        left = dict(powers)
        factors: dict[Value, int] = {}
        if exponential:
            carrier = self.carriers[exponential]
            ((has, _), d), = self.sums[carrier].items()
            factors[carrier] = 1
            c /= d
            for a, n in has:
                left[a] = left.get(a, 0) - n
        for a, n in list(left.items()):                      # √x / x is 1 / √x
            x = lone(self.math.squares.get(a, {}))
            if n == 1 and x is not None and left.get(x, 0) < 0:
                left[a], left[x] = -1, left[x] + 1
        for a, n in left.items():
            if n:
                factors[self.atoms[a]] = factors.get(self.atoms[a], 0) + n
        return factors, c

    def _saved_cost(self, op: Op, needed: Collection[Value]) -> int:
        """The cost of the op, and of the ops of its block that become dead with it if ``needed`` stay."""
        total, left = 0, dict[Value, int]()
        dead_ops = [op]
        for dead in dead_ops:
            total += formula_cost(dead)
            if len(dead_ops) > CONE:
                break
            for v in dead.operands:
                if v in needed or v.op is None or v.op.block is not op.block or not OPS[v.op.name].elementwise:
                    continue
                left[v] = left.get(v, self.uses[v]) - 1
                if not left[v]:
                    dead_ops.append(v.op)
        return total

    def _product(self, op: Op, factors: dict[Value, int], c: float) -> Value:
        """Emit a term.  Powers below −1 are powers of a reciprocal, so that ``exp(x) / (1 + exp(x))²`` cannot overflow.
        """
        above = [v for v, n in factors.items() for _ in range(n)]
        below = [v for v, n in factors.items() if n == -1]
        for v, n in factors.items():
            if n < -1:
                one = self._emit(op, "const", value=1.0, type=self.type)
                above += [self._emit(op, "div", one, v)] * -n
        if abs(c) != 1.0 or not above:
            above.insert(0, self._emit(op, "const", value=c, type=self.type))
            c = 1.0
        y = reduce(lambda a, b: self._emit(op, "mul", a, b), above)
        if below:
            y = self._emit(op, "div", y, reduce(lambda a, b: self._emit(op, "mul", a, b), below))
        return self._emit(op, "neg", y) if c < 0 else y

    def _emit(self, at: Op, name: str, *operands: Value, **attrs: Any) -> Value:
        op = Op(name, operands, [self.type], attrs, loc=at.loc)
        op.block = at.block
        self.kept.append(op)
        self.uses.update(operands)
        return op.result

    def _replace(self, op: Op, new: Value) -> None:
        self.mapping[op.result] = new
        self.sums.setdefault(new, self.sums[op.result])
        self.uses[new] += self.uses[op.result]
        self.uses.subtract(op.operands)

    # --- the form of an op's result -----------------------------------------------------------------

    def _sum(self, op: Op) -> Sum:
        known = OPS[op.name].elementwise and all(v.type == self.type for v in op.operands)
        rule = _RULES.get(op.name, _Formulas._function) if known and not op.attrs.keys() - {"acc", "apart"} else None
        found = rule(self, op, [self._of(v) for v in op.operands]) if rule is not None else None
        if op.name == "const" and math.isfinite(op.attrs["value"]):
            found = constant(float(op.attrs["value"]))
        return found if found is not None else self._atom(op.result)

    def _of(self, v: Value) -> Sum:
        if v not in self.sums:
            self.sums[v] = self._atom(v)
        return self.sums[v]

    def _number(self, v: Value) -> int:
        if v not in self.numbers:
            self.numbers[v] = len(self.atoms)
            self.atoms.append(v)
        return self.numbers[v]

    def _atom(self, v: Value) -> Sum:
        return atom(self._number(v))

    def _first(self, name: str, xs: Sequence[Sum], v: Value) -> int:
        """The atom for a function of these arguments: the first such value of the block."""
        return self._number(self.known.setdefault((name, tuple([self.math.key(x) for x in xs])), v))

    def _base(self, v: Value) -> Sum:
        """The form of a value as the base of a power: one term, or an atom for the value."""
        x = self._of(v)
        return x if len(x) == 1 else atom(self._first("", [x], v))

    def _function(self, op: Op, xs: list[Sum]) -> Sum | None:
        return atom(self._first(op.name, xs, op.result))

    def _add(self, op: Op, xs: list[Sum]) -> Sum | None:
        return self.math.add(xs[0], xs[1])

    def _sub(self, op: Op, xs: list[Sum]) -> Sum | None:
        return self.math.add(xs[0], xs[1], -1.0)

    def _neg(self, op: Op, xs: list[Sum]) -> Sum | None:
        return {term: -c for term, c in xs[0].items()}

    def _mul(self, op: Op, xs: list[Sum]) -> Sum | None:
        return self.math.multiply(*xs)

    def _div(self, op: Op, xs: list[Sum]) -> Sum | None:
        below = self.math.inverse(self._base(op.operands[1])) if xs[1] else None
        return None if below is None else self.math.multiply(xs[0], below)

    def _pow(self, op: Op, xs: list[Sum]) -> Sum | None:
        n = op.operands[1].const
        expands = n is not None and abs(n) <= 4 and n == round(n) and xs[0]
        return self.math.power(self._base(op.operands[0]), int(n)) if expands else self._function(op, xs)

    def _sqrt(self, op: Op, xs: list[Sum]) -> Sum | None:
        root = self._first(op.name, xs, op.result)
        if self.math.is_plain(xs[0]):
            self.math.squares.setdefault(root, xs[0])
        return atom(root)

    def _log(self, op: Op, xs: list[Sum]) -> Sum | None:
        log = self._first(op.name, xs, op.result)
        if log not in self.math.logs:
            plain = self.math.is_plain(xs[0])
            self.math.logs[log] = xs[0] if plain else atom(self._first("", xs, op.operands[0]))
        return atom(log)

    def _exp(self, op: Op, xs: list[Sum]) -> Sum | None:
        return self.math.exp(xs[0])


_RULES: dict[str, Callable[[_Formulas, Op, list[Sum]], Sum | None]] = {
    "add": _Formulas._add, "sub": _Formulas._sub, "neg": _Formulas._neg, "mul": _Formulas._mul, "div": _Formulas._div,
    "pow": _Formulas._pow, "sqrt": _Formulas._sqrt, "log": _Formulas._log, "exp": _Formulas._exp,
}


def _cost_of_product(factors: dict[Value, int], c: float) -> int:
    """The cost of the product that ``_product`` emits."""
    powers, below = [-n for n in factors.values() if n < -1], sum(n == -1 for n in factors.values())
    above = sum(max(n, 0) for n in factors.values()) + sum(powers)
    above += abs(c) != 1.0 or not above
    return above - 1 + len(powers) * EXPENSIVE + (below - 1 + EXPENSIVE if below else 0)
