"""A context without a tracer: evaluates rules of ``frontend.arrays`` on their own.

``evaluate(fun, *args)`` calls ``fun(call, *args)`` on stand-ins, where ``call(f, …)`` stands for ``f(…)``, and runs
the recorded IR with the interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitad.errors import Loc, UnsupportedError
from jitad.frontend.arrays import signatures, table
from jitad.frontend.captured.options import Options
from jitad.frontend.operations import argument_errors
from jitad.frontend.values.values import Sym, activate
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import ExcInfo, Function, Module, Value
from jitad.ir.types import BOOL, F64, I64, Array, from_numpy
from jitad.ir.verify import verify

LOC = Loc("program.py", 1)


class Raised(Exception):
    """An exception that a rule raised while tracing, in the form in which the tracer records it."""


class Rules:
    """A ``Context`` that builds one straight function."""

    loc = LOC

    def __init__(self, types: list[Any], boundscheck: bool = True) -> None:
        self.module = Module()
        self.function = self.module.add(Function("f", types))
        self.builder = Builder(self.function.entry, LOC)
        self.size_roots: Any = (None, {})
        self.options = Options(boundscheck=boundscheck)

    def check(self, cond: Any, kind: str, message: str, *values: Any) -> None:
        cond = cond.value if isinstance(cond, Sym) else cond
        if isinstance(cond, bool):
            cond = self.builder.const(cond)
        self.builder.check(cond, self.module.exception(ExcInfo(kind, message, LOC)), *values)

    def compiled_in(self, v: Any, useful: Any) -> Any:
        return v

    def raise_(self, kind: str, message: str, *values: Any) -> Any:
        raise Raised(kind, message)

    def call(self, fun: Any, *args: Any, **kwargs: Any) -> Any:
        rule = table.find(self, fun)
        if rule is None:
            return fun(*args, **kwargs)
        args, kwargs, outs = argument_errors.bound(self, signatures.of_function(fun, rule, 1), fun, args, kwargs)
        assert not outs
        return rule(self, *args, **kwargs)

    def unsupported(self, message: str, hint: str = "") -> Any:
        raise UnsupportedError(message, LOC, hint)

    def binary(self, op: str, x: Any, y: Any) -> Any:
        return table.binary(self, op, x, y)

    def compare(self, op: str, x: Any, y: Any) -> Any:
        return table.compare(self, op, x, y)

    def unary(self, op: str, x: Any) -> Any:
        return table.unary(self, op, x)

    def getitem(self, x: Any, index: Any) -> Any:
        return table.getitem(self, x, index)

    def getattr(self, x: Any, name: str) -> Any:
        if name in table.ATTRIBUTES:
            return table.ATTRIBUTES[name](self, x)
        return lambda *args, **kwargs: self.call_method(name, [x, *args], kwargs)

    def call_method(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        rule = table.METHODS[name]
        call = signatures.of_method(name, rule, 1)
        bound = argument_errors.bound(self, call, getattr(np.ndarray, name, name), args, kwargs)
        return rule(self, *bound[0], **bound[1])


def type_of(x: Any) -> Any:
    """The IR type of an argument: sizes are dynamic, except 1."""
    if isinstance(x, np.ndarray) and x.ndim:
        dtype = from_numpy(x.dtype)
        assert dtype is not None
        return Array(dtype, tuple(1 if n == 1 else None for n in x.shape))
    if isinstance(x, np.generic):
        return from_numpy(x.dtype)
    return BOOL if isinstance(x, bool) else I64 if isinstance(x, int) else F64


def trace(fun: Any, args: tuple[Any, ...], boundscheck: bool = True) -> tuple[Rules, list[Any], Any]:
    """The context, the results as stand-ins, and the result of ``fun``."""
    t = Rules([type_of(x) for x in args], boundscheck)
    syms = [Sym(p, not isinstance(x, (np.ndarray, np.generic))) for p, x in zip(t.function.params, args, strict=True)]
    with activate(t):
        out = fun(t.call, *syms)
        results = [table.lift(t, x) for x in (out if isinstance(out, (tuple, list)) else [out])]
    t.function.result_types = [x.value.type for x in results]
    t.builder.ret([x.value for x in results])
    verify(t.module, linear=False)
    return t, results, out


def evaluate(fun: Any, *args: Any, boundscheck: bool = True) -> Any:
    """The results of ``fun``, as Python scalars if they are weak."""
    t, results, out = trace(fun, args, boundscheck)
    values = [v.item() if s.weak else v for v,
              s in zip(Interpreter(t.module).run("f", list(args)), results, strict=True)]
    return type(out)(values) if type(out) in (tuple, list) else values[0]


def ops_of(fun: Any, *args: Any) -> list[str]:
    """The names of the ops recorded."""
    t, _, _ = trace(fun, args)
    return [op.name for op in t.function.entry.ops]


def plain(fun: Any, *args: Any) -> Any:
    """The result of the same function in NumPy."""
    with np.errstate(all="ignore"):
        return fun(lambda f, *xs, **kw: f(*xs, **kw), *args)


__all__ = ["Raised", "Rules", "Value", "evaluate", "ops_of", "plain", "trace"]
