"""The evaluation of programs, derivatives included.

::

    evaluate f(x)          runs the body of f; primitives as in ``symbolic.apply``, control flow by the numbers
    evaluate vjp f(x, u)   = play (reverse C)(x, u)       where C = record f at x
    evaluate jvp f(x, v)   = play (reverse L)(0, v)       where L = record (u ↦ x_bar of vjp f(x, u)) at 0
    evaluate fwd f(x)      = f(x), x;   evaluate bwd f(…, u, a, x) = a + vjp f(x, u)

``L`` is linear in ``u``, and the reverse derivative of a linear map is its transpose: forward mode by double reverse.
A derivative within a function that is being recorded is evaluated in the same way, on traced values.  Its steps are
played into the trace, which therefore holds only primitives and may be differentiated again, to any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import CompileError
from ..ir.evaluate.interp import UNDEFINED, Activation, Interpreter, argument, follow
from ..ir.graph import Block, Derived, Op, Rule
from ..ir.signature import Signature, signature
from ..ir.types import Stack, is_float
from .differentiate import reverse
from .primitives import is_float as is_float_value
from .symbolic import Traced, apply, apply_ruled, floats, number, play, record
from .trace import Kept, Ruled, Trace


class Evaluator(Interpreter):
    """Runs functions of a module and the derivatives that it asks for, whether or not they have been made."""

    def run(self, name: str, args: Sequence[Any], budget: int | None = None) -> list[Any]:
        """The results of a function, or derivative, as NumPy scalars and arrays; raises the program's exceptions."""
        with np.errstate(all="ignore"):
            return self.evaluate(name, self._arguments(name, args))

    def trace(self, name: str, args: Sequence[Any]) -> Trace:
        """The trace of a function, or derivative, at a point."""
        with np.errstate(all="ignore"):
            return record(lambda x: self.evaluate(name, x), self._arguments(name, args))

    def _arguments(self, name: str, args: Sequence[Any]) -> list[Any]:
        params = self._signature(name).params
        if len(args) != len(params):
            raise CompileError(f"@{name} takes {len(params)} arguments, not {len(args)}")
        return [argument(x, t) for x, t in zip(args, params)]

    def evaluate(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The results of a function, or derivative, on values, which may be traced."""
        if name in self.module.derived:
            what = self.module.derived[name]
            return _DERIVATIVES[what.kind](self, what, list(args))
        if self._has_rule(name) and _any_traced(args):
            return self._by_rule(name, self.module.rules[name], list(args))
        return self._loop(self._function(name), list(args), None)

    # --- the steps of the interpreter -----------------------------------------------------------------

    def _enter(self, calls: list[Activation], term: Op, operands: list[Any]) -> Block:
        """Evaluate a derivative, or a function with a rule, at once and pass its results to the call's continuation."""
        name = term.attrs["callee"]
        if name not in self.module.derived and not (self._has_rule(name) and _any_traced(operands)):
            return super()._enter(calls, term, operands)
        return follow(term.edges[0], calls[-1].values, self.evaluate(name, operands))

    def _apply(self, op: Op, operands: list[Any]) -> Any:
        return apply(op.name, op.attrs, operands)

    def _number(self, x: Any) -> Any:
        return number(x)

    # --- functions with a rule ------------------------------------------------------------------------

    def _has_rule(self, name: str) -> bool:
        """True if a function has a derivative of its own; a checkpoint has that of its body."""
        return name in self.module.rules and self.module.rules[name].kind != "checkpoint"

    def _by_rule(self, name: str, rule: Rule, x: list[Any]) -> list[Any]:
        """Record one step, which is differentiated by the rule."""
        types = self._signature(name).results
        zeros = [] if rule.kind == "vjp" else _zeros(x[i] for i in rule.wrt)
        y = self.evaluate(rule.functions[0], [*map(number, x), *zeros])[:len(types)]
        made = [r for r, t in zip(y, types) if is_float(t)]
        places = [i for i, r in enumerate(y) if is_float_value(r)]
        wrt = tuple(i for i in rule.wrt if x[i] is not UNDEFINED)

        def run(x: list[Any]) -> list[Any]:
            results = self.evaluate(name, x)
            return [results[i] for i in places]

        def pull(values: list[Any]) -> list[Any]:
            x, y_bar = values[:-len(places)], values[-len(places):]
            x_bar = self._pull_by_rule(rule, x, len(types), _where_defined(made, y_bar))
            return [g for i, g in zip(rule.wrt, x_bar, strict=True) if i in wrt]
        return apply_ruled(Ruled(name, wrt, run, pull), x, y)

    def _pull_by_rule(self, rule: Rule, x: list[Any], count: int, y_bar: list[Any]) -> list[Any]:
        """The cotangents of the parameters ``rule.wrt``; a jvp rule is linear in the tangents, and transposed at 0."""
        if rule.kind == "vjp":
            forward, backward = rule.functions[:2]
            return self.evaluate(backward, [*x, *self.evaluate(forward, x)[count:], *y_bar])
        zeros, (function,) = _zeros(x[i] for i in rule.wrt), rule.functions
        tangents = tuple(range(len(x), len(x) + len(zeros)))
        results = len(self._signature(function).results)
        return self._pulled(Derived(function, "vjp", tangents), [*x, *zeros], [*_zeros(y_bar), *y_bar])[results:]

    # --- derivatives ------------------------------------------------------------------------------------

    def _signature(self, name: str) -> Signature:
        known = signature(self.module, name)
        if known is None:
            raise CompileError(f"no function @{name}")
        return known

    def _vjp(self, what: Derived, args: list[Any]) -> list[Any]:
        count = len(self._signature(what.base).params)
        return self._pulled(what, args[:count], args[count:])

    def _pulled(self, what: Derived, x: list[Any], y_bar: list[Any]) -> list[Any]:
        """The results, and the cotangents of ``wrt``."""
        trace = self._recorded(what, x)
        made = [y for y, t in zip(trace.outputs, self._signature(what.base).results) if is_float(t)]
        given = [u for u, y in zip(y_bar, made, strict=True) if y is not UNDEFINED]
        values = play(reverse(trace, float_positions(x, what.wrt)), [*floats(x), *given])
        count = len(trace.outputs)
        return values[:count] + _where_defined([x[i] for i in what.wrt], values[count:])

    def _recorded(self, what: Derived, x: list[Any]) -> Trace:
        """The trace of the function that is differentiated."""
        return record(lambda x: self.evaluate(what.base, x), x)

    def _jvp(self, what: Derived, args: list[Any]) -> list[Any]:
        known = self._signature(what.base)
        x, v = args[:len(known.params)], args[len(known.params):]
        y = self.evaluate(what.base, x)
        zeros = _zeros(r for r, t in zip(y, known.results) if is_float(t))
        linear = record(lambda at: self._pulled(what, at[:len(x)], at[len(x):])[len(y):], [*x, *zeros])
        first, seeds = len(floats(x)), floats(zeros)
        transposed = reverse(linear, range(first, first + len(seeds)))
        given = [u for u, i in zip(v, what.wrt, strict=True) if x[i] is not UNDEFINED]
        return y + _where_defined(zeros, play(transposed, [*floats(x), *seeds, *given])[len(v):])

    def _fwd(self, what: Derived, args: list[Any]) -> list[Any]:
        return [*self.evaluate(what.base, args), Kept(args)]

    def _bwd(self, what: Derived, args: list[Any]) -> list[Any]:
        known = self._signature(what.base)
        passed = sum(i not in known.own and not isinstance(t, Stack) for i, t in enumerate(known.params))
        results = [t for t in known.results if is_float(t)]
        *rest, kept = args[passed:]
        y_bar, accumulators = rest[:len(results)], iter(rest[len(results):])
        x_bar = self._pulled(what, kept.values, y_bar)[len(known.results):]
        with_start = known.accumulated(what.wrt)
        return [_sum(next(accumulators), g) if i in with_start else g for i, g in zip(what.wrt, x_bar)]


_DERIVATIVES = {"vjp": Evaluator._vjp, "jvp": Evaluator._jvp, "fwd": Evaluator._fwd, "bwd": Evaluator._bwd}


def _any_traced(xs: Sequence[Any]) -> bool:
    return any(isinstance(x, Traced) for x in xs)


def float_positions(xs: Sequence[Any], wrt: Sequence[int]) -> list[int]:
    """The positions of the parameters ``wrt`` among the floats."""
    return [len(floats(xs[:i])) for i in wrt if xs[i] is not UNDEFINED]


# A value that a path does not define is undefined there.  It is no input of a trace, and its derivatives are undefined.

def _where_defined(values: Iterable[Any], derivatives: Iterable[Any]) -> list[Any]:
    """The derivative of each value, given those of the defined ones."""
    rest = iter(derivatives)
    return [UNDEFINED if x is UNDEFINED else next(rest) for x in values]


def _zeros(values: Iterable[Any]) -> list[Any]:
    """A zero like each value."""
    return [UNDEFINED if x is UNDEFINED else np.zeros_like(number(x))[()] for x in values]


def _sum(start: Any, x_bar: Any) -> Any:
    return UNDEFINED if x_bar is UNDEFINED else apply("add", {}, [start, x_bar])
