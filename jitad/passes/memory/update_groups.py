"""Finds the groups of elements that a loop reaches one after another: see ``neighbour_updates``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.expression_keys import same
from ...ir.graph import Op, Value
from ...ir.types import Array, Scalar
from ...ir.uses import ops_of, users
from ..analysis.affine import Affine, AffineForms
from ..analysis.loops import Counted, Loop, LoopForest, counted

FARTHEST = 8
"""The largest distance of two elements of a group, in iterations."""
MOST = 10
"""The most values that a loop carries for one group; they are to stay in registers."""
LARGEST = 2**31
"""Bound of the step of an index and of its constant.  An index in bounds then cannot return to an element by wrapping.
"""

Forms = list[Affine]


@dataclass
class Group:
    """Additions to elements that a loop reaches one after another; one op may be a ``set``.

    ``members``: each op with its position, in the order of execution.  In iteration ``k``, an op of position ``m``
    updates element ``k + m`` of the sequence.  ``reads``: loads that reach an element last, at the position ``read``.
    """

    step: list[int]
    first: Forms
    members: list[tuple[Op, int]]
    reads: list[Op] = field(default_factory=list)
    read: int = 0

    @property
    def is_free(self) -> bool:
        """True if all members are additions, in any order: what is pending for an element is one value."""
        return all(op.name == "add_at" and op.attrs.get("acc") for op, _ in self.members)

    @property
    def last(self) -> int:
        """The position of the ops that reach an element for the last time."""
        return self.read if self.reads else min(m for _, m in self.members)

    @property
    def reached(self) -> int:
        """The position of the ops that reach an element first."""
        return max(m for _, m in self.members)

    def pending(self) -> list[tuple[Op, int]]:
        """Each op with the number of iterations for which its value waits, those that wait longest first."""
        return sorted(((op, m - self.last) for op, m in self.members), key=lambda pair: -pair[1])


def groups_of(forest: LoopForest, loop: Loop, known: Counted, p: Value, last: bool) -> list[Group]:
    """The groups of additions to ``p`` that are to be rewritten; empty if the loop accesses ``p`` otherwise."""
    if not isinstance(p.type, Array):
        return []
    chain, reads = _chain(forest, loop, p)
    groups: list[Group] = []
    forms = AffineForms()
    for op in chain:
        index = [forms.of(v) for v in op.operands[2:]]
        step = [f.coefficient(known.iv) for f in index]
        if not _is_regular(index, step, loop, known):
            return []
        for group in groups:
            distance = _distance(group, index, step)
            if distance is not None:
                group.members.append((op, distance))
                break
        else:
            groups.append(Group(step, index, [(op, 0)]))
    read_last = _read_last(forest, loop, groups, reads, forms, lanes=last) and _pays(groups[0])
    if last or read_last:
        return groups if read_last else []
    for group in groups:
        group.reads = []
    if reads or any(op.name == "set" for op in chain):
        others = [group for group in groups if all(op.name == "set" for op, _ in group.members)]
        groups = [group for group in groups if group not in others]
        if others and all(_is_apart(group, others, reads, known, forms) for group in groups):
            chain = [op for group in groups for op, _ in group.members]
        elif others or not _overwrites_first(groups, reads, forms) or _may_raise(loop):
            return []
    if len(groups) > 1 and not all(op.attrs.get("acc") for op in chain):
        return []
    return [group for group in groups if _pays(group)]


def _is_apart(group: Group, others: Sequence[Group], reads: Sequence[Op], known: Counted, forms: AffineForms) -> bool:
    """True if an index that does not change keeps a group apart from all elements that are read or overwritten.

    An example is the adjoint of ``u[t + 1, i] = f(u[t, i], u[t, i - 1])``, in a loop over ``i``.
    """
    def differ(f: Affine, g: Affine) -> bool:
        ahead = f.minus(g)
        return not ahead.terms and 0 < abs(ahead.constant) < LARGEST and not f.coefficient(known.iv)

    elements = [*(other.first for other in others), *([forms.of(v) for v in op.operands[1:]] for op in reads)]
    return not any(op.name == "set" for op, _ in group.members) and all(
        any(map(differ, group.first, element)) for element in elements)


def _read_last(forest: LoopForest, loop: Loop, groups: Sequence[Group], reads: Sequence[Op],
               forms: AffineForms, lanes: bool) -> bool:
    """True if there is one group, and its elements are read, and maybe overwritten, where they are reached last.

    Enters the reads in the group.  For ``lanes``, iterations of the loop around must have elements of their own.
    """
    around = counted(loop.parent) if loop.parent is not None else None
    if len(groups) != 1 or not reads or lanes and around is None:
        return False
    group, = groups
    first, end = reads[0], group.members[-1][0]
    sets = [op for op, _ in group.members if op.name == "set"]
    at = _distance(group, [forms.of(v) for v in first.operands[1:]], group.step)
    if at is None or not all(isinstance(op.result.type, Scalar) and op.block is first.block and all(map(
            same, op.operands, first.operands)) for op in reads):
        return False
    if len(sets) > 1 or not all(_comes_first(forest, first, op) for op in (*sets, end)) or any(
            m != at if op in sets else m <= at for op, m in group.members):
        return False
    if lanes and around is not None and not any(
            s == 0 and f.coefficient(around.iv) for f, s in zip(group.first, group.step)):
        return False
    group.reads, group.read = list(reads), at
    return True


def _comes_first(forest: LoopForest, op: Op, other: Op) -> bool:
    """True if ``op`` is executed before ``other``."""
    assert op.block is not None and other.block is not None
    if op.block is other.block:
        return op.block.ops.index(op) < op.block.ops.index(other)
    return forest.dom.dominates(op.block, other.block)


def _overwrites_first(groups: Sequence[Group], reads: Sequence[Op], forms: AffineForms) -> bool:
    """True if an element is read and overwritten only where it is reached first, and then added to."""
    if len(groups) != 1:
        return False
    group = groups[0]
    overwrites, *others = [op for op, m in group.members if m == group.reached]
    if overwrites.name != "set" or not others or sum(op.name == "set" for op, _ in group.members) != 1:
        return False
    before = {op.operands[0] for op, _ in group.members[:group.members.index((overwrites, group.reached)) + 1]}
    return all(op.operands[0] in before
               and _distance(group, [forms.of(v) for v in op.operands[1:]], group.step) == group.reached
               for op in reads)


def _may_raise(loop: Loop) -> bool:
    """True if the first iteration may raise before it reaches all elements: none may then be read before the loop."""
    return any(op.name in ("check", "call") for op in ops_of(loop.blocks)) or \
        any(s not in loop.blocks and s is not loop.exit for b in loop.blocks for s in b.successors())


def _chain(forest: LoopForest, loop: Loop, p: Value) -> tuple[list[Op], list[Op]]:
    """The updates of elements of ``p`` in each iteration, in order, and the loads; none if there is any other access.
    """
    readers = users(ops_of(loop.blocks))
    found: list[Op] = []
    reads: list[Op] = []
    v, end = p, loop.back_edge().argument(p)
    while v is not end:
        following = [op for op in readers.get(v, ()) if op.name not in ("dim", "get")]
        if len(following) != 1 or not _updates_always(forest, loop, following[0], v):
            return [], []
        reads += [op for op in readers[v] if op.name == "get"]
        found.append(following[0])
        v = following[0].result
    only_passed = all(op.name == "dim" or loop.latch is not None and op is loop.latch.term for op in readers[v])
    return (found, reads) if only_passed and _is_passed_once(loop, v) else ([], [])


def _updates_always(forest: LoopForest, loop: Loop, op: Op, v: Value) -> bool:
    """True if ``op`` adds a scalar to an element of ``v`` in each iteration, or overwrites one."""
    assert op.block is not None and loop.latch is not None and isinstance(v.type, Array)
    if op.name not in ("add_at", "set") or op.operands[0] is not v or op.operands.count(v) != 1:
        return False
    return len(op.operands) == 2 + v.type.rank and forest.dom.dominates(op.block, loop.latch)


def _is_passed_once(loop: Loop, v: Value) -> bool:
    """True if the latch passes ``v`` to one parameter of the head, and to one behind the loop at most."""
    return loop.back_edge().args.count(v) == 1 and loop.exit_edge().args.count(v) <= 1


def _is_regular(index: Forms, step: Sequence[int], loop: Loop, known: Counted) -> bool:
    """True if the index moves by ``step`` in each iteration, and is known outside the loop but for the counter."""
    if not any(step) or any(abs(s) >= LARGEST for s in step):
        return False
    return all(abs(f.constant) < LARGEST and all(v is known.iv or v.block not in loop.blocks for v, _ in f.terms)
               for f in index)


def _distance(group: Group, index: Forms, step: Sequence[int]) -> int | None:
    """The number of iterations by which ``index`` is ahead of the group's first, or ``None`` if it is another's."""
    if list(step) != group.step:
        return None
    found: int | None = None
    for f, first, s in zip(index, group.first, step):
        ahead = f.minus(first)
        if ahead.terms or (ahead.constant if s == 0 else ahead.constant % s):
            return None
        if s:
            steps = ahead.constant // s
            if found not in (None, steps):
                return None
            found = steps
    return found


def _pays(group: Group) -> bool:
    delays = [delay for _, delay in group.pending()]
    carried = max(delays) if group.is_free else sum(delays)
    return 0 < max(delays) <= FARTHEST and carried <= MOST
