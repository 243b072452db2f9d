"""Begins an array only outside of the box of elements that a nest fills.

::

    a0 = fill(0, n, m)                                 a1 = empty(n, m)
    loop(i, a), i < n // 2:                            a0 = set_slice(a1, fill(0, n - k, m), k), k = 2 * (n // 2)
      … add_at(a, u, 2 * i, j)              becomes    loop(i, a):
      … add_at(b, v, 2 * i + 1, j)                       … set(a, u, 2 * i, j) … set(b, v, 2 * i + 1, j)

    a0 = copy x                                        a1 = empty(n), the ends are those of x
    loop(i, a), i < n - 2: … set(a, u, i + 1)          loop(i, a): … set(a, u, i + 1)

The copy may not be there yet: a nest that enters with ``x``, and reads ``x`` as it was, needs one.

A gradient begins as zeros: those of windows side by side, as of a pooled image, need no zeros, and each addition is a
store.  A step in time begins with a copy and replaces all but the border.

The elements are a *box* if each index is ``stride · counter + offset``, the counter that of one loop of the nest, or
constant, and the updates in the innermost iteration have all offsets of an axis, ``low`` to ``low + stride - 1``, in
all combinations.  Each element of the box is then updated once.  Nothing else may read the array in the nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.expression_keys import same
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Array, Scalar, dtype_of
from ...ir.uses import array_users
from ..analysis.affine import Affine, AffineForms, atom
from ..analysis.cfg import Mapping, reached, substitute
from ..analysis.loops import Counted, Loop, always_runs, counted, loop_forest

WIDEST = 4
"""The largest stride."""
MOST = 4
"""The most loops of a nest."""
LARGEST = 2**31
"""Bound of an offset, so that no bound wraps."""


def covered_boxes(module: Module) -> bool:
    """Rewrite the start of each array that a nest fills; expects normal form.  Returns True if there was one."""
    found = False
    for func in module.functions.values():
        loops = loop_forest(func).loops
        found |= bool(loops) and _copy_what_is_read(func)
        entering = dict.fromkeys(a.op for loop in loops if loop.preheader is not None for a in loop.entry_edge().args)
        starts = [op for op in entering if op is not None and op.name in ("fill", "copy")]
        search = Search(func) if starts else None
        found |= any([search.rewrite(start) for start in starts if search is not None])
        sums = [op for op in func.all_ops() if op.name == "add" and op.attrs.get("acc")
                and isinstance(op.result.type, Array) and any(v.op is None for v in op.operands)] if loops else []
        for add in sums:
            search = search or Search(func)
            if mapping := search.narrow(add):
                substitute(func, mapping)
                found, search = True, None
    return found


Axis = tuple[int, int, Value | None]
Final = Callable[[Sequence[Op], Sequence[Op], Loop, Value], bool]
"""True if loads read elements that no update in the loop, whose parameter carries the array, changes behind them."""


@dataclass
class Box:
    """What ``updates`` fill in a nest, of the array ``param`` of its outermost loop.

    ``axes``: the lower bound, the stride and the trip count, if there is a loop.  ``is_read``: elements are loaded
    before they are cleared.
    """

    outer: Loop
    param: Value
    updates: list[Op]
    axes: list[Axis]
    is_read: bool


class Search:
    """Looks for boxes; ``final``: which loads a nest may have besides those of elements that it clears."""

    def __init__(self, func: Function, final: Final = lambda loads, updates, loop, param: False) -> None:
        self.final = final
        self.forest, self.readers, self.forms = loop_forest(func), array_users(func.all_ops()), AffineForms()
        self.dom = self.forest.dom
        self.entered = {loop.preheader: loop for loop in self.forest.loops if loop.preheader is not None}
        self.left = {loop.exit: loop for loop in self.forest.loops if loop.exit is not None}

    def rewrite(self, start: Op) -> bool:
        """Rewrite what enters a nest that fills the array."""
        readers = self.readers.get(start.result, ())
        for reader in readers:
            loop = self.entered.get(reader.block) if reader.edges and reader.block is not None else None
            if loop is not None and loop.entry_edge().args.count(start.result) == 1:
                box = self.box(loop, loop.head.params[loop.entry_edge().args.index(start.result)])
                if box is not None and not box.is_read and may_begin(start, box.updates):
                    _begin(start, box)
                    self._sink(start, [r for r in readers if r is not reader])
                    return True
        return False

    def _sink(self, start: Op, readers: Sequence[Op]) -> None:
        """Move what only another path reads, on which the nest has no iteration, there."""
        here, there = start.block, {r.block for r in readers if r.name != "dim"}
        if here is not None and len(there) == 1 and all(r.block in there for r in readers):
            block, = there
            if block is not None and block is not here and self.forest.loop_of(block) is self.forest.loop_of(here):
                here.ops.remove(start)
                start.block = block
                block.ops.insert(0, start)

    def box(self, outer: Loop, param: Value) -> Box | None:
        """The box that a nest fills of the array which its outermost loop carries in ``param``."""
        updates, web, loads = self._updates(param, outer)
        inner = self.forest.loop_of(updates[0].block) if updates and updates[0].block is not None else None
        nest: list[Loop] = []
        while inner is not None and len(nest) < MOST:
            nest.append(inner)
            inner = inner.parent if inner is not outer else None
        known = [k for loop in nest if loop.exit is not None and (k := counted(loop)) is not None]
        if inner is not None or not nest or nest[-1] is not outer or len(known) < len(nest) or \
                not self._are_all(updates, nest[0]) or not self._always_fills(nest, updates[0].operands[0], web):
            return None
        axes = self._axes(updates, known, outer)
        return Box(outer, param, updates, axes, bool(loads)) if axes else None

    def _updates(self, param: Value, outer: Loop) -> tuple[list[Op], set[Value], list[Op]]:
        """All updates of elements of an array in a loop, in order, all values that it has there, and the loads of
        elements that are then updated.

        No updates if anything else reads the array, but for elements that are final.
        """
        web, todo, found, loads = {param}, [param], list[Op](), list[Op]()
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()):
                if op.block not in outer.blocks:
                    return [], web, loads
                if op.name == "dim":
                    continue
                if op.name == "get":
                    loads.append(op)
                    continue
                fresh = [q for e in op.edges for q, a in e.passed() if a is v and e.block in outer.blocks]
                if op.name in ("set", "add_at") and op.operands[0] is v and isinstance(op.operands[1].type, Scalar):
                    found.append(op)
                    fresh = [op.result]
                elif not op.edges or v in op.operands or op.name == "call":
                    return [], web, loads
                if any(q.owner is outer.head and q is not param for q in fresh):
                    return [], web, loads
                todo += [q for q in fresh if q not in web]
                web.update(fresh)
        joins = [q for q in web if q.op is None and q is not param]
        closed = all(a in web for q in joins for a in self.dom.arguments(q))
        rest = [load for load in loads if not self._is_first(load, found)]
        if not closed or rest and not self.final(rest, found, outer, param):
            found = []
        return found, web, [load for load in loads if load not in rest]

    def _is_first(self, load: Op, updates: Sequence[Op]) -> bool:
        """True if one of the updates behind a load replaces the element by a constant: so it cleared a cotangent."""
        at = next((k for k, op in enumerate(updates) if op.operands[0] is load.operands[0]), len(updates))
        return any(op.name == "set" and op.operands[1].const is not None and op.block is load.block
                   and len(op.operands) == len(load.operands) + 1
                   and all(map(same, op.operands[2:], load.operands[1:])) for op in updates[at:])

    def _are_all(self, updates: Sequence[Op], inner: Loop) -> bool:
        """True if each iteration of the innermost loop executes all updates, one behind another."""
        v = updates[0].operands[0]
        back = inner.back_edge().args
        if v.owner is not inner.head or inner.latch is None:
            return False
        for op in updates:
            if op.operands[0] is not v or op.block is None or not self.dom.dominates(op.block, inner.latch):
                return False
            v = op.result
        at = updates[0].operands[0].index
        return back[at] is v and back.count(v) == 1

    def narrow(self, add: Op) -> Mapping:
        """Add only what is outside of a box, if a nest has cleared the rest; returns what replaces what."""
        for w, to in (add.operands, add.operands[::-1]):
            found = self._left_by(w) if w.type == to.type == add.result.type else None
            if found is not None and add.block is not None:
                loop, param = found
                box = self.box(loop, param)
                base = loop.entry_edge().args[param.index]
                if box is not None and all(op.name == "set" and op.operands[1].const == 0 for op in box.updates) and \
                        always_runs(self.forest, loop, w.block) and not self._is_read_behind(loop, w.block, base) and \
                        all(trip is None or trip.const is not None or self.dom.dominates(trip.block, add.block)
                            for _, _, trip in box.axes):
                    return _addoutside(add, to, base, box)
        return {}

    def _left_by(self, v: Value) -> tuple[Loop, Value] | None:
        """The loop behind which an array is ``v``, and its parameter; other paths pass what enters the loop.

        Nothing else reads the array behind the loop.
        """
        readers = [op for op in self.readers.get(v, ()) if op.name != "dim"]
        if v.op is not None or len(readers) != 1 or readers[0].used().count(v) != 1:
            return None
        passed = self.dom.arguments(v)
        loop = self.left.get(v.block)
        if loop is not None and len(passed) == 1 and passed[0] in (back := loop.back_edge().args):
            return loop, loop.head.params[back.index(passed[0])]
        for a in passed:
            found = self._left_by(a) if a is not None and a.block is not v.block else None
            if found is not None and all(x is a or x is found[0].entry_edge().args[found[1].index] for x in passed):
                return found
        return None

    def _is_read_behind(self, loop: Loop, end: Block, array: Value) -> bool:
        """True if something reads an array on a path from a loop to ``end``, in an iteration of the loop around."""
        around = self.forest.loop_of(end)
        behind = reached([b for b in (loop.exit,) if b is not None], lambda b: [
            s for s in b.successors() if around is None or s in around.blocks and s is not around.head])
        return any(r.block in behind for r in self.readers.get(array, ()) if r.name != "dim")

    def _always_fills(self, nest: Sequence[Loop], carried: Value, web: set[Value]) -> bool:
        """True if each iteration of a loop leads to the next inner one, and only its last array is read behind it."""
        for loop, around in zip(nest, (*nest[1:], None)):
            end = loop.back_edge().args[carried.index]
            if any(a in web and a is not end for a in loop.exit_edge().args):
                return False
            if around is None:
                break
            given = loop.entry_edge().args[carried.index]
            if given.owner is not around.head or loop.entry_edge().args.count(given) != 1 or around.latch is None or \
                    not always_runs(self.forest, loop, around.latch) or \
                    self._is_read_behind(loop, around.latch, given):
                return False
            carried = given
        return True

    def _axes(self, updates: Sequence[Op], known: Sequence[Counted], outer: Loop) -> list[Axis]:
        """For each axis the lower bound, the stride and the trip count of a box; empty if the elements are none.

        Without a loop the stride is the length of the box, as of columns 0 and 1 of a structure.
        """
        axes: list[Axis] = []
        places: list[tuple[int, ...]] = [() for _ in updates]
        left = list(known)
        for indices in zip(*(op.operands[2:] for op in updates)):
            forms = [self.forms.of(v) for v in indices]
            k = next((k for k in left if forms[0].coefficient(k.iv)), None)
            if k is None:
                offsets = {f.constant for f in forms}
                if any(f.terms for f in forms) or max(offsets) - min(offsets) >= min(len(offsets), WIDEST):
                    return []
                places = [(*place, f.constant) for place, f in zip(places, forms)]
                axes.append((min(offsets), len(offsets), None))
                continue
            if k.trip.block in outer.blocks and k.trip.const is None:
                return []
            left.remove(k)
            stride = forms[0].coefficient(k.iv)
            if stride < 0:                                 # the last iteration has the first elements
                last = self.forms.of(k.trip).plus(Affine(-1))
                forms = [f.minus(atom(k.iv).times(2 * stride)).plus(last, stride) for f in forms]
            rest = [f.without(k.iv) for f in forms]
            if any(f.coefficient(k.iv) != abs(stride) or r.terms for f, r in zip(forms, rest)):
                return []
            low = min(r.constant for r in rest)
            if not 0 <= low < LARGEST or abs(stride) > WIDEST or any(r.constant >= low + abs(stride) for r in rest):
                return []
            places = [(*place, r.constant) for place, r in zip(places, rest)]
            axes.append((low, abs(stride), k.trip))
        number = math.prod(stride for _, stride, _ in axes)
        return axes if not left and len(set(places)) == len(places) == number else []


def _copy_what_is_read(func: Function) -> bool:
    """Copy the arrays that nests enter and read as they were, if they fill a box: they would be copied in the end."""
    search, found = Search(func), False
    for loop in search.entered.values():
        entry = loop.entry_edge()
        for p, a in zip(loop.head.params, list(entry.args)):
            if not isinstance(p.type, Array) or entry.args.count(a) > 1:
                continue
            copies = [op for op in search.readers.get(a, ()) if op.name == "copy" and all(
                reader.name in ("get", "dim") for reader in search.readers.get(op.result, ()))]
            if not any(op.name == "get" and op.block in loop.blocks for v in (a, *(c.result for c in copies))
                       for op in search.readers.get(v, ())):
                continue
            box = search.box(loop, p)
            if box is not None and not box.is_read and not any(op.attrs for op in box.updates):
                for op in box.updates:
                    _store_sum(op, a)
                substitute(func, {c.result: a for c in copies})
                _enter_with_copy(search.dom, loop, p)
                found = True
    return found


def _enter_with_copy(dom: Dominators, loop: Loop, p: Value) -> None:
    """Copy the array that ``p`` begins with, ahead of the test whether the loop has an iteration."""
    entry, preheader = loop.entry_edge(), loop.preheader
    a = entry.args[p.index]
    copy = Op("copy", [a], [p.type])
    assert preheader is not None
    guard = dom.preds[preheader][0] if len(dom.preds[preheader]) == 1 else None
    here = guard if guard is not None and guard.term is not None and guard.term.name == "branch" and \
        a.block is not preheader else preheader
    copy.block = here
    here.ops.append(copy)
    entry.args[p.index] = copy.result
    for b in here.successors() if here is not preheader else ():
        if b is not preheader and dom.preds[b] == [here] and b.term is not None and b.term.name == "jump":
            b.term.edges[0].args = [copy.result if v is a else v for v in b.term.edges[0].args]


def _store_sum(op: Op, before: Value) -> None:
    """Make an addition to an element, which is as in ``before``, a store."""
    if op.name == "add_at" and op.block is not None:
        _, value, *at = op.operands
        load = Op("get", [before, *at], [value.type], loc=op.loc)
        total = Op("add", [load.result, value], [value.type], loc=op.loc)
        load.block = total.block = op.block
        where = op.block.ops.index(op)
        op.block.ops[where:where] = [load, total]
        op.name, op.operands = "set", [op.operands[0], total.result, *at]


def may_begin(start: Op, updates: Sequence[Op]) -> bool:
    """True if the updates replace the elements of ``start``, or add to zeros."""
    if all(op.name == "set" for op in updates):
        return True
    return start.name == "fill" and start.operands[0].const == 0 and all(
        op.name == "add_at" and (op.attrs.get("acc") or not dtype_of(op.result.type).is_float) for op in updates)


def outside(b: Builder, sizes: Sequence[Value], box: Box) -> Iterator[list[tuple[Value, Value]]]:
    """The parts of an array outside of a box, each as a start and a length for every axis; some may be empty."""
    zero, forms = b.const(0), AffineForms()
    inside: list[tuple[Value, Value]] = []
    for n, (low, stride, trip) in zip(sizes, box.axes):
        first, beyond = zero, n
        if low or stride > 1 or trip is None or not same(trip, n):
            first = b.minimum(b.const(low), n)
            count = b.const(1) if trip is None else trip if trip.const is None else b.const(trip.const)
            if not forms.of(n).is_same(forms.of(count).times(stride).plus(Affine(low))):     # else the box is up to n
                reach = b.minimum(b.maximum(count, zero), n)
                beyond = b.minimum(b.add(b.mul(reach, b.const(stride)), b.const(low)), n)
            for start, length in ([(zero, first)] if low else []) + ([(beyond, b.sub(n, beyond))] if beyond is not n
                                                                     else []):
                if length.const != 0:
                    some = b.lt(zero, length)              # no row has such a part if the first has none
                    yield [*((s, b.select(some, m, zero)) for s, m in inside), (start, length),
                           *((zero, m) for m in sizes[len(inside) + 1:])]
        inside.append((first, b.sub(beyond, first)))


def _begin(start: Op, box: Box) -> None:
    """Let the nest begin with an array that has values outside of the box only."""
    t, entry, preheader = start.result.type, box.outer.entry_edge(), box.outer.preheader
    assert preheader is not None and isinstance(t, Array)
    term, preheader.term = preheader.term, None
    b = Builder(preheader, start.loc)
    of, one = start.operands[0], b.const(1)
    sizes = start.operands[1:] if start.name == "fill" else _sizes(b, of)
    new = b.emit_op("empty", sizes, dtype=t.dtype).result
    for part in outside(b, sizes, box):
        value = b.fill(of, *(m for _, m in part)) if start.name == "fill" else _slice(b, of, part)
        new = b.set_slice(new, value, *(v for s, _ in part for v in (s, one)))
    entry.args[box.param.index] = b.as_type(new, type=t)
    preheader.term = term
    for op in box.updates:
        op.name, op.attrs = "set", {k: v for k, v in op.attrs.items() if k != "acc"}


def _sizes(b: Builder, array: Value) -> list[Value]:
    assert isinstance(array.type, Array)
    return [b.dim(array, axis=axis) for axis in range(array.type.rank)]


def _slice(b: Builder, array: Value, part: Sequence[tuple[Value, Value]]) -> Value:
    return b.slice(array, *(v for s, m in part for v in (s, m, b.const(1))))


def _addoutside(add: Op, to: Value, array: Value, box: Box) -> Mapping:
    """Add an array only outside of the box that the nest clears, which then need not; returns what replaces what."""
    block = add.block
    assert block is not None
    at = block.ops.index(add)
    tail, block.ops = block.ops[at + 1:], block.ops[:at]
    b = Builder(block, add.loc)
    one = b.const(1)
    for part in outside(b, _sizes(b, array), box):
        to = b.emit_op("add_slice", [to, _slice(b, array, part), *(v for s, _ in part for v in (s, one))],
                       **add.attrs).result
    block.ops += tail
    for op in box.updates:
        assert op.block is not None
        op.block.ops.remove(op)
    return {add.result: to, **{op.result: op.operands[0] for op in box.updates}}
