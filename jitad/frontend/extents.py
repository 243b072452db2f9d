"""The sizes of a function's results from those of its arguments, where no call is needed to know them.

A size is followed back through the function's IR, and through what it calls, to its parameters; the arithmetic on the
way is emitted again for the caller.  What depends on data, or on how often a loop runs, has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..ir.graph import Block, Function, Module, Op, Value
from ..ir.types import Array, dims_of, is_float
from ..passes.sizes import Solver
from .specialise import FunctionRef

DEPTH = 24                                # of calls, so that recursion ends
_ARITHMETIC = frozenset("add sub mul floordiv mod maximum minimum neg abs select eq ne lt le gt ge and or not".split())


class Argument(Protocol):
    """What is known of an argument: the size of an axis, or the number that it is."""

    def size(self, axis: int) -> Value | None: ...
    def number(self) -> Value | None: ...


class Given:
    """A value at hand, but for its first ``skip`` axes; with ``skip`` a scalar is unknown."""

    def __init__(self, b: Any, value: Value, skip: int = 0) -> None:
        self.b, self.value, self.skip = b, value, skip

    def size(self, axis: int) -> Value | None:
        out: Value = self.b.dim(self.value, axis=axis + self.skip)
        return out

    def number(self) -> Value | None:
        return None if self.skip else self.value


class _Inside:
    """A value of a function that calls another."""

    def __init__(self, within: _Activation, value: Value) -> None:
        self.within, self.value = within, value

    def size(self, axis: int) -> Value | None:
        return self.within.size(self.value, axis)

    def number(self) -> Value | None:
        return self.within.number(self.value)


def result_size(b: Any, module: Module, name: str, args: Sequence[Argument], result: int, axis: int) -> Value | None:
    """The size of an axis of a result of ``@name``, as a value that ``b`` emits, or ``None``."""
    found = _result(b, module, name, args, result, DEPTH)
    return found.size(axis) if found is not None else None


def result_sizes(t: Any, ref: FunctionRef, args: Sequence[Argument],
                 sample: Callable[[], Sequence[Value]]) -> tuple[list[list[Value]], list[tuple[int, int]]]:
    """The sizes of each result of a function, and which axes of which results take a call to know.

    ``sample`` gives arguments for that call, which is made if there is no other way.
    """
    b = t.builder
    known = [[b.const(d) if d is not None else result_size(b, t.module, ref.name, args, i, k)
              for k, d in enumerate(dims_of(kind))] for i, kind in enumerate(ref.result_types)]
    unknown = [(i, k) for i, row in enumerate(known) for k, size in enumerate(row) if size is None]
    if unknown:
        found = b.call_then(ref.name, sample(), ref.result_types)
        for i, k in unknown:
            known[i][k] = b.dim(found[i], axis=k)
    return known, unknown                            # type: ignore[return-value]  # nothing is unknown any more


def _result(b: Any, module: Module, name: str, args: Sequence[Argument], i: int, depth: int) -> Argument | None:
    """A result of a function, or of one that has yet to be derived."""
    func = module.functions.get(name)
    if func is not None:
        returns = [op for op in func.all_ops() if op.name == "return"]
        if len(returns) != 1 or depth == 0 or any(block.term is None for block in func.blocks):
            return None
        return _Inside(_Activation(b, module, func, args, depth), returns[0].operands[i])
    derived = module.derived.get(name)
    base = module.functions.get(derived.base) if derived is not None else None
    if derived is None or base is None:
        return None
    n, wrt = len(base.result_types), derived.wrt
    if derived.kind == "bwd":                                # a cotangent is the accumulator that came in
        arrays = [p for p in wrt if isinstance(base.params[p].type, Array) and p not in base.own]
        return args[len(args) - 1 - len(arrays) + arrays.index(wrt[i])] if wrt[i] in arrays else None
    if i >= n and derived.kind == "vjp":
        return args[wrt[i - n]]
    if i >= n and derived.kind == "jvp":
        i = [k for k, t in enumerate(base.result_types) if is_float(t)][i - n]
    return _result(b, module, derived.base, args[:len(base.params)], i, depth - 1) if i < n else None


class _Activation:
    """A function with what is known of its arguments."""

    def __init__(self, b: Any, module: Module, func: Function, args: Sequence[Argument], depth: int) -> None:
        self.b, self.module, self.func, self.args, self.depth = b, module, func, args, depth
        self.solver = Solver(func)
        self.known: dict[Any, Value | None] = {}
        self.calls = {op.edges[0].block: op for op in func.all_ops() if op.name == "call"}

    def size(self, v: Value, axis: int) -> Value | None:
        if (v, axis) not in self.known:
            self.known[v, axis] = self._size(v, axis)
        return self.known[v, axis]

    def _size(self, v: Value, axis: int) -> Value | None:
        found = self.solver.size((v, axis))
        if isinstance(found, int):
            out: Value = self.b.const(found)
            return out
        if isinstance(found, Value):
            return self.number(found)
        v, axis = found
        source = self._source(v)
        return source.size(axis) if source is not None else None

    def number(self, v: Value) -> Value | None:
        if v not in self.known:
            self.known[v] = self._number(v)
        return self.known[v]

    def _number(self, v: Value) -> Value | None:
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

    def _again(self, op: Op) -> Value | None:
        operands = []
        for x in op.operands:
            if (known := self.number(x)) is None:
                return None
            operands.append(known)
        out: Value = self.b.emit(op.name, *operands, **op.attrs)
        return out

    def _source(self, v: Value) -> Argument | None:
        """Where a parameter comes from: the caller, or a call."""
        block = v.owner
        if not isinstance(block, Block):
            return None
        if block is self.func.entry:
            return self.args[v.index]
        call = self.calls.get(block)
        if call is None or v.index >= len(block.params) - len(call.edges[0].args):
            return None
        args = [_Inside(self, x) for x in call.operands]
        return _result(self.b, self.module, call.attrs["callee"], args, v.index, self.depth - 1)
