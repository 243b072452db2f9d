"""Lets a loop count from where its indices begin, if its counter serves for nothing but these.

::

    ^loop(%it, …):                               ^loop(%it, %k, …):
      %k = add %start, %it                         %v = get %val, %k
      %v = get %val, %k              becomes       …
      …                                            %k1 = add %k, 1
      branch …, ^loop(%next, …)                    branch …, ^loop(%next, %k1, …)

The normal form counts from 0, so that passes can compare iterations.  In machine code ``%k`` is one instruction less in
each iteration if it is stepped itself: LLVM then compares it with its last value and drops ``%it``.  LLVM's own
strength reduction, which would do so too, is disabled (``lowering/jit/cpu.py``).  Differences, of loops that count
downwards, are treated likewise, and so are steps by a loop-invariant value, ``start + it * step`` as in a sieve.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Module, Op, Value
from ...ir.types import I64
from ...ir.uses import ops_of, users
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest


def strength_reduction(module: Module) -> None:
    """Step the indices of every innermost counted loop; expects normal form."""
    for func in module.functions.values():
        mapping: dict[Value, Value] = {}
        for loop in loop_forest(func).loops:
            known = counted(loop) if loop.blocks == {loop.head} else None
            if known is not None:
                mapping |= _stepped(loop, known)
        substitute(func, mapping)


def _stepped(loop: Loop, known: Counted) -> dict[Value, Value]:
    """Carry the index of a loop, and remove the ops that compute it; returns what takes the place of their results."""
    uses = users(ops_of(loop.blocks))
    read = [op for op in uses.get(known.iv, ()) if op is not known.next.op]
    counter, step, scaling = known.iv, None, None
    if len(read) == 1 and read[0].name == "mul":
        scaling = read[0]
        counter, step = scaling.result, scaling.operands[scaling.operands[0] is known.iv]
        read = uses.get(counter, [])
    forms = {(op.name, op.operands[op.operands[0] is counter]) for op in read if _is_index(op, counter)}
    if len(forms) != 1 or not all(_is_index(op, counter) for op in read):
        return {}
    (name, start), latch, count = next(iter(forms)), loop.latch, known.next.op
    if any(v.const is not None or v.block in loop.blocks for v in (start, step) if v) or latch is None or count is None:
        return {}
    index = loop.head.add_param(I64)
    loop.entry_edge().args.append(start)
    at = latch.ops.index(count)
    latch.ops, later = latch.ops[:at], latch.ops[at:]
    b = Builder(latch, read[0].loc)
    loop.back_edge().args.append(b.emit(name, index, step or b.const(1)))
    latch.ops += later                                       # the test of the end comes behind (``index_tests``)
    for op in [*read, scaling] if scaling else read:
        assert op.block is not None
        op.block.ops.remove(op)
    return {op.result: index for op in read}


def _is_index(op: Op, counter: Value) -> bool:
    """True for a sum of the counter and another value, and for a difference from which it is subtracted."""
    return op.name == "add" and op.operands[0] is not op.operands[1] or op.name == "sub" and op.operands[1] is counter
