"""Takes transcendental functions out of serial loops into a loop of their own before, which vectorises.

A loop that carries a state from one iteration to the next runs one iteration at a time.  What in it depends on the
iteration's number alone (``cos(w * frames[i])`` on the way back of a recurrence) does not have to: a loop before
computes it, eight iterations at a time, into an array that the serial loop reads.  Both take the iterations strip by
strip, so that the array is small however long the loop.

A loop with checks of floats (``math.log`` raises where its argument is not positive) would not vectorise either, for
any iteration may end it.  The loop before computes what they look at as well, and whether all hold in the strip; if
one does not, the *checked* loop, which is the loop as it was, goes on from the strip's first iteration and raises
what is to be raised when it is.  Conditions from outside may guard anything, an index too: they are looked at before
the first strip.  Where nothing but the checks is in the way no arrays are needed: see ``speculate``.

Notation: *free* ops of a loop depend on its counter, on values from outside and on free ops only, and have no effect.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar
from ...ir.uses import users
from ..analysis.cfg import own_exit
from ..analysis.loops import Counted, Loop, counted, loop_forest
from .speculate import (
    STRIP,
    before_checked,
    can_speculate,
    carries_sums_and_rows_only,
    conditions_of,
    enter_if,
    speculate,
)

VECTOR_FUNCTIONS = frozenset(name for name, op in OPS.items() if op.vector)
"""Functions that have vector versions and cost more than an array element written and read."""
GUARDED = VECTOR_FUNCTIONS | {"sqrt", "div"}
"""What is worth computing ahead in a loop that would not vectorise at all."""
SHORT = 16
"""Loops known to run no longer stay whole."""


def fission(module: Module) -> None:
    """Expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(op.name in VECTOR_FUNCTIONS for op in func.all_ops()):
            for loop in loop_forest(func).loops:
                known = counted(loop)
                if known is not None and loop.blocks == {loop.head} and loop.exit is not None:
                    _split(func, loop, known)


def _split(func: Function, loop: Loop, known: Counted) -> None:
    checks = [op for op in loop.head.ops if op.name == "check"]
    serial = _is_serial(loop.head) and not carries_sums_and_rows_only(loop, known)
    if not (checks or serial) or (known.trip.const or SHORT + 1) <= SHORT or known.iv.index != 0:
        return
    free = _free_ops(loop.head, known)
    fine: set[Value] = set()
    if not all(_is_of_floats(op.operands[0], free, loop.head, fine) for op in checks):
        return                                       # what a check of an index guards must not run before it
    if any(_indexes_by_float(op) for op in free) and checks:
        return
    kept = _kept(loop.head, free, GUARDED if checks else VECTOR_FUNCTIONS)
    if kept and checks and can_speculate(loop, known, free):
        speculate(func, loop, known, checks)
    elif kept:
        _Strips(func, loop, known, free, kept, checks).run()


def _is_of_floats(condition: Value, free: dict[Op, None], head: Block, fine: set[Value], part: bool = False) -> bool:
    """Whether a condition compares floats that can be computed ahead: what it guards is safe to compute then, too.

    Or it is from outside, and no ``part`` of one in the loop.  ``fine``: those of which it is known."""
    op = condition.op
    if condition in fine or (condition.block is not head and not part):
        return True
    if op is None or (op.block is head and op not in free):
        return False
    if all(v.type == BOOL for v in op.operands):
        found = all(_is_of_floats(v, free, head, fine, True) for v in op.operands)
    else:
        found = all(isinstance(v.type, Scalar) and v.type.is_float for v in op.operands)
    if found:
        fine.add(condition)
    return found


def _indexes_by_float(op: Op) -> bool:
    """Whether an element is read at an index that was a float: the check that the float is a number guards it."""
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
    """Whether a float goes from one iteration to the next otherwise than as a sum whose order is ours."""
    readers = users(head.all_ops())
    carried = [p for p in head.params if isinstance(p.type, Scalar) and p.type.is_float]
    return any(op.name != "add" or not op.attrs.get("acc") for p in carried for op in readers.get(p, ()))


def _free_ops(head: Block, known: Counted) -> dict[Op, None]:
    """The free ops, in order, that yield one scalar."""
    here = {v for op in head.ops for v in op.results} | set(head.params)
    bound = here - {known.iv}
    free: dict[Op, None] = {}
    for op in head.ops:
        pure = OPS[op.name].elementwise or op.name in ("get", "const")
        if pure and isinstance(op.result.type, Scalar) and not any(v in bound for v in op.operands):
            free[op] = None
            bound.discard(op.result)
    return free


def _kept(head: Block, free: dict[Op, None], worth: frozenset[str]) -> list[Op]:
    """The free ops that cost something and whose results are needed by others: these are worth an array."""
    worthwhile: set[Value] = set()
    for op in free:
        if op.name in worth or any(v in worthwhile for v in op.operands):
            worthwhile.add(op.result)
    needed = {v for op in head.all_ops() if op not in free and op.name != "check" for v in op.used()}
    return [op for op in free if op.result in worthwhile and op.result in needed]


class _Strips:
    """Strip by strip: ``strip`` starts one, ``before`` fills its arrays, the loop reads them, ``next`` goes on.

    The loop's own counter then starts from 0 in every strip; ``start`` is the strip's first iteration.
    """

    def __init__(self, func: Function, loop: Loop, known: Counted, free: dict[Op, None], kept: list[Op],
                 checks: list[Op]) -> None:
        self.func, self.loop, self.known, self.kept = func, loop, known, kept
        self.types = [Array(op.result.type, (STRIP,)) for op in kept if isinstance(op.result.type, Scalar)]
        self.conditions, self.first = conditions_of(loop, checks)
        self.needed = _needed(free, {op.result for op in kept} | set(self.conditions))
        self.strip, self.before, self.between, self.onward = (
            func.new_block(n) for n in ("strip", loop.head.name, "between", "next"))
        self.start = self.strip.add_param(I64, "start")

    def run(self) -> None:
        loop, known, b = self.loop, self.known, Builder(self.strip, self.kept[0].loc)
        assert loop.preheader is not None and loop.preheader.term is not None and loop.exit is not None
        entry, leave = loop.preheader.term.edges[0], loop.exit
        carried = [self.strip.add_param(p.type, p.hint) for p in loop.head.params[1:]]
        rooms = [self.strip.add_param(t) for t in self.types]
        checked = self._checked(leave) if self.conditions or self.first else None
        self._enter(loop.preheader, list(entry.args[1:]), checked)
        length = b.minimum(b.sub(known.trip, self.start), STRIP)
        b.jump(self.before, [b.const(0), *rooms, *([b.const(True)] if self.conditions else [])])
        self._fill(length)
        self._go_on(carried, checked if self.conditions else None)
        states, leaving = self._restart(length)
        _read(loop.head, known, dict(zip(self.kept, self.between.params)))
        b.at(self.onward)
        again = b.add(self.start, STRIP)
        b.branch(b.lt(again, known.trip), self.strip, [again, *states], leave, leaving)

    def _enter(self, preheader: Block, first: list[Value], checked: Block | None) -> None:
        """From the preheader into the first strip, with room for the arrays."""
        b = Builder(preheader, self.kept[0].loc)
        preheader.term = None
        if checked is not None:
            b.at(enter_if(b, self.first, checked, [b.const(0), *first]))
        room = [b.emit_op("empty", [b.const(STRIP)], dtype=t.dtype).result for t in self.types]
        b.jump(self.strip, [b.const(0), *first, *room])

    def _checked(self, leave: Block) -> Block:
        """A block before the loop as it was, cold, which leaves through a block of its own."""
        head = self.loop.head
        copy = clone_blocks([head], self.func, {})[head]
        assert copy.term is not None
        copy.term.attrs["cold"] = True
        own_exit(self.func, copy, leave)
        return before_checked(self.func, copy)

    def _fill(self, length: Value) -> None:
        """The loop that computes one strip, and whether all checks hold in it."""
        before, known = self.before, self.known
        j = before.add_param(I64, known.iv.hint)
        arrays = [before.add_param(t) for t in self.types]
        holds = [before.add_param(BOOL, "holds")] if self.conditions else []
        b = Builder(before, self.kept[0].loc)
        values = {known.iv: b.add(self.start, j)}
        for op in self.needed:
            copy = clone_op(op, values)
            copy.block = before
            before.ops.append(copy)
        nexts = [b.emit_op("set", [a, values[op.result], j]).result for a, op in zip(arrays, self.kept)]
        for h in holds:
            for condition in self.conditions:
                h = b.and_(h, values.get(condition, condition))
            nexts.append(h)
        following = b.add(j, 1)
        for v in [*arrays, *holds]:
            self.between.add_param(v.type)
        b.branch(b.lt(following, length), before, [following, *nexts], self.between, nexts)

    def _go_on(self, carried: list[Value], checked: Block | None) -> None:
        """From the filled arrays into the loop, or, if a check fails in this strip, into the checked one."""
        b, head = Builder(self.between), self.loop.head
        if checked is None:
            return b.jump(head, [b.const(0), *carried])
        whole, failing = self.func.new_block("whole"), self.func.new_block("failing")
        b.branch(self.between.params[-1], whole, [], failing, [])
        b.at(whole)
        b.jump(head, [b.const(0), *carried])
        b.at(failing)
        b.jump(checked, [self.start, *carried])

    def _restart(self, length: Value) -> tuple[list[Value], list[Value]]:
        """The serial loop counts within the strip; what else it does with its counter sees the iteration's number.

        Yields, of the parameters of ``onward``, what the next strip and what the exit receive.  A value has one
        parameter: an array with two names, one of which is worked on in the next strip, would be copied for each."""
        loop, known, head = self.loop, self.known, self.loop.head
        back, leave = loop.back_edge(), loop.exit_edge()
        ops, head.ops, head.term = [op for op in head.ops if op.name != "check"], [], None
        b = Builder(head)
        full = b.add(self.start, known.iv)
        for op in ops:
            if op is not known.next.op:
                number = {known.iv: full}
                if known.next in op.operands:
                    number[known.next] = b.add(full, 1)
                op.replace_uses(number)
            head.ops.append(op)
        numbers = {known.iv: full, known.next: b.add(full, 1)}
        passed = [numbers.get(a, a) for a in [*back.args[1:], *leave.args]]
        states, leaving = passed[:len(back.args) - 1], passed[len(back.args) - 1:]
        arrays = self.between.params[:len(self.types)]
        params = {v: self.onward.add_param(v.type) for v in dict.fromkeys([*states, *arrays, *leaving])}
        b.branch(b.lt(known.next, length), head, [known.next, *states], self.onward, list(params))
        return [params[v] for v in [*states, *arrays]], [params[v] for v in leaving]


def _needed(free: dict[Op, None], wanted: set[Value]) -> list[Op]:
    """What of the free ops the wanted values need, in order."""
    out = []
    for op in reversed(free):
        if op.result in wanted:
            wanted.update(op.operands)
            out.append(op)
    return out[::-1]


def _read(head: Block, known: Counted, arrays: dict[Op, Value]) -> None:
    """Let the loop read what the loop before has computed."""
    reads: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in head.ops:
        if op in arrays:
            read = Op("get", [arrays[op], known.iv], [op.result.type], loc=op.loc)
            read.block = head
            reads[op.result] = read.result
            ops.append(read)
        else:
            op.replace_uses(reads)
            ops.append(op)
    head.ops = ops
    assert head.term is not None
    head.term.replace_uses(reads)
