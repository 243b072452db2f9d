"""Finds the float ops that a loop's next iteration waits for, and what must not be done to them.

``fastmath`` allows LLVM to reassociate and to multiply by reciprocals.  Both reduce the number of operations, and both
may lengthen the way from a carried value to its next one: ``a * x + b * y`` with ``y`` carried is one operation behind
``y``, ``(x + (b / a) * y) * a`` would be three.  The iterations of such a loop are a chain, whose length is their time.
A sum or a product that carries nothing else is no such chain: reassociated, it is computed in vectors.

A product that is not part of the chain, and that a sum of the chain adds, is not contracted with the sum: the chain
would wait for a fused operation, of four cycles on many processors, instead of an addition, of three or less.
"""

from __future__ import annotations

from ...ir.dominance import strongly_connected
from ...ir.graph import Op, Value
from ...ir.types import Scalar
from ...passes.analysis.loops import Loop, LoopForest

_REDUCTIONS = ({"add", "sub"}, {"mul"}, {"maximum"}, {"minimum"})


def recurrences(forest: LoopForest) -> set[Op]:
    """The scalar float ops on cycles through the carried values of innermost loops, without those of reductions."""
    found: set[Op] = set()
    for loop in forest.loops:
        if not loop.children:
            for cycle in _cycles(loop):
                if not any({op.name for op in cycle} <= names for names in _REDUCTIONS):
                    found |= cycle
    return found


def products_beside(chains: set[Op]) -> set[Op]:
    """The products outside of chains that an addition or subtraction of a chain adds."""
    return {v.op for op in chains if op.name in ("add", "sub") for v in op.operands
            if v.op is not None and v.op.name == "mul" and v.op not in chains}


def _cycles(loop: Loop) -> list[set[Op]]:
    """The ops of each cycle of scalar floats in a loop."""
    following: dict[Value, list[Value]] = {}
    for block in sorted(loop.blocks, key=lambda b: b is not loop.head):
        for v in block.params:
            following.setdefault(v, [])
        for op in block.ops:
            for v in op.results:
                following.setdefault(v, [])
    for block in loop.blocks:
        for op in block.ops:
            for v in op.operands:
                if v in following and _is_float(v):
                    following[v] += filter(_is_float, op.results)
        for edge in block.term.edges if block.term is not None else ():
            if edge.block in loop.blocks:
                for p, a in edge.passed():
                    if a in following and _is_float(a):
                        following[a].append(p)
    components = strongly_connected(following, loop.head.params)
    return [{v.op for v in component if v.op is not None} for component in components if len(component) > 1]


def _is_float(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_float
