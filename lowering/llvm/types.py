"""IR types and values in LLVM: element types, literals, and the flat lists of parameters and results.

A scalar is one LLVM value (a bool is ``i1`` in a register and ``i8`` in memory), an array its pointer and an
``i64`` for each axis, a stack one pointer.  Functions take and return these parts in order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.types import ALL, Array, Scalar, Stack, Type

_REGISTER = {"f64": "double", "f32": "float", "bool": "i1"} | {t.name: f"i{t.bits}" for t in ALL if t.is_int}


def register(t: Scalar) -> str:
    """The LLVM type of a scalar in a register."""
    return _REGISTER[t.name]


def memory(t: Scalar) -> str:
    """The LLVM type of a scalar in memory."""
    return "i8" if t.is_bool else _REGISTER[t.name]


def width(t: Scalar) -> int:
    """Bytes of an element in memory."""
    return t.bits // 8


def literal(value: float | int | bool, t: Scalar) -> str:
    """A constant as LLVM text; floats in hexadecimal, which is exact (f32 too is written as a double)."""
    if t.is_bool:
        return "true" if value else "false"
    if t.is_int:
        number = int(value)                             # LLVM's integers are signless: the upper half prints below 0
        return str(number - (1 << t.bits) if number >= 1 << t.bits - 1 else number)
    rounded = struct.unpack("f", struct.pack("f", _f32(value)))[0] if t.name == "f32" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def _f32(value: float) -> float:
    """``value`` if it fits f32, otherwise the infinity to which it rounds (``struct`` would raise)."""
    x = float(value)
    return x if x != x or abs(x) < 3.4028235677973366e38 else float("inf") if x > 0 else float("-inf")


@dataclass(frozen=True)
class Buffer:
    """An array in memory, C-contiguous: a pointer to its first element and a size for each axis.

    The size of a literal dimension is that literal.  ``type`` is the IR type.
    """

    ptr: str
    sizes: tuple[str, ...]
    type: Array

    @property
    def dtype(self) -> Scalar:
        return self.type.dtype

    def parts(self) -> list[str]:
        return [self.ptr, *self.sizes]


Lowered = str | Buffer


def parts_of(t: Type) -> list[str]:
    """The LLVM types of the parts in which a value of type ``t`` is passed."""
    if isinstance(t, Array):
        return ["ptr"] + ["i64"] * t.rank
    return ["ptr"] if isinstance(t, Stack) else [register(t)]


def assemble(t: Type, parts: list[str]) -> Lowered:
    """The lowered value with these parts; literal dimensions are taken from the type."""
    if isinstance(t, Array):
        sizes = tuple(p if d is None else str(d) for p, d in zip(parts[1:], t.dims))
        return Buffer(parts[0], sizes, t)
    return parts[0]


def split(value: Lowered) -> list[str]:
    """The parts of a lowered value."""
    return value.parts() if isinstance(value, Buffer) else [value]


def result_struct(types: Sequence[Type]) -> str:
    """The type that a function returns: its status, then the parts of its results."""
    return "{ " + ", ".join(["i32", *(p for t in types for p in parts_of(t))]) + " }"
