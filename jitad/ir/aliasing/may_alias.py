"""Pairs of values that may share memory at a point of a function.

Two values *share* when one may live in the other's memory, at a point where both may be used:

* a view with its array, and with all that it shares with;
* a block parameter with the argument that an edge passes for it;
* a stack with what is pushed on it and what is popped from it, and all that is popped from one stack;
* the results of a call with the arguments and with each other, as the callee returns them (``Summary``).

The result of an update shares with nothing: all that its operand shared with is used up.

The analysis walks the graph forward, with one relation for each block, which grows until nothing changes.  Pairs are
kept of values that are live at the start of the block, of its parameters and of those of the function.  It is a
relation at a point, not a partition of the function's values, so loops that exchange two arrays are no problem.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ..dataflow import fixed_point
from ..graph import Block, Edge, Function, Module, Op, Value
from ..ops import OPS, Memory
from ..signature import signature
from ..types import Scalar
from .consumption import in_memory
from .liveness import Liveness


@dataclass(frozen=True)
class Summary:
    """The values that share memory with a function's results: (result, parameter) and (result, result) by position."""

    params: frozenset[tuple[int, int]] = frozenset()
    results: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Pairs:
    """The values that may share with each value, as bits of the values' numbers."""

    shares: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Pairs:
        return Pairs(dict(self.shares))

    def with_self(self, v: int) -> int:
        return self.shares.get(v, 0) | 1 << v

    def forget(self, v: int) -> None:
        """Drop the pairs of ``v``, which is about to get a new value."""
        for w in bits(self.shares.pop(v, 0)):
            self.shares[w] &= ~(1 << v)

    def share(self, v: int, others: int) -> None:
        others &= ~(1 << v)
        if others:
            self.shares[v] = self.shares.get(v, 0) | others
            for w in bits(others):
                self.shares[w] = self.shares.get(w, 0) | 1 << v

    def only(self, wanted: int) -> Pairs:
        """The pairs of those values alone."""
        return Pairs({v: others & wanted for v, others in self.shares.items() if wanted >> v & 1 and others & wanted})

    def join(self, other: Pairs) -> bool:
        """Add another path's pairs; true if that changed anything."""
        changed = False
        for v, others in other.shares.items():
            old = self.shares.get(v, 0)
            if others | old != old:
                self.shares[v] = others | old
                changed = True
        return changed


class Summaries:
    """The summaries of the functions of a module, derived when the first is asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[str, Summary] | None = None

    def of(self, name: str) -> Summary:
        """The summary of ``@name``; of a function still to be derived, every result may share with everything."""
        if self._known is None:
            self._known = {name: Summary() for name in self.module.functions}
            self._solve(self._known)
        if name in self._known:
            return self._known[name]
        known = signature(self.module, name)
        assert known is not None, name
        results = [i for i, t in enumerate(known.results) if not isinstance(t, Scalar)]
        params = [i for i, t in enumerate(known.params) if not isinstance(t, Scalar)]
        return Summary(frozenset((r, p) for r in results for p in params),
                       frozenset((r, s) for r in results for s in results if r < s))

    def _solve(self, known: dict[str, Summary]) -> None:
        """Visit functions until no summary grows; a caller is visited again when a callee's summary grew."""
        callers: dict[str, set[str]] = {name: set() for name in known}
        for func in self.module.functions.values():
            for block in func.blocks:
                if block.term is not None and block.term.name == "call" and block.term.attrs["callee"] in callers:
                    callers[block.term.attrs["callee"]].add(func.name)
        todo = dict.fromkeys(known)
        while todo:
            name = next(iter(todo))
            del todo[name]
            found = MayAlias(self.module.functions[name], self).summary()
            if found != known[name]:
                known[name] = found
                todo.update(dict.fromkeys(callers[name]))


class MayAlias:
    """The relation in one function: ``states`` has the pairs at the start of each block, as bits of ``number``.

    ``taken``: block parameters that take over the memory of their arguments, so that they share with nothing at first.
    Whoever names them sees to it that this is true.  (What a call returns is copied by nobody: it shares all the same.)
    """

    def __init__(self, func: Function, summaries: Summaries, taken: Collection[Value] = ()) -> None:
        self.func, self.summaries, self.taken = func, summaries, taken
        self.number = {v: i for i, v in enumerate(filter(in_memory, func.defined()))}
        self.states: dict[Block, Pairs] = {func.entry: Pairs()}
        self._returned: dict[Op, Pairs] = {}
        self.liveness = Liveness(func, in_memory, self.number)
        self._always = self.bits(func.params)
        if self.number:
            fixed_point(func, self.states, self._after)

    def bits(self, values: Iterable[Value]) -> int:
        """The bits of those of the values that are in memory."""
        mask = 0
        for v in values:
            n = self.number.get(v)
            if n is not None:
                mask |= 1 << n
        return mask

    def with_self(self, pairs: Pairs, v: Value) -> int:
        """All that may share with ``v``, itself included."""
        return pairs.with_self(self.number[v])

    def step(self, pairs: Pairs, op: Op) -> None:
        """Go past an op that is no terminator."""
        results = [self.number[r] for r in op.results if r in self.number]
        if not results:
            return
        shared, definition = 0, OPS[op.name]
        if definition.view or definition.memory is Memory.STACK:
            for v in op.operands:
                if v in self.number:
                    shared |= pairs.with_self(self.number[v])
        for r in results:
            if r in pairs.shares:
                pairs.forget(r)
            if shared:
                shared &= ~(1 << r)                      # the value that this name had one iteration ago
        for r in results if shared or len(results) > 1 else ():
            pairs.share(r, shared)
            shared |= 1 << r

    def cross(self, pairs: Pairs, term: Op, edge: Edge) -> None:
        """Go along an edge: the block's parameters get their new values, all at once."""
        params = [(i, self.number[p]) for i, p in enumerate(edge.block.params) if p in self.number]
        passed = {p.index: a for p, a in edge.passed() if p in self.number and p not in self.taken
                  and not a.undefined}           # which has no memory
        shared = {i: pairs.with_self(self.number[a]) for i, a in passed.items()}
        among = self._results(pairs, term, shared) if term.name == "call" else frozenset()
        for _, n in params:
            pairs.forget(n)
        old = ~sum(1 << n for _, n in params)            # the values that these names had before
        taking: dict[int, int] = {}                      # an argument's number → the parameters that take it
        for i, n in params:
            if i in passed:
                taking[self.number[passed[i]]] = taking.get(self.number[passed[i]], 0) | 1 << n
        taken = sum(1 << a for a in taking)
        at = dict(params)
        for i, n in params:
            mine = shared.get(i, 0)
            pairs.share(n, mine & old)
            for a in bits(mine & taken):
                pairs.share(n, taking[a])
        for i, j in among:
            if i in at and j in at:
                pairs.share(at[i], 1 << at[j])

    def _results(self, pairs: Pairs, call: Op, shared: dict[int, int]) -> frozenset[tuple[int, int]]:
        """Enter into ``shared`` what the results of a call share with arguments; yields the pairs among results."""
        summary = self.summaries.of(call.attrs["callee"])
        for result, param in summary.params:
            shared[result] = shared.get(result, 0) | pairs.with_self(self.number[call.operands[param]])
        return summary.results

    def _after(self, block: Block) -> Iterator[tuple[Block, Pairs]]:
        pairs, term = self.states[block].copy(), block.term
        assert term is not None
        for op in block.ops:
            self.step(pairs, op)
        if term.name == "return":
            self._returned[term] = pairs
        for edge in term.edges:
            after = pairs.copy() if len(term.edges) > 1 else pairs
            self.cross(after, term, edge)
            live = self.liveness.bits_before(edge.block) | self.bits(edge.block.params) | self._always
            yield edge.block, after.only(live)

    def summary(self) -> Summary:
        """The summary for callers.  Own parameters are consumed by the call, so nothing shares with them."""
        with_params, among = set[tuple[int, int]](), set[tuple[int, int]]()
        params = [(i, self.number[p]) for i, p in enumerate(self.func.params)
                  if p in self.number and i not in self.func.own]
        for term, pairs in self._returned.items():
            results = [(r, self.number[v]) for r, v in enumerate(term.operands) if v in self.number]
            for r, v in results:
                shared = pairs.with_self(v)
                with_params |= {(r, i) for i, p in params if shared >> p & 1}
                among |= {(r, s) for s, w in results if r < s and shared >> w & 1}
        return Summary(frozenset(with_params), frozenset(among))


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
