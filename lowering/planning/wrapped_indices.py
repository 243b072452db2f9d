"""Finds the checks of indices that may count from the end, which are lowered without a selection on the common path.

The front end writes an index ``i`` of an axis of ``n`` elements as::

    s = select(i < 0, i + n, i)
    check s >= 0 and s < n

Nearly all indices lie in ``[0, n)``.  For them one comparison of ``i`` decides the check, and ``s`` is ``i``, which is
known earlier than the selection would be.  Others take a branch, which adds ``n`` and compares again::

    branch 0 <= i < n, ^ok(i), ^wrap
    ^wrap:   branch 0 <= i + n < n, ^ok(i + n), ^bad
    ^ok(s):

Both comparisons are unsigned if ``n`` is known not to be negative, as behind the allocation of an array of that size.
If ``i`` is at least ``n``, ``i + n`` is out of range too: it is at least ``n`` or wraps around to a negative number.
If ``n`` is negative, every ``i`` fails both.

In a loop, a selection without a check, as in a reverse sweep, is a branch too (``place_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.dominance import Dominators
from ...ir.expression_keys import same
from ...ir.graph import Block, Op, Value
from ...ir.types import I64
from ...ir.uses import users
from ...passes.analysis.ranges import Ranges


@dataclass(frozen=True)
class WrappedIndex:
    """``place``: ``index``, plus ``size`` if negative.  ``tests``: the conditions that hold after the check.

    ``unsigned``: the size is known not to be negative.
    """

    index: Value
    size: Value
    unsigned: bool
    place: Value
    tests: tuple[Value, ...]


def wrapped_indices(dom: Dominators) -> dict[Op, WrappedIndex]:
    """The checks in question, each with its index.

    The selection and the conditions stand in the block of the check, and nothing before the check reads them.
    """
    found: dict[Op, WrappedIndex] = {}
    ranges = Ranges()
    allocated = _allocated(dom.order)
    for block in dom.order:
        checks = [op for op in block.ops if op.name == "check" and op.operands[0].op is not None]
        if not checks:
            continue
        readers = users(block.ops)
        position = {op: i for i, op in enumerate(block.ops)}
        for check in checks:
            wrapped = _match(check, ranges)
            if wrapped is None:
                continue
            if any(position[op] < position[check] if op.block is block else dom.dominates(op.block, block)
                   for op in allocated.get(wrapped.size, ()) if op.block is not None):
                wrapped = replace(wrapped, unsigned=True)
            own = {v.op for v in wrapped.tests} | {wrapped.place.op, check}
            if all(v.op in position and (reader in own or position[reader] > position[check])
                   for v in (wrapped.place, *wrapped.tests) for reader in readers.get(v, ())):
                found[check] = wrapped
    return found


def _allocated(blocks: list[Block]) -> dict[Value, list[Op]]:
    """The allocations of arrays by their sizes: none is negative where an array has been made."""
    found: dict[Value, list[Op]] = {}
    for op in (op for b in blocks for op in b.ops if op.name in ("fill", "empty", "iota")):
        for size in op.operands[op.name == "fill":]:
            found.setdefault(size, []).append(op)
    return found


def place_of(op: Op | None) -> tuple[Value, Value] | None:
    """(index, size) if ``op`` is ``index``, plus ``size`` if negative."""
    if op is None or op.name != "select" or op.result.type != I64:
        return None
    negative, total, index = op.operands
    test, plus = negative.op, total.op
    if test is None or test.name != "lt" or test.operands[0] is not index or test.operands[1].const != 0:
        return None
    if plus is None or plus.name != "add" or index not in plus.operands:
        return None
    return index, plus.operands[plus.operands[0] is index]


def _match(check: Op, ranges: Ranges) -> WrappedIndex | None:
    condition = check.operands[0]
    op = condition.op
    parts = op.operands if op is not None and op.name == "and" else [condition]
    place = parts[0].op.operands[0] if parts[0].op is not None and parts[0].op.operands else None
    found = place_of(place.op) if place is not None else None
    if place is None or found is None or not all(_bounds(part.op, found[1], place) for part in parts):
        return None
    tests = tuple(dict.fromkeys((*parts, condition)))
    return WrappedIndex(*found, ranges.interval(found[1])[0] >= 0, place, tests)


def _bounds(test: Op | None, size: Value, place: Value) -> bool:
    """True for ``place >= 0`` and ``place < size``."""
    if test is None or test.operands[0] is not place:
        return False
    return same(test.operands[1], size) if test.name == "lt" else test.name == "ge" and test.operands[1].const == 0
