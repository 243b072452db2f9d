"""Moves updates of array elements and additions to sums behind the join of a branch: see ``branch_accesses``.

Where the sides join, a parameter receives the array or the sum of either side.

* Both sides update the same element last, by the same op: the join updates it instead, with the value of the side.
* One side does: for the other, the join stores what the element has, or adds −0, which changes no number.  The index
  must be in bounds there too.  If the side has other updates that must stay there, it keeps all of them: a pile of sand
  that topples on its neighbours takes 1.4 times as long otherwise.
* Both sides add to a sum that the loop carries, or one does: the join adds, for the other side −0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Op, Value
from ...ir.types import Array, Scalar, is_float_scalar
from ..analysis.affine import AffineForms
from ..analysis.branches import Arms


def sink_updates(func: Function, branches: Sequence[Arms], safe: dict[Op, set[Block]], sums: Set[Arms]) -> bool:
    """Rewrite the joins of branches, inner ones first.  Returns True if there are any.

    ``safe``: for each update, the branching blocks ahead of which its index is known to be in bounds, so that the side
    that does not update the element may.  ``sums``: the branches from which additions to sums may move.
    """
    uses = Counter(v for op in func.all_ops() for v in op.used())
    found = [_Sink(arms, safe, uses, arms in sums).run() for arms in branches if not decides(arms)]
    return any(found)


def decides(arms: Arms) -> bool:
    """True if one side decides the branch of the join, as ``break`` does: it leads past the join (``jump_threading``).

    An update would keep it there, and a sum would wait for −0.
    """
    term = arms.join.term
    assert term is not None
    if term.name not in ("branch", "switch"):
        return False
    test = term.operands[0]
    tested = (test, *(test.op.operands if test.op is not None and test.block is arms.join else ()))
    return any(p in tested and a.const is not None for e in arms.sides for p, a in e.passed())


class _Sink:
    """Rewrites one join.  ``sides``: the edges into it.  ``uses``: the number of uses of each value.

    ``sums``: additions to sums move too.
    """

    def __init__(self, arms: Arms, safe: dict[Op, set[Block]], uses: Counter[Value], sums: bool) -> None:
        self.head, self.loop, self.between, self.join = arms.head, arms.loop, arms.between, arms.join
        self.sides, self.safe, self.uses, self.sums = arms.sides, safe, uses, sums
        self.forms = AffineForms()

    def run(self) -> bool:
        changed = False
        for p in list(self.join.params):
            made: list[Op] = []
            while (op := self._sink(p)) is not None:
                made.insert(0, op)
            if made:
                self._settle(p, made)
                changed = True
        return changed

    def _args(self, p: Value) -> list[Value]:
        return [e.args[p.index] for e in self.sides]

    def _sink(self, p: Value) -> Op | None:
        """Remove the last update of ``p`` from the sides; returns the op that takes its place, if there is any."""
        ops = [self._last(v) for v in self._args(p)]
        if isinstance(p.type, Scalar):
            return self._sink_sum(p, ops) if self.sums else None
        for k, op in enumerate(ops):
            other = ops[1 - k]
            if op is not None and other is not None and self._same_element(op, other):
                index = op.operands[2:] if all(map(self._is_above, op.operands[2:])) else other.operands[2:]
                if all(map(self._is_above, index)):
                    return self._joined(p, ops, [op.operands[1], other.operands[1]], index)
        for k, op in enumerate(ops):
            kept = self._args(p)[1 - k]
            may_sink = self._all_may_sink if self._is_above(kept) else self._may_sink
            if op is None or not may_sink(op):
                continue
            instead = self._unchanged(op, kept)
            if instead is not None:
                values = [op.operands[1], instead] if k == 0 else [instead, op.operands[1]]
                return self._joined(p, [op, None] if k == 0 else [None, op], values, op.operands[2:])
        return None

    def _may_sink(self, op: Op) -> bool:
        return self.head in self.safe.get(op, ()) and all(map(self._is_above, op.operands[2:]))

    def _all_may_sink(self, op: Op) -> bool:
        """True if no update is left on a side, where it would be a conditional access all the same."""
        last: Op | None = op
        while last is not None and self._may_sink(last):
            before = last.operands[0]
            last = self._last(before)
            if last is None:
                return self._is_above(before)
        return False

    def _last(self, v: Value) -> Op | None:
        """The op on a side that makes ``v``, if it updates an element or adds, and nothing else reads ``v``."""
        op = v.op
        if op is None or op.block not in self.between or self.uses[v] != 1:
            return None
        if isinstance(v.type, Array):
            element = op.name in ("set", "add_at") and len(op.operands) == 2 + v.type.rank
            return op if element and isinstance(op.operands[1].type, Scalar) else None
        return op if op.name in ("add", "sub") and is_float_scalar(v.type) else None

    def _same_element(self, op: Op, other: Op) -> bool:
        if op.name != other.name or op.attrs != other.attrs:
            return False
        return all(self.forms.of(x).is_same(self.forms.of(y)) for x, y in zip(op.operands[2:], other.operands[2:]))

    def _is_above(self, v: Value) -> bool:
        return v.block not in self.between

    def _unchanged(self, op: Op, array: Value) -> Value | None:
        """The value with which ``op`` does not change ``array``, made ahead of the branch."""
        assert isinstance(array.type, Array)
        if op.name == "add_at":
            return None if array.type.dtype.is_bool else self._constant(op, array.type.dtype)
        if not self._is_above(array):
            return None
        self.uses[array] += 1
        return self._ahead(op).get(array, *op.operands[2:])

    def _constant(self, op: Op, t: Scalar) -> Value:
        return self._ahead(op).const((-0.0 if op.name != "sub" else 0.0) if t.is_float else 0, t)

    def _ahead(self, op: Op) -> Builder:
        return Builder(self.head, op.loc)

    def _sink_sum(self, p: Value, ops: list[Op | None]) -> Op | None:
        """The same for a sum that the loop carries, which no other op reads."""
        args = self._args(p)
        for k, op in enumerate(ops):
            for i, s in enumerate(op.operands) if op is not None else ():
                if op is None or s.owner is not self.loop.head or self.uses[s] != 2 or (op.name == "sub" and i):
                    continue
                assert isinstance(s.type, Scalar)
                other = ops[1 - k]
                if args[1 - k] is s:
                    values = [op.operands[1 - i], self._constant(op, s.type)]
                elif other is not None and other.name == op.name and other.operands[i] is s and other.attrs == op.attrs:
                    values = [op.operands[1 - i], other.operands[1 - i]]
                else:
                    continue
                return self._joined(p, [op, other] if k == 0 else [other, op], values[::1 if k == 0 else -1], [], s)
        return None

    def _joined(self, p: Value, ops: list[Op | None], values: list[Value], index: list[Value],
                before: Value | None = None) -> Op:
        """Remove ``ops`` from their sides, and make one op of the values that the sides pass.

        ``before``: what they update, if it is not their first operand.
        """
        op = next(op for op in ops if op is not None)
        for edge, side, value in zip(self.sides, ops, values):
            if side is not None:
                assert side.block is not None
                edge.args[p.index] = before or side.operands[0]
                side.block.ops.remove(side)
            edge.args.append(value)
        v = self.join.add_param(values[0].type, values[0].hint)
        self.uses[v] = 1
        new = Op(op.name, [p, v, *index], [p.type], dict(op.attrs), loc=op.loc)
        new.block = self.join
        for side in ops:
            self.safe.setdefault(new, set()).update(self.safe.get(side, ()) if side is not None else ())
        self.uses.update(index)
        return new

    def _settle(self, p: Value, made: list[Op]) -> None:
        """Insert ``made``, the first of which updates what the sides pass; readers of ``p`` read the last."""
        index, args = p.index, self._args(p)
        start = self.join.params[index] = Value(p.type, self.join, index, p.hint)
        for op in made:
            op.operands[0], start = start, op.result
        made[-1].define(p)
        self.join.ops[:0] = made
        if args[0] is args[1]:
            made[0].operands[0] = args[0]
            self.join.remove_param(index)
            for e in self.sides:
                del e.args[index]

