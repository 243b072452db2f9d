"""Traces: the straight line of primitives that a program executes at a point, once control flow is resolved.

::

    trace   ::= "trace" variable*: step* "return" operand*
    step    ::= variable* "=" primitive attributes? operand*
    operand ::= variable | number

Only floats are variables.  Discrete values (counts, indices, sizes, conditions) are known at the point, and the trace
holds their numbers.  A trace is closed: it has only its own variables, so traces that are taken while another is being
taken cannot be confused.

Expressions of variables append steps: ``-x / (y * y)`` is three of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.ops import OPS
from .primitives import Attrs, yields


@dataclass(frozen=True, eq=False)
class Ruled:
    """A function whose derivative does not come from its body.

    ``run``: values of the operands → the results, of which floats are variables; ``pull``: values of the operands and
    of a cotangent for each of those → cotangents of the operands ``wrt``.
    """

    name: str
    wrt: tuple[int, ...]
    run: Callable[[list[Any]], Sequence[Any]]
    pull: Callable[[list[Any]], Sequence[Any]]


class Var:
    """A variable of a trace; ``shape`` and ``dtype`` are known if the trace was taken at a point."""

    __slots__ = ("trace", "shape", "dtype")
    __array_ufunc__ = None                               # NumPy's numbers defer to the methods below

    def __init__(self, trace: Trace, shape: tuple[int, ...] = (), dtype: Any = None) -> None:
        self.trace, self.shape, self.dtype = trace, shape, dtype

    def __add__(self, y: Any) -> Any:
        return emit("add", self, y)

    def __sub__(self, y: Any) -> Any:
        return emit("sub", self, y)

    def __rsub__(self, y: Any) -> Any:
        return emit("sub", y, self)

    def __mul__(self, y: Any) -> Any:
        return emit("mul", self, y)

    def __truediv__(self, y: Any) -> Any:
        return emit("div", self, y)

    def __rtruediv__(self, y: Any) -> Any:
        return emit("div", y, self)

    def __neg__(self) -> Any:
        return emit("neg", self)

    __radd__, __rmul__ = __add__, __mul__


class Kept:
    """Several values in place of one: those that the forward half of a derivative saves for the reverse half."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values


def emit(op: str, *operands: Any, **attrs: Any) -> Any:
    """Apply a primitive: append a step to the trace of its variables; without variables, return its result."""
    trace = next((x.trace for x in operands if isinstance(x, Var)), None)
    return yields(op, attrs, operands) if trace is None else trace.step(op, attrs, operands)


@dataclass(slots=True, eq=False)
class Step:
    """A primitive, which has one result, or a function with a rule (``Ruled``), which may have several."""

    results: list[Var]
    op: str | Ruled
    attrs: Attrs
    operands: list[Any]                                  # variables and numbers


@dataclass(eq=False)
class Trace:
    inputs: list[Var] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)     # variables and numbers

    def input(self, like: Any) -> Var:
        """Add an input with the shape and dtype of a number or variable."""
        self.inputs.append(Var(self, like.shape, like.dtype))
        return self.inputs[-1]

    def step(self, op: str, attrs: Attrs, operands: Iterable[Any], like: Any = None) -> Var:
        """Append a step; ``like``: its result at the point."""
        result = Var(self) if like is None else Var(self, like.shape, like.dtype)
        self.steps.append(Step([result], op, attrs, list(operands)))
        return result

    def ruled(self, function: Ruled, operands: Iterable[Any], like: Sequence[Any]) -> list[Var]:
        """Append a step that applies a function; ``like``: its floats at the point, or variables of their shapes."""
        results = [Var(self, x.shape, x.dtype) for x in like]
        self.steps.append(Step(results, function, {}, list(operands)))
        return results

    def copy(self) -> Trace:
        """A copy with variables of its own."""
        new = Trace()
        of: dict[Any, Var] = {x: new.input(x) for x in self.inputs}
        renamed = renaming(of)
        for s in self.steps:
            results = [Var(new, x.shape, x.dtype) for x in s.results]
            new.steps.append(Step(results, s.op, s.attrs, renamed(s.operands)))
            of.update(zip(s.results, results))
        new.outputs = renamed(self.outputs)
        return new

    def __str__(self) -> str:
        names = {x: f"x{i}" for i, x in enumerate([*self.inputs, *(x for s in self.steps for x in s.results)])}

        def shown(xs: Sequence[Any]) -> str:
            return ", ".join(names[x] if isinstance(x, Var) else _number(x) for x in xs)
        lines = [f"    {shown(s.results)} = {_primitive(s)} {shown(s.operands)}".rstrip() for s in self.steps]
        return "\n".join([f"trace {shown(self.inputs)}:", *lines, f"    return {shown(self.outputs)}"])


def mapped(f: Callable[[Any], Any], xs: Sequence[Any]) -> list[Any]:
    """``f`` of each value, including those inside ``Kept``."""
    return [Kept(mapped(f, x.values)) if isinstance(x, Kept) else f(x) for x in xs]


def renaming(of: dict[Any, Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function that replaces variables among operands by their values in ``of``."""
    return lambda xs: mapped(lambda x: of[x] if isinstance(x, Var) else x, xs)


def _number(x: Any) -> str:
    return repr(x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x)


def _primitive(s: Step) -> str:
    if isinstance(s.op, Ruled):
        return f"@{s.op.name}"
    if s.op in OPS:
        return s.op
    told = ", ".join(f"{k}={v}" for k, v in s.attrs.items() if k not in ("attrs", "given"))
    return f"{s.op}[{told}]"
