"""The dtypes in which NumPy computes: floats for integer operands, wide sums of narrow integers, Python scalars."""

from __future__ import annotations

import functools

import numpy as np

from ....ir.graph import Value
from ....ir.types import F64, I64, U64, Scalar, dtype_of, from_numpy
from ...values.values import Context, Sym
from . import promotion


def float_loop(t: Context, *xs: Sym, least: type = np.float16) -> Scalar:
    """The float dtype in which a ufunc like ``sqrt`` computes: it holds the integers and is at least ``least``.

    Refuses half precision, for which no code is generated.
    """
    common, _ = promotion.promote(*xs)
    if common.is_float:
        return common
    found = _float_loop(tuple([common if x.weak else x.scalar for x in xs]), least)
    if found is None:
        names = " and ".join(dict.fromkeys(str(x.scalar.np) for x in xs))
        message = f"NumPy computes this in float16 of {names}, which is not supported"
        promotion.refuse(t, message, ".astype(np.float32) first")
    return found


@functools.lru_cache(maxsize=1024)
def _float_loop(dtypes: tuple[Scalar, ...], least: type) -> Scalar | None:
    return from_numpy(functools.reduce(np.promote_types, [np.promote_types(d.np, least) for d in dtypes]))


def accumulator(dtype: Scalar) -> Scalar:
    """The dtype in which sums and products of elements are computed: a 64-bit integer, or the float dtype itself."""
    return dtype if dtype.is_float else U64 if dtype.is_int and not dtype.is_signed else I64


def of_python(t: Context, v: Value) -> Sym:
    """A scalar as a Python scalar of the same kind."""
    kind = dtype_of(v.type)
    return Sym(promotion.cast(t, v, F64) if kind.is_float else promotion.to_i64(t, v) if kind.is_int else v, True)
