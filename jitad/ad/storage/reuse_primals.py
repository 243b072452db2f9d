"""Reuses values that the forward sweep has already computed, such as ``cos x`` for the derivative of ``sin x``.

The reverse sweep, as first written, computes the values that the derivatives need again.  A transcendental function
of forward values that was computed in the same iteration, on every path to this point, is read instead if it is in a
register, or in the frame of a call or of an iteration of a ``while`` loop, where it costs a load.  In a counted loop
it would cost memory in each iteration, and the reverse loop computes it for many iterations as vectors; it is read
there if the reverse sweep reads it anyway, or if the memory is that of one iteration of an outer loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from ...ir.clone import clone_op
from ...ir.graph import Block, Op, Value
from ...ir.ops import COMPARISONS, OPS
from ...ir.types import Scalar
from ...passes.analysis.cfg import append

MOST_FOR_ONE = 3
"""The most comparisons that are saved in place of one value: fewer bytes than a number of single precision has."""

Key = tuple[str, tuple[Value, ...]]

Reaches = Callable[[Block, Block, bool], bool]


def read_again(forward: Iterable[Block], bars: Collection[Block], reaches: Reaches) -> None:
    """Make the blocks ``bars`` read values that the blocks ``forward`` have computed.

    ``reaches(f, bar, saved)``: True if ``bar`` can read a value of ``f`` at the cost of a load, where ``saved`` says
    that it is read by the reverse sweep in any case.
    """
    there: dict[Key, list[Op]] = {}
    for block in forward:
        for op in block.ops:
            if _transcendental(op):
                there.setdefault(_key(op), []).append(op)
    if not there:
        return
    read: dict[Value, Value] = {}
    saved = {v for bar in bars for op in bar.all_ops() for v in op.used()}
    for bar in bars:
        kept = []
        for op in bar.ops:
            equal = _first(there.get(_key(op), []), bar, saved, reaches) if _transcendental(op) else None
            if equal is None:
                kept.append(op)
            else:
                read[op.result] = equal
        bar.ops = kept
    for bar in bars if read else ():
        for op in bar.all_ops():
            op.replace_uses(read)


def compute_there(forward: Collection[Block], bars: Iterable[Block], place: Callable[[Block], Block | None]) -> None:
    """Move transcendental functions of forward values from a block of ``bars`` to the forward block ``place(bar)``.

    The number of calls is the same, but they can be shared there: the tangents of a forward sweep need the same
    functions of the same values, and ``sin x`` and ``cos x`` are one call.
    """
    for bar in bars:
        there = place(bar) if any(map(_transcendental, bar.ops)) else None
        if there is None:
            continue
        for op in [op for op in bar.ops if _transcendental(op) and all(v.block in forward for v in op.operands)]:
            bar.ops.remove(op)
            append(there, op)


def _transcendental(op: Op) -> bool:
    return op.name in OPS and OPS[op.name].transcendental and isinstance(op.result.type, Scalar)


def _key(op: Op) -> Key:
    return op.name, tuple(op.operands)


def _first(candidates: list[Op], bar: Block, saved: set[Value], reaches: Reaches) -> Value | None:
    return next((op.result for op in candidates
                 if op.block is not None and reaches(op.block, bar, op.result in saved)), None)


def compared(bars: Iterable[Block], only: set[Value],
             home: Mapping[Block, Block]) -> list[tuple[list[Op], Block]]:
    """The comparisons after which the reverse sweep needs none of the values ``only``, and the blocks to move them to.

    Equal ones are one entry.  ``home``: the forward block of each block of ``bars``.  Removes from ``only`` the values
    for which more would be saved than they take themselves.
    """
    comparisons = [op for bar in bars if only for op in bar.ops
                   if op.name in COMPARISONS and not only.isdisjoint(op.operands)]
    while True:
        same: dict[tuple[str, Block, frozenset[Value] | tuple[Value, ...]], list[Op]] = {}
        for op in comparisons:
            if op.block is not None and not only.isdisjoint(op.operands):
                operands = frozenset(op.operands) if op.name in ("eq", "ne") else tuple(op.operands)
                same.setdefault((op.name, home[op.block], operands), []).append(op)
        counts = Counter(v for *_, operands in same for v in operands if v in only)
        many = {v for v, n in counts.items() if n > MOST_FOR_ONE}
        only &= counts.keys() - many
        if not many:
            return [(ops, there) for (_, there, _), ops in same.items()]


def compare_at(block: Block, same: list[Op], bars: Iterable[Block]) -> Value:
    """Move a comparison behind the definitions of its operands in a forward block, or to its beginning.

    ``same``: the equal ones of the blocks ``bars``.  Returns its result, which they read then.
    """
    op = same[0]
    for each in same:
        assert each.block is not None
        each.block.ops.remove(each)
    for bar in bars if len(same) > 1 else ():
        for reader in bar.all_ops():
            reader.replace_uses({each.result: op.result for each in same[1:]})
    made = dict[Value, Value]()
    constants = [clone_op(v.op, made) for v in op.operands if v.const is not None and v.op is not None]
    op.operands = [made.get(v, v) for v in op.operands]
    at = 1 + max((i for i, x in enumerate(block.ops) if any(v in x.results for v in op.operands)), default=-1)
    for each in (*constants, op):
        each.block = block
    block.ops[at:at] = [*constants, op]
    return op.result
