"""Loops that stack the values of their iterations: ``np.stack([f(i) for i in range(n)])``.

Such a loop changes none of the user's variables, so it is emitted directly, with a header that carries only the stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Block, Value
from ...ir.types import I64, dims_of, dtype_of
from ..values.protocol import Trace
from ..values.values import Edge


def stacked(t: Trace, n: Value, body: Callable[[Value], Sequence[Value]],
            start: Callable[[Sequence[Value]], Sequence[Value]], empty: str,
            keep: Callable[[], Value] | None = None) -> list[Value]:
    """For each value that ``body(it)`` returns, an array of the values of all iterations.

    ``start``, emitted before the loop, makes the arrays for the values that ``body`` returned.  ``empty`` is the error
    for ``n == 0`` if ``body`` never completes.  ``keep``, called after ``body``, tells whether its values are wanted.
    With it, the wanted values come first in the arrays, and their number is the first result.
    """
    b, entry = t.builder, t.here()
    header, inside, after = (t.func.new_block(name) for name in ("loop", "body", "exit"))
    it = header.add_param(I64, "it")
    place = it if keep is None else header.add_param(I64, "place")
    b.at(header)
    b.branch(b.lt(it, n), inside, [], after, [])
    t.enter(Edge(inside, dict(entry.state)))
    found: list[Sequence[Value]] = []
    t.depth += 1
    try:
        t.survives(lambda: found.append(body(it)))
    finally:
        t.depth -= 1
    back = t.here() if found else None
    with t.on(entry):
        starts = start(found[0]) if found else []
        b.jump(header, [b.const(0)] * (1 if keep is None else 2) + [*starts])
    stacks = [header.add_param(s.type, "stacked") for s in starts]
    if back is not None:
        with t.on(back):
            following = [b.add(it, 1)] if keep is None else [b.add(it, 1), b.select(keep(), b.add(place, 1), place)]
            b.jump(header, [*following, *(put(t, s, v, place) for s, v in zip(stacks, found[0]))])
    t.enter(Edge(after, entry.state))
    if back is None:
        t.raise_("ValueError", empty)
    return stacks if keep is None else [place, *stacks]


def nested(t: Trace, counts: Sequence[Value], enter: Callable[[int, Value], None],
           body: Callable[[], Value]) -> Value | None:
    """``np.array([[body() for … in range(counts[1])] for … in range(counts[0])])``; None if ``body`` never completes.

    ``enter(k, it)`` is called where an iteration of loop number ``k`` begins.
    """
    b, entry = t.builder, t.here()
    headers: list[Block] = []
    starts: list[Edge] = []                          # the block before each header
    exits: list[Block] = []
    depth = t.depth
    for k, n in enumerate(counts):
        header, inside, leave = (t.func.new_block(name) for name in ("loop", "body", "exit"))
        starts.append(t.here())
        it = header.add_param(I64, "it")
        b.at(header)
        b.branch(b.lt(it, n), inside, [], leave, [])
        t.enter(Edge(inside, dict(t.state)))
        headers.append(header)
        exits.append(leave)
        t.depth += 1
        enter(k, it)
    found: list[Value] = []
    t.survives(lambda: found.append(body()))
    t.depth = depth
    if not found:
        return None
    back, places = t.here(), [h.params[0] for h in headers]
    with t.on(entry):
        stack = b.empty(*counts, dtype=dtype_of(found[0].type))
    stacks = [h.add_param(stack.type, "stacked") for h in headers]
    for start, header, given in zip(starts, headers, [stack, *stacks]):
        with t.on(start):
            b.jump(header, [b.const(0), given])
    with t.on(back):
        b.jump(headers[-1], [b.add(places[-1], 1), b.set(stacks[-1], found[0], *places)])
    for k in range(len(counts) - 1, 0, -1):
        with t.on(Edge(exits[k], entry.state)):
            b.jump(headers[k - 1], [b.add(places[k - 1], 1), stacks[k]])
    t.enter(Edge(exits[0], entry.state))
    return stacks[0]


def put(t: Trace, stack: Value, v: Value, it: Value) -> Value:
    """The stack with element ``it`` set to ``v``; a value that is carried but not stacked replaces the previous one."""
    if len(dims_of(stack.type)) == len(dims_of(v.type)):
        return t.builder.typed(v, stack.type)
    return t.builder.set(stack, v, it)


def room(t: Trace, n: Value, v: Value, sizes: Sequence[Value]) -> Value:
    """An uninitialised array for ``n`` values like ``v``, whose sizes are ``sizes``."""
    return t.builder.empty(n, *sizes, dtype=dtype_of(v.type))
