"""Finds updates that may read the array which they write, since each element reads only what it then replaces.

``q[:, j] -= r * q[:, i]`` reads column ``i`` of the array that it updates.  Element ``k`` of the addend reads row
``k``, and is added in row ``k``.  So whatever the columns are, no element reads what another one writes, in any order,
and the addend need not be stored before.

In ``new = old.copy(); new[1:-1] = f(old[2:], old[:-2])`` the arrays may share memory as far as their classes tell, as
a time stepper carries both.  But ``new`` is made while ``old`` is still to be read, and is only updated in place since:
it is in memory of its own, and the addend may read ``old`` anywhere.

An *index map* of an array has for each axis a range (axis of the addend, start, step): the index along that axis is
``start + k * step`` for the index ``k`` of the addend along its axis.  ``None``: anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ir.aliasing.alias_classes import AliasClasses, is_array
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from .op_traits import inserts_ones

Range = tuple[int, Value | None, Value | None] | None
IndexMap = list[Range]
UPDATES = frozenset({"set", "add_at", "set_slice", "add_slice"})


def reads_own_places(site: Op, v: Value, lazy: Collection[Value], roots: AliasClasses) -> bool:
    """True if the update ``site`` may compute ``v``, with what is ``lazy``, from the array that it updates."""
    if site.name not in UPDATES or not is_array(site.operands[1]):
        return False
    target, wanted, before = site.operands[0], _written(site), _made_before(site)
    todo = [(site.operands[1], _identity(_rank(site.operands[1])))]
    seen = 0
    while todo:
        x, at = todo.pop()
        seen += 1
        if seen > LONGEST:
            return False
        if x is v or x in lazy or _is_view(x):
            todo += _operands(x, at)
        elif roots.same(x, target) and not (x is target and _covers(at, wanted)) and not before(x):
            return False
    return True


LONGEST = 64
"""The most arrays, and the most ops in a row, that are followed."""


def _made_before(site: Op) -> Callable[[Value], bool]:
    """Tells of a value that the site reads if it was made before the array that the site updates, by a copy."""
    made, block = site.operands[0].op, site.block
    while made is not None and made.block is block and made.name in UPDATES:
        made = made.operands[0].op
    if made is None or block is None or made.block is not block or made.name not in ("copy", "fill"):
        return lambda x: False
    since: set[Value] = set()
    for op in block.ops[block.ops.index(made):block.ops.index(site)][:LONGEST + 1]:
        since.update(op.results)
    return lambda x: len(since) <= LONGEST and x not in since


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
