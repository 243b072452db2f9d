"""The uses of values in a loop and behind it, for ``privatisation``."""

from __future__ import annotations

from ...ir.graph import Block, Edge, Op, Value
from ...ir.uses import ops_of
from ..analysis.loops import Loop, LoopForest, raising_blocks


class Region:
    """A loop with the blocks that hang off it and only raise, and the uses of values in it.

    ``users``: the ops that have a value as an operand.  ``passed``: the edges on which a value is an argument, with the
    parameter that receives it.  ``incoming``: the edges into each block, with their sources.
    """

    def __init__(self, forest: LoopForest, loop: Loop) -> None:
        self.forest, self.loop, self.dom = forest, loop, forest.dom
        self.blocks = loop.region(raising_blocks(forest.dom))
        self.users: dict[Value, list[Op]] = {}
        self.passed: dict[Value, list[tuple[Edge, Value]]] = {}
        self.incoming: dict[Block, list[tuple[Block, Edge]]] = {}
        for op in ops_of(self.blocks):
            assert op.block is not None
            for v in dict.fromkeys(op.operands):
                self.users.setdefault(v, []).append(op)
            for e in op.edges:
                self.incoming.setdefault(e.block, []).append((op.block, e))
                for q, a in e.passed():
                    self.passed.setdefault(a, []).append((e, q))
        self.all: tuple[dict[Value, list[Op]], dict[Value, list[Value]]] | None = None

    def everywhere(self) -> tuple[dict[Value, list[Op]], dict[Value, list[Value]]]:
        """The ops of the whole function that have a value as an operand, and the parameters that receive it."""
        if self.all is None:
            users: dict[Value, list[Op]] = {}
            passed: dict[Value, list[Value]] = {}
            for op in self.loop.head.func.all_ops():
                for v in dict.fromkeys(op.operands):
                    users.setdefault(v, []).append(op)
                for q, a in (pair for e in op.edges for pair in e.passed()):
                    passed.setdefault(a, []).append(q)
            self.all = users, passed
        return self.all


class Left:
    """The way of an array behind a loop that carries it as ``param``, which may lead nowhere but into the loop again.

    ``origin``: the array that the loop is first entered with, however many loops are around it, or None if something
    reads what the loop has left.  ``again``: a loop around enters this one with the array again.
    """

    def __init__(self, region: Region, param: Value, members: dict[Value, None], leaving: list[Value]) -> None:
        entered = region.loop.entry_edge().argument(param)
        self.origin, self.again = entered, False
        if not leaving:
            return
        users, passed = region.everywhere()
        seen, todo = dict.fromkeys(leaving), list(leaving)
        others: set[Value] = set()
        while todo:
            v = todo.pop()
            targets = [q for q in passed.get(v, ()) if q is not param]
            given = region.dom.arguments(v)
            if users.get(v) or None in given or any(q.block in region.blocks for q in targets):
                self.origin = None
                return
            new = [q for q in targets if q not in seen]
            seen.update(dict.fromkeys(new))
            todo += new
            others |= {a for a in given if a is not None and a not in members}
        if entered in seen:
            self.again = True
            first = others - seen.keys()
            self.origin = first.pop() if len(first) == 1 else None
