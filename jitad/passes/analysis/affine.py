"""Affine forms: an i64 as a constant plus a sum of multiples of other i64 values, its atoms.

All passes use this form.  ``ranges`` proves facts about forms, parallel loops compare the forms of their indices, and
loop passes read the steps of induction variables from them.

A form holds modulo 2⁶⁴, like machine arithmetic.  With ``exact``, ops that may wrap are atoms, and the form holds for
the integers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...ir.graph import Block, Op, Value
from ...ir.types import I64, Array
from .loops import Counted, Loop

LONGEST = 8
"""The most atoms of a form.  Indices in programs have up to four; a proof takes as many steps as there are atoms."""
MOST_PAIRS = 1000
"""The most pairs of a store and a load that are compared in a loop, which bounds the time for long bodies."""
DEEPEST = 12
"""The longest chain of ops that is followed.  Bounds the time for long chains of additions."""


class Affine(NamedTuple):
    """``constant`` plus the sum of ``coefficient · atom``; no coefficient is 0.

    A tuple, since it takes two thirds of the time of a frozen dataclass to make one, and proofs make thousands.
    """

    constant: int
    terms: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: Affine, times: int = 1) -> Affine:
        if not other.terms:
            return Affine(self.constant + times * other.constant, self.terms)
        terms = dict(self.terms)
        for v, c in other.terms:
            terms[v] = terms.get(v, 0) + times * c
        return Affine(self.constant + times * other.constant, tuple((v, c) for v, c in terms.items() if c))

    def minus(self, other: Affine) -> Affine:
        return self.plus(other, -1)

    def times(self, k: int) -> Affine:
        return Affine(0).plus(self, k)

    def coefficient(self, atom: Value) -> int:
        return next((c for v, c in self.terms if v is atom), 0)

    def without(self, atom: Value) -> Affine:
        """The form without its term in ``atom``."""
        return Affine(self.constant, tuple(t for t in self.terms if t[0] is not atom))

    def is_same(self, other: Affine) -> bool:
        """True if both forms are equal for all values of the atoms."""
        return self.minus(other) == Affine(0)


def atom(v: Value) -> Affine:
    return Affine(0, ((v, 1),))


def without_multiple(x: Affine, n: Affine) -> Affine:
    """``x`` minus the multiple of ``n`` that it contains: ``i - 1`` for ``i - 1 + n``."""
    if n.terms:
        return x.plus(n, -x.coefficient(n.terms[0][0])) if len(n.terms) == 1 and n.terms[0][1] == 1 else x
    return x.plus(n, -round(x.constant / n.constant)) if n.constant > 0 else x


class AffineForms:
    """A cache of the affine forms of values.  ``exact(op)``: the op cannot wrap; without it, forms hold modulo 2⁶⁴."""

    def __init__(self, exact: Callable[[Op], bool] | None = None) -> None:
        self.exact = exact
        self.known: dict[Value, Affine] = {}

    def of(self, v: Value, depth: int = DEEPEST) -> Affine:
        """The form of ``v``, through at most ``depth`` ops."""
        known = self.known.get(v)
        if known is None:
            known = self.known[v] = self._form(v, depth - 1) if depth else atom(v)
        return known

    def _form(self, v: Value, depth: int) -> Affine:
        op = v.op
        if op is None or v.type != I64:
            return atom(v)
        if op.name == "const":
            return Affine(v.const)
        if op.name not in ("add", "sub", "mul", "neg") or not (self.exact is None or self.exact(op)):
            return atom(v)
        x = self.of(op.operands[0], depth)
        if op.name == "neg":
            return x.times(-1)
        y = self.of(op.operands[1], depth)
        if len(x.terms) + len(y.terms) > LONGEST:
            return atom(v)
        if op.name == "mul":
            return x.times(y.constant) if not y.terms else y.times(x.constant) if not x.terms else atom(v)
        return x.plus(y) if op.name == "add" else x.minus(y)


def unwrapped(v: Value) -> Value:
    """``i`` if ``v`` is ``select(i < 0, i + n, i)``, an index that may count from the end; ``v`` itself otherwise."""
    op = v.op
    test = op.operands[0].op if op is not None and op.name == "select" else None
    if op is None or test is None or test.name != "lt" or test.operands[0] is not op.operands[2] or \
            test.operands[1].const != 0:
        return v
    return op.operands[2]


def stays_beyond(forms: AffineForms, fixed: Value, moving: Value, loop: Loop, known: Counted) -> bool:
    """True if ``fixed`` does not change in a counted loop, and ``moving``, which does, never takes on its value.

    An example are the rows below the one of a pivot: ``moving`` is ``fixed + 1`` plus the counter.
    """
    step = forms.of(moving).coefficient(known.iv)
    first = forms.of(moving).without(known.iv)
    if abs(step) != 1 or any(v.block in loop.blocks for v, _ in (*first.terms, *forms.of(fixed).terms)):
        return False
    ahead = forms.of(fixed).minus(first).times(step)           # its distance from the first value, along the way
    behind = ahead.minus(forms.of(known.trip))
    return not ahead.terms and ahead.constant < 0 or not behind.terms and behind.constant >= 0


def through_memory(loop: Loop, blocks: Iterable[Block], wanted: Callable[[Value], bool]) -> list[tuple[Value, Value]]:
    """Pairs of a scalar that is stored into an array and one that a later iteration loads from there."""
    array = {p: p for p in loop.head.params if isinstance(p.type, Array)}
    loads: list[Op] = []
    stores: list[Op] = []
    for op in (op for block in blocks for op in block.ops if op.operands and op.operands[0] in array):
        if op.name == "get" and wanted(op.result):
            loads.append(op)
        elif op.name == "set" and wanted(op.operands[1]):
            stores.append(op)
            array[op.result] = array[op.operands[0]]
    if len(stores) * len(loads) > MOST_PAIRS:
        return []
    forms, counters = AffineForms(), {p for p in loop.head.params if p.type == I64}
    at = {op: [forms.of(v) for v in op.operands[2 if op.name == "set" else 1:]] for op in (*loads, *stores)}
    return [(store.operands[1], load.result) for store in stores for load in loads
            if array[store.operands[0]] is array[load.operands[0]] and _is_ahead(at[store], at[load], counters)]


def _is_ahead(store: list[Affine], load: list[Affine], counters: set[Value]) -> bool:
    """True if the loads follow the stores at a constant distance along axes that the loop's counters walk."""
    distances = [s.minus(x) for s, x in zip(store, load)]
    walks = [any(v in counters for v, _ in s.terms) for s in store]
    return not any(d.terms for d in distances) and any(d.constant for d in distances) and \
        all(walk or not d.constant for d, walk in zip(distances, walks))
