"""Keys of expressions, for value numbering: ops without effects whose keys are equal compute the same results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from .graph import Op, Value
from .ops import OPS


def key(op: Op, operands: Sequence[Hashable] | None = None) -> Hashable:
    """The key of ``op``; ``operands``: what stands for its operands."""
    found = op.operands if operands is None else operands
    if op.name in _COMMUTATIVE:
        found = sorted(found, key=hash)
    return op.name, tuple(found), _frozen(op.attrs) if op.attrs else (), tuple([r.type for r in op.results])


_COMMUTATIVE = frozenset(name for name, op in OPS.items() if op.commutative)


def translated(op: Op, values: Mapping[Value, Value]) -> Hashable:
    """The key of ``op`` with other operands: those of ``values`` in place of its own.  Constants are equal by value."""
    operands = [values.get(v, v) for v in op.operands]
    return key(op, [v if v.const is None else (v.type, repr(v.const)) for v in operands])


def same(x: Value, y: Value) -> bool:
    """True for one value, or equal constants of one type."""
    return x is y or x.const is not None and x.const == y.const and x.type == y.type


def alike(x: Value, y: Value, depth: int = 6, equal: Callable[[Value, Value], bool | None] = lambda x, y: None) -> bool:
    """True if two values are computed alike from the same values, by at most ``depth`` ops one behind another.

    ``equal``: what is known of two values, instead of what computes them; None if that decides.
    """
    known = equal(x, y)
    if known is not None or x is y:
        return known is not False
    a, b = x.op, y.op
    if a is None or b is None or not depth or a.name != b.name or OPS[a.name].effect or len(a.results) != 1:
        return False
    return len(a.operands) == len(b.operands) and key(a, ()) == key(b, ()) and all(
        alike(v, w, depth - 1, equal) for v, w in zip(a.operands, b.operands))


def _frozen(attrs: Mapping[str, Any]) -> Hashable:
    if not attrs:
        return ()
    return tuple((k, type(v), repr(v) if isinstance(v, (float, list, dict)) else v) for k, v in sorted(attrs.items()))
