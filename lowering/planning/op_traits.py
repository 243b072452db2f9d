"""Access patterns of ops that compute one element alone: the elements of the operands that an element needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...ir.aliasing.alias_classes import is_array
from ...ir.evaluate.fold import fold, same
from ...ir.graph import Op, Value
from ...ir.ops import ELEMENTWISE, OPS
from ...ir.types import Array
from ...passes.analysis.cost import COLUMNS, INDEX_MAPS, LANES

ON_DEMAND = INDEX_MAPS | {"take", "copy"} | ELEMENTWISE
"""Ops of which one element can be computed alone, where it is read."""


def inserts_ones(op: Op) -> bool:
    """True if a reshape only adds or drops axes of literal size 1, so that indices map axis by axis."""
    source, target = op.operands[0], op.result
    assert isinstance(source.type, Array) and isinstance(target.type, Array)
    old = [i for i, d in enumerate(source.type.dims) if d != 1]
    new = [i for i, d in enumerate(target.type.dims) if d != 1]
    if len(old) != len(new):
        return False
    return len(old) <= 1 or all(is_size(op.operands[1 + j], source, i) for i, j in zip(old, new))


def is_size(v: Value, a: Value, axis: int) -> bool:
    """True if ``v`` is known to be the size of ``a`` along ``axis``."""
    assert isinstance(a.type, Array)
    if v.const is not None:
        return bool(v.const == a.type.dims[axis])
    if v.op is not None and v.op.name == "dim" and v.op.attrs["axis"] == axis and v.op.operands[0] is a:
        return True
    known = fold("dim", [a], {"axis": axis})
    return isinstance(known, Value) and same(known, v)


def is_contiguous(a: Value, starts: Sequence[Value], lengths: Sequence[Value], steps: Sequence[Value]) -> bool:
    """True if a slice of ``a`` is known to be contiguous: single rows, then a range of step 1, then full axes."""
    axes = list(zip(starts, lengths, steps))
    while axes and axes[0][1].const == 1:
        axes.pop(0)
    skipped = len(lengths) - len(axes)
    if axes and axes[0][2].const != 1:
        return False
    return all(start.const == 0 and step.const == 1 and is_size(length, a, skipped + axis)
               for axis, (start, length, step) in enumerate(axes) if axis > 0)


def exchanges(op: Op | None) -> bool:
    """True if ``op`` transposes the last two axes only.  A matrix product reads such an operand without a copy."""
    if op is None or op.name != "transpose":
        return False
    perm = list(op.attrs["perm"])
    return perm[:-2] == list(range(len(perm) - 2)) and perm[-2:] == [len(perm) - 1, len(perm) - 2]


def is_turned(op: Op) -> bool:
    """True for a copy of columns of a literal number of rows: it is transposed in registers (``column_blocks``)."""
    t = op.result.type
    if op.name != "copy" or not isinstance(t, Array):
        return False
    return exchanges(op.operands[0].op) and t.rank == 2 and t.dims[0] == COLUMNS and t.dims[1] in (LANES, LANES // 2)


def is_block(op: Op | None) -> bool:
    """True if ``op`` takes a block of a stored matrix: whole rows of it lie at equal distances.

    A product with a vector reads such an operand without a copy.
    """
    if op is None or op.name != "slice" or len(op.operands) != 7:
        return False
    base, steps = op.operands[0], op.operands[3::3]
    return (base.op is None or base.op.name not in ON_DEMAND) and all(step.const == 1 for step in steps)


def is_by_vector(op: Op) -> bool:
    """True for a product of a matrix and a vector."""
    return op.name == "matmul" and sorted(v.type.rank for v in op.operands if isinstance(v.type, Array)) == [1, 2]


def is_flat(lazy: Collection[Value], values: Iterable[Value], like: Array) -> bool:
    """True if the elements of ``values`` at a flat offset in an array of type ``like`` depend on that offset alone."""
    seen: set[Value] = set()
    todo = [*values]
    while todo:
        v = todo.pop()
        if v in seen or not isinstance(v.type, Array):
            continue
        seen.add(v)
        dims = v.type.dims
        if dims != like.dims and (
                len(dims) != len(like.dims) or any((a == 1) != (b == 1) for a, b in zip(dims, like.dims))):
            return False
        op = v.op
        if v not in lazy or op is None or op.name in ("fill", "iota"):
            continue
        if op.name == "as_type" or op.name == "copy" or OPS[op.name].elementwise:
            todo += op.operands
        elif op.name != "broadcast_to" or is_array(op.operands[0]):
            return False
    return True


def is_gather(op: Op) -> bool:
    """True for an op at an array of indices into one axis, so that each index is that of one element."""
    t = op.operands[0].type
    return op.name in ("take", "put", "add_put") and isinstance(t, Array) and t.rank == 1


def is_full(v: Value) -> bool:
    """True if ``v`` is an array with an element of its own at each index, which costs a load: no broadcast, no fill."""
    return is_array(v) and (v.op is None or v.op.name not in ("broadcast_to", "fill"))


def is_strided(v: Value) -> bool:
    """True if ``v`` is a part of an array, or has its axes in another order."""
    op = v.op
    while op is not None and op.name in ("reshape", "as_type"):
        op = op.operands[0].op
    return op is not None and op.name in ("slice", "transpose")


def is_called(op: Op) -> bool:
    """True for a function without a vector version, as ``lgamma``: the loop that calls it is not vectorised."""
    return op.name in _CALLED


_CALLED = frozenset(name for name, op in OPS.items() if op.transcendental and not op.vector)


def same_axes(v: Value, w: Value) -> bool:
    """True if two arrays have the same rank and the same axes of literal size 1."""
    a, b = v.type, w.type
    if not isinstance(a, Array) or not isinstance(b, Array):
        return False
    return a.dims == b.dims or len(a.dims) == len(b.dims) and all((x == 1) == (y == 1) for x, y in zip(a.dims, b.dims))


def is_transcendental(lazy: Collection[Value], op: Op) -> bool:
    """True if ``op``, or a lazy operand that is computed inside it, is a transcendental function."""
    seen, todo = {op}, [op]
    while todo:
        op = todo.pop()
        if OPS[op.name].transcendental:
            return True
        inner = {v.op for v in op.operands if v in lazy and v.op is not None} - seen
        seen |= inner
        todo += inner
    return False
