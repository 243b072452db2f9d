"""Batches the products of a loop with a matrix, or a vector, into products of matrices.

A loop that reads element ``i`` of arrays and stores element ``i`` of others (``vmap``, or the same loop in Python), or
adds up what follows from them, can execute many iterations together.  Each value becomes an array with an additional
first axis, ``W @ x`` becomes ``X @ W.T`` and ``x @ w`` becomes ``X @ w``.  This pays only where there is such a
product: otherwise the loop keeps its intermediates in registers.  The loop is strip-mined into chunks, so that the
intermediates of a chunk stay in the cache.  What is added to a carried number stays in the order of the iterations, in
a loop of its own.  ``batch_rules.py`` has the rule of each op::

    ^loop(i, out):                        ^loop(c, out):                # for each chunk of CHUNK iterations
      x := get(xs, i)                       X := slice(xs, c * CHUNK, length)
      y := W @ x                 becomes    Y := X @ W.T
      out' := set(out, y, i)                out' := set_slice(out, Y, c * CHUNK)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, dims_of, dtype_of, is_float_scalar
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
    """True if the loop multiplies a loop-invariant matrix or vector with a vector that it computes."""
    return any(op.name == "matmul" and any(_fixed_and_vector(x, y, head)
                                           for x, y in (op.operands, op.operands[::-1])) for op in head.ops)


def _fixed_and_vector(x: Value, y: Value, head: Block) -> bool:
    return len(dims_of(y.type)) == 1 and x.block is not head and y.block is head


def _in_chunks(func: Function, loop: Loop, known: Counted) -> None:
    """Replace the loop by a loop over chunks, if each of its ops can be batched."""
    head, leave = loop.head, loop.exit
    assert loop.preheader is not None and loop.preheader.term is not None and head.term is not None
    assert leave is not None
    sums = sums_of(loop)
    stores = stores_of(loop, set(sums.values()))
    if stores is None or any(op.name != "set" or op.operands[0] is not array for op, array in stores.items()):
        return
    count = len(func.blocks)
    chunks = func.new_block(head.name)
    it = chunks.add_param(I64, known.iv.hint)
    params = {p: chunks.add_param(p.type, p.hint) for p in head.params[1:]}
    b = Builder(chunks, head.term.loc)
    start = b.mul(it, CHUNK)
    test = head.term.operands[0]
    bound = {*head.params, known.next, test, *(op.result for op in (*stores, *sums))}
    rows = Rows(b, known.iv, start, b.minimum(b.sub(known.trip, start), CHUNK), bound, late_checks=True)
    note_next(rows, known, stores)
    counting = {known.next.op, test.op}
    new: dict[Value, Value] = {known.next: known.trip}
    terms: dict[Op, Value] = {}
    try:
        for op in head.ops:
            if op in sums:
                terms[op] = rows.all_of(op.operands[op.operands[0] is sums[op]])
            elif op not in counting and op not in stores:
                rows.add(op)
        rows.hold()
        for op in (op for op in head.ops if op in stores):      # nothing is stored before a check
            new[op.result] = store(rows, op, params[op.operands[0]])
        new |= add_up(rows, sums, terms, params)
        leaving = [_outside(rows, new, head, v) for v in loop.exit_edge().args]
    except NoRows:
        del func.blocks[count:]
        return
    before = Builder(loop.preheader, head.term.loc)
    number = before.floordiv(before.add(known.trip, CHUNK - 1), CHUNK)
    loop.preheader.term.edges = [Edge(chunks, list(loop.preheader.term.edges[0].args))]
    following = b.add(it, 1)
    again = [following, *(new[v] for v in loop.back_edge().args[1:])]
    b.branch(b.lt(following, number), chunks, again, leave, leaving)
    at, made = func.blocks.index(head), func.blocks[count:]
    func.blocks[at:] = [*made, *func.blocks[at + 1:count]]


# --- what a loop stores and adds up, for ``predicate`` too -------------------------------------------------

def stores_of(loop: Loop, others: Collection[Value] = ()) -> dict[Op, Value] | None:
    """The ops that store to an element of a carried array for each iteration, or add to it, with the array.

    One index is the counter, others are fixed.  Each array is either stored to or added to, in an order that does not
    matter, or at one index that counts.  ``None`` if the loop carries another value that is not among ``others``, or
    uses such an array otherwise.
    """
    def stores(op: Op, array: Value) -> bool:
        counting = _counting(loop, op)
        return op.name in ("set", "add_at") and op.operands[0] is array and len(counting) == 1 and all(
            v is counting[0] or v.block not in loop.blocks for v in op.operands[2:])
    found, used = dict[Op, Value](), users(ops_of(loop.blocks))
    for p in loop.head.params[1:]:
        if p not in others:
            chain = _chain(loop, p, used, stores)
            free = all(op.attrs.get("acc") for op in chain)
            if len({op.name for op in chain}) != 1 or not free and len({_counting(loop, op)[0] for op in chain}) > 1:
                return None
            found |= dict.fromkeys(chain, p)
    return found


def _counting(loop: Loop, op: Op) -> list[Value]:
    """The indices of an element that count the iterations of a loop."""
    return [v for v in op.operands[2:] if counts(loop, v)]


def counts(loop: Loop, v: Value) -> bool:
    """True for the counter of a loop, and for it plus a number from outside, as in a share of several threads."""
    iv, op = loop.head.params[0], v.op
    return v is iv or op is not None and op.name == "add" and op.operands.count(iv) == 1 and all(
        x is iv or x.block not in loop.blocks for x in op.operands)


def sums_of(loop: Loop) -> dict[Op, Value]:
    """The additions to, and subtractions from, carried numbers that are not read otherwise, with the total so far."""
    return {op: total for chain in sum_chains(loop).values() for op, total in chain.items()}


def sum_chains(loop: Loop) -> dict[Value, dict[Op, Value]]:
    """The same for each of these numbers, in order."""
    used = users(ops_of(loop.blocks))
    chains = {p: _chain(loop, p, used, _adds_to) for p in loop.head.params[1:]}
    return {p: chain for p, chain in chains.items() if chain}


def _chain(loop: Loop, p: Value, used: Mapping[Value, list[Op]], fits: Callable[[Op, Value], bool]) -> dict[Op, Value]:
    """The ops that lead from the parameter ``p`` to its next value, each with its operand; none if others read it.

    Edges may pass the value on to parameters, past the last op too.
    """
    found, values, now = dict[Op, Value](), set[Value](), p
    while True:
        passed = passed_on(loop, now, used)
        values.update(passed)
        readers = {op for v in passed for op in used.get(v, ()) if not op.edges or v in op.operands}
        if not readers:
            break
        op, *others = readers
        operands = [v for v in op.operands if v in passed]
        if others or op in found or len(operands) != 1 or not fits(op, operands[0]):
            return {}                                    # an op comes twice where an inner loop repeats it
        found[op], now = operands[0], op.result
    mixed = any(q in values and q is not p and a not in values for block in loop.blocks if block.term is not None
                for edge in block.term.edges for q, a in edge.passed())
    return found if loop.back_edge().args[p.index] in passed and not mixed else {}


def passed_on(loop: Loop, v: Value, used: Mapping[Value, list[Op]]) -> list[Value]:
    """A value and the parameters in the loop, but for its head, to which edges pass it."""
    found = [v]
    for x in found:
        for op in used.get(x, ()):
            for edge in op.edges:
                found += [q for q, a in edge.passed() if a is x and edge.block in loop.blocks
                          and edge.block is not loop.head and q not in found]
    return found


def _adds_to(op: Op, v: Value) -> bool:
    return op.name in ("add", "sub") and op.operands.count(v) == 1 and (op.name == "add" or op.operands[0] is v) \
        and (v.type is I64 or is_float_scalar(v.type))


def select_terms(loop: Loop) -> None:
    """Let a sum of integers be ``total + (select c, t, 0)`` instead of ``select c, total + t, total``.

    ``if_conversion`` does so for floats; as for integers, LLVM recognises both.
    """
    readers = users(ops_of(loop.blocks))
    for total, back in zip(loop.head.params[1:], loop.back_edge().args[1:]):
        choice = back.op
        if choice is None or choice.name != "select" or total.type is not I64 or choice.block not in loop.blocks:
            continue
        for k, (kept, added) in enumerate((choice.operands[1:], choice.operands[:0:-1])):
            op = added.op
            if kept is total and op is not None and op.name == "add" and op.operands.count(total) == 1 and \
                    readers[added] == [choice] and {*readers[total]} == {op, choice}:
                term = op.operands[op.operands[0] is total]
                zero = Op("const", (), [I64], {"value": 0, "type": I64}, loc=choice.loc)
                sides = [zero.result, term] if k == 0 else [term, zero.result]
                chosen = Op("select", [choice.operands[0], *sides], [I64], loc=choice.loc)
                _put_before(choice, [zero, chosen])
                choice.name, choice.operands = "add", [total, chosen.result]
                if op.block is not None:
                    op.block.ops.remove(op)
                break


def _put_before(op: Op, new: list[Op]) -> None:
    assert op.block is not None
    at = op.block.ops.index(op)
    op.block.ops[at:at] = new
    for each in new:
        each.block = op.block


def add_up(rows: Rows, sums: Mapping[Op, Value], terms: Mapping[Op, Value], params: Mapping[Value, Value]
           ) -> dict[Value, Value]:
    """Emit the loop that adds up the terms of a chunk, in order; returns the new totals.

    Sums whose order is free (``acc``) take no loop, if no others are carried.
    """
    b, ends = rows.b, [op.result for op in sums if op.result not in sums.values()]
    starts = [v for v in sums.values() if v in params]
    now = {p: params[p] for p in starts}
    if all(op.attrs.get("acc") for op in sums):
        for op, total in sums.items():
            part = b.emit("sum", terms[op], axes=(0,), acc=True)
            now[op.result] = b.emit_op(op.name, [now[total], part], **op.attrs).result
        return {v: now[v] for v in ends}
    body, done = b.func.new_block("sum"), b.func.new_block("summed")
    j = body.add_param(I64, "j")
    b.jump(body, [b.const(0), *now.values()])
    b.at(body)
    now = {p: body.add_param(p.type, p.hint) for p in starts}
    for op, total in sums.items():
        now[op.result] = b.emit_op(op.name, [now[total], b.get(terms[op], j)], **op.attrs).result
    again, totals = b.add(j, 1), [now[v] for v in ends]
    b.branch(b.lt(again, rows.length), body, [again, *totals], done, totals)
    b.at(done)
    return {v: done.add_param(v.type, v.hint) for v in ends}


def note_next(rows: Rows, known: Counted, stores: Collection[Op]) -> None:
    """Let the counter of the next iteration count as well, if ``stores`` have it for an index."""
    if any(v is known.next for op in stores for v in op.operands[2:]):
        rows.firsts[known.next] = rows.b.add(rows.start, 1)


def store(rows: Rows, op: Op, array: Value, done: Value | None = None) -> Value:
    """Emit the update of the elements of a chunk by ``op``; returns the array.

    ``done``: for how many of them an earlier chunk has executed it.
    """
    b, at = rows.b, op.operands[2:]
    values = rows.all_of(op.operands[1])
    if op.name == "add_at":
        values = _new_terms(b, op, values, done)
    spec = [x for v in at for x in (rows.firsts.get(v, v), rows.one)]
    spec += [x for _ in dims_of(values.type)[1:] for x in (b.const(0), rows.one)]
    if len(at) > 1:
        shape = [rows.length if v in rows.firsts else rows.one for v in at]
        values = b.reshape(values, *shape, *rows.inner(values))
    name = "add_slice" if op.name == "add_at" else "set_slice"
    return b.emit_op(name, [array, values, *spec], **op.attrs).result


def add_up_all(b: Builder, chains: Mapping[Value, Collection[Op]], terms: Mapping[Op, Value],
               params: dict[Value, Value], length: int, done: Value | None) -> None:
    """Emit the additions of the terms of a chunk of known ``length`` without a loop; updates the totals ``params``.

    ``done``: how many of its iterations an earlier chunk has executed.
    """
    for p, chain in chains.items():
        given = {op: _new_terms(b, op, terms[op], done) for op in chain}
        free = all(op.attrs.get("acc") for op in chain)
        for lane in range(1 if free else length):
            for op in chain:
                term = b.emit("sum", given[op], axes=(0,), acc=True) if free else b.get(given[op], b.const(lane))
                params[p] = b.emit_op(op.name, [params[p], term], **op.attrs).result


def _new_terms(b: Builder, op: Op, terms: Value, done: Value | None) -> Value:
    """The terms of an addition or a subtraction, with zeros for the elements that have been executed before."""
    return terms if done is None else terms_where(b, op, b.ge(b.iota(b.dim(terms, axis=0)), done), terms)


def terms_where(b: Builder, op: Op, mask: Value, terms: Value) -> Value:
    """The terms of an addition or a subtraction, with zeros that change no sum where the mask does not hold."""
    dtype = dtype_of(terms.type)
    return b.select(mask, terms, b.const(-0.0 if dtype.is_float and op.name != "sub" else 0, dtype))


def _outside(rows: Rows, new: dict[Value, Value], head: Block, v: Value) -> Value:
    """The new value of an argument of the exit edge: a stored array, or a loop-invariant value."""
    if v in new:
        return new[v]
    if v.block is head:
        raise NoRows
    return v
