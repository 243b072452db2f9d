"""Lets a loop that replaces an array write the next one into the memory of one that is dead by then.

An iteration of a time stepper reads one array and makes another; the old one is dead at its end::

    ^loop(now):                                   %first = empty n
      %new = copy now                             ^loop(now, spare):
      … set(%new, f(now[i - 1], now[i]), i) …       %new = set_slice(spare, now, 0, 1)
      branch …, ^loop(%next), …          becomes    … set(%new, f(now[i - 1], now[i]), i) …
                                                    branch …, ^loop(%next, now), …

Each iteration would take memory of its own: a loop that keeps frames releases nothing, and any other has to move what
it carries.  What ``empty`` gives is undefined, so any array of the same sizes may stand for it.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS, Memory
from ...ir.types import Array, Scalar
from ...ir.uses import array_users
from ..analysis.cfg import substitute
from ..analysis.loops import Loop, LoopForest, loop_forest
from ..analysis.sizes import Solver

STARTS = ("empty", "fill", "copy")
"""The ops that make arrays which a loop fills, in the order in which they take what is spare."""


def double_buffering(module: Module) -> bool:
    """Rewrite all such loops; returns True if there was one."""
    found = False
    for func in module.functions.values():
        starts = [op for op in func.all_ops() if op.name in STARTS and _is_long(op.result)]
        if starts and any(_is_long(p) for b in func.blocks if b is not func.entry for p in b.params):
            found |= _Search(func, loop_forest(func)).run(starts)
    return found


def _is_long(v: Value) -> bool:
    """True for an array that may be long."""
    return isinstance(v.type, Array) and None in v.type.dims


class _Search:
    def __init__(self, func: Function, forest: LoopForest) -> None:
        self.func, self.forest = func, forest
        self.dom: Dominators = forest.dom

    def run(self, starts: list[Op]) -> bool:
        """Give the arrays that ``starts`` make the memory of dead ones; returns True if there was one."""
        inside: dict[Loop, list[Op]] = {}
        for op in sorted(starts, key=lambda op: STARTS.index(op.name)):
            loop = self.forest.loop_of(op.block) if op.block is not None else None
            if loop is not None and loop.preheader is not None and loop.latch is not None:
                inside.setdefault(loop, []).append(op)
        carrying = [loop for loop in inside if any(_is_long(p) and p not in loop.back_edge().args
                                                   for p in loop.head.params)]
        if not carrying:
            return False
        self.readers, self.sizes = array_users(self.func.all_ops()), Solver(self.func)
        instead: dict[Value, Value] = {}
        for loop in carrying:
            dead = [p for p in loop.head.params if _is_long(p) and p not in loop.back_edge().args
                    and self._is_only_read(p, loop)]
            for op in inside[loop]:
                p = next((p for p in dead if self._fits(op, p)), None) if dead else None
                if p is not None and self._is_carried(op, loop):
                    dead.remove(p)
                    instead[op.result] = _take(op, p, loop)
        substitute(self.func, instead)
        return bool(instead)

    def _is_only_read(self, v: Value, loop: Loop) -> bool:
        """True if nothing of a loop updates, keeps or passes on the array, or a view of it."""
        for op in self.readers.get(v, ()):
            if op.block not in loop.blocks:
                continue
            if op.edges:
                if op.name == "call" or any(a is v and e.block in loop.blocks for e in op.edges for a in e.args):
                    return False
            elif op.name not in OPS or OPS[op.name].memory is Memory.STACK or \
                    any(op.operands[i] is v for i in OPS[op.name].consumes):
                return False
            elif OPS[op.name].view and not isinstance(op.result.type, Scalar) and \
                    not self._is_only_read(op.result, loop):
                return False
        return True

    def _fits(self, op: Op, p: Value) -> bool:
        """True if the array that ``op`` makes can be in the memory of ``p``; a copy that is no copy stays."""
        t = p.type
        assert isinstance(t, Array)
        size = self.sizes.size
        if op.result.type != t or any(size((op.result, k)) != size((p, k)) for k in range(t.rank)):
            return False
        return op.name != "copy" or any(self._follows(r, op) for r in self.readers[op.operands[0]])

    def _follows(self, reader: Op, op: Op) -> bool:
        """True if an iteration executes ``reader`` behind ``op``, and it reads elements."""
        if reader.name == "dim" or reader is op or reader.edges:
            return False
        here, there = op.block, reader.block
        assert here is not None and there is not None
        return self.dom.dominates(here, there) and (
            here is not there or here.ops.index(op) < here.ops.index(reader))

    def _is_carried(self, op: Op, loop: Loop) -> bool:
        """True if updates of the array that ``op`` makes lead to the next iteration, and no frame keeps it."""
        names, todo, carried = {op.result}, [op.result], False
        while todo:
            v = todo.pop()
            for user in self.readers.get(v, ()):
                if user.block not in loop.blocks:
                    continue
                if user.name == "call" or user.name in OPS and OPS[user.name].memory is Memory.STACK:
                    return False
                fresh = [q for e in user.edges for q, a in e.passed() if a is v and e.block in loop.blocks]
                carried |= any(q.owner is loop.head for q in fresh)
                if user.name in OPS and OPS[user.name].memory is Memory.UPDATE and user.operands[0] is v:
                    fresh = [user.result]
                todo += [q for q in fresh if q not in names and q.owner is not loop.head]
                names.update(fresh)
        return carried


def _take(op: Op, p: Value, loop: Loop) -> Value:
    """Carry what ``p`` was in the iteration before, and return it in place of what ``op`` makes."""
    preheader, block, t = loop.preheader, op.block, p.type
    assert preheader is not None and block is not None and isinstance(t, Array)
    entry = loop.entry_edge()
    b = Builder(preheader, op.loc)
    first = entry.args[p.index]
    spare = loop.head.add_param(t, "spare")
    entry.args.append(b.as_type(b.emit_op(
        "empty", [b.dim(first, axis=k) for k in range(t.rank)], dtype=t.dtype).result, type=t))
    loop.back_edge().args.append(p)
    here = block.ops.index(op)
    tail, block.ops = block.ops[here + 1:], block.ops[:here]
    if op.name != "empty":
        b = Builder(block, op.loc)
        value = op.operands[0] if op.name == "copy" else b.fill(*op.operands)
        spare = b.set_slice(spare, value, *(b.const(k) for _ in range(t.rank) for k in (0, 1)))
    block.ops += tail
    return spare
