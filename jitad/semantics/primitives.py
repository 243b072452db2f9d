"""The results of primitives on numbers: the ops of the IR, and four primitives that only derivatives have.

Many ops do no arithmetic: each element of the result *is* an element of an operand (``STRUCTURAL``).  The op is run on
positions instead of numbers to find which.  One pair of primitives, transposes of each other, therefore serves the
derivatives of all of them:

* ``pick``: a structural op as a linear map of one of its operands, with the others zero;
* ``unpick``: its transpose, which gives each element of the operand the sum over its copies in the result.

Their attributes: ``of`` (the op), ``attrs``, ``operand`` (its number) and ``given``, the operands, where floats are
replaced by their shapes.

* ``contract``: a sum of products (``np.einsum``); ``share``: weights of 1 shared equally among the extreme elements
  of an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.evaluate.meaning import MEANING
from ..ir.ops import OPS

Attrs = dict[str, Any]

STRUCTURAL = frozenset("get slice reshape broadcast_to transpose concat take copy as_type fill set set_slice put "
                       "select".split())


def yields(op: str, attrs: Attrs, operands: Sequence[Any]) -> Any:
    """The result of a primitive; operands are not changed."""
    if op in DERIVATIVES_ONLY:
        return DERIVATIVES_ONLY[op](attrs, *operands)
    consumed = OPS[op].consumes
    return MEANING[op](attrs, *[x.copy() if i in consumed else x for i, x in enumerate(operands)])


def is_float(x: Any) -> bool:
    """True if a number, an array of numbers, or a variable has derivatives."""
    return getattr(getattr(x, "dtype", None), "kind", "") == "f"


def operand_map(op: str, attrs: Attrs, operands: Sequence[Any], operand: int) -> Attrs:
    """The attributes of ``pick`` and ``unpick`` for an operand of a structural op; only the shapes of floats matter."""
    given = tuple(np.shape(x) if is_float(x) else x for x in operands)
    return {"of": op, "attrs": attrs, "operand": operand, "given": given}


def _positions(attrs: Attrs) -> Any:
    """For each element of the result, the number of the operand's element that it is, counted from 1; 0 if none."""
    stand_ins = [x if not isinstance(x, tuple) else _counted(x) if i == attrs["operand"] else np.zeros(x, int)[()]
                 for i, x in enumerate(attrs["given"])]
    return MEANING[attrs["of"]](attrs["attrs"], *stand_ins)


def _counted(shape: tuple[int, ...]) -> Any:
    return np.arange(1, math.prod(shape) + 1).reshape(shape)[()]


def _pick(attrs: Attrs, x: Any) -> Any:
    return np.append(x.dtype.type(0), x)[_positions(attrs)]


def _unpick(attrs: Attrs, y: Any) -> Any:
    shape = attrs["given"][attrs["operand"]]
    sums = np.bincount(np.ravel(_positions(attrs)), np.ravel(y), math.prod(shape) + 1)
    return sums[1:].astype(y.dtype).reshape(shape)[()]


def _share(attrs: Attrs, a: Any) -> Any:
    """``of`` is ``max`` or ``min``."""
    extreme = a == getattr(np, attrs["of"])(a, axis=attrs["axes"], keepdims=True) if a.size else a
    return (extreme / np.sum(extreme, axis=attrs["axes"], keepdims=True)).astype(a.dtype)


def _contract(attrs: Attrs, a: Any, b: Any) -> Any:
    return np.einsum(attrs["spec"], a, b)[()]


DERIVATIVES_ONLY: dict[str, Callable[..., Any]] = {
    "pick": _pick, "unpick": _unpick, "share": _share, "contract": _contract,
}
