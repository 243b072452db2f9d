"""Carries what an iteration stores and one of the next two reads, instead of reading it from memory.

::

    ^loop(i, y):                                  y1 = get y0, start + 1;  y2 = get y0, start
      a = get y, i + 1                            ^loop(i, y, y1, y2):
      b = get y, i                     becomes      …
      v = …                                         v = … y1 … y2 …
      y1 = set y, v, i + 2                          z = set y, v, i + 2
      branch …, ^loop(j, y1)                        branch …, ^loop(j, z, v, y1)

A filter, a prefix sum or a solver of a tridiagonal system waits for the store of the iteration before otherwise: some
ten cycles on each, where an addition takes three.  LLVM carries values over one iteration only.

Applies to innermost loops whose stores to the array are all to one element, which moves by one, and are executed in
each iteration.  A branch in between may decide what is stored, or whether the element is read: an edit distance of
trees takes 0.8 of the time.  The elements that the first iteration reads are those that the program has just stored,
``x[i, 0] = start``, or they are read before the loop; if a check may fail in the first iteration, or it may read none,
only where their indices are in bounds, as in the table of an edit distance whose costs are looked up by letter.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, dtype_of
from ...ir.uses import users
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest

FARTHEST = 2
"""The most iterations over which a value is carried, as a filter of second order needs it."""

UPDATES = frozenset({"set", "add_at"})
BETWEEN = frozenset({"check"})
"""The effects other than updates that an iteration may have."""


def loop_load_elimination(module: Module, stored: bool = False) -> bool:
    """Carry such values in every innermost loop; expects normal form.  Returns True if there were any.

    ``stored``: only those that the program has stored before a loop of one block, without a read.
    """
    changed = False
    for func in module.functions.values():
        if any(op.name in UPDATES for op in func.all_ops()):
            forest = loop_forest(func)
            for loop in forest.loops:
                known = counted(loop) if loop.blocks == {loop.head} or not (loop.children or stored) else None
                if known is None or loop.latch is None or any(
                        b.call or any(map(_acts, b.ops)) for b in loop.blocks):
                    continue
                always = {b for b in loop.blocks if forest.dom.dominates(b, loop.latch)}
                if any(op.name in UPDATES for b in always for op in b.ops):
                    changed |= _carry_in(loop, known, always, stored)
    return changed


def _carry_in(loop: Loop, known: Counted, always: set[Block], stored: bool) -> bool:
    """Carry such values of each array of a loop.  The uses are listed once: a long body has hundreds of arrays."""
    changed, readers = False, users(op for b in loop.blocks for op in b.ops)
    for p in [p for p in loop.head.params if isinstance(p.type, Array)]:
        if _Recurrence(loop, known, p, always, readers).run(stored):
            changed, readers = True, users(op for b in loop.blocks for op in b.ops)
    return changed


def _is_of_element(update: Op) -> bool:
    array, value = update.operands[:2]
    return isinstance(array.type, Array) and value.type == array.type.dtype and len(
        update.operands) - 2 == array.type.rank


def _acts(op: Op) -> bool:
    return OPS[op.name].effect and op.name not in BETWEEN or op.name in ("push", "pop")


@dataclass(frozen=True)
class _Place:
    """An element: its indices but the last, which do not change, and the last as a formula of the counter."""

    row: tuple[Value | tuple[str, str], ...]
    last: Affine


class _Recurrence:
    """The updates and reads of one carried array.  ``versions``: its values within an iteration.

    ``always``: the blocks that each iteration executes.
    """

    def __init__(self, loop: Loop, known: Counted, array: Value, always: set[Block],
                 readers: dict[Value, list[Op]]) -> None:
        self.loop, self.known, self.array, self.head, self.readers = loop, known, array, loop.head, readers
        self.always = always
        self.forms = AffineForms()
        self.versions = {array}
        self.stores: list[Op] = []
        self.loads: list[Op] = []

    def run(self, stored: bool) -> bool:
        if not self._collect() or not self.stores:
            return False
        places = [self._place(op, 2) for op in self.stores]
        first = places[0]
        if first is None or first.last.coefficient(self.known.iv) != 1 or not all(
                p is not None and p.row == first.row and p.last.is_same(first.last) for p in places):
            return False
        if self.stores[0].name != "set":
            return False
        distances = {op: d for op in self.loads if (d := self._distance(first, op)) is not None}
        if not distances:
            return False
        most = max(distances.values())
        starts = [self._start(first, d) for d in range(1, most + 1)]
        if stored and None in starts:
            return False
        self._carry(starts, distances, self._stored())
        return True

    def _start(self, stored: _Place, distance: int) -> Value | None:
        """The value stored, ahead of the loop, in the element that lies ``distance`` before the first."""
        array = self.loop.entry_edge().args[self.array.index]
        wanted = stored.last.without(self.known.iv).minus(Affine(distance))
        while array.op is not None and array.op.name == "set" and _is_of_element(array.op):
            place = self._place(array.op, 2)
            between = wanted.minus(place.last) if place is not None and place.row == stored.row else None
            if between is None or between.terms:
                return None
            if not between.constant:
                return array.op.operands[1]
            array = array.op.operands[0]
        return None

    def _collect(self) -> bool:
        """Find the accesses to the array; returns False if it is used otherwise."""
        last, update = self.array, None
        while True:
            for op in self.readers.get(last, ()):
                if op.name == "get" and isinstance(op.result.type, Scalar):
                    self.loads.append(op)
                elif op.name in UPDATES and op.operands[0] is last and update is None and _is_of_element(op) and \
                        op.block in self.always:
                    update = op
                elif op.name != "dim":
                    return False
            if update is None:
                break
            self.stores.append(update)
            last, update = update.result, None
            self.versions.add(last)
        passed = [a for b in self.loop.blocks for e in (b.term.edges if b.term is not None else ())
                  for a in e.args if a in self.versions]
        return self.loop.back_edge().args[self.array.index] is last and all(a is last for a in passed)

    def _place(self, op: Op, first: int) -> _Place | None:
        """The element that an op accesses, whose indices begin with operand ``first``, if it walks with the counter."""
        *row, last = op.operands[first:]
        if any(v.block in self.loop.blocks and v.const is None for v in row):
            return None
        key = tuple(v if v.const is None else (str(v.type), repr(v.const)) for v in row)
        form = self.forms.of(last)
        return None if any(v.block in self.loop.blocks for v, _ in form.terms if v is not self.known.iv) \
            else _Place(key, form)

    def _distance(self, stored: _Place, load: Op) -> int | None:
        """The number of iterations since the element that ``load`` reads was stored, if it is small."""
        place = self._place(load, 1)
        if place is None or place.row != stored.row:
            return None
        between = stored.last.minus(place.last)
        return between.constant if not between.terms and 1 <= between.constant <= FARTHEST else None

    def _stored(self) -> Value:
        """The value that the iteration leaves in the element; sums with what was stored before become stores."""
        value: Value | None = None
        for op in self.stores:
            if op.name == "add_at":
                assert value is not None
                total = Op("add", [value, op.operands[1]], [value.type], loc=op.loc)
                total.block = block = op.block
                assert block is not None
                block.ops.insert(block.ops.index(op), total)
                op.name, op.operands[1] = "set", total.result
            value = op.operands[1]
        assert value is not None
        return value

    def _carry(self, starts: list[Value | None], distances: dict[Op, int], stored: Value) -> None:
        """Carry the values of the last iterations, and let them take the place of the reads."""
        back = self.loop.back_edge()
        safe = not any(op.name == "check" for b in self.loop.blocks for op in b.ops) and all(
            op.block in self.always for op in distances)
        read = self._first(len(starts), safe) if None in starts else starts
        carried = []
        for d, values in enumerate(zip(starts, read), 1):
            carried.append(self.head.add_param(stored.type, f"before{d}"))
            self.loop.entry_edge().args.append(next(v for v in values if v is not None))
            back.args.append(carried[d - 2] if d > 1 else stored)
        mapping = {op.result: carried[d - 1] for op, d in distances.items()}
        for b in self.loop.blocks:
            b.ops = [op for op in b.ops if op not in distances]
        substitute(self.head.func, mapping)

    def _first(self, most: int, safe: bool) -> list[Value]:
        """Read, before the loop, the last ``most`` elements before the one that the first iteration stores.

        ``safe``: the first iteration reads them.
        """
        loop, before = self.loop, self.loop.preheader
        assert before is not None and before.term is not None
        edge, start = loop.entry_edge(), {self.known.iv: Builder(before).const(0)}
        term, before.term = before.term, None
        b = Builder(before, self.stores[0].loc)
        *row, last = (self._before(v, start, b) for v in self.stores[0].operands[2:])
        array, indices = edge.args[self.array.index], [b.sub(last, d) for d in range(1, most + 1)]
        if safe:
            values = [b.get(array, *row, i) for i in indices]
            before.term = term
            return values
        *sizes, size = b.dims(array)
        inside = b.const(True)
        for i, n in [*zip(row, sizes), *((i, size) for i in indices)]:
            inside = b.and_(inside, b.and_(b.ge(i, 0), b.lt(i, n)))
        read, have = self.head.func.new_block("read"), self.head.func.new_block("have")
        none = b.const(0, dtype_of(array.type))
        values = [have.add_param(none.type, f"first{d}") for d in range(1, most + 1)]
        b.branch(inside, read, [], have, [none] * most)
        r = Builder(read, b.loc)
        r.jump(have, [r.get(array, *row, i) for i in indices])
        have.term, term.block, loop.preheader = term, have, have
        return values

    def _before(self, v: Value, known: dict[Value, Value], b: Builder) -> Value:
        """Emit, before the loop, the value of an index in the first iteration."""
        if v in known or v.block not in self.loop.blocks:
            return known.get(v, v)
        op = v.op
        if op is None:                                       # another counter
            return self.loop.entry_edge().args[v.index]
        if op.name == "const":
            known[v] = b.const(op.attrs["value"], op.attrs["type"])
        else:
            known[v] = b.emit(op.name, *(self._before(u, known, b) for u in op.operands))
        return known[v]
