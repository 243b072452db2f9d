"""Finds updates that may read the array which they write, since each element reads only what it then replaces.

``q[:, j] -= r * q[:, i]`` reads column ``i`` of the array that it updates.  Element ``k`` of the addend reads row
``k``, and is added in row ``k``.  So whatever the columns are, no element reads what another one writes, in any order,
and the addend need not be stored before.

An *index map* of an array has for each axis a range (axis of the addend, start, step): the index along that axis is
``start + k * step`` for the index ``k`` of the addend along its axis.  ``None``: anything.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.aliasing.alias_classes import AliasClasses, is_array
from ...ir.graph import Op, Value
from ...ir.ops import OPS, Memory
from ...ir.types import Array
from .op_traits import inserts_ones

Range = tuple[int, Value | None, Value | None] | None
IndexMap = list[Range]
UPDATES = frozenset({"set", "add_at", "set_slice", "add_slice"})


def reads_own_places(site: Op, v: Value, lazy: Collection[Value], roots: AliasClasses) -> bool:
    """True if the update ``site`` may compute ``v``, with what is ``lazy``, from the array that it updates."""
    if site.name not in UPDATES or not is_array(site.operands[1]):
        return False
    target, wanted = site.operands[0], _written(site)
    todo = [(site.operands[1], _identity(_rank(site.operands[1])))]
    seen = 0
    while todo:
        x, at = todo.pop()
        seen += 1
        if seen > LONGEST:
            return False
        if x is v or x in lazy or _is_view(x):
            todo += _operands(x, at)
        elif roots.same(x, target) and not is_apart(x, target) and not (x is target and _covers(at, wanted)):
            return False
    return True


def is_own_place(x: Value, site: Op) -> bool:
    """True for the part of an array that the update ``site`` replaces."""
    op = x.op
    if op is None or op.name != "slice" or op.operands[0] is not site.operands[0] or site.name not in UPDATES:
        return False
    return _covers([_within((k, None, None), *at) for k, at in enumerate(zip(op.operands[1::3], op.operands[3::3]))],
                   _written(site))


def is_apart(x: Value, target: Value) -> bool:
    """True if ``x`` and ``target`` lie in the memory of two arrays, though a loop may pass one for the other later.

    Either ``target`` is an update of a new array of this block, and ``x`` lies in memory that was there before; both
    are live, so they are two buffers.  Or they begin as two parameters of a block, which each edge passes two arrays.
    """
    start, old = _start(target), _start(x)
    if start.op is None:
        return old.op is None and _are_two(start, old, set())
    if OPS[start.op.name].memory is not Memory.NEW or start.block is not target.block:
        return False
    return old is not start and (old.op is None or OPS[old.op.name].memory is Memory.NEW)


def _are_two(a: Value, b: Value, assumed: set[frozenset[Value]]) -> bool:
    """True if two values that meet on an edge, or their two blocks' parameters, begin as arrays with memory each."""
    a, b = _start(a), _start(b)
    pair = frozenset((a, b))
    if a is b or pair in assumed:
        return a is not b
    if a.op is not None and b.op is not None:
        return all(v.op is not None and OPS[v.op.name].memory is Memory.NEW for v in pair)
    edges = a.block.func.predecessors()[a.block] if a.op is None and b.op is None and a.block is b.block else []
    assumed.add(pair)
    given = [(e.argument(a), e.argument(b)) for _, e in edges]
    return bool(edges) and all(p is not None and q is not None and _are_two(p, q, assumed) for p, q in given)


def _start(v: Value) -> Value:
    """The array of which ``v`` is a view, or an update."""
    while v.op is not None and OPS[v.op.name].memory in (Memory.PART, Memory.WHOLE, Memory.UPDATE):
        v = v.op.operands[0]
    return v


LONGEST = 64
"""The most arrays that are followed."""


def _rank(v: Value) -> int:
    assert isinstance(v.type, Array)
    return v.type.rank


def _anything(rank: int) -> IndexMap:
    return [None for _ in range(rank)]


def _identity(rank: int, first: int = 0) -> IndexMap:
    return [(first + k, None, None) for k in range(rank)]


def _written(site: Op) -> IndexMap:
    """The index map of what the update writes.  An axis along which the addend has one element may be anything."""
    t = site.operands[1].type
    assert isinstance(t, Array)
    if site.name in ("set", "add_at"):
        ranges = _anything(len(site.operands) - 2) + _identity(t.rank)
    else:
        ranges = [(k, s, step) for k, (s, step) in enumerate(zip(site.operands[2::2], site.operands[3::2]))]
    return [r if r is not None and t.dims[r[0]] != 1 else None for r in ranges]


def _covers(at: IndexMap, wanted: IndexMap) -> bool:
    """True if an element reads at its own place, along each axis along which it has one."""
    return all(w is None or r is not None and r[0] == w[0] and _is(r[1], w[1], 0) and _is(r[2], w[2], 1)
               for r, w in zip(at, wanted, strict=True))


def _is(v: Value | None, w: Value | None, default: int) -> bool:
    """True if two starts or steps are equal; ``default`` stands for ``None``."""
    if v is not None and v is w:
        return True
    a, b = (default if x is None else x.const for x in (v, w))
    return a is not None and a == b


def _is_view(v: Value) -> bool:
    return v.op is not None and OPS[v.op.name].view


def _operands(v: Value, at: IndexMap) -> list[tuple[Value, IndexMap]]:
    """The arrays from which ``v`` is computed, with their index maps."""
    op = v.op
    assert op is not None
    if OPS[op.name].elementwise or op.name == "copy":
        return [(o, _broadcast(o, v, at)) for o in op.operands if is_array(o)]
    source = op.operands[0] if op.operands else v
    if op.name == "slice":
        starts, steps = op.operands[1::3], op.operands[3::3]
        return [(source, [_within(r, s, t) for r, s, t in zip(at, starts, steps)])]
    if op.name == "get":
        return [(source, _anything(len(op.operands) - 1) + at)]
    if op.name == "reshape" and inserts_ones(op):
        return [(source, _without_ones(source, v, at))]
    return [(o, _anything(_rank(o))) for o in op.operands if is_array(o)]


def _broadcast(o: Value, v: Value, at: IndexMap) -> IndexMap:
    assert isinstance(o.type, Array) and isinstance(v.type, Array)
    skipped = v.type.rank - o.type.rank
    return [at[skipped + k] if d != 1 or v.type.dims[skipped + k] == 1 else None for k, d in enumerate(o.type.dims)]


def _within(r: Range, start: Value, step: Value) -> Range:
    return (r[0], start, step) if r is not None and r[1] is None and r[2] is None else None


def _without_ones(source: Value, v: Value, at: IndexMap) -> IndexMap:
    assert isinstance(source.type, Array) and isinstance(v.type, Array)
    ranges = [r for r, d in zip(at, v.type.dims) if d != 1]
    return [None if d == 1 else ranges.pop(0) for d in source.type.dims]
