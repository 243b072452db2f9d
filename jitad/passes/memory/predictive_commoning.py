"""Predictive commoning: what the iteration before has computed is carried, not computed again for a neighbour.

A difference of fluxes on either side of a cell calls one function at neighbouring places::

    ^loop(i):                                             p0 = … / …                    (of the first iteration)
      q = sqrt (u[i + 1] * u[i + 1] + c)                  ^loop(i, p):
      p = sqrt (u[i] * u[i] + c)              becomes       q = sqrt (u[i + 1] * u[i + 1] + c)
      d = q - p                                             d = q - p
      branch …, ^loop(j)                                    branch …, ^loop(j, q)

What ``p`` is computed from is that of ``q``, with the counter less one in its indices: they are equal as affine forms,
modulo 2⁶⁴ as sums of integers are.  Arrays that are read come from outside the loop.

Divisions, roots and functions are carried, of loops of one block without checks, each of whose ops is then executed in
the first iteration.  LLVM makes vectors of such loops, in which a carried value is a shuffle.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir.clone import clone_op
from ...ir.expression_keys import key
from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Scalar
from ..analysis.loops import Counted, Loop, counted, loop_forest

WORD = 2**64
MOST = 200
"""The most ops of a loop: what is computed ahead of it is copied by recursion."""


def predictive_commoning(module: Module) -> bool:
    """Carry such values in every innermost loop; expects normal form.  Returns True if there were any."""
    changed = False
    for func in module.functions.values():
        if any(map(_is_worth, func.all_ops())):
            for loop in loop_forest(func).loops:
                if loop.latch is loop.head and (known := counted(loop)) is not None and _is_free(loop.head):
                    changed |= _Neighbours(loop, known).run()
    return changed


def _is_worth(op: Op) -> bool:
    return len(op.results) == 1 and isinstance(t := op.result.type, Scalar) and t.is_float and \
        OPS[op.name].cost >= EXPENSIVE


def _is_free(block: Block) -> bool:
    return len(block.ops) <= MOST and sum(map(_is_worth, block.ops)) > 1 and not any(
        OPS[op.name].effect or op.name in ("push", "pop") for op in block.ops)


class _Neighbours:
    """The expressions of one loop.

    ``keys``: the numbers of values in this iteration (0) or the one before (−1): equal values have one number, which
    ``numbers`` has for what they are computed from.
    """

    def __init__(self, loop: Loop, known: Counted) -> None:
        self.loop, self.head, self.iv = loop, loop.head, known.iv
        self.keys: dict[tuple[Value, int], int | None] = {}
        self.numbers: dict[Hashable, int] = {}

    def run(self) -> bool:
        for op in self.head.ops:                               # operands first, without recursion
            for v in op.results:
                self._key(v, -1), self._key(v, 0)
        before = {k: op.result for op in self.head.ops if _is_worth(op) and (k := self._key(op.result, -1)) is not None}
        found: dict[Value, Value] = {}
        for op in reversed(self.head.ops):
            if _is_worth(op) and (k := self._key(op.result, 0)) in before and before[k] is not op.result:
                found[op.result] = before[k]
        found = self._outermost(found)
        starts: dict[Value, Value] = {self.iv: self.loop.entry_edge().args[self.iv.index]}
        carried: dict[Value, Value] = {}
        for v in found:
            self.loop.entry_edge().args.append(self._start(v, starts))
            carried[v] = self.head.add_param(v.type, v.hint)
        for op in self.head.all_ops():
            op.replace_uses(carried)
        self.loop.back_edge().args.extend(carried.get(following, following) for following in found.values())
        return bool(found)

    def _outermost(self, found: dict[Value, Value]) -> dict[Value, Value]:
        """Those that something else reads than what is carried is computed from."""
        assert self.head.term is not None
        todo, needed = [*self.head.term.used()], set[Value]()
        while todo:
            v = todo.pop()
            if v not in needed and v.block is self.head:
                needed.add(v)
                todo += [found[v]] if v in found else v.op.operands if v.op is not None else []
        return {v: following for v, following in found.items() if v in needed}

    def _start(self, v: Value, known: dict[Value, Value]) -> Value:
        """``v`` in the first iteration, computed ahead of the loop."""
        if v.block is not self.head or v in known:
            return known.get(v, v)
        assert v.op is not None and self.loop.preheader is not None
        for operand in v.op.operands:
            self._start(operand, known)
        copy = clone_op(v.op, known)
        copy.block = self.loop.preheader
        self.loop.preheader.ops.append(copy)
        return known[v]

    # --- keys -----------------------------------------------------------------------------------------

    def _key(self, v: Value, shift: int) -> int | None:
        """The number of ``v`` with the counter plus ``shift``; None if it depends on other carried values."""
        if (v, shift) not in self.keys:
            found = self._find(v, shift)
            self.keys[v, shift] = None if found is None else self.numbers.setdefault(found, len(self.numbers))
        return self.keys[v, shift]

    def _find(self, v: Value, shift: int) -> Hashable:
        if v.const is not None:
            return v.type, repr(v.const)
        if v.type == I64:
            return self._sum(v, shift)
        if v.block is not self.head:
            return v
        return self._expression(v.op, shift)

    def _expression(self, op: Op | None, shift: int) -> Hashable:
        if op is None or len(op.results) != 1 or OPS[op.name].consumes:
            return None
        operands = [self._key(v, shift) for v in op.operands]
        return None if None in operands else key(op, operands)

    def _sum(self, v: Value, shift: int) -> Hashable:
        """The key of an integer: its terms with their coefficients, and a constant, modulo 2⁶⁴."""
        terms: dict[Hashable, int] = {}
        constant, todo = 0, [(v, 1)]
        while todo:
            x, c = todo.pop()
            op = x.op if x.block is self.head else None
            if x.const is not None:
                constant += c * x.const
            elif x is self.iv:
                terms[x] = terms.get(x, 0) + c
                constant += c * shift
            elif op is not None and op.name in ("add", "sub"):
                todo += [(op.operands[0], c), (op.operands[1], c if op.name == "add" else -c)]
            else:
                atom = x if x.block is not self.head else self._expression(op, shift)
                if atom is None or len(terms) == 8:
                    return None
                terms[atom] = terms.get(atom, 0) + c
        return frozenset((t, c % WORD) for t, c in terms.items() if c % WORD), constant % WORD
