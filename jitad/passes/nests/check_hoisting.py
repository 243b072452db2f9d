"""Hoists checks of indices out of whole nests of counted loops: the largest index is compared once, ahead of the nest.

An index that is a counter, or a sum of counters, takes all values from the first to the last, so the check fails in
some iteration exactly if it fails for the largest::

    ^preheader:                                    ^preheader:
      jump ^loop(0)                                  check n <= a or m <= 0
                                     becomes         check m <= b
    ^loop(i):                                        jump ^loop(0)
      … ^inner(j):                                 ^loop(i):
          check i < a                                … ^inner(j): …
          check j < b

Checks of what does not change in the nest, as of the sizes of two rows, are hoisted too.

``n`` and ``m`` are the trip counts.  A check is not executed if a loop around it has no iteration.  The first index
that is out of bounds is the bound itself, which the message shows.  If several checks would fail, the one that fails
first in the program is reported: ``j < b`` above, unless ``a`` is empty (which takes one more check).

The nest must do nothing else that could be seen: no calls, no other checks, no conditions around the checks.  A failing
program then raises without the work that would be lost.  What is left can be interchanged, tiled and run in lanes, in
the derivative too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ..analysis.affine import AffineForms
from ..analysis.loops import Loop, loop_forest
from .regular import Regular, is_fixed

NEAR = 1 << 30
"""The bound of constants in an index.  Sizes of arrays are far below 2⁶², so that sums of both do not wrap."""
MOST_JOINED = 8
"""The most values that are followed from a carried size."""
NEVER = 1 << 62
"""The time of what is not executed, later than any iteration of a loop that fails."""


def check_hoisting(module: Module) -> bool:
    """Hoist in every nest, outer loops first; returns True if a check has moved."""
    index_errors = {i for i, e in enumerate(module.exceptions) if e.kind == "IndexError"}
    changed = False
    for func in module.functions.values():
        if any(op.name == "check" for op in func.all_ops()):
            changed |= _hoist(func, index_errors)
    return changed


def _hoist(func: Function, index_errors: set[int]) -> bool:
    regular = Regular(loop_forest(func))
    changed = False
    done: set[Loop] = set()
    for loop in reversed(regular.forest.loops):                  # outer loops first
        if loop.parent in done:
            done.add(loop)
            continue
        if not regular.only_computes(loop):
            continue
        done.add(loop)
        checks = [op for b in sorted(loop.blocks, key=regular.dom.number.__getitem__) for op in b.ops
                  if op.name == "check"]
        forms = AffineForms()
        found = [_index_check(regular, forms, loop, op, index_errors) for op in checks]
        if checks and None not in found:
            _move(regular, loop, [c for c in found if c is not None])
            changed = True
        elif checks:
            done.remove(loop)                                    # perhaps an inner nest
    return changed


@dataclass
class _IndexCheck:
    """``op`` checks that ``first`` plus the counters of ``loops``, inner ones first, is below ``size``.

    Without ``loops`` its condition, which may be any, is computed outside of the nest, as for ``a[i, 0]``.
    ``around``: the loops that must have an iteration, the outermost one last.
    """

    op: Op
    first: int
    loops: list[Loop]
    size: Value
    around: list[Loop]


def _index_check(regular: Regular, forms: AffineForms, outer: Loop, op: Op, index_errors: set[int]) -> \
        _IndexCheck | None:
    """The check ``op`` in a nest if it can be hoisted."""
    test = op.operands[0].op
    assert op.block is not None
    if test is None:
        return None
    needed = regular.always(op.block, outer)
    if needed is None or not all(is_fixed(regular.known[x].trip, outer) for x in [*needed, outer]):
        return None
    around = [*needed, outer]
    if is_fixed(op.operands[0], outer):
        return _IndexCheck(op, 0, [], op.operands[0], around) if all(is_fixed(v, outer) for v in op.operands) else None
    if test.name != "lt" or op.attrs["exc"] not in index_errors:
        return None
    index, size = test.operands
    if size.block in outer.blocks or not _is_size(size, regular.dom):
        return None
    form = forms.of(index)
    counters = {regular.known[x].iv: x for x in around}
    loops = sorted((counters[v] for v, times in form.terms if times == 1 and v in counters), key=lambda x: -x.depth)
    if not loops or len(loops) < len(form.terms) or not 0 <= form.constant < NEAR:
        return None
    if not all(v is index or is_fixed(v, outer) for v in op.operands[1:]):
        return None
    return _IndexCheck(op, form.constant, loops, size, around)


def _is_size(v: Value, dom: Dominators) -> bool:
    """True for the size of an array, also of one that a loop replaces by another, or a constant that may be one."""
    todo, seen = [v], set[Value]()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.op is None:
            passed = dom.arguments(v) if v.owner in dom.preds and len(seen) <= MOST_JOINED else []
            if not passed or None in passed:
                return False
            todo += [a for a in passed if a is not None]
        elif v.op.name != "dim" and not (v.op.name == "const" and 0 <= v.op.attrs["value"] < NEAR):
            return False
    return True


def _move(regular: Regular, loop: Loop, checks: list[_IndexCheck]) -> None:
    """Emit the checks ahead of the nest ``loop``, and remove them there."""
    before = loop.preheader
    assert before is not None and before.term is not None
    term, before.term = before.term, None
    _InOrder(Builder(before), regular, loop).emit(checks)
    for c in checks:
        _block(c).ops.remove(c.op)
    before.term = term


@dataclass
class _Part:
    """A check while the counters of its outer loops are 0: ``loops`` are the others, and ``holds`` if they pass.

    The parts of ``a[i + j]`` are a check of ``a[j]``, and itself.
    """

    check: _IndexCheck
    loops: list[Loop]
    holds: Value

    @property
    def whole(self) -> bool:
        return len(self.loops) == len(self.check.loops)

    @property
    def key(self) -> tuple[Value, int, tuple[Loop, ...], tuple[Loop, ...]]:
        return self.check.size, self.check.first, tuple(self.loops), tuple(self.check.around)


class _InOrder:
    """Emits the checks of a nest in the order in which they fail in the program.

    Inner loops fail before the loop around them, and among them those that come first in the program.  Of the checks
    that fail as one loop counts, the first is the one that fails in its earliest iteration.  What fails at once, as the
    array is empty, fails when it is reached, whichever loop its index counts.
    """

    def __init__(self, b: Builder, regular: Regular, loop: Loop) -> None:
        self.b, self.regular, self.number = b, regular, regular.dom.number
        self.ends = {x: max(map(self.number.__getitem__, x.blocks)) for x in regular.inside(loop)}

    def emit(self, checks: list[_IndexCheck]) -> None:
        groups: dict[Loop, list[_Part]] = {}
        for c in checks:
            for part in self._parts(c):
                groups.setdefault(part.loops[-1], []).append(part)
        groups = {x: parts for x, parts in groups.items() if len({p.key for p in parts}) > 1 or parts[0].whole}
        order = sorted(groups, key=lambda x: (self.ends[x], -x.depth))
        begun = 0
        for i, loop in enumerate(order):
            reached = [c for c in checks[begun:] if self.number[_block(c)] <= self.ends[loop]]
            begun += len(reached)
            while reached and reached[-1].loops and reached[-1].loops[0] not in order[i + 1:]:
                reached.pop()
            self._at_once(reached)
            self._group(groups[loop])
        self._at_once([c for c in checks[begun:] if not c.loops])

    def _at_once(self, checks: list[_IndexCheck]) -> None:
        """Emit what fails, or not, when it is reached for the first time."""
        for c in checks:
            holds = self.b.lt(c.first, c.size) if c.loops else c.op.operands[0]
            self._check(c, self._unless(self._empty(c, own=True), holds))

    def _group(self, parts: list[_Part]) -> None:
        """Emit the checks that fail as one loop counts."""
        b, last = self.b, parts[-1]
        if len({p.key for p in parts}) > 1:
            times = [self._time(p) for p in parts]
            first = functools.reduce(b.minimum, times)
            for p, time in zip(parts[:-1], times):
                self._check(p.check, b.or_(p.holds, b.gt(time, first)))
            parts = parts[::-1]                                  # only the last can be the first one to fail now
        for p in parts:
            if p.whole or p is last:
                self._check(p.check, p.holds)

    def _parts(self, c: _IndexCheck) -> list[_Part]:
        """The parts of a check.  No sum wraps, as each count is compared before."""
        b, found = self.b, []
        b.loc = c.op.loc
        end, fits = b.const(c.first + 1), b.const(True)
        for i, loop in enumerate(c.loops):
            trip = self._trip(loop)
            end = b.add(end, b.sub(trip, 1))
            fits = b.and_(fits, b.le(trip, c.size))
            holds = b.and_(fits, b.le(end, c.size)) if c.first or i else fits
            found.append(_Part(c, c.loops[:i + 1], self._unless(self._empty(c), holds)))
        return found

    def _time(self, p: _Part) -> Value:
        """The iteration of the last loop of a part in which it fails if it does."""
        b, c = self.b, p.check
        time = c.size
        if c.first or len(p.loops) > 1:
            time = b.sub(time, c.first)
            for inner in p.loops[:-1]:
                time = b.sub(time, b.sub(self._trip(inner), 1))
            time = b.maximum(time, 0)
        for empty in self._empty(c):
            time = b.select(empty, b.const(NEVER), time)
        return time

    def _trip(self, loop: Loop) -> Value:
        return self.b.again(self.regular.known[loop].trip)

    def _unless(self, empty: list[Value], holds: Value) -> Value:
        for condition in empty:
            holds = self.b.or_(holds, condition)
        return holds

    def _empty(self, c: _IndexCheck, own: bool = False) -> list[Value]:
        """For each loop that a check needs the condition that it has no iteration; the outermost loop is executed.

        If the index is the counter of one loop, no iteration of that is too far: it counts only if it is asked for, or
        if a constant is added, which may be beyond an array without elements.
        """
        return [self.b.le(self._trip(x), 0) for x in c.around[:-1] if own or c.first or [x] != c.loops]

    def _check(self, c: _IndexCheck, holds: Value) -> None:
        b, test = self.b, c.op.operands[0].op
        assert test is not None
        b.loc = c.op.loc
        failing = b.maximum(c.size, c.first) if c.first else c.size
        b.check(holds, c.op.attrs["exc"], *(failing if c.loops and v is test.operands[0] else b.again(v)
                                            for v in c.op.operands[1:]))


def _block(c: _IndexCheck) -> Block:
    assert c.op.block is not None
    return c.op.block
