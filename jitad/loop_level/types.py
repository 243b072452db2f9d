"""Types of the loop level: scalars and ``stack`` as in the IR, and two of its own.

::

    type   ::= scalar | "stack" | "vector" scalar "[" integer "]"
             | "buffer" scalar "[" dim ("," dim)* "]" ["strides" "[" dim ("," dim)* "]"] ["alias" integer]

A *buffer* is memory: a place for each element, which ``store`` changes.  Without ``strides`` its elements lie one after
another in C order; strides count elements, and ``?`` is known at run time only.  Buffers with different alias sets do
not overlap.  Those without a set may overlap with each other.  The set is a fact about one function, not part of the
type: types with different sets are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..ir.graph import Value
from ..ir.type_rules import TypeRuleError
from ..ir.types import Array, Dim, Scalar, Type


def _dims(dims: Sequence[Dim]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


@dataclass(frozen=True)
class Vector:
    """So many scalars, which one instruction computes."""

    dtype: Scalar
    lanes: int

    def __str__(self) -> str:
        return f"vector {self.dtype}[{self.lanes}]"


@dataclass(frozen=True)
class Buffer:
    """Memory for the elements of an array.  ``strides``: None if they are those of C order."""

    dtype: Scalar
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None
    alias: int | None = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        strides = "" if self.strides is None else f" strides {_dims(self.strides)}"
        alias = "" if self.alias is None else f" alias {self.alias}"
        return f"buffer {self.dtype}{_dims(self.dims)}{strides}{alias}"


LoopType = Type | Vector | Buffer


def type_of(v: Value) -> LoopType:
    """The type of a value of this level (``Value.type`` is declared for the types of the IR)."""
    return cast(LoopType, v.type)


def as_types(types: Sequence[Any]) -> list[Type]:
    """Types of this level where the graph's classes declare types of the IR."""
    return list(types)


def is_buffer(v: Value) -> bool:
    return isinstance(type_of(v), Buffer)


def buffer_type(v: Value) -> Buffer:
    """The type of a buffer; raises ``TypeRuleError`` if the value is none."""
    t = type_of(v)
    if not isinstance(t, Buffer):
        raise TypeRuleError(f"needs a buffer, not {t}")
    return t


def lowered(t: Type, alias: int | None = None) -> Type:
    """The type of this level for a type of the IR: arrays become buffers in C order."""
    found: Any = Buffer(t.dtype, t.dims, None, alias) if isinstance(t, Array) else t
    return cast(Type, found)
