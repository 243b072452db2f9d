"""What one program has read of captured state so far: its guards, and the places of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from ...ir.types import Type
from .attribute_names import attribute_names
from .guards import Guard
from .places import Place, Reader


class NeedName(Exception):
    """The program reads an attribute of this name of an object from outside: begin anew, knowing that."""

    def __init__(self, name: str) -> None:
        self.name = name


class Captures:
    """What one program has read so far.  ``constants``: floats are constants too; ``widened``: places of integers and
    arrays that are arguments, of any size."""

    def __init__(self, fun: Any = None, leaves: Sequence[Any] = (), constants: bool = False,
                 widened: frozenset[Place] = frozenset(), names: Iterable[str] = ()) -> None:
        self.fun, self.read = fun, Reader(leaves)
        self.constants, self.widened, self.more = constants, widened, names
        self.guards: dict[tuple[Place, str], Guard] = {}
        self.types: dict[Place, tuple[Type, bool]] = {}              # of arguments, and whether they are weak
        self.first: dict[int, Place] = {}            # where each object has been met first
        self.classes: set[type] = set()              # of objects that have been taken apart
        self.asked: dict[type, set[str]] = {}        # of which attributes these have been asked

    @cached_property
    def names(self) -> set[str]:
        """Of the attributes that may be read."""
        return attribute_names(self.fun).union(self.more)

    def guard(self, place: Place, test: str, expected: Any) -> None:
        self.guards.setdefault((place, test), Guard(place, test, expected))

    def all_guards(self) -> list[Guard]:
        """What the program takes for granted.  An object may have attributes that it was not asked for."""
        for guard in self.guards.values():
            if guard.test == "names":
                names, there = guard.expected
                asked = frozenset(self.asked.get(type(self.read(guard.place)), ()))
                guard.expected = names & asked, there & asked
        return list(self.guards.values())

    def canonical(self, place: Place, v: Any) -> Place:
        """The place at which an object has been met first; that it is the same one at this place is a guard."""
        first = self.first.setdefault(id(v), place)
        if first != place:
            self.guard(place, "same", first)
        return first
