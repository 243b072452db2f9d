"""Buffer placement: which loop parameters keep one address, and which arrays may live in the stack frame.

*Steady* (loop-invariant address): an array parameter of a loop's head is steady if each iteration passes on the
memory that it received, because the loop only updates the array in place.  It needs no phi: its pointer is that of
the entry edge's argument.

*Slotted*: an array parameter of a loop's head that is not steady, but has a small known number of elements, has a
slot of its own in the stack frame.  Every edge to the head copies its argument there.

*Local*: an array with a small known number of elements may be an ``alloca``, which LLVM turns into registers.
Nothing outside of the function may hold it.  Returned arrays are copied, but a callee that owns the array may compute
its result in that memory.  The array must also be dead when its op runs again: it must not be carried around a loop
that holds the op, except in slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from ...passes.analysis.loops import Loop, LoopForest
from .fusion import Plan

LOCAL_LIMIT = 64      # elements
INLINE, MANY = 2, 20
"""Number of arrays that a function allocates by inline code.  It calls a routine for further arrays, and for all if it
computes more than ``MANY``: inline code costs compile time, a call 2 ns."""


class Places:
    """The placement of the arrays of one function."""

    def __init__(self, func: Function, plan: Plan, forest: LoopForest) -> None:
        self.func, self.plan, self.forest = func, plan, forest
        self.heads = {loop.head: loop for loop in forest.loops}
        self.preds = func.predecessors()
        self.steady: set[Value] = set()
        self._find_steady()
        self._carried: dict[Value, set[Loop]] = {}
        self._held = plan.roots.held()
        self.slotted: set[Value] = set()
        self._small_roots: set[Value] | None = None
        self._find_slotted()

    # --- steady parameters --------------------------------------------------------------------------

    def _find_steady(self) -> None:
        """Assume that all candidates are steady; drop those that an iteration contradicts, until a fixed point."""
        for head, loop in self.heads.items():
            if len(self._entries(loop)) == 1:
                self.steady |= {p for p in head.params if isinstance(p.type, Array)}
        changed = bool(self.steady)
        while changed:
            source = self.sources()
            wrong = {p for p in self.steady for arg in self._passed_on(p)
                     if arg is None or source.get(arg) is not source.get(p)}
            self.steady -= wrong
            changed = bool(wrong)

    def _entries(self, loop: Loop) -> list[Edge]:
        return [e for b, e in self.preds[loop.head] if b not in loop.blocks]

    def _passed_on(self, p: Value) -> Iterator[Value | None]:
        loop = self.heads[p.block]
        for b, e in self.preds[p.block]:
            if b in loop.blocks:
                yield e.argument(p)

    def sources(self) -> dict[Value, Value]:
        """Map each array to the value whose memory it is, as far as that is one value."""
        source: dict[Value, Value] = {}
        for block in self.forest.dom.order:
            for p in block.params:
                source[p] = self._source_of_param(block, p, source)
            for op in block.ops:
                for v in op.results:
                    under = self._worked_on(v)
                    source[v] = source.get(under, under) if under is not None else v
        return source

    def _source_of_param(self, block: Block, p: Value, source: dict[Value, Value]) -> Value:
        edges = self.preds[block]
        if block in self.heads:
            entries = self._entries(self.heads[block]) if p in self.steady else []
            edges = [(b, e) for b, e in edges if e in entries]
        found = set()
        for b, e in edges:
            a = e.argument(p)
            given = a if a is not None else _shared_by_threads(b.term, p)
            found.add(source.get(given, given) if given is not None else p)
        return found.pop() if len(found) == 1 else p

    def _worked_on(self, v: Value) -> Value | None:
        """The operand whose memory the op returns as its result, or None if the result has memory of its own."""
        op = v.op
        if op is None or not isinstance(v.type, Array):
            return None
        if v in self.plan.reuse:
            return self.plan.reuse[v]
        consumes = OPS[op.name].consumes
        if consumes or op.name == "as_type":
            return op.operands[0]
        return None

    def is_fixed(self, p: Value, part: int) -> bool:
        """True if a part of a loop head's parameter is loop-invariant: a pointer that is fixed, or a literal size."""
        if p in self.steady or p in self.slotted:
            return True
        return isinstance(p.type, Array) and part > 0 and p.type.dims[part - 1] is not None

    # --- local arrays ---------------------------------------------------------------------------------

    def _find_slotted(self) -> None:
        """Give slots to all small arrays whose memory cannot be carried in a parameter without a slot."""
        moving = {p: loop for head, loop in self.heads.items() for p in head.params
                  if isinstance(p.type, Array) and p not in self.steady}
        for p, loop in moving.items():
            if not is_small(p.type):
                self._carried.setdefault(self.plan.roots.find(p), set()).add(loop)
        for p, loop in moving.items():
            if not is_small(p.type):
                continue
            if self.is_held(p) or self.plan.roots.find(p) in self._carried:
                self._carried.setdefault(self.plan.roots.find(p), set()).add(loop)
            else:
                self.slotted.add(p)

    def is_held(self, v: Value) -> bool:
        """True if a stack may hold ``v``, or if a callee's result may be in its memory."""
        return self.plan.roots.find(v) in self._held

    def is_local(self, v: Value) -> bool:
        """True if the op that makes ``v`` may put it into the stack frame."""
        if not is_small(v.type) or self.is_held(v):
            return False
        return not any(v.block in loop.blocks for loop in self._carried.get(self.plan.roots.find(v), ()))

    def may_be_local(self, v: Value) -> bool:
        """True if ``v`` may be in the stack frame on some path at least."""
        if self._small_roots is None:
            find = self.plan.roots.find
            made = [r for b in self.forest.dom.order for op in b.ops for r in op.results]
            self._small_roots = {find(r) for r in (*made, *self.slotted) if is_small(r.type)}
        return not self.is_held(v) and self.plan.roots.find(v) in self._small_roots


def _shared_by_threads(call: Op | None, result: Value) -> Value | None:
    """The array that a loop on several threads takes, and that its result is (``threads/parallel_calls.py``)."""
    if call is None or "threads" not in call.attrs or "left" in call.attrs or not isinstance(result.type, Array):
        return None
    return call.operands[2 + result.index]


def made_in_place(func: Function) -> int:
    """The number of arrays that ``func`` allocates by inline code."""
    return INLINE if sum(isinstance(v.type, Array) for v in func.defined()) <= MANY else 0


def is_small(t: object, limit: int = LOCAL_LIMIT) -> bool:
    """True if ``t`` is an array type with literal sizes and at most ``limit`` elements."""
    return isinstance(t, Array) and None not in t.dims and prod(d or 0 for d in t.dims) <= limit
