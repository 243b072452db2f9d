"""Reverse postorder, the dominator tree (Cooper, Harvey and Kennedy: iterate on immediate dominators), and components.

Unreachable blocks are in no map: they dominate no block and no block dominates them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from .graph import Block, Function


def reverse_postorder(func: Function) -> list[Block]:
    """The reachable blocks, each before its successors except along back edges; the first edge comes first."""
    return blocks_from(func.entry)


def blocks_from(first: Block) -> list[Block]:
    """The blocks that ``first`` reaches, in reverse postorder."""
    order: list[Block] = []
    seen = {first}
    path = [(first, first.successors())]
    while path:
        block, rest = path[-1]
        while rest:
            s = rest.pop()                               # the last first, since the order is reversed at the end
            if s not in seen:
                seen.add(s)
                path.append((s, s.successors()))
                break
        else:
            order.append(block)
            path.pop()
    order.reverse()
    return order


def shape_of_control(func: Function) -> list[Any]:
    """The blocks, their terminators and successors: everything on which an analysis of control flow depends."""
    shape: list[Any] = []
    for b in func.blocks:
        shape.append(b)
        if b.term is not None:
            shape.append(b.term.name)
            for e in b.term.edges:
                shape.append(e.block)
    return shape


def dominators(func: Function) -> Dominators:
    """The dominator tree, which is cached as long as control flow does not change."""
    shape = shape_of_control(func)
    if func.control is None or func.control[0] != shape:
        func.control = shape, Dominators(func)
    found: Dominators = func.control[1]
    return found


class Dominators:
    """The dominator tree of a function; any later change of control flow makes it stale.

    ``order``: reachable blocks in reverse postorder.  ``idom``: the immediate dominator (None at the entry).
    ``preds``: the predecessors of each reachable block, once for each edge.  ``back``: the edges (source, target)
    against that order; every loop has one.  ``forest`` and ``raising``: caches for the loops and the blocks that only
    raise (``loops.py``).
    """

    forest: Any = None
    raising: set[Block] | None = None

    def __init__(self, func: Function) -> None:
        self.order = reverse_postorder(func)
        self.number = {b: i for i, b in enumerate(self.order)}
        self.preds: dict[Block, list[Block]] = {b: [] for b in self.order}
        self.back: list[tuple[Block, Block]] = []
        for i, b in enumerate(self.order):
            for s in b.successors():
                self.preds[s].append(b)
                if self.number[s] <= i:
                    self.back.append((b, s))
        immediate = self._iterate()
        self.idom: dict[Block, Block | None] = {self.order[0]: None}
        self.children: dict[Block, list[Block]] = {b: [] for b in self.order}
        for i, b in enumerate(self.order[1:], 1):
            parent = self.idom[b] = self.order[immediate[i]]
            self.children[parent].append(b)
        self._enter, self._leave = self._intervals()

    @cached_property
    def frontiers(self) -> dict[Block, set[Block]]:
        """For each block, the blocks at which paths from it meet paths that avoid it."""
        found: dict[Block, set[Block]] = {}
        for block, preds in self.preds.items():
            for b in preds if len(preds) > 1 else ():
                above: Block | None = b
                while above is not None and above is not self.idom[block]:
                    found.setdefault(above, set()).add(block)
                    above = self.idom[above]
        return found

    @property
    def reachable(self) -> dict[Block, int]:
        """The reachable blocks (as keys), numbered in reverse postorder."""
        return self.number

    def in_order(self, blocks: Iterable[Block]) -> list[Block]:
        """Those reachable blocks in reverse postorder.  The time is that of sorting them, not the function's length."""
        return sorted(blocks, key=self.number.__getitem__)

    def dominates(self, a: Block, b: Block) -> bool:
        """True if every path from the entry to ``b``, both reachable, passes ``a`` (a block dominates itself)."""
        return self._enter[a] <= self._enter[b] and self._leave[b] <= self._leave[a]

    def preorder(self) -> list[Block]:
        """The blocks of the dominator tree, each before those that it dominates."""
        return sorted(self.order, key=self._enter.__getitem__)

    def _iterate(self) -> list[int]:
        """Immediate dominators by number: meet over the predecessors until a fixed point."""
        preds = [[self.number[p] for p in self.preds[b]] for b in self.order]
        idom: list[int] = [-1] * len(self.order)
        idom[0] = 0
        changed = True
        while changed:
            changed = False
            for b in range(1, len(self.order)):
                new = -1
                for p in preds[b]:
                    if idom[p] >= 0:
                        new = p if new < 0 else _meet(idom, p, new)
                if idom[b] != new:
                    idom[b], changed = new, True
        return idom

    def _intervals(self) -> tuple[dict[Block, int], dict[Block, int]]:
        """The times at which a walk of the tree enters and leaves each block; ancestors have larger intervals."""
        enter: dict[Block, int] = {}
        leave: dict[Block, int] = {}
        clock = 0
        todo: list[tuple[Block, bool]] = [(self.order[0], False)]
        while todo:
            block, done = todo.pop()
            if done:
                leave[block] = clock
            else:
                enter[block] = clock
                todo.append((block, True))
                todo.extend((c, False) for c in reversed(self.children[block]))
            clock += 1
        return enter, leave


def _meet(idom: Sequence[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = idom[a]
        else:
            b = idom[b]
    return a


Node = TypeVar("Node", bound=Hashable)


def strongly_connected(following: Mapping[Node, Sequence[Node]], roots: Iterable[Node]) -> list[list[Node]]:
    """The strongly connected components that ``roots`` reach, in topological order (Tarjan 1972).

    Each is in the order in which it was entered.
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
