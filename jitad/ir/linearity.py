"""Whether every array update can be done in place: the memory part of ``verify``.

Invariants.  Two values *share* when one may live in the other's memory.  After an op consumed a value, nothing
that shares with it is used on any path.  An op does not consume a value that shares with another of its operands,
nor one that shares with a parameter that the function does not own.

What shares:
  * a view with its array, and with all that it shares with (``OpDef.view``);
  * a block's parameter with the argument that an edge gives it;
  * a stack with what is pushed on it and what is popped from it, and all that is popped from one stack;
  * a call's results with the arguments and with each other, as the callee returns them (``Summary``).
The result of an update does not share: all that did is used up.

The analysis walks the graph forward with one state a block: which pairs of values may share at that point, and
which values may be used up.  Both grow until nothing changes.  Sharing is a relation at a point, not a partition of
the function's values, so loops that exchange two arrays are no problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .dataflow import fixed_point
from .graph import Block, Edge, Function, Module, Op, Value
from .ops import OPS
from .signature import signature
from .text.printer import FunctionPrinter
from .types import Scalar, Type

Fault = tuple[str, Op, Value]


@dataclass(frozen=True)
class Summary:
    """What a function's results share: (result, parameter) and (result, result) by position."""

    params: frozenset[tuple[int, int]] = frozenset()
    results: frozenset[tuple[int, int]] = frozenset()

    def __or__(self, other: Summary) -> Summary:
        return Summary(self.params | other.params, self.results | other.results)


@dataclass
class State:
    """``shares[v]``: the values that may share with ``v``, as a set of bits; ``dead``: those that are used up."""

    shares: dict[int, int] = field(default_factory=dict)
    dead: int = 0

    def copy(self) -> State:
        return State(dict(self.shares), self.dead)

    def with_self(self, v: int) -> int:
        return self.shares.get(v, 0) | 1 << v

    def forget(self, v: int) -> None:
        """``v`` is about to get a new value: its old one shares with nothing any more."""
        for w in _bits(self.shares.pop(v, 0)):
            self.shares[w] &= ~(1 << v)
        self.dead &= ~(1 << v)

    def share(self, v: int, others: int) -> None:
        others &= ~(1 << v)
        if others:
            self.shares[v] = self.shares.get(v, 0) | others
            for w in _bits(others):
                self.shares[w] = self.shares.get(w, 0) | 1 << v

    def join(self, other: State) -> bool:
        """Take in another path's state; whether that changed anything."""
        before = self.dead
        self.dead |= other.dead
        changed = self.dead != before
        for v, others in other.shares.items():
            old = self.shares.get(v, 0)
            if others | old != old:
                self.shares[v] = others | old
                changed = True
        return changed


class Memory:
    """The analysis of a module: summaries of all functions, then faults of each."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.summaries = {name: Summary() for name in module.functions}
        callers: dict[str, set[str]] = {name: set() for name in module.functions}
        for func in module.functions.values():
            for op in func.all_ops():
                if op.name == "call" and op.attrs["callee"] in callers:
                    callers[op.attrs["callee"]].add(func.name)
        todo = dict.fromkeys(module.functions)
        while todo:
            name = next(iter(todo))
            del todo[name]
            found = _Flow(self, module.functions[name]).summary
            if found != self.summaries[name]:
                self.summaries[name] = found
                todo.update(dict.fromkeys(callers[name]))

    def summary(self, name: str) -> Summary:
        """What the results of ``@name`` share; before it is derived, anything with anything."""
        if name in self.summaries:
            return self.summaries[name]
        known = signature(self.module, name)
        assert known is not None, name
        results = [i for i, t in enumerate(known.results) if _in_memory(t)]
        params = [i for i, t in enumerate(known.params) if _in_memory(t)]
        return Summary(frozenset((r, p) for r in results for p in params),
                       frozenset((r, s) for r in results for s in results if r < s))

    def faults(self, func: Function) -> Iterator[Fault]:
        return iter(_Flow(self, func).faults())


class _Flow:
    """The states of one function."""

    def __init__(self, memory: Memory, func: Function) -> None:
        self.memory, self.func = memory, func
        self.number: dict[Value, int] = {}
        for block in func.blocks:
            for v in (*block.params, *(r for op in block.ops for r in op.results)):
                if _in_memory(v.type):
                    self.number[v] = len(self.number)
        self.borrowed = sum(1 << self.number[p] for i, p in enumerate(func.params)
                            if p in self.number and i not in func.own)
        self.summary = Summary()
        self.found: dict[tuple[Op, Value], Fault] = {}
        self.killer: dict[int, Op] = {}
        self.states: dict[Block, State] = {func.entry: State()}
        if self.number:
            fixed_point(func, self.states, self._block)

    def faults(self) -> Iterator[Fault]:
        """In the order of the text: what was found while states grew holds at their end too."""
        for block in self.func.blocks:
            for op in block.all_ops():
                for v in dict.fromkeys(op.used()):
                    if (op, v) in self.found:
                        yield self.found[op, v]

    # --- transfer -------------------------------------------------------------------------------------

    def _block(self, block: Block) -> Iterator[tuple[Block, State]]:
        state = self.states[block].copy()
        for op in block.ops:
            self._op(state, op)
        term = block.term
        assert term is not None
        self._alive(state, term, term.operands)
        if term.name == "call":
            own = signature(self.memory.module, term.attrs["callee"])
            assert own is not None
            self._consume(state, term, sorted(own.own))
        elif term.name == "return":
            self._return(state, term)
        for edge in term.edges:
            after = state.copy() if len(term.edges) > 1 else state
            self._alive(after, term, edge.args)
            self._edge(after, term, edge)
            yield edge.block, after

    def _op(self, state: State, op: Op) -> None:
        self._alive(state, op, op.operands)
        definition = OPS[op.name]
        self._consume(state, op, definition.consumes)
        results = [self.number[r] for r in op.results if r in self.number]
        with_what = 0
        if definition.view or op.name in ("push", "pop"):
            for v in op.operands if op.name == "push" else op.operands[:1]:
                if v in self.number:
                    with_what |= state.with_self(self.number[v])
        for r in results:
            state.forget(r)
            with_what &= ~(1 << r)                 # the value this name had one iteration ago
        for r in results:
            state.share(r, with_what)
            with_what |= 1 << r

    def _edge(self, state: State, term: Op, edge: Edge) -> None:
        """Give the block its parameters, all at once."""
        offset = edge.offset
        names = {offset + i: 1 << self.number[a] for i, a in enumerate(edge.args) if a in self.number}
        sources = {offset + i: state.with_self(self.number[a]) for i, a in enumerate(edge.args) if a in self.number}
        mutual: frozenset[tuple[int, int]] = frozenset()
        if term.name == "call":
            summary = self.memory.summary(term.attrs["callee"])
            mutual = summary.results
            for result, param in summary.params:
                sources[result] = sources.get(result, 0) | state.with_self(self.number[term.operands[param]])
        params = [(i, self.number[p]) for i, p in enumerate(edge.block.params) if p in self.number]
        for _, p in params:
            state.forget(p)
        new = sum(1 << p for _, p in params)
        for i, p in params:
            state.share(p, sources.get(i, 0) & ~new)
            for j, q in params:
                both = sources.get(i, 0) & names.get(j, 0) or sources.get(j, 0) & names.get(i, 0)
                if j < i and ((j, i) in mutual or both):
                    state.share(p, 1 << q)

    def _return(self, state: State, term: Op) -> None:
        params = [(i, self.number[p]) for i, p in enumerate(self.func.params)
                  if p in self.number and i not in self.func.own]
        results = [(i, self.number[v], state.with_self(self.number[v]))
                   for i, v in enumerate(term.operands) if v in self.number]
        self.summary |= Summary(
            frozenset((r, i) for r, _, shares in results for i, p in params if shares >> p & 1),
            frozenset((r, s) for r, _, shares in results for s, v, _ in results if r < s and shares >> v & 1))

    # --- rules ----------------------------------------------------------------------------------------

    def _alive(self, state: State, op: Op, values: Sequence[Value]) -> None:
        for v in values:
            n = self.number.get(v)
            if n is not None and state.dead >> n & 1 and (op, v) not in self.found:
                line = FunctionPrinter(self.func).op(self.killer[n])
                self.found[op, v] = f"used after its memory was given up: {line}", op, v

    def _consume(self, state: State, op: Op, operands: Sequence[int]) -> None:
        for i in operands:
            v = op.operands[i]
            if v not in self.number:
                continue
            gone = state.with_self(self.number[v])
            others = sum({1 << self.number[w] for j, w in enumerate(op.operands) if j != i and w in self.number})
            if gone & self.borrowed:
                self.found.setdefault((op, v), ("consumes what the function does not own", op, v))
            elif gone & others:
                self.found.setdefault((op, v), ("consumes the memory of another operand", op, v))
            gone &= ~self.borrowed
            state.dead |= gone
            for w in _bits(gone):
                self.killer.setdefault(w, op)


def _in_memory(t: Type) -> bool:
    return not isinstance(t, Scalar)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
