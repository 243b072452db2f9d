"""Finds selections of floats for which LLVM would make branches, in loops that it does not vectorise.

An x86 processor selects between two floats by a mask, which a comparison of vectors makes.  LLVM uses one if nothing
but the selection reads the comparison.  Otherwise it compares into the flags, and makes a branch of each selection::

    %c = gt %x, %y
    %a = select %c, %p, %q                  ; three branches, and moves of floats between them
    %b = select %c, %r, %s
    %d = select %c, %u, %v

The derivative of an ``if`` has many selections with one condition.  They are written as selections of vectors, with one
comparison of vectors.  The gradient of an envelope follower for AVX2 took 1.9 times as long with branches.

A condition that is loaded, as what the forward sweep has chosen, becomes a mask too.  There is no comparison to join
with, and the branches may be mispredicted: the gradient of an edit distance row by row took 1.5 times as long.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...ir.types import is_float_scalar
from ...ir.uses import ops_of
from ...passes.analysis.loops import LoopForest

FEWEST = 3
"""The number of selections from which a mask is made.  One predictable branch takes less time than a selection that an
iteration waits for, as in the index of the largest number so far."""
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def shared_conditions(forest: LoopForest, chains: set[Op]) -> set[Op]:
    """The selections; ``chains`` are the recurrences, which keep a loop from becoming vectors."""
    serial = {op.block for op in chains}
    found: set[Op] = set()
    for loop in forest.loops:
        if loop.children or not loop.blocks & serial:
            continue
        readers: dict[Value, list[Op]] = {}
        for op in ops_of(loop.blocks):
            if op.name == "select" and is_float_scalar(op.result.type) and (_by_floats(op) or _is_loaded(op)):
                readers.setdefault(op.operands[0], []).append(op)
        for ops in readers.values():
            if len(ops) >= FEWEST or _is_loaded(ops[0]):
                found |= set(ops)
    return found


def _by_floats(op: Op) -> bool:
    """True if ``op`` selects between floats, by a comparison of floats of the same size."""
    test, t = op.operands[0].op, op.result.type
    return test is not None and test.name in COMPARISONS and test.operands[0].type == t


def _is_loaded(op: Op) -> bool:
    """True if ``op`` selects by an element of an array of bools."""
    test = op.operands[0].op
    return test is not None and test.name == "get"
