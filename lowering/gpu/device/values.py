"""Values of the loop level in device code: their parts, which functions and kernels take one by one.

A scalar is one LLVM value, a stack the number of the first word of its topmost frame (0: it is empty), a buffer the
address of its first element, a size for each axis and, unless it is in C order, a stride for each axis in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import UnsupportedError
from ....ir.types import Scalar, Stack
from ....loop_level.types import Buffer
from ...llvm import types


@dataclass(frozen=True)
class Memory:
    """A buffer: LLVM names of its parts; ``strides`` is None in C order.

    ``unit``: the stride between neighbours in C order if other threads' elements lie between them (``memory``).
    """

    ptr: str
    sizes: tuple[str, ...]
    strides: tuple[str, ...] | None
    type: Buffer
    unit: str = "1"

    @property
    def dtype(self) -> Scalar:
        return self.type.dtype

    def parts(self) -> list[str]:
        return [self.ptr, *self.sizes, *(self.strides or ())]


Part = str | Memory


def parts_of(t: Any) -> list[str]:
    """The LLVM types of the parts of a value of type ``t``."""
    if isinstance(t, Buffer):
        return ["ptr"] + ["i64"] * t.rank * (1 if t.strides is None else 2)
    if isinstance(t, Stack):
        return ["i64"]
    if not isinstance(t, Scalar):
        raise UnsupportedError(f"a {t} in code for a GPU")
    return [types.register(t)]


def split(x: Part) -> list[str]:
    return x.parts() if isinstance(x, Memory) else [x]


def assemble(t: Any, parts: Sequence[str]) -> Part:
    """The value with these parts; literal sizes and strides are taken from the type."""
    if not isinstance(t, Buffer):
        return parts[0]
    sizes = tuple(p if d is None else str(d) for p, d in zip(parts[1:], t.dims))
    strides = parts[1 + t.rank:]
    if t.strides is None:
        return Memory(parts[0], sizes, None, t)
    return Memory(parts[0], sizes, tuple(p if d is None else str(d) for p, d in zip(strides, t.strides)), t)


def zero(t: str) -> str:
    """The zero of an LLVM type."""
    return {"ptr": "null", "i1": "false", "double": "0.0", "float": "0.0"}.get(t, "0")


def result_struct(ts: Sequence[Any]) -> str:
    """The type that a device function returns: a status, 0 if all went well, then the parts of its results."""
    return "{ " + ", ".join(["i32", *(p for t in ts for p in parts_of(t))]) + " }"
