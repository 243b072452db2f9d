"""Types of IR values.

::

    type   ::= scalar | scalar "[" dim ("," dim)* "]" | "stack"
    scalar ::= "f64" | "f32" | "i64" | "i32" | "i16" | "i8" | "u64" | "u32" | "u16" | "u8" | "bool"
    dim    ::= "?" | integer            ; "?": known at run time only

A dimension that is the literal 1 broadcasts; ``?`` never does.  Literal dimensions other than 1
come from constants in the program (``np.zeros(3)``).  An array has rank 1 or more; NumPy's 0-d
arrays are scalars here.  Integers wrap at their width, signed (``i``) or unsigned (``u``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

Dim = int | None


_NUMPY = {"f64": "float64", "f32": "float32", "i64": "int64", "i32": "int32", "bool": "bool", "i16": "int16",
          "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8"}


class Scalar:
    """A scalar type.  There is one object for each, so types are compared by identity.

    ``kind``: f, i (signed or not) or b.  ``bits``: of the value; a bool occupies 8 in memory.  ``low`` and ``high``:
    the range of an integer type.  ``of_python``: True for the types of Python's own scalars.  ``is_narrow``: True for
    integer types other than i64 and i32; another type cannot represent them, since they wrap elsewhere.
    """

    __slots__ = ("name", "kind", "is_float", "is_int", "is_bool", "is_signed", "bits", "low", "high", "of_python",
                 "is_narrow", "np")

    def __init__(self, name: str) -> None:
        self.name, self.kind = name, "i" if name[0] == "u" else name[0]
        self.is_float, self.is_int, self.is_bool = self.kind == "f", self.kind == "i", name == "bool"
        self.is_signed = name[0] == "i"
        self.bits = int(name[1:]) if name[1:].isdecimal() else 8
        self.low = -1 << self.bits - 1 if self.is_signed else 0
        self.high = self.low + (1 << self.bits) - 1
        self.of_python = name in ("f64", "i64", "bool")
        self.is_narrow = self.is_int and name not in ("i64", "i32")
        self.np: np.dtype = np.dtype(_NUMPY.get(name, "void"))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Scalar({self.name!r})"

    def __reduce__(self) -> str:
        return self.name.upper()                         # copies are the same object


ALL = F64, F32, I64, I32, BOOL, I16, I8, U64, U32, U16, U8 = tuple(Scalar(n) for n in _NUMPY)
SCALARS: dict[str, Scalar] = {s.name: s for s in ALL}
INSTEAD = "float64, float32, an integer of 8 to 64 bits or bool"
"""The supported dtypes, in words."""


@dataclass(frozen=True)
class Array:
    dtype: Scalar
    dims: tuple[Dim, ...]

    def __post_init__(self) -> None:
        if not self.dims:
            raise ValueError("an array type has rank 1 or more")

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        dims = ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.dtype}[{dims}]"


class Stack:
    """The type of the frames that a forward sweep saves for the reverse sweep, an immutable linked list."""

    def __repr__(self) -> str:
        return "Stack()"

    def __reduce__(self) -> str:
        return "STACK"

    def __str__(self) -> str:
        return "stack"


STACK = Stack()
Type = Scalar | Array | Stack


def dtype_of(t: Type) -> Scalar:
    """The element type of an array, or the scalar type itself."""
    if isinstance(t, Scalar):
        return t
    if isinstance(t, Array):
        return t.dtype
    raise TypeError(f"{t} has no element type")


def dims_of(t: Type) -> tuple[Dim, ...]:
    """The dimensions of an array type, ``()`` for a scalar."""
    return t.dims if isinstance(t, Array) else ()


def with_dtype(t: Type, dtype: Scalar) -> Type:
    """The same shape with another element type."""
    return Array(dtype, t.dims) if isinstance(t, Array) else dtype


def make(dtype: Scalar, dims: tuple[Dim, ...]) -> Type:
    """An array type, or the scalar type if ``dims`` is empty."""
    return Array(dtype, dims) if dims else dtype


def is_float(t: Type) -> bool:
    """True if values of this type carry derivatives: float scalars and arrays of them."""
    if isinstance(t, Scalar):
        return t.is_float
    return isinstance(t, Array) and t.dtype.is_float


def is_float_scalar(t: Type) -> TypeGuard[Scalar]:
    return isinstance(t, Scalar) and t.is_float


def carries_adjoint(t: Type) -> bool:
    """True if values of this type have an adjoint in reverse mode (floats and stacks)."""
    return is_float(t) or isinstance(t, Stack)


def broadcast_dims(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """NumPy broadcasting of two dimension lists; ``?`` and ``?`` are assumed to be equal.

    Raises ``ValueError`` if two literal sizes differ and neither is 1.
    """
    out: list[Dim] = []
    for i in range(1, max(len(a), len(b)) + 1):
        x: Dim = a[-i] if i <= len(a) else 1
        y: Dim = b[-i] if i <= len(b) else 1
        if x == 1 or y == 1:
            out.append(y if x == 1 else x)
        elif x is None or y is None:
            out.append(y if x is None else x)
        elif x == y:
            out.append(x)
        else:
            raise ValueError(f"sizes {x} and {y} do not broadcast")
    return tuple(reversed(out))


def join(a: Type, b: Type) -> Type | None:
    """The least type that holds both (sizes may be forgotten, nothing is converted), or None."""
    if a == b:
        return a
    if isinstance(a, Array) and isinstance(b, Array) and a.dtype == b.dtype and a.rank == b.rank:
        if any((x == 1) != (y == 1) for x, y in zip(a.dims, b.dims)):
            return None
        return Array(a.dtype, tuple(x if x == y else None for x, y in zip(a.dims, b.dims)))
    return None


_OF_NUMPY = {t.np: t for t in ALL}


def from_numpy(dtype: np.dtype) -> Scalar | None:
    """The scalar type of a NumPy dtype in native byte order, or None if it is not supported."""
    return _OF_NUMPY.get(dtype)


def parse(text: str) -> Type:
    """Read one type from its text form; raises ``ValueError``."""
    text = text.strip()
    if text == "stack":
        return STACK
    if text in SCALARS:
        return SCALARS[text]
    name, bracket, rest = text.partition("[")
    dims = [d.strip() for d in rest[:-1].split(",")]
    if (not bracket or not rest.endswith("]") or name not in SCALARS
            or not all(d in ("?", ":") or d.isascii() and d.isdigit() for d in dims)):
        raise ValueError(f"not a type: {text!r} (types look like f64, i64, f64[:], f32[:, 3])")
    return Array(SCALARS[name], tuple(None if d in ("?", ":") else int(d) for d in dims))
