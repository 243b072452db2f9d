"""Leaves of values of several kinds: of the variants that are not there nothing is known, not even a size.

A column of such a variant may be undefined, or hold whatever another path has left.  So nothing is checked of it, and
its derivative is zero: one that is not would go to what the column happens to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.graph import Value
from ...ir.types import Array, Type, dtype_of

Tags = Sequence[tuple[Value, int]]              # tags and the variants they have to tell, the outermost first


def presence(b: Builder, tags: Tags) -> Value | None:
    """Whether a leaf is there; ``None`` where it always is.  A tag within a variant is read where that is there."""
    there: Value | None = None
    for tag, variant in reversed(tags):
        test = b.eq(tag, variant)
        there = test if there is None else b.select(test, there, False)
    return there


def unless_absent(b: Builder, there: Value | None, condition: Value) -> Value:
    """``condition`` of a leaf, where it is there."""
    return condition if there is None else b.select(there, condition, True)


def zeros(b: Builder, type: Type, shape: Sequence[Value]) -> Value:
    zero = b.const(0, dtype_of(type))
    return b.typed(b.fill(zero, *shape), type) if isinstance(type, Array) else zero


def zero_if_absent(b: Builder, there: Value | None, v: Value, type: Type, sizes: Callable[[], Sequence[Value]],
                   ) -> Value:
    """``v`` as a value of this type; zero, and of these sizes, where it is not there."""
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
