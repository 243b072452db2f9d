"""Live arrays of a function, by their alias classes, and whether one of them may be in the memory of an array.

Classes are a partition: what a join receives from one side is in one class with what it receives from the other.
Where an array is live in the class of another one, its *origins* decide: the values whose memory it may be in, found
backwards along edges, updates and views.  A loop may update its own copy of zeros, although a path around the loop
passes on the zeros themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from ..graph import Edge, Function, Value
from ..ops import OPS, Memory
from .alias_classes import AliasClasses, is_array

MOST = 32
"""The most values that a search for origins visits, and the most live arrays of a class for which there is one."""


class Origins:
    """The origins of arrays; ``taken``: result → the operand whose memory it takes over."""

    def __init__(self, func: Function, taken: Mapping[Value, Value]) -> None:
        self.func, self.taken = func, taken

    @cached_property
    def _edges(self) -> dict[Value, list[Edge]]:
        """The edges that lead to each parameter."""
        found: dict[Value, list[Edge]] = {}
        for block in self.func.blocks:
            for edge in block.term.edges if block.term is not None else ():
                for p in filter(is_array, edge.block.params):
                    found.setdefault(p, []).append(edge)
        return found

    def of(self, v: Value) -> set[Value] | None:
        """The values that own the memory in which ``v`` may be; None if there are too many, or nobody knows."""
        found, seen, todo = set[Value](), {v}, [v]
        while todo:
            if len(seen) > MOST:
                return None
            v = todo.pop()
            above: list[Value | None] = [e.argument(v) for e in self._edges.get(v, ())]
            if v.op is not None:
                memory = OPS[v.op.name].memory
                if memory is Memory.STACK:
                    return None
                source = self.taken.get(v) or (v.op.operands[0] if memory is not Memory.NEW else None)
                above = [source] if source is not None else []
            if not above:
                found.add(v)
            for w in above:
                if w is None:                                # what a call returns
                    return None
                if w not in seen:
                    seen.add(w)
                    todo.append(w)
        return found


class LiveArrays:
    """A set of live values, by the root of their alias class."""

    def __init__(self, roots: AliasClasses, origins: Origins, values: Iterable[Value]) -> None:
        self.roots, self.origins = roots, origins
        self._values: set[Value] = set()
        self._of_class: dict[Value, set[Value]] = {}
        self.add(values)

    def add(self, values: Iterable[Value]) -> None:
        known, find, of_class = self._values, self.roots.find, self._of_class
        for v in values:
            if v not in known:
                known.add(v)
                of_class.setdefault(find(v), set()).add(v)

    def remove(self, values: Iterable[Value]) -> None:
        for v in values:
            if v in self._values:
                self._values.remove(v)
                self._of_class[self.roots.find(v)].remove(v)

    def shares(self, v: Value) -> bool:
        """True if a live value may be in the memory of ``v``."""
        live = self._of_class.get(self.roots.find(v))
        if not live or len(live) > MOST or v in live:
            return bool(live)
        own = self.origins.of(v)
        return own is None or any((other := self.origins.of(w)) is None or not own.isdisjoint(other) for w in live)

    def union(self, v: Value, other: Value) -> None:
        """Join two classes."""
        together = set[Value]().union(*(self._of_class.pop(root, ()) for root in {
            self.roots.find(v), self.roots.find(other)}))
        self.roots.union(v, other)
        self._of_class[self.roots.find(v)] = together
