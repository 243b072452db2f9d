"""Gives every forward value that the reverse sweep reads the home that ``homes.py`` decides on.

Saves values (``saving.py``), recomputes others in the reverse sweep, and makes every op of the reverse sweep read them
there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Op, Value
from ...ir.ops import COMPARISONS, OPS
from ...ir.types import I64, Array, Scalar
from ...passes.analysis.loops import Loop, counted
from ..control_tape import LoopBack
from .homes import FREE, KEPT, REDONE
from .iteration_order import Reverse, order_free
from .reuse_primals import compare_at, compared, compute_there, read_again
from .saving import Saving


class Frames(Saving):
    """Places values; afterwards ``homes`` maps them to the values that the reverse sweep reads."""

    def place(self) -> None:
        """Find a home for each value; ``rewrite`` then makes the reverse sweep use them."""
        self.in_rows, self.pushes = {}, []
        module = self.sweep.module
        self.divisible = self._divisible() if module.parallel or not module.gpu else set()
        for back in self.sweep.loops.values():
            if back.index is not None:
                self.plan[back.iv], self.homes[back.iv] = FREE, back.index
        for back in self.loops:
            if back.index is not None:
                self.plan[back.iv], self.homes[back.iv] = FREE, back.index
        read_again(self.forward, self.bars, self._at_hand)
        compute_there(self.forward, self.bars, self._uncounted)
        read = sorted(self._read_across(), key=self._position)
        only, quotients = self._only_compared(read), self._only_divided(read)
        for v in [v for v in read if v not in only and v not in quotients]:
            self._decide(v)
        for v, products in quotients.items():
            self._divide_again(v, products)
        self._compare_there([v for v in read if v in only])
        for back in self.loops:
            self._keep_in_loop(back)
        for level in self.reruns:
            for v in self.kept.get(level, []):
                self.homes[v] = self._at_end(v, level)

    def _divisible(self) -> set[Loop]:
        reverse = Reverse(self.sweep)
        return {x.loop for x in self.loops if x.top is not None and x.back is not None
                and counted(x.loop) is not None and self.sweep.loops.get(x.loop) is x
                and order_free(reverse, x, by_parts=True)}

    # --- comparisons ----------------------------------------------------------------------------------

    def _only_compared(self, read: list[Value]) -> set[Value]:
        """Arrays of iterations that the reverse sweep does nothing with but compare them.

        Of scalars, three flags take longer to store, to load and to select by than one number.
        """
        found = {v for v in read if isinstance(v.type, Array) and v.type.dtype.is_float
                 and (level := self.level(v)) is not None and level not in self.reruns}
        for block in (*self.bars, *self.original) if found else ():
            for op in block.all_ops():
                if not found.isdisjoint(op.used()):
                    found -= {v for v in op.used() if op.name not in COMPARISONS or self._compares_at(op, v) is None}
        return found

    def _compare_there(self, values: list[Value]) -> None:
        """Save the results of comparisons in place of those of ``values`` that would be saved, or others for them."""
        only = {v for v in values if not self._free_of_memory(v)}
        for same, there in compared(self.bars, only, self.sweep.home):
            v = compare_at(there, same, self.bars)
            self.plan[v] = KEPT
            self.kept.setdefault(self.level(v), []).append(v)
            self.readers[v] = {b for b in self.bars if any(v in op.used() for op in b.all_ops())}
        for v in values:
            if v not in only:
                self._decide(v)

    def _free_of_memory(self, v: Value) -> bool:
        """Decide about ``v`` if that saves nothing more; returns True if it does not."""
        known = len(self.plan)
        self._decide(v)
        if KEPT not in islice(reversed(self.plan.values()), len(self.plan) - known):
            return True
        while len(self.plan) > known:
            u, decided = self.plan.popitem()
            if decided == KEPT:
                self.kept[self.level(u)].remove(u)
        return False

    def _compares_at(self, op: Op, v: Value) -> Block | None:
        """The forward block that can compute a comparison of the reverse sweep as often as it computes ``v``."""
        home = self.sweep.home.get(op.block) if op.block is not None else None
        if home is None or home not in self.forward or home in self.copies \
                or self.levels.get(home) is not self.level(v):
            return None
        there = all(u.const is not None or u.block in self.forward and self._dominates(u.block, home)
                    for u in op.operands)
        return home if there else None

    # --- quotients ------------------------------------------------------------------------------------

    def _only_divided(self, read: list[Value]) -> dict[Value, list[Op]]:
        """Quotients ``x / y`` of which the reverse sweep reads only the products with ``1 / y``.

        These are the derivatives by the denominator.
        """
        found: dict[Value, list[Op]] = {v: [] for v in read if v.op is not None and v.op.name == "div"
                                        and v.op.operands[0].const is None and v.op.operands[0].type == v.type
                                        and v.block in self.sweep.forward and self.level(v) not in (None, *self.reruns)}
        for block in (*self.bars, *self.original) if found else ():
            for op in block.all_ops():
                for v in {v for v in op.used() if v in found}:       # an op may read it twice
                    if block not in self.original and _is_over(op, v):
                        found[v].append(op)
                    else:
                        del found[v]
        return found

    def _divide_again(self, v: Value, products: list[Op]) -> None:
        """Compute ``x`` again and multiply it, in place of saving ``x / y``, if that saves nothing more."""
        if self._free_of_memory(v):
            return
        assert v.op is not None
        x = v.op.operands[0]
        blocks = self.readers.pop(v)
        self.readers[x] = self.readers.get(x, set()) | blocks
        if not self._free_of_memory(x):
            self.readers[v] = blocks
            self._decide(v)
            return
        for op in products:
            assert op.block is not None
            quotient = Op("mul", [u if u is not v else x for u in op.operands], [v.type], loc=op.loc)
            quotient.block = op.block
            op.block.ops.insert(op.block.ops.index(op), quotient)
            op.operands = [u if u is not v else quotient.result for u in op.operands]

    # --- rewriting ------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Make every op of the reverse sweep read the homes."""
        tops: dict[LoopBack, tuple[Builder, dict[Value, Value]]] = {}
        for block in (*self.bars, *self.original):
            ops, block.ops = block.ops, []
            b, seen = Builder(block), dict[Value, Value]()
            for op in [*ops, *([block.term] if block.term else [])]:
                b.loc = op.loc
                if across := self._across(block, op):
                    further_out = dict[Value, Value]()
                    for back, values in (*self._arrays_outside(block, across),
                                         *self._loaded_always(block, across).items()):
                        at_top, known = tops.setdefault(back, (Builder(Block(block.func)), {}))
                        at_top.loc = op.loc
                        known |= further_out
                        further_out |= {v: self._home(v, at_top, known) for v in values if v not in seen}
                    seen |= further_out
                    op.replace_uses({v: self._home(v, b, seen) for v in across})
                if op is not block.term:
                    block.ops.append(op)
        for back, (at_top, _) in tops.items():
            self._insert(back, at_top.block.ops)

    def _arrays_outside(self, block: Block, values: list[Value]) -> list[tuple[LoopBack, list[Value]]]:
        """The recomputed arrays of loops around the one that ``block`` reverses, outer loops first.

        They are made at the top of the reverse iteration of their own loop: all of an array again in each iteration of
        an inner loop, which may read one element, takes the square of the time.
        """
        home = block if block in self.original else self.sweep.home.get(block)
        level = self.levels.get(self.copies.get(home, home)) if home is not None else None
        if level is None or level.parent is None:            # no loop is around that one
            return []

        def back(v: Value) -> LoopBack | None:
            outer = self.level(v)
            if not isinstance(v.type, Array) or v.op is None or OPS[v.op.name].view or outer is None \
                    or outer.latch is None or not self._outside(outer, level) \
                    or not self._dominates(v.block, outer.latch):
                return None
            return next((x for x in self.loops if x.loop is outer and x.top is not None), None)
        found = dict[LoopBack, list[Value]]()
        for v in self._nearest_made_again(values, lambda v: back(v) is not None):
            if (at := back(v)) is not None:
                found.setdefault(at, []).append(v)
        return sorted(found.items(), key=lambda entry: entry[0].loop.depth)

    def _loaded_always(self, block: Block, values: list[Value]) -> dict[LoopBack, list[Value]]:
        """The recomputed loads of each iteration of the forward loop, if ``block`` lies on a side of a branch.

        They move to the top of the reverse iteration, so that no side accesses memory (``if_conversion``).
        """
        home = self.sweep.home.get(block)
        loop = self.sweep.forest.loop_of(home) if home is not None else None
        back = self.sweep.loops.get(loop) if loop is not None else None
        if home is None or loop is None or back is None or back.index is None or back.top is None or back.top is block:
            return {}
        latch = loop.latch
        if loop.children or latch is None or latch in self.copies or self.dom.dominates(home, latch):
            return {}
        loads = self._nearest_made_again(values, lambda v: (
            v.op is not None and v.op.name == "get" and isinstance(v.type, Scalar) and v.block in loop.blocks
            and self.dom.dominates(v.block, latch)))
        return {back: loads} if loads else {}

    def _nearest_made_again(self, values: list[Value], wanted: Callable[[Value], bool]) -> list[Value]:
        """Those of ``values``, and of what they are recomputed from, that are recomputed and ``wanted``."""
        found = list[Value]()
        todo, seen = list(values), set(values)
        while todo:
            v = todo.pop()
            op = self._made_by(v) if v not in self.homes and self._is_made_again(v) else None
            if op is not None and wanted(v):
                found.append(v)
            elif op is not None and v not in self.in_rows:
                new = [u for u in self._reads(op).values() if u not in seen]
                seen.update(new)
                todo += new
        return found

    def _insert(self, back: LoopBack, ops: list[Op]) -> None:
        """Insert ``ops`` at the top of a reverse loop, behind the index and what is loaded from frames."""
        top = back.top
        assert top is not None
        first = {back.index, *self.homes.values()}
        at = 1 + max((i for i, op in enumerate(top.ops) if any(v in first for v in op.results)), default=-1)
        for op in ops:
            op.block = top
        top.ops[at:at] = ops

    def forwards(self) -> None:
        """Run reverse loops whose iterations may run in any order upwards, like the forward loop.

        Vectors along arrays then need no reversal, and the loop can be fused with an adjacent forward loop.
        """
        reverse = Reverse(self.sweep)
        for back in self.sweep.loops.values():
            index = back.index.op if back.index is not None else None
            if index is not None and index.name == "sub" and back.back is not None \
                    and order_free(reverse, back, own=True):
                assert back.count is not None and index.block is not None
                zero = Op("const", (), [I64], {"value": 0, "type": I64})
                zero.block = index.block
                index.block.ops.insert(index.block.ops.index(index), zero)
                index.name, index.operands = "add", [back.count, zero.result]

    def _home(self, v: Value, b: Builder, seen: dict[Value, Value]) -> Value:
        """The value to read for ``v``.  Recomputes it if necessary, without recursion, since chains may be long."""
        todo = [v]
        while todo:
            u = todo[-1]
            if u in self.homes or u in seen or not self._is_made_again(u):
                todo.pop()
                continue
            reads = self._reads_of(u)
            missing = [w for w in reads.values() if w not in self.homes and w not in seen and self._is_made_again(w)]
            if missing:
                todo += reversed(missing)
                continue
            todo.pop()
            there = {x: self.homes.get(w) or seen.get(w) or w for x, w in reads.items()}
            if u in self.in_rows:
                final, index, column = self.in_rows[u]
                seen[u] = b.get(there[final], index, column)
                continue
            made = self._made_by(u)
            assert made is not None
            copy = clone_op(made, there)
            copy.block = b.block
            b.block.ops.append(copy)
            seen[u] = copy.results[0]
        return self.homes.get(v) or seen.get(v) or v

    def _reads_of(self, v: Value) -> dict[Value, Value]:
        """As ``_reads``, for a value that is recomputed or loaded from a row."""
        if v in self.in_rows:
            final, _, _ = self.in_rows[v]
            return {final: final}
        made = self._made_by(v)
        assert made is not None
        return self._reads(made)

    def _is_made_again(self, v: Value) -> bool:
        op = v.op
        if v in self.in_rows or self.plan.get(v) == REDONE:
            return True
        return op is not None and op.name in ("const", "undef", "stack_empty")


def _is_over(op: Op, v: Value) -> bool:
    """True if ``op`` multiplies the quotient ``v = x / y`` by ``1 / y``."""
    if op.name != "mul" or v.op is None or op.operands[0] is op.operands[1] or op.result.type != v.type:
        return False
    other = next(u for u in op.operands if u is not v)
    return other.op is not None and other.op.name == "div" and other.op.operands[0].const == 1.0 \
        and other.op.operands[1] is v.op.operands[1]
