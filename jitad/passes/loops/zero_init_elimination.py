"""Replaces ``a[i] += v`` on zeros, executed once for each ``i``, by ``a[i] = v`` on memory that is not cleared.

The gradient of a loop over arrays has this form: the adjoint of an array begins as zeros, and each iteration adds to
its own element.  To clear the array and to read it again takes two more passes over memory.

For a loop in which ``i`` runs from 0 to ``n`` or back, and nothing else accesses the array::

    a0 = fill(0, n)                             a0 = empty(n)
                                     becomes
    ^loop(i, a): … add_at(a, v, i)              ^loop(i, a): … set(a, v, i)

``v + 0`` is stored instead of ``v`` unless the addition may be reordered (``acc``), because 0 + −0 is 0.

If the array may be longer than the loop, the part that the loop does not reach is cleared.  It is mostly empty.  If the
trip count is a constant, that part is mostly large, and the whole array is cleared as before.
"""

from __future__ import annotations

import math

from ...ir.builder import Builder
from ...ir.graph import Module, Op, Value
from ...ir.types import Array, Scalar
from ...ir.uses import users
from ..analysis.affine import Affine, AffineForms, atom
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest


def zero_init_elimination(module: Module) -> None:
    """Rewrite every such loop; expects normal form."""
    for func in module.functions.values():
        if any(op.name == "add_at" for op in func.all_ops()):
            forest, readers = loop_forest(func), users(func.all_ops())
            for loop in forest.loops:
                known = counted(loop)
                if known is not None and loop.exit is not None:
                    for p in loop.head.params:
                        op = _update(forest, loop, known, p, readers)
                        if op is not None and _is_zeros(loop.entry_edge().args[p.index]):
                            _rewrite(loop, known, p, op)


def _is_zeros(v: Value) -> bool:
    """True if ``v`` is a one-dimensional array of +0."""
    if v.op is None or v.op.name != "fill" or not isinstance(v.type, Array) or v.type.rank != 1:
        return False
    known = v.op.operands[0].const
    return known is not None and known == 0 and math.copysign(1.0, known) > 0


def _update(forest: LoopForest, loop: Loop, known: Counted, p: Value, readers: dict[Value, list[Op]]) -> Op | None:
    """The only op that uses the array ``p``, if each iteration adds to an element of its own by it."""
    if len(readers.get(p, ())) != 1:
        return None
    op, latch = readers[p][0], loop.latch
    if op.name != "add_at" or op.operands[0] is not p or not isinstance(op.operands[1].type, Scalar):
        return None
    assert op.block is not None and latch is not None
    if forest.loop_of(op.block) is not loop or not forest.dom.dominates(op.block, latch):
        return None
    back = loop.back_edge().args
    passed_on = back[p.index] is op.result and back.count(op.result) == 1
    if not passed_on or any(user is not latch.term for user in readers[op.result]):
        return None
    return op if _enumerates(op.operands[2], known) else None


def _enumerates(index: Value, known: Counted) -> bool:
    """True if ``index`` takes each value below the trip count once: it is ``iv``, or ``trip - 1 - iv``."""
    forms = AffineForms()
    form, last = forms.of(index), forms.of(known.trip).plus(Affine(-1))
    return form.is_same(atom(known.iv)) or form.is_same(last.minus(atom(known.iv)))


def _rewrite(loop: Loop, known: Counted, p: Value, op: Op) -> None:
    entry = loop.entry_edge()
    fill = entry.args[p.index].op
    assert fill is not None and loop.preheader is not None and isinstance(p.type, Array)
    b, n = Builder(loop.preheader, fill.loc), fill.operands[1]
    if n is known.trip or known.trip.const is None:
        zeros = b.emit_op("empty", [n], dtype=p.type.dtype).result
        if n is not known.trip:
            reached = b.minimum(known.trip, n)
            rest = b.fill(fill.operands[0], b.sub(n, reached))
            zeros = b.set_slice(zeros, rest, reached, b.const(1))
        entry.args[p.index] = b.as_type(zeros, type=p.type)
    if p.type.dtype.is_float and not op.attrs.get("acc"):
        _add_zero(op)
    op.name, op.attrs = "set", {k: v for k, v in op.attrs.items() if k != "acc"}


def _add_zero(op: Op) -> None:
    block = op.block
    assert block is not None
    here = block.ops.index(op)
    tail, block.ops = block.ops[here:], block.ops[:here]
    op.operands[1] = Builder(block, op.loc).add(op.operands[1], 0.0)
    block.ops += tail
