"""The captured state that one program has read so far: its guards, and the places of its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from ...ir.types import Type
from ...pytree import field_names
from .attribute_names import attribute_names
from .guards import Guard
from .places import Place, Reader


class NeedName(Exception):
    """Restarts the trace: the program reads an attribute of this name of an object that has been read without it."""

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name


class Captures:
    """The captured state that one program has read so far.

    ``constants``: floats are compiled in too.  ``widened``: places of integers and arrays that are parameters, arrays
    with unknown sizes.  ``more``: attribute names beside those found in the code.  ``exact``: the attributes that the
    program reads, by class, if it has been traced before.
    """

    def __init__(self, fun: Any = None, leaves: Sequence[Any] = (), constants: bool = False,
                 widened: frozenset[Place] = frozenset(), more: Iterable[str] = (),
                 exact: dict[type, set[str]] | None = None) -> None:
        self.fun, self.read = fun, Reader(leaves)
        self.constants, self.widened, self.more, self.exact = constants, widened, more, exact
        self.guards: dict[tuple[Place, str], Guard] = {}
        self.types: dict[Place, tuple[Type, bool]] = {}              # of parameters, with a flag for weak types
        self.first: dict[int, Place] = {}            # the first place of each object, by id
        self.classes: set[type] = set()              # of objects whose fields have been read
        self.asked: dict[type, set[str]] = {}        # the attributes that the program reads, by class

    @cached_property
    def _names(self) -> set[str]:
        return attribute_names(self.fun).union(self.more)

    def names_of(self, cls: type) -> set[str]:
        """The attributes of a class's objects that the program may read; all fields of a dataclass are among them."""
        return (self._names if self.exact is None else self.exact.get(cls, set())) | self._fields(cls)

    def unread(self) -> bool:
        """True if attributes have been read while tracing that the program does not read."""
        return any(there - self.asked.get(cls, set()) - self._fields(cls) for cls, there in self._present())

    def _present(self) -> Iterator[tuple[type, frozenset[str]]]:
        for guard in self.guards.values():
            if guard.test == "names":
                yield type(self.read(guard.place)), guard.expected[1]

    @staticmethod
    def _fields(cls: type) -> frozenset[str]:
        return frozenset(field_names(cls) if dataclasses.is_dataclass(cls) else ())

    def guard(self, place: Place, test: str, expected: Any) -> None:
        self.guards.setdefault((place, test), Guard(place, test, expected))

    def all_guards(self) -> list[Guard]:
        """All guards of the program.

        The guards on which attributes an object has are limited to the attributes that the program reads.
        """
        for guard in self.guards.values():
            if guard.test == "names":
                names, there = guard.expected
                asked = frozenset(self.asked.get(type(self.read(guard.place)), ()))
                guard.expected = names & asked, there & asked
        return list(self.guards.values())

    def canonical(self, place: Place, v: Any) -> Place:
        """The first place at which an object was read; a guard states that ``place`` holds the same object."""
        first = self.first.setdefault(id(v), place)
        if first != place:
            self.guard(place, "same", first)
        return first
