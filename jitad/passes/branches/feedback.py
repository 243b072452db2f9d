"""Choices that their own conditions wait for: cycles of a loop through a choice and float operations.

A heater is on until a temperature is reached that it changes itself, a spin flips with a probability that depends on
its neighbour, which was chosen just before::

    ^loop(%on, %t):                            ^loop(%on, %t):
      %c = gt %t, %limit                         %c = gt %t, %limit
      %a = select %c, %zero, %on    becomes      branch {rare} %c, ^update, ^keep(%on)
      %u = … %a … %t …                         ^update:  jump ^keep(%zero)
      branch …, ^loop(%a, %u), …               ^keep(%a):  %u = … %a … %t …

With a selection the next iteration waits for the float operations, the comparison and the selection.  A branch is
predicted, mostly well, as such states last, and then nothing waits for it; if it is mispredicted half of the time, as
that of a random walk, half of the cycle's time is less than the whole if it is longer than a misprediction.

Floats are chosen so too if the condition takes longer than what it chooses, as whether a sampler takes on a proposal;
and the place of the least so far (``if a[i] < a[best]: best = i``), which is rarely replaced, where ``loop_pre`` does
not carry the element.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.dominance import Dominators, strongly_connected
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import EXPENSIVE, OPS, ORDERS
from ...ir.types import Scalar, is_float
from ..analysis.affine import through_memory
from ..analysis.branches import Arms, arms_of
from ..analysis.cfg import Mapping, set_term, substitute
from ..analysis.loops import Loop

SLOW = 16
"""The least time of the float operations on a cycle, in clock cycles: about that of a misprediction."""
SIMPLE = 4
"""The time of a sum, a product or a cast."""


def branch_on_feedback(func: Function, loop: Loop, dom: Dominators) -> bool:
    """Make branches of the choices of an innermost loop that are on slow cycles, and mark those that are branches.

    Returns True if there are any.
    """
    sides = arms_of(loop, dom)
    if not sides and not any(op.name == "select" for b in loop.blocks for op in b.ops):
        return False
    late = _Late(loop, dom, _slow_cycles(loop, dom))
    for arms in sides:
        _mark(arms, late)
    mapping: Mapping = {}
    todo = [b for b in func.blocks if b in loop.blocks]
    while todo:
        block = todo.pop()
        chosen = next((op for op in block.ops
                       if op.name == "select" and (late.decides(op.operands[0], op.result, op.operands[1:])
                                                   or _is_place_of_extreme(op, loop))), None)
        if chosen is not None:
            todo.append(_split(func, loop, block, chosen, mapping))
    substitute(func, mapping)
    return bool(mapping)


def _slow_cycles(loop: Loop, dom: Dominators) -> dict[Value, int]:
    """The scalars on slow cycles through what the loop carries, each with the number of its cycle."""
    blocks = dom.in_order(loop.blocks)
    following: dict[Value, list[Value]] = {v: [] for b in blocks for v in b.params}
    following |= {v: [] for b in blocks for op in b.ops for v in op.results}
    for b in blocks:
        for op in b.ops:
            for v in op.operands:
                if v in following and isinstance(v.type, Scalar):
                    following[v] += [r for r in op.results if isinstance(r.type, Scalar)]
        for e in b.term.edges if b.term is not None else ():
            for p, a in e.passed():
                if a in following and p in following and isinstance(p.type, Scalar):
                    following[a].append(p)
        for condition in _conditions(loop, b, dom) if b is not loop.head else ():
            if condition in following:
                following[condition] += [p for p in b.params if isinstance(p.type, Scalar)]
    for value, result in through_memory(loop, blocks, lambda v: isinstance(v.type, Scalar)):
        if value in following:
            following[value].append(result)
    cycles = [c for c in strongly_connected(following, following) if len(c) > 1 and _time(c) >= SLOW]
    return {v: i for i, cycle in enumerate(cycles) for v in cycle}


def _conditions(loop: Loop, join: Block, dom: Dominators) -> list[Value]:
    """The conditions of the branches on the ways from where control parts to a block where it meets."""
    found, top = [], dom.idom[join]
    for block in dom.preds[join] if len(dom.preds[join]) > 1 else ():
        way: Block | None = block
        while way is not None and way in loop.blocks:
            if way.term is not None and way.term.name == "branch":
                found.append(way.term.operands[0])
            way = dom.idom[way] if way is not top else None
    return found


def _time(cycle: list[Value]) -> int:
    return sum(_time_of(v.op) for v in cycle if v.op is not None)


def _time_of(op: Op) -> int:
    if not OPS[op.name].elementwise or not is_float(op.result.type) or op.name == "select":
        return 0
    return SLOW if OPS[op.name].cost >= EXPENSIVE else SIMPLE


class _Late:
    """The conditions that come later than what they choose.

    ``cycle``: the number of the slow cycle of each value on one.  ``time``: when it is known in an iteration.
    """

    def __init__(self, loop: Loop, dom: Dominators, cycle: dict[Value, int]) -> None:
        self.cycle, self.time = cycle, dict.fromkeys(loop.head.params, 0)
        for b in dom.in_order(loop.blocks):
            for op in b.ops:
                for v in op.results if any(isinstance(r.type, Scalar) for r in op.results) else ():
                    self.time[v] = _time_of(op) + max((self.time.get(x, 0) for x in op.operands), default=0)
            for e in b.term.edges if b.term is not None and loop.head not in b.successors() else ():
                for p, a in e.passed():
                    self.time[p] = max(self.time.get(p, 0), self.time.get(a, 0))

    def decides(self, condition: Value, chosen: Value, sides: Sequence[Value]) -> bool:
        """True if a number is chosen on the same slow cycle on which the condition is, later than the sides if floats.
        """
        if not isinstance(chosen.type, Scalar) or condition not in self.cycle or \
                self.cycle[condition] != self.cycle.get(chosen):
            return False
        time = self.time
        return chosen.type.is_int or time.get(condition, 0) - max(time.get(v, 0) for v in sides) >= SLOW


def _is_place_of_extreme(select: Op, loop: Loop) -> bool:
    """True if a carried index is replaced by another one where the elements at both compare so.

    A merge of sorted parts compares so too, but goes on behind the smaller element: either side is as frequent.
    """
    test, *sides = select.operands
    order = test.op
    if order is None or order.name not in ORDERS:
        return False
    back = (e for b in loop.blocks if b.term is not None for e in b.term.edges if e.block is loop.head)
    if not any(p in sides and a is select.result for e in back for p, a in e.passed()):
        return False
    x, y = (v.op for v in order.operands)
    return x is not None and y is not None and x.name == y.name == "get" and len(x.operands) == 2 and \
        x.operands[0] is y.operands[0] and {x.operands[1], y.operands[1]} == set(sides) and len(set(sides)) == 2


def _mark(arms: Arms, late: _Late) -> None:
    """Mark a branch that chooses; the first side is the one that changes what the other keeps."""
    term = arms.head.term
    assert term is not None
    sides = zip(arms.join.params, *(e.args for e in arms.sides))
    chosen = [(x, y) for p, x, y in sides if late.decides(term.operands[0], p, (x, y))]
    if not chosen or term.attrs.get("rare"):
        return
    if _keeps(arms.loop, *chosen[0]):
        negated = Op("not", term.operands, [term.operands[0].type], loc=term.loc)
        negated.block = arms.head
        arms.head.ops.append(negated)
        term.operands, term.edges = [negated.result], term.edges[::-1]
    term.attrs["rare"] = True


def _keeps(loop: Loop, x: Value, y: Value) -> bool:
    """True if ``x`` is carried, or ``y`` is computed from it."""
    return x.owner is loop.head and y.owner is not loop.head or y.op is not None and x in y.op.operands


def _split(func: Function, loop: Loop, block: Block, chosen: Op, mapping: Mapping) -> Block:
    """Make a branch of a selection, and of those with the same condition; returns the block that follows."""
    at, condition = block.ops.index(chosen), chosen.operands[0]
    later = {v for op in block.ops[at:] for v in op.results}
    together = [op for op in block.ops[at:] if op.name == "select" and op.operands[0] is condition
                and isinstance(op.result.type, Scalar) and later.isdisjoint(op.operands)]
    update, keep = func.new_block("update"), func.new_block("keep")
    mapping.update((op.result, keep.add_param(op.result.type, op.result.hint)) for op in together)
    keep.term, keep.ops = block.term, [op for op in block.ops[at:] if op not in together]
    for op in keep.all_ops():
        op.block = keep
    block.ops, block.term = block.ops[:at], None
    new, kept = ([op.operands[i] for op in together] for i in (1, 2))
    if _keeps(loop, *chosen.operands[1:]):
        condition, new, kept = Builder(block, chosen.loc).emit("not", condition), kept, new
    set_term(update, "jump", edges=[Edge(keep, new)])
    set_term(block, "branch", [condition], [Edge(update, []), Edge(keep, kept)])
    assert block.term is not None
    block.term.loc, block.term.attrs["rare"] = chosen.loc, True
    return keep
