"""Gives every forward value that the reverse sweep reads its cheapest home.

The reverse sweep of ``reverse.py`` reads forward values directly.  Here each value read is one of

* *free*: a constant, a parameter, a loop index (the reverse loop has its own), a value of the function's top level
  that is still in a register if the reverse sweep is in the same function (case 1);
* in the copy of an iteration, if the reverse loop recomputes it (case 2, ``recompute_plan.py``);
* *recomputed* (``REDONE``): one cheap op on values that are free or saved: indices, casts, one-flop values,
  reciprocals, and loads from arrays that nothing overwrites, or that are saved as a whole (``revisited.py``);
* *saved* (``KEPT``): it is stored at the end of each iteration of its loop, in an array indexed by the iteration if it
  is a scalar and the loop is counted (case 3), otherwise in a frame on a stack (case 4).  The array or stack is then
  itself a value of the enclosing loop, and so on outwards.  At the function's top level, if the two sweeps are two
  functions, a last frame holds the values that both need.

Only values that the reverse sweep reads are considered, which is to-be-recorded analysis (Hascoët, Naumann, Pascual
2005).
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.liveness import ValueSet
from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, STACK, Array, Scalar, Stack, Type
from ...passes.analysis.cost import CHEAP
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.ssa import Reaching
from ..control_tape import LoopBack
from ..reverse import ThereAndBack
from .final_loads import Finished, base
from .kept_sizes import Sizes
from .recompute_copy import Rerun, remove_forward
from .recompute_plan import Plan, Reverse, candidates, order_free
from .reuse_primals import compute_there, read_again
from .revisited import Revisited
from .unmodified import Unmodified

FREE, REDONE, KEPT = "free", "redone", "kept"

LONGEST = 100
"""Longest chain of ops by which a value is recomputed."""


def _cheap(op: Op) -> bool:
    """True for ops in ``CHEAP`` and for reciprocals.

    A reciprocal is one division, as in ``1 / (1 + exp(-x))``, and saves a store and a load of memory far away.
    """
    return op.name in CHEAP or (op.name == "div" and op.operands[0].const is not None)


class Frames:
    """Decides and places; afterwards ``homes`` maps forward values to the values that the reverse sweep reads."""

    def __init__(self, sweep: ThereAndBack, split: bool, results: bool = True) -> None:
        self.sweep, self.split = sweep, split
        self.dom = sweep.forest.dom
        self.plan: dict[Value, str] = {}
        self.readers: dict[Value, set[Block]] = {}            # value → the reverse blocks that read it
        self.wanted_in: set[Block] = set()                    # readers of the value that is being decided
        self.shared: set[Value] = set()                       # operands of recomputed values, read anywhere
        self.kept: dict[Loop | None, list[Value]] = {}        # loop → the values saved at the end of its iterations
        self.homes: dict[Value, Value] = {}
        self.lost: set[Value] = set()                         # known to be unreachable
        self.levels = dict(sweep.forest.innermost)            # block → innermost loop, or the copy of an iteration
        self.loops = [sweep.loops[x] for x in sweep.forest.loops if x in sweep.loops]     # inner loops first
        self.original: dict[Block, Block] = {}                # block of a copy → the original block
        self.reruns: list[Loop] = []
        self.live_in: dict[Block, ValueSet] = {}              # of the blocks of copies
        self.left: dict[Loop, dict[Value, Value]] = {}        # merged loop → values after its last iteration
        for plan in [] if split else candidates(sweep, results):
            self._run_again(Rerun(sweep, plan), plan)
        self.copies = {old: new for new, old in self.original.items()}
        self.forward = {*sweep.forward, *self.original}
        self.bars = [b for b in sweep.func.blocks if b not in self.forward]
        self.unmodified = Unmodified(sweep.func, sweep.module, self._is_live_before)
        self.returned = self.unmodified.names.history(sweep.results if split else ())
        self.finished = Finished({x: c for x, c in sweep.settled.items() if x.block in self.forward}, self._may_stay)
        self.preds = {b: [(p, e) for p, e in es if p in self.forward] for b, es in sweep.func.predecessors().items()}
        self.sizes = Sizes(self._dominates, sweep.home)
        self.sizes.keep(sweep.func, self.forward, self.bars, self.original)
        self.revisited: Callable[[Op, list[Loop]], bool] | None = None
        self._number()

    def _run_again(self, rerun: Rerun, plan: Plan) -> None:
        """Case 2: replace the loop by its copy among the forward blocks."""
        if plan.merged:
            self.left[rerun.loop] = rerun.left
        inner = set(rerun.levels)
        self.loops = [x for x in self.loops if x.loop not in inner] + rerun.loops
        self.original |= rerun.original
        self.reruns.append(rerun.level)
        for new, old in rerun.original.items():
            self.levels[new] = rerun.levels.get(self.levels.get(old, rerun.loop), rerun.level)
            self.live_in[new] = {rerun.values.get(v, v): None for v in self.sweep.liveness.before(old)}
        if not plan.kept:
            remove_forward(self.sweep, rerun.loop)

    def _is_live_before(self, v: Value, block: Block) -> bool:
        return v in self.live_in[block] if block in self.live_in else self.sweep.liveness.is_live_before(v, block)

    def _may_stay(self, array: Value) -> bool:
        """True if an array can be read later without a copy.

        An array that a function returns beside its stack belongs to the caller, which would have to copy it before a
        write.
        """
        return self.unmodified(array) and array not in self.returned

    def place(self) -> None:
        """Find a home for each value; ``rewrite`` then makes the reverse sweep use them."""
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

    # --- deciding -----------------------------------------------------------------------------------

    def _number(self) -> None:
        self.order = {b: i for i, b in enumerate(self.dom.order)}
        self.order |= {new: self.order[old] for new, old in self.original.items()}
        self.place_in_block = {op: i for b in self.forward for i, op in enumerate(b.ops)}

    def _position(self, v: Value) -> tuple[int, int, int]:
        op = v.op
        return self.order[v.block], self.place_in_block.get(op, -1) if op is not None else -1, v.index

    def _read_across(self) -> list[Value]:
        for block in (*self.bars, *self.original):
            for op in block.all_ops():
                for v in self._across(block, op):
                    self.readers.setdefault(v, set()).add(block)
        return list(self.readers)

    def _across(self, block: Block, op: Op) -> list[Value]:
        """The forward values that an op of the reverse sweep reads; in a copy, without the copy's own values."""
        own = self.original if block in self.original else ()
        return [v for v in dict.fromkeys(op.used()) if v.block in self.forward and v.block not in own]

    def level(self, v: Value) -> Loop | None:
        """The innermost loop around the definition of ``v``, or None at the top level."""
        return self.levels.get(v.block)

    def _at_hand(self, block: Block, bar: Block) -> bool:
        """True if ``bar`` should read the values of ``block`` rather than recompute them.

        They are then in a register, or in a frame of an uncounted loop, which runs one iteration at a time in both
        sweeps.
        """
        level, home = self.levels.get(block), self.sweep.home.get(bar)
        if home is None or not (level is None or level in self.reruns or counted(level) is None):
            return False
        loop = self.sweep.forest.loop_of(self.original.get(block, block))
        return self._dominates(block, home) and (loop is None or home in loop.blocks)

    def _uncounted(self, bar: Block) -> Block | None:
        """The forward block that ``bar`` reverses, if frames of an uncounted loop hold its values, else None."""
        home = self.sweep.home.get(bar)
        block = self.copies.get(home, home) if home is not None else None
        level = self.levels.get(block) if block is not None and block in self.forward else None
        return block if level is not None and level not in self.reruns and counted(level) is None else None

    def _dominates(self, a: Block, b: Block) -> bool:
        """True if ``a`` dominates ``b``, where blocks of copies are replaced by the original blocks."""
        return self.dom.dominates(self.original.get(a, a), self.original.get(b, b))

    def _decide(self, v: Value) -> None:
        if v not in self.plan:
            in_register = not self.split and self.level(v) is None
            self.plan[v] = FREE if self._free(v) else REDONE if not in_register and self._can_redo(v) else KEPT
            if self.plan[v] == KEPT:
                self.kept.setdefault(self.level(v), []).append(v)

    def _free(self, v: Value) -> bool:
        if self.plan.get(v) is not None:
            return self.plan[v] == FREE
        if v.block not in self.forward:                       # the index of an iteration that is recomputed
            return True
        op = v.op
        if op is None:
            if v.owner is self.sweep.func.entry:
                return not self.split or (v.index not in self.sweep.func.own and not isinstance(v.type, Stack))
        elif op.name in ("const", "undef", "stack_empty"):
            return True
        level = self.level(v)
        if level in self.reruns:
            assert level is not None and level.latch is not None
            return self._dominates(v.block, level.latch)
        return not self.split and level is None and self._dominates(v.block, self._pivot())

    def _pivot(self) -> Block:
        assert self.sweep.pivot is not None
        return self.sweep.pivot

    def _can_redo(self, v: Value) -> bool:
        """True if one cheap op on available values gives ``v``.  Decides about these values too."""
        needed: dict[Value, None] = {}
        self.wanted_in = self.readers.get(v, set())
        if not self._redoable(v, self.level(v), needed):
            return False
        for u in reversed(needed):
            self._decide(u)
        self.shared.update(needed)
        return True

    def _reachable(self, v: Value, level: Loop | None, needed: dict[Value, None], depth: int) -> bool:
        """True if ``v`` is available at ``level``, or can be; visits each value once.

        A value whose recomputation is longer than ``depth`` is saved instead.
        """
        if v in needed:
            return True
        needed[v] = None
        if v in self.plan or self._free(v) or self._outside(self.level(v), level):
            return True
        if v not in self.lost and depth and self._redoable(v, level, needed, depth - 1):
            return True
        self.lost.add(v)
        return False

    def _redoable(self, v: Value, level: Loop | None, needed: dict[Value, None], depth: int = LONGEST) -> bool:
        op = v.op
        if op is None or not _cheap(op):
            return False
        if OPS[op.name].view and not self.unmodified(v) and not self.finished.array(op) \
                and not self._is_revisited(op, level):
            return False
        if op.name == "dim" and not self._free(op.operands[0]) and not self.sizes.there(op.operands[0], self.wanted_in):
            return False
        return all(self._reachable(u, level, needed, depth) for u in self._reads(op).values())

    def _is_revisited(self, op: Op, level: Loop | None) -> bool:
        """True if the array of a load should be saved, in place of the elements that the loops at ``level`` load."""
        outer = self.level(op.operands[0])
        loops: list[Loop] = []
        while level is not None and level is not outer:
            loops.append(level)
            level = level.parent
        if level is not outer or op.name != "get":
            return False
        if self.revisited is None:                           # the first of two functions has no end yet
            func = self.sweep.func
            self.revisited = Revisited(func) if all(b.term is not None for b in func.blocks) else lambda *_: False
        return self.revisited(op, loops)

    def _reads(self, op: Op) -> dict[Value, Value]:
        """For each operand of a recomputed op, the value to read: a final load reads the finished array."""
        reads = {u: u for u in op.operands}
        if op.name in ("get", "slice") and op.operands[0] is base(op) and not self.unmodified(op.result) \
                and (array := self.finished.array(op)) is not None:
            reads[op.operands[0]] = array
        return reads

    @staticmethod
    def _outside(outer: Loop | None, inner: Loop | None) -> bool:
        """True if ``outer`` is a proper ancestor of ``inner``, where saving happens less often."""
        while inner is not None:
            inner = inner.parent
            if inner is outer:
                return True
        return False

    # --- saving ---------------------------------------------------------------------------------------

    def _keep_in_loop(self, back: LoopBack) -> None:
        kept = self.kept.get(back.loop, [])
        if not kept or back.top is None:
            return
        known = counted(back.loop)
        indexed = [v for v in kept if known is not None and isinstance(v.type, Scalar)]
        framed = [v for v in kept if v not in indexed]
        ends = {v: self._at_end(v, back.loop) for v in kept}
        at_top: list[Op] = []
        if known is not None:
            for v in indexed:
                at_top.append(self._indexed_frame(back, v, ends[v], known.trip, known.iv))
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

    def _indexed_frame(self, back: LoopBack, v: Value, end: Value, trip: Value, iv: Value) -> Op:
        """Case 3: one array indexed by the iteration."""
        loop = back.loop
        assert loop.preheader is not None and loop.latch is not None and back.index is not None
        assert isinstance(v.type, Scalar)
        room = Builder(loop.preheader).empty(trip, dtype=v.type)
        param, final = self._carry(back, room.type, room, "frames")
        stored = Builder(loop.latch).set(param, end, iv)
        loop.back_edge().args.append(stored)
        loop.exit_edge().args.append(stored)
        self._decide(final)
        load = Op("get", [final, back.index], [v.type])
        self.homes[v] = load.result
        return load

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
                across = self._across(block, op)
                for back, loads in self._loaded_always(block, across).items():
                    at_top, known = tops.setdefault(back, (Builder(Block(block.func)), {}))
                    at_top.loc = op.loc
                    seen |= {v: self._home(v, at_top, known) for v in loads if v not in seen}
                op.replace_uses({v: self._home(v, b, seen) for v in across})
                if op is not block.term:
                    block.ops.append(op)
        for back, (at_top, _) in tops.items():
            self._insert(back, at_top.block.ops)

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
        found: dict[LoopBack, list[Value]] = {}
        todo, seen = list(values), set(values)
        while todo:
            v = todo.pop()
            op = v.op
            if op is None or v in self.homes or not self._is_made_again(v):
                continue
            if op.name == "get" and isinstance(v.type, Scalar) and v.block in loop.blocks \
                    and self.dom.dominates(v.block, latch):
                found.setdefault(back, []).append(v)
                continue
            new = [u for u in self._reads(op).values() if u not in seen]
            seen.update(new)
            todo += new
        return found

    def _insert(self, back: LoopBack, ops: list[Op]) -> None:
        """Insert ``ops`` at the top of a reverse loop, behind the index and what is loaded from frames."""
        top = back.top
        assert top is not None and back.index is not None
        first = {back.index, *self.homes.values()}
        at = 1 + max(i for i, op in enumerate(top.ops) if any(v in first for v in op.results))
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
            if index is not None and index.name == "sub" and back.back is not None and order_free(reverse, back):
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
            assert u.op is not None
            reads = self._reads(u.op)
            missing = [w for w in reads.values() if w not in self.homes and w not in seen and self._is_made_again(w)]
            if missing:
                todo += reversed(missing)
                continue
            todo.pop()
            copy = clone_op(u.op, {x: self.homes.get(w) or seen.get(w) or w for x, w in reads.items()})
            copy.block = b.block
            b.block.ops.append(copy)
            seen[u] = copy.results[0]
        return self.homes.get(v) or seen.get(v) or v

    def _is_made_again(self, v: Value) -> bool:
        op = v.op
        return op is not None and (self.plan.get(v) == REDONE or op.name in ("const", "undef", "stack_empty"))
