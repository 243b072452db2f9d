"""Splits a loop over windows where these are cut off at a border: in between all windows are whole.

::

    for i in range(n):                                  for i in range(first):           windows that begin at 0
        for k in range(max(h - i, 0), min(m, n + h - i)):       …
            a += w[k] * x[i + k - h]            →       for i in range(first, last):     h ≤ i ≤ n + h - m
                                                            for k in range(m): …
                                                        for i in range(last, n): …

A filter whose ends are treated apart has this form, by bounds, by tests of the index, or by an index that is moved to
the nearest one, ``x[min(max(i + k - h, 0), n - 1)]``, or around, ``x[(i + k) % n]``.  Between the borders the inner
loop has the same length in all iterations and no test, so that these become lanes (``outer_loop``), and an index that
is not moved steps by one, in innermost loops as well.  There a maximum or minimum is the operand that it takes behind a
border near the start of the loop, or before one near its end, a comparison is what it is there, and a remainder is its
first operand but for a multiple of the second.  What is near the end contains the trip count, as ``n`` in the example.
What is tested ahead of a window, whether it has an element, is decided there too, or is the sign of a distance.

The borders are computed without wrapping, as sums of a few values that are small; if a program's own integers are not,
all iterations are those of the first part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import ORDERS
from ...ir.types import I64, Array, Scalar
from ..analysis.affine import DEEPEST, Affine, AffineForms, without_multiple
from ..analysis.cfg import merge_chains, resolve
from ..analysis.loops import MOST_FIRST, MOST_LAST, Counted, Loop, counted, exit_values, loop_forest
from .index_set_splitting import LoopParts, decide, value_of

LARGEST = 100
"""The most ops of a loop, which is copied twice."""
LONGEST = 6
"""The most terms of a border."""
SMALL = 2**40
"""Values below it, times at most ``STEEPEST``, do not wrap when a few are added."""
STEEPEST = 16
DECIDED = frozenset((*ORDERS, "maximum", "minimum", "mod"))


class _Border(NamedTuple):
    """The interior begins at the form ``at``, or else ends there.

    ``larger``: the first operand is there, or not smaller.  ``compared``: the forms of which no sum may wrap.
    """

    is_first: bool
    at: Affine
    larger: bool
    compared: tuple[Affine, ...]


@dataclass
class _Borders:
    """``first`` and ``last``: the forms of which the interior begins at the largest and ends at the smallest.

    ``taken``: the operand that a maximum or minimum is there, or what a comparison is.  ``multiples``: what a remainder
    takes away there.  ``fixed``: the forms of sums that are the same in all its iterations, as the distance of a
    window's ends.  ``distances``: those of the operands of comparisons, whether a window has any element.  ``outside``:
    the values from outside that are compared.
    """

    first: list[Affine] = field(default_factory=list)
    last: list[Affine] = field(default_factory=list)
    taken: dict[Value, Value | bool] = field(default_factory=dict)
    multiples: dict[Value, Affine] = field(default_factory=dict)
    fixed: dict[Value, Affine] = field(default_factory=dict)
    distances: dict[Value, Affine] = field(default_factory=dict)
    outside: dict[Value, None] = field(default_factory=dict)


def border_splitting(module: Module) -> bool:
    """Split every such loop; expects normal form.  Returns True if there was one."""
    changed = False
    for func in module.functions.values():
        split = set[Block]()
        for loop in loop_forest(func).loops:
            known = counted(loop) if loop.exit is not None and split.isdisjoint(loop.blocks) else None
            results = exit_values(loop, known) if known is not None and _may_copy(loop) else None
            if known is not None and results is not None and (borders := _Finder(loop, known).borders()) is not None:
                _Splitting(func, loop, known, results).run(borders)
                split |= loop.blocks
        if split:
            merge_chains(func)
            changed = True
    return changed


def _may_copy(loop: Loop) -> bool:
    if sum(len(b.ops) for b in loop.blocks) > LARGEST or loop.preheader is None:
        return False
    return all(b.term is not None and b.term.name in ("jump", "branch") and not any(
        isinstance(v.type, Array) and op.name not in ("set", "add_at") for op in b.ops for v in op.results)
        for b in loop.blocks)


class _Finder:
    """Finds the borders of one loop.  ``forms`` are those of its interior."""

    def __init__(self, loop: Loop, known: Counted) -> None:
        self.loop, self.known, self.forms, self.found = loop, known, AffineForms(), _Borders()
        self.given: dict[Value, Affine] = {}
        self.inner = [(child, c) for child in _within(loop) if (c := counted(child)) is not None]
        self.trip = self.forms.of(known.trip)

    def borders(self) -> _Borders | None:
        """The borders; ``None`` if no innermost loop gains by them."""
        if not self.loop.children:
            return self._of_neighbours()
        gains, windows = False, [child for child, _ in self.inner if self._is_window(child)]
        needed = _needed({b for child in windows for b in child.blocks})
        latches = {x.latch.term.operands[0] for x in (self.loop, *_within(self.loop)) if x.latch and x.latch.term}
        for op in (op for b in _in_order(self.loop) for op in b.ops if op.name in DECIDED):
            if op.operands[0].type != I64 or op.result in latches or op.name in ORDERS and op.result not in needed:
                continue
            gains = self._take(op) and op.result in needed or gains
        if not (self.found.taken or self.found.multiples):
            return None
        varying = [(child, c) for child, c in self.inner if not self._is_fixed(c.trip, AffineForms())]
        if not all(self._is_fixed(c.trip, self.forms) for _, c in varying):
            return None
        gains = gains or any(child in windows for child, _ in varying)
        for op in (op for b in self.loop.blocks for op in b.ops if op.name in ("add", "sub") and gains):
            form = self.forms.of(op.result)
            if op.result.type == I64 and self._is_outside(form) and not all(
                    self._is_outside(self.forms.of(v)) for v in op.operands):
                self.found.fixed[op.result] = form
        if gains:
            self._take_guards(windows)
        return self.found if gains else None

    def _take_guards(self, windows: list[Loop]) -> None:
        """Decide, or compare once, what is tested ahead of windows."""
        sources = {e.block: b for b in self.loop.blocks if b.term is not None for e in b.term.edges}
        guards = [sources.get(child.preheader) for child in windows if child.preheader is not None]
        tests = _conditions(b for b in guards if b is not None)
        for op in (v.op for v in tests if v.op is not None and v.op.name in ORDERS and v not in self.found.taken):
            x, y = map(self.forms.of, op.operands)
            if op.operands[0].type != I64 or op.block not in self.loop.blocks:
                continue
            if not self._is_outside(x.minus(y)):
                self._take(op)
            elif _is_flat(x) and _is_flat(y) and all(self._is_outside(f.without(self.known.iv)) for f in (x, y)):
                self.found.distances[op.result] = x.minus(y)
                self.found.outside |= dict.fromkeys(v for f in (x, y) for v, _ in f.terms if v is not self.known.iv)

    def _of_neighbours(self) -> _Borders | None:
        """The borders of an innermost loop, at which indices are moved or wrap, if ``peel`` would leave some.

        Those of a window change in the loop around, which is split instead.
        """
        for op in (op for b in _in_order(self.loop) for op in b.ops):
            if op.name in ("mod", "maximum", "minimum") and op.result.type == I64:
                self._take(op)
        around = self.loop.parent.blocks if self.loop.parent is not None else ()
        is_window = any(v.block in around for v in self.found.outside)
        return self.found if not is_window and self._is_beyond() else None

    def _is_outside(self, form: Affine) -> bool:
        return all(v.block not in self.loop.blocks for v, _ in form.terms)

    def _is_fixed(self, v: Value, forms: AffineForms, depth: int = DEEPEST) -> bool:
        """True if a value is the same in all iterations, in the interior if these are its forms."""
        return all(x.block not in self.loop.blocks or x.op is not None and x.op.name in ("maximum", "minimum")
                   and depth > 0 and all(self._is_fixed(y, forms, depth - 1) for y in x.op.operands)
                   for x, _ in forms.of(v).terms)

    def _is_window(self, child: Loop) -> bool:
        """True for an innermost loop with a sum that the loops between it and this one carry.

        Others, as a column of pixels with a window in each, are lanes themselves.
        """
        if child.children:
            return False
        while child.parent is not None and child.parent is not self.loop:
            passed = [a for p, a in zip(child.head.params, child.entry_edge().args) if isinstance(p.type, Scalar)]
            child = child.parent
            if not any(v.owner is child.head for v in passed if v.type != I64):
                return False
        return child.parent is self.loop

    def _take(self, op: Op) -> bool:
        """Note what an op takes in the interior, if an end of the interior decides that."""
        x, y = map(self.forms.of, op.operands)
        if op.name == "mod":
            return self._take_remainder(op, x, y)
        border = self._border(op.name, x, y)
        if border is None:
            return False
        self._note(border)
        if op.name in ORDERS:
            self.found.taken[op.result] = border.larger == (op.name in ("gt", "ge"))
        else:
            taken = op.operands[0 if border.larger == (op.name == "maximum") else 1]
            self.found.taken[op.result] = taken
            self._is_now(op, self.forms.of(taken))
        return True

    def _take_remainder(self, op: Op, x: Affine, n: Affine) -> bool:
        """The same for ``x % n``, which is ``x`` but for a multiple of ``n``."""
        reduced = without_multiple(x, n)
        low, high = self._border("ge", reduced, Affine(0)), self._border("lt", reduced, n)
        if low is None or high is None or not low.larger or high.larger or not self._is_outside(n):
            return False
        self._note(low)
        self._note(high)
        self.found.multiples[op.result] = x.minus(reduced)
        self._is_now(op, reduced)
        return True

    def _border(self, name: str, x: Affine, y: Affine) -> _Border | None:
        """The border at which a comparison of two forms is decided, or a maximum or minimum."""
        ahead = x.minus(y)
        if not (_is_flat(x) and _is_flat(y)):
            return None
        step = ahead.coefficient(self.known.iv)
        least, most = self._extremes(ahead.without(self.known.iv).times(step))
        if abs(step) != 1 or least is None or most is None:
            return None
        closed = 0 if (step > 0) == (name in ("lt", "ge")) else 1          # 1: equal operands are on the other side
        first, last = least.times(-1), most.times(-1).plus(Affine(1))
        if name in ORDERS:
            first, last = first.plus(Affine(closed)), last.plus(Affine(closed - 1))
        compared = (x, y, least, most)
        if not self._is_near_end(first):
            return _Border(True, first, step > 0, compared)
        return _Border(False, last, step < 0, compared) if self._is_near_end(last) else None

    def _note(self, border: _Border) -> None:
        (self.found.first if border.is_first else self.found.last).append(border.at)
        for form in border.compared:
            self.found.outside |= dict.fromkeys(v for v, _ in form.terms if v.block not in self.loop.blocks)

    def _is_now(self, op: Op, form: Affine) -> None:
        """Give a value its form in the interior, on which those of others depend."""
        self.given[op.result] = form
        self.forms.known = dict(self.given)

    def _is_beyond(self) -> bool:
        """True if ``peel`` would leave more iterations than it takes."""
        at_end = [self.trip.minus(form) for form in self.found.last]
        return any(form.terms or form.constant > most
                   for forms, most in ((self.found.first, MOST_FIRST), (at_end, MOST_LAST)) for form in forms)

    def _extremes(self, form: Affine) -> tuple[Affine | None, Affine | None]:
        """The smallest and the largest value over the iterations of inner loops; ``None`` if they are not known."""
        least = most = form
        for v, times in form.terms:
            if v.block not in self.loop.blocks:
                continue
            trip = next((self.forms.of(c.trip) for _, c in self.inner if c.iv is v), None)
            if trip is None or not self._is_outside(trip):
                return None, None
            end = trip.plus(Affine(-1)).times(times)
            least = least.without(v).plus(end if times < 0 else Affine(0))
            most = most.without(v).plus(end if times > 0 else Affine(0))
        return (least, most) if _is_flat(least) and _is_flat(most) else (None, None)

    def _is_near_end(self, border: Affine) -> bool:
        behind = border.minus(self.trip)
        if border.terms or behind.terms:
            return len(behind.terms) < len(border.terms)
        return abs(behind.constant) < abs(border.constant)


class _Splitting(LoopParts):
    """Splits one loop: it becomes the first part, and is copied for the interior and for the last part."""

    def run(self, borders: _Borders) -> None:
        b, carried, behind = self.take_out()
        values: dict[Value, Value] = {}
        interior, last = clone_blocks(self.blocks, self.func, values), clone_blocks(self.blocks, self.func, {})
        trip = self.known.trip
        is_small = self._are_small(b, {trip: None, **borders.outside})
        begin: Value = b.const(0)
        for form in borders.first:
            begin = b.maximum(begin, value_of(b, form))
        begin = b.select(is_small, b.minimum(begin, trip), trip)
        end = trip
        for form in borders.last:
            end = b.minimum(end, value_of(b, form))
        end = b.maximum(end, begin)
        implied = [is_small, *(b.ge(begin, value_of(b, form)) for form in borders.first),
                   *(b.le(end, value_of(b, form)) for form in borders.last)]
        carried = self.part(b, self.loop.head, self.latch, carried, begin)
        fixed = {values[v]: value_of(b, form) for v, form in borders.fixed.items()}
        amounts = {v: value_of(b, form) for v, form in borders.multiples.items()}
        distances = {v: [value_of(b, form), b.const(0)] for v, form in borders.distances.items()}
        for copy, first, to, known in ((interior, begin, end, implied), (last, end, trip, [])):
            self.count_from(first, copy)
            carried = self.part(b, copy[self.loop.head], copy[self.latch], carried, b.sub(to, first), known)
        self.leave(b, behind, carried)
        for v in borders.multiples:
            if (op := values[v].op) is not None:
                op.name, op.operands, op.attrs = "sub", [op.operands[0], amounts[v]], {}
        for v, operands in distances.items():
            if (op := values[v].op) is not None:
                op.operands = operands
        taken = {values[v]: x if isinstance(x, bool) else values.get(x, x) for v, x in borders.taken.items()}
        self._take(interior, {**fixed, **taken})

    @staticmethod
    def _are_small(b: Builder, values: Iterable[Value]) -> Value:
        """The condition that sums of these values do not wrap; sizes of arrays are small."""
        found: Value = b.const(True)
        for v in values:
            if v.const is None and not (v.op is not None and v.op.name == "dim"):
                found = b.and_(found, b.and_(b.lt(v, SMALL), b.lt(-SMALL, v)))
        return found

    @staticmethod
    def _take(copy: dict[Block, Block], taken: dict[Value, Value | bool]) -> None:
        mapping = {v: x for v, x in taken.items() if not isinstance(x, bool)}
        for v in list(mapping):
            resolve(mapping, v)
        for v, x in taken.items():
            if isinstance(x, bool):
                decide(v, x)
        for block in copy.values():
            for op in block.all_ops():
                op.replace_uses(mapping)


def _is_flat(form: Affine) -> bool:
    """True if a sum of small values cannot wrap."""
    return len(form.terms) <= LONGEST and abs(form.constant) < SMALL and all(abs(c) <= STEEPEST for _, c in form.terms)


def _within(loop: Loop) -> list[Loop]:
    return [x for child in loop.children for x in (child, *_within(child))]


def _needed(blocks: set[Block]) -> set[Value]:
    """The integers that these blocks make, and the conditions of their branches, with what these consist of.

    Checks are left to ``loop_versioning``.
    """
    return {v for b in blocks for op in b.ops for v in op.results if v.type == I64} | _conditions(blocks)


def _conditions(blocks: Iterable[Block]) -> set[Value]:
    """The conditions of branches and selections, with what these consist of."""
    found: set[Value] = set()
    todo = [op.operands[0] for b in blocks for op in b.all_ops() if op.name in ("branch", "select")]
    while todo:
        v = todo.pop()
        if v not in found:
            found.add(v)
            todo += v.op.operands if v.op is not None and v.op.name in ("and", "or", "not") else []
    return found


def _in_order(loop: Loop) -> list[Block]:
    """The blocks of a loop, each behind those that dominate it."""
    found, todo = list[Block](), [loop.head]
    while todo:
        block = todo.pop()
        if block in loop.blocks and block not in found:
            found.append(block)
            todo += block.successors()
    return found
