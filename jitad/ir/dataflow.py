"""Forward dataflow to a fixed point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from .dominance import reverse_postorder
from .graph import Block, Function


class Joined(Protocol):
    """The state at the beginning of a block."""

    def join(self, other: Any) -> bool:
        """Join with the state of another path; returns True if this state changed."""


S = TypeVar("S", bound=Joined)


def fixed_point(func: Function, states: dict[Block, S], after: Callable[[Block], Iterable[tuple[Block, S]]]) -> None:
    """Propagate states along edges until none changes: ``after(block)`` gives the states of its outgoing edges."""
    position = {b: i for i, b in enumerate(reverse_postorder(func))}
    todo = {func.entry}
    while todo:
        block = min(todo, key=position.__getitem__)
        todo.remove(block)
        for target, state in after(block):
            known = states.get(target)
            if known is None:
                states[target] = state
                todo.add(target)
            elif known.join(state):
                todo.add(target)
