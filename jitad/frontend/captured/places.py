"""Places: access paths from which a program reads captured values.

A place is like a place in Rust's MIR: a root and a sequence of projections::

    place = global d[name] | cell c | object o | argument i            (roots)
          | member (class, name)      an attribute of a class or of its bases (a root too)
          | field (place, name)       an attribute in the object's own dict or slots
          | attribute (place, name)   any other attribute: of a module, of a function
          | item (place, i) | entry (place, key) | number (place)      (an array without axes)

The container of a root is a constant, so a place can be read again at each call.  A float or an array at a place is a
parameter of the program, bound at each call; any other value is compiled in, and a guard compares it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
_ROOTS = ("global", "cell", "object", "argument", "member")


class Place:
    """A place (see the module); equal places have the same kind, base and key."""

    __slots__ = ("kind", "base", "key", "_hash")

    def __init__(self, kind: str, base: Any = None, key: Any = None) -> None:
        self.kind, self.base, self.key = kind, base, key
        self._hash = hash((kind, id(base) if kind in _ROOTS else base, key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Place) or self._hash != other._hash or self.kind != other.kind:
            return False
        same = self.base is other.base if self.kind in _ROOTS else self.base == other.base
        return same and type(self.key) is type(other.key) and bool(self.key == other.key)

    def __repr__(self) -> str:
        if self.kind == "global":
            return str(self.key)
        if self.kind in ("cell", "object", "member"):
            named = getattr(self.base, "__name__", type(self.base).__name__)
            return f"{named}.{self.key}" if self.kind == "member" else f"<{named}>"
        if self.kind == "argument":
            return f"argument {self.key}"
        return f"{self.base}.{self.key}" if self.kind in ("field", "attribute") else f"{self.base}[{self.key!r}]"

    def field(self, name: str) -> Place:
        return Place("field", self, name)

    def attribute(self, name: str) -> Place:
        return Place("attribute", self, name)

    def item(self, i: int) -> Place:
        return Place("item", self, i)

    def entry(self, key: Any) -> Place:
        return Place("entry", self, key)

    @property
    def root(self) -> Place:
        place = self
        while place.kind not in _ROOTS:
            place = place.base
        return place


def in_globals(table: dict[str, Any], name: str) -> Place:
    return Place("global", table, name)


def of_object(obj: Any) -> Place:
    return Place("object", obj)


def of_class(cls: type, name: str) -> Place:
    return Place("member", cls, name)


# --- reading --------------------------------------------------------------------------------------

class Reader:
    """The values at places at one moment; each place is read once.  ``leaves``: the leaves of the arguments."""

    def __init__(self, leaves: Sequence[Any] = ()) -> None:
        self.leaves = leaves
        self.known: dict[Place, Any] = {}

    def __call__(self, place: Place) -> Any:
        found = self.known.get(place, self)
        if found is self:
            found = self.known[place] = self._read(place)
        return found

    def _read(self, place: Place) -> Any:
        kind, base, key = place.kind, place.base, place.key
        if kind == "global":
            return base.get(key, MISSING)
        if kind == "object":
            return base
        if kind == "argument":
            return self.leaves[key]
        if kind == "member":
            return inspect.getattr_static(base, key, MISSING)
        try:
            if kind == "cell":
                return base.cell_contents
            holder = self(base)
            if holder is MISSING:
                return MISSING
            if kind == "field":
                return own_attribute(holder, key)
            if kind == "attribute":
                return getattr(holder, key)
            return holder[() if kind == "number" else key]
        except (AttributeError, LookupError, TypeError, ValueError):
            return MISSING


def own_attribute(obj: Any, name: str) -> Any:
    """The attribute of this name that an object itself holds, in its dict or a slot, or ``MISSING``.

    CPython keeps the attributes of an object in a small array until its ``__dict__`` is requested, and machine code
    reads that array.  So this function avoids ``__dict__`` if it can.
    """
    by_class = next((vars(c)[name] for c in type(obj).__mro__ if name in vars(c)), MISSING)
    if by_class is not MISSING and type(by_class) is not types.MemberDescriptorType:
        if hasattr(type(by_class), "__set__"):
            return MISSING                                       # a property takes precedence
        if type(by_class) is not types.FunctionType:
            return getattr(obj, "__dict__", _NOTHING).get(name, MISSING)
    try:
        found = object.__getattribute__(obj, name)
    except AttributeError:
        return MISSING
    bound = type(found) is types.MethodType and found.__func__ is by_class and found.__self__ is obj
    return MISSING if bound else found


_NOTHING: dict[str, Any] = {}
