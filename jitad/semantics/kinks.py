"""Finds points at which a program is evaluated where one of its primitives, or a branch, has no derivative.

The program is evaluated as usual (``evaluate.py``).  A primitive of traced numbers at such a point (``KINKS``) is
recorded, and so is a comparison of equal floats that decides control flow.  When the trace is complete, a record is
reported if its operand depends on the differentiated inputs and an output depends on its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Loc
from ..ir.graph import Derived, Function, Op, Value
from ..ir.uses import users
from .evaluate import Evaluator, float_positions
from .partials import PARTIALS
from .symbolic import Traced, number, record
from .trace import Step, Trace, Var

Tell = Callable[[str, Loc, tuple[float, ...], int], None]
Where = Callable[..., Any] | None


# --- the table ------------------------------------------------------------------------------------

def _whole(x: Any) -> Any:
    return np.isfinite(x) & (x == np.floor(x))


def _jump(x: Any, y: Any) -> Any:
    """True where x / y is an integer, or NaN."""
    return (y == 0) | (np.remainder(x, y) == 0)


def _origin(x: Any, y: Any) -> Any:
    return (x == 0) & (y == 0)


def _pole(x: Any) -> Any:
    return (x <= 0) & _whole(x)


def _equal(x: Any, y: Any) -> Any:
    return x == y


def _at(value: float) -> Callable[[Any], Any]:
    return lambda x: x == value


def _at_both(x: Any) -> Any:
    return np.abs(x) == 1


# For each op and each operand: a predicate for points without a derivative by it, or with a one-sided one only.
KINKS: dict[str, tuple[Where, ...]] = {
    "abs": (_at(0),), "sign": (_at(0),),
    "floor": (_whole,), "ceil": (_whole,), "trunc": (lambda x: _whole(x) & (x != 0),),
    "round": (lambda x: np.isfinite(x) & (np.abs(x - np.trunc(x)) == 0.5),),
    "floordiv": (_jump, _jump), "mod": (_jump, _jump),
    "div": (lambda x, y: y == 0, lambda x, y: y == 0),
    "pow": (lambda x, y: (x == 0) & ~(_whole(y) & (y >= 0)), lambda x, y: (x < 0) | ((x == 0) & (y <= 0))),
    "maximum": (_equal, _equal), "minimum": (_equal, _equal),
    "copysign": (lambda x, y: x == 0, lambda x, y: y == 0),
    "hypot": (_origin, _origin),
    "atan2": (lambda y, x: (y == 0) & (x <= 0), lambda y, x: (y == 0) & (x == 0)),
    "sqrt": (_at(0),), "cbrt": (_at(0),),
    "log": (_at(0),), "log2": (_at(0),), "log10": (_at(0),), "log1p": (_at(-1),),
    "asin": (_at_both,), "acos": (_at_both,), "acosh": (_at(1),), "atanh": (_at_both,),
    "lgamma": (_pole,), "digamma": (_pole,), "polygamma": (None, lambda n, x: _pole(x)),
}

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SHOWN = {**COMPARISONS, "floordiv": "//", "mod": "%", "div": "/", "pow": "**", "cast": "int"}


def _ties(op: str, a: Any, axes: tuple[int, ...]) -> Any:
    """The extreme elements, where there are several."""
    if not a.size:
        return np.zeros(a.shape, bool)
    extreme = a == getattr(np, op)(a, axis=axes, keepdims=True)
    return extreme & (np.sum(extreme, axis=axes, keepdims=True) > 1)


def _jumps_to_int(x: Any, kind: str) -> Any:
    return x == 0 if kind == "b" else _whole(x) & (x != 0)


def kinks(op: Op, numbers: Sequence[Any]) -> list[Any]:
    """For each operand a mask of the elements without a derivative by it; None if there always is one."""
    name = op.name
    if name in KINKS:
        return [at and at(*numbers) for at in KINKS[name]]
    if name in ("max", "min"):
        return [_ties(name, numbers[0], op.attrs["axes"])]
    if name == "cast" and not op.attrs["dtype"].is_float:
        return [_jumps_to_int(numbers[0], op.attrs["dtype"].kind)]
    return [numbers[0] == numbers[1]] * 2 if name in COMPARISONS else []


# --- watching -------------------------------------------------------------------------------------

@dataclass
class Note:
    """An op at a kink: for each traced operand its variable and the mask; the variable of the op's result, if any."""

    op: Op
    reads: list[tuple[Var, Any]]
    result: Var | None
    numbers: list[Any]


class Watcher(Evaluator):
    """Evaluates, and calls ``tell(op, location, operands, number of elements)`` for each finding."""

    def __init__(self, module: Any, tell: Tell) -> None:
        super().__init__(module)
        self.tell = tell
        self.notes: list[Note] = []
        self.deciding: dict[Op, bool] = {}
        self.readers: dict[Function, dict[Value, list[Op]]] = {}

    def watch(self, name: str, args: Sequence[Any], count: int) -> list[Any]:
        """The results of a function.

        A program without derivatives is watched as if its first ``count`` arguments were differentiated.
        """
        values = self._arguments(name, args)
        with np.errstate(all="ignore"):
            if self.module.derived:
                return self.evaluate(name, values)
            results: list[Any] = []

            def program(x: list[Any]) -> list[Any]:
                results.extend(self.evaluate(name, x))
                return results
            trace = record(program, values)
            self._judge(trace, float_positions(values, range(count)))
        return [number(y) for y in results]

    def _recorded(self, what: Derived, x: list[Any]) -> Trace:
        trace = super()._recorded(what, x)
        with np.errstate(all="ignore"):
            self._judge(trace, float_positions(x, what.wrt))
        return trace

    def _apply(self, op: Op, operands: list[Any]) -> Any:
        result = super()._apply(op, operands)
        if any(isinstance(x, Traced) for x in operands):
            self._note(op, operands, result)
        return result

    def _note(self, op: Op, operands: list[Any], result: Any) -> None:
        numbers = [number(x) for x in operands]
        reads = [(x.var, at) for x, at in zip(operands, kinks(op, numbers))
                 if isinstance(x, Traced) and at is not None and np.any(at)]
        same = len(reads) == 2 and reads[0][0] is reads[1][0]           # max(x, x)
        if reads and not same and (op.name not in COMPARISONS or self._decides(op)):
            self.notes.append(Note(op, reads, result.var if isinstance(result, Traced) else None, numbers))

    # --- selection of records -----------------------------------------------------------------------

    def _judge(self, trace: Trace, wrt: Sequence[int]) -> None:
        mine = [n for n in self.notes if n.reads[0][0].trace is trace]
        if not mine:
            return
        self.notes = [n for n in self.notes if n.reads[0][0].trace is not trace]
        varies: set[Any] = {trace.inputs[i] for i in wrt}
        for s in trace.steps:
            if any(v in varies for v in _passes(s)):
                varies.update(s.results)
        useful: set[Any] = {y for y in trace.outputs if isinstance(y, Var)}
        for s in reversed(trace.steps):
            if any(r in useful for r in s.results):
                useful.update(_passes(s))
        for n in mine:
            hit = [at for v, at in n.reads if v in varies]
            if hit and (n.result is None or n.result in useful or self._counts(n.op)):
                self._tell(n, np.logical_or.reduce(np.broadcast_arrays(*hit)))

    def _tell(self, n: Note, at: Any) -> None:
        first = tuple(np.argwhere(at)[0])
        values = tuple(float(np.broadcast_to(x, at.shape)[first]) for x in n.numbers)
        self.tell(SHOWN.get(n.op.name, n.op.name), n.op.loc, values, int(np.sum(at)))

    def _counts(self, op: Op) -> bool:
        """True if the result becomes an integer: an index, a number of iterations."""
        assert op.block is not None
        readers = self._readers(op.block.func)
        return any(r.name == "cast" and not r.attrs["dtype"].is_float for v in op.results for r in readers.get(v, ()))

    def _decides(self, op: Op) -> bool:
        """True if a comparison decides control flow or a selection, not only a check."""
        if op not in self.deciding:
            assert op.block is not None
            readers = self._readers(op.block.func)
            todo, seen = list(op.results), set(op.results)
            found = False
            while todo and not found:
                for reader in readers.get(todo.pop(), ()):
                    found |= _chooses(reader)
                    following = [] if reader.name == "check" else [*reader.results, *_passed(reader, seen)]
                    todo += [v for v in following if v not in seen]
                    seen.update(following)
            self.deciding[op] = found
        return self.deciding[op]

    def _readers(self, func: Function) -> dict[Value, list[Op]]:
        if func not in self.readers:
            self.readers[func] = users(func.all_ops())
        return self.readers[func]


def _passes(s: Step) -> list[Var]:
    """The operands through which a derivative passes."""
    partials = PARTIALS.get(s.op) if isinstance(s.op, str) else None
    return [v for i, v in enumerate(s.operands) if isinstance(v, Var) and not (partials and partials[i] is None)]


def _chooses(op: Op) -> bool:
    if op.name in ("branch", "switch"):
        return not any(e.block.term is not None and e.block.term.name == "raise" for e in op.edges)
    return op.name in ("call", "return", "cast", "select", "nonzero", "push")


def _passed(op: Op, values: set[Value]) -> list[Value]:
    """The parameters for which a terminator passes any of ``values``."""
    return [p for e in op.edges for p, a in e.passed() if a in values]
