"""Writes arithmetic on all pairs of elements of two vectors as a loop over the rows, whose arrays are rows.

``d = (x[:, None] - y) ** 2`` with reductions along its rows, whose results meet ``d`` again, is stored as a whole, and
so is its cotangent.  In a loop over the rows nothing has two axes::

    d := mul(x[:, None] - y, …)            ^loop(i, r):
    m := min {axes = (1,)} d                 d := mul(x[i] - y, …)
    e := eq(d, m[:, None])       becomes     m := min {axes = (0,)} d
    t := sum {axes = (1,)} e * …             t := sum {axes = (0,)} eq(d, m) * …
                                             again ^loop(i + 1, set(r, t, i))

``reduction_loops`` then writes the rows as loops over elements, for lanes of the rows.  All arrays of two axes must be
cheap arithmetic on columns ``[n, 1]``, rows and scalars, and only be reduced.  Sums along columns are carried.  This is
done after differentiation: the derivative of ``min`` differs from that of a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS, TRANSCENDENTAL
from ...ir.types import I64, Array, Scalar
from ...ir.uses import users
from ..analysis.cfg import substitute
from .reduction_loops import compare_their_own

REDUCTIONS = ("sum", "max", "min")
Readers = Mapping[Value, list[Op]]


def row_loops(module: Module, func: Function) -> bool:
    """Rewrite the pairs of every block; returns True if there were any."""
    blocks, found = list(func.blocks), False
    for block in blocks:
        if any(op.name in REDUCTIONS and op.attrs["axes"] == (1,) for op in block.ops):
            pairs = _Pairs(block, users(func.all_ops()))
            if pairs.fit(module):
                blocks += block, _Rewriting(func, block, pairs).run()
                found = True
    return found


class _Pairs:
    """The ops of a block that one loop over rows can do.

    ``full``: what they make has two axes.  ``rows``: what they make has an element for each row; ``columns``: for each
    column.  ``sizes``: they ask for the size of an axis, 0 or 1.
    """

    def __init__(self, block: Block, readers: Readers) -> None:
        self.block, self.readers = block, readers
        self.full: dict[Op, None] = {}
        self.rows: dict[Op, None] = {}
        self.columns: dict[Op, None] = {}
        self.sizes: dict[Op, int] = {}
        self.kinds: tuple[dict[Op, Any], ...] = self.full, self.rows, self.columns, self.sizes

    def fit(self, module: Module) -> bool:
        """Collect the ops; returns True if there are any."""
        banned = set[Op]()
        while True:
            for kind in self.kinds:
                kind.clear()
            for op in self.block.ops:
                if op not in banned:
                    self._enter(op)
            for op in reversed(list(self.rows)):                # what no pair needs comes behind the loop
                if op.name not in REDUCTIONS and not any(map(self.has, self.readers.get(op.result, ()))):
                    del self.rows[op]
            bad = {op for op in self.full if not all(map(self.has, self.readers.get(op.result, ())))}
            bad = bad or self._of_other_shape()
            banned |= bad
            if not bad:
                break
        reductions = [op for op in self.rows if op.name in REDUCTIONS]
        begins = next(iter(self.full), None)
        if begins is None or self.sizes and begins.name == "broadcast_to":     # the first one has both sizes
            return False
        given = self.outside()
        if not any(map(_is_column, given)) or not any(_is_row(v) or _is_vector(v) for v in given):
            return False                                                       # the loop's sizes are theirs
        return bool(reductions) and self._stays_in_order() and \
            compare_their_own(self.full, [op for op in reductions if op.name != "sum"], module)

    def outside(self) -> list[Value]:
        """The arrays from which the pairs are computed, as they stand before the loop."""
        return [v for op in self.full for v in op.operands if v.op is None or not self.has(v.op)]

    def _enter(self, op: Op) -> None:
        if len(op.results) != 1 or not op.operands or OPS[op.name].effect:
            return
        v = op.operands[0]
        if op.name in REDUCTIONS and v.op in self.full:
            axes = op.attrs["axes"]
            if axes == (1,) or axes == (0,) and op.name == "sum":
                (self.rows if axes == (1,) else self.columns)[op] = None
        elif op.name == "dim":
            if (axis := self._axis(v, op.attrs["axis"])) is not None:
                self.sizes[op] = axis
        elif isinstance(op.result.type, Array) and self._is_full(op):
            self.full[op] = None
        elif any(x.op in self.rows for x in op.operands) and self._is_row(op):
            self.rows[op] = None

    def _axis(self, v: Value, axis: int) -> int | None:
        """The axis of the pairs that has the size of ``v`` along an axis, if their loop finds ``v`` or it follows."""
        while v.op is not None and not self.has(v.op) and OPS[v.op.name].elementwise and isinstance(v.type, Array):
            dims = v.type.dims
            same = [x for x in v.op.operands if isinstance(x.type, Array) and x.type.dims == dims]
            v = next((x for x in same if x.op is not None and self.has(x.op)), same[0] if same else v.op.operands[0])
        if v.op is None or not isinstance(v.type, Array) or not self.has(v.op) or v.type.dims[axis] == 1:
            return None
        return axis if v.op in self.full else int(v.op in self.columns)

    def has(self, op: Op) -> bool:
        return any(op in kind for kind in self.kinds)

    def _is_full(self, op: Op) -> bool:
        t = op.result.type
        assert isinstance(t, Array)
        if t.rank != 2 or 1 in t.dims or not (t.dtype.is_float or t.dtype.is_bool):
            return False
        if op.name == "broadcast_to":
            return self._is_spread(op.operands[0])
        return OPS[op.name].elementwise and OPS[op.name].cost < EXPENSIVE and all(
            v.op in self.full or self._is_spread(v) for v in op.operands)

    def _is_spread(self, v: Value) -> bool:
        """True for a scalar, a column or a row."""
        return isinstance(v.type, Scalar) or _is_column(v) or v.op not in self.columns and (
            _is_row(v) or _is_vector(v) and v.op not in self.rows)

    def _is_row(self, op: Op) -> bool:
        if op.name == "reshape":
            return all(_is_column(v) or _is_vector(v) for v in (op.operands[0], op.result))
        return _is_vector(op.result) and OPS[op.name].elementwise and OPS[op.name].cost < TRANSCENDENTAL and all(
            isinstance(v.type, Scalar) or _is_vector(v) for v in op.operands)

    def _of_other_shape(self) -> set[Op]:
        """The arrays of two axes that no op needs to be of the shape of the first reduced one."""
        same: dict[Op, Op] = {}

        def find(op: Op) -> Op:
            while op in same:
                op = same[op]
            return op
        for op in (*self.full, *self.rows):
            for v in op.operands:
                if v.op is not None and (v.op in self.full or v.op in self.rows) and find(v.op) is not find(op):
                    same[find(v.op)] = find(op)
        first = next((op for op in self.rows), None)
        return {op for op in self.full if first is not None and find(op) is not find(first)}

    def _stays_in_order(self) -> bool:
        """True if no op waits for others that read the results: these come behind the loop."""
        late: set[Value] = set()
        for op in self.block.ops:
            if op in self.sizes:
                continue
            if self.has(op):
                if any(v in late for v in op.operands):
                    return False
            elif any(v in late or v.op is not None and self.has(v.op) and v.op not in self.sizes for v in op.operands):
                if OPS[op.name].effect:
                    return False
                late.update(op.results)
        return True


def _is_vector(v: Value) -> bool:
    return isinstance(v.type, Array) and v.type.rank == 1 and v.type.dims != (1,)


def _is_column(v: Value) -> bool:
    return isinstance(v.type, Array) and v.type.rank == 2 and v.type.dims[1] == 1 and v.type.dims[0] != 1


def _is_row(v: Value) -> bool:
    return isinstance(v.type, Array) and v.type.rank == 2 and v.type.dims[0] == 1 and v.type.dims[1] != 1


class _Rewriting:
    """Emits the loop.  ``inside``: what stands for a value in it; ``results``: behind it."""

    def __init__(self, func: Function, block: Block, pairs: _Pairs) -> None:
        self.func, self.block, self.pairs = func, block, pairs
        self.inside: dict[Value, Value] = {}
        self.results: dict[Value, Value] = {}

    def run(self) -> Block:
        """Returns the block behind the loop."""
        block, pairs, term = self.block, self.pairs, self.block.term
        assert term is not None
        self.ops = [op for op in block.ops if pairs.has(op) and op not in pairs.sizes]
        outside = pairs.outside()
        sizes = next((v, 0) for v in outside if _is_column(v)), \
            next((v, int(_is_row(v))) for v in outside if _is_row(v) or _is_vector(v))
        first, behind_ops = self._divide(sizes)
        block.ops, block.term = first, None
        b = self.b = Builder(block, next(iter(pairs.full)).loc)
        self.n, self.m = (b.dim(v, axis=axis) for v, axis in sizes)
        self.inside = {v: b.reshape(v, self.m) for v in outside if _is_row(v)}
        carried = [op for op in (*pairs.rows, *pairs.columns) if self._is_read_behind(op)]
        starts = [self._start(op) for op in carried]
        head, leave, behind = (self.func.new_block(name) for name in ("loop", "exit", "behind"))
        enter, skip = self.func.new_block("preheader"), self.func.new_block("skip")
        b.branch(b.lt(0, self.n), enter, [], skip, [])
        b.at(enter)
        b.jump(head, [b.const(0), *starts])
        b.at(skip)
        b.jump(behind, starts)
        self.i = head.add_param(I64, "it")
        arrays = {op: head.add_param(v.type) for op, v in zip(carried, starts)}
        b.at(head)
        passed = self._iteration(arrays)
        following = b.add(self.i, 1)
        left = [leave.add_param(v.type) for v in starts]
        b.branch(b.lt(following, self.n), head, [following, *passed], leave, passed)
        b.at(leave)
        b.jump(behind, left)
        self.results |= {op.result: behind.add_param(v.type) for op, v in zip(carried, starts)}
        behind.ops, behind.term = behind_ops, term
        for op in behind.all_ops():
            op.block = behind
        substitute(self.func, self.results)
        return behind

    def _divide(self, sizes: Sequence[tuple[Value, int]]) -> tuple[list[Op], list[Op]]:
        """The ops ahead of the loop, and those behind it: those that read its results."""
        first, last, late = list[Op](), list[Op](), set[Value]()
        for op in self.block.ops:
            if op in self.pairs.sizes:
                v, axis = sizes[self.pairs.sizes[op]]
                op.operands, op.attrs = [v], {"axis": axis}
                first.append(op)
            elif self.pairs.has(op):
                late.add(op.result)
            elif any(v in late for v in op.operands):
                last.append(op)
                late.update(op.results)
            else:
                first.append(op)
        return first, last

    def _is_read_behind(self, op: Op) -> bool:
        return any(not self.pairs.has(x) for x in self.pairs.readers.get(op.result, ()))

    def _start(self, op: Op) -> Value:
        t, b = op.result.type, self.b
        assert isinstance(t, Array)
        if op in self.pairs.columns:
            return b.typed(b.emit("fill", b.const(0.0, t.dtype), self.m), t)
        sizes = [self.n, b.const(1)][:t.rank]
        return b.typed(b.emit("empty", *sizes, dtype=t.dtype), t)

    def _iteration(self, arrays: dict[Op, Value]) -> list[Value]:
        """Emit what an iteration does; returns what it passes on."""
        b, pairs = self.b, self.pairs
        for op in (op for op in self.ops if op not in pairs.sizes):
            b.loc = op.loc
            arguments = op.operands[:1] if op.name == "reshape" else op.operands
            operands = [self._of(v, op in pairs.rows) for v in arguments]
            if op in pairs.columns:
                arrays[op] = b.emit("add", arrays[op], self._array(operands[0]), acc=True)
                continue
            if op.name in REDUCTIONS:
                made = b.emit(op.name, self._array(operands[0]), **{**op.attrs, "axes": (0,)})
            elif op.name in ("reshape", "broadcast_to"):
                made = operands[0]
            else:
                made = b.emit(op.name, *operands, **op.attrs)
            self.inside[op.result] = made
        for op in (op for op in arrays if op in pairs.rows):     # behind all reductions, which may share loops
            at = [self.i, b.const(0)] if _is_column(op.result) else [self.i]
            arrays[op] = b.emit("set", arrays[op], self.inside[op.result], *at)
        return list(arrays.values())

    def _of(self, v: Value, by_rows: bool) -> Value:
        """The value in place of an operand: of this row, or a row; ``by_rows``: vectors have an element for each."""
        if v in self.inside or isinstance(v.type, Scalar):
            return self.inside.get(v, v)
        if _is_column(v):
            made = v.op.operands[0] if v.op is not None and v.op.name == "reshape" else v
            self.inside[v] = self.b.get(made, self.i) if _is_vector(made) else self.b.get(v, self.i, self.b.const(0))
        elif by_rows:
            self.inside[v] = self.b.get(v, self.i)
        else:
            return v
        return self.inside[v]

    def _array(self, v: Value) -> Value:
        return v if isinstance(v.type, Array) else self.b.emit("broadcast_to", v, self.m)
