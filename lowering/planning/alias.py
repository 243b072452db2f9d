"""Which arrays can share memory.

A *root* is a set of values that may live in one buffer: what an array is updated into, its views, what it becomes
across an edge or in a callee (``Summary``).  Everything that comes off a stack is one root, ``shared``; a root of
which something is pushed is *leaked* and may overlap with it.  Values of other different roots never overlap where one
of them is written: arrays are values that are consumed linearly, so nothing reads a buffer through a second name after
it was written through the first, and the arrays of the caller are never written at all.

So loads and stores carry an alias scope for each root.  It is what lets LLVM keep loads in registers across stores
to other arrays and vectorise without run-time overlap tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.graph import Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array

SCOPE_LIMIT = 96      # each scope's list names all others, so the metadata grows with the square


SHARED, SCALAR = -1, -2


@dataclass(frozen=True)
class Summary:
    """A root for each parameter and each result of a function: a number, ``SHARED``, or ``SCALAR``.

    ``leaked``: the numbers of leaked roots; ``own``: the parameters whose memory is the function's own.  A function
    that never returns, or of which nothing is known yet, has no results that share.
    """

    params: tuple[int, ...]
    results: tuple[int, ...]
    leaked: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()


class Roots:
    """Union-find over the array values of a function; a callee that ``summaries`` lacks may do anything."""

    def __init__(self, func: Function, summaries: Mapping[str, Summary] | None = None) -> None:
        self.func, self.summaries = func, summaries or {}
        self._returned: list[Value] = []
        self._parent: dict[Value, Value] = {}
        self._borrowed: set[Value] = set()
        self._pushed: list[Value] = []
        self._given: list[Value] = []
        self._shared: Value | None = None
        entry = func.entry
        for i, p in enumerate(entry.params):
            if is_array(p) and i not in func.own:
                self._borrowed.add(self.find(p))
        if holds_arrays(func):
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
        return self.find(v) not in self._borrowed and not self.on_stack(v)

    def is_shared(self, v: Value) -> bool:
        """Whether ``v`` may have come off a stack."""
        return self._shared is not None and self.find(self._shared) is self.find(v)

    def is_leaked(self, v: Value) -> bool:
        """Whether ``v`` may lie on a stack that was made here."""
        root = self.find(v)
        return any(self.find(p) is root for p in self._pushed)

    def on_stack(self, v: Value) -> bool:
        """Whether a stack may hold ``v``, so that it outlives what it was made for."""
        return self.is_shared(v) or self.is_leaked(v)

    def held(self) -> set[Value]:
        """The roots whose memory may be in use when they are not: a stack may hold it, or it may become a callee's
        own, which may compute a result there and return or push that.
        """
        shared = [self._shared] if self._shared is not None else []
        return {self.find(v) for v in (*self._pushed, *self._given, *shared)}

    def is_returned(self, v: Value) -> bool:
        """Whether ``v`` may be what the function returns."""
        root = self.find(v)
        return any(self.find(r) is root for r in self._returned if is_array(r))

    def summary(self) -> Summary:
        """What callers need to know."""
        number: dict[Value, int] = {}

        def root(v: Value) -> int:
            if not is_array(v):
                return SCALAR
            return SHARED if self.is_shared(v) else number.setdefault(self.find(v), len(number))

        params = tuple(map(root, self.func.params))
        results = tuple(map(root, self._returned)) if self._returned else _apart(params, self.func)
        return Summary(params, results, frozenset(n for v, n in number.items() if self.is_leaked(v)), own(self.func))

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
        if op.name == "push":
            self._pushed += filter(is_array, op.operands)
        elif op.name == "pop":
            self._share_all(op.results)
        elif op.name == "call":
            self._call(op)
        elif op.name == "return":
            self._return(op)
        for edge in op.edges:
            for param, arg in edge.passed():
                if is_array(arg):
                    self.union(arg, param)

    def _call(self, op: Op) -> None:
        edge, summary = op.edges[0], self.summaries.get(op.attrs["callee"])
        results = edge.results
        if summary is None:
            self._share_all((*op.operands, *results))
            return
        self._given += [op.operands[i] for i in summary.own]
        by_root: dict[int, Value] = {}
        for v, root in zip((*op.operands, *results), summary.params + summary.results, strict=True):
            if root == SHARED:
                self._share_all((v,))
            elif root != SCALAR:
                self.union(by_root.setdefault(root, v), v)
                if root in summary.leaked:
                    self._pushed.append(v)

    def _return(self, op: Op) -> None:
        """What different returns yield in one place is one root, seen from outside."""
        for i, v in enumerate(op.operands):
            if i == len(self._returned):
                self._returned.append(v)
            elif is_array(v):
                self.union(self._returned[i], v)

    def _share_all(self, values: Sequence[Value]) -> None:
        for v in values:
            if is_array(v):
                self._share(v)

    def _share(self, v: Value) -> None:
        if self._shared is None:
            self._shared = self.find(v)
        self.union(self._shared, v)


def is_array(v: Value) -> bool:
    return isinstance(v.type, Array)


def holds_arrays(func: Function) -> bool:
    return any(map(is_array, func.defined()))


def own(func: Function) -> frozenset[int]:
    return frozenset(i for i in func.own if is_array(func.params[i]))


def _apart(params: tuple[int, ...], func: Function) -> tuple[int, ...]:
    """Roots of results that share with nothing."""
    first = 1 + max(params, default=-1)
    return tuple(first + i if isinstance(t, Array) else SCALAR for i, t in enumerate(func.result_types))


def summaries(functions: Mapping[str, Function]) -> dict[str, Summary]:
    """The summaries of functions that may call each other: nothing shares until something says so."""
    found: dict[str, Summary] = {}
    for name, func in functions.items():
        params = tuple(i if is_array(p) else SCALAR for i, p in enumerate(func.params))
        found[name] = Summary(params, _apart(params, func), own=own(func))
    changed = any(op.name == "call" for func in functions.values() for op in func.all_ops())
    while changed:
        changed = False
        for name, func in functions.items():
            new = Roots(func, found).summary()
            changed = changed or new != found[name]
            found[name] = new
    return found
