"""Reverse postorder, the dominator tree (Cooper, Harvey and Kennedy: iterate on immediate dominators), and components.

Unreachable blocks are in no map: they dominate no block and no block dominates them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from .graph import Block, Edge, Function, Op, Value


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
    terms = [b.term for b in func.blocks]
    edges = [term.edges if term is not None else [] for term in terms]
    return [[*func.blocks], [term.name if term is not None else "" for term in terms],
            [*map(len, edges)], [e.block for found in edges for e in found]]


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
        for i, b in enumerate(self.order[1:], 1):
            self.idom[b] = self.order[immediate[i]]
        self._enter, self._leave = self._intervals(immediate)

    @cached_property
    def children(self) -> dict[Block, list[Block]]:
        """The blocks that each block dominates immediately, in reverse postorder."""
        found: dict[Block, list[Block]] = {b: [] for b in self.order}
        for b, parent in self.idom.items():
            if parent is not None:
                found[parent].append(b)
        return found

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

    def comes_first(self, a: Op, b: Op) -> bool:
        """True if ``a`` comes before ``b`` in its block, or in a block that dominates its block."""
        assert a.block is not None and b.block is not None
        if a.block is b.block:
            return a.block.ops.index(a) < a.block.ops.index(b)
        return self.dominates(a.block, b.block)

    def incoming(self, block: Block) -> Iterator[Edge]:
        """The edges into a reachable block."""
        return (e for b in dict.fromkeys(self.preds[block]) for e in (b.term.edges if b.term else ())
                if e.block is block)

    def arguments(self, param: Value) -> list[Value | None]:
        """The values that edges pass for a parameter: ``None`` where it is the result of a call."""
        return [e.argument(param) for e in self.incoming(param.block)]

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

    def _intervals(self, parents: Sequence[int]) -> tuple[dict[Block, int], dict[Block, int]]:
        """The positions of each block and of the last block below it in a walk of the tree.

        ``parents``: the immediate dominators by number, which are less than the blocks' own.
        """
        size = [1] * len(parents)
        for i in range(len(parents) - 1, 0, -1):
            size[parents[i]] += size[i]
        enter, free = [0] * len(parents), [1] * len(parents)         # free: the next position below a block
        for i in range(1, len(parents)):
            parent = parents[i]
            enter[i] = at = free[parent]
            free[parent] = at + size[i]
            free[i] = at + 1
        return dict(zip(self.order, enter)), {b: at + n - 1 for b, at, n in zip(self.order, enter, size)}


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
    number: dict[Node, float] = {}                       # infinite once the component is complete
    lowest: dict[Node, float] = {}
    found: list[list[Node]] = []
    stack: list[Node] = []
    path: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack.append(root)
        path.append((root, iter(following[root])))
        while path:
            node, rest = path[-1]
            for s in rest:
                if (known := number.get(s)) is None:
                    number[s] = lowest[s] = len(number)
                    stack.append(s)
                    path.append((s, iter(following[s])))
                    break
                if known < lowest[node]:
                    lowest[node] = known
            else:
                path.pop()
                low = lowest[node]
                if path and low < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = low
                if low == number[node]:
                    found.append(_take_from(stack, node))
                    number.update(dict.fromkeys(found[-1], math.inf))
    return found[::-1]


def _take_from(stack: list[Node], node: Node) -> list[Node]:
    """Remove ``node`` and what is above it from a stack, and return it."""
    start = len(stack) - 1
    while stack[start] != node:
        start -= 1
    taken = stack[start:]
    del stack[start:]
    return taken
