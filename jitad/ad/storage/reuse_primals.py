"""Reuses values that the forward sweep has already computed, such as ``cos x`` for the derivative of ``sin x``.

The reverse sweep, as first written, computes the values that the derivatives need again.  A transcendental function
of forward values that was computed in the same iteration, on every path to this point, is read instead if it is in a
register, or in the frame of a call or of an iteration of a ``while`` loop, where it costs a load.  In a counted loop
it would cost memory in each iteration, and the reverse loop computes it for many iterations as vectors; it is read
there if the reverse sweep reads it anyway, or if the memory is that of one iteration of an outer loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ...passes.analysis.cfg import append

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
