"""Takes transcendental functions out of serial loops into a loop of their own before, which vectorises.

A loop that carries a state from one iteration to the next runs one iteration at a time.  What in it depends on the
iteration's number alone (``cos(w * frames[i])`` on the way back of a recurrence) does not have to: a loop before
computes it for all iterations, eight at a time, into an array that the serial loop reads.

Notation: *free* ops of a loop depend on its counter, on values from outside and on free ops only, and have no effect.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.clone import clone_op
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.ops import OPS
from ..ir.types import I64, Array, Scalar
from .cfg import set_term
from .loops import Counted, Loop, LoopForest, counted

DEAR = frozenset("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
                 "erf erfc pow atan2 hypot cbrt".split())
"""Functions that have vector versions and cost more than an array element written and read."""
SHORT = 16
"""Loops known to run no longer stay whole."""


def fission(module: Module) -> None:
    """Expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(op.name in DEAR for op in func.all_ops()):
            for loop in LoopForest(func).loops:
                known = counted(loop)
                if known is not None and loop.blocks == {loop.head} and (known.trip.const or SHORT + 1) > SHORT:
                    _split(func, loop, known)


def _split(func: Function, loop: Loop, known: Counted) -> None:
    if not _is_serial(loop.head) or any(op.name == "check" for op in loop.head.ops):
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
    """Build the loop before, between the preheader and the head, and read what it leaves."""
    assert loop.preheader is not None and loop.preheader.term is not None
    entry = loop.preheader.term.edges[0]
    types = [Array(op.result.type, (known.trip.const,)) for op in kept if isinstance(op.result.type, Scalar)]
    before, between = func.new_block(loop.head.name), func.new_block()
    it = before.add_param(I64, known.iv.hint)
    arrays = [before.add_param(t) for t in types]
    results = [between.add_param(t) for t in types]

    b = Builder(before, kept[0].loc)
    values = {known.iv: it}
    for op in _needed(free, kept):
        copy = clone_op(op, values)
        copy.block = before
        before.ops.append(copy)
    nexts = [b.emit_op("set", [a, values[op.result], it]).result for a, op in zip(arrays, kept)]
    following = b.add(it, 1)
    b.branch(b.lt(following, known.trip), before, [following, *nexts], between, nexts)

    b.at(loop.preheader)
    loop.preheader.term = None
    empty = [b.emit_op("empty", [known.trip], dtype=t.dtype).result for t in types]
    b.jump(before, [b.const(0), *empty])
    set_term(between, "jump", edges=[Edge(loop.head, entry.args)])
    _read(loop.head, known, dict(zip(kept, results)))


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
