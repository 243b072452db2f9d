"""Scratch memory: where an iteration's temporaries were, those of the next one are again.

A loop that leaves frames behind gives nothing back (``memory.recycles``): arrays that no frame holds would pile up
between those that are held.  So an array that is dead at the end of the iteration keeps its place: it has a *slot*, two
words in the stack frame that tell where it was last time and how many bytes there are.  A routine
(``alloc_runtime.py``) takes new memory from the arena only where there are none yet, or too few.

Nothing ends a slot but the loop's being entered again: no exit of the loop and no failure has anything to put back.
Where loops that give nothing back lie in each other, slots are emptied at the entry of the outermost only.

*Dead at the end of the iteration* is an array whose root (``alias.py``) is not on a stack, not given to a callee as
its own, not a parameter of the loop's head, and made, read and passed in blocks of the loop alone.
"""

from __future__ import annotations

from ...ir.graph import Block, Value
from ...passes.analysis.loops import Loop
from ..builder.function_builder import FunctionBuilder
from ..planning.alias import is_array


class Scratch:
    """The slots of one function.  ``_entrances``: of each loop that gives nothing back, where it is entered."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn = fn
        self._entrances: dict[Loop, list[list[str]]] = {}
        self._slots: dict[Loop, list[str]] = {}
        self._where: dict[Value, set[Block]] | None = None

    def enter(self, loop: Loop) -> None:
        """On the way into a loop that gives nothing back."""
        gap = self.fn.code.gap()
        gap += map(_empty, self._slots.get(loop, ()))
        self._entrances.setdefault(loop, []).append(gap)

    def slot(self, v: Value) -> str:
        """Where a slot for ``v`` is, whose op is being lowered; nothing where it may not have one."""
        fn, loop = self.fn, self.fn.forest.loop_of(self.fn.block)
        if loop is None or loop not in self._entrances or fn.target.is_gpu or fn.code is not fn.body:
            return ""
        if fn.forest.irreducible or v.block is not fn.block or not self._is_dead_behind(v, loop):
            return ""
        while loop.parent is not None and loop.parent in self._entrances:
            loop = loop.parent
        name = fn.code.alloca("i64", 2)
        self._slots.setdefault(loop, []).append(name)
        for gap in self._entrances[loop]:
            gap.append(_empty(name))
        return name

    def _is_dead_behind(self, v: Value, loop: Loop) -> bool:
        """Whether nothing has the memory of ``v`` at the end of an iteration."""
        if self._where is None:
            self._where = self._blocks_of_roots()
        find = self.fn.plan.roots.find
        root = find(v)
        if self.fn.places.is_held(v) or any(is_array(p) and find(p) is root for p in loop.head.params):
            return False
        return self._where[root] <= loop.blocks

    def _blocks_of_roots(self) -> dict[Value, set[Block]]:
        """The blocks in which values of a root are made, read or passed; to ask for a size reads nothing."""
        plan, where = self.fn.plan, dict[Value, set[Block]]()
        for block in self.fn.func.blocks:
            values = list(block.params)
            for op in block.all_ops():
                values += [*op.results, *(op.used() if op.name != "dim" else ()), *plan.reads(op)]
            for v in filter(is_array, values):
                where.setdefault(plan.roots.find(v), set()).add(block)
        return where


def _empty(slot: str) -> str:
    return f"store ptr null, ptr {slot}, align 8"
