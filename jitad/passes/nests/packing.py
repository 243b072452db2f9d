"""Packing: columns of structures that the innermost loop of a nest reads again and again are copied once, ahead of it.

An innermost loop over ``j`` reads ``p[j, 0]``, ``p[j, 1]``, …, as of an array of points, with a stride, in every
iteration of the loops around.  Each column becomes a vector, in which its elements are neighbours.

The array comes from outside the nest, so no iteration stores to it.  The part that is copied is bounded by what the
counters reach, so a program whose loops are short does not copy a long array; every iteration of the outermost loop
executes the inner one.  The pass runs before differentiation: the cotangents are collected in the copies.
(Rows of matrices are packed by ``panels``.)
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array
from ..analysis.affine import Affine, AffineForms
from ..analysis.cost import LANES
from ..analysis.loops import Loop, loop_forest
from .factors import is_size
from .regular import Regular, is_fixed

MOST = 8
"""The most members of a structure."""
NEAR = 1 << 30
"""The bound of constants in an index.  Sizes of arrays are far below 2⁶², so that a sum of two does not wrap."""


def packing(module: Module) -> bool:
    """Pack in every nest of normal form; returns True if there was anything to pack."""
    changed = False
    for func in module.functions.values():
        if any(_is_element(op) for op in func.all_ops()):
            changed |= _Packing(func).run()
    return changed


def _is_element(op: Op) -> bool:
    return op.name == "get" and len(op.operands) == 3


class _Packing:
    """The packing of one function."""

    def __init__(self, func: Function) -> None:
        self.func = func
        self.regular = Regular(loop_forest(func))
        self.forms = AffineForms()

    def run(self) -> bool:
        groups: dict[tuple[Loop, Value, int], list[tuple[Op, Affine]]] = {}
        for loop in self.regular.known:
            if not loop.children and loop.parent is not None:
                for nest, column, op, end in self._found(loop):
                    groups.setdefault((nest, op.operands[0], column), []).append((op, end))
        heads = {loop.head for loop in self.regular.known}
        always = {key: members for key, members in groups.items()
                  if any(op.block in heads for op, _ in members)}
        for (nest, array, column), members in always.items():
            self._pack(nest, array, column, members)
        return bool(always)

    def _found(self, loop: Loop) -> Iterator[tuple[Loop, int, Op, Affine]]:
        """The elements to pack that a loop reads: the nest, the column, and the end of the index of the row."""
        counter = self.regular.known[loop].iv
        for op in (op for block in self.regular.dom.order if block in loop.blocks for op in block.ops):
            if not _is_element(op):
                continue
            array, row, column = op.operands
            t, member = array.type, column.const
            assert isinstance(t, Array)
            if array.block in loop.blocks or any(d is not None and d < LANES for d in t.dims[:1]) or member is None or \
                    not 0 <= member < MOST or t.dims[1] is not None and member >= t.dims[1]:
                continue
            if self.forms.of(row).coefficient(counter) == 1 and (nest := self._nest(loop, array)) is not None and \
                    (end := self._end(row, loop, nest)) is not None:
                yield nest, int(member), op, end

    def _nest(self, loop: Loop, array: Value) -> Loop | None:
        """The outermost loop that always executes ``loop`` and does not make the array."""
        found, at = None, loop.parent
        while at is not None and is_fixed(array, at) and self.regular.always(loop.head, at, leaving=False) is not None:
            if at.preheader is not None:
                found = at
            at = at.parent
        return found

    def _end(self, index: Value, loop: Loop, nest: Loop) -> Affine | None:
        """The bound of ``index`` in ``nest``, of values from outside: counters have their last value."""
        form = self.forms.of(index)
        at: Loop | None = loop
        while at is not None and at is not nest.parent:
            known = self.regular.known.get(at)
            if known is not None and (times := form.coefficient(known.iv)):
                form = form.without(known.iv)
                if times > 0:
                    form = form.plus(self.forms.of(known.trip), times).plus(Affine(-times))
            at = at.parent
        end = form.plus(Affine(1))
        return end if all(is_fixed(v, nest) for v, _ in end.terms) and _wraps_once(end) else None

    def _pack(self, nest: Loop, array: Value, column: int, members: list[tuple[Op, Affine]]) -> None:
        """Copy what ``members`` read ahead of ``nest``, and let them read the copy."""
        before = nest.preheader
        assert before is not None and before.term is not None
        term, before.term = before.term, None
        b = Builder(before, members[0][0].loc)
        zero, one = b.const(0), b.const(1)
        rows = _limited(b, array, 0, list(dict.fromkeys(end for _, end in members)))
        rows = b.select(b.lt(column, b.emit("dim", array, axis=1)), rows, zero)
        part = b.reshape(b.slice(array, zero, rows, one, b.const(column), one, one), rows)
        packed = b.emit("copy", part)
        before.term = term
        for op, _ in members:
            op.operands = [packed, op.operands[1]]


def _wraps_once(end: Affine) -> bool:
    """True if ``end`` is negative where it wraps: but for sizes of arrays, it has one term at most."""
    sizes = [times for v, times in end.terms if v.op is not None and v.op.name == "dim"]
    return len(sizes) <= 2 and len(end.terms) - len(sizes) <= 1 and abs(end.constant) < NEAR \
        and all(abs(times) == 1 for _, times in end.terms)


def _limited(b: Builder, array: Value, axis: int, ends: list[Affine]) -> Value:
    """The largest of ``ends``, at most the size of the array: indices are in bounds if control gets to them.

    If an end wraps, an index is out of bounds sooner or later; those before are read.
    """
    size = b.emit("dim", array, axis=axis)
    largest: Value | None = None
    for end in ends:
        n = b.const(end.constant)
        for v, times in end.terms:
            n = b.add(n, v) if times == 1 else b.sub(n, v)
        if not is_size(n, array, axis):
            n = b.select(b.lt(n, 0), size, b.minimum(n, size))
        largest = n if largest is None else b.maximum(largest, n)
    assert largest is not None
    return largest
