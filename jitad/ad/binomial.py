"""The binomial checkpointing schedule: any number of iterations is reversed with at most ``c`` saved states.

``steps(m, c, state)`` runs ``m`` iterations, and has the rule ``checkpoint`` (``rules.py``): in the reverse sweep
``split`` replaces it,

    split(m, c, state) = step(state)                                         if m = 1
                         steps(m − p, c − 1, steps(p, c, state))             otherwise,

whose own reverse sweep saves the state in the middle, reverses the second part with one saved state less, and then
reverses the first.  Let β(c, r) = (c + r choose c), the number of iterations that c states can reverse if none runs
more than r times, and let r be the least with β(c, r) ≥ m.  The split at p = min(β(c, r − 1), m − β(c − 1, r − 1))
recomputes the fewest iterations.

A ``while`` loop runs once more to be counted.

Source: Griewank and Walther, "Algorithm 799: revolve" (2000).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..ir.builder import Builder
from ..ir.clone import clone_op
from ..ir.graph import Function, Module, Rule, Value
from ..ir.types import I64, is_float

EVER = (1 << 63) - 1


class Segments(Protocol):
    """A loop whose iterations can be run in segments (``checkpoint.Cut``)."""

    module: Module
    state: list[Value]
    outside: list[Value]
    constants: list[Value]
    next: list[Value]

    @property
    def counted(self) -> bool:
        """True if the trip count is known before the loop."""

    def found(self, results: Sequence[Value]) -> Mapping[Value, Value]:
        """Map the values that the loop leaves to the results of a segment."""


def ruled(module: Module, func: Function, again: Function) -> Function:
    """``func`` with the rule that the reverse sweep runs ``again`` in its place.  It is never inlined."""
    func.attrs["inline"] = "never"
    wrt = tuple(i for i, t in enumerate(func.param_types) if is_float(t))
    module.rules[func.name] = Rule("checkpoint", (again.name,), wrt)
    return func


class Binomial:
    """The functions for one loop; ``segment`` runs some of its iterations."""

    def __init__(self, loop: Segments, segment: Function) -> None:
        self.loop, self.segment, self.module = loop, segment, loop.module
        self.counts = 2 if loop.counted else 1               # parameters of a segment before the state
        types = segment.param_types
        self.types = [*types[:self.counts], I64, *types[self.counts:]]
        self.steps = self._function("steps", self.types)
        b = Builder(self.steps.entry)
        b.ret(self._run(b, *self._parts(self.steps)[::2]))
        ruled(self.module, self.steps, self._split())

    def _function(self, name: str, types: Sequence[object]) -> Function:
        made = Function(self.module.unique_name(f"{self.segment.name}.{name}"), types,        # type: ignore[arg-type]
                        self.segment.result_types)
        made.loc = self.segment.loc
        return self.module.add(made)

    def _parts(self, func: Function) -> tuple[list[Value], Value, list[Value]]:
        """The parameters: (first index and) number of iterations; number of states; the state and other values."""
        return func.params[:self.counts], func.params[self.counts], func.params[self.counts + 1:]

    def _run(self, b: Builder, counts: list[Value], rest: list[Value]) -> list[Value]:
        return b.call_then(self.segment.name, [*counts, *rest], self.segment.result_types)

    def _split(self) -> Function:
        func = self._function("split", self.types)
        counts, c, rest = self._parts(func)
        m = counts[-1]
        one, more = func.new_block("one"), func.new_block("more")
        b = Builder(func.entry)
        b.branch(b.lt(m, 2), one, [], more, [])
        b.at(one)
        b.ret(self._run(b, counts, rest))
        b.at(more)
        p = _middle(b, m, c)
        types = self.segment.result_types
        first = b.call_then(self.steps.name, [*counts[:-1], p, c, *rest], types)
        rest = self._following(b, first, rest)
        start = [b.add(counts[0], p)] if self.loop.counted else []
        b.ret(b.call_then(self.steps.name, [*start, b.sub(m, p), b.sub(c, 1), *rest], types))
        return func

    def _following(self, b: Builder, results: Sequence[Value], rest: list[Value]) -> list[Value]:
        """The state after a segment with these results, and the other values read."""
        loop, outside = self.loop, rest[len(self.loop.state):]
        values = {**dict(zip(loop.outside, outside)), **loop.found(results)}
        for v in loop.constants:
            assert v.op is not None
            copy = clone_op(v.op, values)
            copy.block = b.block
            b.block.ops.append(copy)
        return [*(values[v] for v in loop.next), *outside]

    def whole(self, states: int) -> Function:
        """A function that runs an uncounted loop from start to end."""
        types = self.segment.param_types[1:]
        func, again = self._function("whole", types), self._function("again", types)
        for f in (func, again):
            b = Builder(f.entry)
            results = self._run(b, [b.const(EVER)], f.params)
            if f is again:
                results = b.call_then(self.steps.name, [results[1], b.const(states), *f.params], f.result_types)
            b.ret(results)
        return ruled(self.module, func, again)


def _middle(b: Builder, m: Value, c: Value) -> Value:
    """min(β(c, q), m − β(c − 1, q)) for the least q with β(c, q + 1) ≥ m ≥ 2.

    By β(c, q + 1) = β(c, q) (c + q + 1) / (q + 1), and β(c − 1, q) = β(c, q) c / (c + q).
    """
    loop, found = b.func.new_block("reach"), b.func.new_block("middle")
    q, beta = loop.add_param(I64, "q"), loop.add_param(I64, "beta")
    b.jump(loop, [b.const(0), b.const(1)])
    b.at(loop)
    more = b.add(q, 1)
    following = b.floordiv(b.mul(beta, b.add(c, more)), more)
    b.branch(b.lt(following, m), loop, [more, following], found, [q, beta])
    b.at(found)
    q, beta = found.add_param(I64, "q"), found.add_param(I64, "beta")
    return b.minimum(beta, b.sub(m, b.floordiv(b.mul(beta, c), b.add(c, q))))
