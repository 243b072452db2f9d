"""Saves forward values in arrays and frames of the forward sweep: cases 3 and 4 of ``homes.py``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile

from ...ir.builder import Builder
from ...ir.graph import Block, Op, Value
from ...ir.types import I64, STACK, Array, Scalar, Type, dtype_of
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.sizes import Size, Solver
from ...passes.analysis.ssa import Reaching
from ..control_tape import LoopBack
from ..idle_iterations import Idle, skip_frames
from ..narrow_types import narrowest
from .histories import histories
from .homes import Homes
from .regular_nests import fixed_sizes, regular_nest
from .rows import rows, store_rows


class Saving(Homes):
    """Saves values; afterwards ``homes`` maps them to what the reverse sweep loads or pops."""

    in_rows: dict[Value, tuple[Value, Value, int]]       # value → the array of its rows, the reverse index, the column
    divisible: set[Loop]                                 # loops whose reverse iterations may run in any order
    pushes: list[tuple[LoopBack, Op, tuple[Value, ...]]]     # of uncounted loops, with the active head parameters

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
        narrow = narrowest(end, self.preds) if not later else None
        room = b.empty(*trips, *(_emitted(b, n) for n in sizes), dtype=narrow or dtype_of(v.type))
        params, finals = [room], list[Value]()
        for x in nest:
            param, final = self._carry(x, room.type, params[-1], "frames")
            params.append(param)
            finals.append(final)
        stored = self._store(back.loop, params[-1], end, [x.iv for x in nest], narrow)
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
            saved = b.get(finals[0], *at)
            self.homes[each] = b.cast(saved, dtype=I64) if narrow else saved
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
    def _store(loop: Loop, room: Value, v: Value, at: list[Value], narrow: Scalar | None = None) -> Value:
        """Store ``v`` at the latch; if the loop carries it, at the head, so that the next one may take its place."""
        assert loop.latch is not None
        early = v.owner is loop.head and all(i.owner is loop.head for i in at)
        b = Builder(Block(loop.head.func) if early else loop.latch)
        stored = b.set(room, b.cast(v, dtype=narrow) if narrow else v, *at)
        if early:
            for op in b.block.ops:
                op.block = loop.head
            loop.head.ops[0:0] = b.block.ops
        return stored

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
        given = self._active_params(loop)
        param, final = self._carry(back, STACK, Builder(loop.preheader).stack_empty(), "stack")
        pushed = Builder(loop.latch).push(param, *ends)
        if counted(loop) is None and pushed.op is not None:
            self.pushes.append((back, pushed.op, given))
        loop.back_edge().args.append(pushed)
        loop.exit_edge().args.append(pushed)
        self._decide(final)
        top = back.top.add_param(STACK, "stack")
        pop = Op("pop", [top], [STACK, *(v.type for v in kept)], {"types": tuple(v.type for v in kept)})
        back.entry[1].args.append(final)
        back.back[1].args.append(pop.results[0])
        self.homes |= dict(zip(kept, pop.results[1:]))
        return pop

    def _active_params(self, loop: Loop) -> tuple[Value, ...]:
        """The parameters of a loop's head that have cotangents, also if the loop is in a copy of an iteration."""
        original = self.original.get(loop.head, loop.head).params
        return tuple(p for p, v in zip(loop.head.params, original) if v in self.sweep.active)

    def skip_idle(self) -> None:
        """Push no frames of iterations that leave all cotangents as they are."""
        for back, push, given in self.pushes:
            levels = {b: x for b, x in self.levels.items() if x is not None}
            skip_frames(back, push, Idle(self.sweep.func, back.loop, given, levels, self.order), self.bars)

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


def _emitted(b: Builder, size: Size) -> Value:
    """A size that is known before a loop, as a value there."""
    if isinstance(size, int):
        return b.const(size, I64)
    return size if isinstance(size, Value) else b.dim(size[0], axis=size[1])
