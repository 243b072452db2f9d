"""Makes a version of innermost loops for arrays of equal lengths, which are read at the same indices.

Each access of ``x[j] - y[j]`` with an index that is data has a check with the size of its own array, and a negative
index counts from its own end.  If the sizes are equal, one check serves for all.  They are compared before the loop,
and loop-invariant conditions are tested there, as of the number of a row::

    ^preheader:                          ^preheader:
      jump ^loop                           branch (n == m), ^fast, ^checked
    ^loop:                     becomes   ^fast:     the loop with n in place of m, and without what it repeats
      check j < n; check j < m           ^checked:  the original loop

The original loop is not cold: the sizes may always differ, as those of arrays with one element for each interval and
one for each end.  The nodes of a tree with an array for each attribute, and particles with one for each coordinate, are
arrays of equal lengths.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.expression_keys import key
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ..analysis.affine import unwrapped
from ..analysis.cfg import is_pure, own_exit, set_term
from ..analysis.loops import Loop, LoopForest, loop_forest
from ..analysis.sizes import Solver

LARGEST = 150
"""The most ops of a loop that is copied."""
MOST = 6
"""The most comparisons before a loop."""


def equal_lengths(module: Module) -> bool:
    """Give every innermost loop with such indices a second version; expects normal form."""
    changed = False
    for func in module.functions.values():
        if any(op.name == "dim" for op in func.all_ops()):
            forest = loop_forest(func)
            unclosed = forest.open_loops()
            for loop in forest.loops:
                changed |= not loop.children and loop not in unclosed and _try(func, forest, loop)
    return changed


def _try(func: Function, forest: LoopForest, loop: Loop) -> bool:
    term = loop.latch.term if loop.latch is not None else None
    if term is None or term.attrs.get("cold") or loop.preheader is None or loop.exit is None or \
            sum(len(b.ops) for b in loop.blocks) > LARGEST:
        return False
    order = forest.dom.in_order(loop.blocks)
    same = _same_sizes(loop, order)
    if not 0 < len(same) <= MOST:
        return False
    invariant = dict.fromkeys(op.operands[0] for b in order for op in b.ops
                              if op.name == "check" and op.operands[0].block not in loop.blocks)
    _split(func, forest, loop, order, same, list(invariant))
    return True


def _same_sizes(loop: Loop, order: list[Block]) -> dict[Value, Value]:
    """For sizes that one index of the loop is compared with, or counted from, the one that takes their place.

    The size that the next value of a carried index is checked with comes first: it was before the loop was entered.
    """
    carried = {a: p for p, a in loop.back_edge().passed() if a.block in loop.blocks}
    pairs = [found for b in order for op in b.ops if (found := _compared(op)) is not None]
    sizes: dict[Value, dict[Value, None]] = {}
    for index, size in sorted(pairs, key=lambda pair: pair[0] not in carried):
        if index.block in loop.blocks and index.const is None and size.block not in loop.blocks:
            sizes.setdefault(carried.get(index, index), {})[size] = None
    same: dict[Value, Value] = {}
    for first, *others in sizes.values():
        for size in others:
            a, b = _last(same, first), _last(same, size)
            if a is not b:
                same[b] = a
    return {size: _last(same, size) for size in same}


def _compared(op: Op) -> tuple[Value, Value] | None:
    """The index and the size if ``op`` compares them, or counts a negative index from the end."""
    if op.name == "select":
        return _wrapped(op)
    if op.name != "lt" or not _is_size(op.operands[1]):
        return None
    index, size = op.operands
    wrapped = _wrapped(index.op) if index.op is not None and index.op.name == "select" else None
    return wrapped if wrapped is not None and wrapped[1] is size else (index, size)


def _last(found: dict[Value, Value], v: Value) -> Value:
    while v in found:
        v = found[v]
    return v


def _wrapped(select: Op) -> tuple[Value, Value] | None:
    """The index and the size in ``select(i < 0, i + n, i)``, else None."""
    there, moved = unwrapped(select.result), select.operands[1].op
    if there is select.result or moved is None or moved.name != "add" or there not in moved.operands:
        return None
    size = moved.operands[1] if moved.operands[0] is there else moved.operands[0]
    return (there, size) if _is_size(size) else None


def _is_size(v: Value) -> bool:
    return v.op is not None and v.op.name == "dim"


def _split(func: Function, forest: LoopForest, loop: Loop, order: list[Block], same: dict[Value, Value],
           invariant: list[Value]) -> None:
    preheader, latch, leave = loop.preheader, loop.latch, loop.exit
    assert preheader is not None and latch is not None and leave is not None
    blocks = clone_blocks(order, func, dict(same))
    _mark(func, loop, blocks, _unrepeat(forest, loop, blocks, invariant))
    args = list(loop.entry_edge().args)
    fast, slow = func.new_block("fast"), func.new_block("checked")
    set_term(fast, "jump", edges=[Edge(blocks[loop.head], list(args))])
    set_term(slow, "jump", edges=[Edge(loop.head, args)])
    term, preheader.term = preheader.term, None
    b = Builder(preheader, term.loc if term is not None else func.loc)
    holds = b.const(True)
    for size, other in same.items():
        holds = b.and_(holds, b.eq(size, other))
    for condition in invariant:
        holds = b.and_(holds, condition)
    b.branch(holds, fast, [], slow, [])
    for end in (latch, blocks[latch]):
        own_exit(func, end, leave)


def _unrepeat(forest: LoopForest, loop: Loop, blocks: dict[Block, Block], fine: list[Value]) -> set[Value]:
    """Remove scalar ops, and checks, that the copy of a loop repeats; the conditions ``fine`` hold.

    Returns the conditions, of the original loop, that hold wherever the control flow of an iteration leads: those that
    are tested before the loop, or checked in its head.  A check on one side of a branch says nothing of the other.
    """
    seen: dict[Hashable, list[tuple[Block, Op]]] = {}
    replaced: dict[Value, Value] = {}
    everywhere: set[Value] = set()
    for old, new in blocks.items():
        kept = []
        for original, op in zip(old.ops, new.ops):
            op.replace_uses(replaced)
            known = (op.name, op.operands[0]) if op.name == "check" else key(op)
            home, before = next((x for x in seen.get(known, ()) if forest.dom.dominates(x[0], old)), (None, None))
            if op.name == "check" and (before is not None or op.operands[0] in fine):
                if home in (None, loop.head):
                    everywhere.add(original.operands[0])
            elif before is not None and _is_scalar(op):
                replaced.update(zip(op.results, before.results))
            else:
                seen.setdefault(known, []).append((old, op))
                kept.append(op)
        new.ops = kept
    for new in blocks.values():
        for op in new.all_ops():
            op.replace_uses(replaced)
    return everywhere


def _is_scalar(op: Op) -> bool:
    return is_pure(op) and OPS[op.name].elementwise and isinstance(op.result.type, Scalar)


def _mark(func: Function, loop: Loop, blocks: dict[Block, Block], everywhere: set[Value]) -> None:
    """Mark loads on sides of branches along the axes whose index is in bounds in any case (``branch_accesses``)."""
    limits: dict[Value, list[Value]] = {}
    todo = list(everywhere)
    while todo:
        op = todo.pop().op
        if op is not None and op.name == "and":
            todo += op.operands
        elif op is not None and op.name == "lt" and _is_size(op.operands[1]):
            limits.setdefault(op.operands[0], []).append(op.operands[1])
    solver = Solver(func)
    for old, new in blocks.items():
        loads = ([op for op in b.ops if op.name == "get"] for b in (old, new))
        for load, twin in zip(*loads, strict=True):
            axes = tuple(axis for axis, v in enumerate(load.operands[1:]) if any(
                size.op is not None and solver.size((load.operands[0], axis))
                == solver.size((size.op.operands[0], size.op.attrs["axis"])) for size in limits.get(v, ())))
            if axes and old is not loop.head:
                twin.attrs = {**twin.attrs, "inside": axes}
