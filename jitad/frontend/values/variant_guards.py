"""Leaves of unions: nothing is known about the leaves of absent variants, not even their sizes.

A column of an absent variant may be undefined, or hold a value of another path.  So it is not checked, and its
derivative is zero; otherwise the derivative would flow to whatever the column holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.types import Array, Type, dtype_of

Tags = Sequence[tuple[Value, int]]              # tags and their required variants, outermost first


def presence(b: Builder, tags: Tags) -> Value | None:
    """The condition that a leaf is present, or None if it always is; an inner tag is read only if it is present."""
    there: Value | None = None
    for tag, variant in reversed(tags):
        test = b.eq(tag, variant)
        there = test if there is None else b.select(test, there, False)
    return there


def unless_absent(b: Builder, there: Value | None, condition: Value) -> Value:
    """``condition`` of a leaf if it is present, otherwise true."""
    return condition if there is None else b.select(there, condition, True)


def zeros(b: Builder, type: Type, shape: Sequence[Value]) -> Value:
    zero = b.const(0, dtype_of(type))
    return b.typed(b.fill(zero, *shape), type) if isinstance(type, Array) else zero


def zero_if_absent(b: Builder, there: Value | None, v: Value, type: Type, sizes: Callable[[], Sequence[Value]],
                   ) -> Value:
    """``v`` converted to this type; zero, with these sizes, if it is absent."""
    if there is None:
        return b.typed(v, type)
    if not isinstance(type, Array):
        return b.select(there, v, 0)
    present, absent, after = (b.func.new_block(name) for name in ("there", "absent", "after"))
    out = after.add_param(type)
    b.branch(there, present, [], absent, [])
    b.at(present)
    b.jump(after, [b.typed(v, type)])
    b.at(absent)
    b.jump(after, [zeros(b, type, sizes())])
    b.at(after)
    return out
