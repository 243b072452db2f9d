"""Finds the objects of this process to which the references of an entry lead (``references``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..calling.signature import Signature, Static
from ..frontend.captured.places import MISSING, Place, Reader
from .references import Reference, classes_of, digest, found, statics_of


class Stale(Exception):
    """An entry for a function, class or value that is no longer the same."""


class Objects:
    """The objects of this process to which the references of an entry lead."""

    def __init__(self, references: Sequence[Reference], digests: Sequence[str], root: Any, signature: Signature,
                 leaves: Sequence[Any]) -> None:
        """Raises ``Stale`` if one of them is not found, or is something else now."""
        self.root, self.signature, self.read = root, signature, Reader(leaves)
        self.leaves = leaves
        self.found: list[Any] = []
        for reference, known in zip(references, digests, strict=True):
            try:
                obj = getattr(self, f"_{reference[0]}")(*reference[1:])
            except (AttributeError, LookupError, TypeError, ValueError) as e:
                raise Stale(str(e)) from None
            if obj is MISSING or digest(obj) != known:
                raise Stale(f"{reference}")
            self.found.append(obj)

    def place(self, data: tuple[Any, ...]) -> Place:
        kind, base, key = data
        if kind in ("global", "cell", "object", "member"):
            return Place(kind, self.found[base], key)
        return Place(kind, None if base is None else self.place(base), key)

    def _root(self) -> Any:
        return self.root

    def _class(self, i: int) -> Any:
        return classes_of(self.signature.structure)[i]

    def _static(self, i: int) -> Any:
        leaf = self.signature.leaves[i]
        return self.leaves[i] if isinstance(leaf, Static) else leaf.cls                   # type: ignore[union-attr]

    def _layout(self, i: int, gradient: bool) -> Any:
        static = list(statics_of(self.signature.structure))[i].static
        return static.gradient() if gradient else static

    @staticmethod
    def _module(name: str) -> Any:
        return sys.modules[name]

    @staticmethod
    def _name(module: str, path: str) -> Any:
        return found(module, path)

    def _attr(self, obj: int, name: str) -> Any:
        return getattr(self.found[obj], name)

    def _item(self, obj: int, key: Any) -> Any:
        return self.found[obj][key]

    def _cell(self, fun: int, i: int) -> Any:
        return self.found[fun].__closure__[i]

    def _globals(self, fun: int) -> Any:
        return self.found[fun].__globals__

    def _at(self, place: tuple[Any, ...]) -> Any:
        return self.read(self.place(place))
