"""Copies an array with which a loop begins, so that each iteration can update it in place.

``mean = zeros; for k: mean = mean + row[k]`` replaces an array as a whole.  An iteration may compute the new array in
the memory of the old one, unless that is an argument, or what another loop begins with again::

      jump ^loop(0, %zeros)                     %own = copy %zeros
    ^loop(%k, %mean):                           jump ^loop(0, %own)
      %row = get %x, %k               becomes  ^loop(%k, %mean):
      %sum = add %mean, %row                      …
      branch …, ^loop(%k', %sum), ^exit(%sum)

Each iteration would allocate an array, and the arrays of earlier ones would have to be given back.  The copy is made
ahead of the test whether the loop has an iteration: what follows receives an array of the loop's own in any case.
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from ...ir.uses import users
from ..analysis.loops import Loop, LoopForest, loop_forest


def own_starts(module: Module) -> None:
    """Copy the arrays of all such loops; expects normal form."""
    for func in module.functions.values():
        if any(isinstance(p.type, Array) for b in func.blocks for p in b.params if b is not func.entry):
            _of_function(func)


def _of_function(func: Function) -> None:
    forest = loop_forest(func)
    loops = [loop for loop in forest.loops if loop.latch is not None and loop.preheader is not None
             and loop.preheader.term is not None]
    if not any(_is_replaced(loop, p, loop.back_edge().args[k]) for loop in loops
               for k, p in enumerate(loop.head.params) if isinstance(p.type, Array)):
        return
    readers = users(func.all_ops())
    for loop in loops:
        assert loop.preheader is not None
        entry, back = loop.entry_edge(), loop.back_edge()
        for k, p in enumerate(loop.head.params):
            start = entry.args[k]
            if isinstance(p.type, Array) and start in readers and _is_updated(loop, p, back.args[k], readers):
                before, passing = _beginning(forest, loop.preheader, start)
                if _is_shared(forest, start, loop.preheader, {*readers[start]} - passing):
                    _copy(before, start, passing)


def _beginning(forest: LoopForest, preheader: Block, start: Value) -> tuple[Block, set[Op]]:
    """The block for a copy of a loop's start, ahead of the test that leads past it, and what passes it."""
    preds, terms = forest.dom.preds, [preheader.term]
    before = preds[preheader][0] if len(preds[preheader]) == 1 and start.block is not preheader else preheader
    if forest.loop_of(before) is not forest.loop_of(preheader):
        before = preheader
    if before is not preheader:
        terms += [before.term, *(b.term for b in before.successors() if preds[b] == [before])]
    return before, {op for op in terms if op is not None and op.name in ("jump", "branch")}


def _is_shared(forest: LoopForest, start: Value, preheader: Block, others: set[Op]) -> bool:
    """True if the memory of ``start`` is not this loop's alone: an argument's, a part of an array's, or read again."""
    owner = start.owner
    if owner is preheader.func.entry or isinstance(owner, Op) and OPS[owner.name].view:
        return True
    around = forest.loop_of(preheader)
    return any(op.name != "dim" for op in others) or around is not None and start.block not in around.blocks


def _copy(before: Block, start: Value, passing: set[Op]) -> None:
    """Copy ``start`` at the end of a block, for the edges of ``passing``."""
    op = Op("copy", [start], [start.type])
    op.block = before
    before.ops.append(op)
    for edge in (edge for term in passing for edge in term.edges):
        edge.args = [op.result if v is start else v for v in edge.args]


def _is_updated(loop: Loop, p: Value, back: Value, readers: dict[Value, list[Op]]) -> bool:
    """True if elementwise ops make the next array, one of them from ``p``, which nothing else keeps."""
    if not _is_replaced(loop, p, back):
        return False
    reading = readers.get(p, ())
    return any(not op.edges and _is_like(op, p) for op in reading) and not any(
        op.edges or op.name == "push" or op.name not in OPS for op in reading)


def _is_replaced(loop: Loop, p: Value, back: Value) -> bool:
    """True if an elementwise op of the loop makes the next array."""
    return back.op is not None and back.block in loop.blocks and _is_like(back.op, p)


def _is_like(op: Op, p: Value) -> bool:
    """True if an elementwise op makes an array like ``p``."""
    return op.name in OPS and OPS[op.name].elementwise and _alike(op.result.type, p.type)


def _alike(a: object, b: object) -> bool:
    return isinstance(a, Array) and isinstance(b, Array) and a.dtype == b.dtype and a.rank == b.rank
