"""Evaluation of primitives and traces, on numbers and symbolically.

Symbolic evaluation computes the same numbers as ordinary evaluation, so that control flow is known, and records the
steps that gave them.  Its values are numbers, and ``Traced``: numbers with a variable of a trace.  ``play`` of a trace
on values of another trace records its steps there: the trace of a derivative consists of the derivative's steps.

``EXPANDED`` are the primitives that are recorded as simpler ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.ops import OPS
from .primitives import Attrs, is_float, operand_map, yields
from .trace import Ruled, Trace, Var, mapped, renaming

Program = Callable[[list[Any]], Sequence[Any]]


class Traced:
    """A number, and its variable."""

    __slots__ = ("number", "var")

    def __init__(self, number: Any, var: Var) -> None:
        self.number, self.var = number, var


def number(x: Any) -> Any:
    return x.number if isinstance(x, Traced) else x


def apply(op: str, attrs: Attrs, operands: Sequence[Any]) -> Any:
    """The result of a primitive; if an operand is traced, its trace gets a step."""
    trace = next((x.var.trace for x in operands if isinstance(x, Traced)), None)
    if trace is not None and op in EXPANDED:
        return EXPANDED[op](attrs, *operands)
    result = yields(op, attrs, [number(x) for x in operands])
    if trace is None or not is_float(result):
        return result
    if op in OPS and OPS[op].elementwise and op != "select":
        operands = [_broadcast(x, result.shape) for x in operands]
    return Traced(result, trace.step(op, attrs, [x.var if isinstance(x, Traced) else x for x in operands], result))


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """Make broadcasting a step of its own, so that elementwise steps have operands of equal shapes."""
    if not isinstance(x, Traced) or x.number.shape == shape:
        return x
    return apply("broadcast_to", {}, [x, *map(np.int64, shape)])


def apply_ruled(function: Ruled, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The ``results`` of a function with a rule on traced operands, recorded as a step of their trace."""
    trace = next(x.var.trace for x in operands if isinstance(x, Traced))
    floats = [y for y in results if is_float(y)]
    variables = iter(trace.ruled(function, [x.var if isinstance(x, Traced) else x for x in operands], floats))
    return [Traced(y, next(variables)) if is_float(y) else y for y in results]


def record(program: Program, point: Sequence[Any]) -> Trace:
    """The trace of a program at a point; on a neighbourhood of the point, program and trace are the same function.

    The floats of the point are the inputs, the results of the program the outputs.
    """
    trace = Trace()
    def traced(x: Any) -> Any:
        return Traced(number(x), trace.input(number(x))) if is_float(number(x)) else x

    trace.outputs = mapped(lambda x: x.var if isinstance(x, Traced) else x, program(mapped(traced, point)))
    return trace


def floats(xs: Sequence[Any]) -> list[Any]:
    """The values that are inputs of a trace taken at this point, in order."""
    found: list[Any] = []
    mapped(lambda x: found.append(x) if is_float(number(x)) else None, xs)
    return found


def play(trace: Trace, floats: Sequence[Any]) -> list[Any]:
    """Evaluate a trace; on traced values, symbolically."""
    of: dict[Any, Any] = dict(zip(trace.inputs, floats, strict=True))
    last = {x: i for i, s in enumerate(trace.steps) for x in s.operands if isinstance(x, Var)}
    kept = {x for x in trace.outputs if isinstance(x, Var)}
    value = renaming(of)
    for i, s in enumerate(trace.steps):
        operands = value(s.operands)
        if isinstance(s.op, Ruled):
            of.update(zip(s.results, s.op.run(operands), strict=True))
        else:
            of[s.results[0]] = apply(s.op, s.attrs, operands)
        for x in s.operands:                             # release arrays after their last use
            if isinstance(x, Var) and last[x] == i and x not in kept:
                of.pop(x, None)
    return value(trace.outputs)


# --- primitives that are recorded as simpler ones ---------------------------------------------------

def _add_at(attrs: Attrs, a: Any, v: Any, *where: Any) -> Any:
    """The transpose of ``get`` adds to the element that ``get`` reads."""
    return _add_where("get", a, v, where)


def _add_put(attrs: Attrs, a: Any, v: Any, index: Any) -> Any:
    return _add_where("take", a, v, (index,))


def _add_slice(attrs: Attrs, a: Any, v: Any, *where: Any) -> Any:
    lengths = number(v).shape
    return _add_where("slice", a, v, [x for s, n, t in zip(where[0::2], lengths, where[1::2]) for x in (s, n, t)])


def _add_where(reads: str, a: Any, v: Any, where: Sequence[Any]) -> Any:
    placed = apply("unpick", operand_map(reads, {}, [number(a), *map(np.asarray, where)], 0), [v])
    return apply("add", {}, [a, placed])


def _matmul(attrs: Attrs, a: Any, b: Any) -> Any:
    """Indices: rows m, columns n, the sum over k, a batch of products b."""
    ranks = number(a).ndim, number(b).ndim
    left = {1: "k", 2: "mk", 3: "bmk"}[ranks[0]]
    right = {1: "k", 2: "kn", 3: "bkn"}[ranks[1]]
    result = "".join(i for i in "bmn" if i in left + right)
    if attrs.get("ta"):
        left = left[:-2] + left[:-3:-1]
    if attrs.get("tb"):
        right = right[:-2] + right[:-3:-1]
    return apply("contract", {"spec": f"{left},{right}->{result}"}, [a, b])


def _scan(op: str, unit: float) -> Callable[..., Any]:
    """Running sums or products: after step k each element holds that of the 2^k elements that end there."""
    def scan(attrs: Attrs, a: Any) -> Any:
        axis, shape, reach = attrs["axis"], number(a).shape, 1
        while reach < shape[axis]:
            head = np.full([reach if i == axis else n for i, n in enumerate(shape)], unit, number(a).dtype)
            where = [x for i, n in enumerate(shape) for x in (0, n - reach if i == axis else n, 1)]
            shifted = apply("concat", {"axis": axis}, [head, apply("slice", {}, [a, *map(np.int64, where)])])
            a, reach = apply(op, {}, [a, shifted]), 2 * reach
        return a
    return scan


def _prod(attrs: Attrs, a: Any) -> Any:
    """The last of the running products, axis by axis, starting with the last axis."""
    if number(a).size == 0:
        return yields("prod", attrs, [number(a)])
    for axis in sorted(attrs["axes"], reverse=True):
        shape = number(a).shape
        first = [axis, *(i for i in range(len(shape)) if i != axis)]
        products = _scan("mul", 1.0)({"axis": axis}, a)
        a = apply("get", {}, [apply("transpose", {"perm": first}, [products]), np.int64(shape[axis] - 1)])
    return a


EXPANDED: dict[str, Callable[..., Any]] = {
    "add_at": _add_at, "add_put": _add_put, "add_slice": _add_slice, "matmul": _matmul,
    "cumsum": _scan("add", 0.0), "cumprod": _scan("mul", 1.0), "prod": _prod,
}
