"""A walk down the dominator tree with the facts that hold at each point, and decisions from them.

The facts (``ranges.Prover``) are the condition of a branch on each of its sides, the condition of a ``check`` after it,
and the bounds of loop counters (``induction``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.dominance import dominators
from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import COMPARISONS
from ...ir.types import BOOL, F64, I64
from .affine import Affine
from .bisection import learn_bisected
from .float_facts import FloatFacts
from .induction import FAR, Choice, Incoming, back_paths, choices, learn_head, repeating
from .loops import loop_forest
from .ranges import LARGEST, SMALLEST, Prover, Ranges

DEEP = 12
"""The depth to which a compound condition is examined.  A chain of conditions is examined again for each of its parts.
"""



class Walk:
    """A walk down the dominator tree that calls ``op`` for each op.

    During the call, ``prover`` has the facts that hold there, and ``known`` the truth of conditions.
    """

    def __init__(self, func: Function) -> None:
        self.func, self.dom = func, dominators(func)
        self.loops = {loop.head: loop for loop in loop_forest(func).loops}
        self.heads = {target for _, target in self.dom.back}
        self.incoming: Incoming = {b: [] for b in func.blocks}
        for b in func.blocks:
            for e in b.term.edges if b.term else ():
                self.incoming[e.block].append(e)
        self.ranges = Ranges()
        values = (v for b in self.dom.order for v in (*b.params, *(r for op in b.ops for r in op.results)))
        self.prover = Prover(self.ranges, {v: i for i, v in enumerate(values)})
        self.known: dict[Value, bool] = {}
        self.floats = FloatFacts(func, self.known, self.prover)
        self.names: list[Value] = []                     # the keys of ``known``, latest last
        self.choices: dict[Value, Choice] = {}
        self.block = func.entry

    def run(self) -> None:
        """Walk the dominator tree; the facts of a subtree are dropped after it."""
        todo: list[tuple[Block, tuple[int, int] | None]] = [(self.func.entry, None)]
        while todo:
            block, mark = todo.pop()
            if mark is not None:
                self._forget(*mark)
                continue
            todo.append((block, (self.prover.mark(), len(self.names))))
            self.block = block
            self._enter(block)
            block.ops = [op for op in block.ops if self.op(op)]
            self.end(block)
            todo += ((child, None) for child in reversed(self.dom.children[block]))

    def _forget(self, mark: int, names: int) -> None:
        self.prover.undo(mark)
        while len(self.names) > names:
            del self.known[self.names.pop()]

    # --- blocks and ops ---------------------------------------------------------------------------

    def _enter(self, block: Block) -> None:
        preds = self.dom.preds[block]
        if len(preds) == 1 and preds[0].term is not None and preds[0].term.name == "branch":
            term = preds[0].term
            self._learn(term.operands[0], term.edges[0].block is block)
        for p in block.params if block not in self.heads else ():
            if p.type == I64 and (v := self._only_value(p)) is not None:
                self.ranges.is_now(p, v)
            elif p.type == I64 and preds and None not in (passed := [e.argument(p) for e in self.incoming[block]]):
                low, high = zip(*(self.ranges.interval(v) for v in passed if v is not None))
                self.ranges.intervals[p] = min(low), max(high)
        loop = self.loops.get(block)
        if loop is not None and loop.preheader is not None and loop.latch is not None:
            paths, among = list(back_paths(loop, self.incoming)), choices(loop, self.incoming)
            learn_head(loop, paths, self.incoming, self.ranges, self.prover)
            learn_bisected(among.values(), paths, self.ranges, self.prover)
            self.choices |= among

    def _only_value(self, p: Value) -> Value | None:
        """The one defined value that edges pass for ``p``, if it is available: what a loop leaves behind."""
        passed = {e.argument(p) for e in self.incoming[p.block]}
        values = [v for v in passed if v is None or v.op is None or v.op.name != "undef"]
        v = values[0] if len(values) == 1 else None
        return v if v is not None and self.dom.dominates(v.block, p.block) else None

    def op(self, op: Op) -> bool:
        """Add the facts that follow from one op; returns True if the op is kept."""
        if op.name == "check":
            self._learn(op.operands[0], True)
        elif op.name == "select" and op.result.type == I64:
            chosen = self._decide(op.operands[0])
            if chosen is not None:
                self.ranges.is_now(op.result, op.operands[1 if chosen else 2])
        elif op.name in ("maximum", "minimum") and op.result.type == I64:
            for v in op.operands:
                self._look_into_sum(v)
            extreme = self._extreme(op)
            if extreme is not None:
                self.is_extreme(op, extreme)
        elif op.name == "mod" and op.result.type == I64:
            times = self._wraps(op)
            if times is not None:
                self.is_reduced(op, times)
            elif (sides := self._may_wrap(op)) is not None:
                self.is_nearly_reduced(op, *sides)
            elif self.prover.proves(size := self.ranges.form(op.operands[1])):      # a remainder by zero is zero
                self._is_below(op, self.prover.proves(size.plus(Affine(-1))))
        elif op.name == "cast" and op.result.type == I64 and op.operands[0].type == F64:
            for form in self.floats.of_integer(op):
                self.prover.assume(form)
        elif op.name in ("add", "sub") and op.result.type == I64:
            self._look_for_wrap(op)
        return True

    def is_extreme(self, op: Op, operand: Value) -> None:
        """Called for a maximum or minimum that is known to be one of its operands."""
        self.ranges.is_now(op.result, operand)

    def is_reduced(self, op: Op, times: int) -> None:
        """Called for a remainder that is known to be its first operand plus ``times`` the second."""
        x, y = map(self.ranges.form, op.operands)
        self.ranges.forms.known[op.result] = x.plus(y, times)

    def is_nearly_reduced(self, op: Op, below: bool, above: bool) -> None:
        """Called for a remainder whose first operand is less than one second operand away from the range of results."""
        self._is_below(op)

    def _is_below(self, op: Op, positive: bool = True) -> None:
        """Add the bounds of a remainder by a number that is not negative, and ``positive`` or not."""
        self.prover.assume(self.ranges.form(op.result))
        if positive:
            self.prover.assume(self.ranges.form(op.operands[1]).minus(self.ranges.form(op.result)).plus(Affine(-1)))

    def _look_for_wrap(self, op: Op) -> None:
        """Take a sum for exact if the facts bound its operands, as ``k > 0`` that of ``k - 1``."""
        if self.ranges.exact(op):
            return
        total = self.ranges.form(op.operands[0]).plus(self.ranges.form(op.operands[1]), 1 if op.name == "add" else -1)
        low, high = self.prover.interval(total)
        if (low >= SMALLEST or self.prover.proves(total.plus(Affine(-SMALLEST)))) and (
                high <= LARGEST or self.prover.proves(Affine(LARGEST).minus(total))):
            self.ranges.forms.known[op.result] = total
            self.ranges.intervals[op.result] = max(low, SMALLEST), min(high, LARGEST)

    def _wraps(self, op: Op) -> int | None:
        """The multiple of the second operand, 0, 1 or -1, that is to be added for the remainder, if it is known."""
        x, y = map(self.ranges.form, op.operands)
        for times in (0, 1, -1):
            reduced = x.plus(y, times)
            if self.prover.proves(reduced) and self.prover.proves(y.minus(reduced).plus(Affine(-1))):
                return times
        return None

    def _may_wrap(self, op: Op) -> tuple[bool, bool] | None:
        """True for each side, below and above, on which a remainder's first operand may leave the range of results.

        ``None`` if it may leave it by as much as the second operand.
        """
        x, y = map(self.ranges.form, op.operands)
        proves, last = self.prover.proves, y.minus(x).plus(Affine(-1))
        below, above = not proves(x), not proves(last)
        near = (not below or proves(x.plus(y))) and (not above or proves(last.plus(y)))
        return (below, above) if near else None

    def _extreme(self, op: Op) -> Value | None:
        """The operand that a maximum or minimum is known to be."""
        sign = 1 if op.name == "maximum" else -1
        for v, other in (op.operands, op.operands[::-1]):
            if self.prover.proves(self.ranges.form(v).minus(self.ranges.form(other)).times(sign)):
                return v
        return None

    def end(self, block: Block) -> None:
        """Called after all ops of ``block``."""

    # --- conditions -------------------------------------------------------------------------------

    def _learn(self, condition: Value, truth: bool) -> None:
        todo = [(condition, truth)]
        while todo:
            c, t = todo.pop()
            if c in self.known or c.const is not None:
                continue
            self.known[c] = t
            self.names.append(c)
            op = c.op
            if op is None:
                todo += self._only_way(c, t)
            elif op.name == "not":
                todo.append((op.operands[0], not t))
            elif (op.name == "and" and t) or (op.name == "or" and not t):
                todo += [(x, t) for x in op.operands]
            elif op.name in COMPARISONS and op.operands[0].type == I64:
                for form in self._forms(op, t) or self._beside(op):
                    self.prover.assume(form)
                if (op.name, t) == ("lt", True):
                    self._look_into_size(*op.operands)
                for v in op.operands:
                    self._look_into_extreme(v)
                    self._look_into_index(v)
                    self._look_into_sum(v)
            elif (op.name, t) == ("lt", True):
                self._look_into_cast(*op.operands)

    def _only_way(self, condition: Value, truth: bool) -> list[tuple[Value, bool]]:
        """Facts of the way to the block of the parameter ``condition``, if only one edge passes ``truth``.

        ``a and b`` is a branch on ``a``, one side of which passes ``b`` and the other False: if it is true, so is
        ``a``, and the checks that came with ``b`` hold.
        """
        join = condition.block
        if join is None or join in self.heads:
            return []
        ways = [(block, a) for block in dict.fromkeys(self.dom.preds.get(join, ()))
                for e in (block.term.edges if block.term else ()) if e.block is join
                for a in [e.argument(condition)] if a is None or a.const is None or bool(a.const) is truth
                if a is None or a.op is None or a.op.name != "undef"]
        block, passed = ways[0] if len(ways) == 1 else (join, None)
        if passed is None:
            return []
        found = [(passed, truth)]
        above = self.dom.idom[join]
        while block is not above:
            found += [(op.operands[0], True) for op in block.ops if op.name == "check"]
            preds = self.dom.preds[block]
            term = preds[0].term
            if len(preds) != 1 or block in self.heads or term is None:
                break
            if term.name == "branch":
                found.append((term.operands[0], term.edges[0].block is block))
            block = preds[0]
        return found

    def _look_into_extreme(self, v: Value) -> None:
        """If ``v`` is a maximum that is greater than one operand, add that it is the other; likewise for a minimum."""
        op = v.op
        if op is None or op.name not in ("maximum", "minimum"):
            return
        form, sign = self.ranges.form(v), 1 if op.name == "maximum" else -1
        for x, y in (op.operands, op.operands[::-1]):
            if self.prover.proves(form.minus(self.ranges.form(y)).times(sign).plus(Affine(-1))):
                self.prover.assume(self.ranges.form(x).minus(form).times(sign))
                return

    def _look_into_size(self, index: Value, size: Value) -> None:
        """Add that ``size`` is positive if ``index``, which is less, is not negative."""
        if self.prover.proves(self.ranges.form(index)):
            self.prover.assume(self.ranges.form(size).plus(Affine(-1)))

    def _look_into_sum(self, v: Value) -> None:
        """Add that ``v`` is ``x + c`` if it is too large to be what that wraps around to, or ``x`` is small enough.

        Such sums are the sizes of arrays and lists: ``n + 1``.
        """
        op = v.op
        if op is None or op.name != "add" or self.ranges.exact(op):
            return
        for x, c in (op.operands, op.operands[::-1]):
            if c.const is None or not 0 < c.const <= FAR:
                continue
            small = self.prover.interval(self.ranges.form(x))[1] <= LARGEST - c.const
            if small or self.prover.proves(self.ranges.form(v)):
                total, form = self.ranges.form(v), self.ranges.form(x)
                low, high = self.prover.interval(total)
                difference = total.minus(form).plus(Affine(-c.const))
                for fact in (difference, difference.times(-1), form.plus(Affine(c.const - low)),
                             Affine(high - c.const).minus(form)):
                    self.prover.assume(fact)

    def _look_into_cast(self, x: Value, bound: Value) -> None:
        """Add that an integer is less than a whole number if it is as a float, or its square: rounding keeps order."""
        op, most = x.op, bound.const
        if op is not None and op.name == "mul" and op.operands[0] is op.operands[1] and most is not None:
            op, most = op.operands[0].op, 2.0 + math.isqrt(int(min(max(most, 0.0), FAR)))
        if op is not None and op.name == "cast" and (x.type, op.operands[0].type) == (F64, I64) \
                and most is not None and abs(most) <= FAR and most == int(most):
            self.prover.assume(Affine(int(most) - 1).minus(self.ranges.form(op.operands[0])))
            self._look_into_sum(op.operands[0])

    def _look_into_index(self, v: Value) -> None:
        """Add the bounds of ``i`` if ``v`` is a number below ``n``: ``i``, or ``i + n`` where ``i`` is negative."""
        op = v.op
        test, total = (op.operands[0].op, op.operands[1].op) if op is not None and op.name == "select" else (None, None)
        if op is None or test is None or test.name != "lt" or total is None or total.name != "add":
            return
        i, n = op.operands[2], total.operands[1]
        if test.operands[0] is not i or test.operands[1].const != 0 or total.operands[0] is not i:
            return
        form, size, index = (self.ranges.form(x) for x in (v, n, i))
        if self.prover.proves(form) and self.prover.proves(size.minus(form).plus(Affine(-1))):
            for fact in (size.plus(Affine(-1)), index.plus(size), size.minus(index).plus(Affine(-1))):
                self.prover.assume(fact)

    def _beside(self, op: Op) -> list[Affine]:
        """The form that is >= 0 for two unequal integers one of which is at least the other: ``i > 0`` for ``i != 0``.
        """
        between = self.ranges.form(op.operands[0]).minus(self.ranges.form(op.operands[1]))
        return [between.times(sign).plus(Affine(-1)) for sign in (1, -1) if self.prover.proves(between.times(sign))]

    def _form_here(self, v: Value, decided: dict[Value, bool | None], depth: int) -> Affine:
        """The form of an integer; of a selection whose condition is known at this point that of what it selects.

        Where the selection was computed, outside a loop, its condition may not have been known.
        """
        op = v.op
        chosen = self._decide(op.operands[0], decided, depth) if op is not None and op.name == "select" else None
        return self.ranges.form(v if op is None or chosen is None else op.operands[1 if chosen else 2])

    def _forms(self, op: Op, truth: bool, sides: Sequence[Affine] = ()) -> list[Affine]:
        """A comparison of integers as forms that are >= 0; empty if it cannot be expressed so."""
        x, y = sides or (self.ranges.form(v) for v in op.operands)
        if op.name in ("eq", "ne"):
            return [x.minus(y), y.minus(x)] if (op.name == "eq") is truth else []
        difference = y.minus(x) if (op.name in ("lt", "le")) is truth else x.minus(y)
        return [difference.plus(Affine(-1)) if (op.name in ("lt", "gt")) is truth else difference]

    def _decide(self, condition: Value, decided: dict[Value, bool | None] | None = None, depth: int = DEEP
                ) -> bool | None:
        """The truth of a condition at this point, or ``None`` if it is not known.

        ``decided``: a cache for the parts of one condition, each of which is examined once.
        """
        if condition.const is not None:
            return bool(condition.const)
        if condition in self.known:
            return self.known[condition]
        decided = {} if decided is None else decided
        if condition not in decided:
            decided[condition] = self._derive(condition, decided, depth - 1) if depth else None
        return decided[condition]

    def _derive(self, condition: Value, decided: dict[Value, bool | None], depth: int) -> bool | None:
        """The truth of a condition, from its operands or by a proof."""
        op = condition.op
        if op is None:
            return None
        if op.name == "not":
            inner = self._decide(op.operands[0], decided, depth)
            return None if inner is None else not inner
        if op.name in ("and", "or") and condition.type == BOOL:
            sides = [self._decide(v, decided, depth) for v in op.operands]
            end = op.name == "or"
            return end if end in sides else None if None in sides else not end
        if op.name in COMPARISONS and op.operands[0].type == I64:
            here = tuple(self._form_here(v, decided, depth) for v in op.operands)
            for truth in (True, False):
                forms = self._forms(op, truth, here)
                if forms and all(self.prover.proves(form) or self._proves_choice(form) for form in forms):
                    return truth
            if op.name in ("eq", "ne") and self.are_apart(*op.operands):
                return op.name == "ne"
        return self.floats.decides(op) if op.operands and op.operands[0].type == F64 else None

    def are_apart(self, x: Value, y: Value) -> bool:
        """True if one of two integers is always less than the other one."""
        between = self.ranges.form(x).minus(self.ranges.form(y))
        return any(self.prover.proves(between.times(sign).plus(Affine(-1))) for sign in (1, -1))

    def _proves_choice(self, form: Affine) -> bool:
        """Prove by induction that a form with a choice is not negative here, in every iteration.

        The form of what replaces the choice is proved from the facts of this point, so every iteration has to pass it.
        """
        p, c = next(((v, c) for v, c in form.terms if v in self.choices), (None, 0))
        if p is None:
            return False
        choice = self.choices[p]
        loop, rest = choice.loop, form.without(p)
        if self.block not in loop.blocks or loop.latch is None or \
                not all(self.dom.dominates(self.block, b) for b in repeating(loop, self.dom)):
            return False
        if any(v.block in loop.blocks for v, _ in rest.terms):
            return False
        start, proves = self.ranges.form(choice.start), self.prover.proves
        others = [self.ranges.form(v) for v in choice.others]
        if not all(proves(rest.plus(v, c)) for v in others):
            return False
        if not proves(rest.plus(start, c)) and not any(proves(start.minus(v).times(c)) for v in others):
            return False
        self.prover.assume(form)
        return True
