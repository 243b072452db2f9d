"""Composites that implement the trace's queries themselves."""

from __future__ import annotations

from typing import Any

from .protocol import Trace
from .values import Operators


class Active(Operators):
    """A ``Composite`` that implements the queries of the trace ``t``.  ``counted``: run-time loops iterate over it."""

    __slots__ = ()
    counted = False

    def describe(self) -> str:
        """A description for error messages."""
        return type(self).__name__

    def has(self, t: Trace, name: str) -> Any:
        """True if it has this attribute: a bool or a ``Sym``."""
        return False

    def attribute(self, t: Trace, name: str) -> Any:
        raise AttributeError(f"{self.describe()} has no attribute '{name}'")

    def assign(self, t: Trace, name: str, value: Any) -> None:
        """``self.name = value``."""
        t.unsupported(f"sets attribute `{name}` of {self.describe()}")

    def item(self, t: Trace, index: Any) -> Any:
        raise TypeError(f"{self.describe()} is not subscriptable")

    def truth(self, t: Trace) -> Any:
        return True

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        """``self op other``, a bool or a ``Sym``."""
        return op in ("ne", "is not")

    def count(self, t: Trace) -> Any:
        """The number of elements of a loop over it."""
        raise TypeError(f"{self.describe()} has no len()")

    def element(self, t: Trace, it: Any) -> Any:
        """Element number ``it``, which must be in range."""
        raise TypeError(f"{self.describe()} is not iterable")

    def is_a(self, t: Trace, cls: Any) -> Any:
        return isinstance(self, cls)

    def type_of(self, t: Trace) -> type:
        return type(self)

    def plain(self, t: Trace) -> Any:
        """The value that a NumPy function receives for it."""
        return self

    def exported(self, t: Trace) -> Any:
        """The value that represents it in a pytree."""
        t.unsupported(f"{self.describe()} as a result", "return numbers, arrays, and structures of them")
