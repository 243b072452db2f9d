"""Loop distribution: an inner loop that only adds to arrays gets a loop of its own behind the one around it.

::

    ^rows(i, a):                                 ^rows(i, xs):
      x = …                                        x = …
      ^inner(j, a):                                xs' = set xs, x, i
          a' = add_at {acc} a, …      becomes    ^again(i, a):
      …                                            x = get xs, i
                                                   ^inner(j, a): a' = add_at {acc} a, …

What the inner loop reads of the iteration is computed again if that takes loads and arithmetic of integers, and else
stored in vectors (scalar expansion).  Nothing is left around the inner loop: ``interchange`` can turn the nest inside
out.  A part of ``rank_one_updates``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Module, Op, Value
from ...ir.types import I64, Scalar, dtype_of
from ..analysis.accumulator_webs import Region
from ..analysis.cfg import is_pure, own_exit, set_term
from ..analysis.loops import Counted, Loop, LoopForest, counted

MOST = 4
"""The most vectors that are stored."""


@dataclass
class Carried:
    """An array to which ``adds`` add: its parameter of the inner loop, and its number among what leaves ``rows``."""

    param: Value
    end: int
    adds: list[Op]


Guard = tuple[Value, bool]


@dataclass
class Nest:
    """A loop of one block in the loop ``rows``, in each of whose iterations it is; both count.

    ``guard``: a condition that decides it for all iterations, and what it must be.  ``arrays``: those that the inner
    loop adds to, and that ``rows`` does not access but to add.  ``again``: ops of ``rows`` that are computed again for
    it, in order; ``stored``: the other scalars that it reads.  ``closed``: it does nothing but add to ``arrays``.
    """

    rows: Loop
    inner: Loop
    outer: Counted
    known: Counted
    guard: Guard | None = None
    arrays: list[Carried] = field(default_factory=list)
    again: list[Op] = field(default_factory=list)
    stored: list[Value] = field(default_factory=list)
    closed: bool = True


def nest_of(module: Module, forest: LoopForest, inner: Loop) -> Nest | None:
    """The nest of an innermost loop that adds to arrays, in each iteration of the loop around."""
    known, rows = counted(inner), inner.parent
    outer = counted(rows) if rows is not None else None
    if known is None or rows is None or outer is None or inner.head is not inner.latch or inner.exit is None or \
            rows.exit is None or rows.latch is None or inner.preheader is None:
        return None
    if _is_inside(known.trip, rows):
        return None
    nest = Nest(rows, inner, outer, known)
    if not forest.dom.dominates(inner.preheader, rows.latch):
        nest.guard = _guard(forest.dom, inner.preheader, rows)
        if nest.guard is None:
            return None
    last = _find_arrays(module, nest)
    nest.closed = len(last) == len(inner.head.params) - 1 and last.issuperset(inner.exit_edge().args) and \
        _finds_scalars(nest) and all(forest.dom.dominates(v.block, rows.latch) for v in nest.stored)
    return nest


def _guard(dom: Dominators, block: Block, rows: Loop) -> Guard | None:
    """The branch of each iteration of ``rows`` that leads to ``block``, if all of them decide it alike."""
    before = dom.idom.get(block)
    term = before.term if before is not None else None
    if before is None or rows.latch is None or term is None or not dom.dominates(before, rows.latch):
        return None
    leads = [dom.preds[e.block] == [before] and dom.dominates(e.block, block) for e in term.edges]
    if term.name != "branch" or _is_inside(term.operands[0], rows) or sum(leads) != 1:
        return None
    return term.operands[0], leads[0]


def _is_inside(v: Value, loop: Loop) -> bool:
    return v.const is None and v.block in loop.blocks


def _find_arrays(module: Module, nest: Nest) -> set[Value]:
    """Find ``arrays``, to which the rest of ``rows`` may add too; returns what the inner loop makes of them."""
    rows, head, found = nest.rows, nest.inner.head, set[Value]()
    region = Region.of_loop(module, rows)
    for p in head.params:
        last = nest.inner.back_edge().args[p.index]
        if last.op is None or not _adds(last.op) or last.op.block is not head:
            continue
        web = region.web(last.op, _adds)
        starts = [q for q in rows.head.params if web is not None and q in web.values]
        ends = [i for i, v in enumerate(rows.exit_edge().args) if web is not None and v in web.values]
        if web is not None and len(starts) == len(ends) == 1:
            nest.arrays.append(Carried(p, ends[0], [op for op in web.adds if op.block is head]))
            found.add(last)
    return found


def _adds(op: Op) -> bool:
    return op.name == "add_at" and bool(op.attrs.get("acc"))


def _finds_scalars(nest: Nest) -> bool:
    """Find ``again`` and ``stored``; returns False if the inner loop has an effect, or reads an array of ``rows``."""
    head, known = nest.inner.head, {nest.outer.iv}
    adds = {op for a in nest.arrays for op in a.adds}
    for op in head.ops:
        if op not in adds and not is_pure(op):
            return False
        for v in op.operands:
            if v.block is not head and v not in nest.stored and not _comes_again(v, nest, known):
                if not isinstance(v.type, Scalar):
                    return False
                nest.stored.append(v)
    return True


def _comes_again(v: Value, nest: Nest, known: set[Value]) -> bool:
    """Extend ``again`` by what ``v`` is computed from, if that is cheap."""
    op = v.op
    if v in known or not _is_inside(v, nest.rows):
        return True
    if op is None or not (op.name == "get" or op.name in ("add", "sub", "mul") and v.type == I64):
        return False
    if not all(_comes_again(w, nest, known) for w in op.operands):
        return False
    known.add(v)
    nest.again.append(op)
    return True


def distribute(nest: Nest) -> bool:
    """Give the inner loop of a closed nest a loop of its own; returns False if too much would be stored."""
    if len(nest.stored) > MOST:
        return False
    rows, inner, head = nest.rows, nest.inner, nest.inner.head
    before, latch, leave = inner.preheader, rows.latch, rows.exit
    assert before is not None and latch is not None and leave is not None and head.term is not None
    at = [a.param.index for a in nest.arrays]
    starts, sums = ([edge.args[i] for i in at] for edge in (inner.entry_edge(), inner.back_edge()))
    unchanged = dict(zip(sums, starts))
    set_term(before, "jump", edges=[Edge(inner.exit_edge().block, [unchanged[v] for v in inner.exit_edge().args])])
    behind = own_exit(head.func, latch, leave)
    vectors = [_stored(nest, v, behind) for v in nest.stored]
    onward, behind.term = behind.term, None
    assert onward is not None

    b = Builder(behind, head.term.loc)
    again, end, left, after = (head.func.new_block(n) for n in ("again", "again_latch", "exit", "after"))
    iv = again.add_param(I64, nest.outer.iv.hint)
    carried, passed, results, added = ([block.add_param(a.param.type, a.param.hint) for a in nest.arrays]
                                       for block in (again, end, left, after))
    _enter(nest, b, again, after, [onward.edges[0].args[a.end] for a in nest.arrays])
    b.at(again)
    here = _computed_again(nest, b, iv, vectors)
    entering = dict(zip(at, carried))
    b.jump(head, [entering[p.index] if p.index in entering else b.const(0) for p in head.params])
    for op in head.all_ops():
        op.replace_uses(here)
    leaving = inner.exit_edge()
    leaving.block, leaving.args = end, sums
    b.at(end)
    following = b.add(iv, 1)
    b.branch(b.lt(following, b.again(nest.outer.trip)), again, [following, *passed], left, passed)
    b.at(left)
    b.jump(after, results)
    for a, v in zip(nest.arrays, added):
        onward.edges[0].args[a.end] = v
    after.term, onward.block = onward, after
    return True


def _enter(nest: Nest, b: Builder, again: Block, after: Block, arrays: list[Value]) -> None:
    """Enter the new loop, or skip it."""
    if nest.guard is not None:
        condition, wanted = nest.guard
        enter, skip = (b.func.new_block(n) for n in ("preheader", "skip"))
        b.branch(b.again(condition), *((enter, [], skip, []) if wanted else (skip, [], enter, [])))
        b.at(skip)
        b.jump(after, arrays)
        b.at(enter)
    b.jump(again, [b.const(0), *arrays])


def _computed_again(nest: Nest, b: Builder, iv: Value, vectors: list[Value]) -> dict[Value, Value]:
    """What the inner loop reads of an iteration, at the end of the block of ``b``."""
    here = {nest.outer.iv: iv}
    for op in (*nest.again, *nest.inner.head.all_ops()):
        here |= {v: b.again(v) for v in op.operands if v.const is not None and v.block in nest.rows.blocks
                 and v.block is not nest.inner.head and v not in here}
    here |= {v: b.get(vector, iv) for v, vector in zip(nest.stored, vectors)}
    for op in nest.again:
        copy = clone_op(op, here)
        copy.block = b.block
        b.block.ops.append(copy)
    return here


def _stored(nest: Nest, v: Value, behind: Block) -> Value:
    """The vector of a scalar in all iterations of ``rows``, in the block behind it."""
    rows, home = nest.rows, v.block
    before, latch = rows.preheader, rows.latch
    assert before is not None and latch is not None and latch.term is not None
    b = Builder(before, v.op.loc if v.op is not None else home.func.loc)
    term, before.term = before.term, None
    empty = b.emit("empty", b.again(nest.outer.trip), dtype=dtype_of(v.type))
    before.term = term
    vector = rows.head.add_param(empty.type)
    rows.entry_edge().args.append(empty)
    at = home.ops.index(v.op) + 1 if v.op is not None else 0
    rest, home.ops = home.ops[at:], home.ops[:at]
    term, home.term = home.term, None
    b.at(home)
    stored = b.set(vector, v, nest.outer.iv)
    home.ops += rest
    home.term = term
    rows.back_edge().args.append(stored)
    next(e for e in latch.term.edges if e.block is behind).args.append(stored)
    return behind.add_param(empty.type)
