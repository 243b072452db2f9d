"""Case 2 of ``frames``: the loops that are recomputed inside their reverse loops, and save nothing across iterations.

A loop whose iterations only feed reductions is the most common kind.  The values that its reverse sweep reads do not
depend on loop-carried values, so an iteration can be recomputed from its index.  This is done if the forward loop is
then not needed at all: if nothing reads its values but its own reverse sweep.  The two sweeps become one pass over
the iterations.

*Merged*: the function's results do need values of the loop, but nothing before its reverse sweep does.  The one pass,
in forward order, then carries the loop's values too, and the computation from the loop to the results follows it
(``late_results.py``).

*Kept*: something before its reverse sweep needs values of the loop, so the forward loop stays as well.  This is done
for several threads, if the order does not matter and the reverse sweep reads values of inner loops: frames on a stack
would order the iterations.  Other values, and those of regular nests, are saved in arrays by their indices, which takes
less time.  It is also done for the states of a recurrence, as of the steps of a path: lanes do not store them.

*Carried*: iterations read what earlier ones carry, as the position in a table that a scan has reached, or the state of
a generator of random numbers.  The reverse sweep only adds, so the cotangents of all that is carried in this way are
zero.  Such a loop is always merged, as the one pass carries these values in forward order.

*In order*: an iteration that may raise is not delayed until after a loop that may not terminate.

*Tainted*: a value of the loop that depends on a loop-carried value other than the index.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from ...ir.dominance import Dominators
from ...ir.graph import Block, Value
from ...ir.ops import OPS, TRANSCENDENTAL
from ...ir.types import Array, Scalar
from ...passes.analysis.cost import CHEAP
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.sizes import Solver
from ..control_tape import LoopBack
from ..reverse import ThereAndBack
from . import late_cotangents, late_results, nests
from .iteration_order import Reverse, order_free
from .regular_nests import fixed_sizes, regular_nest

LONGEST = 8
"""The longest chain of cheap ops that is taken to be computed again."""


@dataclass(frozen=True)
class Plan:
    """A loop to recompute, with the values that are then unavailable.

    ``merged``: the forward loop is merged into the reverse loop.  ``kept``: it stays beside it.  ``upwards``: if the
    order does not matter, the iterations run upwards, which is the best order for memory, and raises for the first
    failure.  ``carried``: iterations read carried values.  ``nested``: inner loops that are merged with their reverse
    loops in turn (``nests.py``).
    """

    back: LoopBack
    taint: set[Value]
    carried: bool = False
    merged: bool = False
    kept: bool = False
    upwards: bool = False
    nested: tuple[Plan, ...] = ()


def candidates(sweep: ThereAndBack, results: bool) -> list[Plan]:
    """The outermost loops to recompute."""
    reverse = Reverse(sweep)
    found: dict[Loop, Plan] = {}
    for loop in sweep.forest.roots:
        back = sweep.loops.get(loop)
        known = counted(loop)
        if back is None or known is None or back.top is None or loop.exit is None:
            continue
        taint = _unread_taint(sweep, reverse, back)
        if taint is not None:
            found[loop] = Plan(back, taint)
        elif order_free(reverse, back):
            found[loop] = Plan(back, set(), carried=True)
    free = [loop for loop, plan in found.items() if loop.children and order_free(reverse, plan.back)]
    stacked = [loop for loop in free if _needs_stack(sweep, reverse, loop)]
    lanes = [loop for loop in free if loop in stacked or _runs_in_lanes(sweep, loop)]
    if lanes and late_cotangents.detach(sweep, lanes) or stacked and late_cotangents.detach(sweep, stacked):
        reverse = Reverse(sweep)
    possible = {loop: plan for loop, plan in found.items() if not plan.carried}
    for loop in [loop for loop, plan in found.items()
                 if _raises(loop) and _may_wait_for_ever(reverse, plan.back)]:
        del found[loop]
    _keep_unneeded(sweep, found, [])
    wanted = [*(sweep.results if results else ()), *late_cotangents.reads(sweep)]
    if wanted:
        merged = [loop for loop, plan in found.items() if order_free(reverse, plan.back)]
        before: list[Loop] = []
        while before != merged:                              # with fewer merged loops, fewer results can be late
            early = [v for v in wanted if not late_results.computable(sweep, v, merged)]
            _keep_unneeded(sweep, found, [*early, *late_results.reads(sweep, wanted, merged)])
            before, merged = merged, [loop for loop in merged if loop in found]
        homes = {v.block for v in needed_forward(sweep, wanted, found)}
        for loop in list(found):
            if not loop.blocks.isdisjoint(homes):
                if loop in merged:
                    found[loop] = replace(found[loop], merged=True)
                else:
                    del found[loop]
    found = {loop: replace(plan, merged=plan.merged or plan.carried) for loop, plan in found.items()
             if not plan.carried or order_free(reverse, plan.back)}
    kept = [replace(plan, kept=True) for loop, plan in possible.items()
            if loop not in found and (_divides_anew(sweep, reverse, loop) if sweep.module.parallel
                                      else _saves_states(sweep, reverse, loop))
            and order_free(reverse, plan.back, by_parts=True)]
    chosen = [*found.values(), *kept]
    chosen = [replace(plan, upwards=order_free(reverse, plan.back)) for plan in chosen]
    return [plan if plan.kept else replace(plan, nested=_nested(sweep, reverse, plan)) for plan in chosen]


def _unread_taint(sweep: ThereAndBack, reverse: Reverse, back: LoopBack) -> set[Value] | None:
    """The tainted values of a loop; None if its iterations, or their reverse sweep, read what earlier ones carry."""
    taint = tainted(sweep.forest.dom, back.loop, back.iv)
    return None if taint is None or any(v in taint for v in _read_by(reverse.of(back.loop), back.loop)) else taint


def _nested(sweep: ThereAndBack, reverse: Reverse, plan: Plan) -> tuple[Plan, ...]:
    """The inner loops whose iterations are recomputed one by one; the last are tried first, as they run first."""
    outer = plan.back.loop
    found: list[Plan] = []
    inner_loops = sorted(outer.children, key=lambda child: sweep.forest.dom.number[child.head], reverse=True)
    for loop in inner_loops[:nests.MOST]:
        back = sweep.loops.get(loop)
        if back is None or back.top is None or not nests.may_move(sweep, outer, loop) or not order_free(reverse, back):
            continue
        taint = _unread_taint(sweep, reverse, back)
        if taint is None and not plan.merged:
            continue
        if not nests.is_separate(sweep, reverse.reads, outer, [loop, *(p.back.loop for p in found)], plan.merged):
            continue
        inner = replace(plan, back=back, taint=taint or set(), carried=taint is None, upwards=True)
        merged = _nested(sweep, reverse, inner)
        if len(merged) == len(loop.children) and (loop.children or inner.carried or nests.pays(sweep, loop)):
            found.append(replace(inner, nested=merged))
        elif loop.children and nests.stays_scalar(sweep, loop):
            found.append(replace(inner, nested=()))
    return tuple(found)


def _divides_anew(sweep: ThereAndBack, reverse: Reverse, loop: Loop) -> bool:
    """True if only iterations that are computed again can be divided between threads in the reverse sweep.

    Not around products of matrices: to recompute these takes long, and threads divide them anyway.
    """
    products = any(op.name == "matmul" for block in loop.blocks for op in block.ops)
    return not products and _needs_stack(sweep, reverse, loop, Solver(sweep.func))


def _needs_stack(sweep: ThereAndBack, reverse: Reverse, loop: Loop, sizes: Solver | None = None) -> bool:
    """True if the reverse sweep of ``loop`` reads what would be saved in each of its iterations on a stack.

    With ``sizes``, arrays whose sizes are known before the loop would be rows of one array.
    """
    rows = {x for x in _inner(loop) if x is loop or loop in regular_nest(sweep.forest.dom, x)}
    for v in dict.fromkeys(_read_by(reverse.of(loop), loop)):
        level = sweep.forest.loop_of(v.block)
        if not isinstance(v.type, Array):
            if level not in rows and not _is_made_again(v, loop):
                return True
        elif sizes is None or level is not loop or fixed_sizes(sizes, sweep.forest.dom, loop, v) is None:
            return True
    return False


def _saves_states(sweep: ThereAndBack, reverse: Reverse, loop: Loop) -> bool:
    """True if ``loop`` is likely to run in lanes, unless it saves the states of a recurrence in inner loops."""
    if sweep.module.gpu or any(op.name == "call" for block in loop.blocks for op in block.all_ops()):
        return False
    states = {x for x in _inner(loop)[1:] if x.latch is not None and _has_state(x)}
    return bool(states) and any(sweep.forest.loop_of(v.block) in states and not _is_made_again(v, loop)
                                for v in _read_by(reverse.of(loop), loop))


def _has_state(loop: Loop) -> bool:
    """True if a loop of one block carries a float that is more than a sum, a choice, or the largest so far."""
    head, passed = loop.head, loop.back_edge().args
    if loop.blocks != {head}:
        return False
    for p, following in zip(head.params, passed, strict=True):
        if not isinstance(p.type, Scalar) or not p.type.is_float or following is p or following.op is None:
            continue
        op = following.op
        reads = [v for v in op.operands if v is not p] if op.name in _UPDATES and p in op.operands else [following]
        if any(_depends_on(v, p) for v in reads):
            return True
    return False


_UPDATES = ("add", "sub", "select", "minimum", "maximum")


def _depends_on(v: Value, p: Value) -> bool:
    """True if ``v`` is computed from ``p`` in the same block."""
    todo, seen = [v], {v}
    while todo:
        v = todo.pop()
        if v is p:
            return True
        if v.op is not None and v.block is p.block:
            todo += [x for x in v.op.operands if x not in seen]
            seen.update(v.op.operands)
    return False


def _runs_in_lanes(sweep: ThereAndBack, loop: Loop) -> bool:
    """True if one pass is likely to run in lanes: the nest carries floats and calls no function.

    Paths of Heston's model then take an eighth of the time.  Functions are vectors in the forward loop; in a loop that
    saves rows as well they are called one by one, and a barrier option took twice the time.
    """
    if sweep.module.gpu:
        return False
    inside = [op for child in loop.children for block in child.blocks for op in block.ops]
    return all(OPS[op.name].cost < TRANSCENDENTAL for op in inside)


def _is_made_again(v: Value, loop: Loop, depth: int = LONGEST) -> bool:
    """True if a value of an inner loop is computed again rather than saved: an index, or cheap ops on such values."""
    if v.block not in loop.blocks or v.const is not None:
        return True
    if v.op is None:
        inner = next((x for x in _inner(loop) if x.head is v.block), None)
        known = counted(inner) if inner is not None else None
        return known is not None and known.iv is v
    return depth > 0 and v.op.name in CHEAP and all(_is_made_again(x, loop, depth - 1) for x in v.op.operands)


def _inner(loop: Loop) -> list[Loop]:
    return [loop, *(x for child in loop.children for x in _inner(child))]


def _raises(loop: Loop) -> bool:
    """True if an iteration may raise, itself or in a block outside the loop that only raises."""
    return any(op.name in ("check", "call") for b in loop.blocks for op in b.all_ops()) or any(
        s not in loop.blocks and s is not loop.exit for b in loop.blocks for s in b.successors())


def _may_wait_for_ever(reverse: Reverse, back: LoopBack) -> bool:
    """True if code that may not terminate runs before the iterations when they are delayed to the reverse sweep."""
    assert back.loop.exit is not None
    if back.loop.exit in reverse.before_endless:
        return True
    inside = reverse.endless & (back.loop.blocks - {back.loop.head})
    return bool(inside) and not order_free(reverse, back)      # later iterations run before earlier ones


def _keep_unneeded(sweep: ThereAndBack, found: dict[Loop, Plan], seeds: list[Value]) -> None:
    """Drop the loops whose forward values are needed, until a fixed point."""
    while found:
        homes = {v.block for v in needed_forward(sweep, seeds, found)}
        late = [loop for loop in found if not loop.blocks.isdisjoint(homes)]
        if not late:
            return
        for loop in late:
            del found[loop]


def _read_by(bars: list[Block], loop: Loop) -> list[Value]:
    """The values of ``loop`` that its reverse sweep reads."""
    return [v for block in bars for op in block.all_ops() for v in op.used() if v.block in loop.blocks]


def needed_forward(sweep: ThereAndBack, seeds: list[Value], rerun: Container[Loop]) -> set[Value]:
    """The forward values that are needed if the loops in ``rerun`` are recomputed in the reverse sweep.

    These are ``seeds``; the values that the reverse sweep reads, except those that a recomputed loop reads of itself;
    the values that such a loop reads from outside; and conditions, arguments of calls and checks outside of these
    loops.
    """
    forward = set(sweep.forward)
    outermost = {b: loop for loop in sweep.forest.roots for b in loop.blocks}
    todo = list(seeds)
    for block, home in sweep.home.items():
        own = outermost.get(home)
        todo += [v for op in block.all_ops() for v in op.used()
                 if v.block in forward and not (own in rerun and own is outermost.get(v.block))]
    entered: set[Block] = set()
    for block in sweep.forward:
        loop = outermost.get(block)
        if loop is None or loop not in rerun:                # it runs even if its values are not needed
            _enter(block, entered, todo)
        else:
            todo += [v for op in block.all_ops() for v in op.used() if v.block not in loop.blocks]
    found: set[Value] = set()
    opened: set[Loop] = set()
    while todo:
        v = todo.pop()
        if v in found or v.block not in forward:
            continue
        found.add(v)
        if (around := outermost.get(v.block)) is not None and around not in opened:
            opened.add(around)
            for inside in around.blocks:
                _enter(inside, entered, todo)
        todo += v.op.operands if v.op is not None else _arguments(sweep, v)
    return found


def _enter(block: Block, entered: set[Block], todo: list[Value]) -> None:
    """Add the operands of all effects and the terminator of ``block``."""
    if block in entered:
        return
    entered.add(block)
    for op in block.ops:
        if OPS[op.name].effect:
            todo += op.operands
    if block.term is not None and block.term.name != "return":
        todo += block.term.operands


def _arguments(sweep: ThereAndBack, p: Value) -> list[Value]:
    """The arguments that incoming edges pass for a parameter."""
    found: list[Value] = []
    for pred, edge in sweep.preds.get(p.block, ()):
        if (given := edge.argument(p)) is not None:
            found.append(given)
        elif pred.term is not None:
            found += pred.term.operands
    return found


def tainted(dom: Dominators, loop: Loop, iv: Value) -> set[Value] | None:
    """The tainted values; None if control flow, a check or a call depends on one."""
    found = {p for p in loop.head.params if p is not iv}
    blocks, grown = dom.in_order(loop.blocks), True
    while grown:                                             # in this order, once for each level of inner loops
        grown = False
        for block in blocks:
            for op in block.ops:
                if any(v in found for v in op.operands):
                    if OPS[op.name].effect:
                        return None
                    grown |= _mark(found, op.results)
            for edge in block.term.edges if block.term else ():
                if edge.block in loop.blocks and edge.block is not loop.head:
                    grown |= _mark(found, [p for p, a in edge.passed() if a in found])
    for block in loop.blocks:
        if block.term is not None and any(v in found for v in block.term.operands):
            return None
    return found


def _mark(found: set[Value], values: list[Value]) -> bool:
    new = [v for v in values if v not in found]
    found.update(new)
    return bool(new)
