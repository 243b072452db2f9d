"""Arrays of which the backward sweep reads nothing but the sizes: the sizes are kept, and not the arrays.

So the adjoint of ``set_slice``, which is a slice as long as what was stored, does not hold on to what was stored; an
array that grows by and by (``frontend/trees/heaps.py``) is not kept at every iteration.  This goes by ways: where an
array is read on another way only, it need not be there on this one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...ir.graph import Block, Function, Op, Value
from ...ir.types import I64, Array
from ...passes.analysis.cfg import substitute


class Sizes:
    """``readers``: of each forward array the forward blocks on whose way back it itself is read; ``None``: anywhere."""

    def __init__(self, dominates: Callable[[Block, Block], bool], home: Mapping[Block, Block]) -> None:
        self.dominates, self.home = dominates, home
        self.readers: dict[Value, set[Block | None]] = {}

    def there(self, v: Value, bars: Collection[Block]) -> bool:
        """Whether an array is kept for others on every way back through these backward blocks."""
        read = self.readers.get(v, set())
        return None in read or all(
            any(b is not None and self.dominates(b, self.home[bar]) for b in read) if bar in self.home else True
            for bar in bars)

    def keep(self, func: Function, forward: Collection[Block], backward: Collection[Block],
             copies: Collection[Block]) -> None:
        """Compute sizes in the forward sweep, where the arrays are made, if those are not there anyway.

        ``copies``: blocks of iterations that are run again.
        """
        asked: dict[Value, list[Op]] = {}
        for block in (*backward, *copies):
            for op in block.all_ops():
                for v in op.used():
                    if isinstance(v.type, Array) and v.block in forward:
                        if op.name == "dim" and block not in copies:
                            asked.setdefault(v, []).append(op)
                        else:
                            self.readers.setdefault(v, set()).add(self.home.get(block))
        found: dict[Value, Value] = {}
        for v, ops in asked.items():
            known: dict[int, Value] = {}
            for op in ops:
                assert op.block is not None
                if v.owner is not func.entry and not self.there(v, [op.block]):
                    axis = op.attrs["axis"]
                    found[op.result] = known[axis] = known.get(axis) or _dim(v, axis)
                    op.block.ops.remove(op)
        substitute(func, found)


def _dim(v: Value, axis: int) -> Value:
    """The size of an array, computed right where the array is."""
    op = Op("dim", [v], [I64], {"axis": axis})
    op.block = v.block
    v.block.ops.insert(v.block.ops.index(v.op) + 1 if v.op is not None else 0, op)
    return op.result
