"""The derivative of a trace: the chain rule, step by step from the last.

``reverse`` of a trace C with inputs x and outputs y is a trace with inputs x and y_bar, and outputs y and x_bar =
y_bar · ∂y/∂x.  It consists of C itself, followed by the contributions of each step of C to the cotangents of its
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DifferentiationError
from ..ir.types import from_numpy
from .partials import PARTIALS
from .primitives import STRUCTURAL, is_float, operand_map
from .trace import Ruled, Step, Trace, Var, emit


def reverse(trace: Trace, wrt: Sequence[int]) -> Trace:
    """R[C](x, y_bar) = (y, x_bar) for the inputs ``wrt``; each float output has a y_bar."""
    d = trace.copy()
    x, steps = [d.inputs[i] for i in wrt], list(d.steps)
    varies = _varying(x, steps)
    bar: dict[Any, Any] = {}

    def add(v: Any, contribution: Any) -> None:
        if contribution is not None and v in varies:
            bar[v] = bar[v] + contribution if v in bar else contribution

    for y in list(d.outputs):
        if is_float(y):
            ct = d.input(y)
            if isinstance(y, Var):
                add(y, ct)
    for s in reversed(steps):
        read = [i for i, v in enumerate(s.operands) if isinstance(v, Var) and v in varies]
        y_bar = [bar.get(y) for y in s.results]
        if any(ct is not None for ct in y_bar):
            for i, contribution in zip(read, contributions(s, read, y_bar), strict=True):
                add(s.operands[i], contribution)
    d.outputs += [bar[v] if v in bar else np.zeros(v.shape, v.dtype)[()] for v in x]
    return d


def _varying(x: Sequence[Var], steps: Sequence[Step]) -> set[Any]:
    """The variables that depend on ``x``."""
    varies: set[Any] = set(x)
    for s in steps:
        if any(isinstance(v, Var) and v in varies for v in s.operands):
            varies.update(s.results)
    return varies


def contributions(s: Step, read: Sequence[int], y_bar: Sequence[Any]) -> list[Any]:
    """The contributions of a step to the cotangents of the operands ``read``, given the cotangents of its results."""
    if isinstance(s.op, Ruled):
        return _by_rule(s, s.op, read, y_bar)
    return [contribution(s, i, y_bar[0]) for i in read]


def _by_rule(s: Step, f: Ruled, read: Sequence[int], y_bar: Sequence[Any]) -> list[Any]:
    """Add the rule as one more step, which gives the cotangents of all operands that the rule covers."""
    if not set(read) <= set(f.wrt):
        raise DifferentiationError(f"the rule of `{f.name}` says nothing of a value that is differentiated")
    given = [ct if ct is not None else np.zeros(y.shape, y.dtype)[()] for y, ct in zip(s.results, y_bar)]
    pull = Ruled(f"{f.name}.pull", (), f.pull, _not_again)
    cotangents = s.results[0].trace.ruled(pull, [*s.operands, *given], [s.operands[i] for i in f.wrt])
    return [cotangents[f.wrt.index(i)] for i in read]


def _not_again(values: list[Any]) -> Sequence[Any]:
    raise AssertionError("the derivative of a trace is played into a trace before it is differentiated")


def contribution(s: Step, i: int, y_bar: Any) -> Any:
    """The contribution of a step to the cotangent of its operand ``i``, given the cotangent of its result.

    None if there is no derivative.
    """
    if s.op in PARTIALS:
        partial = PARTIALS[s.op][i]
        return None if partial is None else y_bar * partial(*s.operands)
    if s.op in STRUCTURAL:
        return emit("unpick", y_bar, **operand_map(s.op, s.attrs, s.operands, i))
    if s.op not in RULES:
        raise DifferentiationError(f"the derivative of {s.op} is not known")
    return RULES[s.op](s, i, y_bar)


def _spread(s: Step, y_bar: Any) -> Any:
    """The cotangent of a reduced array, repeated along the reduced axes."""
    shape = s.operands[0].shape
    kept = [1 if axis in s.attrs["axes"] else n for axis, n in enumerate(shape)]
    return emit("broadcast_to", emit("reshape", y_bar, *map(np.int64, kept)), *map(np.int64, shape))


def _extreme(s: Step, i: int, y_bar: Any) -> Any:
    return _spread(s, y_bar) * emit("share", s.operands[0], of=s.op, axes=tuple(s.attrs["axes"]))


def _contract(s: Step, i: int, y_bar: Any) -> Any:
    """z = Σ x y: x_bar = Σ z_bar y over the indices that x lacks, and y_bar likewise."""
    x, y, z = s.attrs["spec"].replace("->", ",").split(",")
    if i == 0:
        return emit("contract", y_bar, s.operands[1], spec=f"{z},{y}->{x}")
    return emit("contract", s.operands[0], y_bar, spec=f"{x},{z}->{y}")


# Ops without a derivative, since their results, or all their operands, are discrete.  Ops that access the
# interpreter's own state (``ir.evaluate.meaning.STATEFUL``) have none either.
DISCRETE = frozenset("isnan isinf isfinite eq ne lt le gt ge and or xor not shl shr clz popcount all any argmax argmin "
                     "nonzero const empty iota dim".split())

RULES: dict[str, Callable[[Step, int, Any], Any]] = {
    "pick": lambda s, i, y_bar: emit("unpick", y_bar, **s.attrs),
    "unpick": lambda s, i, y_bar: emit("pick", y_bar, **s.attrs),
    "cast": lambda s, i, y_bar: emit("cast", y_bar, dtype=from_numpy(s.operands[0].dtype)),
    "sum": lambda s, i, y_bar: _spread(s, y_bar),
    "max": _extreme,
    "min": _extreme,
    "contract": _contract,
    "share": lambda s, i, y_bar: None,
}
