"""Classes of arrays that may live in one buffer at any time: a partition of the array values of a function.

What joins two values: one is the result of an update or a view of the other; an edge passes one for the other; a callee
puts them into one class (``ClassSummary``); different returns yield them in one place.

All arrays that come off a stack are one class, the *popped* one.  A class of which something is *pushed* on a stack may
overlap with it.  Values of other different classes never overlap where one of them is written: arrays are consumed
linearly, so nothing reads a buffer through a second name after it was written through the first, and the arrays of the
caller are never written at all.  (Two arrays that are read may overlap, whatever their classes.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..graph import Function, Op, Value
from ..ops import OPS, Memory
from ..types import Array

POPPED, SCALAR = -1, -2


@dataclass(frozen=True)
class ClassSummary:
    """A class for each parameter and each result of a function: a number, ``POPPED``, or ``SCALAR``.

    ``pushed``: the numbers of pushed classes; ``own``: the parameters whose memory is the function's own.  A function
    that never returns, or of which nothing is known yet, has no results that share.
    """

    params: tuple[int, ...]
    results: tuple[int, ...]
    pushed: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()


class AliasClasses:
    """Union-find over the array values of a function; a callee that ``summaries`` lacks may do anything.

    The *root* of a class is the value that stands for it.
    """

    def __init__(self, func: Function, summaries: Mapping[str, ClassSummary] | None = None) -> None:
        self.func, self.summaries = func, summaries or {}
        self._returned: list[Value] = []
        self._parent: dict[Value, Value] = {}
        self._borrowed: set[Value] = set()
        self._pushed: list[Value] = []
        self._given: list[Value] = []
        self._popped: Value | None = None
        for i, p in enumerate(func.params):
            if is_array(p) and i not in func.own:
                self._borrowed.add(self.find(p))
        if holds_arrays(func):
            for op in func.all_ops():
                self._visit(op)

    def find(self, v: Value) -> Value:
        """The root of the class of ``v``."""
        parent = self._parent
        above = parent.get(v)
        if above is None:
            parent[v] = v
            return v
        while above is not v:
            parent[v] = above = parent[above]
            v, above = above, parent[above]
        return v

    def union(self, a: Value, b: Value) -> None:
        """Join two classes; the root of ``a`` stands for both."""
        a, b = self.find(a), self.find(b)
        if a is b:
            return
        self._parent[b] = a
        if b in self._borrowed:
            self._borrowed.add(a)

    def same(self, a: Value, b: Value) -> bool:
        return self.find(a) is self.find(b)

    def owned(self, v: Value) -> bool:
        """True if this function made every buffer that ``v`` may stand for, and nobody else holds it."""
        return self.find(v) not in self._borrowed and not self.on_stack(v)

    def is_popped(self, v: Value) -> bool:
        """True if ``v`` may have come off a stack."""
        return self._popped is not None and self.find(self._popped) is self.find(v)

    def is_pushed(self, v: Value) -> bool:
        """True if ``v`` may lie on a stack that was made here."""
        root = self.find(v)
        return any(self.find(p) is root for p in self._pushed)

    def on_stack(self, v: Value) -> bool:
        """True if a stack may hold ``v``, so that it outlives what it was made for."""
        return self.is_popped(v) or self.is_pushed(v)

    def held(self) -> set[Value]:
        """The roots of classes whose memory may be in use when none of their values is: a stack may hold it, or a
        callee may own it, compute a result there, and return or push that."""
        popped = [self._popped] if self._popped is not None else []
        return {self.find(v) for v in (*self._pushed, *self._given, *popped)}

    def is_returned(self, v: Value) -> bool:
        """True if the function may return ``v``."""
        root = self.find(v)
        return any(self.find(r) is root for r in self._returned if is_array(r))

    def summary(self) -> ClassSummary:
        """The summary for callers."""
        number: dict[Value, int] = {}

        def class_of(v: Value) -> int:
            if not is_array(v):
                return SCALAR
            return POPPED if self.is_popped(v) else number.setdefault(self.find(v), len(number))

        params = tuple(map(class_of, self.func.params))
        results = tuple(map(class_of, self._returned)) if self._returned else _apart(params, self.func)
        pushed = frozenset(n for v, n in number.items() if self.is_pushed(v))
        return ClassSummary(params, results, pushed, _own(self.func))

    def members(self) -> dict[Value, list[Value]]:
        """The values of each class, by its root."""
        out: dict[Value, list[Value]] = {}
        for v in list(self._parent):
            out.setdefault(self.find(v), []).append(v)
        return out

    # --- what joins classes ---------------------------------------------------------------------------

    def _visit(self, op: Op) -> None:
        for v in filter(is_array, op.results):
            self.find(v)
        definition = OPS.get(op.name)
        if definition is None:
            self._leave(op)
        elif definition.memory is Memory.STACK:
            self._pushed += filter(is_array, op.operands)
            self._pop(op.results)
        elif definition.memory is not Memory.NEW and is_array(op.result):
            self.union(op.operands[0], op.result)

    def _leave(self, term: Op) -> None:
        if term.name == "call":
            self._call(term)
        elif term.name == "return":
            self._return(term)
        for edge in term.edges:
            for param, arg in edge.passed():
                if is_array(arg):
                    self.union(arg, param)

    def _call(self, op: Op) -> None:
        results, summary = op.edges[0].results, self.summaries.get(op.attrs["callee"])
        if summary is None:
            self._pop((*op.operands, *results))
            return
        self._given += [op.operands[i] for i in summary.own]
        known: dict[int, Value] = {}
        for v, number in zip((*op.operands, *results), summary.params + summary.results, strict=True):
            if number == POPPED:
                self._pop((v,))
            elif number != SCALAR:
                self.union(known.setdefault(number, v), v)
                if number in summary.pushed:
                    self._pushed.append(v)

    def _return(self, op: Op) -> None:
        """Join what different returns yield in one place: the caller cannot tell which it gets."""
        for i, v in enumerate(op.operands):
            if i == len(self._returned):
                self._returned.append(v)
            elif is_array(v):
                self.union(self._returned[i], v)

    def _pop(self, values: Iterable[Value]) -> None:
        for v in filter(is_array, values):
            if self._popped is None:
                self._popped = self.find(v)
            self.union(self._popped, v)


def is_array(v: Value) -> bool:
    return isinstance(v.type, Array)


def holds_arrays(func: Function) -> bool:
    """True if any value of the function is an array."""
    return any(map(is_array, func.defined()))


def _own(func: Function) -> frozenset[int]:
    return frozenset(i for i in func.own if is_array(func.params[i]))


def _apart(params: tuple[int, ...], func: Function) -> tuple[int, ...]:
    """Classes of results that share with nothing."""
    first = 1 + max(params, default=-1)
    return tuple(first + i if isinstance(t, Array) else SCALAR for i, t in enumerate(func.result_types))


def class_summaries(functions: Mapping[str, Function]) -> dict[str, ClassSummary]:
    """The summaries of functions that may call each other: nothing shares until something says so."""
    found: dict[str, ClassSummary] = {}
    for name, func in functions.items():
        params = tuple(i if is_array(p) else SCALAR for i, p in enumerate(func.params))
        found[name] = ClassSummary(params, _apart(params, func), own=_own(func))
    changed = any(op.name == "call" for func in functions.values() for op in func.all_ops())
    while changed:
        changed = False
        for name, func in functions.items():
            new = AliasClasses(func, found).summary()
            changed = changed or new != found[name]
            found[name] = new
    return found
