"""Invariant tables: what an inner loop computes alike in each iteration of a loop around it is computed once, ahead.

::

    for t in range(steps):                              for j in range(n):
        for j in range(n):                                  c[j] = x[j] / (k[j] + dt)
            q = q * (x[j] / (k[j] + dt)) + …     →      for t in range(steps):
                                                            for j in range(n):
                                                                q = q * c[j] + …

The coefficients of the reaches of a river and the roots of unity of a transform are such.  ``licm`` moves what does not
depend on ``j`` either.  The derivative saves nothing for what is in a table: its cotangents are summed up, and go
through the formula once.

A table is worth its memory for a division, or more.  It is read behind an access to ``a[start + j]``, so it is no
longer than that axis: until there a check may have ended the loop.  (It is twice as long if a negative index is
wrapped.)  So numbers may be computed ahead.  Elements are read ahead only if the first iteration of the outer loop
reads them in any case: if nothing may raise before, and nothing but the trip counts decides whether the inner loop
runs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Array, Scalar, is_float
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import set_term
from ..analysis.cost import op_cost
from ..analysis.loops import Counted, Loop, counted, loop_forest
from ..analysis.sizes import Size, Solver

MOST = 6
"""The most tables of a loop."""
FEWEST = 4
"""The least constant trip count of the loop around."""
INTEGERS = frozenset("add sub mul minimum maximum lt le gt ge eq ne and or not select".split())
"""Ops of integers and truths that cannot fail."""


@dataclass(frozen=True)
class Access:
    """``op``, in ``block``, accesses an element of its own in each iteration; there are at most ``times`` the ``size``
    of an axis."""

    op: Op
    block: Block
    size: Size
    times: int


@dataclass(frozen=True)
class Tables:
    """``ops`` are alike in each iteration of ``outer``, which enters the inner loop if the ``guards`` hold; of these,
    ``kept`` are stored, and read behind the ``access``."""

    loop: Loop
    outer: Loop
    known: Counted
    access: Access
    guards: list[Value]
    ops: list[Op]
    kept: list[Value]


def invariant_tables(module: Module) -> bool:
    """Make the tables of each function; expects normal form.  Returns True if there are any."""
    return any([_make(func) for func in module.functions.values()])


def _make(func: Function) -> bool:
    filling: set[Block] = set()
    while True:
        forest = loop_forest(func)
        loops = [loop for loop in forest.loops if loop.parent is not None and not loop.children
                 and loop.head not in filling and any(op_cost(op) >= EXPENSIVE for b in loop.blocks for op in b.ops)]
        solver = Solver(func) if loops else None
        found = next((t for loop in loops if solver and (t := _find(loop, forest.dom, solver))), None)
        if found is None:
            return bool(filling)
        filling.add(_emit(func, found))


def _find(loop: Loop, dom: Dominators, solver: Solver) -> Tables | None:
    """The tables of an innermost loop, ahead of the outermost loop where there are any."""
    known = counted(loop) if loop.exit is not None else None
    if known is None or known.trip.const is not None:
        return None
    for outer in reversed(list(_around(loop))):
        guards = _guards(loop, outer, dom)
        if guards is None or known.trip.block in outer.blocks or _is_short(outer):
            continue
        access = _access(loop, outer, known.iv, dom, solver)
        ops = _alike(loop, outer, known.iv, dom, _comes_first(loop, outer, dom)) if access is not None else []
        kept = _kept(loop, ops, access, dom) if access is not None else []
        if access is not None and 0 < len(kept) <= MOST:
            return Tables(loop, outer, known, access, guards, ops, kept)
    return None


def _around(loop: Loop) -> Iterator[Loop]:
    while loop.parent is not None:
        loop = loop.parent
        yield loop


def _is_short(loop: Loop) -> bool:
    known = counted(loop)
    return known is not None and known.trip.const is not None and known.trip.const < FEWEST


def _guards(loop: Loop, outer: Loop, dom: Dominators) -> list[Value] | None:
    """The tests from ahead of ``outer`` under which its iterations enter ``loop``; ``None`` if others decide."""
    guards = []
    while loop is not outer:
        preheader, parent = loop.preheader, loop.parent
        if preheader is None or parent is None or parent.latch is None or parent.preheader is None or \
                parent.exit is None:
            return None
        if not dom.dominates(preheader, parent.latch):
            known, (test, *others) = counted(loop), dom.preds[preheader]
            if known is None or others or test.term is None or test.term.name != "branch" or \
                    not dom.dominates(test, parent.latch) or test.term.edges[0].block is not preheader:
                return None
            holds = test.term.operands[0]
            if holds.block in outer.blocks or not _is_of_trip(holds, known):
                return None
            guards.append(holds)
        loop = parent
    return guards


def _is_of_trip(holds: Value, known: Counted) -> bool:
    op = holds.op
    return op is not None and op.name == "lt" and op.operands[0].const == 0 and op.operands[1] is known.trip


def _access(loop: Loop, outer: Loop, iv: Value, dom: Dominators, solver: Solver) -> Access | None:
    """The first access that each iteration makes, along an axis with a size that is known ahead of ``outer``."""
    assert loop.latch is not None
    forms = AffineForms()
    for block in dom.in_order(loop.blocks):
        for op in block.ops if dom.dominates(block, loop.latch) else ():
            for axis, index in enumerate(op.operands[OPS[op.name].indices:] if op.name in ("get", "set") else ()):
                chosen = index.op.operands[1:] if index.op is not None and index.op.name == "select" else [index]
                if all(_is_along(forms.of(x), loop, iv) for x in chosen):
                    size = solver.size((op.operands[0], axis))
                    if isinstance(size, int) or (size.block not in outer.blocks if isinstance(size, Value)
                                                 else size[0].owner is block.func.entry):
                        return Access(op, block, size, len(chosen))
    return None


def _is_along(index: Affine, loop: Loop, iv: Value) -> bool:
    return index.coefficient(iv) in (1, -1) and all(v.block not in loop.blocks for v, _ in index.without(iv).terms)


def _comes_first(loop: Loop, outer: Loop, dom: Dominators) -> bool:
    """True if nothing in an iteration of ``outer`` may raise, or not end, before ``loop`` is behind."""
    before, todo = set(loop.blocks), [loop.head]
    while todo:
        block = todo.pop()
        for source in dom.preds[block] if block is not outer.head else ():
            if source not in before:
                before.add(source)
                todo.append(source)
    ends = all(counted(other) is not None or loop.blocks <= other.blocks or other.head not in before
               for other in _within(outer))
    return ends and not any(
        b.term is None or b.term.name not in ("jump", "branch") or any(op.name == "check" for op in b.ops)
        or not outer.blocks.issuperset(b.successors()) for b in before)


def _within(loop: Loop) -> Iterator[Loop]:
    for inner in loop.children:
        yield inner
        yield from _within(inner)


def _alike(loop: Loop, outer: Loop, iv: Value, dom: Dominators, reads: bool) -> list[Op]:
    """The ops of ``loop`` that depend on its counter and on values from outside of ``outer`` alone, in order."""
    assert loop.latch is not None
    found: dict[Value, Op] = {}
    for block in dom.in_order(loop.blocks):
        always = reads and dom.dominates(block, loop.latch)
        for op in block.ops:
            if len(op.results) == 1 and isinstance(op.results[0].type, Scalar) and \
                    (_is_free(op) or always and op.name in ("get", "dim", "cast")) and \
                    all(v is iv or v in found or v.block not in outer.blocks for v in op.operands):
                found[op.results[0]] = op
    return list(found.values())


def _is_free(op: Op) -> bool:
    """True for arithmetic of numbers that cannot fail."""
    known, t = OPS.get(op.name), op.results[0].type
    if op.name == "const" or known is None or not known.elementwise or known.effect:
        return op.name == "const"
    return all(isinstance(v.type, Scalar) for v in op.operands) and (
        isinstance(t, Scalar) and is_float(t) or op.name in INTEGERS)


def _kept(loop: Loop, ops: list[Op], access: Access, dom: Dominators) -> list[Value]:
    """The floats that other ops read, all behind the access, and that take a division or more to compute."""
    alike, read, early = set(ops), dict[Value, None](), set[Value]()
    for block in dom.in_order(loop.blocks):
        behind = block is not access.block and dom.dominates(access.block, block)
        for op in block.all_ops():
            if op not in alike:
                read.update(dict.fromkeys(op.used()))
                early.update(() if behind else op.used())
            behind = behind or op is access.op
    return [v for v in read if v not in early and v.op in alike and isinstance(v.type, Scalar) and is_float(v.type)
            and any(op_cost(op) >= EXPENSIVE for op in _needed([v], ops))]


def _needed(values: list[Value], ops: list[Op]) -> set[Op]:
    """Those of ``ops`` that compute the values."""
    needed: set[Op] = set()
    wanted = set(values)
    for op in reversed(ops):
        if op.results[0] in wanted:
            needed.add(op)
            wanted.update(op.operands)
    return needed


def _emit(func: Function, found: Tables) -> Block:
    """Compute the tables ahead of the outer loop, in a loop whose head is returned, and read them in the inner one."""
    preheader, access, size = found.outer.preheader, found.access, found.access.size
    assert preheader is not None and preheader.term is not None
    (edge,), b = preheader.term.edges, Builder(preheader, preheader.term.loc)
    preheader.term = None
    enter, skip, join = map(func.new_block, ("preheader", "skip", "after"))
    if isinstance(size, tuple):
        size = b.dim(size[0], axis=size[1])
    most = b.mul(b.const(size) if isinstance(size, int) else size, access.times)
    count = b.minimum(found.known.trip, most)
    b.branch(functools.reduce(b.and_, found.guards, b.lt(0, count)), enter, [], skip, [])
    b.at(skip)
    b.jump(join, [_table(b, v, b.const(0)) for v in found.kept])
    b.at(enter)
    head, filled = _fill(func, b, found, count)
    b.jump(join, filled)
    tables = [join.add_param(t.type) for t in filled]
    set_term(join, "jump", edges=[edge])
    reads = [Op("get", [t, found.known.iv], [v.type], loc=access.op.loc) for t, v in zip(tables, found.kept)]
    alike, read = set(found.ops), {v: op.result for v, op in zip(found.kept, reads)}
    for op in (op for block in found.loop.blocks for op in block.all_ops() if op not in alike):
        op.replace_uses(read)
    at = access.block.ops.index(access.op) + 1
    access.block.ops[at:at] = reads
    for op in reads:
        op.block = access.block
    return head


def _fill(func: Function, b: Builder, found: Tables, count: Value) -> tuple[Block, list[Value]]:
    """Emit the loop that fills the tables; yields its head, and the tables behind it."""
    iv, body, leave = found.known.iv, func.new_block("loop"), func.new_block("exit")
    tables = [_table(b, v, count) for v in found.kept]
    b.jump(body, [b.const(0), *tables])
    b.at(body)
    values: dict[Value, Value] = {iv: body.add_param(iv.type, iv.hint)}
    tables = [body.add_param(t.type) for t in tables]
    needed = _needed(found.kept, found.ops)
    for op in (op for op in found.ops if op in needed):
        values[op.results[0]] = b.emit_op(op.name, [values.get(v, v) for v in op.operands], **op.attrs).result
    tables = [b.set(t, values[v], values[iv]) for t, v in zip(tables, found.kept)]
    following = b.add(values[iv], 1)
    b.branch(b.lt(following, count), body, [following, *tables], leave, tables)
    b.at(leave)
    return body, [leave.add_param(t.type) for t in tables]


def _table(b: Builder, of: Value, size: Value) -> Value:
    assert isinstance(of.type, Scalar)
    return b.typed(b.emit_op("empty", [size], dtype=of.type).result, Array(of.type, (None,)))
