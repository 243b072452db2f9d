"""Decides conditions that control flow, earlier checks and loop counters imply, mostly bounds checks.

A walk down the dominator tree collects the facts that hold at each point (``ranges.Prover``): the condition of a branch
on each of its sides, the condition of a ``check`` after it, and the bounds of loop counters (``induction``).  Integer
comparisons that follow from the facts become constants.  Checks whose condition holds are removed.  An integer maximum
or minimum becomes the operand that it is known to be.  If the condition of ``select(i < 0, i + n, i)`` is known, the
result is treated as equal to the chosen operand.  A quotient or remainder of integers that are not negative is marked
as ``unsigned``, which saves the rounding towards minus infinity.

The condition by which a loop ends is not decided to hold in each iteration, though it does if a check fails first: a
loop without an exit, which only raises, would be no loop for other passes.

A whole float that becomes an integer within range, and a float again, as ``round(x)`` in arithmetic, is that float; a
negative zero becomes zero.

A remainder of a number that is known to be near its range, as ``(i + 1) % n`` behind a check of ``a[i]``, becomes a
comparison and a selection, which take a fifth of a division's time.  Loop counters are left to ``peel``.

What is known of a value is dropped where paths join.  If a comparison behind the join asks whether a parameter is
negative, or less than some value, and that is known of the argument of each edge, it is known of the parameter: the
index of the least element so far, which a loop leaves, is the index of an element.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import COMPARISONS
from ...ir.types import BOOL, I64
from ..analysis.affine import Affine, unwrapped
from ..analysis.facts import Walk
from ..analysis.loops import counted

MOST = 8
"""The most bounds of one parameter, and the depth to which selections among its arguments are examined."""


def check_elimination(module: Module) -> None:
    for func in module.functions.values():
        if any(op.name in COMPARISONS or op.name == "check" for op in func.all_ops()):
            _Decider(func).run()


class _Decider(Walk):
    """Removes checks that hold, and replaces decided conditions by constants, extremes by the operand that they are."""

    def __init__(self, func: Function) -> None:
        super().__init__(func)
        self.same: dict[Value, Value] = {}
        self.counters = {known.iv for x in self.loops.values() if (known := counted(x)) is not None}
        self.before: dict[Op, list[Op]] = {}               # new ops, by the op in front of which they come
        self.repeats: dict[Value, bool] = {}               # comparisons, and for which result a loop does not end
        for loop in self.loops.values():
            if loop.exit is not None and loop.latch is not None and loop.latch.term is not None:
                self._enter_repeats(loop.latch.term.operands[0], loop.latch.term.edges[0].block is loop.head)
        self.bounds = self._bounds_behind_joins()
        self.holds: dict[tuple[Value, Value | None], int] = {}       # (parameter, bound) → the edges that pass such
        self.dead: set[Edge] = set()

    def _enter_repeats(self, condition: Value, truth: bool) -> None:
        self.repeats[condition] = truth
        if condition.op is not None and condition.op.name in ("and", "or", "not"):
            for v in condition.op.operands:
                self._enter_repeats(v, truth is not (condition.op.name == "not"))

    def run(self) -> None:
        super().run()
        for b in {op.block for op in self.before}:
            assert b is not None
            b.ops = [x for op in b.ops for x in (*self.before.get(op, ()), op)]
        for op in self.func.all_ops() if self.same else ():
            op.replace_uses(self.same)

    def is_extreme(self, op: Op, operand: Value) -> None:
        super().is_extreme(op, operand)
        self.same[op.result] = self.same.get(operand, operand)

    def is_reduced(self, op: Op, times: int) -> None:
        super().is_reduced(op, times)
        if times:
            op.name, op.attrs = "add" if times > 0 else "sub", {}
        else:
            self.same[op.result] = self.same.get(op.operands[0], op.operands[0])

    def is_nearly_reduced(self, op: Op, below: bool, above: bool) -> None:
        super().is_nearly_reduced(op, below, above)
        if any(v in self.counters for v, _ in self.ranges.form(op.operands[0]).terms):
            return
        b = Builder(Block(self.func), op.loc)
        x, y = op.operands
        if not below and x.op is not None and x.op.name == "add" and x.op.operands[1].const == 1 and \
                self._is_walk(v := x.op.operands[0], op):
            op.name, op.operands, op.attrs = "select", [b.eq(v, b.sub(y, 1)), b.const(0), x], {}
            return self._insert(op, b)
        upwards = [b.lt(x, 0), b.add(x, y), x] if below else None
        downwards = [b.ge(x, y), b.sub(x, y), b.select(*upwards) if upwards else x] if above else None
        op.name, op.operands, op.attrs = "select", list(downwards or upwards or ()), {}
        self._insert(op, b)

    def _is_walk(self, v: Value, following: Op) -> bool:
        """True for a parameter that is below the modulus: the next one then waits for a comparison with it alone."""
        return v.op is None and self.prover.proves(
            self.ranges.form(following.operands[1]).minus(self.ranges.form(v)).plus(Affine(-1)))

    def _insert(self, op: Op, b: Builder) -> None:
        """Put what ``b`` has emitted ahead of ``op``."""
        for new in b.block.ops:
            new.block = op.block
        self.before[op] = b.block.ops

    def _stay_float(self, op: Op, whole: Value) -> None:
        b = Builder(Block(self.func), op.loc)
        op.name, op.operands, op.attrs = "add", [whole, b.const(0.0)], {}
        self._insert(op, b)

    def op(self, op: Op) -> bool:
        if op.name == "check" and self._decide(op.operands[0]) is True:
            return False
        if op.name in COMPARISONS and op.result.type == BOOL:
            truth = self._decide(op.result)
            if truth is not None and truth is not self.repeats.get(op.result):
                op.name, op.operands, op.attrs = "const", [], {"value": truth, "type": BOOL}
        kept = super().op(op)
        if op.name == "cast" and (whole := self.floats.whole(op)) is not None:
            self._stay_float(op, whole)
        if op.name in ("mod", "floordiv") and op.result.type == I64 and all(
                self.prover.proves(self.ranges.form(v)) for v in op.operands):
            op.attrs = op.attrs | {"unsigned": True}
        return kept

    def end(self, block: Block) -> None:
        self._decide_branch(block)
        self._leave(block)

    def _decide_branch(self, block: Block) -> None:
        term = block.term
        assert term is not None
        if term.name != "branch" or term.operands[0].const is not None:
            return
        truth = self._decide(term.operands[0])
        if truth is not None and truth is not self.repeats.get(term.operands[0]):
            op = Op("const", (), [BOOL], {"value": truth, "type": BOOL})
            op.block = block
            block.ops.append(op)
            term.operands = [op.result]

    # --- joins ------------------------------------------------------------------------------------

    def _bounds_behind_joins(self) -> dict[Value, list[Value | None]]:
        """The bounds by which comparisons could be decided, of integer parameters of blocks that are no loop's head.

        A bound is a value that the parameter may be less than, or None: the parameter may be at least zero.
        """
        found: dict[Value, list[Value | None]] = {}
        todo: list[tuple[Value, Value | None]] = [
            (unwrapped(op.operands[0]), None if op.operands[1].const == 0 else op.operands[1])
            for op in self.func.all_ops() if op.name in ("lt", "ge") and op.operands[0].type == I64]
        while todo:
            v, bound = todo.pop()
            if v.op is not None and v.op.name == "select":
                todo += [(x, bound) for x in v.op.operands[1:] if v.type == I64 and x.op is None]
            block = v.block
            if v.op is not None or block in self.heads or block is self.func.entry or block not in self.dom.preds:
                continue
            known = found.setdefault(v, [])
            if bound in known or len(known) == MOST or not self._is_ahead(bound, block):
                continue
            known.append(bound)
            todo += [(a, bound) for e in self.incoming[block] if (a := e.argument(v)) is not None]
        return found

    def _is_ahead(self, bound: Value | None, block: Block) -> bool:
        """True if ``bound`` is computed ahead of ``block`` on every path."""
        return bound is None or bound.const is not None or \
            bound.block is not block and self.dom.dominates(bound.block, block)

    def _leave(self, block: Block) -> None:
        """Count the bounds that the arguments of the edges from ``block`` are known to have."""
        term = block.term
        assert term is not None
        here = self.incoming[block]
        if here and self.dead.issuperset(here):
            self.dead.update(term.edges)
        elif term.name == "branch" and (truth := term.operands[0].const) is not None:
            self.dead.add(term.edges[1 if truth else 0])
        for e in term.edges:
            for p in e.block.params:
                for bound in self.bounds.get(p, ()):
                    a = e.argument(p)
                    if e in self.dead or a is not None and self._has_bound(a, bound, MOST):
                        self.holds[p, bound] = self.holds.get((p, bound), 0) + 1

    def _has_bound(self, v: Value, bound: Value | None, depth: int) -> bool:
        form = self._bounded(v, bound)
        if self.prover.proves(form) or self._proves_choice(form):
            return True
        return depth > 0 and (sides := self._sides(v)) is not None and all(
            self._has_bound(x, bound, depth - 1) for x in sides)

    def _sides(self, v: Value) -> list[Value] | None:
        """The values one of which ``v`` is, if a selection or a join behind which no loop begins chooses it."""
        op = v.op
        if op is not None:
            return op.operands[1:] if op.name == "select" else [] if op.name == "undef" else None
        args = [e.argument(v) for e in self.incoming.get(v.block, ())] if v.block not in self.heads else []
        return [a for a in args if a is not None] if args and None not in args else None

    def _bounded(self, v: Value, bound: Value | None) -> Affine:
        """The form that is not negative if ``v`` has the bound."""
        form = self.ranges.form(v)
        return form if bound is None else self.ranges.form(bound).minus(form).plus(Affine(-1))

    def _enter(self, block: Block) -> None:
        super()._enter(block)
        for p in block.params:
            for bound in self.bounds.get(p, ()):
                if self.holds.get((p, bound)) == len(self.incoming[block]):
                    self.prover.assume(self._bounded(p, bound))
