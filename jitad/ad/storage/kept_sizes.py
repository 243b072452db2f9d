"""Saves only the sizes of arrays of which the reverse sweep reads nothing else.

The adjoint of ``set_slice``, a slice of the same length as the stored array, then does not keep that array alive, and
an array that grows step by step (``frontend/trees/heaps.py``) is not saved at every iteration.  This is decided for
each path: an array that is read on another path only need not be saved on this one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import Axis
from ...ir.types import I64, Array
from ...passes.analysis.cfg import substitute
from ...passes.analysis.sizes import Solver


class Sizes:
    """``readers``: for each forward array, the forward blocks whose reverse blocks read its elements; None: any.

    ``is_seen``: whether values of the first block are saved for readers of the second: a loop around it is around both.
    """

    def __init__(self, dominates: Callable[[Block, Block], bool], is_seen: Callable[[Block, Block], bool],
                 home: Mapping[Block, Block]) -> None:
        self.dominates, self.is_seen, self.home = dominates, is_seen, home
        self.readers: dict[Value, set[Block | None]] = {}

    def there(self, v: Value, bars: Collection[Block]) -> bool:
        """True if an array is saved for other readers on every path through these reverse blocks."""
        read = self.readers.get(v, set())
        return None in read or all(
            any(b is not None and self.dominates(b, self.home[bar]) for b in read) if bar in self.home else True
            for bar in bars)

    def keep(self, func: Function, forward: Collection[Block], backward: Collection[Block],
             copies: Collection[Block]) -> None:
        """Compute sizes in the forward sweep, next to the arrays, unless the arrays are saved anyway.

        ``copies``: blocks of iterations that are recomputed.
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
        known: dict[Axis, Value] = {}
        if not asked:
            return
        sizes = Solver(func)
        for v, ops in asked.items():
            for op in ops:
                assert op.block is not None
                if v.owner is not func.entry and not self.there(v, [op.block]):
                    size = sizes.size(own := (v, op.attrs["axis"]))
                    # That of a parameter is known in both sweeps.
                    axis = size if isinstance(size, tuple) and size[0].owner is func.entry else own
                    seen = size if isinstance(size, Value) and self.is_seen(size.block, v.block) else None
                    found[op.result] = seen or known.get(axis) or _dim(*axis)
                    known[axis] = found[op.result]
                    op.block.ops.remove(op)
        substitute(func, found)


def _dim(v: Value, axis: int) -> Value:
    """The size of an array, computed directly after its definition."""
    op = Op("dim", [v], [I64], {"axis": axis})
    op.block = v.block
    v.block.ops.insert(v.block.ops.index(v.op) + 1 if v.op is not None else 0, op)
    return op.result
