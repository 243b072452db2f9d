"""What ``privatisation`` asks of a loop and of sizes: the uses of values, and sizes that are one value."""

from __future__ import annotations

from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import Axis
from ...ir.uses import ops_of
from ..analysis.loops import Loop, LoopForest, raising_blocks
from ..analysis.sizes import Size, Solver


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


class Sizes:
    """Canonical sizes; a value that is the ``dim`` of an array is that array's size."""

    def __init__(self, func: Function) -> None:
        self.solver = Solver(func)

    def axis(self, axis: Axis) -> Size:
        return self.of(self.solver.size(axis))

    def of(self, size: Size) -> Size:
        while isinstance(size, Value):
            if size.const is not None:
                return int(size.const)
            if size.op is None or size.op.name != "dim":
                break
            size = self.solver.size((size.op.operands[0], size.op.attrs["axis"]))
        return size
