"""Turns a matrix once before a loop whose iterations multiply with its transpose.

``h @ w.T`` (which is also the way back of ``h @ w``) reads ``w`` across the direction in which results lie together,
so for the small products of a recurrent network it takes half as long again as ``h @ w``.  Where ``w`` is the same in
all iterations its transpose is stored before.  Products with a vector read ``w`` once either way and stay.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import dims_of
from ..analysis.loops import Loop, LoopForest, counted, loop_forest


def hoist_transpose(module: Module) -> None:
    """Expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(_is_turned(op) for op in func.all_ops()):
            _in_function(func)


def _is_turned(op: Op) -> bool:
    return op.name == "matmul" and bool(op.attrs.get("tb")) and all(len(dims_of(v.type)) == 2 for v in op.operands)


def _in_function(func: Function) -> None:
    forest = loop_forest(func)
    dom = forest.dom
    stored: dict[tuple[Value, Block], Value] = {}
    for block in func.blocks:
        for op in block.ops:
            if _is_turned(op) and (place := _before(op, block, forest, dom)) is not None:
                key = op.operands[1], place
                if key not in stored:
                    b = Builder(place, op.loc)
                    stored[key] = b.copy(b.transpose(op.operands[1], perm=(1, 0)))
                op.operands[1] = stored[key]
                op.attrs = {k: v for k, v in op.attrs.items() if k != "tb"}


def _before(op: Op, block: Block, forest: LoopForest, dom: Dominators) -> Block | None:
    """The preheader of the outermost loop in which the matrix stays, if each of its iterations comes to ``op``."""
    place, loop = None, forest.loop_of(block)
    while loop is not None and op.operands[1].block not in loop.blocks and _always(loop, block, dom):
        if _is_long(loop):
            place = loop.preheader
        loop = loop.parent
    return place


def _always(loop: Loop, block: Block, dom: Dominators) -> bool:
    return loop.preheader is not None and loop.latch is not None and dom.dominates(block, loop.latch)


def _is_long(loop: Loop) -> bool:
    known = counted(loop)
    return known is None or known.trip.const != 1
