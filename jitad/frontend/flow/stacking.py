"""Loops that stack what their iterations yield: ``np.stack([f(i) for i in range(n)])``, each in its place.

Nothing that the user's variables hold changes in such a loop, so that it is emitted as it stands: a header that carries
the stacks alone.
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
    """For each value that ``body(it)`` yields an array with those of all iterations.

    ``start``, emitted before the loop, makes the arrays for what ``body`` yielded.  ``empty`` is the error for
    ``n == 0`` where ``body`` never comes to its end.  With ``keep``, which tells after ``body`` whether its values are
    wanted, the wanted ones come first in the arrays, and how many they are is the first result.
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
    """The stack with element ``it``; what is not stacked but handed on replaces what was there."""
    if len(dims_of(stack.type)) == len(dims_of(v.type)):
        return t.builder.typed(v, stack.type)
    return t.builder.set(stack, v, it)


def room(t: Trace, n: Value, v: Value, sizes: Sequence[Value]) -> Value:
    """An array for ``n`` values like ``v``, whose sizes are ``sizes``."""
    return t.builder.empty(n, *sizes, dtype=dtype_of(v.type))


