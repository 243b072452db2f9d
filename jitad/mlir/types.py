"""The types and literals of MLIR.

A buffer in C order is a memref with the strides of C order, as far as literal sizes tell them, and any offset: rows
and slices of it have such a type again, so edges and calls need no casts.  A bool in memory is an ``i8``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ..errors import UnsupportedError
from ..ir.types import Dim, Scalar, Stack
from ..loop_level.types import Buffer, LoopType, Vector


class NoText(UnsupportedError):
    """An op that has no MLIR text yet."""


def scalar(t: Scalar) -> str:
    return t.name if t.is_float else "i1" if t.is_bool else f"i{t.bits}"


def register(t: LoopType) -> str:
    """The type of a value; a stack is the handle of its topmost frame."""
    if isinstance(t, Stack):
        return "index"
    if isinstance(t, Buffer):
        strides = c_strides(t.dims) if t.strides is None else t.strides
        return memref(t.dtype, t.dims, strides)
    if isinstance(t, Vector):
        return f"vector<{t.lanes}x{scalar(t.dtype)}>"
    assert isinstance(t, Scalar)
    return scalar(t)


def element(t: Scalar) -> str:
    """The type of an element in memory."""
    return "i8" if t.is_bool else scalar(t)


def _dim(d: Dim) -> str:
    return "?" if d is None else str(d)


def fresh(t: Buffer) -> str:
    """The type of newly allocated memory."""
    return f"memref<{''.join(f'{_dim(d)}x' for d in t.dims)}{element(t.dtype)}>"


def memref(dtype: Scalar, dims: Sequence[Dim], strides: Sequence[Dim]) -> str:
    layout = ", ".join(map(_dim, strides))
    return f"{fresh(Buffer(dtype, tuple(dims)))[:-1]}, strided<[{layout}], offset: ?>>"


def unknown(t: Buffer) -> str:
    """The type of any buffer of this dtype and rank."""
    return memref(t.dtype, (None,) * t.rank, (None,) * t.rank)


def c_strides(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The strides of C order as far as the sizes are known."""
    found: list[Dim] = [1]
    for d in reversed(dims[1:]):
        found.insert(0, None if d is None or found[0] is None else d * found[0])
    return tuple(found)


def literal(value: Any, t: Scalar) -> str:
    if t.is_bool:
        return "true" if value else "false"
    if t.is_int:
        return str((int(value) - t.low) % (1 << t.bits) + t.low if t.is_signed else _signed(int(value), t.bits))
    return _float(float(t.np.type(value)), t)


def _signed(n: int, bits: int) -> int:
    """An unsigned number as the signed one with the same bits."""
    return (n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _float(x: float, t: Scalar) -> str:
    if not math.isfinite(x):
        code = ">d" if t.bits == 64 else ">f"
        return f"0x{struct.pack(code, x).hex().upper()}"
    mantissa, e, exponent = repr(x).partition("e")
    return mantissa + ("" if "." in mantissa else ".0") + e + exponent
