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
element receives the same values in the same order, so sums do not change.  If the order is free, what is pending for an
element is one value, ``b + c1`` instead of ``b`` and ``c1``: to carry a value is a shuffle in each vector.

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
As lanes need not wait either, these groups come before ``outer_loop`` if the iterations around have elements of their
own (``last``), all others behind it.

The elements that are added to form *groups*: those of a group are reached one after another, at constant distances in
iterations.  Rows ``i - 1`` and ``i + 1`` of a matrix are two groups.  With several groups, elements of one may be those
of another as well, so the order may change; then all additions must be ``acc``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.graph import Edge, Function, Module, Op, Value
from ...ir.types import Scalar
from ...ir.uses import ops_of
from ..analysis.cfg import resolve
from ..analysis.loops import Counted, Loop, counted, loop_forest
from ..analysis.vanishing import zero_iteration
from .update_groups import Group, groups_of


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
                found = {p: groups_of(forest, loop, known, p, last) for p in loop.head.params}
                if last and not _are_all(found, loop) or not last and _skips_zeros(func, loop, found):
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


def _skips_zeros(func: Function, loop: Loop, found: dict[Value, list[Group]]) -> bool:
    """True for a loop that cannot become vectors, as it reads what it has added, and whose cotangents are mostly zero.

    It skips the iterations (``zero_iterations``) that find a zero in the array, but not those that carry it.
    """
    return loop.latch is loop.head and any(group.reads for groups in found.values() for group in groups) \
        and zero_iteration(func, loop) is not None


# --- rewriting ----------------------------------------------------------------------------------------

class _Delay:
    """Rewrites one group of updates of ``p``.

    ``overwrites``: what the group's ``set`` and the additions behind it give an element that is reached first, with
    its delay, or ``None``.  ``added``: the other values, each with its delay, those that wait longest first.
    ``carried``: the parameter of the head that has a value of some iterations ago.  ``sums``: by delay, all that is
    pending for an element, if the order of additions is free.
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
        self.sums: dict[int, Value] = {}

    def run(self) -> None:
        overwrites = [(self.overwrites, self.delay)] if self.overwrites is not None else []
        if not overwrites and sum(delay for _, delay in self.added) > self.delay and all(
                op.attrs.get("acc") for op, _ in self.group.members if op.name == "add_at"):
            self._sum_pending()
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

    def _sum_pending(self) -> None:
        """Make what is pending for an element one value, which each iteration takes over and adds to."""
        pending: list[Value] = []
        b, tail = _at(self.end)
        for delay in range(self.delay, 0, -1):
            total, *others = [*(v for v, d in self.added if d == delay), *pending]
            for v in others:
                total = b.emit_op("add", [total, v], **self.attrs).result
            self.sums[delay] = total
            self._carry(total, 1)
            pending = [self._aged(total, 1)]
        b.block.ops += [self.end, *tail]
        self.added = [(self.sums[1], 1), *(pair for pair in self.added if not pair[1])]

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
            for v, delay in [(self.sums[k], k)] if self.sums else self.added:
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
        op.define(array)

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
