"""Stored elementwise results that one loop can compute together.

A *group* is a list of stored elementwise ops of one block over the same sizes.  It is emitted at its last member, in
one nest of loops in which each element is computed once, stored, and used by the members that follow.  So between its
first and its last member nothing else may read what they store or overwrite what they read; each member reads what
another one overwrites at its own place only.

That sizes are the same is known from the ops before in the block: operands of an elementwise op that are not
broadcast have the result's sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.graph import Block, Op, Value
from ..ir.ops import OPS
from ..ir.types import Array
from .alias import is_array
from .fusion import Plan

LIMIT = 16            # members, since each keeps pointers in registers


@dataclass
class _Group:
    """Roots ``read``, those of them read elsewhere than at the own place (``afar``), and roots ``written``."""

    members: list[Op] = field(default_factory=list)
    read: set[Value] = field(default_factory=set)
    afar: set[Value] = field(default_factory=set)
    written: set[Value] = field(default_factory=set)


class _Sizes:
    """Which arrays have equal sizes, as far as the ops seen so far say."""

    def __init__(self) -> None:
        self._same: dict[Value, Value] = {}

    def find(self, v: Value) -> Value:
        while v in self._same:
            v = self._same[v]
        return v

    def see(self, op: Op) -> None:
        if len(op.results) != 1 or not is_array(op.result):
            return
        definition = OPS[op.name]
        pointwise = definition.elementwise or op.name == "copy"
        alike = op.operands if pointwise else [op.operands[i] for i in definition.consumes]
        for v in alike:
            if same_axes(v, op.result) and self.find(v) is not self.find(op.result):
                self._same[self.find(v)] = self.find(op.result)


def same_axes(v: Value, w: Value) -> bool:
    """Whether two arrays have the same rank and the same axes of literal size 1."""
    a, b = v.type, w.type
    return isinstance(a, Array) and isinstance(b, Array) and a.rank == b.rank and \
        all((x == 1) == (y == 1) for x, y in zip(a.dims, b.dims))


def find_groups(plan: Plan, block: Block) -> None:
    """Enter the groups of ``block`` into ``plan``."""
    sizes = _Sizes()
    groups: list[_Group] = []
    for op in block.all_ops():
        sizes.see(op)
        if op in plan.deferred or (op.results and op.results[0] in plan.lazy):
            continue
        home = _join(plan, sizes, groups, op) if _is_member(plan, op) else None
        groups = [g for g in groups if g is home or not _must_close(plan, g, op)]
        if home is None and _is_member(plan, op):
            groups.append(_add(plan, _Group(), op))


def _is_member(plan: Plan, op: Op) -> bool:
    if not op.results or not is_array(op.results[0]) or op.name == "stop":
        return False
    return OPS[op.name].elementwise and op.results[0] not in plan.accumulate


def _join(plan: Plan, sizes: _Sizes, groups: list[_Group], op: Op) -> _Group | None:
    """Add ``op`` to the group that can take it."""
    afar = {plan.roots.find(v) for v in _far_reads(plan, op)}
    target = plan.reuse.get(op.result)
    for g in groups:
        fits = len(g.members) < LIMIT and sizes.find(g.members[0].result) is sizes.find(op.result)
        if fits and not afar & g.written and not (target is not None and plan.roots.find(target) in g.afar):
            _add(plan, g, op)
            return g
    return None


def _add(plan: Plan, g: _Group, op: Op) -> _Group:
    find = plan.roots.find
    g.members.append(op)
    plan.groups[op] = g.members
    g.read |= {find(v) for v in plan.reads(op)}
    g.afar |= {find(v) for v in _far_reads(plan, op)}
    g.written.add(find(op.result))
    return g


def _must_close(plan: Plan, g: _Group, op: Op) -> bool:
    """Whether ``op``, which is not a member, must find the group done."""
    find = plan.roots.find
    definition = OPS.get(op.name)
    gone = {find(op.operands[i]) for i in (definition.consumes if definition else ()) if is_array(op.operands[i])}
    if op.results and op.results[0] in plan.reuse:
        gone.add(find(plan.reuse[op.results[0]]))
    return any(find(v) in g.written for v in plan.reads(op)) or bool(gone & (g.read | g.written))


def _far_reads(plan: Plan, op: Op) -> set[Value]:
    """The stored arrays that ``op`` reads elsewhere than at its own place."""
    out: set[Value] = set()
    for v in filter(is_array, op.operands):
        here, inner = same_axes(v, op.result), v.op if v in plan.lazy else None
        if here and inner is not None and (OPS[inner.name].elementwise or inner.name == "copy"):
            out |= _far_reads(plan, inner)
        elif not here or inner is not None:
            out |= set(plan.leaves(v))
    return out
