"""Saves many scalars of an iteration in a row of one array.

A scalar of a counted loop is saved in an array of its own, indexed by the iteration, and loaded at the top of the
reverse iteration: neighbouring iterations are neighbours in memory, so the loops can become vectors.  A long body has
hundreds of such scalars, and is never vectorised.  There, hundreds of arrays would be carried through the loop,
hundreds of values would wait for the latch to be stored, and hundreds more would be loaded long before they are read.
So such a loop saves them as::

    %rows = empty %trip, 300                    before the loop
    %v = …
    %rows2 = set %rows1, %v, %i, 7              where the value is computed
    …
    %w = get %rows, %k, 7                       where the reverse sweep reads it
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...ir.graph import Block, Op, Value
from ...ir.types import I64, Type

# Loops with fewer saved scalars of a type keep an array for each.  The ordinary programs of the benchmarks have up to
# 30.
MANY = 64


def rows(values: Sequence[Value]) -> list[list[Value]]:
    """The saved scalars by type, where there are many of one type."""
    by_type: dict[Type, list[Value]] = {}
    for v in values:
        by_type.setdefault(v.type, []).append(v)
    return [same for same in by_type.values() if len(same) > MANY]


def store_rows(array: Value, values: Sequence[Value], iv: Value, latch: Block, early: Container[Value]) -> Value:
    """Store ``values`` in row ``iv`` of ``array``: those in ``early`` after their definition, the others at the latch.

    The values that are stored early come first, and in the order of their definitions.  Returns the array after all.
    """
    behind: dict[Block, dict[Op | None, list[Op]]] = {}
    for column, v in enumerate(values):
        index = Op("const", (), [I64], {"value": column, "type": I64})
        store = Op("set", [array, v, iv, index.result], [array.type])
        array = store.result
        block, place = (v.block, v.op) if v in early else (latch, latch.ops[-1] if latch.ops else None)
        index.block = store.block = block
        behind.setdefault(block, {}).setdefault(place, []).extend((index, store))
    for block, stores in behind.items():
        block.ops = [*stores.get(None, ()), *(x for op in block.ops for x in (op, *stores.get(op, ())))]
    return array
