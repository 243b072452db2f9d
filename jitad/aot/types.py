"""Types for annotations: ``f64`` is a number, ``f64["n", 3]`` an array with a size called n and a size of 3."""

from __future__ import annotations

from typing import Any

from ..ir.types import SCALARS, Scalar


class Kind:
    """A type of arguments; ``dims`` is None for a number."""

    __slots__ = ("scalar", "dims")

    def __init__(self, scalar: Scalar, dims: tuple[int | str | None, ...] | None = None) -> None:
        self.scalar, self.dims = scalar, dims

    def __getitem__(self, dims: Any) -> Kind:
        """An array type; each size is a number, a name, or ``:``."""
        given = dims if isinstance(dims, tuple) else (dims,)
        return Kind(self.scalar, tuple(_dim(d) for d in given))

    def __call__(self) -> None:
        """Annotations are callable, so that ``typing.get_type_hints`` takes them."""
        raise TypeError(f"{self!r} is a type for annotations; convert numbers with float, int or NumPy")

    def __repr__(self) -> str:
        if self.dims is None:
            return self.scalar.name
        return f"{self.scalar.name}[{', '.join(':' if d is None else str(d) for d in self.dims)}]"


def _dim(d: Any) -> int | str | None:
    if isinstance(d, slice) and d == slice(None):
        return None
    if isinstance(d, bool) or not isinstance(d, (int, str)) or isinstance(d, int) and d < 0:
        raise TypeError(f"a size is a number, a name or `:`, not {d!r}")
    if isinstance(d, str) and not d.isidentifier():
        raise ValueError(f"a size is called by an identifier, not {d!r}")
    return d


KINDS = {name: Kind(scalar) for name, scalar in SCALARS.items()}
