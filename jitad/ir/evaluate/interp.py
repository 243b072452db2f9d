"""The reference interpreter, which defines the meaning of modules.

Slow and simple: one NumPy call an op (``meaning.py``), a dict of values for each frame, and an explicit call stack, so
that only memory limits recursion.  Arrays are values: an op that consumes an array works on a copy.  With ``in_place``
it works on the array itself, like machine code; after the pass ``copy_insertion`` both give the same result.

``counts`` and ``elements`` record how often each op ran and how many elements it touched, ``kept`` the most that a
stack held; complexity tests read them.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import CompileError, JitadError
from ..graph import Block, Edge, ExcInfo, Filled, Function, Module, Op, Operand, Value
from ..ops import CONSUMING, OPS
from ..strings import strings
from ..text.printer import FunctionPrinter
from ..types import STACK, Array, Stack, Type, dims_of, dtype_of
from .meaning import MEANING, conforms, work


class BudgetExceeded(JitadError):
    """The program took more steps than ``run`` allows."""


class Undefined:
    """The result of ``undef``.  Arithmetic on it gives it again; a branch or a check on it is a bug."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


@dataclass(frozen=True)
class Frames:
    """A stack value: the values that were pushed together, and the stack below (None for the empty stack).

    ``elements`` and ``depth`` count everything reachable: frames below, and stacks on the stack.
    """

    below: Frames | None
    values: tuple[Any, ...]
    elements: int
    depth: int


EMPTY = Frames(None, (), 0, 0)


def _pushed(below: Frames, values: list[Any]) -> Frames:
    inner = [v for v in values if isinstance(v, Frames)]
    return Frames(below, tuple(values), below.elements + _elements(values) + sum(s.elements for s in inner),
                  below.depth + 1 + sum(s.depth for s in inner))


@dataclass(slots=True)
class Activation:
    """A running function: its values, and the edge by which it returns."""

    func: Function
    values: dict[Value, Any]
    then: Edge | None


def exception(info: ExcInfo, values: Sequence[Any] = ()) -> BaseException:
    """The Python exception that a ``raise``, or a failed ``check``, throws with these operands."""
    cls: Any = info.cls if info.cls is not None else getattr(builtins, info.kind)
    known = [v.item() if isinstance(v, np.generic) else v for v in values]
    for k in info.texts:
        known[k] = strings.all[known[k]]
    if info.args is not None:
        made = cls(*_filled(info.args, known))
    elif info.message is None:
        made = cls()
    else:
        made = cls(info.message.format(*known))
    assert isinstance(made, BaseException)
    return made


def _filled(x: Any, values: Sequence[Any]) -> Any:
    """Arguments of an exception with their ``Operand`` and ``Filled`` places replaced."""
    if isinstance(x, Operand):
        return values[x.number]
    if isinstance(x, Filled):
        return x.text.format(*values)
    if isinstance(x, list):
        return [_filled(item, values) for item in x]
    if isinstance(x, tuple):
        items = [_filled(item, values) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


class Interpreter:
    """Runs functions of a module.

    ``counts``: times each op ran; ``elements``: elements that it touched; ``steps``: all ops run;
    ``kept``, ``kept_frames``: the most elements, and frames, that one stack held.
    """

    def __init__(self, module: Module, in_place: bool = False, max_depth: int = 100_000) -> None:
        self.module, self.in_place, self.max_depth = module, in_place, max_depth
        self.reset()

    def reset(self) -> None:
        """Set the counters to zero."""
        self.counts: Counter[str] = Counter()
        self.elements: Counter[str] = Counter()
        self.steps = self.kept = self.kept_frames = 0

    def run(self, name: str, args: Sequence[Any], budget: int | None = None) -> list[Any]:
        """The results of a function as NumPy scalars and arrays; ``budget`` bounds the number of ops run.

        Raises the program's exceptions, ``RecursionError``, and ``BudgetExceeded``.
        """
        func = self._function(name)
        if len(args) != len(func.params):
            raise CompileError(f"@{name} takes {len(func.params)} arguments, not {len(args)}")
        end = None if budget is None else self.steps + budget
        with np.errstate(all="ignore"):
            return self._loop(func, [self.argument(a, p.type) for a, p in zip(args, func.params)], end)

    def argument(self, x: Any, t: Type) -> Any:
        """An argument from outside as a value of type ``t``."""
        return argument(x, t)

    # --- control ------------------------------------------------------------------------------------

    def _loop(self, func: Function, args: list[Any], end: int | None) -> list[Any]:
        calls = [Activation(func, dict(zip(func.params, args, strict=True)), None)]
        block = func.entry
        while True:
            frame = calls[-1]
            values = frame.values
            for op in block.ops:
                self._execute(op, values)
            term = block.term
            if term is None:
                raise CompileError(f"{block} of @{frame.func.name} has no terminator")
            self.counts[term.name] += 1
            self.steps += len(block.ops) + 1
            if end is not None and self.steps > end:
                raise BudgetExceeded(f"more than the {end} steps allowed")
            operands = [values[v] for v in term.operands]
            if term.name == "call":
                block = self._enter(calls, term, operands)
            elif term.name == "return":
                calls.pop()
                if not calls:
                    return operands
                assert frame.then is not None
                block = follow(frame.then, calls[-1].values, operands)
            elif term.name == "raise":
                raise exception(self.module.exceptions[term.attrs["exc"]], [self._number(x) for x in operands])
            else:
                block = follow(_choose(term, operands, frame.func), values)

    def _enter(self, calls: list[Activation], term: Op, operands: list[Any]) -> Block:
        """Start a call; returns the block in which execution continues."""
        if len(calls) >= self.max_depth:
            raise RecursionError("maximum recursion depth exceeded")
        callee = self._function(term.attrs["callee"])
        calls.append(Activation(callee, dict(zip(callee.params, operands, strict=True)), term.edges[0]))
        return callee.entry

    def _function(self, name: str) -> Function:
        if name in self.module.functions:
            return self.module.functions[name]
        if name in self.module.derived:
            raise CompileError(f"@{name} has not been differentiated yet")
        raise CompileError(f"no function @{name}")

    # --- operations ---------------------------------------------------------------------------------

    def _execute(self, op: Op, values: dict[Value, Any]) -> None:
        name = op.name
        self.counts[name] += 1
        operands = [values[v] for v in op.operands]
        special = _SPECIAL.get(name)
        if special is not None:
            special(self, op, operands, values)
            return
        for x in operands:
            if x is UNDEFINED:
                values[op.results[0]] = self._with_undefined(op, operands)
                return
        try:
            result = self._apply(op, operands)
        except (CompileError, ValueError, IndexError) as e:
            raise CompileError(f"{e}\n  in {_line(op)}") from e
        t = op.results[0].type
        if not conforms(self._number(result), t):
            raise CompileError(f"{_line(op)}\n  yields {_describe(result)}, not {t}")
        values[op.results[0]] = result

    def _apply(self, op: Op, operands: list[Any]) -> Any:
        """The result of an op."""
        name = op.name
        if name in CONSUMING and not self.in_place:
            for i in OPS[name].consumes:
                operands[i] = operands[i].copy()
        result = MEANING[name](op.attrs, *operands)
        self.elements[name] += work(name, operands, result)
        return result

    def _with_undefined(self, op: Op, operands: list[Any]) -> Any:
        """The result of an op on an undefined value.

        An update returns the array unchanged, and a choice must not depend on it.  The size of an undefined array is 0,
        as in machine code; adjoints of paths that are not taken have this size.
        """
        if op.name == "dim":
            return np.int64(0)
        if op.name == "select" and operands[0] is not UNDEFINED and np.ndim(operands[0]) == 0:
            chosen = operands[1 if operands[0] else 2]
            return chosen if conforms(self._number(chosen), op.results[0].type) else UNDEFINED
        return operands[0] if OPS[op.name].consumes else UNDEFINED

    def _number(self, x: Any) -> Any:
        """The NumPy value of a value."""
        return x

    def _undef(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        values[op.result] = UNDEFINED

    def _stack_empty(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        values[op.result] = EMPTY

    def _push(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        stack = values[op.result] = _pushed(operands[0], operands[1:])
        self.elements["push"] += _elements(operands[1:])
        self.kept, self.kept_frames = max(self.kept, stack.elements), max(self.kept_frames, stack.depth)

    def _pop(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        stack, *sizes = operands
        types = [r.type for r in op.results[1:]]
        if stack.below is None and op.attrs.get("zeros"):
            values.update(zip(op.results, (EMPTY, *_zeros(types, sizes))))
            return
        if stack.below is None:
            raise CompileError(f"nothing on the stack\n  in {_line(op)}")
        if len(stack.values) != len(types) or not all(map(_fits, map(self._number, stack.values), types)):
            raise CompileError(f"{_line(op)}\n  finds {', '.join(map(_describe, stack.values))}")
        self.elements["pop"] += _elements(stack.values)
        values.update(zip(op.results, (stack.below, *stack.values)))

    def _check(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        condition, *rest = operands
        if condition is UNDEFINED:
            raise CompileError(f"looks at an undefined value: {_line(op)}")
        if not condition:
            raise exception(self.module.exceptions[op.attrs["exc"]], [self._number(x) for x in rest])


_SPECIAL: dict[str, Callable[[Interpreter, Op, list[Any], dict[Value, Any]], None]] = {
    "undef": Interpreter._undef, "stack_empty": Interpreter._stack_empty, "push": Interpreter._push,
    "pop": Interpreter._pop, "check": Interpreter._check,
}


def follow(edge: Edge, values: dict[Value, Any], results: Sequence[Any] = ()) -> Block:
    """Set the parameters of an edge's block, in parallel; returns the block."""
    args = [*results, *(values[v] for v in edge.args)]
    values.update(zip(edge.block.params, args, strict=True))
    return edge.block


def _choose(term: Op, operands: list[Any], func: Function) -> Edge:
    """The edge that a jump, branch or switch takes."""
    if term.name == "jump":
        return term.edges[0]
    (selector,) = operands
    if selector is UNDEFINED:
        raise CompileError(f"looks at an undefined value: {_line(term)}")
    if term.name == "branch":
        return term.edges[0 if selector else 1]
    return term.edges[int(selector) if 0 <= selector < len(term.edges) else -1]


def _elements(values: Iterable[Any]) -> int:
    return sum(int(np.size(v)) for v in values if not isinstance(v, Frames))


def argument(x: Any, t: Type) -> Any:
    """An argument as a value of its type, copied, since the program may own it."""
    if isinstance(t, Stack):
        return x
    value = np.array(x, dtype_of(t).np)[()] if not isinstance(t, Array) else np.array(x, dtype_of(t).np, order="C")
    if not conforms(value, t):
        raise CompileError(f"the argument {_describe(value)} is no {t}")
    return value


def _fits(x: Any, t: Type) -> bool:
    return x is UNDEFINED or (isinstance(x, Frames) if t == STACK else conforms(x, t))


def _zeros(types: Sequence[Type], sizes: Iterable[int]) -> list[Any]:
    """Zeros of these types; ``sizes`` are the sizes of arrays that are not literal."""
    rest = iter(sizes)
    return [EMPTY if isinstance(t, Stack) else
            np.zeros([next(rest) if d is None else d for d in dims_of(t)], dtype_of(t).np)[()] for t in types]


def _describe(x: Any) -> str:
    if isinstance(x, (np.ndarray, np.generic)):
        return f"{x.dtype}{list(x.shape) if x.shape else ''}"
    return repr(x)


def _line(op: Op) -> str:
    where = f" ({op.loc})" if op.loc.line else ""
    if op.block is None:
        return op.name + where
    return f"@{op.block.func.name}: {FunctionPrinter(op.block.func).op(op)}{where}"
