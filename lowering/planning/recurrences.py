"""Finds the float ops that a loop's next iteration waits for, and what must not be done to them.

``fastmath`` allows LLVM to reassociate and to multiply by reciprocals.  Both reduce the number of operations, and both
may lengthen the way from a carried value to its next one: ``a * x + b * y`` with ``y`` carried is one operation behind
``y``, ``(x + (b / a) * y) * a`` would be three.  The iterations of such a loop are a chain, whose length is their time.
A sum or a product that carries nothing else, and that nothing else in the loop reads, is no such chain: reassociated,
it is computed in vectors.  A division by what does not wait is left to LLVM: if the divisor does not change, a product
with its reciprocal takes a third of the time.

A product that is not part of the chain, and that a sum of the chain adds, is not contracted with the sum: the chain
would wait for a fused operation, of four cycles on many processors, instead of an addition, of three or less.
"""

from __future__ import annotations

from ...ir.dominance import strongly_connected
from ...ir.graph import Block, Op, Value
from ...ir.types import is_float_scalar
from ...ir.uses import users
from ...passes.analysis.affine import through_memory
from ...passes.analysis.loops import Loop, LoopForest

_REDUCTIONS = ({"add", "sub"}, {"mul"}, {"maximum"}, {"minimum"})


def recurrences(forest: LoopForest) -> set[Op]:
    """The scalar float ops on cycles through the carried values of innermost loops, without those of reductions."""
    found: set[Op] = set()
    position = {block: i for i, block in enumerate(forest.dom.order)}
    for loop in forest.loops:
        if not loop.children:
            blocks = sorted(loop.blocks, key=position.__getitem__)
            readers: dict[Value, list[Op]] | None = None
            for values in _cycles(loop, blocks):
                cycle = {v.op for v in values if v.op is not None}
                if any({op.name for op in cycle} <= names for names in _REDUCTIONS):
                    if readers is None:
                        readers = users(op for block in blocks for op in block.ops)
                    waits = any(op not in cycle for v in values for op in readers.get(v, ()))
                else:
                    waits = True
                if waits:
                    found |= {op for op in cycle if op.name != "div" or op.operands[1] in values}
    return found


def products_beside(chains: set[Op]) -> set[Op]:
    """The products outside of chains that an addition or subtraction of a chain adds."""
    return {v.op for op in chains if op.name in ("add", "sub") for v in op.operands
            if v.op is not None and v.op.name == "mul" and v.op not in chains}


def _cycles(loop: Loop, blocks: list[Block]) -> list[set[Value]]:
    """The values of each cycle of scalar floats in a loop, through its parameters or through elements of an array."""
    made = [v for block in blocks for v in (*block.params, *(v for op in block.ops for v in op.results))]
    following: dict[Value, list[Value]] = {v: [] for v in made if is_float_scalar(v.type)}
    for block in blocks:
        for op in block.ops:
            results = [r for r in op.results if r in following]
            for v in op.operands if results else ():
                if v in following:
                    following[v] += results
        for edge in block.term.edges if block.term is not None else ():
            if edge.block in loop.blocks:
                for p, a in edge.passed():
                    if a in following:
                        following[a].append(p)
    for value, result in through_memory(loop, blocks, lambda v: is_float_scalar(v.type)):
        if value in following:
            following[value].append(result)
    components = strongly_connected(following, following)
    return [set(component) for component in components if len(component) > 1]
