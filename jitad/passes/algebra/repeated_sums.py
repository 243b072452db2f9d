"""Takes multiples of a sum that an earlier loop has computed, under fast math only.

The derivative of a normalised quantity adds up again what the forward loop has added up::

    ^loop(%i, %total):  … %total + %e           %last = %start + %k * %total
    …                                      →
    ^again(%i, %sum):   … %sum + %k * %e        ^again(%i): …

``algebra`` then finds that terms cancel.  In ``log(sum(exp(x - highest))) + highest``, the adjoint of ``highest`` is
zero, and the program need not know which element was the highest.

The loops have one trip count.  The addends are equal if the same ops compute them from the same values, from the
counter, and from elements that the first loop has stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.expression_keys import alike, same
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import is_float_scalar
from ...ir.uses import users
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest

LATEST = 8
"""The most earlier sums with which one is compared."""
DEEPEST = 6
"""The longest chain of ops by which addends are compared."""


def repeated_sums(module: Module) -> bool:
    """Rewrite all of them; returns True if there were any."""
    return any([_Repeated(func).run() for func in module.functions.values()])


@dataclass(frozen=True)
class _Sum:
    """A carried value ``param``, to which each iteration adds ``addend``, or from which it subtracts it.

    ``last``: the carried value after the addition, which is all that reads ``param``.
    """

    loop: Loop
    known: Counted
    param: Value
    last: Value
    addend: Value

    @property
    def start(self) -> Value:
        return self.loop.entry_edge().args[self.param.index]


class _Repeated:
    """The repeated sums of one function."""

    def __init__(self, func: Function) -> None:
        self.func = func
        self.forest: LoopForest = loop_forest(func)
        self.readers: dict[Value, list[Op]] = {}

    def run(self) -> bool:
        if len(self.forest.loops) < 2:
            return False
        self.readers = users(self.func.all_ops())
        earlier: dict[Value, list[_Sum]] = {}                # by trip count
        found = False
        for loop in sorted(self.forest.loops, key=lambda x: self.forest.dom.number[x.head]):
            for s in self._sums(loop):
                before = earlier.setdefault(s.known.trip, [])
                if any(self._replace(s, x) for x in before[:-LATEST - 1:-1]):
                    found = True
                elif s.last.op is not None and s.last.op.name == "add":
                    before.append(s)
        return found

    def _sums(self, loop: Loop) -> Iterator[_Sum]:
        known = counted(loop)
        if known is None or loop.exit is None:
            return
        back = loop.back_edge().args
        for p in loop.head.params:
            op = back[p.index].op
            if not is_float_scalar(p.type) or op is None or self.readers.get(p) != [op]:
                continue
            if op.name == "add" or op.name == "sub" and op.operands[0] is p:
                yield _Sum(loop, known, p, op.result, next((x for x in op.operands if x is not p), p))

    # --- one sum ----------------------------------------------------------------------------------------

    def _replace(self, s: _Sum, earlier: _Sum) -> bool:
        """Replace ``s`` by a multiple of ``earlier`` if it is one."""
        before, latch, after = s.loop.preheader, s.loop.latch, earlier.loop.exit
        assert before is not None and latch is not None and after is not None and s.last.op is not None
        if not self.forest.dom.dominates(after, before) or s.addend is s.param or any(
                op.block in s.loop.blocks and op is not latch.term for op in self.readers[s.last]):
            return False
        sign, factors = self._factors(s, earlier)
        if sign == 0:
            return False
        b = Builder(before, s.last.op.loc)
        # What follows the loop reads the parameter of its exit, with which terms cancel.
        total = next((q for q, a in earlier.loop.exit_edge().passed() if a is earlier.last), earlier.last)
        if earlier.start.const != 0:
            total = b.sub(total, earlier.start)
        for factor in factors:
            total = b.mul(factor, total)
        final = b.add(s.start, total) if sign > 0 else b.sub(s.start, total)
        leave = s.loop.exit_edge()
        leave.args = [final if v is s.last else v for v in leave.args]
        for op in self.readers[s.last]:
            if op.block not in s.loop.blocks:
                op.replace_uses({s.last: final})
        return True

    def _factors(self, s: _Sum, earlier: _Sum) -> tuple[int, list[Value]]:
        """The sign and the factors by which the addends of ``s`` are multiples; 0 if they are not."""
        assert s.last.op is not None
        sign, v, factors = 1 if s.last.op.name == "add" else -1, s.addend, list[Value]()
        for _ in range(DEEPEST):
            if _alike(v, earlier.addend, s, earlier):
                return sign, factors
            op = v.op
            if op is None or op.block not in s.loop.blocks:
                break
            if op.name == "neg":
                sign, v = -sign, op.operands[0]
            elif op.name == "mul" and any(x.block not in s.loop.blocks for x in op.operands):
                x, y = op.operands
                v, factor = (x, y) if y.block not in s.loop.blocks else (y, x)
                factors.append(factor)
            else:
                break
        return 0, []


def _alike(v: Value, w: Value, s: _Sum, earlier: _Sum) -> bool:
    """True if ``v`` in an iteration of the loop of ``s`` is equal to ``w`` in the same iteration of the earlier one."""
    def known(v: Value, w: Value) -> bool | None:
        if v is s.known.iv:
            return w is earlier.known.iv
        if v.const is not None:
            return same(v, w)
        if v is w:
            return v.block not in s.loop.blocks and v.block not in earlier.loop.blocks
        if v.op is None or v.op.block not in s.loop.blocks:
            return False
        if v.op.name == "get" and v.op.operands[1:] == [s.known.iv] and _stored(v.op.operands[0], earlier) is w:
            return True
        return None if w.op is not None and w.op.block in earlier.loop.blocks else False

    return alike(v, w, DEEPEST, known)


def _stored(array: Value, earlier: _Sum) -> Value | None:
    """The value that the earlier loop stores at its counter in each iteration, if it leaves ``array``."""
    loop = earlier.loop
    if array.owner is loop.exit:
        given = loop.exit_edge().argument(array)
        if given is None:
            return None
        array = given
    op = array.op
    if op is None or op.name != "set" or op.operands[2:] != [earlier.known.iv] or op.block not in loop.blocks:
        return None
    carried = op.operands[0].owner is loop.head and loop.back_edge().args[op.operands[0].index] is array
    return op.operands[1] if carried else None
