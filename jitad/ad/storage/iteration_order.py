"""The order of reverse iterations: loops whose iterations may run in any order run upwards, like the forward loop.

Such a loop passes carried values on unchanged, adds to them, or updates elements of arrays of which each iteration has
its own, as the adjoint of a stencil does with the array that it clears::

    ^top(count, bar, out):
      i = sub last, count
      g = get bar, i
      cleared = set bar, 0, i                       no other iteration accesses element i
      sum = add_at out, g, i                        what is only added to may be shared
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS, Memory
from ...ir.types import Array
from ...ir.uses import EDGE, ops_of, uses
from ...passes.analysis.affine import Affine, AffineForms
from ...passes.analysis.cfg import reached
from ...passes.analysis.loops import Loop, counted
from ..control_tape import LoopBack
from ..reverse import ThereAndBack

LARGEST_STEP = 1 << 14
"""Only indices with smaller steps are compared.  With fewer than 2⁴⁸ iterations, these cannot wrap."""
FARTHEST = 1 << 31
"""Indices in bounds that differ by less than this, modulo 2⁶⁴, differ."""


class Reverse:
    """The reverse blocks by the forward block that they reverse, and the uses of values in other blocks.

    ``reads``: for each block, its values that other reverse blocks read or return, with the block that reads.
    """

    def __init__(self, sweep: ThereAndBack) -> None:
        self._sweep = sweep
        self._bars: dict[Block, list[Block]] = {}
        self.reads: dict[Block, list[tuple[Value, Block]]] = {}
        for bar, block in sweep.home.items():
            self._bars.setdefault(block, []).append(bar)
            for op in bar.all_ops():
                for v in op.used():
                    if v.block is not bar:
                        self.reads.setdefault(v.block, []).append((v, bar))
        at_end = [*sweep.cotangents, *(v for op in sweep.late for v in op.operands)]
        for v in at_end:                                     # these are read where the sweep returns
            self.reads.setdefault(v.block, []).append((v, sweep.last_bar))

    @cached_property
    def endless(self) -> set[Block]:
        """Forward blocks at which code may begin that does not terminate: calls, and heads of loops without a count.

        Asked only while the forward sweep is as it was: no loop has been removed or has got a copy.
        """
        calls = {b for b in self._sweep.forward if b.term is not None and b.term.name == "call"}
        return calls | {loop.head for loop in self._sweep.forest.loops if counted(loop) is None}

    @cached_property
    def before_endless(self) -> set[Block]:
        """The forward blocks that lead to one of ``endless``."""
        preds = self._sweep.preds
        return reached(self.endless, lambda block: [p for p, _ in preds[block]])

    def of(self, loop: Loop) -> list[Block]:
        """The blocks that reverse the blocks of ``loop``."""
        return [bar for block in loop.blocks for bar in self._bars.get(block, ())]


def order_free(reverse: Reverse, back: LoopBack, by_parts: bool = False, own: bool = False) -> bool:
    """True if the reverse iterations may run in any order: carried values are passed on unchanged or only added to.

    With ``by_parts`` arrays that are updated in place do not count: each iteration may have a part of its own.  With
    ``own`` such arrays count only if each iteration accesses elements of its own.
    """
    assert back.top is not None and back.back is not None
    following = back.back[1].args
    blocks = reverse.of(back.loop)
    used, given = uses(ops_of(blocks)), _passed(blocks)
    return not back.outside and not _last_one_counts(reverse, back, blocks) and all(
        _unchanged(p, following[p.index], back.top, given)
        or _only_added_to(p, following[p.index], back.top, used, given)
        or own and isinstance(p.type, Array) and _OwnElements(back, blocks, used, given).hold(p, following[p.index])
        or by_parts and isinstance(p.type, Array) and _updated(p, following[p.index], given)
        for p in back.top.params if p is not back.count)


def _unchanged(p: Value, last: Value, top: Block, given: dict[Value, set[Value]]) -> bool:
    """True if ``last``, the next iteration's value of ``p``, is ``p``, which inner loops may have passed on."""
    same, grown = {p}, True
    while grown:                                             # every parameter to which ``p`` may be passed
        new = {q for q, args in given.items() if q not in same and q.block is not top and args & same}
        same |= new
        grown = bool(new)
    while changed := {q for q in same if q is not p and not given[q] <= same}:
        same -= changed
    return last in same


def _updated(p: Value, last: Value, given: dict[Value, set[Value]]) -> bool:
    """True if ``last``, the next iteration's value of the array ``p``, is ``p`` with other elements on every path."""
    todo, seen = [last], {p, last}
    while todo:
        v = todo.pop()
        if v is p:
            continue
        updates = v.op is not None and v.op.name in OPS and OPS[v.op.name].memory is Memory.UPDATE
        sources = given.get(v) if v.op is None else {v.op.operands[0]} if updates else None
        if not sources or v.op is None and v.block is p.block:         # another carried array
            return False
        todo += sources - seen
        seen |= sources
    return True


def _last_one_counts(reverse: Reverse, back: LoopBack, blocks: list[Block]) -> bool:
    """True if a value of the last reverse iteration is used after it without being carried.

    An example is a variable that each iteration assigns and only the first reads.
    """
    assert back.back is not None
    latch, edge = back.back
    inside, carried = set(blocks), {*edge.args}
    after = [v for e in (latch.term.edges if latch.term else ()) if e is not edge for v in e.args]
    after += [v for b in blocks for v, reader in reverse.reads.get(b, ()) if reader not in inside]
    return any(v.block in inside and v not in carried for v in after)


def _passed(blocks: list[Block]) -> dict[Value, set[Value]]:
    """For each parameter, the arguments that edges from ``blocks`` pass to it."""
    found: dict[Value, set[Value]] = {}
    for edge in (e for b in blocks for e in (b.term.edges if b.term else ())):
        for param, arg in edge.passed():
            found.setdefault(param, set()).add(arg)
    return found


def _only_added_to(p: Value, last: Value, top: Block, used: dict[Value, list[tuple[Op, int]]],
                   given: dict[Value, set[Value]]) -> bool:
    """True if ``last``, the next iteration's value of ``p``, is ``p`` plus something on every path.

    If a path clears it, like the adjoint of a variable that was assigned, the order matters.
    """
    todo, seen = [p], {p}
    while todo:
        v = todo.pop()
        for op, i in used.get(v, ()):
            following: list[Value] = []
            if i != EDGE:
                sums = op.name == "add" and op.attrs.get("acc")
                if not sums and not (op.name in ("add_at", "add_slice", "add_put") and i == 0):
                    return False
                following = op.results
            for edge in op.edges:
                for q, a in edge.passed():
                    if a is v and edge.block is top and q is not p:
                        return False
                    if a is v:
                        following.append(q)
            for w in following:
                if w not in seen:
                    seen.add(w)
                    todo.append(w)
    once = all(sum(u in seen for u in w.op.operands) == 1 for w in seen if w.op is not None)
    return once and last in seen and all(w is p or given.get(w, seen) <= seen for w in seen)


@dataclass
class _Access:
    """An access to an element: whether it only adds, and the index."""

    adds: bool
    index: list[Affine]


class _OwnElements:
    """Finds out whether each iteration reads and overwrites other elements of an array than all others access.

    Elements that are only added to are shared, if an index that does not change keeps them apart from those: the
    adjoint of ``u[t + 1, i] = f(u[t, i], u[t, i - 1])`` clears an element of one row and adds to another row.
    """

    def __init__(self, back: LoopBack, blocks: list[Block], used: dict[Value, list[tuple[Op, int]]],
                 given: dict[Value, set[Value]]) -> None:
        self.top, self.count, self.blocks, self.used, self.given = back.top, back.count, set(blocks), used, given

    def hold(self, p: Value, last: Value) -> bool:
        """True if the order of the iterations does not matter for ``p``, which becomes ``last`` in each."""
        accesses = self._accesses(p, last)
        own = [x for x in accesses or () if not x.adds]
        if not own or accesses is None:
            return False
        near = [x for x in accesses if not (x.adds and all(self._are_apart(x, y) for y in own))]
        return any(map(self._is_own, zip(*(x.index for x in near))))

    def _accesses(self, p: Value, last: Value) -> list[_Access] | None:
        """All accesses; None if ``p`` is read as a whole, or replaced by another array."""
        forms = AffineForms()
        found: list[_Access] = []
        todo, seen = [p], {p}
        while todo:
            v = todo.pop()
            for op, i in self.used.get(v, ()):
                following = [q for edge in op.edges for q, a in edge.passed() if a is v]
                if any(q.block is self.top and q is not p for q in following):
                    return None
                if i != EDGE and op.name != "dim":
                    if i != 0 or op.name not in ("get", "set", "add_at"):
                        return None
                    index = op.operands[1 if op.name == "get" else 2:]
                    found.append(_Access(op.name == "add_at" and bool(op.attrs.get("acc")), [*map(forms.of, index)]))
                    following += [w for w in op.results if op.name != "get"]
                new = [w for w in following if w not in seen]
                seen.update(new)
                todo += new
        whole = last in seen and all(w is p or self.given.get(w, seen) <= seen for w in seen)
        return found if whole else None

    def _are_apart(self, x: _Access, y: _Access) -> bool:
        """True if an index that is the same in all iterations differs by a constant."""
        for f, g in zip(x.index, y.index):
            ahead = f.minus(g)
            if not ahead.terms and 0 < abs(ahead.constant) < FARTHEST and self._is_fixed(f) and self._is_fixed(g):
                return True
        return False

    def _is_fixed(self, f: Affine) -> bool:
        return all(v is not self.count and v.block not in self.blocks for v, _ in f.terms)

    def _is_own(self, along: tuple[Affine, ...]) -> bool:
        """True if all indices along one axis are the same in an iteration, and move with each."""
        first, *others = along
        return (self.count is not None and 0 < abs(first.coefficient(self.count)) < LARGEST_STEP
                and all(f.is_same(first) for f in others) and self._is_fixed(first.without(self.count)))
