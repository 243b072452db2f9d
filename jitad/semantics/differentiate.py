"""The derivative of a trace: the chain rule, step by step from the last.

``reverse`` of a trace C with inputs x and outputs y is a trace with inputs x and y_bar, and outputs y and x_bar =
y_bar · ∂y/∂x: C itself, and behind it what each step of C contributes to the cotangents of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DifferentiationError
from ..ir.types import from_numpy
from .partials import PARTIALS
from .primitives import STRUCTURAL, is_float, operand_map
from .trace import Step, Trace, Var, emit

Contributions = Iterator[tuple[Any, Any]]                # of (operand, what is added to its cotangent)


def reverse(trace: Trace, wrt: Sequence[int]) -> Trace:
    """R[C](x, y_bar) = (y, x_bar) for the inputs ``wrt``; each float output has a y_bar."""
    d = trace.copy()
    x, steps = [d.inputs[i] for i in wrt], list(d.steps)
    bar: dict[Any, Any] = {}

    def add(v: Any, contribution: Any) -> None:
        if isinstance(v, Var):
            bar[v] = bar[v] + contribution if v in bar else contribution

    for y in list(d.outputs):
        if is_float(y):
            add(y, d.input(y))
    for s in reversed(steps):
        if s.result in bar:
            for operand, contribution in contributions(s, bar[s.result]):
                add(operand, contribution)
    d.outputs += [bar[v] if v in bar else np.zeros(v.shape, v.dtype)[()] for v in x]
    return d


def contributions(s: Step, y_bar: Any) -> Contributions:
    """What a step gives the cotangents of its operands when its result has the cotangent ``y_bar``."""
    if s.op in PARTIALS:
        for x, partial in zip(s.operands, PARTIALS[s.op], strict=True):
            if partial is not None and isinstance(x, Var):
                yield x, y_bar * partial(*s.operands)
    elif s.op in STRUCTURAL:
        for i, x in enumerate(s.operands):
            if isinstance(x, Var):
                yield x, emit("unpick", y_bar, **operand_map(s.op, s.attrs, s.operands, i))
    elif s.op in RULES:
        yield from RULES[s.op](s, y_bar)
    else:
        raise DifferentiationError(f"the derivative of {s.op} is not known")


def _cast(s: Step, y_bar: Any) -> Contributions:
    yield s.operands[0], emit("cast", y_bar, dtype=from_numpy(s.operands[0].dtype))


def _spread(s: Step, y_bar: Any) -> Any:
    """A reduced array's cotangent, over again along the axes that are gone."""
    shape = s.operands[0].shape
    kept = [1 if i in s.attrs["axes"] else n for i, n in enumerate(shape)]
    return emit("broadcast_to", emit("reshape", y_bar, *map(np.int64, kept)), *map(np.int64, shape))


def _sum(s: Step, y_bar: Any) -> Contributions:
    yield s.operands[0], _spread(s, y_bar)


def _extreme(s: Step, y_bar: Any) -> Contributions:
    (a,), axes = s.operands, tuple(s.attrs["axes"])
    yield a, _spread(s, y_bar) * emit("share", a, of=s.op, axes=axes)


def _contract(s: Step, y_bar: Any) -> Contributions:
    """z = Σ x y: x_bar = Σ z_bar y over what x has not, y_bar likewise."""
    (x, y), spec = s.operands, s.attrs["spec"]
    left, right, result = spec.replace("->", ",").split(",")
    yield x, emit("contract", y_bar, y, spec=f"{result},{right}->{left}")
    yield y, emit("contract", x, y_bar, spec=f"{left},{result}->{right}")


def _none(s: Step, y_bar: Any) -> Contributions:
    yield from ()


RULES: dict[str, Callable[[Step, Any], Contributions]] = {
    "pick": lambda s, y_bar: iter([(s.operands[0], emit("unpick", y_bar, **s.attrs))]),
    "unpick": lambda s, y_bar: iter([(s.operands[0], emit("pick", y_bar, **s.attrs))]),
    "cast": _cast, "sum": _sum, "max": _extreme, "min": _extreme, "contract": _contract, "share": _none,
}
