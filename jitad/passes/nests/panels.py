"""Panels: a matrix of which lanes read columns, again and again, is copied once so that lanes are neighbours in memory.

``outer_loop`` runs 16 rows of a product of a matrix and a vector side by side, and their elements are a row apart.  If
a loop around repeats the product, as the steps of a recurrent cell do, the rows are packed ahead of it, as in products
of matrices: the 16 rows of a chunk are a panel, in which column ``k`` is 16 neighbouring elements::

    ^steps(t, v):                                   ^fill(c, p): columns of the rows of chunk c → p[c·m : (c+1)·m]
      ^chunks(chunk):                               ^steps(t, v):
        ^sum(k, s): … slice a, start, 16, k, 1        ^chunks(chunk):
                                                        ^sum(k, s): … slice p, chunk·m + k, 1, 0, 16

The sums read a panel from its beginning to its end.  In a transposed matrix they would skip the other rows, which took
up to three times as long for rows of 512.  The loop that is left for other numbers of rows reads the matrix as it is.

Only rows and columns that are in bounds are copied: where others would be read, a check fails before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Array
from ...ir.uses import ops_of, users
from ..analysis.affine import Affine, AffineForms
from ..analysis.cost import LANES
from ..analysis.loops import Loop, counted, loop_forest
from .regular import Regular, is_fixed

FEWEST = 4
"""The least number of repetitions, if it is known.  A copy takes about as long as two products."""

TESTS = frozenset("lt le gt ge eq ne and or not add sub mul minimum maximum const".split())
"""What the tests ahead of the chunks consist of, to be made once more ahead of the nest."""


@dataclass(frozen=True)
class Columns:
    """Reads of a chunk by a loop over ``k < trip``: rows ``row`` and up of ``count`` ones, columns ``column + k``."""

    nest: Loop
    array: Value
    row: Affine
    column: Affine
    count: Value | int
    trip: Value
    tests: tuple[tuple[Value, bool], ...]


@dataclass(frozen=True)
class Read:
    """The slice of a column, the number of the chunk, and the counter of the loop."""

    op: Op
    chunk: Value
    k: Value


def panels(module: Module) -> bool:
    """Pack in every nest with chunks of lanes; returns True if there was anything to pack."""
    changed = False
    for func in module.functions.values():
        if any(_is_column(op) for op in func.all_ops()):
            changed |= _Panels(func).run()
    return changed


def _is_column(op: Op) -> bool:
    """True for one element of each of 16 rows, in their order."""
    return op.name == "slice" and isinstance(t := op.result.type, Array) and t.dims == (LANES, 1) \
        and op.operands[3].const == 1


class _Panels:
    """The packing of one function."""

    def __init__(self, func: Function) -> None:
        self.func, self.forms = func, AffineForms()
        self.regular = Regular(loop_forest(func))
        self.dom, self.forest = self.regular.dom, self.regular.forest
        self.readers = users(ops_of(func.blocks))

    def run(self) -> bool:
        groups: dict[Columns, list[Read]] = {}
        for loop in self.forest.loops:
            if not loop.children and loop.parent is not None:
                for columns, read in self._found(loop, loop.parent):
                    groups.setdefault(columns, []).append(read)
        for columns, reads in groups.items():
            self._pack(columns, reads)
        return bool(groups)

    def _found(self, loop: Loop, chunks: Loop) -> Iterator[tuple[Columns, Read]]:
        """The elements of a chunk that an innermost loop reads."""
        known = counted(loop)
        if known is None or chunks.preheader is None or not chunks.head.params:
            return
        chunk = chunks.head.params[0]
        for op in (op for block in loop.blocks for op in block.ops if _is_column(op)):
            row, column = self.forms.of(op.operands[1]), self.forms.of(op.operands[4])
            start, count = next(((v, n) for v, _ in row.terms if (n := _count(v, chunks)) is not None), (chunk, None))
            if count is None or row.coefficient(start) != (LANES if start is chunk else 1) or \
                    column.coefficient(known.iv) != 1 or \
                    any(r.name != "reshape" for r in self.readers.get(op.result, ())):
                continue
            rest = row.without(start), column.without(known.iv)
            needed = [op.operands[0], known.trip, *(v for form in rest for v, _ in form.terms)]
            needed += [count] if isinstance(count, Value) else []
            found = self._nest(loop, chunks, needed)
            if found is not None:
                nest, tests = found
                yield Columns(nest, op.operands[0], *rest, count, known.trip, tests), Read(op, chunk, known.iv)

    def _nest(self, loop: Loop, chunks: Loop, needed: Sequence[Value]) -> \
            tuple[Loop, tuple[tuple[Value, bool], ...]] | None:
        """The outermost loop that repeats what is read, and the tests that lead to it there."""
        found, at = None, chunks.parent
        while at is not None and all(is_fixed(v, at) for v in needed):
            tests = self._tests(loop, chunks, at)
            if tests is None or not all(self._is_fixed(v, at) for v, _ in tests):
                break
            known = counted(at)
            few = known is not None and known.trip.const is not None and known.trip.const < FEWEST
            if at.preheader is not None and not few:
                found = at, tests
            at = at.parent
        return found

    def _tests(self, loop: Loop, chunks: Loop, nest: Loop) -> tuple[tuple[Value, bool], ...] | None:
        """The conditions, with the side, under which an iteration of ``nest`` executes ``loop``.

        Checks of lanes do not count: if they fail, the program raises, or the rest is done by the original loop.
        """
        found: dict[tuple[Value, bool], None] = {}
        level: Loop | None = chunks
        at: Block | None = loop.preheader
        while at is not None and level is not None:
            if self.dom.dominates(at, chunks.head if level is chunks else self.regular.onward(level)):
                if level is nest:
                    return tuple(found)
                at, level = level.preheader, level.parent
                continue
            guard = self.dom.idom.get(at)
            if guard is None or guard.term is None or guard not in level.blocks:
                return None
            inner = self._within(guard, level)
            if inner is not None:
                at = inner.preheader
                continue
            sides = [self.dom.dominates(e.block, at) for e in guard.term.edges]
            test = guard.term.operands[0] if guard.term.name == "branch" and sides[0] != sides[1] else None
            if test is not None and not (test.op is not None and test.op.name == "all"):
                found[test, sides[0]] = None
            at = guard
        return None

    def _within(self, block: Block, level: Loop) -> Loop | None:
        """The loop directly within ``level`` that contains ``block``, if there is one."""
        inner = self.forest.loop_of(block)
        while inner is not None and inner is not level and inner.parent is not level:
            inner = inner.parent
        return inner if inner is not level else None

    def _is_fixed(self, v: Value, nest: Loop) -> bool:
        """True if a test can be made ahead of ``nest``."""
        return is_fixed(v, nest) or v.op is not None and v.op.name in TESTS and \
            all(self._is_fixed(u, nest) for u in v.op.operands)

    # --- rewriting ----------------------------------------------------------------------------------------

    def _pack(self, x: Columns, reads: list[Read]) -> None:
        """Fill the panels ahead of the nest, and let ``reads`` read them."""
        before, loc = x.nest.preheader, reads[0].op.loc
        assert before is not None and before.term is not None
        enter, before.term = before.term, None
        b = Builder(before, loc)
        some = b.const(True)
        for test, holds in x.tests:
            made = self._again(b, test, x.nest, {})
            some = b.and_(some, made if holds else b.not_(made))
        row, column = _value(b, x.row), _value(b, x.column)
        chunks, width = _limits(b, x, row, column, some)
        fill, filled = self.func.new_block("fill"), self.func.new_block("filled")
        t = x.array.type
        assert isinstance(t, Array)
        room = b.emit_op("empty", [b.mul(chunks, width), b.const(LANES)], dtype=t.dtype).result
        b.branch(b.lt(0, chunks), fill, [b.const(0), room], filled, [room])
        c, p = fill.add_param(chunks.type, "chunk"), fill.add_param(room.type, "panels")
        packed = filled.add_param(room.type, "panels")
        b.at(fill)
        first = b.add(b.minimum(b.mul(c, LANES), b.sub(_outside(b, x.count), LANES)), row)
        part = b.slice(x.array, first, b.const(LANES), b.const(1), column, width, b.const(1))
        stored = b.emit("set_slice", p, b.transpose(part, perm=(1, 0)), b.mul(c, width), b.const(1), b.const(0),
                        b.const(1))
        following = b.add(c, 1)
        b.branch(b.lt(following, chunks), fill, [following, stored], filled, [stored])
        filled.term, enter.block = enter, filled
        x.nest.preheader = filled
        for read in reads:
            self._read(read, packed, width)

    def _again(self, b: Builder, v: Value, nest: Loop, made: dict[Value, Value]) -> Value:
        """A test, made ahead of the nest."""
        if v.block not in nest.blocks:
            return v
        if v not in made:
            op = v.op
            assert op is not None
            made[v] = b.const(v.const) if v.const is not None else \
                b.emit_op(op.name, [self._again(b, u, nest, made) for u in op.operands], **op.attrs).result
        return made[v]

    def _read(self, read: Read, packed: Value, width: Value) -> None:
        """Let the reshapes of a slice read column ``k`` of a panel."""
        op, block = read.op, read.op.block
        assert block is not None
        at = Builder(Block(self.func), op.loc)
        one = at.const(1)
        place = at.add(at.mul(read.chunk, width), read.k)
        lanes = at.slice(packed, place, one, one, at.const(0), at.const(LANES), one)
        for new in at.block.ops:
            new.block = block
        where = block.ops.index(op)
        block.ops[where:where + 1] = at.block.ops
        for reader in self.readers.get(op.result, ()):
            reader.replace_uses({op.result: lanes})


def _count(start: Value, chunks: Loop) -> Value | int | None:
    """The number of rows, if ``start`` is the first row of a chunk, ``min(16 · chunk, count − 16)``, or its number."""
    chunk, op = chunks.head.params[0], start.op
    if start is chunk:
        test = chunks.latch.term.operands[0].op if chunks.latch is not None and chunks.latch.term is not None else None
        tests = [u.op for u in test.operands] if test is not None and test.name == "and" else [test]
        known = [t.operands[1].const for t in tests if t is not None and t.name == "lt"]
        return int(known[0]) * LANES if len(known) == 1 and known[0] is not None else None
    if op is None or op.name != "minimum":
        return None
    times, last = (v.op for v in op.operands)
    if times is None or times.name != "mul" or times.operands[0] is not chunk or times.operands[1].const != LANES:
        return None
    return last.operands[0] if last is not None and last.name == "sub" and last.operands[1].const == LANES else None


def _outside(b: Builder, v: Value | int) -> Value:
    """``v`` ahead of the nest: a constant may stand in it."""
    known = v.const if isinstance(v, Value) else v
    return b.const(known) if known is not None or isinstance(v, int) else v


def _value(b: Builder, form: Affine) -> Value:
    n = b.const(form.constant)
    for v, times in form.terms:
        n = b.add(n, b.mul(v, times))
    return n


def _limits(b: Builder, x: Columns, row: Value, column: Value, some: Value) -> tuple[Value, Value]:
    """The numbers of chunks and of columns that are in bounds; 0 chunks if a test does not hold."""
    rows, columns, count = b.dim(x.array, axis=0), b.dim(x.array, axis=1), _outside(b, x.count)
    for test in (b.ge(row, 0), b.le(row, rows), b.ge(column, 0), b.le(column, columns), b.ge(count, LANES)):
        some = b.and_(some, test)
    there = b.sub(rows, row)
    whole = b.floordiv(b.add(count, LANES - 1), LANES)
    chunks = b.select(b.le(count, there), whole, b.floordiv(there, LANES))
    width = b.minimum(_outside(b, x.trip), b.sub(columns, column))
    zero = b.const(0)
    some = b.and_(some, b.lt(0, width))
    return b.select(some, chunks, zero), b.select(some, width, zero)
