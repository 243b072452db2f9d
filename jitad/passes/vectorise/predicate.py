"""Predication (if-conversion): elements of a loop execute together under a mask, with inner loops of unknown length.

``for i: out[i] = f(x[i])`` with a ``while`` in ``f`` computes one element at a time, and functions such as ``sin`` take
one argument at a time.  This pass strip-mines the loop into chunks of ``LANES`` elements that execute together:

* A scalar becomes an array, with an element for each element of the chunk: a vector in registers, as the size is known.
* A condition becomes an *active mask*, a bool for each element.  Both sides of a branch are executed.  Where they join,
  each element selects the value of its own side.
* An inner loop repeats while any element is active.  Elements that have left it keep their values.
* Sums are added up after each chunk, in order.
* A check that the counter is below a size is tested once for each chunk.
* What inner loops count, from the same start, is one number for all active elements: ``z[i, t]`` is part of a column.
* A branch ahead of an inner loop whose condition does not change, as ``0 < steps``, is decided ahead of the loop, if
  what follows cannot be masked.
* The last chunk overlaps the one before.  It stores the same once more, as no element reads what others store, and adds
  to sums what has not been added.

The loop itself stays for fewer than ``LANES`` elements, and for the other sides of conditions that are decided.

The pass applies to loops whose inner loops call functions with vector versions, or compute with floats for as long as a
condition holds.  Others are left to ``outer_loop``.
Ops that must not execute for inactive elements (other reads at an index, checks, calls) may not occur under a mask.
Only scalars may be carried by inner loops, or merged where paths join.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Value
from ...ir.types import is_float_scalar
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest
from .batch import select_terms, stores_of, sum_chains
from .batch_rules import TRAPS, NoRows
from .fission import VECTOR_FUNCTIONS
from .masked_chunks import MaskedChunks

LEAST = 3
"""The fewest float operations in an inner loop without functions."""

_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "sqrt"))

def predicate(module: Module) -> None:
    """Predicate every such loop; expects normal form: loops are rotated, closed, and have a preheader."""
    for func in module.functions.values():
        forest = loop_forest(func)
        for loop in forest.loops:
            known = counted(loop)
            if known is not None and known.iv.index == 0 and _pays(loop) and \
                    (known.trip.const is None or known.trip.const >= LANES):
                _in_chunks(func, forest, loop, known)


def _pays(loop: Loop) -> bool:
    """True if the loop has inner loops, all innermost, and one of them takes long enough."""
    return bool(loop.children) and not any(c.children for c in loop.children) and any(map(_takes_long, loop.children))


def _takes_long(inner: Loop) -> bool:
    """True if a loop calls a function with a vector version, or computes with floats and nobody knows for how long.

    Quotients of integers have no vectors.
    """
    ops = [op for block in inner.blocks for op in block.ops]
    if any(op.name in VECTOR_FUNCTIONS for op in ops):
        return True
    return counted(inner) is None and sum(
        op.name in _ARITHMETIC and is_float_scalar(op.result.type) for op in ops) >= LEAST and not any(
        op.name in TRAPS and not is_float_scalar(op.result.type) for op in ops)


def _in_chunks(func: Function, forest: LoopForest, loop: Loop, known: Counted) -> None:
    """Let a loop over chunks take the place of the loop, if each of its ops can be predicated."""
    select_terms(loop)
    sums = sum_chains(loop)
    stores = stores_of(loop, sums)
    if stores is None or loop.exit is None or loop.preheader is None or loop.preheader.term is None:
        return
    assumed = _decided(forest, loop)
    for decided in ({}, assumed) if assumed else ({},):      # with masks alone, no other side is left to the loop
        count = len(func.blocks)
        try:
            chunks = MaskedChunks(func, forest, loop, known, stores, sums, decided)
            leaving = chunks.run()
        except NoRows:
            del func.blocks[count:]
            continue
        if loop.parent is None and "threads" in func.attrs:
            func.attrs["lanes"] = True                       # each thread needs as many iterations
        return _version(func, loop, known, chunks.head, leaving, decided)


def _decided(forest: LoopForest, loop: Loop) -> dict[Value, int]:
    """The conditions that do not change in the loop, and the number of the edge that leads to an inner loop."""
    found: dict[Value, int] = {}
    for block in loop.blocks:
        term = block.term
        if term is not None and term.name == "branch" and forest.innermost[block] is loop and \
                (condition := term.operands[0]).block not in loop.blocks:
            sides = [k for k, edge in enumerate(term.edges) if edge.block in loop.blocks and any(
                forest.dom.dominates(edge.block, inner.head) for inner in loop.children)]
            if len(sides) == 1 and found.setdefault(condition, sides[0]) != sides[0]:
                return {}
    return found


def _version(func: Function, loop: Loop, known: Counted, chunks: Block, leaving: Edge, decided: dict[Value, int]
             ) -> None:
    """Enter the chunks if there is one and all conditions hold that were assumed, else the loop.

    Both have an exit of their own.
    """
    before, behind = loop.preheader, loop.exit
    assert before is not None and before.term is not None and behind is not None
    enter, args, b = before.term, before.term.edges[0].args, Builder(before, before.term.loc)
    before.term = None
    holds = b.ge(known.trip, LANES)
    for condition, side in decided.items():
        holds = b.and_(holds, b.not_(condition) if side else condition)
    starts = [func.new_block("preheader"), func.new_block("preheader")]
    b.branch(holds, starts[0], [], starts[1], [])
    for block, head in zip(starts, (chunks, loop.head)):
        b.at(block)
        b.loc = enter.loc
        b.jump(head, list(args))
    for inner in loop.children:                          # for a few elements: small code
        if inner.latch is not None and inner.latch.term is not None:
            inner.latch.term.attrs["cold"] = True
    for edge in (leaving, loop.exit_edge()):
        left = func.new_block("exit")
        b.at(left)
        b.jump(behind, [left.add_param(v.type, v.hint) for v in behind.params])
        edge.block = left
