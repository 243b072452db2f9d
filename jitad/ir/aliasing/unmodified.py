"""Arrays that still are what they were when the reverse sweep comes: nothing updates their memory.

A value is modified if it is consumed under its name or a later one (``ir.aliasing.consumption``), if it is a view of a
modified array, or if the argument that a block parameter received is modified and lives on beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Block, Function, Module, Value
from .consumption import Names, consumed_values


class Unmodified:
    """Calling it with a value yields true if the memory of the value (of what it is a view of) keeps its contents."""

    def __init__(self, func: Function, module: Module, is_live_before: Callable[[Value, Block], bool]) -> None:
        self.is_live_before = is_live_before
        self.names = Names(func)
        self.consumed = consumed_values(func, module)
        self.known: dict[Value, bool] = {}

    def __call__(self, v: Value) -> bool:
        return not self._modified(v)

    def _modified(self, v: Value) -> bool:
        if v not in self.known:
            self.known[v] = False                          # on a cycle: as the rest of it says
            self.known[v] = v in self.consumed or any(map(self._modified, self._lives_on(v)))
        return self.known[v]

    def _lives_on(self, v: Value) -> list[Value]:
        """The names before ``v`` that are still in use beside it."""
        return [u for u in self.names.before(v) if v.op is not None or self.is_live_before(u, v.block)]
