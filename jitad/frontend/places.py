"""Places from which a program reads what is outside of it, and guards: what they held when it was compiled.

::

    place = global d[name] | cell c | object o | argument i            (roots)
          | field (place, name)       an attribute in the object's own dict or slots
          | member (class, name)      an attribute of a class, found along its bases
          | attribute (place, name)   any other attribute: of a module, of a function
          | item (place, i) | entry (place, key) | number (place)      (an array without axes)

The containers of roots are constants, so a place can be read again at each call.  A number or an array that is found
at a place is an argument of the program; all else is a constant, which a guard compares.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .memory import contents
from .pytree import meaning


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
_ROOTS = ("global", "cell", "object", "argument", "member")


class Place:
    """See above; equal places are the same one."""

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
    """What places hold at one moment; each is read once.  ``leaves``: of the arguments."""

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
    """What an object itself holds under this name, in its dict or a slot.

    Python keeps the attributes of an object in a small array until somebody asks for its ``__dict__``; nobody does here
    where it can be avoided, since machine code reads that array.
    """
    by_class = inspect.getattr_static(type(obj), name, MISSING)
    if by_class is not MISSING and type(by_class) is not types.MemberDescriptorType:
        if hasattr(type(by_class), "__set__"):
            return MISSING                                       # a property, which goes first
        if type(by_class) is not types.FunctionType:
            return getattr(obj, "__dict__", _NOTHING).get(name, MISSING)
    try:
        found = object.__getattribute__(obj, name)
    except AttributeError:
        return MISSING
    bound = type(found) is types.MethodType and found.__func__ is by_class and found.__self__ is obj
    return MISSING if bound else found


_NOTHING: dict[str, Any] = {}


# --- guards ---------------------------------------------------------------------------------------

@dataclass(eq=False)
class Guard:
    """What holds of a place: ``test`` is one of

    ``is`` (this object), ``means`` (a constant of this meaning), ``type``, ``plain`` (no descriptor), ``absent``,
    ``same`` (the object at another place), ``apart`` (not that object), ``count`` (of a list or tuple), ``keys`` (of a
    dict), ``names`` (those of ``expected[0]`` that the object has are ``expected[1]``), ``items`` (the type of a
    container, and what is in it), ``content`` (the same, through and through).
    """

    place: Place
    test: str
    expected: Any

    def holds(self, read: Reader) -> bool:
        return bool(_TESTS[self.test](read(self.place), self.expected, read))

    def __repr__(self) -> str:
        return f"{self.place} {self.test} {self.expected!r}"


def keys_of(table: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(map(meaning, table))


def present(obj: Any, names: frozenset[str]) -> frozenset[str]:
    """Those of the names that an object itself holds."""
    return frozenset(n for n in names if own_attribute(obj, n) is not MISSING)


def _means(v: Any, expected: Any, read: Reader) -> bool:
    return v is expected or type(v) is type(expected) and meaning(v) == meaning(expected)


def flat(v: Any) -> list[Any] | None:
    """The items of a list or dict, where they are constants all; ``None`` otherwise."""
    items = [*v, *v.values()] if type(v) is dict else list(v)
    return items if all(type(x) in _CONSTANTS for x in items) else None


_CONSTANTS = frozenset((bool, int, float, str, type(None), np.float64, np.float32, np.int64, np.int32, np.bool_))


def _alike(v: Any, expected: list[Any]) -> bool:
    items = [*v, *v.values()] if type(v) is dict else v
    return len(items) == len(expected) and (all(map(operator.is_, items, expected)) or all(
        x is y or type(x) is type(y) and meaning(x) == meaning(y) for x, y in zip(items, expected)))


_TESTS: dict[str, Any] = {
    "is": lambda v, expected, read: v is expected,
    "means": _means,
    "type": lambda v, expected, read: type(v) is expected,
    "plain": lambda v, expected, read: v is not MISSING and not hasattr(type(v), "__get__"),
    "absent": lambda v, expected, read: v is MISSING,
    "same": lambda v, expected, read: v is read(expected),
    "apart": lambda v, expected, read: v is not read(expected),
    "count": lambda v, expected, read: len(v) == expected,
    "keys": lambda v, expected, read: keys_of(v) == expected,
    "names": lambda v, expected, read: present(v, expected[0]) == expected[1],
    "content": lambda v, expected, read: contents(v) == expected,
    "items": lambda v, expected, read: type(v) is expected[0] and _alike(v, expected[1]),
}


def constant_number(v: Any) -> bool:
    """An integer, which is compiled in until it changes."""
    return (isinstance(v, int) and type(v) is int) or isinstance(v, np.integer)
