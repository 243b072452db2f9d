"""Blocks of columns: lanes that read column after column of a matrix load four columns at once, and transpose them.

``outer_loop`` runs 16 rows of a sum side by side, and their elements are a row apart.  Loaded one by one, they are put
together by as many insertions; the rows of a block are loaded as vectors, and half as many shuffles make its columns.
The inner loop is strip-mined, with four iterations in each strip and the original loop for what they leave::

    ^strips(q, s):
      %k = mul %q, 4
      %block = copy (transpose (slice a, row, 16, 1, %k, 4, 1))     4 × 16, in registers (``lowering/loops/idioms.py``)
      … the iterations k, k + 1, k + 2, k + 3, whose columns are the rows of the block

A product of a matrix and a vector by loops takes a third of the time (Intel Xeon with AVX-512).

The columns of a block are those that its iterations read, so all are in bounds: iterations may not raise, since then
later ones would not be executed.  What lanes share across a loop around is packed once (``panels``).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, dims_of
from ...ir.uses import users
from ..analysis.affine import AffineForms
from ..analysis.cfg import append, remove_unreachable
from ..analysis.cost import COLUMNS, LANES
from ..analysis.loops import Counted, Loop, counted, loop_forest

MOST_OPS = 40
"""The most ops of an iteration, of which there are four copies."""


@dataclass(frozen=True)
class Column:
    """A slice of one element of each of some rows, in which iteration ``k`` reads column ``first + sign · k``."""

    op: Op
    sign: int

    @property
    def array(self) -> Value:
        return self.op.operands[0]


def column_blocks(module: Module) -> bool:
    """Make blocks in all such loops; returns True if there were any."""
    changed = False
    for func in module.functions.values():
        if any(_is_column(op) for op in func.all_ops()):
            changed |= _of_function(func)
    return changed


def _is_column(op: Op) -> bool:
    """True for one element of each of some rows, in their order, in the last column of the index."""
    if op.name != "slice" or not isinstance(op.result.type, Array):
        return False
    *outer, last = op.result.type.dims
    lanes = [k for k, n in enumerate(outer) if n != 1]
    return last == 1 and len(lanes) == 1 and outer[lanes[0]] in (LANES, LANES // 2) and \
        op.operands[3 * lanes[0] + 3].const == 1


def _of_function(func: Function) -> bool:
    readers, forms, changed = users(func.all_ops()), AffineForms(), False
    for loop in loop_forest(func).loops:
        known = counted(loop) if len(loop.blocks) == 1 and loop.exit is not None else None
        if known is None or not (known.trip.const is None or known.trip.const >= COLUMNS) or not _is_short(loop.head):
            continue
        columns = [column for op in loop.head.ops if _is_column(op)
                   and (column := _read_in_order(op, loop, known, forms, readers)) is not None]
        if columns:
            _strip_mine(func, loop, known, columns)
            changed = True
    return changed


def _is_short(block: Block) -> bool:
    """True for few ops, none of which may raise or leave memory behind."""
    ops = [op for op in block.ops if op.name != "const"]
    return len(ops) <= MOST_OPS and not any(OPS[op.name].effect or op.name in ("push", "pop") for op in ops)


def _read_in_order(op: Op, loop: Loop, known: Counted, forms: AffineForms, readers: dict[Value, list[Op]]
                   ) -> Column | None:
    """The column of a slice of an array from outside, if its index steps by one and only reshapes read the slice."""
    array, *spec = op.operands
    *fixed, last, _, _ = spec
    form = forms.of(last)
    sign = form.coefficient(known.iv)
    outside = all(v.const is not None or v.block not in loop.blocks for v in (array, *fixed)) and \
        all(v is known.iv or v.block not in loop.blocks for v, _ in form.terms)
    if not outside or abs(sign) != 1 or any(r.name != "reshape" for r in readers.get(op.result, ())):
        return None
    return Column(op, sign)


def _strip_mine(func: Function, loop: Loop, known: Counted, columns: list[Column]) -> None:
    """Put the strips ahead of a loop, which then executes what they leave."""
    head, before, entry, leave = loop.head, loop.preheader, loop.entry_edge(), loop.exit_edge()
    assert before is not None and head.term is not None
    enter, strips, done, rest = map(func.new_block, ("preheader", "strips", "done", "preheader"))
    before.term = None
    b = Builder(before, columns[0].op.loc)
    count = b.floordiv(known.trip, COLUMNS)
    b.branch(b.lt(0, count), enter, [], rest, entry.args)

    b.at(enter)
    b.jump(strips, [b.const(0), *(a for p, a in entry.passed() if p is not known.iv)])

    strip = strips.add_param(known.iv.type, "strip")
    values = {p: strips.add_param(p.type, p.hint) for p in head.params if p is not known.iv}
    b.at(strips)
    found = _iterations(b, loop, known, b.mul(strip, COLUMNS), values, columns)
    following = b.add(strip, 1)
    carried = [values[p] for p in head.params if p is not known.iv]
    b.branch(b.lt(following, count), strips, [following, *carried], done, [])

    b.at(done)
    executed = b.mul(count, COLUMNS)
    left = [executed if p is known.iv else values[p] for p in head.params]
    b.branch(b.lt(executed, known.trip), rest, left, leave.block, found)

    b.at(rest)
    b.jump(head, [rest.add_param(p.type, p.hint) for p in head.params])
    head.term.attrs["cold"] = True
    remove_unreachable(func)


def _iterations(b: Builder, loop: Loop, known: Counted, first: Value, values: dict[Value, Value],
                columns: list[Column]) -> list[Value]:
    """Emit the iterations of a strip; ``values`` receives the next carried ones.

    Returns what the last iteration passes to the exit.
    """
    by_op, blocks, found = {column.op: column for column in columns}, dict[Op, Value](), list[Value]()
    for k in range(COLUMNS):
        values[known.iv] = b.add(first, k)
        for op in loop.head.ops:
            column = by_op.get(op)
            if column is None:
                append(b.block, clone_op(op, values))
                continue
            if op not in blocks:
                blocks[op] = _block(b, column, values)
            row = b.const(k if column.sign > 0 else COLUMNS - 1 - k)
            one, width = b.const(1), b.dims(blocks[op])[1]
            values[op.result] = b.slice(blocks[op], row, one, one, b.const(0), width, one)
        found = [values.get(a, a) for a in loop.exit_edge().args]
        values.update([(p, values.get(a, a)) for p, a in loop.back_edge().passed()])
    return found


def _block(b: Builder, column: Column, values: dict[Value, Value]) -> Value:
    """The columns of a strip as rows; ``values`` are those of its first iteration."""
    array, *spec = (b.const(v.const) if v.const is not None else values.get(v, v) for v in column.op.operands)
    if column.sign < 0:
        spec[-3] = b.sub(spec[-3], COLUMNS - 1)
    spec[-2] = b.const(COLUMNS)
    lanes = next(n for n, size in zip(spec[1::3], dims_of(column.op.result.type)) if size != 1)
    rows = b.reshape(b.slice(array, *spec), lanes, b.const(COLUMNS))
    return b.emit_op("copy", [b.transpose(rows, perm=(1, 0))]).result
