"""Finds the loops that end when an index does, which they step beside their counter (``strength_reduction``).

::

    ^loop(%it, %k, …):                     the test is lowered as  %k1 != %start + %n
      check …                              and nothing reads %it, which is removed
      %next = add %it, 1
      %k1 = add %k, 1
      %more = lt %next, %n
      branch %more, ^loop(%next, %k1, …), …

There is at least one iteration, so the tests agree, also where ``%start + %n`` wraps around.  LLVM does the same where
it knows that ``%start`` is no undefined value, which it does not of what was loaded: the bounds of a row of a sparse
matrix.  Loops that neither check nor update elements at indices that they read are left to it, which makes vectors of
them.
"""

from __future__ import annotations

from ...ir.graph import Op, Value
from ...ir.types import I64
from ...ir.uses import ops_of, users
from ...passes.analysis.branches import is_scattered
from ...passes.analysis.loops import Loop, LoopForest, counted, stepped


def index_tests(forest: LoopForest) -> dict[Op, tuple[Value, Value, Value]]:
    """The tests in question, each with the first index, the next one and the number of iterations."""
    return {test[0]: test[1] for loop in forest.loops if (test := _index_test(loop)) is not None}


def _index_test(loop: Loop) -> tuple[Op, tuple[Value, Value, Value]] | None:
    known = counted(loop) if loop.blocks == {loop.head} and loop.preheader is not None else None
    if known is None or not any(op.name == "check" or op.name in ("set", "add_at") and is_scattered(op, loop)
                                for op in loop.head.ops):
        return None
    readers = users(ops_of(loop.blocks))
    term = loop.head.term
    test = term.operands[0].op if term is not None else None
    if test is None or test.block is not loop.head or any(op not in (known.next.op, test) for op in (
            *readers[known.iv], *(op for op in readers[known.next] if op is not term))):
        return None
    for p, following in loop.back_edge().passed():
        start = loop.entry_edge().args[p.index]
        if p is not known.iv and p.type == I64 and start.const is None:
            step = stepped(loop, p)
            if step is not None and step[0].const == step[1] == 1:
                return test, (start, following, known.trip)
    return None
