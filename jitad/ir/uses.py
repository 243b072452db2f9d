"""Use lists: the ops that read each value.

They are built on demand, for a function or for some of its blocks, and are stale once an op changes its operands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

from .graph import Block, Op, Value
from .types import Array

EDGE = -1
"""The operand number of an argument that a terminator passes to a block."""


def ops_of(blocks: Iterable[Block]) -> Iterable[Op]:
    """The operations and terminators of blocks."""
    for block in blocks:
        yield from block.ops
        if block.term is not None:
            yield block.term


def users(ops: Iterable[Op]) -> dict[Value, list[Op]]:
    """The ops among ``ops`` that read each value, as an operand or an edge argument; once for each use."""
    found = defaultdict[Value, list[Op]](list)
    for op in ops:
        for v in op.used() if op.edges else op.operands:
            found[v].append(op)
    found.default_factory = None
    return found


def array_users(ops: Iterable[Op]) -> dict[Value, list[Op]]:
    """``users`` of the arrays alone, which takes half the time."""
    found = defaultdict[Value, list[Op]](list)
    for op in ops:
        for v in op.used() if op.edges else op.operands:
            if type(v.type) is Array:
                found[v].append(op)
    found.default_factory = None
    return found


def counts(ops: Iterable[Op]) -> Counter[Value]:
    """The number of uses of each value among ``ops``."""
    return Counter(chain.from_iterable([op.used() if op.edges else op.operands for op in ops]))


def uses(ops: Iterable[Op]) -> dict[Value, list[tuple[Op, int]]]:
    """The uses of each value among ``ops``: the op and the operand's number, ``EDGE`` for an argument of an edge."""
    found: dict[Value, list[tuple[Op, int]]] = {}
    for op in ops:
        for i, v in enumerate(op.operands):
            found.setdefault(v, []).append((op, i))
        for edge in op.edges:
            for v in edge.args:
                found.setdefault(v, []).append((op, EDGE))
    return found
