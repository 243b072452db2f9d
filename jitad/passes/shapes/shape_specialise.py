"""Lets types say what checks have found out: after ``check(eq(dim(a), 3))``, ``a`` is an array of three.

A state that comes from outside, to which a loop adds arrays of three elements, has any size when the loop begins and
three from then on.  Whether it has is asked before the loop, so that it is an array of three all the time and may be
taken apart (``scalars.py``).  Where it has another size, the check is bound to fail in the first iteration: what comes
before it is run, and the error raised::

    ^preheader:                          ^preheader:
      jump ^loop(%s)                       branch (dim(%s) == 3), ^known, ^fails
                               becomes   ^known:
    ^loop(%s: f64[?]):                     jump ^loop(as_type %s: f64[3])
      …                                  ^fails:
      check eq(dim(%s), 3)                 …
      jump ^loop(%t: f64[3])               raise
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, Array
from ..analysis.cfg import append, remove_unreachable, set_term
from ..analysis.loops import Loop, loop_forest
from .shape_inference import retype
from .size_numbering import Size, Solver

MOST = 16
"""Larger sizes are of no use in a type."""
MOST_BEFORE = 200
"""A check with more ops before it in its block is not asked before the loop: they are copied."""
MOST_FACTS = 16
"""So many are used in a function at most: each looks at all of it."""


def shape_specialise(module: Module) -> bool:
    """Use what the checks of every function say; whether there was any use of it."""
    changed = False
    for func in module.functions.values():                # (what is on stacks keeps its types)
        names = {op.name for b in func.blocks for op in b.ops}
        if "push" not in names and any(op.name == "check" and _facts(op) for b in func.blocks for op in b.ops):
            left = [MOST_FACTS]
            if any([_before_loops(func, left), _behind_checks(func, left)]):
                retype(module, func)
                changed = True
    return changed


def end_at_failures(module: Module) -> bool:
    """Let blocks end at checks that are bound to fail; whether any does.  What is behind such a check works on sizes
    that do not agree, which no rule for an op foresees."""
    changed = False
    for func in module.functions.values():
        failing = [(b, op) for b in func.blocks for op in b.ops if op.name == "check" and op.operands[0].const is False]
        for block, check in reversed(failing):
            del block.ops[block.ops.index(check):]
            block.term = None
            Builder(block, check.loc).raise_(check.attrs["exc"], check.operands[1:])
        if failing:
            remove_unreachable(func)
            changed = True
    return changed


def _equal(op: Op) -> Iterator[tuple[Value, Value]]:
    """The pairs of integers that a check finds to be equal."""
    todo = list(op.operands[:1]) if op.name == "check" else []
    while todo:
        test = todo.pop().op
        if test is not None and test.name == "and":
            todo += test.operands
        elif test is not None and test.name == "eq" and test.operands[0].type is I64:
            x, y = test.operands
            yield (y, x) if x.const is not None else (x, y)


def _facts(op: Op) -> list[tuple[Value, int]]:
    """(an integer that is not known, the constant that it is) where a check says so."""
    return [(x, y.const) for x, y in _equal(op) if x.const is None and y.const is not None and 1 < y.const <= MOST]


# --- sizes, by what they are the sizes of ---------------------------------------------------------

class _Sizes:
    """What sizes are, and which the checks in the blocks above a place have found to be equal."""

    def __init__(self, func: Function) -> None:
        self.forest = loop_forest(func)
        self.dom = self.forest.dom
        self.solver = Solver(func)
        self.equal: list[tuple[Block, Size, Size]] = []
        for b in self.dom.order:
            self.equal += [(b, self.of(x), self.of(y)) for op in b.ops for x, y in _equal(op)]

    def of(self, n: Value) -> Size:
        """The size that a value is."""
        if n.const is not None:
            return int(n.const)
        if n.op is None or n.op.name != "dim":
            return n
        found = self.solver.size((n.op.operands[0], n.op.attrs["axis"]))
        return self.of(found) if isinstance(found, Value) else found

    def axis(self, a: Value, axis: int) -> Size:
        found = self.solver.size((a, axis))
        return self.of(found) if isinstance(found, Value) else found

    def same(self, size: Size, block: Block) -> set[Size]:
        """All that is equal to ``size`` in ``block``, by the checks of the blocks above."""
        found = {size}
        pairs = [{x, y} for b, x, y in self.equal if b is not block and self.dom.dominates(b, block)]
        while grown := [p for p in pairs if p & found and p - found]:
            found.update(*grown)
        return found


# --- before loops ---------------------------------------------------------------------------------

def _before_loops(func: Function, left: list[int]) -> bool:
    """Ask before a loop what its first iteration would; whether there was anything to ask."""
    sizes = _Sizes(func)
    changed = False
    for loop in reversed(sizes.forest.loops):
        if loop.preheader is None or loop.latch is None:
            continue
        for check, fact in [(op, fact) for op in loop.head.ops for fact in _facts(op)]:
            found = _on_entry(loop, *fact, sizes) if left[0] else None
            if found is not None and loop.head.ops.index(check) <= MOST_BEFORE:
                left[0] -= 1
                above = loop.preheader
                known = _ask(loop, check, *found)
                same = sizes.same(sizes.of(found[0]), loop.head)
                blocks = [known, *_below(loop.head, loop.parent, sizes)]
                changed |= _learn(_Place(known, 0, blocks, loop.head, above), found[1], same, sizes)
    return changed


def _on_entry(loop: Loop, n: Value, number: int, sizes: _Sizes) -> tuple[Value, int] | None:
    """(a size before the loop, what it has to be), where an array has it that comes back with the size known."""
    enter, back = loop.entry_edge(), loop.back_edge()
    first = enter.argument(n) if n.owner is loop.head else None
    if first is None or first.const is not None:
        return None
    same = sizes.same(sizes.of(first), loop.head)
    for p in loop.head.params:
        before, after = enter.argument(p), back.argument(p)
        if isinstance(p.type, Array) and before is not None and after is not None:
            for axis, dim in enumerate(p.type.dims):
                if dim is None and sizes.axis(before, axis) in same and sizes.axis(after, axis) == number:
                    return first, number
    return None


def _ask(loop: Loop, check: Op, size: Value, number: int) -> Block:
    """Branch before the loop on whether ``check`` will hold; the block from which the loop is then entered."""
    before, func, enter = loop.preheader, loop.head.func, loop.entry_edge()
    assert before is not None
    known, fails = func.new_block("known"), func.new_block("fails")
    holds = Builder(before, check.loc).eq(size, number)
    set_term(before, "branch", [holds], [Edge(known), Edge(fails)])
    set_term(known, "jump", [], [enter])
    values = dict(zip(loop.head.params, enter.args))
    for op in loop.head.ops[:loop.head.ops.index(check)]:
        append(fails, clone_op(op, values))
    Builder(fails, check.loc).raise_(check.attrs["exc"], [values.get(v, v) for v in check.operands[1:]])
    loop.preheader = known
    return known


# --- behind checks --------------------------------------------------------------------------------

def _behind_checks(func: Function, left: list[int]) -> bool:
    """Use each check's fact where it is bound to have passed; whether an array has got its size by that."""
    sizes = _Sizes(func)
    changed = False
    for block in sizes.dom.preorder():
        for check, (n, number) in [(op, fact) for op in block.ops for fact in _facts(op)]:
            if left[0]:
                left[0] -= 1
                same = {n, *sizes.same(sizes.of(n), block)}
                blocks = [block, *(b for b in _below(block, sizes.forest.loop_of(block), sizes) if b is not block)]
                place = _Place(block, block.ops.index(check) + 1, blocks, block)
                changed |= _learn(place, number, same, sizes)
    return changed


def _below(block: Block, loop: Loop | None, sizes: _Sizes) -> list[Block]:
    """The blocks that ``block`` dominates, itself included, inside ``loop``."""
    return [b for b in sizes.dom.order if sizes.dom.dominates(block, b) and (loop is None or b in loop.blocks)]


@dataclass(frozen=True)
class _Place:
    """A position in a block, from which on something is known, there and in all of ``blocks``, whose first it is.
    ``home``: the block itself, or the loop's head that is behind it when it has been made for the loop; ``above``: then
    the block before it, which may be as new."""

    block: Block
    position: int
    blocks: list[Block]
    home: Block
    above: Block | None = None

    def sees(self, v: Value, sizes: _Sizes) -> bool:
        """Whether ``v`` is there already."""
        if v.block is self.home:
            return self.block is self.home and (v.op is None or v.op in self.block.ops[:self.position])
        return v.block is self.above or v.block in sizes.dom.number and sizes.dom.dominates(v.block, self.home)


def _learn(place: _Place, number: int, same: set[Size], sizes: _Sizes) -> bool:
    """Let arrays that have one of these sizes have ``number`` in their types from a place on; whether there are any."""
    first, *others = place.blocks
    ops, term = first.ops[place.position:], first.term
    assert term is not None
    users = [*ops, term, *(op for b in others for op in b.all_ops())]
    values = dict.fromkeys(v for op in users for v in op.used())
    known: dict[Value, Value] = {}
    b = Builder(first, term.loc)
    del first.ops[place.position:]
    for v in values:
        t = v.type
        if isinstance(t, Array) and None in t.dims and place.sees(v, sizes):
            dims = tuple(number if d is None and sizes.axis(v, k) in same else d for k, d in enumerate(t.dims))
            if dims != t.dims:
                known[v] = b.as_type(v, type=Array(t.dtype, dims))
    if known:
        constant = b.const(number)
        known |= {v: constant for v in values if v.type is I64 and v.const is None and sizes.of(v) in same}
        for op in users:
            op.replace_uses(known)
    first.ops += ops
    return bool(known)
