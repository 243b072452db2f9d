"""The leaves of the arguments of a call, and of the captured values, as the tracer receives them."""

from __future__ import annotations

from ...ir.types import Type


class Leaf:
    """A run-time argument: its IR type, and whether it is a Python number.

    It is not a dataclass, because ``pytree`` treats those as structures.
    """

    __slots__ = ("type", "weak")

    def __init__(self, type: Type, weak: bool = False) -> None:
        self.type, self.weak = type, weak

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and (self.type, self.weak) == (other.type, other.weak)

    def __hash__(self) -> int:
        return hash((self.type, self.weak))

    def __repr__(self) -> str:
        return f"Leaf({self.type}{', weak' if self.weak else ''})"


class Opened:
    """An object of the user's classes among the arguments: the attributes that the program uses are read at each call.

    Two are equal if they have the same class; ``number`` is the index among the leaves.
    """

    __slots__ = ("cls", "number")

    def __init__(self, cls: type, number: int = 0) -> None:
        self.cls, self.number = cls, number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opened) and self.cls is other.cls

    def __hash__(self) -> int:
        return hash(self.cls)

    def __repr__(self) -> str:
        return self.cls.__qualname__
