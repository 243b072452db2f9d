"""Loops that stack the values of their iterations: ``np.stack([f(i) for i in range(n)])``.

Such a loop changes none of the user's variables, so it is emitted directly, with a header that carries only the stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Value
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


def put(t: Trace, stack: Value, v: Value, it: Value) -> Value:
    """The stack with element ``it`` set to ``v``; a value that is carried but not stacked replaces the previous one."""
    if len(dims_of(stack.type)) == len(dims_of(v.type)):
        return t.builder.typed(v, stack.type)
    return t.builder.set(stack, v, it)


def room(t: Trace, n: Value, v: Value, sizes: Sequence[Value]) -> Value:
    """An uninitialised array for ``n`` values like ``v``, whose sizes are ``sizes``."""
    return t.builder.empty(n, *sizes, dtype=dtype_of(v.type))
