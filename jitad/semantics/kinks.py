"""Where a program is evaluated exactly at a point at which one of its primitives, or a branch, has no derivative.

The program is evaluated as ever (``evaluate.py``).  A primitive of traced numbers that is at such a point (``KINKS``)
is noted, and so is a comparison of equal floats that decides which way to go.  When the trace is complete, those notes
are told whose operand depends on what is differentiated, and on whose result an output depends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Loc
from ..ir.graph import Derived, Function, Op, Value
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
    """Where x / y is whole, or no number."""
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


# For each op and each operand: where there is no derivative by that operand, or only one from one side.
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

# Ops that have a derivative wherever they have a value.
SMOOTH = frozenset("add sub mul neg exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc".split())

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SHOWN = {**COMPARISONS, "floordiv": "//", "mod": "%", "div": "/", "pow": "**"}


def _ties(op: str, a: Any, axes: tuple[int, ...]) -> Any:
    """The extreme elements of which there are several."""
    if not a.size:
        return np.zeros(a.shape, bool)
    extreme = a == getattr(np, op)(a, axis=axes, keepdims=True)
    return extreme & (np.sum(extreme, axis=axes, keepdims=True) > 1)


def _jumps_to_int(x: Any, kind: str) -> Any:
    return x == 0 if kind == "b" else _whole(x) & (x != 0)


def kinks(op: Op, numbers: Sequence[Any]) -> list[Any]:
    """For each operand where there is no derivative by it; ``None``: there always is."""
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
    """An op at a kink: for each traced operand its variable and where; the variable that the op yields, if any."""

    op: Op
    reads: list[tuple[Var, Any]]
    result: Var | None
    numbers: list[Any]


class Watcher(Evaluator):
    """Evaluates, and tells ``(op, where in the source, operands, how many elements)`` of what it finds."""

    def __init__(self, module: Any, tell: Tell) -> None:
        super().__init__(module)
        self.tell = tell
        self.notes: list[Note] = []
        self.deciding: dict[Op, bool] = {}
        self.readers: dict[Function, dict[Value, list[Op]]] = {}

    def watch(self, name: str, args: Sequence[Any], count: int) -> list[Any]:
        """The results; a program without derivatives is watched as if its first ``count`` arguments were varied."""
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

    # --- what matters -------------------------------------------------------------------------------

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
        """Whether the result becomes an integer: an index, a number of iterations."""
        assert op.block is not None
        readers = self._readers(op.block.func)
        return any(r.name == "cast" and not r.attrs["dtype"].is_float for v in op.results for r in readers.get(v, ()))

    def _decides(self, op: Op) -> bool:
        """Whether a comparison decides which way to go or what to choose, and not only whether to raise."""
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
            table = self.readers[func] = {}
            for block in func.blocks:
                for reader in block.all_ops():
                    for v in reader.used():
                        table.setdefault(v, []).append(reader)
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
    return [p for e in op.edges for a, p in zip(e.args, e.block.params[len(e.block.params) - len(e.args):])
            if a in values]
