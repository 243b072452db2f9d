"""Triangles: loops over rows around a loop over the columns before the row, of which rows may begin together.

``triangle_blocks`` divides them, and says when it may.  Here a loop is compared with that.
"""

from __future__ import annotations

from ...ir.graph import Block, Edge, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar
from ..analysis.affine import Affine, AffineForms
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, LoopForest, counted

FEWEST = 3 * LANES
"""The least number of rows, if it is known."""
MOST_OPS = 60
"""The most ops of a row that are executed ahead."""
LARGE = 2 ** 32
UPDATES = ("set", "add_at")
OPPOSITE = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class NoTriangle(Exception):
    """The rows of a loop cannot begin together."""


class Triangle:
    """A loop over rows with a loop over the columns before the row.

    ``names``: a value of an array that the loop carries → the parameter of its head.  ``ahead``: the blocks
    of the inner loop that are executed ahead, and ``sides`` the edges that their branches take there, where known.
    ``tests``: checks as pairs of a form and its bound.
    """

    def __init__(self, forest: LoopForest, loop: Loop, known: Counted, inner: Counted) -> None:
        self.forest, self.loop, self.known, self.inner = forest, loop, known, inner
        self.columns = loop.children[0]
        self.forms = AffineForms()
        self.i, self.j = known.iv, inner.iv
        self.sides: dict[Block, Edge] = {}
        self.tests: list[tuple[Affine, Value, bool]] = []
        self._check_shape()
        self.ahead = self._executed_ahead()
        self.names = self._arrays()
        self._check_accesses()
        self._check_ahead()

    # --- shape ----------------------------------------------------------------------------------------

    def _check_shape(self) -> None:
        """The inner loop has as many iterations as there are rows before, or one more."""
        loop, columns, few = self.loop, self.columns, self.known.trip.const
        assert columns.latch is not None and columns.latch.term is not None
        beyond = self.forms.of(self.inner.trip).minus(self.forms.of(self.i))
        if columns.latch.term.attrs.get("cold") or few is not None and few < FEWEST or self.i.index or self.j.index or \
                beyond not in (Affine(0), Affine(1)) or self.inner.trip.block is not loop.head or \
                columns.exit is None or columns.exit not in loop.blocks:
            raise NoTriangle
        for b in loop.blocks:
            if b.term is None or b.term.name not in ("jump", "branch") or \
                    any(s not in loop.blocks and s is not loop.exit for s in b.successors()):
                raise NoTriangle
        before = columns.preheader
        assert before is not None
        if before is not loop.head:
            self._check_guard(before)

    def _check_guard(self, before: Block) -> None:
        """The inner loop is executed if it has iterations at all."""
        guard = self.loop.head
        assert guard.term is not None
        test = guard.term.operands[0].op if guard.term.name == "branch" else None
        if test is None or guard.term.edges[0].block is not before or before.params or \
                self.forest.dom.preds[before] != [guard] or test.name != "lt" or test.operands[0].const != 0 or \
                not self.forms.of(test.operands[1]).is_same(self.forms.of(self.inner.trip)):
            raise NoTriangle

    def _executed_ahead(self) -> list[Block]:
        """The blocks of the inner loop that are reached where ``j < first <= i``."""
        found, todo = {self.columns.head}, [self.columns.head]
        while todo:
            b = todo.pop()
            assert b.term is not None
            edges = b.term.edges
            if b.term.name == "branch" and b is not self.columns.latch:
                holds = self._decided(b.term.operands[0])
                if holds is not None:
                    self.sides[b] = edges[not holds]
                    edges = [edges[not holds]]
                elif not self._is_uniform(b.term.operands[0]):
                    raise NoTriangle
            new = [e.block for e in edges if e.block in self.columns.blocks and e.block not in found]
            found.update(new)
            todo += new
        if self.columns.latch not in found:
            raise NoTriangle
        return self.forest.dom.in_order(found)

    def _decided(self, test: Value) -> bool | None:
        """The outcome of a comparison of the counters where ``j < i``, if it is known."""
        op = test.op
        if op is None or op.name not in OPPOSITE or op.operands[0].type != self.i.type:
            return None
        between = self.forms.of(op.operands[0]).minus(self.forms.of(op.operands[1]))
        times, name = between.coefficient(self.i), op.name
        if between.without(self.i).without(self.j).terms or between.coefficient(self.j) != -times or abs(times) != 1:
            return None
        if times < 0:
            between, name = between.times(-1), OPPOSITE[name]
        return name in ("gt", "ge", "ne") if 0 <= between.constant < LARGE else None       # i - j + constant >= 1

    def _is_uniform(self, test: Value) -> bool:
        """True if a condition is the same in all rows."""
        op = test.op
        if op is None or op.name not in OPPOSITE or op.operands[0].type != self.i.type:
            return test.block not in self.loop.blocks
        heads = {x.head for x in self.forest.loops} - {self.loop.head}
        return all(v.block not in self.loop.blocks or v.op is None and v.owner in heads
                   for x in op.operands for v, _ in self.forms.of(x).terms)

    # --- arrays ---------------------------------------------------------------------------------------

    def _arrays(self) -> dict[Value, Value]:
        names = {p: p for p in self.loop.head.params if isinstance(p.type, Array)}
        for b in self.forest.dom.in_order(self.loop.blocks):
            for op in b.ops:
                if any(v in names for v in op.operands[1:]):
                    raise NoTriangle
                if op.operands and op.operands[0] in names and op.name in UPDATES:
                    names[op.result] = names[op.operands[0]]
                elif op.operands and op.operands[0] in names and op.name not in ("get", "dim"):
                    raise NoTriangle
            for edge in b.term.edges if b.term is not None else ():
                for p, a in edge.passed() if edge.block in self.loop.blocks else ():
                    if a in names:
                        names.setdefault(p, names[a])
        for b in self.loop.blocks:
            for edge in b.term.edges if b.term is not None else ():
                for p, a in edge.passed() if edge.block in self.loop.blocks else ():
                    if names.get(p) is not names.get(a):
                        raise NoTriangle
        return names

    def updated_ahead(self) -> list[Value]:
        """The parameters of the outer loop for the arrays to which the inner one stores ahead."""
        return list(dict.fromkeys(self.names[op.operands[0]] for b in self.ahead for op in b.ops
                                  if op.name in UPDATES and op.operands[0] in self.names))

    def _check_accesses(self) -> None:
        """Along some axis of each array that is updated, rows are stored to in their own iteration only."""
        early = {self.loop.head, self.columns.preheader, *self.ahead}
        accesses: dict[Value, list[Op]] = {}
        for b in self.loop.blocks:
            for op in b.ops:
                if op.operands and op.operands[0] in self.names and op.name != "dim":
                    accesses.setdefault(self.names[op.operands[0]], []).append(op)
        for ops in accesses.values():
            if any(op.name in UPDATES for op in ops):
                rank = min(len(op.operands) - OPS[op.name].indices for op in ops)
                axes = [axis for axis in range(rank) if all(self._is_row(op, axis, op.block in early) for op in ops)]
                if not any(self._may_store(ops, axis) for axis in axes):
                    raise NoTriangle

    def _is_row(self, op: Op, axis: int, early: bool) -> bool:
        """True if an access is to the row of the iteration, or reads one that is complete."""
        at = self.forms.of(op.operands[OPS[op.name].indices + axis])
        beyond = at.minus(self.forms.of(self.i))
        if beyond == Affine(0):
            return True
        if op.name != "get":
            return False
        return not early and not beyond.terms and beyond.constant < 0 or self._is_before(at)

    def _may_store(self, ops: list[Op], axis: int) -> bool:
        """True if what stands before the inner loop is the same once more behind it, and ahead without its stores.

        So it stores to no row that is read ahead, and reads none that is stored to ahead.
        """
        first = {self.loop.head, self.columns.preheader} - set(self.ahead)
        own = [op for op in ops if op.block in first or op.block in self.ahead]
        own = [op for op in own if not self._is_before(self.forms.of(op.operands[OPS[op.name].indices + axis]))]
        stored = any(op.name in UPDATES and op.block in first for op in own)
        updated = any(op.name in UPDATES and op.block in self.ahead for op in own)
        read = any(op.name == "get" and (stored or updated and op.block in first) for op in own)
        return not read and not (stored and updated)

    def _is_before(self, at: Affine) -> bool:
        """True for the counter of the inner loop, or one of a loop in it that does not pass it."""
        if at.constant or len(at.terms) != 1 or at.terms[0][1] != 1:
            return False
        v = at.terms[0][0]
        if v is self.j:
            return True
        known = next((k for x in self.columns.children if x.head is v.owner and (k := counted(x)) is not None), None)
        return known is not None and known.iv is v and \
            self.forms.of(known.trip).minus(self.forms.of(self.j)) in (Affine(0), Affine(1))

    # --- what is executed ahead -----------------------------------------------------------------------

    def _check_ahead(self) -> None:
        before = [] if self.columns.preheader is self.loop.head else [self.columns.preheader]
        blocks = [self.loop.head, *before, *self.ahead]
        ops = [op for b in blocks if b is not None for op in b.ops if op.name != "const"]
        kept = {p for p in self.loop.head.params if p is not self.i and p not in self.names}
        updated = self.updated_ahead()
        if not {self.names.get(p) for p in self.columns.head.params}.issuperset(updated):
            raise NoTriangle
        passed = [a for b in blocks if b is not None and b.term is not None for e in b.term.edges for a in e.args
                  if b is not self.loop.head or e.block in (self.columns.head, *before)]
        if len(ops) > MOST_OPS or kept.intersection(passed) or any(kept.intersection(op.operands) for op in ops) or \
                any(p not in self.names and not isinstance(p.type, Scalar) for p in self.columns.head.params):
            raise NoTriangle
        for op in ops:
            if op.name == "check":
                self._test(op.operands[0])
            elif op.name not in UPDATES and (OPS[op.name].effect or OPS[op.name].consumes):
                raise NoTriangle
            elif any(isinstance(r.type, Array) and r not in self.names for r in op.results):
                raise NoTriangle
        if any(self._depends(x) for x in self.columns.children) or not self._waits():
            raise NoTriangle

    def _test(self, condition: Value) -> None:
        """Enter a check: a sum of counters that is below a size, or at most that."""
        op = condition.op
        if op is None or op.name not in ("lt", "le") or op.operands[0].type != self.i.type:
            raise NoTriangle
        x, bound = self.forms.of(op.operands[0]), op.operands[1]
        inside = [(v, times) for v, times in x.terms if v.block in self.loop.blocks]
        if bound.block in self.loop.blocks or any(v not in (self.i, self.j) or times < 0 for v, times in inside):
            raise NoTriangle
        self.tests.append((x, bound, op.name == "lt"))

    def _depends(self, loop: Loop) -> bool:
        """True if the number of iterations of a loop in the inner one is not known to be the same in all rows."""
        known = counted(loop)
        return known is None or loop.exit is None or not all(
            v is self.j or v.block not in self.loop.blocks for v, _ in self.forms.of(known.trip).terms)

    def _waits(self) -> bool:
        """True if an innermost loop adds to floats in order."""
        innermost = self.columns.children or [self.columns]
        sums = [back.op for x in innermost if not x.children and len(x.blocks) == 1
                for p, back in x.back_edge().passed() if isinstance(p.type, Scalar) and p.type.is_float]
        return any(op is not None and op.name in ("add", "sub") and not op.attrs.get("acc") for op in sums)
