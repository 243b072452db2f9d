"""Loops that act in one residue class of their counter step over the other iterations.

::

    for j in range(n):                              first = (1 - i) % 2
        if (i + j) % 2 == 1:          →             for j in range(first, n, 2):
            A(j)                                        A(j)

A step by two is what the sweeps of a chequerboard mean by such a test.  The other iterations have no effect: the way
past ``A`` changes nothing that the loop carries and makes no check.  It is done before differentiation, so the reverse
sweep steps as well.

The sum under the remainder may wrap around if the modulus is a power of two; else it must consist of counters, which
are too small for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import BOOL, I64
from ...ir.uses import ops_of
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import is_pure, merge_chains, resolve
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest, raising_blocks

LARGEST_MODULUS = 64
WIDEST = 16
"""The largest multiple of a counter in a sum that does not wrap."""
FARTHEST = 2**31
"""The largest constant in such a sum."""


@dataclass(frozen=True)
class Guard:
    """The loop acts where ``sign * counter + rest`` is congruent to ``residue`` modulo ``modulus``.

    ``test`` is ``acts`` there.
    """

    test: Op
    acts: bool
    sign: int
    rest: Affine
    modulus: int
    residue: int | Value


def residue_classes(module: Module) -> bool:
    """Let every such loop step; expects normal form.  Returns True if there was one."""
    changed = False
    for func in module.functions.values():
        found = False
        while _step_one(func):
            found = True
        if found:
            merge_chains(func)
            changed = True
    return changed


def _step_one(func: Function) -> bool:
    forest = loop_forest(func)
    for loop in forest.loops:
        known = counted(loop) if loop.exit is not None else None
        guard = _guard(loop, known, forest) if known is not None else None
        if known is not None and guard is not None:
            _step(forest, loop, known, guard)
            return True
    return False


# --- what is found ----------------------------------------------------------------------------------


def _guard(loop: Loop, known: Counted, forest: LoopForest) -> Guard | None:
    """The guard of what a loop does, if it reaches its first branch without effects, and one side has none."""
    back = loop.back_edge().args
    if any(v.block in loop.blocks and not any(a is v and i != known.iv.index for i, a in enumerate(back))
           for v in loop.exit_edge().args):
        return None
    block = loop.head
    while block.term is not None and block.term.name == "jump" and all(map(is_pure, block.ops)):
        block = block.term.edges[0].block
    term = block.term
    if term is None or term.name != "branch" or block is loop.latch or block not in loop.blocks or \
            forest.loop_of(block) is not loop:
        return None
    test = term.operands[0].op
    for acts in (True, False) if test is not None and test.block in loop.blocks else ():
        assert test is not None
        guard = _congruence(test, acts, loop, known, forest)
        if guard is not None and _is_idle(loop, known, term, not acts):
            return guard
    return None


def _is_idle(loop: Loop, known: Counted, term: Op, truth: bool) -> bool:
    """True if an iteration in which a branch goes the way of ``truth`` carries on what it began with."""
    block, is_now = loop.head, dict[Value, Value]()
    while all(map(is_pure, block.ops)) and block.term is not None:
        if block is loop.latch:
            return all(resolve(is_now, a) is p for p, a in zip(loop.head.params, loop.back_edge().args)
                       if p is not known.iv)
        if block.term.name != "jump" and block.term is not term:
            return False
        edge = block.term.edges[0 if block.term.name == "jump" or truth else 1]
        block = edge.block
        if block is loop.head or block not in loop.blocks:
            return False
        is_now.update((p, resolve(is_now, a)) for p, a in edge.passed())
    return False


def _congruence(test: Op, acts: bool, loop: Loop, known: Counted, forest: LoopForest) -> Guard | None:
    """The guard that a comparison of a remainder makes, where the loop acts if the comparison is ``acts``."""
    if test.name not in ("eq", "ne") or test.operands[0].type != I64:
        return None
    for remainder, residue in (test.operands, test.operands[::-1]):
        op = remainder.op
        modulus = op.operands[1].const if op is not None and op.name == "mod" else None
        if op is None or not isinstance(modulus, int) or not 2 <= modulus <= LARGEST_MODULUS:
            continue
        form = AffineForms().of(op.operands[0])
        sign, rest = form.coefficient(known.iv), form.without(known.iv)
        at = _residue(residue, modulus, acts == (test.name == "eq"), loop)
        if at is not None and sign in (1, -1) and not any(v.block in loop.blocks for v, _ in rest.terms) and \
                (modulus & (modulus - 1) == 0 or _is_small(rest, forest)):
            return Guard(test, acts, sign, rest, modulus, at)
    return None


def _residue(value: Value, modulus: int, equal: bool, loop: Loop) -> int | Value | None:
    """The residue for which ``remainder == value``, or of the other one of two: a number or a value from outside."""
    number = value.const
    if isinstance(number, int):
        at = number if equal else 1 - number
        return at if 0 <= at < modulus and (equal or modulus == 2) else None
    return value if equal and value.block not in loop.blocks else None


def _is_small(form: Affine, forest: LoopForest) -> bool:
    """True for a sum of counters, which start at 0: no program runs until it wraps."""
    counters = {known.iv for loop in forest.loops if (known := counted(loop)) is not None}
    return abs(form.constant) <= FARTHEST and all(v in counters and abs(n) <= WIDEST for v, n in form.terms)


# --- the change -------------------------------------------------------------------------------------


def _step(forest: LoopForest, loop: Loop, known: Counted, guard: Guard) -> None:
    """Count the iterations of the class alone, behind a test that there is one."""
    blocks = loop.region(raising_blocks(forest.dom))
    preheader, latch, head = loop.preheader, loop.latch, loop.head
    assert preheader is not None and preheader.term is not None and latch is not None and latch.term is not None
    loc, start, leave, back = latch.term.loc, loop.entry_edge().args, loop.exit_edge(), loop.back_edge()
    carried = {a: start[i] for i, a in enumerate(back.args) if i != known.iv.index}
    preheader.term = None
    b = Builder(preheader, loc)
    first, trip = _range(b, known.trip, guard)
    enter, skip, left, join = map(head.func.new_block, ("preheader", "skip", "exit", "after"))
    b.branch(b.lt(0, trip), enter, [], skip, [])
    b.at(enter)
    b.jump(head, start)
    b.at(skip)
    b.jump(join, [carried.get(v, v) for v in leave.args])
    b.at(left)
    b.jump(join, [left.add_param(v.type, v.hint) for v in leave.args])
    b.at(join)
    b.jump(leave.block, [join.add_param(v.type, v.hint) for v in leave.args])
    _count(loop, blocks, known, guard.modulus, first, trip)
    leave.block = left
    test = guard.test
    test.name, test.operands, test.attrs = "const", [], {"value": guard.acts, "type": BOOL}


def _range(b: Builder, trip: Value, guard: Guard) -> tuple[Value, Value]:
    """Emit the first number of the class, and how many numbers there are below ``trip``."""
    at = guard.residue if isinstance(guard.residue, Value) else b.const(guard.residue)
    total = b.const(guard.rest.constant)
    for v, times in guard.rest.terms:
        total = b.add(total, v if times == 1 else b.mul(v, times))
    first = b.mod(b.sub(at, total) if guard.sign == 1 else b.sub(total, at), guard.modulus)
    count = b.add(b.floordiv(b.sub(b.sub(trip, 1), first), guard.modulus), 1)
    if isinstance(guard.residue, Value):
        count = b.select(b.and_(b.ge(at, 0), b.lt(at, guard.modulus)), count, b.const(0))
    return first, count


def _count(loop: Loop, blocks: set[Block], known: Counted, step: int, first: Value, trip: Value) -> None:
    """Let the loop count to ``trip``; its iterations have the numbers ``first``, ``first + step`` and so on."""
    head, latch, iv = loop.head, loop.latch, known.iv
    assert latch is not None and latch.term is not None
    back, term = loop.back_edge(), latch.term
    body, head.ops = head.ops, []
    b = Builder(head, term.loc)
    number = b.add(first, b.mul(iv, step))
    added, head.ops = head.ops, body
    for op in ops_of(blocks):
        op.replace_uses({iv: number})
    head.ops[:0] = added
    latch.term = None
    b.at(latch)
    back.args[iv.index] = following = b.add(iv, 1)
    again = b.lt(following, trip)
    term.operands = [again]
    latch.term = term
