"""Arguments of kernels as the driver reads them: an array of pointers to values.

Both are made once for each kernel, and for each thread that launches it at the same time.  A launch writes all values
by one call of ``struct``, whose native alignment gives each value its place; the driver copies them before
``cuLaunchKernel`` returns.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

CODES = {"ptr": "Q", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "i1": "?", "f64": "d", "f32": "f"}
"""The code of ``struct`` for each type of a parameter."""

_WORDS = {"i64": np.uint64, "i32": np.uint32, "i16": np.uint16, "i8": np.uint8}


class Arguments:
    """Memory for the arguments of one kernel; ``pointer`` is the address of the array of pointers."""

    __slots__ = ("kinds", "write", "pointer", "_values", "_pointers", "_format")

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        codes = [CODES[kind] for kind in kinds]
        self._format = struct.Struct("@" + "".join(codes))
        self._values = ctypes.create_string_buffer(max(self._format.size, 1))
        base = ctypes.addressof(self._values)
        offsets = [struct.calcsize("@" + "".join(codes[:i]) + "0" + code) for i, code in enumerate(codes)]
        self._pointers = (ctypes.c_void_p * max(len(codes), 1))(*(base + offset for offset in offsets))
        self.pointer = ctypes.addressof(self._pointers)
        self.write = self._format.pack_into

    def fill(self, args: Sequence[int | float]) -> None:
        """Writes the values of the next launch."""
        try:
            self.write(self._values, 0, *args)
        except (struct.error, OverflowError):
            self.write(self._values, 0, *(_fitting(kind, x) for kind, x in zip(self.kinds, args, strict=True)))


def _fitting(kind: str, value: Any) -> Any:
    """A value in the range that ``struct`` takes: unsigned integers wrap, too large floats are infinite."""
    if kind == "f32":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    if kind in _WORDS:
        bits = 8 * np.dtype(_WORDS[kind]).itemsize
        word = int(value) % (1 << bits)
        return word - (1 << bits) if word >> (bits - 1) else word
    return value
