"""Decides for every forward value that the reverse sweep reads which home is the cheapest.

The reverse sweep of ``reverse.py`` reads forward values directly.  ``Frames`` makes the homes.  Each value is one of

* *free*: a constant, a parameter, a loop index (the reverse loop has its own), a value of the function's top level
  that is still in a register if the reverse sweep is in the same function (case 1);
* in the copy of an iteration, if the reverse loop recomputes it (case 2, ``recompute_plan.py``);
* *recomputed* (``REDONE``): a few cheap ops on values that are free or saved: indices, casts, one-flop values,
  reciprocals, loads from arrays that nothing overwrites, or that are saved as a whole (``revisited.py``), and what
  a branch chooses from such values, which is selected again.  Arrays are recomputed in the reverse iteration of their
  own loop, and not in each iteration of an inner loop that reads a part;
* *saved* (``KEPT``): it is stored at the end of each iteration of its loop, in an array indexed by the iteration if it
  is a scalar and the loop is counted (case 3), otherwise in a frame on a stack (case 4).  The array or stack is then
  itself a value of the enclosing loop, and so on outwards, unless the array has a row for each iteration of that loop
  as well (``regular_nests.py``).  At the function's top level, if the two sweeps are two
  functions, a last frame holds the values that both need.

Only values that the reverse sweep reads are considered, which is to-be-recorded analysis (Hascoët, Naumann, Pascual
2005).
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.liveness import ValueSet
from ...ir.aliasing.unmodified import Unmodified
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, Stack
from ...ir.uses import users
from ...passes.analysis.cost import CHEAP
from ...passes.analysis.loops import Loop, counted
from ...passes.buffers.final_loads import Finished, base, copied
from ..reverse import ThereAndBack
from .kept_sizes import Sizes
from .recompute_copy import Rerun, remove_forward
from .recompute_plan import Plan, candidates
from .revisited import Revisited

FREE, REDONE, KEPT = "free", "redone", "kept"

LONGEST = 100
"""Longest chain of ops by which a value is recomputed."""
MOST = 8
"""The most ops that are recomputed for one value, beside those that other values need; to save it takes less time."""


def _cheap(op: Op) -> bool:
    """True for ops in ``CHEAP``, for reciprocals, and for quotients of integers that are shifts.

    A reciprocal is one division, as in ``1 / (1 + exp(-x))``, and saves a store and a load of memory far away.
    """
    if op.name in ("floordiv", "mod") and isinstance(op.result.type, Scalar) and op.result.type.is_int:
        n = op.operands[1].const
        return n is not None and n > 0 and n & (n - 1) == 0
    return op.name in CHEAP or (op.name == "div" and op.operands[0].const is not None)


class Homes:
    """The decisions; ``homes`` maps forward values to the values that the reverse sweep reads, as far as they exist."""

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
        self.copied_in: dict[Block, Loop] = {}                # block of a copy → the iteration that it is part of
        self.live_in: dict[Block, ValueSet] = {}              # of the blocks of copies
        self.left: dict[Loop, dict[Value, Value]] = {}        # merged loop → values after its last iteration
        self.settled = dict(sweep.settled)                    # with those of copies
        for plan in [] if split else candidates(sweep, results):
            rerun = self._run_again(plan)
            if plan.merged:
                self.left[rerun.loop] = rerun.left
        self.copies = {old: new for new, old in self.original.items()}
        self.forward = {*sweep.forward, *self.original}
        self.bars = [b for b in sweep.func.blocks if b not in self.forward]
        self.unmodified = Unmodified(sweep.func, sweep.module, self._is_live_before)
        self.returned = self.unmodified.names.history(sweep.results if split else ())
        self.finished = Finished({x: c for x, c in self.settled.items() if x.block in self.forward}, self._may_stay)
        self.preds = {b: [(p, e) for p, e in es if p in self.forward] for b, es in sweep.func.predecessors().items()}
        self.sizes = Sizes(self._dominates, self._is_seen, sweep.home)
        self.sizes.keep(sweep.func, self.forward, self.bars, self.original)
        self.revisited: Callable[[Op, list[Loop]], bool] | None = None
        self.choices: dict[Value, Op | None] = {}
        self.reads: dict[Value, list[Op]] | None = None       # forward value → the ops that read it
        self._number()

    def _run_again(self, plan: Plan) -> Rerun:
        """Case 2: replace the loop by its copy among the forward blocks, inner loops first."""
        nested = [self._run_again(inner) for inner in plan.nested]
        rerun = Rerun(self.sweep, plan, nested)
        inner = set(rerun.levels)
        self.loops = [x for x in self.loops if x.loop not in inner] + rerun.loops
        self.reruns.append(rerun.level)
        for live in self.live_in.values() if nested else ():
            for v in [v for v in live if v in rerun.values]:
                live[rerun.values[v]] = None
        for new, old in rerun.original.items():
            self.original[new], self.copied_in[new] = old, rerun.level
            self.levels[new] = rerun.levels.get(self.levels.get(old, rerun.loop), rerun.level)
            self.live_in[new] = {rerun.values.get(v, v): None for v in self.sweep.liveness.before(old)}
        self.settled |= copied(self.sweep.settled, rerun.levels, rerun.values)
        if not plan.kept:
            remove_forward(self.sweep, rerun.loop)
        return rerun

    def _is_live_before(self, v: Value, block: Block) -> bool:
        return v in self.live_in[block] if block in self.live_in else self.sweep.liveness.is_live_before(v, block)

    def _may_stay(self, array: Value) -> bool:
        """True if an array can be read later without a copy.

        An array that a function returns beside its stack belongs to the caller, which would have to copy it before a
        write.
        """
        return self.unmodified(array) and array not in self.returned

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
        own = self.copied_in.get(block)
        return [v for v in dict.fromkeys(op.used())
                if v.block in self.forward and (own is None or self.copied_in.get(v.block) is not own)]

    def level(self, v: Value) -> Loop | None:
        """The innermost loop around the definition of ``v``, or None at the top level."""
        return self.levels.get(v.block)

    def _at_hand(self, block: Block, bar: Block, saved: bool) -> bool:
        """True if ``bar`` should read a value of ``block`` rather than recompute it.

        It is then in a register, or in a frame of an uncounted loop, which runs one iteration at a time in both
        sweeps, or in memory that one recomputed iteration fills and reads, or it is ``saved`` in any case.
        """
        level, home = self.levels.get(block), self.sweep.home.get(bar)
        if home is None or not (saved or level is None or counted(level) is None or self._in_rerun(level)):
            return False
        loop = self.sweep.forest.loop_of(self.original.get(block, block))
        return self._dominates(block, home) and (loop is None or home in loop.blocks)

    def _in_rerun(self, level: Loop | None) -> bool:
        """True if ``level`` is a recomputed iteration, or a loop in one."""
        while level is not None and level not in self.reruns:
            level = level.parent
        return level is not None

    def _uncounted(self, bar: Block) -> Block | None:
        """The forward block that ``bar`` reverses, if frames of an uncounted loop hold its values, else None."""
        home = self.sweep.home.get(bar)
        block = self.copies.get(home, home) if home is not None else None
        level = self.levels.get(block) if block is not None and block in self.forward else None
        return block if level is not None and level not in self.reruns and counted(level) is None else None

    def _dominates(self, a: Block, b: Block) -> bool:
        """True if ``a`` dominates ``b``, where blocks of copies are replaced by the original blocks."""
        return self.dom.dominates(self.original.get(a, a), self.original.get(b, b))

    def _is_seen(self, a: Block, b: Block) -> bool:
        """True if the loops around ``a`` are around ``b`` as well."""
        loop = self.sweep.forest.loop_of(self.original.get(a, a))
        return loop is None or self.original.get(b, b) in loop.blocks

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
        """True if a few cheap ops on available values give ``v``.  Decides about these values too."""
        needed: dict[Value, None] = {}
        self.wanted_in = self.readers.get(v, set())
        if not self._redoable(v, self.level(v), needed):
            return False
        if sum(u not in self.plan and not self._free(u) for u in needed) > MOST:
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

    def _made_by(self, v: Value) -> Op | None:
        """The op that gives ``v``: its own, or a selection of what the two sides of a branch pass to a join."""
        if v.op is None and v not in self.choices:
            self.choices[v] = self._choice(v)
        return v.op or self.choices[v]

    def _choice(self, v: Value) -> Op | None:
        """``select c, x, y``, not part of a block, if a branch on ``c`` leads to a join that receives ``x`` or ``y``.

        Both have been computed ahead of the branch.
        """
        join = v.block
        head = self.dom.idom.get(join) if join not in self.original and isinstance(v.type, Scalar) else None
        edges = self.preds.get(join, [])
        if head is None or head.term is None or head.term.name != "branch" or len(edges) != 2:
            return None
        sides: list[Value] = []
        for side, other in (head.term.edges, head.term.edges[::-1]):
            passed = [e.args[v.index] for p, e in edges if e is side or p is not head and
                      self.dom.dominates(side.block, p) and not self.dom.dominates(other.block, p)]
            if len(passed) != 1 or not self.dom.dominates(passed[0].block, join) or passed[0].block is join:
                return None
            sides += passed
        return Op("select", [head.term.operands[0], *sides], [v.type])

    def _redoable(self, v: Value, level: Loop | None, needed: dict[Value, None], depth: int = LONGEST) -> bool:
        op = self._made_by(v)
        if op is None or not _cheap(op) and not self._is_multiple(op, level):
            return False
        if OPS[op.name].view and not self.unmodified(v) and not self._is_final(op) \
                and not self._is_revisited(op, level):
            return False
        if not OPS[op.name].view and isinstance(v.type, Array) and not self._has_place(v):
            return False
        if op.name == "dim" and not self._free(op.operands[0]) and not self.sizes.there(op.operands[0], self.wanted_in):
            return False
        return all(self._reachable(u, level, needed, depth) for u in self._reads(op).values())

    def _is_multiple(self, op: Op, level: Loop | None) -> bool:
        """True for a quotient that is a product under ``fastmath``, as its denominator does not change in the loop."""
        return op.name == "div" and self.sweep.module.fastmath and isinstance(op.result.type, Scalar) and \
            self._outside(self.level(op.operands[1]), level)

    def _has_place(self, v: Value) -> bool:
        """True if an array can be recomputed as often as it was computed: in its own loop, where it is always.

        It has no place if a branch of an iteration computes it, or the top level of a function whose reverse sweep is
        another function, and inner loops read it.
        """
        level = self.level(v)
        if not self.split if level is None else level.latch is None or self._dominates(v.block, level.latch):
            return True
        if self.reads is None:
            self.reads = users(op for b in self.forward for op in b.all_ops())
        todo = [v]
        while todo:
            for op in self.reads.get(todo.pop(), ()):
                if self._outside(level, self.levels.get(op.block) if op.block is not None else None):
                    return False
                todo += [r for r in op.results if OPS[op.name].view]
        return True

    def _is_final(self, op: Op) -> bool:
        """True for a load of elements that have their final value, and for such a part with other axes."""
        while op.name in ("reshape", "transpose") and op.operands[0].op is not None:
            op = op.operands[0].op
        return self.finished.array(op) is not None

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
            done = all(b.term is not None for b in func.blocks)
            self.revisited = Revisited(func, self.levels.get) if done else lambda *_: False
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
