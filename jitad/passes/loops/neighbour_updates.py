"""Accumulation into neighbouring elements: the last iteration that adds to an element loads and stores it, once.

The adjoint of a stencil adds to neighbours: ``g[i-1] += a; g[i] += b; g[i+1] += c``.  Each iteration then loads what
the one before has stored, which no vector can do.  If the loop does not access ``g`` otherwise, it carries the values
that are still to be added, and adds them where the element is reached for the last time::

    ^loop(i, g):                              ^loop(i, g, b1, c1, c2):            of the last two iterations
      g1 = add_at g, a, i-1                     x = get g, i-1
      g2 = add_at g1, b, i           becomes    g1 = set g, ((x + c2) + b1) + a, i-1
      g3 = add_at g2, c, i+1
      branch …, ^loop(i+1, g3)                  branch …, ^loop(i+1, g1, b, c, c1)

Behind the loop, the values that are left are added to the last elements.  LLVM vectorises a loop that carries values of
earlier iterations.  If ``g`` begins as zeros, ``zero_init_elimination`` then drops ``get g`` and the zeros.  Each
element receives the same values in the same order, so sums do not change.

The adjoint of a stencil that updates an array in place (``v[i] = f(v[i], v[i+1])``, a step of a binomial tree) reads
and clears each element where it is reached first.  What it then has is carried, too, and its place in memory is read
but not written until it is final::

    ^loop(i, g):                              ^loop(i, g, a1):                    downwards; first a1 = g[first + 1]
      x = get g, i
      g1 = set g, 0, i                          x = get g, i
      g2 = add_at g1, a, i           becomes    g1 = set g, a1 + b, i+1
      g3 = add_at g2, b, i+1
      branch …, ^loop(i-1, g3)                  branch …, ^loop(i-1, g1, a)

The adjoint of a recurrence in an array, ``x[i+1] = f(x[i])``, reads and clears each element where it is reached last,
and the iteration before has added to it.  Then only the read takes what is pending, and no iteration waits for a store.
As lanes need not wait either, these groups come before ``outer_loop``, the others behind it (``last``).

The elements that are added to form *groups*: those of a group are reached one after another, at constant distances in
iterations.  Rows ``i - 1`` and ``i + 1`` of a matrix are two groups.  With several groups, elements of one may be those
of another as well, so the order may change; then all additions must be ``acc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.graph import Edge, Module, Op, Value
from ...ir.types import Array, Scalar
from ...ir.uses import ops_of, users
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import resolve
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest

FARTHEST = 4
"""The largest distance of two elements of a group, in iterations."""
MOST = 8
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


def neighbour_updates(module: Module, last: bool = False) -> bool:
    """Rewrite the accumulations of every innermost counted loop; expects normal form.  True if there are any.

    ``last``: only groups whose elements are read where they are reached last.
    """
    changed = False
    for func in module.functions.values():
        if not any(op.name == "add_at" for op in func.all_ops()):
            continue
        forest = loop_forest(func)
        left = forest.open_loops()
        for loop in forest.loops:
            known = counted(loop)
            if known is None or loop.children or loop in left or loop.exit is None:
                continue
            if len(forest.dom.preds[loop.exit]) == 1 and (not last or loop.parent and loop.parent.children == [loop]):
                found = {p: _groups(forest, loop, known, p, last) for p in loop.head.params}
                if last and not _are_all(found, loop):
                    continue
                for p in found:
                    for group in found[p]:
                        _Delay(loop, known, p, group).run()
                        changed = True
    return changed


def _are_all(found: dict[Value, list[Group]], loop: Loop) -> bool:
    """True if a loop adds to no other elements, at which lanes would be refused."""
    members = {op for groups in found.values() for group in groups for op, _ in group.members}
    return all(op in members for op in ops_of(loop.blocks) if op.name == "add_at")


# --- finding groups -----------------------------------------------------------------------------------

def _groups(forest: LoopForest, loop: Loop, known: Counted, p: Value, last: bool) -> list[Group]:
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
    if last:
        return groups if _read_last(forest, loop, groups, reads, forms) and _pays(groups[0]) else []
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
               forms: AffineForms) -> bool:
    """True if there is one group, and its elements are read, and maybe overwritten, where they are reached last.

    Enters the reads in the group.  Iterations of the loop around must have elements of their own.
    """
    around = counted(loop.parent) if loop.parent is not None else None
    if len(groups) != 1 or not reads or around is None:
        return False
    group, = groups
    block, before, end = reads[0].block, reads[0].operands[0], group.members[-1][0]
    places = {_distance(group, [forms.of(v) for v in op.operands[1:]], group.step)
              if isinstance(op.result.type, Scalar) and op.operands[0] is before and op.block is block else None
              for op in reads}
    sets = [op for op, _ in group.members if op.name == "set"]
    if len(places) != 1 or None in places or len(sets) > 1 or \
            not all(_comes_first(forest, reads[0], op) for op in (*sets, end)) or \
            not any(s == 0 and f.coefficient(around.iv) for f, s in zip(group.first, group.step)):
        return False
    at, = places
    if any(m != at if op in sets else m <= at for op, m in group.members):
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
    return 0 < max(delays) <= FARTHEST and sum(delays) <= MOST


# --- rewriting ----------------------------------------------------------------------------------------

class _Delay:
    """Rewrites one group of updates of ``p``.

    ``overwrites``: what the group's ``set`` and the additions behind it give an element that is reached first, with
    its delay, or ``None``.  ``added``: the other values, each with its delay, those that wait longest first.
    ``carried``: the parameter of the head that has a value of some iterations ago.
    """

    def __init__(self, loop: Loop, known: Counted, p: Value, group: Group) -> None:
        self.loop, self.known, self.p, self.group = loop, known, p, group
        self.end = group.members[-1][0]
        self.attrs = next(op for op, _ in group.members if op.name == "add_at").attrs
        self.added = [(op.operands[1], delay) for op, delay in group.pending() if delay or not group.reads]
        self.delay = self.added[0][1]
        self.overwrites: Value | None = None
        if not group.reads and any(op.name == "set" for op, _ in group.members):
            first = [v for v, delay in self.added if delay == self.delay]
            self.overwrites, self.added = self._sum(first), self.added[len(first):]
        self.carried: dict[tuple[Value, int], Value] = {}

    def run(self) -> None:
        overwrites = [(self.overwrites, self.delay)] if self.overwrites is not None else []
        for v, delay in (*overwrites, *self.added):
            for age in range(1, delay + 1):
                self._carry(v, age)
        self._add_the_rest()
        if self.group.reads:
            self._add_where_read()
        else:
            self._add_here()

    def _sum(self, values: Sequence[Value]) -> Value:
        """The sum of ``values`` ahead of the last op; of a zero and others, the others."""
        b, tail = _at(self.end)
        total, *others = values if values[0].const != 0 else values[1:]
        for v in others:
            total = b.emit_op("add", [total, v], **self.attrs).result
        b.block.ops += [self.end, *tail]
        return total

    def _carry(self, v: Value, age: int) -> None:
        """Carry the value that ``v`` had ``age`` iterations ago."""
        if (v, age) in self.carried:
            return
        loop, start = self.loop, self._start(v, age)
        self.carried[v, age] = loop.head.add_param(v.type, v.hint)
        loop.entry_edge().args.append(start)
        loop.back_edge().args.append(self._aged(v, age - 1))

    def _start(self, v: Value, age: int) -> Value:
        """The value before the first iteration: a zero that changes no sum; if it overwrites, the element as it is."""
        preheader = self.loop.preheader
        assert preheader is not None and isinstance(v.type, Scalar)
        array = self.loop.entry_edge().argument(self.p)
        term, preheader.term = preheader.term, None
        b = Builder(preheader, self.end.loc)
        if v is self.overwrites:
            start = b.get(array, *self._index(b, self.group.reached - age))
        else:
            start = b.const(-0.0 if v.type.is_float else 0, v.type)
        preheader.term = term
        return start

    def _aged(self, v: Value, age: int) -> Value:
        return self.carried[v, age] if age else v

    def _add_here(self) -> None:
        """Add all values for the element that is reached for the last time, in place of the last op."""
        last, members, end = self.group.last, [op for op, _ in self.group.members], self.end
        index = next(op for op, m in self.group.members if m == last).operands[2:]
        b, tail = _at(end)
        total = b.get(end.operands[0], *index) if self.overwrites is None else self._aged(self.overwrites, self.delay)
        mapping = {end.result: b.set(end.operands[0], self._plus_pending(b, total), *index)}
        b.block.ops += tail
        self._replace(members[:-1], mapping)

    def _add_where_read(self) -> None:
        """Add all values to the element that is read; if nothing overwrites it, it is stored in place of the last op.
        """
        read, *others = self.group.reads
        array, *index = read.operands
        b, tail = _at(read)
        total = self._plus_pending(b, b.get(array, *index))
        b.block.ops += tail
        for op in others:
            b.block.ops.remove(op)
        mapping = {op.result: total for op in self.group.reads}
        adds = [op for op, _ in self.group.members if op.name == "add_at"]
        if len(adds) == len(self.group.members):
            b, tail = _at(self.end)
            mapping[self.end.result] = b.set(self.end.operands[0], total, *index)
            b.block.ops += tail
            adds.remove(self.end)
        self._replace(adds, mapping)

    def _plus_pending(self, b: Builder, total: Value) -> Value:
        for v, delay in self.added:
            total = b.emit_op("add", [total, self._aged(v, delay)], **self.attrs).result
        return total

    def _replace(self, updates: Sequence[Op], mapping: dict[Value, Value]) -> None:
        """Remove updates, and replace what is in ``mapping``."""
        for op in updates:
            assert op.block is not None
            op.block.ops.remove(op)
            mapping[op.result] = op.operands[0]
        for v in list(mapping):
            resolve(mapping, v)
        for op in ops_of(self.loop.blocks):
            op.replace_uses(mapping)

    def _add_the_rest(self) -> None:
        """Add, behind the loop, what is pending after the last iteration to the elements that it belongs to."""
        edge, end = self.loop.exit_edge(), self.loop.back_edge().argument(self.p)
        array = next((q for q, a in edge.passed() if a is end), None)
        if array is None:
            return                                           # nobody reads the array
        behind = edge.block
        b = Builder(behind, self.end.loc)
        ops, term, behind.ops, behind.term = behind.ops, behind.term, [], None
        given: dict[tuple[Value, int], Value] = {}
        new = behind.params[array.index] = Value(array.type, behind, array.index, array.hint)
        for k in range(1, self.delay + 1):
            index = self._index(b, self.group.last + k - 1, self.known.trip)
            if self.overwrites is not None:
                new = b.set(new, self._passed(edge, given, self.overwrites, self.delay - k), *index)
            for v, delay in self.added:
                if delay >= k:
                    value = self._passed(edge, given, v, delay - k)
                    new = b.emit_op("add_at", [new, value, *index], **self.attrs).result
        self._takes_place_of(array, new)
        behind.ops += ops
        behind.term = term

    def _passed(self, edge: Edge, given: dict[tuple[Value, int], Value], v: Value, age: int) -> Value:
        if (v, age) not in given:
            given[v, age] = edge.block.add_param(v.type, v.hint)
            edge.args.append(self._aged(v, age))
        return given[v, age]

    @staticmethod
    def _takes_place_of(array: Value, new: Value) -> None:
        """Make ``array`` the result of the last addition, so that its readers, anywhere, read the sum."""
        op = new.op
        assert op is not None
        op.results = [array]
        array.owner, array.index = op, 0

    def _index(self, b: Builder, position: int, iteration: Value | None = None) -> list[Value]:
        """The index of the element at ``position``, of the first iteration or of a given one."""
        found = []
        for form, step in zip(self.group.first, self.group.step):
            v = b.const(form.constant + step * position)
            moved = ((iteration, step),) if step and iteration is not None else ()
            for atom, c in (*form.without(self.known.iv).terms, *moved):
                v = b.add(v, b.mul(atom, c))
            found.append(v)
        return found


def _at(op: Op) -> tuple[Builder, list[Op]]:
    """A builder in the place of ``op``, and what comes behind it in its block, which is to be put back."""
    block = op.block
    assert block is not None
    at = block.ops.index(op)
    tail, block.ops = block.ops[at + 1:], block.ops[:at]
    return Builder(block, op.loc), tail
