"""Scalars on the host: as numbers of a program, as words of the status, as arguments of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.evaluate.meaning import MEANING
from ....ir.types import Scalar

_HIGH, _ALL = 1 << 63, 1 << 64


def wrap(n: int) -> int:
    """An integer modulo 2⁶⁴."""
    return n if -_HIGH <= n < _HIGH else (n + _HIGH) % _ALL - _HIGH


def word(x: Any) -> int:
    """The 64 bits of a scalar, as a signed integer."""
    if isinstance(x, (float, np.floating)):
        return int(np.array(x, np.float64).view(np.int64))
    return wrap(int(x))


def as_host(x: Any) -> Any:
    """A scalar on the host: a Python number for f64, i64 and bool, a NumPy scalar otherwise."""
    return x.item() if x.dtype in (np.float64, np.int64, np.bool_) else x


def decoded(words: np.ndarray, t: Scalar) -> Any:
    """The scalar in the first bytes of a slot."""
    return as_host(words.view(np.uint8)[:t.np.itemsize].view(t.np)[0])


def as_argument(x: Any) -> int | float:
    """A scalar as an argument of a kernel; integers are signed."""
    if isinstance(x, (bool, np.bool_)):
        return int(x)
    if isinstance(x, (float, np.floating)):
        return float(x)
    if isinstance(x, np.unsignedinteger):
        return int(x.view(x.dtype.name[1:]))
    return int(x)


# --- arithmetic ---------------------------------------------------------------------------------

def div(x: float, y: float) -> float:
    """The quotient of IEEE arithmetic."""
    return x / y if y else float(np.float64(x) * np.copysign(np.inf, y)) if x == x and x else math.nan


def meaning(name: str, attrs: dict[str, Any], types: Sequence[Scalar]) -> Callable[..., Any]:
    """An elementwise op on scalars of the host."""
    run, kinds = MEANING[name], [t.np.type for t in types]

    def apply(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return as_host(np.asarray(run(attrs, *(kind(x) for kind, x in zip(kinds, xs))))[()])
    return apply
