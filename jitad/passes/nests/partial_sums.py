"""Partial sums: a sum that inner loops continue begins anew in each iteration of the loop around.

Integers and cotangents (``acc``) may be added up in any order, and under ``fastmath`` all sums may.  Floats that begin
anew in each iteration of a loop further out stay in one nest: its lanes, along that loop, take half of the time for a
convolution of 5 × 5 elements (AMD EPYC).  The reverse sweep of a loop in a loop carries the cotangent of a parameter
through both::

    ^loop(i, s):                                  ^loop(i, s):
      ^inner(j, t := s):                            ^inner(j, t := -0.0):
          t' := add {acc} t, x          becomes         t' := add {acc} t, x
      again ^loop(i + 1, t')                        again ^loop(i + 1, add {acc} s, t')

The iterations of the outer loop no longer wait for one another, and can run in lanes (``outer_loop``).  The start is
-0.0, to which anything can be added without a change; of integers 0.

A value is *of the sum* if it is ``s`` plus something: ``s`` itself, a value of the sum plus or minus another one, or a
parameter to which all edges pass values of the sum.  Nothing else may read them.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import Scalar
from ...ir.uses import users
from ..analysis.loops import Loop, counted, loop_forest

JUMPS = ("jump", "branch", "switch")


def partial_sums(module: Module, uncounted: bool = False) -> bool:
    """Split sums in every nest of normal form; returns True if there were any.

    ``uncounted``: only around loops of which nobody knows how long they take, for ``predicate``.
    """
    changed = False
    for func in module.functions.values():
        changed |= _split_all(func, module.fastmath, uncounted)
    return changed


def _split_all(func: Function, free: bool, uncounted: bool) -> bool:
    forest = loop_forest(func)
    loops = [loop for loop in forest.loops if loop.children and loop.exit is not None and counted(loop) is not None
             and not (uncounted and all(counted(child) for child in loop.children))]
    if not loops:
        return False
    changed = False
    readers = users(func.all_ops())
    heads = {loop.head for loop in forest.loops}
    for loop in loops:
        for p in loop.head.params:
            if not isinstance(p.type, Scalar) or p.type.is_bool:
                continue
            in_any_order = not p.type.is_float or free and not _begins_anew(loop, p)
            if _is_split(loop, p, _Sum(loop, p, readers, in_any_order).values, forest.dom, heads):
                _split(loop, p, readers)
                changed = True
    return changed


def _begins_anew(loop: Loop, p: Value) -> bool:
    """True for a sum of one iteration of the loop around: these iterations do not wait for one another."""
    start = loop.entry_edge().args[p.index]
    return loop.parent is not None and start.const is not None


class _Sum:
    """The values of the sum that ``loop`` carries in ``p``; none if there is another use of one of them."""

    def __init__(self, loop: Loop, p: Value, readers: dict[Value, list[Op]], free: bool) -> None:
        self.loop, self.free = loop, free
        self.values: set[Value] = {p}
        todo = [p]
        while todo:
            v = todo.pop()
            for op in readers.get(v, ()):
                found = self._next(op, v, p)
                if found is None:
                    self.values.clear()
                    return
                todo += [w for w in found if w not in self.values]
                self.values.update(found)

    def _next(self, op: Op, v: Value, p: Value) -> list[Value] | None:
        """The values of the sum that ``op`` makes of ``v``, ``None`` if it does anything else with it."""
        if op.block not in self.loop.blocks:
            return None
        continued = op.name == "add" or op.name == "sub" and op.operands[0] is v
        if continued and (self.free or op.attrs.get("acc")) and op.operands.count(v) == 1:
            return [op.result]
        if op.name not in JUMPS or v in op.operands:
            return None
        found = []
        for edge in op.edges:
            for q, a in edge.passed():
                if a is not v:
                    continue
                if edge.block is self.loop.head and q is not p or \
                        edge.block not in self.loop.blocks and v is not self.loop.back_edge().args[p.index]:
                    return None
                if edge.block in self.loop.blocks:
                    found.append(q)
        return found


def _is_split(loop: Loop, p: Value, values: set[Value], dom: Dominators, heads: set[Block]) -> bool:
    """True if inner loops continue the sum, and all edges pass values of it to each of its parameters.

    Of a sum that only a branch continues, nothing would be left out but the branch.
    """
    back = loop.back_edge().args[p.index]
    params = [v for v in values if v.op is None and v is not p]
    if back not in values or not any(q.block in heads for q in params):
        return False
    adds = [v.op for v in values if v.op is not None]
    return all(sum(x in values for x in op.operands) == 1 for op in adds) and all(
        values.issuperset(dom.arguments(q)) for q in params)


def _split(loop: Loop, p: Value, readers: dict[Value, list[Op]]) -> None:
    """Let ``p`` be added behind the inner loops, and -0.0 take its place in them; keeps ``readers`` up to date."""
    before, latch = loop.preheader, loop.latch
    assert before is not None and before.term is not None and latch is not None and latch.term is not None
    assert isinstance(p.type, Scalar)
    term, before.term = before.term, None
    start = Builder(before, term.loc).const(-0.0 if p.type.is_float else 0, p.type)
    before.term = term
    for block in loop.blocks:
        for op in block.all_ops():
            op.replace_uses({p: start})
    back = loop.back_edge().args[p.index]
    term, latch.term = latch.term, None
    total = Builder(latch, term.loc).emit("add", p, back, acc=True)
    latch.term = term
    for edge in term.edges:
        edge.args = [total if a is back else a for a in edge.args]
    assert total.op is not None
    others = [op for op in readers[back] if op is not term]
    readers.update({start: readers[p], p: [total.op], back: [*others, total.op], total: [term]})
