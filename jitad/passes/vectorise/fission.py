"""Loop fission: moves transcendental functions out of a serial loop into a loop before it, which is vectorised.

A loop that carries a state executes one iteration after the other.  Values that depend on the counter alone need not
wait for it, such as ``cos(w * frames[i])`` in the reverse sweep of a recurrence.  A loop that updates ``a[at[i]]`` is
serial too, as two elements may be the same.  A new loop before the serial one computes these values, eight iterations
at a time, into an array that the serial loop reads.  Both loops are strip-mined together, so that the array has the
size of a chunk, however long the loop is::

    for each chunk:                                  # ^chunk … ^next
      for j in the chunk:  t[j] = cos(…)             # ``before``: vectorised
      for j in the chunk:  s = f(s, t[j])            # the serial loop

A loop with checks of floats is not vectorised either, since each iteration may end it (``math.log`` raises if its
argument is not positive).  The loop before the serial one then also computes the conditions, and whether all hold in
the chunk.  If one does not, the *checked* loop, a copy of the original, continues from the chunk's first iteration, and
raises in the right one.  Loop-invariant conditions may guard any op, even the read of an element: they are tested
before the first chunk.  If the checks are all that prevents vectorisation, no arrays are needed: see ``speculate``.

Notation: *free* ops of a loop have no effect and depend on the counter, loop-invariant values and free ops only.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar, is_float_scalar
from ...ir.uses import ops_of, users
from ..analysis.cfg import own_exit
from ..analysis.loops import Counted, Loop, counted, loop_forest
from .speculate import (
    CHUNK,
    before_checked,
    can_speculate,
    carries_only_sums_and_stores,
    conditions_of,
    enter_if,
    speculate,
)
from .state_strips import split_states

VECTOR_FUNCTIONS = frozenset(name for name, op in OPS.items() if op.vector)
"""Functions that have vector versions, and cost more than a store and a load."""
GUARDED = VECTOR_FUNCTIONS | {"sqrt", "div"}
"""Functions that are worth moving out of a loop with checks, which is not vectorised at all."""
SHORT = 16
"""Loops with at most this constant trip count are not split."""


def fission(module: Module) -> None:
    """Split every such loop; expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(op.name in GUARDED for op in func.all_ops()):
            for loop in loop_forest(func).loops:
                known = counted(loop)
                if known is not None and loop.blocks == {loop.head} and loop.exit is not None and \
                        known.iv.index == 0 and (known.trip.const or SHORT + 1) > SHORT:
                    split_states(func, loop, known, VECTOR_FUNCTIONS)
            for loop in loop_forest(func).loops:
                known = counted(loop)
                if known is not None and loop.exit is not None and (loop.blocks == {loop.head} or not _raises(loop)):
                    _split(func, loop, known)


def _raises(loop: Loop) -> bool:
    """True if an iteration may raise, so that nothing may be read for later ones."""
    return any(op.name in ("check", "call") for op in ops_of(loop.blocks)) or \
        any(s not in loop.blocks and s is not loop.exit for b in loop.blocks for s in b.successors())


def _split(func: Function, loop: Loop, known: Counted) -> None:
    checks = [op for op in loop.head.ops if op.name == "check"]
    serial = len(loop.blocks) > 1 or _is_serial(loop.head) and not carries_only_sums_and_stores(loop, known)
    if not (checks or serial) or (known.trip.const or SHORT + 1) <= SHORT or known.iv.index != 0:
        return
    free = _free_ops(loop.head, known)
    fine: set[Value] = set()
    if not all(_is_of_floats(op.operands[0], free, loop.head, fine) for op in checks):
        return                                       # an op must not be moved before the check of its index
    if any(_indexes_by_float(op) for op in free) and checks:
        return
    kept = _kept(loop, free, GUARDED if checks else VECTOR_FUNCTIONS)
    if kept and checks and can_speculate(loop, known, free):
        speculate(func, loop, known, checks)
    elif kept:
        needed = _needed(free, {op.result for op in kept} | set(conditions_of(loop, checks)[0]))
        Chunks(func, loop, known, needed, kept, checks).run()


def _is_of_floats(condition: Value, free: dict[Op, None], head: Block, fine: set[Value], part: bool = False) -> bool:
    """True if a condition compares floats that free ops compute, or is loop-invariant.

    The ops that a check of floats guards are safe to execute before it.  A loop-invariant ``part`` of a condition in
    the loop must also compare floats.  ``fine``: a cache of the conditions for which this holds.
    """
    op = condition.op
    if condition in fine or (condition.block is not head and not part):
        return True
    if op is None or (op.block is head and op not in free):
        return False
    if op.name == "select":                          # what a side of a branch checks, if it is taken
        found = all(_is_of_floats(v, free, head, fine, True) for v in op.operands[1:])
    elif all(v.type == BOOL for v in op.operands):
        found = all(_is_of_floats(v, free, head, fine, True) for v in op.operands)
    else:
        found = all(is_float_scalar(v.type) for v in op.operands)
    if found:
        fine.add(condition)
    return found


def _indexes_by_float(op: Op) -> bool:
    """True if an op reads an element at an index that was cast from a float, which a check of that float guards."""
    todo, seen = list(op.operands[1:]) if op.name == "get" else [], set[Value]()
    while todo:
        v = todo.pop()
        if v.op is None or v in seen or v.type != I64:
            continue
        seen.add(v)
        if v.op.name == "cast" and v.op.operands[0].type.is_float:  # type: ignore[union-attr]
            return True
        todo += v.op.operands
    return False


def _is_serial(head: Block) -> bool:
    """True if LLVM does not vectorise the loop, which carries a float or updates elements at indices that it loads.

    A sum that may be reordered (``acc``) is vectorised.
    """
    readers = users(head.all_ops())
    carried = [p for p in head.params if is_float_scalar(p.type)]
    return any(op.name != "add" or not op.attrs.get("acc") for p in carried for op in readers.get(p, ())) or any(
        _is_loaded(i, head) for op in head.ops if op.name in ("set", "add_at") for i in op.operands[2:])


def _is_loaded(index: Value, head: Block) -> bool:
    """True if an index depends on an element that the loop reads."""
    todo, seen = [index], set[Value]()
    while todo:
        v = todo.pop()
        if v.op is not None and v.block is head and v not in seen:
            seen.add(v)
            if v.op.name == "get":
                return True
            todo += v.op.operands
    return False


def _free_ops(head: Block, known: Counted) -> dict[Op, None]:
    """The free ops with one scalar result, in order."""
    here = {v for op in head.ops for v in op.results} | set(head.params)
    bound = here - {known.iv}
    free: dict[Op, None] = {}
    for op in head.ops:
        pure = OPS[op.name].elementwise or op.name in ("get", "const")
        if pure and isinstance(op.result.type, Scalar) and not any(v in bound for v in op.operands):
            free[op] = None
            bound.discard(op.result)
    return free


def _kept(loop: Loop, free: dict[Op, None], worth: frozenset[str]) -> list[Op]:
    """The free ops whose results are stored in arrays: they are worth it, and other ops of the loop read them.

    An op is worth it if its name is in ``worth``, or if it depends on such an op.
    """
    worthwhile: set[Value] = set()
    for op in free:
        if op.name in worth or any(v in worthwhile for v in op.operands):
            worthwhile.add(op.result)
    needed = {v for op in ops_of(loop.blocks) if op not in free and op.name != "check" for v in op.used()}
    return [op for op in free if op.result in worthwhile and op.result in needed]


class Chunks:
    """Strip-mines the loop: ``chunk`` starts a chunk, ``before`` fills its arrays, the loop reads them.

    ``onward`` follows, and goes back to ``chunk``.  The loop's own counter starts from 0 in every chunk; ``start`` is
    the chunk's first iteration.  ``before`` also computes the conditions of ``checks``, by the ops ``needed``.
    """

    def __init__(self, func: Function, loop: Loop, known: Counted, needed: list[Op], kept: list[Op],
                 checks: list[Op]) -> None:
        self.func, self.loop, self.known, self.kept, self.checks, self.needed = func, loop, known, kept, checks, needed
        self.loc = (kept or checks or list(loop.head.all_ops()))[0].loc
        self.types = [Array(op.result.type, (CHUNK,)) for op in kept if isinstance(op.result.type, Scalar)]
        self.conditions, self.first = conditions_of(loop, checks)
        self.chunk, self.before, self.between, self.onward = (
            func.new_block(n) for n in ("chunk", loop.head.name, "between", "next"))
        self.start = self.chunk.add_param(I64, "start")

    def run(self) -> None:
        loop, known, b = self.loop, self.known, Builder(self.chunk, self.loc)
        assert loop.preheader is not None and loop.preheader.term is not None and loop.exit is not None
        entry, leave = loop.preheader.term.edges[0], loop.exit
        carried = [self.chunk.add_param(p.type, p.hint) for p in loop.head.params[1:]]
        arrays = [self.chunk.add_param(t) for t in self.types]
        checked = self._checked(leave) if self.conditions or self.first else None
        self._enter(loop.preheader, list(entry.args[1:]), checked)
        length = b.minimum(b.sub(known.trip, self.start), CHUNK)
        b.jump(self.before, [b.const(0), *arrays, *(self.untested(b) if self.conditions else [])])
        self._fill(length)
        self._go_on(carried, checked if self.conditions else None)
        states, leaving = self._restart(length)
        _read(loop, known, dict(zip(self.kept, self.between.params)))
        b.at(self.onward)
        again = b.add(self.start, CHUNK)
        b.branch(b.lt(again, known.trip), self.chunk, [again, *states], leave, leaving)

    def _enter(self, preheader: Block, first: list[Value], checked: Block | None) -> None:
        """Allocate the arrays at the end of the preheader, and enter the first chunk."""
        b = Builder(preheader, self.loc)
        preheader.term = None
        if checked is not None:
            b.at(enter_if(b, [*self.first, *self.worth(b)], checked, [b.const(0), *first]))
        arrays = [b.emit_op("empty", [b.const(CHUNK)], dtype=t.dtype).result for t in self.types]
        b.jump(self.chunk, [b.const(0), *first, *arrays])

    def worth(self, b: Builder) -> list[Value]:
        """Emit what else must hold for the loop to be divided, if there are conditions."""
        return []

    def _checked(self, leave: Block) -> Block:
        """Make the checked loop, a cold copy of the original; returns the block that enters it."""
        head = self.loop.head
        copy = clone_blocks([head], self.func, {})[head]
        assert copy.term is not None
        copy.term.attrs["cold"] = True
        own_exit(self.func, copy, leave)
        return before_checked(self.func, copy)

    def _fill(self, length: Value) -> None:
        """Emit the loop that fills the arrays of one chunk, and computes whether all checks hold in it."""
        before, known = self.before, self.known
        j = before.add_param(I64, known.iv.hint)
        arrays = [before.add_param(t) for t in self.types]
        assert self.chunk.term is not None
        so_far = [before.add_param(v.type, "holds" if v.type == BOOL else "")
                  for v in self.chunk.term.edges[0].args[1 + len(arrays):]]
        b = Builder(before, self.loc)
        values = {known.iv: b.add(self.start, j)}
        self.compute(b, values)
        nexts = [b.emit_op("set", [a, values[op.result], j]).result for a, op in zip(arrays, self.kept)]
        nexts += self.test(b, values, so_far)
        following = b.add(j, 1)
        for v in [*arrays, *so_far]:
            self.between.add_param(v.type)
        b.branch(b.lt(following, length), before, [following, *nexts], self.between, nexts)

    def compute(self, b: Builder, values: dict[Value, Value]) -> None:
        """Emit what is stored in the arrays, and what else ``test`` needs."""
        for op in self.needed:
            copy = clone_op(op, values)
            copy.block = b.block
            b.block.ops.append(copy)

    def untested(self, b: Builder) -> list[Value]:
        """Emit what ``test`` has found before the first iteration."""
        return [b.const(True)]

    def test(self, b: Builder, values: dict[Value, Value], so_far: list[Value]) -> list[Value]:
        """Emit what is found of the conditions in this iteration and in those before it: whether all hold."""
        for condition in self.conditions:
            so_far = [b.and_(so_far[0], values.get(condition, condition))]
        return so_far

    def holds(self, b: Builder, found: list[Value]) -> Value:
        """Emit whether all conditions hold, by what ``test`` has found."""
        return found[0]

    def _go_on(self, carried: list[Value], checked: Block | None) -> None:
        """Enter the serial loop after the arrays are filled, or the checked loop if a check fails in this chunk."""
        b, head = Builder(self.between), self.loop.head
        if checked is None:
            return b.jump(head, [b.const(0), *carried])
        passing, failing = self.func.new_block("passing"), self.func.new_block("failing")
        b.branch(self.holds(b, self.between.params[len(self.types):]), passing, [], failing, [])
        b.at(passing)
        b.jump(head, [b.const(0), *carried])
        b.at(failing)
        b.jump(checked, [self.start, *carried])

    def _restart(self, length: Value) -> tuple[list[Value], list[Value]]:
        """Let the serial loop count within the chunk; other uses of its counter read the iteration's number.

        Returns the parameters of ``onward`` that the next chunk receives, and those that the exit receives.  Each value
        has one parameter.  With two, an array that the next chunk updates would be copied.
        """
        loop, known, head, latch = self.loop, self.known, self.loop.head, self.loop.latch
        assert latch is not None
        back, leave = loop.back_edge(), loop.exit_edge()
        ops, head.ops = [op for op in head.ops if op not in self.checks], []
        latch.term = None
        b = Builder(head)
        full = b.add(self.start, known.iv)
        numbers = {known.iv: full, known.next: b.add(full, 1)}
        head.ops += ops
        for op in ops_of(loop.blocks):
            if op is not known.next.op and op not in (full.op, numbers[known.next].op):
                op.replace_uses(numbers)
        b.at(latch)
        passed = [numbers.get(a, a) for a in [*back.args[1:], *leave.args]]
        states, leaving = passed[:len(back.args) - 1], passed[len(back.args) - 1:]
        arrays = self.between.params[:len(self.types)]
        params = {v: self.onward.add_param(v.type) for v in dict.fromkeys([*states, *arrays, *leaving])}
        b.branch(b.lt(known.next, length), head, [known.next, *states], self.onward, list(params))
        return [params[v] for v in [*states, *arrays]], [params[v] for v in leaving]


def _needed(free: dict[Op, None], wanted: set[Value]) -> list[Op]:
    """The free ops that the wanted values need, in order."""
    out = []
    for op in reversed(free):
        if op.result in wanted:
            wanted.update(op.operands)
            out.append(op)
    return out[::-1]


def _read(loop: Loop, known: Counted, arrays: dict[Op, Value]) -> None:
    """Replace the ops that the loop before computes by reads of its arrays."""
    head, reads = loop.head, dict[Value, Value]()
    for k, op in enumerate(head.ops):
        if op in arrays:
            read = head.ops[k] = Op("get", [arrays[op], known.iv], [op.result.type], loc=op.loc)
            read.block = head
            reads[op.result] = read.result
    for op in ops_of(loop.blocks):
        op.replace_uses(reads)
