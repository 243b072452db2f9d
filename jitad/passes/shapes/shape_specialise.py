"""Puts sizes that checks establish into types: after ``check(eq(dim(a), 3))``, ``a`` has the type ``f64[3]``.

Suppose that a loop adds arrays of three elements to a state that comes from outside.  The state has an unknown size
when the loop begins, and three elements after the first iteration.  The pass tests the size before the loop, so that
the state has three elements throughout and can be split (``array_sroa``).  If the size is another, the check fails in
the first iteration: the ops before the check are executed, and the exception is raised::

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
from ...ir.types import I64, Array, dims_of
from ..analysis.cfg import append, remove_unreachable, set_term
from ..analysis.loops import Loop, loop_forest
from ..analysis.sizes import Size, Solver
from .shape_inference import retype

MOST = 16
"""The largest size that is put into a type: ``array_sroa`` splits arrays of up to 16 elements."""
MOST_BEFORE = 200
"""The most ops before a check in its block, which are copied if the check is tested before the loop."""
MOST_FACTS = 16
"""The most facts that are used in one function: each takes time linear in the function's size."""


def shape_specialise(module: Module) -> bool:
    """Use the facts that checks establish, in every function; returns True if any type has changed."""
    changed = False
    for func in module.functions.values():                # values on stacks keep their types
        ops = [op for b in func.blocks for op in b.ops]
        if any(op.name == "push" for op in ops):
            continue
        found = any(map(_is_of_literal_size, ops))
        if any(op.name == "check" and _facts(op) for op in ops):
            left = [MOST_FACTS]
            found |= any([_before_loops(func, left), _after_checks(func, left)])
        if found:
            retype(module, func)
            changed = True
    return changed


def _is_of_literal_size(op: Op) -> bool:
    """True for a slice whose length has become a literal since it was typed, as that of a window within the array."""
    return op.name == "slice" and any(n.const is not None and size is None
                                      for n, size in zip(op.operands[2::3], dims_of(op.result.type)))


def end_at_failures(module: Module) -> bool:
    """End blocks by a raise at checks that always fail; returns True if there were any.

    Ops after such a check may have operands whose sizes do not agree, which type rules refuse.
    """
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


def equalities(op: Op) -> Iterator[tuple[Value, Value]]:
    """The pairs of integers whose equality a check tests; a constant comes second."""
    todo = list(op.operands[:1]) if op.name == "check" else []
    while todo:
        test = todo.pop().op
        if test is not None and test.name == "and":
            todo += test.operands
        elif test is not None and test.name == "eq" and test.operands[0].type is I64:
            x, y = test.operands
            yield (y, x) if x.const is not None else (x, y)


def _facts(op: Op) -> list[tuple[Value, int]]:
    """Pairs (integer, constant) that a check establishes to be equal, for constants that are worth a type."""
    return [(x, y.const) for x, y in equalities(op) if x.const is None and y.const is not None and 1 < y.const <= MOST]


# --- equal sizes ----------------------------------------------------------------------------------

class _Sizes:
    """Canonical sizes (``size_numbering.Solver``), and the equalities that checks establish."""

    def __init__(self, func: Function) -> None:
        self.forest = loop_forest(func)
        self.dom = self.forest.dom
        self.solver = Solver(func)
        self.equal: list[tuple[Block, Size, Size]] = []
        for b in self.dom.order:
            self.equal += [(b, self.of(x), self.of(y)) for op in b.ops for x, y in equalities(op)]

    def of(self, n: Value) -> Size:
        """The canonical size of an i64 value."""
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
        """The sizes that equal ``size`` in ``block``, by checks in blocks that strictly dominate it."""
        found = {size}
        pairs = [{x, y} for b, x, y in self.equal if b is not block and self.dom.dominates(b, block)]
        while grown := [p for p in pairs if p & found and p - found]:
            found.update(*grown)
        return found


# --- before loops ---------------------------------------------------------------------------------

def _before_loops(func: Function, left: list[int]) -> bool:
    """Test before each loop the facts that its first iteration would check; returns True if any type has changed."""
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
                known = _test_before(loop, check, *found)
                same = sizes.same(sizes.of(found[0]), loop.head)
                blocks = [known, *_below(loop.head, loop.parent, sizes)]
                changed |= _learn(_Point(known, 0, blocks, loop.head, above), found[1], same, sizes)
    return changed


def _on_entry(loop: Loop, n: Value, number: int, sizes: _Sizes) -> tuple[Value, int] | None:
    """Pair (size before the loop, constant) if ``n`` is checked to be ``number``, and helps to type a carried array.

    That array has the size before the loop, and the known size ``number`` on the back edge.
    """
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


def _test_before(loop: Loop, check: Op, size: Value, number: int) -> Block:
    """Branch before the loop on whether ``check`` will hold; returns the loop's new preheader."""
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


# --- after checks ---------------------------------------------------------------------------------

def _after_checks(func: Function, left: list[int]) -> bool:
    """Use the facts of each check in the code that it dominates; returns True if any type has changed."""
    sizes = _Sizes(func)
    changed = False
    for block in sizes.dom.preorder():
        for check, (n, number) in [(op, fact) for op in block.ops for fact in _facts(op)]:
            if left[0]:
                left[0] -= 1
                same = {n, *sizes.same(sizes.of(n), block)}
                blocks = [block, *(b for b in _below(block, sizes.forest.loop_of(block), sizes) if b is not block)]
                point = _Point(block, block.ops.index(check) + 1, blocks, block)
                changed |= _learn(point, number, same, sizes)
    return changed


def _below(block: Block, loop: Loop | None, sizes: _Sizes) -> list[Block]:
    """The blocks of ``loop`` (of the function, if ``None``) that ``block`` dominates, itself included."""
    return [b for b in sizes.dom.order if sizes.dom.dominates(block, b) and (loop is None or b in loop.blocks)]


@dataclass(frozen=True)
class _Point:
    """The point from which a fact holds: ``position`` in ``block``, the first of ``blocks``, and all of the others.

    If ``block`` was made before a loop, ``home`` is the loop's head and ``above`` the predecessor of ``block``; neither
    ``block`` nor ``above`` need be in the dominator tree.  Otherwise ``home`` is ``block``.
    """

    block: Block
    position: int
    blocks: list[Block]
    home: Block
    above: Block | None = None

    def sees(self, v: Value, sizes: _Sizes) -> bool:
        """True if ``v`` is defined before this point."""
        if v.block is self.home:
            return self.block is self.home and (v.op is None or v.op in self.block.ops[:self.position])
        return v.block is self.above or v.block in sizes.dom.number and sizes.dom.dominates(v.block, self.home)


def _learn(point: _Point, number: int, same: set[Size], sizes: _Sizes) -> bool:
    """Give arrays with one of the sizes ``same`` the size ``number`` in their types, from ``point`` on.

    Returns True if there are any.
    """
    first, *others = point.blocks
    ops, term = first.ops[point.position:], first.term
    assert term is not None
    users = [*ops, term, *(op for b in others for op in b.all_ops())]
    values = dict.fromkeys(v for op in users for v in op.used())
    known: dict[Value, Value] = {}
    b = Builder(first, term.loc)
    del first.ops[point.position:]
    for v in values:
        t = v.type
        if isinstance(t, Array) and None in t.dims and point.sees(v, sizes):
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
