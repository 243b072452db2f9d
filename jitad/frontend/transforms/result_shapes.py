"""Sizes of a function's results computed from those of its arguments, without calling it.

A size is traced back through the IR of the function and of its callees to the parameters.  The arithmetic on the way is
emitted again in the caller.  Sizes that depend on data, or on the trip count of a loop, cannot be computed this way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Array, dims_of, is_float
from ...passes.analysis.sizes import Solver
from ..values.protocol import FunctionRef, Trace

DEPTH = 24                                # limit on nested calls, so that recursion ends
CALLS = 1024                              # limit on all calls, since two calls at each level would make 2**DEPTH
_ARITHMETIC = frozenset("add sub mul floordiv mod maximum minimum neg abs select eq ne lt le gt ge and or not".split())

Answer = Value | None
Question = Generator[Any, Answer, Answer] | Answer          # a generator yields sub-questions and is sent the answers


class Argument(Protocol):
    """An argument of a call: the size of its axes, or its value if it is an integer."""

    def size(self, axis: int) -> Question: ...
    def number(self) -> Question: ...


class Given:
    """An available value without its first ``skip`` axes; with ``skip``, a scalar is unknown."""

    def __init__(self, b: Any, value: Value, skip: int = 0) -> None:
        self.b, self.value, self.skip = b, value, skip

    def size(self, axis: int) -> Question:
        out: Value = self.b.dim(self.value, axis=axis + self.skip)
        return out

    def number(self) -> Question:
        return None if self.skip else self.value


@dataclass(frozen=True)
class _Inside:
    """A value in a function that calls another one."""

    within: _Activation
    value: Value

    def size(self, axis: int) -> Question:
        return self.within.size(self.value, axis)

    def number(self) -> Question:
        return self.within.number(self.value)


def result_sizes(t: Trace, ref: FunctionRef, args: Sequence[Argument],
                 sample: Callable[[], Sequence[Value]]) -> tuple[list[list[Value]], list[tuple[int, int]]]:
    """The sizes of each result of a function, and the (result, axis) pairs whose sizes needed a call.

    ``sample`` returns arguments for that call, which is emitted only if it is needed.
    """
    b, calls = t.builder, _Calls(t.builder, t.module)
    known = [[b.const(d) if d is not None else calls.size_of(ref.name, args, i, k)
              for k, d in enumerate(dims_of(kind))] for i, kind in enumerate(ref.result_types)]
    unknown = [(i, k) for i, row in enumerate(known) for k, size in enumerate(row) if size is None]
    if unknown:
        found = b.call_then(ref.name, sample(), ref.result_types)
        for i, k in unknown:
            known[i][k] = b.dim(found[i], axis=k)
    return known, unknown                            # type: ignore[return-value]  # all sizes are known here


def _answer(question: Question) -> Answer:
    """Answers a question with an explicit stack, since chains of calls may be long."""
    asked: list[Question] = [question]
    last: Answer = None
    while asked:
        now = asked[-1]
        if not isinstance(now, Generator):
            last = now
            asked.pop()
            continue
        try:
            asked.append(now.send(last))
            last = None
        except StopIteration as end:
            asked[-1] = end.value
    return last


class _Calls:
    """The calls that are followed; each function is visited once for the same arguments."""

    def __init__(self, b: Any, module: Module) -> None:
        self.b, self.module = b, module
        self.met: dict[tuple[str, tuple[Any, ...]], _Activation] = {}
        self.bodies: dict[str, _Body | None] = {}

    def size_of(self, name: str, args: Sequence[Argument], result: int, axis: int) -> Answer:
        """The size of an axis of a result of ``@name``, as a value emitted by ``b``, or None."""
        found = self.result(name, args, result, DEPTH)
        return _answer(found.size(axis)) if found is not None else None

    def result(self, name: str, args: Sequence[Argument], i: int, depth: int) -> Argument | None:
        """A result of a function, or of a derived function that has not been made yet; None if unknown."""
        func = self.module.functions.get(name)
        if func is not None:
            within = self._activation(func, args, depth)
            return _Inside(within, within.body.results[i]) if within is not None else None
        derived = self.module.derived.get(name)
        base = self.module.functions.get(derived.base) if derived is not None else None
        if derived is None or base is None:
            return None
        n, wrt = len(base.result_types), derived.wrt
        if derived.kind == "bwd":                            # the cotangent of an array is its accumulator argument
            arrays = [p for p in wrt if isinstance(base.params[p].type, Array) and p not in base.own]
            return args[len(args) - 1 - len(arrays) + arrays.index(wrt[i])] if wrt[i] in arrays else None
        if i >= n and derived.kind == "vjp":
            return args[wrt[i - n]]
        if i >= n and derived.kind == "jvp":
            i = [k for k, t in enumerate(base.result_types) if is_float(t)][i - n]
        return self.result(derived.base, args[:len(base.params)], i, depth - 1) if i < n else None

    def _activation(self, func: Function, args: Sequence[Argument], depth: int) -> _Activation | None:
        key = func.name, tuple(args)
        if key not in self.met:
            body = self._body(func)
            if depth == 0 or body is None or len(self.met) == CALLS:
                return None
            self.met[key] = _Activation(self, body, args, depth)
        return self.met[key]

    def _body(self, func: Function) -> _Body | None:
        if func.name not in self.bodies:
            returns = [op for op in func.all_ops() if op.name == "return"]
            whole = len(returns) == 1 and all(block.term is not None for block in func.blocks)
            self.bodies[func.name] = _Body(func, returns[0].operands) if whole else None
        return self.bodies[func.name]


class _Body:
    """A function with a single return."""

    def __init__(self, func: Function, results: Sequence[Value]) -> None:
        self.entry, self.results, self.solver = func.entry, results, Solver(func)
        self.calls = {op.edges[0].block: op for op in func.all_ops() if op.name == "call"}


class _Activation:
    """A function with its arguments."""

    def __init__(self, calls: _Calls, body: _Body, args: Sequence[Argument], depth: int) -> None:
        self.calls, self.b, self.body, self.args, self.depth = calls, calls.b, body, args, depth
        self.known: dict[Any, Answer] = {}

    def size(self, v: Value, axis: int) -> Question:
        if (v, axis) not in self.known:
            self.known[v, axis] = yield self._size(v, axis)
        return self.known[v, axis]

    def _size(self, v: Value, axis: int) -> Question:
        found = self.body.solver.size((v, axis))
        if isinstance(found, int):
            out: Value = self.b.const(found)
            return out
        if isinstance(found, Value):
            return self.number(found)
        v, axis = found
        source = self._source(v)
        return source.size(axis) if source is not None else None

    def number(self, v: Value) -> Question:
        if v not in self.known:
            self.known[v] = yield self._number(v)
        return self.known[v]

    def _number(self, v: Value) -> Question:
        if v.const is not None:
            out: Value = self.b.const(v.const, v.type)
            return out
        op = v.op
        if op is None:
            source = self._source(v)
            return source.number() if source is not None else None
        if op.name == "dim":
            return self.size(op.operands[0], op.attrs["axis"])
        if op.name not in _ARITHMETIC or is_float(v.type) or isinstance(v.type, Array):
            return None
        return self._again(op)

    def _again(self, op: Op) -> Question:
        operands = []
        for x in op.operands:
            known = yield self.number(x)
            if known is None:
                return None
            operands.append(known)
        out: Value = self.b.emit(op.name, *operands, **op.attrs)
        return out

    def _source(self, v: Value) -> Argument | None:
        """The origin of a parameter: an argument of the function, or the result of a call; None if unknown."""
        block = v.owner
        if not isinstance(block, Block):
            return None
        if block is self.body.entry:
            return self.args[v.index]
        call = self.body.calls.get(block)
        if call is None or v.index >= call.edges[0].offset:
            return None
        args = [_Inside(self, x) for x in call.operands]
        return self.calls.result(call.attrs["callee"], args, v.index, self.depth - 1)
