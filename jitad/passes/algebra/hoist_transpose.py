"""Stores the transpose of a matrix before a loop that multiplies by it::

    ^loop(h):                             wt := copy(transpose(w))
      h' := h @ w.T          becomes    ^loop(h):
                                          h' := h @ wt

``h @ w.T``, which the reverse sweep of ``h @ w`` also computes, reads ``w`` across the rows of the result.  For the
small products of a recurrent network it takes 1.5 times as long as ``h @ w``.  If ``w`` is loop-invariant, the pass
stores its transpose once.  Products with a vector read each element of ``w`` once in either case, and are not changed.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import dims_of
from ..analysis.loops import Loop, LoopForest, counted, loop_forest


def hoist_transpose(module: Module) -> None:
    """Hoist every such transpose; expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(_has_transposed(op) for op in func.all_ops()):
            _in_function(func)


def _has_transposed(op: Op) -> bool:
    return op.name == "matmul" and bool(op.attrs.get("tb")) and all(len(dims_of(v.type)) == 2 for v in op.operands)


def _in_function(func: Function) -> None:
    forest = loop_forest(func)
    dom = forest.dom
    stored: dict[tuple[Value, Block], Value] = {}
    for block in func.blocks:
        for op in block.ops:
            if _has_transposed(op) and (preheader := _before(op, block, forest, dom)) is not None:
                key = op.operands[1], preheader
                if key not in stored:
                    b = Builder(preheader, op.loc)
                    stored[key] = b.copy(b.transpose(op.operands[1], perm=(1, 0)))
                op.operands[1] = stored[key]
                op.attrs = {k: v for k, v in op.attrs.items() if k != "tb"}


def _before(op: Op, block: Block, forest: LoopForest, dom: Dominators) -> Block | None:
    """The preheader of the outermost loop in which the matrix is invariant and each iteration executes ``op``."""
    preheader, loop = None, forest.loop_of(block)
    while loop is not None and op.operands[1].block not in loop.blocks and _always(loop, block, dom):
        if _is_long(loop):
            preheader = loop.preheader
        loop = loop.parent
    return preheader


def _always(loop: Loop, block: Block, dom: Dominators) -> bool:
    return loop.preheader is not None and loop.latch is not None and dom.dominates(block, loop.latch)


def _is_long(loop: Loop) -> bool:
    known = counted(loop)
    return known is None or known.trip.const != 1
