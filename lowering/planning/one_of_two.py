"""Finds selections that replace one of two carried values in each iteration, whichever the data say.

::

    ^loop(%lo, %hi):                               ; bisection; merging and partitioning have the same form
      %c = gt %x, %y
      %lo1 = select %c, %mid, %lo
      %hi1 = select %c, %hi, %mid
      branch …, ^loop(%lo1, %hi1), …

A branch on such a condition is mispredicted half of the time, so the selections must not become one, as LLVM makes it
if the condition compares what was loaded: selections of integers are marked ``!unpredictable``.  Of floats, two
selections with one condition take the way through a register of integers, since x86 code joins a comparison with a
selection only if nothing else reads it; the second selection has an inverted comparison of its own.  A search in a
table of 500 took 2.3 times as long as with selections, bisection of a polynomial 1.7 times as long.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...ir.types import is_float_scalar
from ...passes.analysis.loops import Loop, LoopForest

INVERSE = {"lt": "ge", "gt": "le"}
"""Comparisons whose inverse (true for NaN) LLVM keeps beside them; of the others it keeps one form for both."""


def one_of_two(forest: LoopForest) -> tuple[set[Op], set[Op]]:
    """The selections that replace one of two carried values; those of them whose comparison is inverted."""
    marked: set[Op] = set()
    inverted: set[Op] = set()
    for loop in forest.loops:
        for first, second in _pairs(loop):
            marked |= {first, second}
            test = first.operands[0].op
            if test is not None and test.name in INVERSE and first not in inverted and _of_floats(first, second, test):
                inverted.add(second)
    return marked, inverted


def _pairs(loop: Loop) -> list[tuple[Op, Op]]:
    """Pairs of selections by one condition: the first keeps a parameter of the loop if it holds, the second if not."""
    if loop.latch is None:
        return []
    kept: dict[Value, dict[int, Op]] = {}
    found = []
    for p, a in loop.back_edge().passed():
        op = a.op
        if op is not None and op.name == "select" and op.block in loop.blocks and p in op.operands[1:]:
            side = op.operands.index(p, 1)
            other = kept.setdefault(op.operands[0], {}).get(3 - side)
            if other is not None and other is not op:
                found.append((other, op))
            kept[op.operands[0]][side] = op
    return found


def _of_floats(first: Op, second: Op, test: Op) -> bool:
    return all(is_float_scalar(v.type)
               for v in (first.result, second.result, *test.operands))
