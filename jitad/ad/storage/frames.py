"""Gives every forward value that the reverse sweep reads the home that ``homes.py`` decides on.

Saves values in arrays and frames of the forward sweep, recomputes others in the reverse sweep, and makes every op of
the reverse sweep read them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, STACK, Array, Scalar, Type, dtype_of
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.sizes import Size, Solver
from ...passes.analysis.ssa import Reaching
from ..control_tape import LoopBack
from .histories import histories
from .homes import FREE, REDONE, Homes
from .iteration_order import Reverse, order_free
from .regular_nests import fixed_sizes, regular_nest
from .reuse_primals import compute_there, read_again
from .rows import rows, store_rows


class Frames(Homes):
    """Places values; afterwards ``homes`` maps them to the values that the reverse sweep reads."""

    in_rows: dict[Value, tuple[Value, Value, int]]       # value → the array of its rows, the reverse index, the column
    divisible: set[Loop]                                 # loops whose reverse iterations may run in any order

    def place(self) -> None:
        """Find a home for each value; ``rewrite`` then makes the reverse sweep use them."""
        self.in_rows = {}
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
        for v in sorted(self._read_across(), key=self._position):
            self._decide(v)
        for back in self.loops:
            self._keep_in_loop(back)
        for level in self.reruns:
            for v in self.kept.get(level, []):
                self.homes[v] = self._at_end(v, level)

    def _divisible(self) -> set[Loop]:
        reverse = Reverse(self.sweep)
        return {x.loop for x in self.loops if x.top is not None and x.back is not None
                and self.sweep.loops.get(x.loop) is x and order_free(reverse, x, by_parts=True)}

    # --- saving ---------------------------------------------------------------------------------------

    def _keep_in_loop(self, back: LoopBack) -> None:
        kept = self.kept.get(back.loop, [])
        if not kept or back.top is None:
            return
        known = counted(back.loop)
        ends = {v: self._at_end(v, back.loop) for v in kept}
        arrays = {v: sizes for v in kept if ends[v] is v and (sizes := self._fixed_sizes(back, v)) is not None}
        indexed = [v for v in kept if known is not None and isinstance(v.type, Scalar)]
        framed = [v for v in kept if v not in arrays and (known is None or not isinstance(v.type, Scalar))]
        at_top: list[Op] = []
        if known is not None:
            for values in rows(indexed):
                self._rows(back, values, ends, known.trip, known.iv)
            single = [v for v in indexed if v not in self.in_rows]
            for sequence in self._sequences(back.loop, single, ends):
                at_top += self._indexed_frame(back, sequence[0], sequence[0], later=sequence[1:])
            for v in single:
                if v not in self.homes:
                    at_top += self._indexed_frame(back, v, ends[v])
        for v, sizes in arrays.items():
            at_top += self._indexed_frame(back, v, v, sizes)
        if framed:
            at_top.append(self._stack_frame(back, framed, [ends[v] for v in framed]))
        for op in at_top:
            op.block = back.top
        first = back.top.ops.index(back.index.op) + 1 if back.index is not None and back.index.op in back.top.ops else 0
        back.top.ops[first:first] = at_top

    def _at_end(self, v: Value, loop: Loop | None) -> Value:
        """``v`` at the end of its iteration (or of the forward sweep), undefined on paths that do not compute it."""
        end = loop.latch if loop is not None else self._pivot()
        start = loop.head if loop is not None else self.sweep.func.entry
        assert end is not None
        read = self._read_on(v)
        if any(self._dominates(b, end) for b in read):
            return v
        if self.dom.number.keys() >= {*read, start, end}:         # no copy of an iteration
            return Reaching(self.preds, dict.fromkeys(read, v), [start], dom=self.dom).at_end(end)
        bypass = {inner.exit: inner.preheader for inner in set(self.levels.values())
                  if inner.preheader is not None and inner.exit is not None and v.block not in inner.blocks}
        return Reaching(self.preds, dict.fromkeys(read, v), [start], bypass).at_end(end)

    def _read_on(self, v: Value) -> set[Block]:
        """The forward blocks whose reverse blocks read ``v``: an array is saved on paths through these blocks only.

        On such a path nothing may overwrite it.
        """
        readers = self.readers.get(v, set())
        if not isinstance(v.type, Array) or v in self.shared or self.reruns or not readers \
                or not readers <= self.sweep.home.keys():
            return {v.block}
        found = {self._before_loops(self.sweep.home[r], self.level(v)) for r in readers}
        return found if all(b in self.forward and self._dominates(v.block, b) for b in found) else {v.block}

    def _before_loops(self, block: Block, level: Loop | None) -> Block:
        """The block of ``level`` on the path to ``block``: the preheader of the loop that holds ``block``, if any."""
        inner = self.levels.get(block)
        while inner is not level and inner is not None and inner.preheader is not None:
            block, inner = inner.preheader, inner.parent
        return block

    def _carry(self, back: LoopBack, type: Type, start: Value, hint: str) -> tuple[Value, Value]:
        """A value carried by the forward loop: (its parameter in the head, its final value after the exit)."""
        loop = back.loop
        assert loop.exit is not None
        param = loop.head.add_param(type, hint)
        loop.entry_edge().args.append(start)
        final = loop.exit.add_param(type, hint)
        return param, final

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self.sweep.func)

    def _fixed_sizes(self, back: LoopBack, v: Value) -> list[Size] | None:
        """The sizes of an array that is saved as a row, so that several threads may run the iterations."""
        if not self.sweep.module.parallel or back.loop not in self.divisible:
            return None
        return fixed_sizes(self._solver, self.dom, back.loop, v)

    def _sequences(self, loop: Loop, saved: list[Value], ends: dict[Value, Value]) -> list[list[Value]]:
        """Saved values that are the same some iterations apart, if each iteration computes them."""
        known = counted(loop)
        own = [v for v in saved if ends[v] is v and v.block in loop.blocks and self.level(v) is loop]
        return histories(loop, known, own) if known is not None and len(own) > 1 else []

    def _indexed_frame(self, back: LoopBack, v: Value, end: Value, sizes: Sequence[Size] = (),
                       later: Sequence[Value] = ()) -> list[Op]:
        """Case 3: one array indexed by the iteration, and by those of the loops around it in a regular nest.

        ``sizes``: of ``v``, if it is an array.  ``later``: what ``v`` is one, two, … iterations later.
        """
        nest = [back] if sizes else [*self._nest_around(back), back]              # outermost first
        outermost = nest[0].loop
        assert outermost.preheader is not None and back.loop.latch is not None
        b = Builder(outermost.preheader)
        trips = [self._trip(x, b) for x in nest]
        if later:
            trips[-1] = b.add(trips[-1], b.const(len(later), I64))
        room = b.empty(*trips, *(_emitted(b, n) for n in sizes), dtype=dtype_of(v.type))
        params, finals = [room], list[Value]()
        for x in nest:
            param, final = self._carry(x, room.type, params[-1], "frames")
            params.append(param)
            finals.append(final)
        stored = self._store(back.loop, params[-1], end, [x.iv for x in nest])
        for i, x in reversed([*enumerate(nest)]):
            x.loop.back_edge().args.append(stored)
            x.loop.exit_edge().args.append(stored)
            if x is back:
                finals[i] = self._store_later(back, finals[i], later, [outer.iv for outer in nest[:-1]])
            if i:
                stored = self._behind(nest[i - 1].loop, params[i], x.loop, finals[i])
        self._decide(finals[0])
        b = Builder(Block(back.loop.head.func))
        indices = [x.index for x in nest if x.index is not None]
        for k, each in enumerate((v, *later)):
            at = [*indices[:-1], b.add(indices[-1], b.const(k, I64))] if k else indices
            self.homes[each] = b.get(finals[0], *at)
        return b.block.ops

    def _store_later(self, back: LoopBack, room: Value, later: Sequence[Value], outer: list[Value]) -> Value:
        """Store what the last iteration leaves of ``later``, behind the loop."""
        if not later:
            return room
        loop = back.loop
        assert loop.exit is not None
        b = Builder(Block(loop.exit.func))
        trip = self._trip(back, b)
        for k, v in enumerate(later):
            last = loop.exit.add_param(v.type, "last")
            loop.exit_edge().args.append(v)
            room = b.set(room, last, *outer, b.add(trip, b.const(k, I64)) if k else trip)
        for op in b.block.ops:
            op.block = loop.exit
        loop.exit.ops[0:0] = b.block.ops
        return room

    @staticmethod
    def _store(loop: Loop, room: Value, v: Value, at: list[Value]) -> Value:
        """Store ``v`` at the latch; if the loop carries it, at the head, so that the next one may take its place."""
        assert loop.latch is not None
        if v.owner is not loop.head or any(i.owner is not loop.head for i in at):
            return Builder(loop.latch).set(room, v, *at)
        store = Op("set", [room, v, *at], [room.type])
        store.block = loop.head
        loop.head.ops.insert(0, store)
        return store.result

    def _nest_around(self, back: LoopBack) -> list[LoopBack]:
        """The loops around ``back``, outermost first, that several threads may divide if no stack orders iterations."""
        if not self.divisible or self.sweep.loops.get(back.loop) is not back:
            return []
        around = takewhile(self.divisible.__contains__, regular_nest(self.dom, back.loop))
        return [self.sweep.loops[x] for x in around][::-1]

    @staticmethod
    def _trip(back: LoopBack, b: Builder) -> Value:
        known = counted(back.loop)
        assert known is not None
        return known.trip if known.trip.const is None else b.const(known.trip.const, I64)

    def _behind(self, outer: Loop, param: Value, inner: Loop, final: Value) -> Value:
        """At the end of an iteration of ``outer``: ``final`` if ``inner`` ran in it, otherwise ``param``."""
        assert inner.exit is not None and outer.latch is not None
        return Reaching(self.preds, {outer.head: param, inner.exit: final}, (), dom=self.dom).at_end(outer.latch)

    def _rows(self, back: LoopBack, values: list[Value], ends: dict[Value, Value], trip: Value, iv: Value) -> None:
        """Case 3 for many values: a row of one array for each iteration; ``_home`` loads from it where it is read."""
        loop = back.loop
        assert loop.preheader is not None and loop.latch is not None and back.index is not None
        room = Builder(loop.preheader).empty(trip, len(values), dtype=dtype_of(values[0].type))
        param, final = self._carry(back, room.type, room, "rows")
        early = {v for v in values if ends[v] is v and self.level(v) is loop and v.block not in self.original
                 and iv.owner is loop.head and self.dom.dominates(v.block, loop.latch)}
        order = [*sorted(early, key=self._position), *(v for v in values if v not in early)]
        stored = store_rows(param, [ends[v] for v in order], iv, loop.latch, early)
        loop.back_edge().args.append(stored)
        loop.exit_edge().args.append(stored)
        self._decide(final)
        self.in_rows |= {v: (final, back.index, column) for column, v in enumerate(order)}

    def _stack_frame(self, back: LoopBack, kept: list[Value], ends: list[Value]) -> Op:
        """Case 4: one frame an iteration on a stack that both loops carry."""
        loop = back.loop
        assert loop.preheader is not None and loop.latch is not None and back.top is not None
        assert back.entry is not None and back.back is not None
        param, final = self._carry(back, STACK, Builder(loop.preheader).stack_empty(), "stack")
        pushed = Builder(loop.latch).push(param, *ends)
        loop.back_edge().args.append(pushed)
        loop.exit_edge().args.append(pushed)
        self._decide(final)
        top = back.top.add_param(STACK, "stack")
        pop = Op("pop", [top], [STACK, *(v.type for v in kept)], {"types": tuple(v.type for v in kept)})
        back.entry[1].args.append(final)
        back.back[1].args.append(pop.results[0])
        self.homes |= dict(zip(kept, pop.results[1:]))
        return pop

    def keep_at_top(self, tape: Value, backward: Builder) -> Value:
        """Push one last frame in the forward function, which ``backward`` pops from ``tape`` in the reverse function.

        Returns the stack that the forward function returns.
        """
        kept = self.kept.get(None, [])
        ends = [self._at_end(v, None) for v in kept]
        b = Builder(self._pivot())
        if not kept:
            return b.stack_empty()
        self.homes |= dict(zip(kept, backward.pop(tape, [v.type for v in kept])[1]))
        return b.push(b.stack_empty(), *ends)

    def stay_at_top(self) -> None:
        """Case 1, both sweeps in one function: carry values that do not dominate the pivot there through the joins."""
        for v in self.kept.get(None, []):
            self.homes[v] = self._at_end(v, None)

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


def _emitted(b: Builder, size: Size) -> Value:
    """A size that is known before a loop, as a value there."""
    if isinstance(size, int):
        return b.const(size, I64)
    return size if isinstance(size, Value) else b.dim(size[0], axis=size[1])
