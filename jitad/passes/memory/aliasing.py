"""Which arrays may live in one another's memory at a point of a function, and which are worked on in place.

The relation is that of ``ir.linearity`` (whose ``State`` this uses), with one difference: a block parameter that is
*consumed* (worked on in place somewhere behind) takes its argument over, so it shares with nothing at first (a call's
result shares with the arguments that the callee returns).
``copy_insertion`` sees to it that this is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...ir.dataflow import fixed_point
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.linearity import Memory, State, Summary
from ...ir.ops import CONSUMING, OPS
from ...ir.types import Scalar

WHOLE_VIEWS = frozenset(("as_type", "reshape"))
"""Views that are their array's whole memory, in its order."""


def in_memory(v: Value) -> bool:
    return not isinstance(v.type, Scalar)


def consumed_values(func: Function, owned: Callable[[Op], Iterable[int]]) -> set[Value]:
    """Arrays that may be worked on in place later: directly, as an argument that a call owns, through a view, or as a
    parameter that they are passed for.  ``owned`` gives the operands of a call that it takes over."""
    todo: list[Value] = []
    sources: dict[Value, list[Value]] = {}
    for b in func.blocks:
        for op in b.ops:
            if op.name in CONSUMING:
                todo += [op.operands[i] for i in OPS[op.name].consumes]
        assert b.term is not None
        if b.term.name == "call":
            todo += (b.term.operands[i] for i in owned(b.term))
        for edge in b.term.edges:
            for param, arg in edge.passed():
                if in_memory(param):
                    sources.setdefault(param, []).append(arg)
    found: set[Value] = set()
    while todo:
        v = todo.pop()
        if v in found:
            continue
        found.add(v)
        if v.op is None:
            todo += sources.get(v, ())
        elif OPS[v.op.name].view:
            todo.append(v.op.operands[0])
    return found


class Summaries:
    """What the results of the functions of a module share; looked at only when a call is met."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._memory: Memory | None = None

    def of(self, name: str) -> Summary:
        if self._memory is None:
            self._memory = Memory(self.module)
        return self._memory.summary(name)


class Sharing:
    """``states``: what may share with what at the start of each block, as bits of ``number``."""

    def __init__(self, func: Function, summaries: Summaries, consumed: set[Value]) -> None:
        self.func, self.summaries, self.consumed = func, summaries, consumed
        self.number: dict[Value, int] = {}
        for block in func.blocks:
            for v in (*block.params, *(r for op in block.ops for r in op.results)):
                if in_memory(v):
                    self.number[v] = len(self.number)
        self.states: dict[Block, State] = {func.entry: State()}
        if self.number:
            fixed_point(func, self.states, self._after)

    def bits(self, values: Iterable[Value]) -> int:
        mask = 0
        for v in values:
            n = self.number.get(v)
            if n is not None:
                mask |= 1 << n
        return mask

    def with_self(self, state: State, v: Value) -> int:
        """All that may share with ``v``, itself included."""
        return state.with_self(self.number[v])

    def step(self, state: State, op: Op) -> None:
        """Go past an op that is no terminator."""
        results = [self.number[r] for r in op.results if r in self.number]
        shared = 0
        if OPS[op.name].view or op.name in ("push", "pop"):
            for v in op.operands if op.name == "push" else op.operands[:1]:
                if v in self.number:
                    shared |= state.with_self(self.number[v])
        for r in results:
            state.forget(r)
            shared &= ~(1 << r)                          # the value this name had one iteration ago
        for r in results:
            state.share(r, shared)
            shared |= 1 << r

    def cross(self, state: State, term: Op, edge: Edge) -> None:
        """Go along an edge: the block's parameters get their new values, all at once."""
        sources = self._sources(state, term, edge)
        params = [(p, self.number[p]) for p in edge.block.params if p in self.number]
        given = {p for p, _ in edge.passed()}          # the others are a call's results, which nothing copies
        fresh = {n for p, n in params if p in self.consumed and p in given}
        for _, n in params:
            state.forget(n)
        new, everything = sum(1 << n for _, n in params), (1 << len(self.number)) - 1
        for i, (p, n) in enumerate(params):
            if n in fresh:
                continue
            state.share(n, sources.get(p, 0) & ~new & everything)
            for q, m in params[:i]:
                if m not in fresh and sources.get(p, 0) & sources.get(q, 0):
                    state.share(n, 1 << m)

    def _sources(self, state: State, term: Op, edge: Edge) -> dict[Value, int]:
        """What each parameter's new value may share with, before the edge."""
        sources = {p: state.with_self(self.number[a]) for p, a in edge.passed() if a in self.number}
        if term.name == "call":
            summary = self.summaries.of(term.attrs["callee"])
            for result, param in summary.params:
                p = edge.block.params[result]
                sources[p] = sources.get(p, 0) | state.with_self(self.number[term.operands[param]])
            extra = len(self.number)                     # a bit for each pair of results that share
            for i, (r, s) in enumerate(sorted(summary.results)):
                for p in (edge.block.params[r], edge.block.params[s]):
                    sources[p] = sources.get(p, 0) | 1 << (extra + i)
        return sources

    def _after(self, block: Block) -> Iterator[tuple[Block, State]]:
        state = self.states[block].copy()
        for op in block.ops:
            self.step(state, op)
        assert block.term is not None
        for edge in block.term.edges:
            after = state.copy() if len(block.term.edges) > 1 else state
            self.cross(after, block.term, edge)
            yield edge.block, after
