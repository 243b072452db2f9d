"""Takes transcendental functions out of serial loops into a loop of their own before, which vectorises.

A loop that carries a state from one iteration to the next runs one iteration at a time.  What in it depends on the
iteration's number alone (``cos(w * frames[i])`` on the way back of a recurrence) does not have to: a loop before
computes it, eight iterations at a time, into an array that the serial loop reads.  Both take the iterations strip by
strip, so that the array is small however long the loop.

Notation: *free* ops of a loop depend on its counter, on values from outside and on free ops only, and have no effect.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.clone import clone_op
from ..ir.graph import Block, Function, Module, Op, Value
from ..ir.ops import OPS
from ..ir.types import I64, Array, Scalar
from .loops import Counted, Loop, LoopForest, counted

DEAR = frozenset("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
                 "erf erfc pow atan2 hypot cbrt".split())
"""Functions that have vector versions and cost more than an array element written and read."""
SHORT = 16
"""Loops known to run no longer stay whole."""
STRIP = 512
"""Iterations computed ahead at a time: few enough that what is kept of them stays in the first cache."""


def fission(module: Module) -> None:
    """Expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(op.name in DEAR for op in func.all_ops()):
            for loop in LoopForest(func).loops:
                known = counted(loop)
                if known is not None and loop.blocks == {loop.head} and loop.exit is not None:
                    _split(func, loop, known)


def _split(func: Function, loop: Loop, known: Counted) -> None:
    if not _is_serial(loop.head) or (known.trip.const or SHORT + 1) <= SHORT or known.iv.index != 0:
        return
    if any(op.name == "check" for op in loop.head.ops):
        return                                       # what a check guards must not run before it
    free = _free_ops(loop.head, known)
    kept = _kept(loop.head, free)
    if kept:
        _move(func, loop, known, free, kept)


def _is_serial(head: Block) -> bool:
    """Whether a float goes from one iteration to the next otherwise than as a sum whose order is ours."""
    users: dict[Value, list[Op]] = {p: [] for p in head.params if isinstance(p.type, Scalar) and p.type.is_float}
    for op in head.all_ops():
        for v in op.used():
            if v in users:
                users[v].append(op)
    return any(not all(op.name == "add" and op.attrs.get("acc") for op in ops) for ops in users.values())


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


def _kept(head: Block, free: dict[Op, None]) -> list[Op]:
    """The free ops that cost something and whose results are needed by others: these are worth an array."""
    dear: set[Value] = set()
    for op in free:
        if op.name in DEAR or any(v in dear for v in op.operands):
            dear.add(op.result)
    needed = {v for op in head.all_ops() if op not in free for v in op.used()}
    return [op for op in free if op.result in dear and op.result in needed]


def _move(func: Function, loop: Loop, known: Counted, free: dict[Op, None], kept: list[Op]) -> None:
    """Strip by strip: ``strip`` starts one, ``before`` fills its arrays, the loop reads them, ``next`` goes on.

    The loop's own counter then starts from 0 in every strip; ``start`` is the strip's first iteration.
    """
    assert loop.preheader is not None and loop.preheader.term is not None
    head, entry = loop.head, loop.preheader.term.edges[0]
    types = [Array(op.result.type, (STRIP,)) for op in kept if isinstance(op.result.type, Scalar)]
    strip, before, between, onward = (func.new_block(n) for n in ("strip", head.name, "between", "next"))
    start, carried = strip.add_param(I64, "start"), [strip.add_param(p.type, p.hint) for p in head.params[1:]]
    rooms = [strip.add_param(t) for t in types]
    b = Builder(loop.preheader, kept[0].loc)
    loop.preheader.term = None
    room = [b.emit_op("empty", [b.const(STRIP)], dtype=t.dtype).result for t in types]
    b.jump(strip, [b.const(0), *entry.args[1:], *room])
    b.at(strip)
    length = b.minimum(b.sub(known.trip, start), STRIP)
    b.jump(before, [b.const(0), *rooms])
    _fill(before, between, _needed(free, kept), kept, start, length, known)
    b.at(between)
    b.jump(head, [b.const(0), *carried])
    assert loop.exit is not None
    leave = loop.exit
    states, leaving = _restart(loop, known, start, length, onward, list(between.params))
    _read(head, known, dict(zip(kept, between.params)))
    b.at(onward)
    again = b.add(start, STRIP)
    b.branch(b.lt(again, known.trip), strip, [again, *states], leave, leaving)


def _fill(before: Block, between: Block, needed: list[Op], kept: list[Op], start: Value, length: Value,
          known: Counted) -> None:
    """The loop that computes one strip."""
    j = before.add_param(I64, known.iv.hint)
    arrays = [before.add_param(Array(op.result.type, (STRIP,))) for op in kept if isinstance(op.result.type, Scalar)]
    b = Builder(before, kept[0].loc)
    values = {known.iv: b.add(start, j)}
    for op in needed:
        copy = clone_op(op, values)
        copy.block = before
        before.ops.append(copy)
    nexts = [b.emit_op("set", [a, values[op.result], j]).result for a, op in zip(arrays, kept)]
    following = b.add(j, 1)
    for a in arrays:
        between.add_param(a.type)
    b.branch(b.lt(following, length), before, [following, *nexts], between, nexts)


def _restart(loop: Loop, known: Counted, start: Value, length: Value, onward: Block,
             arrays: list[Value]) -> tuple[list[Value], list[Value]]:
    """The serial loop counts within the strip; what else it does with its counter sees the iteration's number.

    Yields, of the parameters of ``onward``, what the next strip and what the exit receive.  A value has one parameter:
    an array with two names, one of which is worked on in the next strip, would be copied for each."""
    head, term = loop.head, loop.head.term
    assert term is not None
    back, leave = loop.back_edge(), loop.exit_edge()
    ops, head.ops, head.term = head.ops, [], None
    b = Builder(head)
    full = b.add(start, known.iv)
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
    params = {v: onward.add_param(v.type) for v in dict.fromkeys([*states, *arrays, *leaving])}
    b.branch(b.lt(known.next, length), head, [known.next, *states], onward, list(params))
    return [params[v] for v in [*states, *arrays]], [params[v] for v in leaving]


def _needed(free: dict[Op, None], kept: list[Op]) -> list[Op]:
    """What of the free ops the kept ones need, in order."""
    wanted = {op.result for op in kept}
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
