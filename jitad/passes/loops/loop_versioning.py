"""Makes two versions of innermost loops: one without index checks, and the original.

Python's indices may be negative or out of bounds.  An index such as ``column + r`` is checked in each iteration, which
prevents vectorisation.  If the index is *affine*, or *monotone* as ``min(k + r, n)``, and does not wrap, a comparison
with it holds in all iterations if it holds in the first and in the last.  The pass tests this before the loop::

    ^preheader:                          ^preheader:
      jump ^loop(0)                        branch (conditions hold for 0 and n - 1), ^fast, ^checked
                               becomes   ^fast:     the loop with its conditions replaced by constants
    ^loop(i):                            ^checked:  the original loop
      check i + k < len(a)

An index that grows by one in each iteration wraps exactly if its last value is below its first, and only one end needs
to be compared with each bound, which matters if the loop is short.  Others are compared at both ends, provided that all
that they are computed from is ``NEAR``.  A comparison that a branch of the loop has made is not tested ahead.

A comparison of a float with 0 may be decided by the signs of loop-invariant values: ``math.sqrt(x * x + eps)`` has a
check for the argument ``eps``, though not for a literal.  The fast version is for positive ones.  A float that sums and
products make of counters and loop-invariant values, as in ``int(c * i - s * j)``, has a bound: the same of magnitudes.
If that is small, the float is a number and has an integer part.  Loop-invariant checks that are left are on one side of
a branch, and are tested before the loop too.

In the *fast* version, the comparisons have the value by which a check passes, or by which an index is not negative.
Loads on one side of a branch have the attribute ``inside``, the axes of which the index is in bounds in any case.
The original loop runs otherwise, and raises in the right iteration.

In a program for a GPU, only loops of the host program get a second version: without checks they may be scans, for
many threads, while in a thread's own loop a check costs little.

*Affine*: ``a + k * it`` with ``a`` and ``k`` loop-invariant and ``it`` the counter of the loop.  *Monotone*: also the
sums, minima and maxima of such a value and loop-invariant ones.
"""

from __future__ import annotations

import math

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import NEGATED, OPS, ORDERS
from ...ir.types import I64, Array, Scalar
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import own_exit, set_term
from ..analysis.float_facts import bound, decided_below, is_bounded, positive_inputs
from ..analysis.loops import Counted, Loop, counted, loop_forest
from ..analysis.ranges import Ranges
from ..analysis.sizes import Solver

Ends = tuple[dict[Value, Value], dict[Value, Value]]
"""The values in the first and in the last iteration, as far as they have been emitted."""
NEAR = 2**30
"""A bound of starts and steps, larger than arrays need.  Beyond it, an index could wrap between the first and the last
iteration."""
FEW = 4
"""The fewest iterations of a loop that calls functions of vectors, if the loop around may change their number."""
LARGEST = 120
"""The most ops of a loop that is copied."""


def loop_versioning(module: Module) -> None:
    """Give every innermost counted loop with affine checks a version without them; expects normal form."""
    threads = _of_threads(module) if module.gpu else set()
    for func in [f for f in module.functions.values() if f.name not in threads]:
        forest = loop_forest(func)
        if not forest.loops:
            continue
        unclosed = forest.open_loops()
        for loop in forest.loops:
            known = counted(loop)
            if not loop.children and known is not None and loop.exit is not None and loop not in unclosed:
                _Version(func, loop, known, forest.dom.number).run()


def _of_threads(module: Module) -> set[str]:
    """The functions that threads of a GPU run: outlined loops, and what they call."""
    callees = CallGraph(module).callees
    ends = [b.term for f in module.functions.values() for b in f.blocks if b.term is not None]
    todo = [op.attrs["callee"] for op in ends if "threads" in op.attrs]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += callees[name]
    return found


class _Version:
    def __init__(self, func: Function, loop: Loop, known: Counted, number: dict[Block, int]) -> None:
        self.func, self.loop, self.known = func, loop, known
        self.order = sorted(loop.blocks, key=number.__getitem__)
        self.affine: dict[Value, bool] = {known.iv: True}
        self.wanted: dict[Value, bool] = {}
        self.signs: dict[Value, list[Value]] = {}
        self.bounded: dict[Value, tuple[Value, float]] = {}     # condition → a float, of which a magnitude decides it
        self.outside: dict[Value, None] = {}             # loop-invariant conditions of checks on one side of a branch
        self.largest: dict[Value, int] = {}
        self.slopes: dict[Value, int | None] = {known.iv: 1}

    def run(self) -> None:
        for block in self.order:
            for op in block.ops:
                self._look_at(op)
        self.wanted = {c: t for c, t in self.wanted.items()
                       if c.op is not None and (self._is_steady(c.op) or self._stays_small(c.op))}
        short = sum(len(b.ops) for b in self.loop.blocks) <= LARGEST
        if (self.wanted or self.signs or self.bounded or self.outside) and short and not self._is_of_arrays():
            self._split()

    def _is_of_arrays(self) -> bool:
        """True if an iteration computes arrays: relative to that, a check costs little."""
        return any(OPS[op.name].elementwise and isinstance(op.result.type, Array) for b in self.order for op in b.ops)

    # --- the conditions of the fast version -----------------------------------------------------------

    def _look_at(self, op: Op) -> None:
        """Add the condition of ``op``: a check needs it true, a select of an index needs "negative" false."""
        if op.name == "check" and op.operands[0].block not in self.loop.blocks:
            self.outside[op.operands[0]] = None
        elif op.name == "check":
            self._want(op.operands[0], True)
        elif op.name == "select" and op.result.type == I64:
            condition = op.operands[0].op
            if condition is not None and condition.name == "lt" and condition.operands[1].const == 0:
                self._want(op.operands[0], False)

    def _want(self, condition: Value, truth: bool) -> None:
        """Add ``condition``, or both parts of a conjunction, if it can be tested before the loop."""
        op = condition.op
        if op is None or condition.block not in self.loop.blocks or condition in self.wanted:
            return
        if op.name == "and" and truth:
            for part in op.operands:
                self._want(part, True)
        elif op.name == "not":
            self._want(op.operands[0], not truth)
        elif (limit := decided_below(op, truth)) and is_bounded(op.operands[0], self.loop.blocks):
            self.bounded[condition] = op.operands[0], limit
        elif op.name in ORDERS and op.operands[0].type != I64:
            if not truth and (inputs := positive_inputs(op, self.loop.blocks)) is not None:
                self.signs[condition] = inputs
        elif op.name in ORDERS and op.operands[0].type == I64 and self._has_ends(*op.operands):
            self.wanted[condition] = truth

    def _has_ends(self, x: Value, y: Value) -> bool:
        """True if a comparison holds in all iterations if it does in the first and in the last."""
        return self._is_affine(x) and self._is_affine(y) or any(
            self._is_monotone(v) and self._from_outside(u) for v, u in ((x, y), (y, x)))

    def _is_monotone(self, v: Value) -> bool:
        op = v.op
        if self._is_affine(v):
            return True
        if op is not None and op.name in ("minimum", "maximum", "add", "sub"):
            return all(self._from_outside(u) or self._is_monotone(u) for u in op.operands) and \
                any(map(self._from_outside, op.operands))
        return op is not None and self._is_plain_index(op) and self._is_monotone(op.operands[2])

    def _is_plain_index(self, op: Op) -> bool:
        """True for the selection of an index, which the fast version has as it is: not negative."""
        self._look_at(op)
        return op.name == "select" and self.wanted.get(op.operands[0]) is False

    def _is_affine(self, v: Value) -> bool:
        if v not in self.affine:
            self.affine[v] = v.block not in self.loop.blocks or self._is_affine_op(v.op)
        return self.affine[v]

    def _is_affine_op(self, op: Op | None) -> bool:
        if op is None:
            return False
        if op.name in ("add", "sub", "mul"):
            known = op.name != "mul" or any(map(self._from_outside, op.operands))
            return known and all(map(self._is_affine, op.operands))
        return op.name == "const" or self._is_plain_index(op) and self._is_affine(op.operands[2])

    def _from_outside(self, v: Value) -> bool:
        return v.block not in self.loop.blocks or v.const is not None

    # --- indices that change by one ---------------------------------------------------------------------

    def _slope(self, v: Value) -> int | None:
        """The change of an affine value from one iteration to the next, if it is a small constant."""
        if v not in self.slopes:
            self.slopes[v] = 0 if self._from_outside(v) else None if v.op is None else self._slope_of(v.op)
        return self.slopes[v]

    def _slope_of(self, op: Op) -> int | None:
        if op.name == "select":                             # known if the fast version is sure to choose the index
            test = op.operands[0].op
            return self._slope(op.operands[2]) if test is not None and self._is_steady(test) else None
        if op.name not in ("add", "sub"):
            return 0 if all(self._slope(u) == 0 for u in op.operands) else None
        x, y = map(self._slope, op.operands)
        return None if x is None or y is None else x + y if op.name == "add" else x - y

    def _is_steady(self, comparison: Op) -> bool:
        """True if one operand changes by one or not at all, and the other is constant."""
        x, y = map(self._slope, comparison.operands)
        return (x == 0 and y in (-1, 0, 1)) or (y == 0 and x in (-1, 1))

    def _steady(self, b: Builder, holds: Value, ends: Ends) -> Value:
        """Emit the tests of the steady comparisons: each at its worse end, and that what it compares does not wrap."""
        done: set[tuple[object, ...]] = set()

        def add(holds: Value, name: str, *operands: Value) -> Value:
            key = (name, *(v if v.const is None else v.const for v in operands))
            if key in done:
                return holds
            done.add(key)
            return b.and_(holds, b.emit(name, *operands))

        first, last = ends
        for condition, truth in self.wanted.items():
            op = condition.op
            if op is None or not self._is_steady(op) or self._is_decided(condition):
                continue
            name = op.name if truth else NEGATED[op.name]
            slopes = [self._slope(v) or 0 for v in op.operands]
            for v, slope in zip(op.operands, slopes):
                if slope and v is not self.known.iv:
                    holds = add(holds, "ge" if slope > 0 else "le", self._at(v, last, b), self._at(v, first, b))
            rises = slopes[0] > slopes[1]
            worse = last if rises is (name in ("lt", "le")) else first
            holds = add(holds, name, *(self._at(v, worse, b) for v in op.operands))
        return holds

    # --- no overflow between the first and the last iteration -------------------------------------------

    def _stays_small(self, comparison: Op) -> bool:
        """True if the operands cannot wrap in any iteration, provided that all loop-invariant values are within
        ``NEAR``."""
        return all(self._largest(v) < 2**62 for v in comparison.operands)

    def _largest(self, v: Value) -> int:
        op = v.op
        if v.const is not None:
            return abs(int(v.const))
        if op is None or v.block not in self.loop.blocks:
            return NEAR
        if v not in self.largest:
            sizes = [self._largest(u) for u in op.operands if u.type == I64]
            self.largest[v] = math.prod(sizes) if op.name == "mul" else sum(sizes)
        return self.largest[v]

    def _leaves(self) -> list[Value]:
        """The trip count and the loop-invariant values that the comparisons read which are not steady."""
        todo, seen = [c for c in self.wanted if c.op is not None and not self._is_steady(c.op)], set()
        found = {self.known.trip: None} if todo else {}
        while todo:
            v = todo.pop()
            if v in seen or v.const is not None or v is self.known.iv:
                continue
            seen.add(v)
            if v.block in self.loop.blocks:
                todo += v.op.operands if v.op is not None else ()
            else:
                found[v] = None
        return [v for v in found if v.type == I64 and v.const is None]

    def _is_decided(self, condition: Value) -> bool:
        """True if a branch in the loop leads to a wanted comparison only where it holds (``if i + step < n``)."""
        def key(op: Op, holds: bool) -> tuple[object, ...]:
            return (op.name if holds else NEGATED[op.name], *(v if v.const is None else v.const for v in op.operands))

        op, block = condition.op, condition.block
        assert op is not None
        indices = [self._index(v) for v in op.operands]
        wanted = (key(op, self.wanted[condition])[0], *(v if v.const is None else v.const for v in indices))
        while block is not self.loop.head:
            edges = [(b, number) for b in self.order if b.term is not None
                     for number, e in enumerate(b.term.edges) if e.block is block]
            if len(edges) != 1:
                return False
            (block, number), = edges
            test = block.term.operands[0].op if block.term is not None and block.term.name == "branch" else None
            if test is not None and test.name in ORDERS and key(test, number == 0) == wanted:
                return True
        return False

    def _index(self, v: Value) -> Value:
        """The index that the fast version is sure to choose, if ``v`` is the selection for a negative one."""
        op = v.op
        chosen = op is not None and op.name == "select" and self.wanted.get(op.operands[0]) is False
        return self._index(op.operands[2]) if chosen and op is not None else v

    def _near(self, b: Builder) -> Value:
        """Emit the test that all ``_leaves`` are within ``NEAR``."""
        holds, ranges = b.const(True), Ranges()
        for v in self._leaves():
            low, high = ranges.interval(v)
            if low < -NEAR:
                holds = b.and_(holds, b.ge(v, -NEAR))
            if high > NEAR:
                holds = b.and_(holds, b.le(v, NEAR))
        return holds

    # --- the two versions -----------------------------------------------------------------------------

    def _split(self) -> None:
        loop, func = self.loop, self.func
        preheader, latch, leave = loop.preheader, loop.latch, loop.exit
        assert preheader is not None and latch is not None and leave is not None
        holds = self._test(preheader)
        self.wanted |= dict.fromkeys(self.signs, False)
        self.wanted |= {c: c.op.name != "isnan" for c in self.bounded if c.op is not None}
        values: dict[Value, Value] = {}
        blocks = clone_blocks(self.order, func, values)
        self._learn_bounds()
        self._settle(blocks)
        if latch.term is not None:
            latch.term.attrs["cold"] = True          # the lowering keeps its code small
        entry = loop.entry_edge()
        fast, slow = func.new_block("fast"), func.new_block("checked")
        set_term(fast, "jump", edges=[Edge(blocks[loop.head], list(entry.args))])
        set_term(slow, "jump", edges=[Edge(loop.head, list(entry.args))])
        set_term(preheader, "branch", [holds], [Edge(fast), Edge(slow)])
        for end in (latch, blocks[latch]):
            own_exit(func, end, leave)

    def _test(self, preheader: Block) -> Value:
        """Emit, at the end of the preheader, the test of all wanted conditions in the first and the last iteration."""
        term, preheader.term = preheader.term, None
        b = Builder(preheader, self.loop.head.ops[0].loc if self.loop.head.ops else self.func.loc)
        ends: Ends = ({self.known.iv: b.const(0)}, {self.known.iv: b.sub(self.known.trip, 1)})
        holds = self._steady(b, self._near(b), ends)
        around, trip = self.loop.parent, self.known.trip
        if around is not None and trip.block in around.blocks and any(
                OPS[op.name].vector for block in self.order for op in block.ops):
            holds = b.and_(holds, b.ge(trip, FEW))
        for v in dict.fromkeys(v for inputs in self.signs.values() for v in inputs):
            assert isinstance(v.type, Scalar)
            holds = b.and_(holds, b.gt(v, b.const(0.0, v.type)))
        limits = dict(sorted(self.bounded.values(), key=lambda found: -found[1]))     # the least of each
        for v, limit in limits.items():
            holds = b.and_(holds, b.lt(bound(b, v, self.loop.blocks, self.known), b.const(limit)))
        for condition in self.outside:
            holds = b.and_(holds, condition)
        for condition, truth in self.wanted.items():
            if condition.op is None or self._is_steady(condition.op) or self._is_decided(condition):
                continue
            for end in ends:
                known = self._at(condition, end, b)
                holds = b.and_(holds, known if truth else b.not_(known))
        preheader.term = term
        return holds

    def _at(self, v: Value, known: dict[Value, Value], b: Builder) -> Value:
        """Emit ``v`` in one iteration, provided that indices are not negative; ``known`` has the counter."""
        if v in known or v.block not in self.loop.blocks:
            return known.get(v, v)
        op = v.op
        assert op is not None
        if op.name == "select":
            known[v] = self._at(op.operands[2], known, b)
            return known[v]
        operands = [self._at(u, known, b) for u in op.operands]
        if op.name == "const":
            known[v] = b.const(op.attrs["value"], op.attrs["type"])
        else:
            known[v] = b.emit(op.name, *operands)
        return known[v]

    def _learn_bounds(self) -> None:
        """Collect from the tested comparisons what is not negative, and the sizes that indices are less than."""
        self.limits: dict[Value, list[Value]] = {}
        self.positive: set[Value] = set()
        for condition, truth in self.wanted.items():
            op = condition.op
            if op is None or condition in self.bounded or self._is_decided(condition):
                continue
            v, other = op.operands
            if op.name == "lt" and truth:
                self.limits.setdefault(v, []).append(other)
            elif other.const == 0 and (op.name, truth) in (("ge", True), ("lt", False)):
                self.positive.add(v)
        self.solver = Solver(self.func)

    def _settle(self, blocks: dict[Block, Block]) -> None:
        """Replace each wanted condition in the fast version by a constant, and remove the checks that then hold."""
        for old, new in blocks.items():
            kept = []
            for op, twin in zip(old.ops, new.ops):
                if op.results and op.results[0] in self.wanted:
                    twin.name, twin.operands = "const", []
                    twin.attrs = {"value": self.wanted[op.results[0]], "type": op.result.type}
                if op.name == "get" and old is not self.loop.head and (axes := self._inside(op)):
                    twin.attrs = {**op.attrs, "inside": axes}
                if op.name != "check" or not self._holds(op.operands[0]):
                    kept.append(twin)
            new.ops = kept

    def _inside(self, load: Op) -> tuple[int, ...]:
        """The axes of which the index of a load is in bounds in every iteration, also if a branch does not take it."""
        array, *index = load.operands
        return tuple(axis for axis, v in enumerate(index) if v in self.limits and self._is_not_negative(v) and any(
            size.op is not None and size.op.name == "dim" and self.solver.size((array, axis))
            == self.solver.size((size.op.operands[0], size.op.attrs["axis"])) for size in self.limits[v]))

    def _is_not_negative(self, v: Value) -> bool:
        op = v.op
        return v in self.positive or op is not None and op.name == "select" and op.operands[2] in self.positive and \
            self.wanted.get(op.operands[0]) is False

    def _holds(self, condition: Value) -> bool:
        """True if a condition holds in the fast version."""
        op = condition.op
        if condition in self.outside or op is None:
            return condition in self.outside
        if op.name == "and" and condition not in self.wanted:
            return all(map(self._holds, op.operands))
        if op.name == "not":
            return self.wanted.get(op.operands[0]) is False
        return self.wanted.get(condition) is True
