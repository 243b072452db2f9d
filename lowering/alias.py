"""Which arrays can share memory.

A *root* is a set of values that may live in one buffer: what an array is updated into, its views, what it becomes
across an edge.  Everything that comes out of a stack or a call is one root, ``shared``.  Values of different roots
never overlap where one of them is written: arrays are values that are consumed linearly, so nothing reads a buffer
through a second name after it was written through the first, and the arrays of the caller are never written at all.

So loads and stores carry an alias scope for each root (``scopes``).  It is what lets LLVM keep loads in registers
across stores to other arrays and vectorise without run-time overlap tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.graph import Function, Op, Value
from ..ir.ops import OPS
from ..ir.types import Array, Scalar

SCOPE_LIMIT = 96      # each scope's list names all others, so the metadata grows with the square


class Roots:
    """Union-find over the array values of a function."""

    def __init__(self, func: Function) -> None:
        self._parent: dict[Value, Value] = {}
        self._borrowed: set[Value] = set()
        self._shared: Value | None = None
        entry = func.entry
        for i, p in enumerate(entry.params):
            if is_array(p) and i not in func.own:
                self._borrowed.add(self.find(p))
        for op in func.all_ops():
            self._visit(op)

    def find(self, v: Value) -> Value:
        """The value that stands for the root of ``v``."""
        parent = self._parent
        if v not in parent:
            parent[v] = v
        while parent[v] is not v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    def union(self, a: Value, b: Value) -> None:
        a, b = self.find(a), self.find(b)
        if a is b:
            return
        self._parent[b] = a
        if b in self._borrowed:
            self._borrowed.add(a)

    def same(self, a: Value, b: Value) -> bool:
        return self.find(a) is self.find(b)

    def owned(self, v: Value) -> bool:
        """Whether this function made every buffer that ``v`` may stand for, and nobody else holds it."""
        root = self.find(v)
        return root not in self._borrowed and not (self._shared is not None and self.find(self._shared) is root)

    def is_shared(self, v: Value) -> bool:
        """Whether ``v`` came out of a stack or a call, or went into one."""
        return self._shared is not None and self.find(self._shared) is self.find(v)

    def members(self) -> dict[Value, list[Value]]:
        """The values of each root."""
        out: dict[Value, list[Value]] = {}
        for v in list(self._parent):
            out.setdefault(self.find(v), []).append(v)
        return out

    # --- what joins roots -----------------------------------------------------------------------------

    def _visit(self, op: Op) -> None:
        for v in op.results:
            if is_array(v):
                self.find(v)
        definition = OPS.get(op.name)
        if definition is not None and op.results and is_array(op.results[0]):
            for i in (*definition.consumes, *((0,) if definition.view else ())):
                if is_array(op.operands[i]):
                    self.union(op.operands[i], op.results[0])
        for v in self._escapes(op):
            self._share(v)
        for edge in op.edges:
            offset = len(edge.block.params) - len(edge.args)
            for param, arg in zip(edge.block.params[offset:], edge.args):
                if is_array(arg):
                    self.union(arg, param)

    def _escapes(self, op: Op) -> Iterator[Value]:
        """Arrays that someone else may also hold from here on."""
        if op.name in ("push", "pop"):
            yield from (v for v in (*op.operands, *op.results) if is_array(v))
        elif op.name == "call":
            edge = op.edges[0]
            results = edge.block.params[:len(edge.block.params) - len(edge.args)]
            if not all(isinstance(r.type, Scalar) for r in results):    # a stack may hold an argument
                yield from (v for v in (*op.operands, *results) if is_array(v))

    def _share(self, v: Value) -> None:
        if self._shared is None:
            self._shared = self.find(v)
        self.union(self._shared, v)


def is_array(v: Value) -> bool:
    return isinstance(v.type, Array)
