"""Strongly connected components of a graph (Tarjan 1972)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def strongly_connected(following: Mapping[Node, Sequence[Node]], roots: Iterable[Node]) -> list[list[Node]]:
    """The components that ``roots`` reach, in topological order, each in the order in which it was entered.

    ``following``: the successors of each node.
    """
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    found: list[list[Node]] = []
    stack: list[Node] = []
    height: dict[Node, int] = {}                         # of the stack below each node
    waiting: set[Node] = set()
    path: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        number[node] = lowest[node] = len(number)
        height[node] = len(stack)
        stack.append(node)
        waiting.add(node)
        path.append((node, iter(following[node])))

    for root in roots:
        if root not in number:
            enter(root)
        while path:
            node, rest = path[-1]
            for s in rest:
                if s not in number:
                    enter(s)
                    break
                if s in waiting:
                    lowest[node] = min(lowest[node], number[s])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component = stack[height[node]:]
                    del stack[height[node]:]
                    waiting.difference_update(component)
                    found.append(component)
    return found[::-1]
