"""Branches around the update of a smallest or largest value, where its selection would delay the next iteration.

::

    ^loop(%i, %best, %at):                              ^loop(%i, %best, %at):
      …                                                   …
      %c = lt %x, %best                                   %c = lt %x, %best
      %found = and %free, %c            becomes           %found = and %free, %c
      %b = select %found, %x, %best                       branch {rare} %found, ^update, ^keep(%best, %at)
      %a = select %found, %i, %at                       ^update:  jump ^keep(%x, %i)
      branch …, ^loop(%next, %b, %a), …                 ^keep(%b, %a):  branch …, ^loop(%next, %b, %a), …

Of *n* values in random order only the logarithm of *n* are less than all before, so the branch is predicted.  With
selections the next iteration waits for the comparison, for what it is combined with, and for the selection: a shortest
path by a linear search for the nearest open node took 2.7 times as long.  A comparison alone is joined with the
selection by machine code, and stays one.

So is an extreme with two or more values that belong to it, as the best split of a table with its column and its sign,
in a loop with branches, which has no vectors (0.7 of the time).

So is the update of a choice whose condition takes float operations on what was chosen before, as the next corner of
a convex hull: the next iteration would wait for them, longer than for half a mispredicted branch.  In short loops that
are in no other, the smallest value and its index have a branch whatever decides.

So is the state of a recurrence that begins anew behind a threshold, as the voltage of a neuron that fires (a third of
the time): a branch lets the next iteration begin with the state that is not reset.

So are choices of integers that their own conditions wait for (``feedback``).

In loops around others, the largest value and its place (``if end > far: far, at = end, i``) have a branch too: an inner
loop would wait for the selection.  Strings that match their own beginning (the Z function) take 0.4 of the time.

LLVM would make selections of the branch, but for its weight.  ``simplify`` would too, so this pass comes last.
Branches that the program has around such an update get the weight as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import ORDERS
from ...ir.types import Scalar, is_float
from ...ir.uses import ops_of, users
from ..analysis.branches import extreme_of
from ..analysis.cfg import set_term, substitute
from ..analysis.loops import Loop, counted, loop_forest
from .feedback import branch_on_feedback

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "sqrt"})
FEW_OPS, SHORT = 16, 100
"""The most ops of a loop that a comparison alone delays, and of one that a longer wait does."""
MANY = 3
"""The least number of selections on one comparison that take longer than a branch in a loop of several blocks."""

Test = tuple[Value, bool]
"""A condition, and what it must be for the update."""


@dataclass(frozen=True)
class Update:
    """The condition for a carried value to be replaced, the new value, and the selections, the last one first."""

    tests: tuple[Test, ...]
    new: Value
    selections: tuple[Op, ...]


def rare_updates(module: Module) -> bool:
    """Make branches of the selections of every innermost counted loop of one block, and of those at the ends of loops
    around others; returns True if there are any.

    In innermost loops of several blocks the branches around updates are marked.
    """
    forests = [(func, loop_forest(func)) for func in module.functions.values()]
    loops = [(func, forest.dom, loop) for func, forest in forests for loop in forest.loops]
    for _, _, loop in loops:
        if len(loop.blocks) > 1 and not loop.children:
            _mark(loop)
    left = {loop for _, forest in forests for loop in forest.open_loops()}    # what they define is read elsewhere
    found = [loop not in left and _is_plain(loop) and _branch(func, loop, module.fastmath) or not loop.children
             and _is_short(loop) and branch_on_feedback(func, loop, dom) for func, dom, loop in loops]
    for func, _, loop in loops:
        if len(loop.blocks) > 1 and not loop.children:
            found += [_branch_on_extremes(func, block, loop) for block in func.blocks[:] if block in loop.blocks]
    return any(found)


def _branch_on_extremes(func: Function, block: Block, loop: Loop) -> bool:
    """Make a branch of the selections that replace an extreme and two or more values which belong to it."""
    carried, groups = set(loop.head.params), dict[Value, list[Op]]()
    for op in block.ops:
        if op.name == "select" and op.operands[2] in carried and isinstance(op.result.type, Scalar):
            carried.add(op.result)
            groups.setdefault(op.operands[0], []).append(op)
    found = False
    for c, group in reversed(groups.items()):
        if len(group) >= MANY and c.op is not None and c.op.name in ORDERS and any(
                set(c.op.operands) == set(op.operands[1:]) for op in group):
            after = block.ops[block.ops.index(group[0]):]
            if {v for op in after for v in op.results}.isdisjoint(v for op in group for v in op.operands):
                _split(func, block, group, [op for op in after if op not in group])
                found = True
    return found


def _split(func: Function, block: Block, group: list[Op], after: list[Op]) -> None:
    """End ``block`` in a branch in place of a group of selections with one condition; ``after`` is what follows."""
    term = block.term
    assert term is not None
    update, keep = func.new_block("update"), func.new_block("keep")
    merged = {op.result: keep.add_param(op.result.type, op.result.hint) for op in group}
    set_term(update, "jump", edges=[Edge(keep, [op.operands[1] for op in group])])
    block.ops, keep.ops, keep.term = block.ops[:block.ops.index(group[0])], after, term
    for op in keep.all_ops():
        op.block = keep
    block.term = None
    set_term(block, "branch", [group[0].operands[0]], [Edge(update), Edge(keep, [op.operands[2] for op in group])])
    assert block.term is not None
    block.term.loc, block.term.attrs["rare"] = group[0].loc, True
    substitute(func, merged)


def _mark(loop: Loop) -> None:
    """Mark the branches whose first side updates an extreme if more than the comparison decides it, or if the other
    side computes something instead, for which a selection would wait.
    """
    for block in loop.blocks:
        term = block.term
        if term is None or term.name != "branch":
            continue
        update, keep = (_side(e, loop) for e in term.edges)
        pairs = zip(keep.args, update.args) if update.block is keep.block else ()
        replaced = {old: new for old, new in pairs if new is not old}
        found = [extreme_of(term.operands[0], new, old) for old, new in replaced.items() if old.owner is loop.head]
        computed = any(old.owner is not loop.head for old in replaced)
        if any(extreme is not None and (extreme[1] or computed) for extreme in found) or _waits(
                loop, term.operands[0], replaced) or _resets(loop, term.operands[0], replaced):
            term.attrs["rare"] = True


def _is_short(loop: Loop) -> bool:
    term = loop.latch.term if loop.latch is not None else None
    return term is not None and not term.attrs.get("cold") and sum(len(b.ops) for b in loop.blocks) <= SHORT


def _side(edge: Edge, loop: Loop) -> Edge:
    """The edge by which a side of a branch reaches the join."""
    term = edge.block.term
    own = term is not None and term.name == "jump" and edge.block in loop.blocks and not edge.block.params
    return term.edges[0] if own and term is not None else edge


def _is_plain(loop: Loop) -> bool:
    term = loop.latch.term if loop.latch is not None else None
    if term is None or term.name != "branch" or term.attrs.get("cold"):
        return False
    return bool(loop.children) or (loop.blocks == {loop.head} and counted(loop) is not None
                                   and all(isinstance(p.type, Scalar) for p in loop.head.params))


def _branch(func: Function, loop: Loop, fastmath: bool) -> bool:
    """Make a branch of the selections of the first value that qualifies, and of those with the same condition."""
    assert loop.latch is not None
    updates = {p: u for p, a in loop.back_edge().passed() if (u := _update(loop.latch, p, a)) is not None}
    for update in updates.values():
        together = {q: u for q, u in updates.items() if u.tests == update.tests}
        together |= _extremes(loop, update, fastmath)
        found = len(together) > 1 and any(_is_extreme(loop, q, u) for q, u in together.items()) or any(
            _waits(loop, c, {q: u.new for q, u in together.items()}) for c, _ in update.tests)
        if found and _only_carried(loop, together):
            _rewrite(func, loop, together)
            return True
    return False


def _update(latch: Block, old: Value, value: Value) -> Update | None:
    """The update of ``old`` by ``value``, if that is a selection, or several, of which it is one side each time."""
    tests: list[Test] = []
    selections: list[Op] = []
    while (op := value.op) is not None and op.name == "select" and op.block is latch and old in op.operands[1:]:
        replaces = op.operands[2] is old
        tests.append((op.operands[0], replaces))
        selections.append(op)
        value = op.operands[1 if replaces else 2]
    return Update(tuple(tests), value, tuple(selections)) if tests and value is not old else None


def _is_extreme(loop: Loop, old: Value, update: Update) -> bool:
    """True if the new value is compared with the old one, and the comparison is not the only test of a longer loop
    in another one.
    """
    todo, seen, compared = [c for c, _ in update.tests], set[Value](), False
    while todo:
        v = todo.pop()
        if v.op is not None and v not in seen and isinstance(v.type, Scalar) and v.type.is_bool:
            seen.add(v)
            compared |= v.op.name in ORDERS and set(v.op.operands) == {old, update.new}
            todo += v.op.operands
    return compared and (len(seen) > 1 or bool(loop.children) or loop.parent is None and len(loop.head.ops) <= FEW_OPS)


def _extremes(loop: Loop, update: Update, fastmath: bool) -> dict[Value, Update]:
    """The extreme that the only test compares, if it is a minimum or maximum: of integers, or under fast math."""
    (test, holds), *others = update.tests
    if others or not holds or test.op is None or test.op.name not in ORDERS:
        return {}
    less, more = test.op.operands if test.op.name in ("lt", "le") else test.op.operands[::-1]
    found: dict[Value, Update] = {}
    for p, a in loop.back_edge().passed():
        op = a.op
        if op is not None and op.name in ("minimum", "maximum") and op.block is loop.latch and (
                fastmath or not is_float(p.type)):
            new = less if op.name == "minimum" else more
            if set(op.operands) == {new, p} == {less, more} and new is not p:
                found[p] = Update(update.tests, new, (op,))
    return found


def _waits(loop: Loop, condition: Value, replaced: dict[Value, Value]) -> bool:
    """True if float operations on the carried values that are replaced decide, and no new value is computed from one
    that is carried, but for integers.
    """
    known = counted(loop)
    if len(loop.head.ops) > SHORT or known is None or any(p.owner is not loop.head for p in replaced):
        return False
    carried = _steps(loop, [p for p in loop.head.params if p is not known.iv])
    return _steps(loop, replaced).get(condition, 0) > 0 and all(isinstance(v.type, Scalar) and (
        not is_float(v.type) or v not in carried and (v.block is loop.head or v.block not in loop.blocks))
        for v in replaced.values())


def _resets(loop: Loop, condition: Value, replaced: dict[Value, Value]) -> bool:
    """True if float operations on carried floats decide, and one that is computed from them begins anew."""
    if not 0 < len(loop.head.ops) <= SHORT:
        return False
    steps = _steps(loop, [p for p in loop.head.params if is_float(p.type)])
    return steps.get(condition, 0) > 0 and any(
        isinstance(old.type, Scalar) and is_float(old.type) and steps.get(old, 0) > 0 and new not in steps
        and (new.block is loop.head or new.block not in loop.blocks) for old, new in replaced.items())


def _steps(loop: Loop, start: Iterable[Value]) -> dict[Value, int]:
    """The float operations from some parameters of the head to what it computes from them."""
    steps = dict.fromkeys(start, 0)
    for op in loop.head.ops:
        before = [steps[v] for v in op.operands if v in steps]
        for v in op.results if before else ():
            steps[v] = max(before) + (op.name in ARITHMETIC and is_float(v.type))
    return steps


def _only_carried(loop: Loop, together: dict[Value, Update]) -> bool:
    """True if nothing but the latch's edges, and selections on the way to it, reads the selections."""
    assert loop.latch is not None
    readers = users(ops_of(loop.blocks))
    last = {u.selections[0] for u in together.values()}
    inner = {op for u in together.values() for op in u.selections[1:]}
    return not last & inner and not any(u.new.op in last | inner for u in together.values()) and all(
        user is loop.latch.term for op in last for user in readers[op.result]) and all(
        user in last | inner for op in inner for user in readers[op.result])


def _rewrite(func: Function, loop: Loop, together: dict[Value, Update]) -> None:
    """Let the latch have a block of its own, to which the values come by two edges."""
    head = loop.latch
    assert head is not None and head.term is not None
    term = head.term
    update, latch = func.new_block("update"), func.new_block("keep")
    merged = {u.selections[0].result: latch.add_param(p.type, p.hint) for p, u in together.items()}
    set_term(update, "jump", edges=[Edge(latch, [u.new for u in together.values()])])
    gone = {op for u in together.values() for op in u.selections}
    head.ops, head.term = [op for op in head.ops if op not in gone], None
    b = Builder(head, term.loc)
    found, *others = [c if holds else b.emit("not", c) for c, holds in next(iter(together.values())).tests]
    for c in others:
        found = b.emit("and", found, c)
    set_term(head, "branch", [found], [Edge(update, []), Edge(latch, list(together))])
    assert head.term is not None
    head.term.loc, head.term.attrs["rare"] = term.loc, True
    term.block, latch.term = latch, term
    term.replace_uses(merged)
