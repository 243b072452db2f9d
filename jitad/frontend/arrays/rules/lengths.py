"""Sizes of arrays as values, lengths of ranges, and checks that arrays fit in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ....ir.evaluate.fold import same
from ....ir.graph import Op, Value
from ....ir.ops import Axis, size_origin
from ....ir.types import F64, I64, dims_of
from ...values.values import Context

MOST = float(1 << 44)         # a limit on the number of elements, above every address space
_ARITHMETIC = frozenset(("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "select", "lt"))


def size(t: Context, v: Value, axis: int) -> Value:
    """``v.shape[axis]`` as one canonical value, so that equal sizes are the same value.

    The size is traced back to the array that it originates from, and read directly after the definition of that array.
    There it dominates every use, and precedes any op that consumes the array.
    """
    root = _size_root(t, v, axis)
    if isinstance(root, Value):
        return root
    v, axis = root
    dim = dims_of(v.type)[axis]
    if dim is not None:
        return t.builder.const(dim)
    if v.owner is None:                                     # a loop's predicted value, of which only the type is used
        return t.builder.emit("dim", v, axis=axis)
    return _read_at_birth(v, axis)


def _size_root(t: Context, v: Value, axis: int) -> Value | Axis:
    """The origin of a size: the size value itself, or an array and one of its axes.

    Origins are cached for each block, because ops already in the block do not change while it is being built.  Without
    the cache, each statement of a long chain would follow the whole chain.
    """
    block = t.builder.block
    if t.size_roots[0] is not block:
        t.size_roots = (block, {})
    known, way, at = t.size_roots[1], [], (v, axis)
    root: Value | Axis
    while True:
        origin = size_origin(*at) if at not in known and dims_of(at[0].type)[at[1]] is None else None
        if origin is None or isinstance(origin, Value):
            root = known.get(at, at) if origin is None else origin
            break
        way.append(at)
        at = origin
    known.update(dict.fromkeys([*way, at], root))
    return root


def _read_at_birth(v: Value, axis: int) -> Value:
    """The ``dim`` op directly after the definition of ``v``; inserts it if it does not exist."""
    ops = v.block.ops
    at = 0 if v.op is None else next(i for i in range(len(ops) - 1, -1, -1) if ops[i] is v.op) + 1
    while at < len(ops) and ops[at].name == "dim":
        if ops[at].operands[0] is v and ops[at].attrs["axis"] == axis:
            return ops[at].result
        at += 1
    op = Op("dim", [v], [I64], {"axis": axis}, loc=v.op.loc if v.op else v.block.func.loc)
    op.block = v.block
    ops.insert(at, op)
    return op.result


def sizes(t: Context, v: Value) -> list[Value]:
    """The shape of an array, or ``[]`` for a scalar."""
    return [size(t, v, i) for i in range(len(dims_of(v.type)))]


def count(t: Context, v: Value, axes: Sequence[int] | None = None) -> Value:
    """The number of elements along some axes (all axes by default)."""
    total = t.builder.const(1)
    for axis in range(len(dims_of(v.type))) if axes is None else axes:
        total = t.builder.mul(total, size(t, v, axis))
    return total


def equal_sizes(t: Context, x: Value, y: Value) -> Value | None:
    """The condition that two sizes are equal, or None if they are known to be."""
    return None if alike(x, y) else t.builder.eq(x, y)


def alike(x: Value, y: Value, depth: int = 6) -> bool:
    """True if two sizes are computed by the same ops from the same values."""
    if same(x, y):
        return True
    p, q = x.op, y.op
    if p is None or q is None or not depth or p.name != q.name or p.name not in _ARITHMETIC:
        return False
    return all(alike(u, v, depth - 1) for u, v in zip(p.operands, q.operands))


def none_or_one(n: Value) -> bool:
    """True if a size is known to be 0 or 1, but not which: that of ``a[:1]``, or of ``a[n:]`` for an ``a`` of one."""
    return n.const is None and _at_most_one(n)


def _at_most_one(n: Value) -> bool:
    if n.const is not None:
        return bool(n.const <= 1)
    if n.op is not None and n.op.name == "sub":
        return _at_most_one(n.op.operands[0]) and _not_negative(n.op.operands[1])
    if n.op is None or n.op.name not in ("minimum", "maximum"):
        return False
    return (any if n.op.name == "minimum" else all)(map(_at_most_one, n.op.operands))


def _not_negative(n: Value) -> bool:
    if n.const is not None:
        return bool(n.const >= 0)
    if n.op is None or n.op.name not in ("minimum", "maximum"):
        return False
    return (all if n.op.name == "minimum" else any)(map(_not_negative, n.op.operands))


# --- numbers of elements ---------------------------------------------------------------------------

def check_room(t: Context, sizes: Sequence[Value]) -> None:
    """Emits a ``MemoryError`` check for sizes beyond all memory; sizes of existing arrays are not checked."""
    if all(n.op is not None and n.op.name == "dim" or n.const is not None and 0 <= n.const < 1 << 20 for n in sizes):
        return
    e = t.builder
    shape = ", ".join(["{}"] * len(sizes)) + ("," if len(sizes) == 1 else "")
    named = sizes if len(sizes) <= 4 else ()
    message = "Unable to allocate an array" + (f" with shape ({shape})" if named else "")
    t.check(e.lt(true_product(t, sizes), MOST), "MemoryError", message, *named)


def true_product(t: Context, sizes: Sequence[Value]) -> Value:
    """The product of sizes as a float, which does not overflow."""
    return functools.reduce(t.builder.mul, [t.builder.cast(n, dtype=F64) for n in sizes])


def nonnegative(v: Value, depth: int = 4) -> bool:
    """True if an integer is provably at least 0."""
    if v.const is not None:
        return bool(v.const >= 0)
    op = v.op
    if op is None or not depth:
        return False
    if op.name == "dim":
        return True
    if op.name in ("add", "mul", "minimum", "select"):
        return all(nonnegative(o, depth - 1) for o in op.operands[op.name == "select":])
    if op.name == "maximum":
        return any(nonnegative(o, depth - 1) for o in op.operands)
    if op.name in ("mod", "floordiv"):
        divisor = op.operands[1].const
        return divisor is not None and divisor > 0 and (op.name == "mod" or nonnegative(op.operands[0], depth - 1))
    return False


def range_length(t: Context, lo: Value, hi: Value, by: Value) -> Value:
    """``len(range(lo, hi, by))``; ``by`` must not be 0."""
    e = t.builder
    if by.const == 1:
        steps = e.sub(hi, lo)
    else:
        steps = e.sub(0, e.floordiv(e.sub(lo, hi), by))
    return steps if nonnegative(steps) else e.maximum(steps, 0)
