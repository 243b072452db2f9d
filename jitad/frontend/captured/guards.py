"""Guards: the conditions on captured state under which a program is valid, tested at each call."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...pytree import meaning
from .contents import contents
from .places import MISSING, Place, Reader, own_attribute


@dataclass(eq=False)
class Guard:
    """A condition on the value at a place; ``test`` is one of

    ``is`` (this object), ``means`` (a constant with this ``pytree.meaning``), ``type``, ``plain`` (not a descriptor),
    ``absent``, ``same`` (the same object as at another place), ``apart`` (a different object from that at another
    place), ``count`` (length of a list or tuple), ``keys`` (of a dict), ``names`` (of the names ``expected[0]``, the
    object has the attributes ``expected[1]``), ``items`` (type and constant items of a container), ``content`` (the
    same, recursively).
    """

    place: Place
    test: str
    expected: Any

    def holds(self, read: Reader) -> bool:
        """True if the guard holds now; an object of another type may not even allow the test."""
        try:
            return bool(_TESTS[self.test](read(self.place), self.expected, read))
        except (AttributeError, TypeError, ValueError):
            return False

    def __repr__(self) -> str:
        return f"{self.place} {self.test} {self.expected!r}"


def keys_of(table: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(map(meaning, table))


def present(obj: Any, names: frozenset[str]) -> frozenset[str]:
    """The names that an object itself holds as attributes."""
    return frozenset(n for n in names if own_attribute(obj, n) is not MISSING)


def _means(v: Any, expected: Any, read: Reader) -> bool:
    return v is expected or type(v) is type(expected) and meaning(v) == meaning(expected)


def flat(v: Any) -> list[Any] | None:
    """The items of a list or dict if all of them are constants, else None."""
    items = [*v, *v.values()] if type(v) is dict else list(v)
    return items if all(map(_is_constant, items)) else None


def _is_constant(x: Any) -> bool:
    return type(x) in _CONSTANTS or type(x) is tuple and all(map(_is_constant, x))


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


def is_number(v: Any) -> bool:
    """True for numbers that can be parameters of a program instead of constants."""
    return constant_number(v) or type(v) is float or isinstance(v, np.floating)


def constant_number(v: Any) -> bool:
    """True for integers, which are compiled in until they change."""
    return (isinstance(v, int) and type(v) is int) or isinstance(v, np.integer)
