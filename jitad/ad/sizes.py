"""Arrays of which the backward sweep reads nothing but the sizes: the sizes are kept, and not the arrays.

So the adjoint of ``set_slice``, which is a slice as long as what was stored, does not hold on to what was stored; an
array that grows by and by (``frontend/heaps.py``) is not kept at every iteration.
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir.graph import Block, Function, Op, Value
from ..ir.types import I64, Array
from ..passes.cfg import substitute


def keep_sizes(func: Function, forward: Collection[Block], backward: Collection[Block],
               copies: Collection[Block]) -> None:
    """Compute them in the forward sweep, where the arrays are made.

    ``copies``: blocks of iterations that are run again.
    """
    sizes: dict[Value, list[Op]] = {}
    others: set[Value] = set()
    for block in (*backward, *copies):
        for op in block.all_ops():
            for v in op.used():
                if not isinstance(v.type, Array) or v.block not in forward:
                    continue
                if op.name == "dim" and block not in copies:
                    sizes.setdefault(v, []).append(op)
                else:
                    others.add(v)
    found: dict[Value, Value] = {}
    for v, ops in sizes.items():
        if v not in others and v.owner is not func.entry:
            known = {axis: _dim(v, axis) for axis in {op.attrs["axis"] for op in ops}}
            for op in ops:
                found[op.result] = known[op.attrs["axis"]]
                assert op.block is not None
                op.block.ops.remove(op)
    if found:
        substitute(func, found)


def _dim(v: Value, axis: int) -> Value:
    """The size of an array, computed right where the array is."""
    op = Op("dim", [v], [I64], {"axis": axis})
    op.block = v.block
    v.block.ops.insert(v.block.ops.index(v.op) + 1 if v.op is not None else 0, op)
    return op.result
