"""Replaces loads of elements that nothing has overwritten yet by loads from the array that a loop began with.

A loop that updates a copy of an array in place, row after row, reads the rows behind as they were::

    b0 = copy(x)                                    b0 = copy(x)
    ^loop(i, b):  …                                 ^loop(i, b):  …
      ^inner(k):  … get b, i + 1 + k, j … becomes     ^inner(k):  … get x, i + 1 + k, j …
      set(b, v, i, j)                                 set(b, v, i, j)

The reverse sweep then reads ``x``, instead of values that the forward sweep has saved, and the loads wait for no store.
Zeros, or another number that fills an array, are taken as they are.  The proof is that of
``passes/buffers/final_loads.py``, with the order of time turned round: earlier iterations write to other elements, and
so does what precedes in the same one.

Nothing may change ``x`` in place, or hand it on to what may: otherwise it would have to be copied once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.ops import OPS, Memory
from ..ir.types import Array, Scalar
from ..ir.uses import array_users
from ..passes.analysis.cfg import substitute
from ..passes.analysis.loops import Loop, loop_forest
from ..passes.buffers.final_loads import Carried, Judge, Span, base, carrier, writes_to


def initial_loads(module: Module) -> bool:
    """Rewrite all such loads; returns True if there was one.  Expects normal form."""
    return any([_rewrite(f) for f in module.functions.values()
                if any(op.name in ("copy", "fill") for op in f.all_ops())])


def _rewrite(func: Function) -> bool:
    forest = loop_forest(func)
    if not forest.loops:
        return False
    incoming: dict[Block, list[Edge]] = {b: [e for _, e in es] for b, es in func.predecessors().items()}
    readers = array_users(func.all_ops())
    starts: dict[Op, Op] = {}                                 # load → what makes the array that the loop begins with
    loads: dict[Op, Carried] = {}
    for op in (op for b in func.blocks if forest.loop_of(b) is not None for op in b.ops):
        if op.name == "slice" and base(op) is op.operands[0] or op.name == "get" and isinstance(op.result.type, Scalar):
            carried = carrier(op, forest, incoming)
            start = carried.loop.entry_edge().args[carried.param.index].op if carried is not None else None
            if carried is not None and start is not None and _is_start(start, op, readers):
                loads[op], starts[op] = carried, start
    if not loads:
        return False
    writes = {c: writes_to(func, c, incoming) for c in set(loads.values())}
    judge = _Judge(func, forest, {op: c for op, c in loads.items() if writes[c]}, writes)
    numbers: dict[Value, Value] = {}
    for op in judge.final:
        if starts[op].name == "copy":
            op.operands[0] = starts[op].operands[0]
        else:
            numbers[op.result] = starts[op].operands[0]
    substitute(func, numbers)
    return bool(judge.final)


def _is_start(op: Op, load: Op, readers: Mapping[Value, Sequence[Op]]) -> bool:
    """True if ``load`` may read what the array was made of: a number, or an array that is never changed in place."""
    if op.name != "copy":
        return op.name == "fill" and load.name == "get"
    source = op.operands[0]
    return source.op is None and isinstance(source.type, Array) and all(
        not r.edges and r.name in OPS and not OPS[r.name].view
        and (OPS[r.name].memory is not Memory.UPDATE or r.operands[0] is not source)
        for r in readers[source])


class _Judge(Judge):
    """Decides which loads come before all writes to their elements; ``final`` are those."""

    def stays_clear(self, write: Op, load: Op, read: list[Span], carrier: Loop) -> bool:
        """True if, ahead of the load, no iteration of the loops around both has written to what is read."""
        around = self.around(load, write, carrier)
        for loop in around:
            if self.is_beside(write, read, loop, 0, -1):
                return True
            if not self.is_beside(write, read, loop, 1, -1):
                return False
        return self.precedes(load, write, around[-1])
