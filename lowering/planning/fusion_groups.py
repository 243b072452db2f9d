"""Elementwise results and reductions that one loop can compute together.

A *group* is a list of ops of one block over the same sizes: stored elementwise ops, reductions of whole arrays, and
parts that are added to arrays where the order is ours (``add_slice``, the adjoint of a slice).
It is emitted at its last member (``together``), in one nest of loops in which each element is computed once, stored or
added to a partial result in a register, and used by the members that follow.  So between its first and its last member
nothing else may read what they compute or overwrite what they read; each member reads what another one overwrites
at its own place only.

What parts are added to is neither read nor otherwise written by the group.  Parts that are added to one array most
likely lie side by side (the gates of a recurrent cell): that is tested when they are added.

A member whose readers are all in the group is *passing*: it is computed and never stored.  So a program and its
gradient make one pass over memory: what both need of an element is computed once and is in a register.

That sizes are the same is known from the ops before in the block: operands of an elementwise op that are not
broadcast have the result's sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from .alias import is_array
from .fusion import Plan

LIMIT = 16            # members that are stored or may be, since each keeps pointers in registers
PARTS = 8             # parts added, of which each two are compared
REDUCTIONS = frozenset({"sum", "prod", "max", "min", "all", "any"})
ADDED = "add_slice"
Readers = Mapping[Value, set[Op]]


@dataclass
class _Group:
    """Roots ``read``, those of them read elsewhere than at the own place (``afar``), and roots ``written``.

    ``reduced`` are the results of reductions, and ``kept`` is how many members have readers that cannot join.
    ``whole`` are the roots, which are written as well, to which ``parts`` members add.
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


def shape_of(op: Op) -> Value:
    """The array over whose elements a member loops."""
    return op.operands[0] if op.name in REDUCTIONS else op.operands[1] if op.name == ADDED else op.result


def find_groups(plan: Plan, block: Block, readers: Readers) -> None:
    """Enter the groups of ``block`` into ``plan``; ``readers`` tells which ops read each stored array."""
    sizes = _Sizes()
    every: list[_Group] = []
    groups: list[_Group] = []                        # those that can still take members
    for op in block.all_ops():
        sizes.see(op)
        groups = [g for g in groups if g.reduced.isdisjoint(op.used())]
        if op in plan.deferred or (op.results and op.results[0] in plan.lazy):
            continue
        member = _is_member(plan, op)
        home = _join(plan, sizes, groups, op, readers) if member else None
        groups = [g for g in groups if g is home or (g.members and not _must_close(plan, g, op))]
        if home is None and member:
            groups.append(_add(plan, _Group(), op, readers))
            every.append(groups[-1])
    for g in every:
        _pass_on(plan, g, readers)


def readers_of(plan: Plan, func: Function) -> Readers:
    """The ops that read each stored array when they run."""
    out: dict[Value, set[Op]] = {}
    for op in func.all_ops():
        for v in plan.reads(op):
            out.setdefault(v, set()).add(op)
    return out


def _is_member(plan: Plan, op: Op) -> bool:
    if op.name in REDUCTIONS:
        return not is_array(op.result)
    if op.name == ADDED:
        return bool(op.attrs.get("acc")) and all(step.const == 1 for step in op.operands[3::2])
    if not op.results or not is_array(op.results[0]) or op.name == "stop":
        return False
    return OPS[op.name].elementwise and op.results[0] not in plan.accumulate


def _join(plan: Plan, sizes: _Sizes, groups: list[_Group], op: Op, readers: Readers) -> _Group | None:
    """Add ``op`` to the groups that can take it, which become one.

    Its operands may be of different groups, until ``op`` says that their sizes are the same.  Groups that are open at
    the same time do not touch what the other one reads or computes.
    """
    afar = {plan.roots.find(v) for v in _far_reads(plan, op)}
    target, over = plan.reuse.get(op.result), sizes.find(shape_of(op))
    home: _Group | None = None
    for g in groups:
        both = [g] if home is None else [g, home]
        parts = sum(x.parts for x in both)
        fits = sum(x.kept for x in both) < LIMIT and sizes.find(shape_of(g.members[0])) is over
        if not fits or afar & g.written or (target is not None and plan.roots.find(target) in g.afar | g.whole):
            continue
        if _mixes(plan, g, op) or parts >= PARTS or (parts and any(x.reduced for x in both)):
            continue
        home = _merge(plan, home, g) if home else g
    return _add(plan, home, op, readers) if home else None


def _mixes(plan: Plan, g: _Group, op: Op) -> bool:
    """Whether an array to which parts are added would be read, or written in another way, if ``op`` joined.

    Parts do not go with reductions either, nor with those that overlap for all that is known: as in a stencil.
    """
    read = {plan.roots.find(v) for v in _reads(plan, op)}
    if read & g.whole or (g.parts and op.name in REDUCTIONS):
        return True
    if op.name != ADDED:
        return False
    whole = plan.roots.find(op.operands[0])
    others = [m for m in g.members if m.name == ADDED and plan.roots.find(m.operands[0]) is whole]
    return bool(g.reduced) or whole in read | g.read | (g.written - g.whole) or any(_near(op, m) for m in others)


def _near(op: Op, other: Op) -> bool:
    """Whether two parts begin at a known distance."""
    starts = zip(op.operands[2::2], other.operands[2::2])
    return all(x is y or (x.const is not None and y.const is not None) for x, y in starts)


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


def _add(plan: Plan, g: _Group, op: Op, readers: Readers) -> _Group:
    find = plan.roots.find
    g.members.append(op)
    plan.groups[op] = g.members
    g.read |= {find(v) for v in _reads(plan, op)}
    g.afar |= {find(v) for v in _far_reads(plan, op)}
    if op.name in REDUCTIONS:
        g.reduced.add(op.result)
    else:
        g.written.add(find(op.result))
    if op.name == ADDED:
        g.whole.add(find(op.result))
        g.parts += 1
    g.kept += op.name in (*REDUCTIONS, ADDED) or not all(_is_member(plan, r) for r in readers.get(op.result, ()))
    return g


def _pass_on(plan: Plan, g: _Group, readers: Readers) -> None:
    """Find the passing members of a group that is complete; what took over their buffers looks further back."""
    within = set(g.members)
    for op in g.members:
        if op.name not in (*REDUCTIONS, ADDED) and readers.get(op.result, set()) <= within:
            plan.passing.add(op.result)
    for op in g.members:
        target = plan.reuse.get(op.result)
        while target in plan.passing:
            target = plan.reuse.get(target)
        if target is not None:
            plan.reuse[op.result] = target
        else:
            plan.reuse.pop(op.result, None)


def _must_close(plan: Plan, g: _Group, op: Op) -> bool:
    """Whether ``op``, which is not a member, must find the group done."""
    find = plan.roots.find
    definition = OPS.get(op.name)
    gone = {find(op.operands[i]) for i in (definition.consumes if definition else ()) if is_array(op.operands[i])}
    if op.results and op.results[0] in plan.reuse:
        gone.add(find(plan.reuse[op.results[0]]))
    return any(find(v) in g.written for v in plan.reads(op)) or bool(gone & (g.read | g.written))


def _reads(plan: Plan, op: Op) -> Iterator[Value]:
    """What ``op`` reads when it runs; of an addition to a part, what is added."""
    return plan.leaves(op.operands[1]) if op.name == ADDED else plan.reads(op)


def _far_reads(plan: Plan, op: Op, seen: set[Op] | None = None) -> set[Value]:
    """The stored arrays that ``op`` reads elsewhere than at its own place; ``seen``: the ops looked at."""
    out: set[Value] = set()
    seen = set() if seen is None else seen
    if op in seen:
        return out
    seen.add(op)
    for v in filter(is_array, op.operands[1:] if op.name == ADDED else op.operands):
        here, inner = same_axes(v, shape_of(op)), v.op if v in plan.lazy else None
        if here and inner is not None and (OPS[inner.name].elementwise or inner.name == "copy"):
            out |= _far_reads(plan, inner, seen)
        elif not here or inner is not None:
            out |= set(plan.leaves(v))
    return out
