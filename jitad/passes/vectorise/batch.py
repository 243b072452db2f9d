"""Batches the matrix-vector products of a loop into matrix-matrix products.

A loop that reads element ``i`` of arrays and stores element ``i`` of others (``vmap``, or the same loop in Python) can
execute many iterations together.  Each value becomes an array with an additional first axis, and ``W @ x`` becomes
``X @ W.T``.  This pays only where there is such a product: otherwise the loop keeps its intermediates in registers.
The loop is strip-mined into chunks, so that the intermediates of a chunk stay in the cache.  ``batch_rules.py`` has the
rule of each op::

    ^loop(i, out):                        ^loop(c, out):                # for each chunk of CHUNK iterations
      x := get(xs, i)                       X := slice(xs, c * CHUNK, length)
      y := W @ x                 becomes    Y := X @ W.T
      out' := set(out, y, i)                out' := set_slice(out, Y, c * CHUNK)
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, Array, dims_of
from ...ir.uses import ops_of, users
from ..analysis.loops import Counted, Loop, counted, loop_forest
from .batch_rules import NoRows, Rows

CHUNK = 256
"""The number of iterations in a chunk."""


def batch(module: Module) -> None:
    """Batch every such loop; expects normal form: loops are rotated and have a preheader."""
    for func in module.functions.values():
        if any(op.name == "matmul" for op in func.all_ops()):
            for loop in loop_forest(func).loops:
                known = counted(loop)
                if known is not None and known.iv.index == 0 and loop.blocks == {loop.head} and _pays(loop.head):
                    _in_chunks(func, loop, known)


def _pays(head: Block) -> bool:
    """True if the loop multiplies a loop-invariant matrix with a vector that it computes."""
    return any(op.name == "matmul" and _matrix_and_vector(op, head) for op in head.ops)


def _matrix_and_vector(op: Op, head: Block) -> bool:
    x, y = op.operands if len(dims_of(op.operands[0].type)) == 2 else op.operands[::-1]
    return (len(dims_of(x.type)), len(dims_of(y.type))) == (2, 1) and x.block is not head and y.block is head


def _in_chunks(func: Function, loop: Loop, known: Counted) -> None:
    """Replace the loop by a loop over chunks, if each of its ops can be batched."""
    head, leave = loop.head, loop.exit
    assert loop.preheader is not None and loop.preheader.term is not None and head.term is not None
    assert leave is not None
    stores = stores_of(loop)
    if stores is None:
        return
    chunks = func.new_block(head.name)
    it = chunks.add_param(I64, known.iv.hint)
    params = [chunks.add_param(p.type, p.hint) for p in head.params[1:]]
    b = Builder(chunks, head.term.loc)
    start = b.mul(it, CHUNK)
    test = head.term.operands[0]
    bound = {*head.params, known.next, test, *(op.result for op in stores)}
    rows = Rows(b, known.iv, start, b.minimum(b.sub(known.trip, start), CHUNK), bound)
    counting = {known.next.op, test.op}
    new: dict[Value, Value] = {known.next: known.trip}
    try:
        for op in head.ops:
            if op in stores:
                new[op.result] = store(rows, op, params[op.operands[0].index - 1])
            elif op not in counting:
                rows.add(op)
        leaving = [_outside(rows, new, head, v) for v in loop.exit_edge().args]
    except NoRows:
        func.blocks.remove(chunks)
        return
    before = Builder(loop.preheader, head.term.loc)
    count = before.floordiv(before.add(known.trip, CHUNK - 1), CHUNK)
    loop.preheader.term.edges = [Edge(chunks, list(loop.preheader.term.edges[0].args))]
    following = b.add(it, 1)
    again = [following, *(new[v] for v in loop.back_edge().args[1:])]
    b.branch(b.lt(following, count), chunks, again, leave, leaving)
    func.blocks.remove(chunks)
    func.blocks[func.blocks.index(head)] = chunks


def stores_of(loop: Loop, others: Collection[Value] = ()) -> set[Op] | None:
    """The ops that store element ``it`` of a carried array.

    ``None`` if the loop carries another value that is not among ``others``, or uses such an array otherwise.
    """
    head, found = loop.head, set()
    used = users(ops_of(loop.blocks))
    for p, back in zip(head.params[1:], loop.back_edge().args[1:]):
        only = used.get(p, [])
        if p in others:
            continue
        if len(only) != 1 or only[0].name != "set" or only[0].operands[0] is not p or back is not only[0].result or \
                only[0].operands[2:] != [head.params[0]] or any(op.name != "branch" for op in used[back]):
            return None
        found.add(only[0])
    return found


def store(rows: Rows, op: Op, array: Value) -> Value:
    """Emit the store of a chunk's elements; returns the updated array."""
    b, value = rows.b, rows.all_of(op.operands[1])
    assert isinstance(array.type, Array)
    rest = [n for _ in array.type.dims[1:] for n in (b.const(0), rows.one)]
    return b.set_slice(array, value, rows.start, rows.one, *rest)


def _outside(rows: Rows, new: dict[Value, Value], head: Block, v: Value) -> Value:
    """The new value of an argument of the exit edge: a stored array, or a loop-invariant value."""
    if v in new:
        return new[v]
    if v.block is head:
        raise NoRows
    return v
