"""Parts of arrays that ops read and write: ``a[i]``, ``a[i:j]``, ``a[i, j:k]``, ``a[i:j, k]``.

A part is read by ``get``, ``slice``, or ``slice`` of ``get``, possibly followed by a ``reshape`` that drops axes of
size 1.  It is written by ``set``, or by ``set_slice``, whose value has every axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from .evaluate.fold import same
from .graph import Op, Value


def unshaped(v: Value) -> tuple[Value, Sequence[Value] | None]:
    """The value that ``v`` reshapes, and the sizes that it has been given; None if there is no reshape."""
    shape = None
    while v.op is not None and v.op.name == "reshape":
        shape = shape or v.op.operands[1:]
        v = v.op.operands[0]
    return v, shape


def reads(v: Value, update: Op, shape: Sequence[Value] | None = None) -> bool:
    """True if ``v``, given the sizes ``shape``, is the part that the ``set`` or ``set_slice`` ``update`` overwrites."""
    array = update.operands[0]
    if update.name == "set":
        return v.op is not None and v.op.name == "get" and _all_same(v.op.operands, [array, *update.operands[2:]])
    v, own = unshaped(v)
    shape = shape or own
    if v.op is None or v.op.name != "slice":
        return False
    base, spec = v.op.operands[0], v.op.operands[1:]
    if shape is not None and not _all_same(_long(shape), _long(spec[1::3])):
        return False
    first: Sequence[Value] = []
    if base.op is not None and base.op.name == "get":
        base, *first = base.op.operands
    starts, steps = update.operands[2::2], update.operands[3::2]
    return (base is array and _all_same([*first, *spec[::3]], starts)
            and all(n.const == 1 for n in steps[:len(first)]) and _all_same(spec[2::3], steps[len(first):]))


def _all_same(xs: Sequence[Value], ys: Sequence[Value]) -> bool:
    return len(xs) == len(ys) and all(map(same, xs, ys))


def _long(sizes: Sequence[Value]) -> list[Value]:
    """The sizes other than 1.  A reshape between arrays with the same such sizes moves no element."""
    return [n for n in sizes if n.const != 1]
