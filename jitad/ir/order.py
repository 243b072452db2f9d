"""Reverse postorder, fixed points, and dominators (Cooper, Harvey and Kennedy: iterate on immediate dominators)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from .graph import Block, Function


class Joined(Protocol):
    """What is known at the beginning of a block."""

    def join(self, other: Any) -> bool:
        """Take in what another path knows; whether that changed anything."""


S = TypeVar("S", bound=Joined)


def reverse_postorder(func: Function) -> list[Block]:
    """The reachable blocks, each before those that it alone leads to."""
    order: list[Block] = []
    seen = {func.entry}
    path = [(func.entry, iter(func.entry.successors()))]
    while path:
        block, successors = path[-1]
        for s in successors:
            if s not in seen:
                seen.add(s)
                path.append((s, iter(s.successors())))
                break
        else:
            order.append(block)
            path.pop()
    return order[::-1]


def fixed_point(func: Function, states: dict[Block, S], after: Callable[[Block], Iterable[tuple[Block, S]]]) -> None:
    """Follow every edge until no state grows: ``after(block)`` gives the states that its edges bring to others."""
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


class Dominance:
    """Which blocks lie on every path to which."""

    def __init__(self, func: Function) -> None:
        order = reverse_postorder(func)
        self.reachable = set(order)
        number = {b: i for i, b in enumerate(order)}
        preds: list[list[int]] = [[] for _ in order]
        for b in order:
            for s in b.successors():
                preds[number[s]].append(number[b])
        idom = _immediate(preds)
        # A block's descendants in the dominator tree are numbered without gaps.
        children: list[list[int]] = [[] for _ in order]
        for i in range(1, len(order)):
            children[idom[i]].append(i)
        self._span: dict[Block, tuple[int, int]] = {}
        self._number_tree(order, children)

    def _number_tree(self, order: list[Block], children: list[list[int]]) -> None:
        clock = 0
        begun: dict[int, int] = {}
        todo = [(0, False)]
        while todo:
            i, done = todo.pop()
            if done:
                self._span[order[i]] = begun[i], clock
                continue
            begun[i], clock = clock, clock + 1
            todo.append((i, True))
            todo += [(c, False) for c in children[i]]

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path to ``b`` goes through ``a``; false if either cannot be reached."""
        if a not in self._span or b not in self._span:
            return False
        first, end = self._span[a]
        return first <= self._span[b][0] < end


def _immediate(preds: list[list[int]]) -> list[int]:
    """The immediate dominator of each block, all by reverse postorder number."""
    idom = [0] + [-1] * (len(preds) - 1)
    changed = True
    while changed:
        changed = False
        for b in range(1, len(preds)):
            new = -1
            for p in preds[b]:
                if idom[p] >= 0:
                    new = p if new < 0 else _meet(idom, new, p)
            if new != idom[b]:
                idom[b], changed = new, True
    return idom


def _meet(idom: list[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = idom[a]
        while b > a:
            b = idom[b]
    return a
