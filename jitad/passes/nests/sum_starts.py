"""Where the sums of a product of matrices begin: at 0, or at the elements of a matrix that is known ahead of the loops.

In ``for i: for j: for k: c[i, j] += a[i, k] * b[k, j]`` the sum begins at ``c[i, j]``.  No other iteration stores to
that element, so it is one of ``c`` as it was ahead of the loops.  A sum may begin at a formula of such elements and of
``u[i]`` and ``w[j]`` (``factors.py``), or at what an earlier loop over the same columns has stored for the row::

    for i:
        for j: c[i, j] = beta * d[i, j]          # the sums begin at ``beta * d[i, j]``
        for k:
            for j: c[i, j] += a[i, k] * b[k, j]

A product has the sums of no terms as well, if its sizes are those of the loops: they are what the sums begin with.  The
loop over terms, and a loop over columns that has nothing but such sums, then need no test whether there is a term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.expression_keys import same
from ...ir.graph import Block, Edge, Op, Value
from ...ir.types import Array
from ...ir.uses import ops_of, users
from ..analysis.cfg import set_term
from ..analysis.loops import Loop
from ..analysis.sizes import Sizes
from .factors import Factor, of_size
from .regular import Regular


@dataclass
class Start:
    """Where sums begin; without a formula, at 0."""

    formula: Factor | None

    def matrix(self, b: Builder, first: Value, rows: Value, trip: Value, columns: Value) -> Value:
        """A new array of the starts of ``rows`` rows, from the one with the number ``first`` on, of ``trip``.

        If arrays of the formula are smaller, no sum is read, and what is beyond them is zero.
        """
        f = self.formula
        assert f is not None
        size = rows if f.exact(trip) else f.limited(b, rows, first)
        width = f.limited(b, columns, of_sums=True)
        made = f.matrix(b, f.vectors(b, trip, width), first, size, width)
        if not isinstance(made.type, Array):
            return b.emit("fill", made, rows, columns)
        if not f.matrices():
            return b.emit("broadcast_to", made, rows, columns)
        return b.emit("copy", made if size is rows and width is columns else of_size(b, made, (rows, columns)))


def start_of(regular: Regular, sums: Loop, columns: Loop, rows: Loop) -> Start | None:
    """The start of the sums of the innermost of three loops, if it is known ahead of them."""
    i, inner = regular.known[rows].iv, columns
    start = sums.entry_edge().args[1]
    while (op := start.op) is not None and op.name == "get":
        array, at = op.operands[0], op.operands[1:]
        stored = array.op
        if stored is None and at == [i, regular.known[inner].iv]:
            ahead = _outside(array, at, {inner: regular.known[inner].iv}) if inner is columns else array
            earlier = _storing_loop(regular, ahead, columns, rows)
            if earlier is None:
                break
            inner, start = earlier
        elif stored is not None and stored.name == "set" and stored.operands[2:] == at:
            start = stored.operands[1]
        else:
            break
    if is_zero(start):
        return Start(None)
    loops = {loop: regular.known[loop].iv for loop in (inner, rows)}

    def outside(array: Value, at: list[Value]) -> Value | None:
        found = _outside(array, at, loops)
        return found if found.block not in rows.blocks else None

    f = Factor.formula(start, rows, i, loops[inner], outside)
    if f is None or f.turned:
        return None
    filled = f.ops.get(start.op) if start.op is not None else None
    if filled is not None and filled.op is not None and filled.op.name == "fill" and is_zero(filled.op.operands[0]):
        return Start(None)
    return Start(f)


def is_zero(v: Value) -> bool:
    return v.const == 0.0 and math.copysign(1.0, v.const) > 0.0


def _outside(array: Value, at: list[Value], loops: dict[Loop, Value]) -> Value:
    """The array that has the same element ahead of ``loops``, inner ones first, each with its counter."""
    for loop, counter in loops.items():
        if array in loop.head.params and counter in at and _keeps_others(loop, array, at.index(counter), counter):
            before = loop.entry_edge().argument(array)
            assert before is not None
            array = before
    while array.op is not None and array.op.name == "copy":
        array = array.op.operands[0]
    return array


def _keeps_others(loop: Loop, param: Value, axis: int, counter: Value) -> bool:
    """True if each iteration stores only to elements of an array that have its number as their index of ``axis``.

    ``param`` is the array at the beginning of an iteration, of which all later ones are made by such stores.
    """
    members, todo = {param}, [param]
    readers = users(ops_of(loop.blocks))
    while todo:
        v = todo.pop()
        for op in readers.get(v, ()):
            if op.name in ("get", "dim"):
                continue
            if op.name == "set" and op.operands[0] is v and len(op.operands) > 2 + axis and \
                    op.operands[2 + axis] is counter:
                found = [op.result]
            elif op.edges and v not in op.operands:
                found = [q for edge in op.edges for q, a in edge.passed() if a is v and edge.block in loop.blocks]
                if any(q.block is loop.head and q is not param for q in found):
                    return False
            else:
                return False
            todo += [q for q in found if q not in members]
            members.update(found)
    return True


def _storing_loop(regular: Regular, array: Value, columns: Loop, rows: Loop) -> tuple[Loop, Value] | None:
    """The loop that has stored to all columns of the row, none of which has changed since, and what it stores."""
    joined = _joined(regular, array)
    for loop in rows.children:
        known = regular.known.get(loop)
        if known is None or loop is columns or loop.blocks != {loop.head} or \
                not same(known.trip, regular.known[columns].trip):
            continue
        for v in loop.back_edge().args:
            op = v.op
            if op is None or op.name != "set" or op.operands[2:] != [regular.known[rows].iv, known.iv] or \
                    v not in joined or op.operands[0] not in loop.head.params:
                continue
            before = loop.entry_edge().argument(op.operands[0])
            if joined <= {v, before} and regular.always(loop.head, rows) == [loop]:
                return loop, op.operands[1]
    return None


def _joined(regular: Regular, array: Value) -> set[Value | None]:
    """The values of which a parameter is one, behind the joins and exits that lead to it."""
    found: set[Value | None] = set()
    todo: list[Value | None] = [array]
    while todo:
        v = todo.pop()
        if v is None or v in found:
            continue
        loop = regular.forest.loop_of(v.block)
        if v.op is None and v.block is not None and not (loop is not None and loop.head is v.block):
            todo += regular.dom.arguments(v)
        else:
            found.add(v)
    return found


# --- sums of no terms -----------------------------------------------------------------------------

Passed = tuple[Block, list[Value]]


def drop_guards(regular: Regular, sums: Loop) -> None:
    """Enter ``sums`` without a test whether it has an iteration, if the way around passes what the sums begin with.

    ::

        branch 0 < trip, ^a, ^skip(c)                   jump ^a
        ^a: … ^columns(j, c):                           ^a: … ^columns(j, c):
              … sum from c[j]                becomes          … sum from c[j]
              … set(c, sum, j)                                … set(c, sum, j)
    """
    columns, trip = sums.parent, regular.known[sums].trip
    start = sums.entry_edge().args[1]
    if _drop(sums, trip, dict.fromkeys(sums.exit_edge().args, start)) or columns is None:
        return
    unchanged = _unchanged(regular, columns, sums, start)
    if unchanged is not None:
        _drop(columns, trip, unchanged)


def _unchanged(regular: Regular, columns: Loop, sums: Loop, start: Value) -> dict[Value, Value] | None:
    """The array that a loop over columns leaves, and what it begins with, if it only has the sums of its elements.

    It has all these elements, whether the index of one is checked in ``sums`` or not.
    """
    known, latch = regular.known[columns], columns.latch
    if columns.exit is None or len(columns.head.params) != 2 or latch is None or latch.term is None:
        return None
    array = columns.head.params[1 - known.iv.index]
    left, begins = columns.back_edge().args[array.index], columns.entry_edge().args[array.index]
    store = left.op
    if store is None or store.name != "set" or store.operands[0] is not array or \
            store.operands[1] not in (q for q, _ in sums.exit_edge().passed()):
        return None
    trips, sizes = {k.iv: k.trip for k in regular.known.values()}, Sizes(columns.head.func)
    if not all(at in trips and sizes.are_same((array, axis), trips[at]) for axis, at in enumerate(store.operands[2:])):
        return None

    def is_load(op: Op | None) -> bool:
        return op is not None and op.name == "get" and op.operands == [array, *store.operands[2:]]
    if not (is_load(start.op) or is_zero(start) and begins.op is not None and begins.op.name == "fill"
            and is_zero(begins.op.operands[0])):
        return None
    others = {store, known.next.op, latch.term.operands[0].op}
    ops = [op for op in ops_of(columns.blocks - sums.blocks) if not op.edges and op.name != "const"]
    return {left: begins} if all(op in others or is_load(op) for op in ops) else None


def _drop(loop: Loop, trip: Value, unchanged: dict[Value, Value]) -> bool:
    """Drop the test of ``trip`` ahead of a loop, if the way around passes the same; returns True if so.

    ``unchanged``: what the values are that the loop leaves, if ``trip`` is 0.
    """
    assert loop.preheader is not None
    block, ways = loop.preheader, [_passed(loop.exit_edge(), unchanged)]
    while all(op.name in ("const", "lt", "le") or _passes_for_none(op, trip) for op in block.ops):
        sources = _sources(block)
        guard = sources[0] if len(sources) == 1 else None
        if guard is None or guard.term is None or guard.term.name != "branch" or \
                guard.term.edges[0].block is not block:
            return False
        ways.append(_passed(guard.term.edges[1], {}))
        test = guard.term.operands[0].op
        if test is not None and test.name == "lt" and test.operands[0].const == 0 and test.operands[1] is trip:
            if any(way != ways[0] for way in ways):
                return False
            set_term(guard, "jump", [], [guard.term.edges[0]])
            return True
        block = guard
    return False


def _passes_for_none(op: Op, trip: Value) -> bool:
    """True for a check that the number of terms is not larger than an array, which holds if there is none."""
    test = op.operands[0].op if op.name == "check" else None
    return test is not None and test.name == "le" and test.operands[0] is trip and \
        test.operands[1].op is not None and test.operands[1].op.name == "dim"


def _sources(block: Block) -> list[Block]:
    return [b for b in block.func.blocks if block in b.successors()]


def _passed(edge: Edge, known: dict[Value, Value]) -> Passed:
    """Where control goes behind blocks that only pass values on, or store what is there, and what is passed there."""
    while len(_sources(edge.block)) == 1 and edge.block.term is not None and edge.block.term.name == "jump":
        known = {**known, **{p: known.get(a, a) for p, a in edge.passed() if a is not None}}
        if not all(_stores_again(op, known) for op in edge.block.ops):
            break
        edge = edge.block.term.edges[0]
    return edge.block, [known.get(a, a) for a in edge.args]


def _stores_again(op: Op, known: dict[Value, Value]) -> bool:
    """True if an op stores to an element what an op just ahead has stored there; ``known`` has what the values are."""
    array = known.get(op.operands[0], op.operands[0]) if op.name == "set" else None
    earlier = array.op if array is not None else None
    if array is None or earlier is None or earlier.name != "set" or \
            not all(map(same, earlier.operands[2:], op.operands[2:])):
        return False
    a, b = earlier.operands[1], known.get(op.operands[1], op.operands[1])
    known[op.result] = array
    return a is b or a.const is not None and repr(a.const) == repr(b.const)
