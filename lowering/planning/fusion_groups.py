"""Finds the elementwise results and reductions that one loop nest can compute together.

A *group* is a list of ops of one block over the same sizes: stored elementwise ops, elements of a vector at given
indices, reductions of whole arrays, and additions to parts of arrays whose order the compiler may choose
(``add_slice``, the adjoint of a slice).
A group is emitted at its last member, in one loop nest.  The nest computes each element once, stores it or adds it to
a partial result in a register, and uses it in the members that follow.  Therefore nothing else may read the group's
results or overwrite its operands between its first and its last member.  If one member overwrites an array, the
others may read it only at their own index.

The group neither reads the targets of its ``add_slice`` ops nor writes them in another way.  Parts that are added to
one array are likely to be disjoint (the gates of a recurrent cell, every second row); a run-time test decides.  Those
of a stencil are near each other, and overlap.

A member whose readers are all in the group is *passing*: it is computed and never stored.  A program and its gradient
then make one pass over memory: an element that both need is computed once and kept in a register.

Sizes are known to be equal from the preceding ops of the block: operands of an elementwise op that are not
broadcast have the result's sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import CONSUMING, ELEMENTWISE, OPS, size_origin
from ...ir.types import Array
from .fusion import POINTWISE, Plan
from .op_traits import is_called, is_gather, same_axes

LIMIT = 16            # members that may be stored; each keeps pointers in registers
LONGEST = 64          # members, since the time of LLVM's vectoriser is quadratic in a loop's length
PARTS = 8             # parts added; all pairs are compared at run time
REDUCTIONS = frozenset({"sum", "prod", "max", "min", "all", "any"})
ADDED = "add_slice"
PARTIAL = REDUCTIONS | {ADDED}
Readers = Mapping[Value, set[Op]]


@dataclass
class _Group:
    """The ops of a group and the roots that it accesses.

    ``read`` are the roots that are read, ``afar`` those read at another index than the member's own, and ``written``
    the roots that are written.  ``reduced`` are the results of reductions, and ``kept`` counts the members with readers
    that cannot join.  ``whole`` are the roots to which ``parts`` members add; they are in ``written`` as well.
    """

    members: list[Op] = field(default_factory=list)
    read: set[Value] = field(default_factory=set)
    afar: set[Value] = field(default_factory=set)
    written: set[Value] = field(default_factory=set)
    reduced: set[Value] = field(default_factory=set)
    kept: int = 0
    whole: set[Value] = field(default_factory=set)
    parts: int = 0


class _Sizes:
    """Equivalence classes of arrays with equal sizes, as far as the ops seen so far imply."""

    def __init__(self) -> None:
        self._same: dict[Value, Value] = {}
        self._made: dict[tuple[object, ...], Value] = {}             # the first array made with sizes that are operands

    def find(self, v: Value) -> Value:
        root = v
        while root in self._same:
            root = self._same[root]
        while v is not root:                            # later searches are short
            self._same[v], v = root, self._same[v]
        return root

    def see(self, op: Op) -> None:
        if len(op.results) != 1 or not is_array(result := op.results[0]):
            return
        assert isinstance(result.type, Array)
        dims = result.type.dims
        made = [size_origin(result, axis) if d is None else d for axis, d in enumerate(dims)]
        if all(isinstance(n, (int, Value)) for n in made):
            self._join(self._made.setdefault((*made, *(d == 1 for d in dims)), result), result)
        if op.name == "take" and is_gather(op):
            self._join(op.operands[1], result)
        for v in op.operands if op.name in POINTWISE else [op.operands[i] for i in OPS[op.name].consumes]:
            if same_axes(v, result):
                self._join(v, result)

    def _join(self, v: Value, other: Value) -> None:
        if (known := self.find(v)) is not (own := self.find(other)):
            self._same[known] = own


def shape_of(op: Op) -> Value:
    """The array over whose elements a member loops."""
    return op.operands[0] if op.name in REDUCTIONS else op.operands[1] if op.name == ADDED else op.result


def find_groups(plan: Plan, block: Block, readers: Readers) -> None:
    """Enter the groups of ``block`` into ``plan``; ``readers`` maps each stored array to the ops that read it."""
    sizes = _Sizes()
    every: list[_Group] = []
    groups: list[_Group] = []                        # the groups that are still open
    for op in block.all_ops():
        sizes.see(op)
        if groups:
            used = op.used()
            groups = [g for g in groups if not g.reduced or g.reduced.isdisjoint(used)]
        if op in plan.deferred or (op.results and op.results[0] in plan.lazy):
            continue
        member = _is_member(plan, op)
        home = _join(plan, sizes, groups, op, readers) if member else None
        if groups:
            gone, read = _roots_gone(plan, op), _roots(plan, plan.reads(op))
            groups = [g for g in groups
                      if g.members and not _is_full(g) and (g is home or not _must_close(g, gone, read))]
        if home is None and member:
            groups.append(_add(plan, _Group(), op, readers, _roots(plan, _far_reads(plan, op))))
            every.append(groups[-1])
    for g in every:
        _pass_on(plan, g, readers)


def readers_of(plan: Plan, func: Function) -> Readers:
    """Map each stored array to the ops that read it when they run."""
    out: dict[Value, set[Op]] = {}
    for op in func.all_ops():
        for v in plan.reads(op):
            out.setdefault(v, set()).add(op)
    return out


def _is_member(plan: Plan, op: Op) -> bool:
    if op.name in REDUCTIONS:
        return not is_array(op.result)
    if op.name == ADDED:
        return bool(op.attrs.get("acc")) and all(step.const is not None and step.const > 0
                                                 for step in op.operands[3::2])
    if not op.results or not is_array(op.results[0]) or op.name == "stop":
        return False
    if op.name == "take":
        return is_gather(op)
    return op.name in ELEMENTWISE and not is_called(op) and op.results[0] not in plan.accumulate


def _join(plan: Plan, sizes: _Sizes, groups: list[_Group], op: Op, readers: Readers) -> _Group | None:
    """Add ``op`` to the groups that accept it and merge these groups.

    Returns the group, or None if no group accepts ``op``.  The operands of ``op`` may belong to different groups, since
    only ``op`` shows that their sizes are the same.  Open groups do not access each other's operands or results.
    """
    if not groups:
        return None
    afar = _roots(plan, _far_reads(plan, op))
    target, over = plan.reuse.get(op.result), sizes.find(shape_of(op))
    home: _Group | None = None
    for g in groups:
        both = [g] if home is None else [g, home]
        parts = sum(x.parts for x in both)
        fits = sum(x.kept for x in both) < LIMIT and sum(len(x.members) for x in both) < LONGEST \
            and sizes.find(shape_of(g.members[0])) is over
        if not fits or afar & g.written or (target is not None and plan.roots.find(target) in g.afar | g.whole):
            continue
        if _mixes(plan, g, op) or parts >= PARTS or (parts and any(x.reduced for x in both)):
            continue
        home = _merge(plan, home, g) if home else g
    return _add(plan, home, op, readers, afar) if home else None


def _is_full(g: _Group) -> bool:
    return g.kept >= LIMIT or len(g.members) >= LONGEST


def _mixes(plan: Plan, g: _Group, op: Op) -> bool:
    """True if ``op``, once it joined, would read an array to which parts are added, or write it in another way.

    Also True for parts together with reductions.
    """
    if g.parts and op.name in REDUCTIONS:
        return True
    if op.name != ADDED:
        return bool(g.whole) and not g.whole.isdisjoint(_roots(plan, plan.reads(op)))
    read = _roots(plan, _reads(plan, op))
    if read & g.whole:
        return True
    whole = plan.roots.find(op.operands[0])
    if len(op.operands) == 4 and any(m.name == ADDED and is_near(op, m) for m in g.members
                                     if plan.roots.find(m.operands[0]) is whole):
        return True                                      # along one axis, the rims take as long as they save
    return bool(g.reduced) or whole in read | g.read | (g.written - g.whole)


NEAR = 8              # parts no further apart than this along each axis are those of a stencil


def is_near(op: Op, other: Op) -> bool:
    """True if two parts overlap unless they are smaller than a stencil, as far as is known of their starts."""
    part = op.operands[1].type
    if not isinstance(part, Array) or any(step.const != 1 for step in (*op.operands[3::2], *other.operands[3::2])):
        return False
    for x, y, extent in zip(op.operands[2::2], other.operands[2::2], part.dims):
        begin, end = _start(x), _start(y)
        if x is not y and (begin is None or end is None or abs(begin - end) >= (extent or NEAR)):
            return False
    return True


def _start(v: Value) -> int | None:
    """The start of a slice of a long axis, if it is known: ``a[2:]`` starts at the smaller one of 2 and the size."""
    least = v.op.operands if v.op is not None and v.op.name == "minimum" else [v]
    return next((int(x.const) for x in least if x.const is not None), None)


def _merge(plan: Plan, g: _Group, other: _Group) -> _Group:
    g.members += other.members
    plan.groups.update((op, g.members) for op in other.members)
    g.read, g.afar, g.written = g.read | other.read, g.afar | other.afar, g.written | other.written
    g.reduced |= other.reduced
    g.kept += other.kept
    g.whole |= other.whole
    g.parts += other.parts
    other.members = []
    return g


def _add(plan: Plan, g: _Group, op: Op, readers: Readers, afar: set[Value]) -> _Group:
    find = plan.roots.find
    g.members.append(op)
    plan.groups[op] = g.members
    g.read |= _roots(plan, _reads(plan, op))
    g.afar |= afar
    if op.name in REDUCTIONS:
        g.reduced.add(op.result)
    else:
        g.written.add(find(op.result))
    if op.name == ADDED:
        g.whole.add(find(op.result))
        g.parts += 1
    g.kept += op.name in PARTIAL or not all(_is_member(plan, r) for r in readers.get(op.result, ()))
    return g


def _pass_on(plan: Plan, g: _Group, readers: Readers) -> None:
    """Find the passing members of a complete group.

    A member that reuses the buffer of a passing member takes the buffer which that member would have reused.
    """
    within = set(g.members)
    for op in g.members:
        if op.name not in PARTIAL and readers.get(op.result, set()) <= within:
            plan.passing.add(op.result)
    for op in g.members:
        target = plan.reuse.get(op.result)
        while target in plan.passing:
            target = plan.reuse.get(target)
        if target is not None:
            plan.reuse[op.result] = target
        else:
            plan.reuse.pop(op.result, None)


def _must_close(g: _Group, gone: set[Value], read: set[Value]) -> bool:
    """True if an op that is not a member, which overwrites and reads these, needs the group to be complete before."""
    return not (g.written.isdisjoint(read) and g.written.isdisjoint(gone) and g.read.isdisjoint(gone))


def _roots_gone(plan: Plan, op: Op) -> set[Value]:
    """The roots of what ``op`` overwrites."""
    gone = [op.operands[i] for i in OPS[op.name].consumes] if op.name in CONSUMING else []
    if op.results and op.results[0] in plan.reuse:
        gone.append(plan.reuse[op.results[0]])
    return _roots(plan, filter(is_array, gone))


def _roots(plan: Plan, values: Iterable[Value]) -> set[Value]:
    return set(map(plan.roots.find, values))


def _reads(plan: Plan, op: Op) -> Sequence[Value]:
    """The arrays that ``op`` reads when it runs; for ``add_slice`` only those of the addend."""
    return plan.leaves(op.operands[1]) if op.name == ADDED else plan.reads(op)


def _far_reads(plan: Plan, op: Op, seen: set[Op] | None = None) -> set[Value]:
    """The stored arrays that ``op`` reads at another index than its own.  ``seen`` holds the ops already visited."""
    out: set[Value] = set()
    seen = set() if seen is None else seen
    if op in seen:
        return out
    seen.add(op)
    shape = shape_of(op)
    for v in op.operands[1:] if op.name == ADDED else op.operands:
        if not isinstance(v.type, Array):
            continue
        here, inner = same_axes(v, shape), v.op if v in plan.lazy else None
        here = here and not (op.name == "take" and v is op.operands[0])
        if here and inner is not None and inner.name in POINTWISE:
            out |= _far_reads(plan, inner, seen)
        elif not here or inner is not None:
            out.update(plan.leaves(v))
    return out
