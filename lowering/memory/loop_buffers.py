"""Loop buffers: temporaries of a loop that reuse the memory of the previous iteration.

A loop that leaves frames behind releases nothing (``arena.recycles``), so arrays that no frame holds would accumulate
between the arrays that are held.  An array that is dead at the end of the iteration therefore keeps its address.  It
has a *slot*: two words in the stack frame, its address in the previous iteration and the number of bytes there.  A
routine (``alloc_runtime.py``) takes new memory from the arena only if there is none yet, or too little.

Slots are reset only when the loop is entered again, so exits of the loop and failures need no clean-up.  If loops that
release nothing are nested, slots are emptied at the entry of the outermost only.

An array is *dead at the end of the iteration* if its alias class is not on a stack, not passed to a callee that owns
it, not a parameter of the loop's head, and defined, read and passed in blocks of the loop only.
"""

from __future__ import annotations

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Block, Value
from ...passes.analysis.loops import Loop
from ..builder.function_builder import FunctionBuilder
from ..llvm.code import Fragment


class Scratch:
    """The slots of one function.  ``_entrances``: the entry positions of each loop that releases nothing."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn = fn
        self._entrances: dict[Loop, list[Fragment]] = {}
        self._slots: dict[Loop, list[str]] = {}
        self._where: dict[Value, set[Block]] | None = None

    def enter(self, loop: Loop) -> None:
        """Record an entry of a loop that releases nothing."""
        gap = self.fn.code.gap()
        for slot in self._slots.get(loop, ()):
            gap.store("ptr", "null", slot)
        self._entrances.setdefault(loop, []).append(gap)

    def slot(self, v: Value) -> str:
        """The slot for ``v``, whose op is being lowered, or ``""`` if it may not have one."""
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
            gap.store("ptr", "null", name)
        return name

    def _is_dead_behind(self, v: Value, loop: Loop) -> bool:
        """True if no live value has the memory of ``v`` at the end of an iteration."""
        if self._where is None:
            self._where = self._blocks_of_roots()
        find = self.fn.plan.roots.find
        root = find(v)
        if self.fn.places.is_held(v) or any(is_array(p) and find(p) is root for p in loop.head.params):
            return False
        return self._where[root] <= loop.blocks

    def _blocks_of_roots(self) -> dict[Value, set[Block]]:
        """For each root the blocks in which its values are defined, read or passed; ``dim`` does not read."""
        plan, where = self.fn.plan, dict[Value, set[Block]]()
        for block in self.fn.func.blocks:
            values = list(block.params)
            for op in block.all_ops():
                values += [*op.results, *(op.used() if op.name != "dim" else ()), *plan.reads(op)]
            for v in filter(is_array, values):
                where.setdefault(plan.roots.find(v), set()).add(block)
        return where
