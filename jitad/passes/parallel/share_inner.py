"""Lets several threads of a GPU share an iteration of an outlined loop, whose body is an independent loop itself.

``@f.loop(first, end, carried…, captured…, part, parts)`` runs every ``parts``-th iteration of the inner loop, from
``part`` on.  Calls with all parts from 0 to ``parts`` − 1, in any order or at once, do what the call with (0, 1) does::

    ^loop(i):                                       ^loop(i):
      y = sin x[i]                                    y = sin x[i]
      jump ^inner(0)                                  branch part < m, ^inner(part), ^after
    ^inner(j):                            becomes   ^inner(j):
      a[i, j] = y * j                                 a[i, j] = y * j
      branch j + 1 < m, ^inner(j + 1), ^after         branch j + parts < m, ^inner(j + parts), ^after

Each thread runs what stands outside of the inner loop, which therefore must not update arrays, nor read those that the
inner loop updates.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Value
from ...ir.types import I64, Array
from ..analysis.loops import Counted, Loop, counted, loop_forest, raising_blocks
from .independence import Dependent, Independence


def share_inner(body: Function, carried: int) -> bool:
    """Add ``part`` and ``parts`` to an outlined loop, whose carried values are arrays; False if it cannot be shared."""
    forest = loop_forest(body)
    if len(forest.roots) != 1 or len(forest.roots[0].children) != 1:
        return False
    inner = forest.roots[0].children[0]
    known = counted(inner)
    if known is None or inner.exit is None or inner.preheader is None or inner.latch is None:
        return False
    raising = raising_blocks(forest.dom)
    region = inner.region(raising)
    rest = [b for b in body.blocks if b not in region and b not in raising]
    if not _is_pure(rest, {*body.params[2 + carried:]}):
        return False
    try:
        roles = Independence(inner, known, region).roles()
    except Dependent:
        return False
    back = inner.back_edge().args
    finals = {back[p.index]: inner.entry_edge().args[p.index] for p in roles}
    if any(role != "each" for role in roles.values()) or any(x not in finals for x in inner.exit_edge().args):
        return False
    _divide(body, inner, known, [finals[x] for x in inner.exit_edge().args])
    return True


def _is_pure(blocks: Sequence[Block], captured: set[Value]) -> bool:
    """True if blocks neither make arrays nor read others than ``captured`` ones, and call nothing."""
    for block in blocks:
        for op in block.ops:
            if any(isinstance(r.type, Array) for r in op.results) or op.name != "dim" and any(
                    isinstance(v.type, Array) and v not in captured for v in op.operands):
                return False
        if block.term is None or block.term.name not in ("jump", "branch", "return"):
            return False
    return True


def _divide(body: Function, inner: Loop, known: Counted, inits: Sequence[Value]) -> None:
    """Give the function its two parameters; ``inits``: what the loop leaves if it has no iteration."""
    part, parts = (body.entry.add_param(I64, hint) for hint in ("part", "parts"))
    before, latch, after = inner.preheader, inner.latch, inner.exit
    assert before is not None and latch is not None and after is not None and latch.term is not None
    entry, leaving = inner.entry_edge(), inner.exit_edge()
    some, none, ran = (body.new_block(name) for name in ("some", "none", "ran"))
    Builder(some, body.loc).jump(entry.block, [part if p is known.iv else x for p, x in zip(
        entry.block.params, entry.args)])
    Builder(none, body.loc).jump(after, list(inits))
    results = [ran.add_param(x.type) for x in leaving.args]
    Builder(ran, body.loc).jump(after, results)
    leaving.block = ran
    before.term = None
    b = Builder(before, body.loc)
    b.branch(b.lt(part, known.trip), some, [], none, [])
    b = Builder(latch, body.loc)
    following = b.emit_op("add", [known.iv, parts]).result
    latch.term.operands[0] = b.emit_op("lt", [following, known.trip]).result
    inner.back_edge().args[known.iv.index] = following
    body.control = None


