"""Packing: what the innermost loop of a nest reads with a stride, again and again, is copied once, ahead of the nest.

Two kinds of accesses are slow in every iteration of the loops around, and contiguous in a copy:

* *columns of structures*: an innermost loop over ``j`` reads ``p[j, 0]``, ``p[j, 1]``, …, as of an array of points.
  Each column becomes a vector;
* *rows that are summed in order*: ``s += a[i, k] * v[k]`` with ``k`` innermost.  ``outer_loop`` runs iterations of the
  loop over ``i`` side by side, whose elements are a row apart.  The matrix is transposed, if a further loop around
  repeats the product::

    ^steps(t, v):                                   b := copy (transpose a[0:n, 0:m])
      ^rows(i):                                     ^steps(t, v):
        ^sum(k, s): … get a, i, k      becomes        … ^sum(k, s): … get b, k, i

The array comes from outside the nest, so no iteration stores to it.  The part that is copied is bounded by what the
counters reach, so a program whose loops are short does not copy a long array; every iteration of the outermost loop
executes the inner one.  The pass runs before differentiation: the cotangents are collected in the copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ..analysis.affine import Affine, AffineForms
from ..analysis.lanes import LANES
from ..analysis.loops import Loop, loop_forest
from .factors import is_size
from .regular import Regular, is_fixed

MOST = 8
"""The most members of a structure."""
NEAR = 1 << 30
"""The bound of constants in an index.  Sizes of arrays are far below 2⁶², so that a sum of two does not wrap."""
FEWEST = 4
"""The least number of repetitions, if it is known.  A transposition takes about as long as two products."""


def packing(module: Module, derived: bool) -> bool:
    """Pack in every nest of normal form; returns True if there was anything to pack.

    Structures are packed before differentiation, rows after it (``derived``).
    """
    changed = False
    for func in module.functions.values():
        if any(_is_element(op) for op in func.all_ops()):
            changed |= _Packing(func, derived, module.fastmath).run()
    return changed


def _is_element(op: Op) -> bool:
    return op.name == "get" and len(op.operands) == 3


class _Packing:
    """The packing of one function."""

    def __init__(self, func: Function, derived: bool, reassociates: bool) -> None:
        self.func, self.derived, self.reassociates = func, derived, reassociates
        self.regular = Regular(loop_forest(func))
        self.forms = AffineForms()

    def run(self) -> bool:
        groups: dict[tuple[Loop, Value, object], list[tuple[Op, Affine]]] = {}
        for loop in self.regular.known:
            if not loop.children and loop.parent is not None:
                for nest, key, op, end in self._found(loop):
                    groups.setdefault((nest, op.operands[0], key), []).append((op, end))
        heads = {loop.head for loop in self.regular.known}
        always = {key: members for key, members in groups.items()
                  if any(op.block in heads for op, _ in members)}
        for (nest, array, key), members in always.items():
            self._pack(nest, array, key, members)
        return bool(always)

    def _found(self, loop: Loop) -> Iterator[tuple[Loop, object, Op, Affine]]:
        """The elements to pack that a loop reads: the nest, what is read together, and the end of the first index."""
        for op in (op for block in self.regular.dom.order if block in loop.blocks for op in block.ops):
            if not _is_element(op):
                continue
            array, row, column = op.operands
            kind = self._kind(loop, array, row, column)
            nest = kind and self._nest(loop, op, kind)
            if nest:
                end = self._end(row, loop, nest)
                key = column.const if kind == "structure" else self._end(column, loop, nest)
                if end is not None and key is not None and (kind == "structure" or self._repeats(nest)):
                    yield nest, key, op, end

    def _kind(self, loop: Loop, array: Value, row: Value, column: Value) -> str:
        """``"structure"`` or ``"row"``, if the loop reads the column of a structure or sums a row; otherwise ``""``."""
        counter, t = self.regular.known[loop].iv, array.type
        assert isinstance(t, Array)
        if array.block in loop.blocks or any(d is not None and d < LANES for d in t.dims[:1]):
            return ""
        if column.const is not None:
            few = 0 <= column.const < MOST and (t.dims[1] is None or column.const < t.dims[1])
            return "structure" if few and not self.derived and self.forms.of(row).coefficient(counter) == 1 else ""
        rows = loop.parent
        if rows not in self.regular.known or self.reassociates or not self.derived or loop.blocks != {loop.head} or \
                not _adds_in_order(loop):
            return ""
        trips = (self.regular.known[x].trip for x in (loop, rows))
        if any(n.block in rows.blocks or n.const is not None and n.const < LANES for n in trips):
            return ""
        outer, r, c = self.regular.known[rows].iv, self.forms.of(row), self.forms.of(column)
        return "row" if (r.coefficient(counter), r.coefficient(outer)) == (0, 1) and \
            (c.coefficient(counter), c.coefficient(outer)) == (1, 0) else ""

    def _nest(self, loop: Loop, op: Op, kind: str) -> Loop | None:
        """The outermost loop that always executes ``loop`` and does not make the array.

        Around a product of a matrix and a vector, it moves no window over the matrix.
        """
        inner = loop if kind == "structure" else loop.parent
        assert inner is not None
        counters = {x.iv for x in (self.regular.known.get(loop), self.regular.known.get(inner)) if x is not None}
        indices = op.operands[1:] if kind == "row" else []
        still = [op.operands[0], *(v for x in indices for v, _ in self.forms.of(x).terms if v not in counters)]
        found, at = None, inner.parent
        while at is not None and all(is_fixed(v, at) for v in still) and \
                self.regular.always(loop.head, at, leaving=False) is not None:
            if at.preheader is not None:
                found = at
            at = at.parent
        return found

    def _repeats(self, nest: Loop) -> bool:
        known = self.regular.known.get(nest)
        return known is None or known.trip.const is None or known.trip.const >= FEWEST

    def _end(self, index: Value, loop: Loop, nest: Loop) -> Affine | None:
        """What ``index`` stays below in ``nest``, of values from outside: counters have their last value."""
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

    def _pack(self, nest: Loop, array: Value, key: object, members: list[tuple[Op, Affine]]) -> None:
        """Copy what ``members`` read ahead of ``nest``, and let them read the copy."""
        before = nest.preheader
        assert before is not None and before.term is not None
        term, before.term = before.term, None
        b = Builder(before, members[0][0].loc)
        zero, one = b.const(0), b.const(1)
        ends = list(dict.fromkeys(end for _, end in members))
        rows = _limited(b, array, 0, ends)
        if isinstance(key, Affine):
            columns = _limited(b, array, 1, [key])
            part = b.emit("transpose", b.slice(array, zero, rows, one, zero, columns, one), perm=(1, 0))
        else:
            assert isinstance(key, int)
            rows = b.select(b.lt(key, b.emit("dim", array, axis=1)), rows, zero)
            part = b.reshape(b.slice(array, zero, rows, one, b.const(key), one, one), rows)
        packed = b.emit("copy", part)
        before.term = term
        for op, _ in members:
            row, column = op.operands[1:]
            op.operands = [packed, column, row] if isinstance(key, Affine) else [packed, row]


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


def _adds_in_order(loop: Loop) -> bool:
    """True if a loop carries sums of floats, which begin anew in each iteration of the loop around, and no array."""
    assert loop.parent is not None
    carried = [(p.type, start, a.op) for p, start, a in
               zip(loop.head.params, loop.entry_edge().args, loop.back_edge().args)]
    sums = [(start, op) for t, start, op in carried if isinstance(t, Scalar) and t.is_float]
    return all(isinstance(t, Scalar) for t, _, _ in carried) and bool(sums) and all(
        op is not None and op.name in ("add", "sub") and start.owner is not loop.parent.head for start, op in sums)
