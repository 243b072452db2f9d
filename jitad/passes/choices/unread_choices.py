"""Reads a chosen value from the loop where nothing but this value needs the number of its iteration.

``last_choice`` computes a chosen value again from the iteration that it came from, for the derivative's sake.  Where
its cotangent turned out to be zero, or it has none, the value that the loop carries is the same::

    ^loop(i, best, last):  c = lt d, best               ^loop(i, best):
      next = select c, d, best                     →      next = minimum d, best
      it = select c, i, last
    ^exit(it): again = select it < 0, start, f(it)      ^exit(next):
"""

from __future__ import annotations

from ...ir.expression_keys import alike
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.uses import users
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest

DEEPEST = 8
"""The longest chain of ops that compute the value again."""


def unread_choices(module: Module) -> bool:
    """Rewrite all of them; returns True if there were any."""
    changed = False
    for func in module.functions.values():
        numbers = _numbers(func)
        if not numbers:
            continue
        readers = users(func.all_ops())
        found: dict[Value, Value] = {}
        for loop, known, number, last in numbers:
            found |= _carried(loop, known, number, last, readers)
        if found:
            substitute(func, found)
            changed = True
    return changed


def _numbers(func: Function) -> list[tuple[Loop, Counted, Op, Value]]:
    """The selections ``select(c, iv, last)`` of the iterations of loops, and the parameters that take them behind."""
    forest = loop_forest(func)
    found: list[tuple[Loop, Counted, Op, Value]] = []
    for loop in forest.loops:
        known = counted(loop)
        if known is None or loop.exit is None or len(forest.dom.preds[loop.exit]) != 1:
            continue
        for last, v in loop.exit_edge().passed():
            if v.op is not None and v.op.name == "select" and v.op.operands[1] is known.iv:
                before = v.op.operands[2]
                if before.owner is loop.head and loop.back_edge().args[before.index] is v:
                    found.append((loop, known, v.op, last))
    return found


def _carried(loop: Loop, known: Counted, number: Op, last: Value, readers: dict[Value, list[Op]]) -> dict[Value, Value]:
    """The value computed again from ``last``, the number of its iteration, and the one that the loop carries."""
    final = _end_of_uses(last, readers)
    if final is None or loop.exit is None:
        return {}
    back, entry = loop.back_edge().args, loop.entry_edge().args
    _, start, again = final.operands
    for p in loop.head.params:
        choice = back[p.index].op
        if choice is not None and choice.name == "select" and choice.operands[0] is number.operands[0] and \
                choice.operands[2] is p and entry[p.index] is start and _same(again, choice.operands[1], last, known):
            loop.exit_edge().args.append(choice.result)
            return {final.result: loop.exit.add_param(p.type, p.hint)}
    return {}


def _end_of_uses(last: Value, readers: dict[Value, list[Op]]) -> Op | None:
    """The selection ``select(last < 0, …)`` to which alone all uses of ``last`` lead; None if they lead elsewhere."""
    todo, seen, ends = [last], set[Op](), set[Op]()
    while todo:
        v = todo.pop()
        for op in readers.get(v, ()):
            if op.edges or len(op.results) != 1 or OPS[op.name].effect or OPS[op.name].consumes:
                return None
            if op.name == "select" and _is_none(op.operands[0], last) and not _is_stand_in(op):
                ends.add(op)
            elif op not in seen:
                seen.add(op)
                todo.append(op.result)
                if len(seen) > DEEPEST * DEEPEST:
                    return None
    return ends.pop() if len(ends) == 1 else None


def _is_none(v: Value, last: Value) -> bool:
    op = v.op
    return op is not None and op.name == "lt" and op.operands[0] is last and bool(op.operands[1].const == 0)


def _is_stand_in(op: Op) -> bool:
    """True for a number in place of an operand of an iteration that there is not."""
    return bool(op.operands[1].const == 1.0)


def _same(again: Value, there: Value, last: Value, known: Counted) -> bool:
    """True if ``again`` is what ``there`` was in the iteration ``last``."""
    def equal(again: Value, there: Value) -> bool | None:
        op = again.op
        if op is not None and op.name == "select" and _is_none(op.operands[0], last) and _is_stand_in(op):
            return alike(op.operands[2], there, DEEPEST, equal)
        if there is known.iv:
            return again is last or op is not None and op.name == "maximum" and op.operands[0] is last \
                and op.operands[1].const == 0
        return None

    return alike(again, there, DEEPEST, equal)
