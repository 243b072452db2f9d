"""The place of a smallest or largest value, looked for behind the loop that finds the value.

::

    ^loop(i, best, at):                                   ^loop(i, best):
      x = get a, i                                          x = get a, i
      c = gt x, best                                        c = gt x, best
      found = and free, c                                   found = and free, c
      next = select found, x, best                          next = select found, x, best
      place = select found, i, at           becomes         branch …, ^loop(j, next), ^own(next)
      branch …, ^loop(j, next, place), ^exit(place)       ^own(largest):  first: best at entry
                                                            branch (gt largest, first), ^search(0, n), ^done(at)
                                                          ^search(i, place):
                                                            e = and free, (eq x, largest)
                                                            p = minimum place, (select e, i, n)
                                                            branch …, ^search(j, p), ^found(p)
                                                          ^found(p):  jump ^done(p)

Both loops are reductions, which become vectors (``extreme_reductions``), while a value and its place make LLVM wait
for comparisons and selections, one element after another.  The first element that is equal to the largest one is the
last that replaced another, if only larger ones do; zeros of both signs are equal to the comparison too.  What else is
kept of that iteration is computed again for it.

A loop of few iterations stays, since it has no vectors to fill.  Elements are read twice, so they are neighbours, and
both loops give the same bits: sums and products, as of squared distances, are marked ``exact``.  Machine code rounds
each of them then, and contracts or reorders none.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Edge, Function, Module, Op, Value
from ...ir.ops import COMPARISONS, OPS
from ...ir.types import is_float
from ...ir.uses import ops_of, users
from ..analysis.affine import AffineForms
from ..analysis.branches import extreme_of
from ..analysis.cfg import own_exit, set_term
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest
from .chosen_iteration import ChosenIteration, copy_op
from .extreme_reductions import is_plain

SHORTEST = 32
"""The fewest iterations that pay for two loops: 24 take as long as one after another, and 19 of softmax 1.1 times."""
MOST = 16
"""The most ops by which an element and its conditions are computed again."""
EXACT = COMPARISONS | {"const", "get", "abs", "neg", "and", "or", "not", "xor", "select", "isnan"}
ROUNDED = frozenset({"add", "sub", "mul"})
"""Exact for integers, and for floats that are rounded one by one."""


@dataclass(frozen=True)
class Places:
    """A loop that carries an extreme and what belongs to it.

    ``best`` becomes ``new`` where ``test`` and all of ``others`` hold, by the selection ``result``; ``kept`` are the
    other values that are replaced then, with their selections, and what they become.
    """

    best: Value
    new: Value
    result: Value
    test: Op
    others: tuple[Value, ...]
    kept: tuple[tuple[Value, Value, Value], ...]


def extreme_places(module: Module) -> bool:
    """Rewrite every innermost counted loop that carries one extreme and its place; returns True if there were any."""
    changed = False
    for func in module.functions.values():
        forest = loop_forest(func)
        left = forest.open_loops()
        for loop in forest.loops:
            known = counted(loop)
            if known is not None and loop not in left and is_plain(loop, known):
                found = _places(loop, known, module.fastmath and loop.parent is not None)
                changed |= found is not None and _rewrite(func, forest, loop, known, found)
    return changed


# --- what is rewritten --------------------------------------------------------------------------------

def _places(loop: Loop, known: Counted, minima: bool) -> Places | None:
    """The extreme of a loop and what is kept with it, if it carries nothing else.

    With ``minima``, the extreme may be a minimum or maximum of floats in place of a selection: fast math has made it of
    one by the comparison that is left for the place.  A loop that is in no other has a branch then, which takes less
    time (``rare_updates``), and LLVM finds places of integers.
    """
    carried = [(p, a, *_selected(p, a)) for p, a in loop.back_edge().passed() if p is not known.iv]
    asked = next((conditions for _, _, conditions, _ in carried if conditions), ())
    carried = [(p, a, asked, new) if minima and is_float(p.type) and not conditions
               and (new := _compared(p, a, asked)) is not None else (p, a, conditions, value)
               for p, a, conditions, value in carried]
    if len(carried) < 2 or any(not conditions or conditions != carried[0][2] for _, _, conditions, _ in carried):
        return None
    extremes = [found for p, a, conditions, new in carried if (found := _extreme(p, a, conditions, new)) is not None]
    if len(extremes) != 1:
        return None
    best, new, result, test, others = extremes[0]
    kept = tuple((p, a, value) for p, a, _, value in carried if p is not best)
    return Places(best, new, result, test, others, kept) if _is_private(loop, kept) else None


def _selected(old: Value, value: Value) -> tuple[tuple[Value, ...], Value]:
    """The conditions under which ``old`` is replaced, the last one first, and by which value."""
    conditions: list[Value] = []
    while (op := value.op) is not None and op.name == "select" and op.block is old.block and op.operands[2] is old:
        conditions.append(op.operands[0])
        value = op.operands[1]
    return tuple(conditions), value


def _compared(old: Value, value: Value, conditions: tuple[Value, ...]) -> Value | None:
    """The operand of a minimum or maximum that replaces ``old`` if the only one of ``conditions`` holds."""
    op, test = value.op, conditions[0].op if len(conditions) == 1 else None
    if op is None or test is None or op.name not in ("minimum", "maximum") or old not in op.operands:
        return None
    new = op.operands[op.operands[0] is old]
    less = (new, old) if op.name == "minimum" else (old, new)
    return new if (test.name, *test.operands) in (("lt", *less), ("gt", *less[::-1])) else None


def _extreme(old: Value, result: Value, conditions: tuple[Value, ...], new: Value
             ) -> tuple[Value, Value, Value, Op, tuple[Value, ...]] | None:
    """The value, its comparison with the new one, and all other conditions, if only that decides besides them."""
    found = [(k, e) for k, c in enumerate(conditions) if (e := extreme_of(c, new, old)) is not None]
    if len(found) != 1 or found[0][1][0].name not in ("lt", "gt"):
        return None
    k, (test, others, _) = found[0]
    return old, new, result, test, (*others, *conditions[:k], *conditions[k + 1:])


def _is_private(loop: Loop, kept: tuple[tuple[Value, Value, Value], ...]) -> bool:
    """True if only their selections read the places, and only the latch reads these."""
    readers = users(ops_of(loop.blocks))
    for old, result, _ in kept:
        inner, value = set[Op](), result
        while value.op is not None and value.op.name == "select" and value.op.operands[2] is old:
            inner.add(value.op)
            value = value.op.operands[1]
        if any(user not in inner for user in readers[old]) or any(
                user is not loop.head.term if op.result is result else user not in inner
                for op in inner for user in readers[op.result]):
            return False
    return True


def _again(loop: Loop, known: Counted, forest: LoopForest, value: Value) -> ChosenIteration | None:
    chosen = ChosenIteration(loop, known.iv, forest.dom, value, derived=True)
    return chosen if chosen.found and not chosen.blocks else None


def _is_exact(op: Op) -> bool:
    integers = not any(is_float(v.type) for v in (*op.operands, op.result))
    cheap = OPS[op.name].elementwise and integers and op.name not in ("floordiv", "mod", "pow")
    return cheap or op.name in EXACT or op.name in ROUNDED


def _is_in_order(op: Op, loop: Loop, iv: Value) -> bool:
    """True for an op that is no load, and for loads of neighbours or of one element."""
    if op.name != "get":
        return True
    forms = AffineForms()
    *rest, last = (forms.of(v) for v in op.operands[1:])
    return last.coefficient(iv) in (0, 1) and not any(f.coefficient(iv) for f in rest) and not any(
        v is not iv and v.block in loop.blocks for f in (*rest, last) for v, _ in f.terms)


# --- two reductions -----------------------------------------------------------------------------------

def _rewrite(func: Function, forest: LoopForest, loop: Loop, known: Counted, found: Places) -> bool:
    """Look for the place in a loop of its own, if elements and conditions can be computed again; returns True then."""
    searched = [_again(loop, known, forest, v) for v in (found.new, *found.others)]
    kept = [_again(loop, known, forest, value) for _, _, value in found.kept]
    needed = {op for chosen in searched if chosen is not None for op in chosen.ops}
    ops = [op for op in loop.head.ops if op in needed]
    head, leave = loop.head, loop.exit
    assert leave is not None and head.term is not None
    if None in searched or None in kept or len(ops) > MOST or not all(
            _is_exact(op) and _is_in_order(op, loop, known.iv) for op in ops):
        return False
    if not any(op.name == "get" for op in ops) or (known.trip.const or SHORTEST) < SHORTEST:
        return False
    for op in ops:
        if op.name in ROUNDED and is_float(op.result.type):
            op.attrs["exact"] = True
    _keep_short(func, loop, known)
    first = loop.entry_edge().args[found.best.index]
    own = own_exit(func, head, leave)
    best = own.add_param(found.best.type, found.best.hint)
    out = next(e for e in head.term.edges if e.block is own)
    results = {result: old for old, result, _ in found.kept}
    asked = [(p, results[a]) for p, a in zip(own.params, out.args) if a in results]
    out.args = [results.get(a, a) for a in out.args] + [found.result]
    loop.back_edge().args[:] = [results.get(a, a) for a in loop.back_edge().args]
    assert own.term is not None
    target, b = own.term.edges[0], Builder(own, head.term.loc)
    own.term = None
    search, done = func.new_block("search"), func.new_block("done")
    joined = {p: done.add_param(p.type, p.hint) for p, _ in asked}
    pair = (best, first) if found.test.operands[1] is found.best else (first, best)
    b.branch(b.emit(found.test.name, *pair), search, [], done, [p for p, _ in asked])
    place = _search(func, Builder(search, head.term.loc), known, ops, found, best)
    number = place.emit("minimum", place.block.params[0], place.sub(known.trip, place.const(1)))
    values = {old: chosen.compute(place, number) for (old, _, _), chosen in zip(found.kept, kept) if chosen is not None}
    place.jump(done, [values[old] for _, old in asked])
    Builder(done, head.term.loc).jump(target.block, [joined.get(v, v) for v in target.args])
    return True


def _keep_short(func: Function, loop: Loop, known: Counted) -> None:
    """Let a copy of the loop as it is run few iterations."""
    head, leave, preheader = loop.head, loop.exit, loop.preheader
    assert leave is not None and preheader is not None and head.term is not None
    if known.trip.const is not None:
        return
    args = loop.entry_edge().args
    copy = clone_blocks([head], func, {})[head]
    own_exit(func, copy, leave)
    short, long = func.new_block("short"), func.new_block("long")
    set_term(short, "jump", edges=[Edge(copy, list(args))])
    set_term(long, "jump", edges=[Edge(head, list(args))])
    b = Builder(preheader, head.term.loc)
    enough = b.emit("ge", known.trip, SHORTEST)
    set_term(preheader, "branch", [enough], [Edge(long, []), Edge(short, [])])
    loop.preheader = long


def _search(func: Function, b: Builder, known: Counted, ops: list[Op], found: Places, best: Value) -> Builder:
    """A loop for the first iteration whose element is ``best``; the builder stands behind it, in a block with its
    number.
    """
    body, behind = func.new_block("search"), func.new_block("found")
    i, least = body.add_param(known.iv.type), body.add_param(known.iv.type)
    behind.add_param(known.iv.type)
    one = b.const(1)
    b.jump(body, [b.const(0), known.trip])
    b.at(body)
    values = {known.iv: i}
    for op in ops:
        copy_op(op, b, values)
    equal = b.emit("eq", values.get(found.new, found.new), best)
    for condition in found.others:
        equal = b.and_(equal, values.get(condition, condition))
    least = b.emit("minimum", least, b.select(equal, i, known.trip))
    following = b.add(i, one)
    b.branch(b.emit("lt", following, known.trip), body, [following, least], behind, [least])
    b.at(behind)
    return b
