"""Code sinking: costly operations that only one side of selections needs are executed where that side is chosen.

::

    x = exp a;  y = log b                          branch c, ^one, ^two
    p = not (y > 0)                        →     ^one:  x = exp a;  jump ^join(x, True)
    check (select c, True, p)                    ^two:  y = log b;  p = …;  jump ^join(y, p)
    z = select c, x, y                           ^join(z, q):  check q

``if_conversion`` makes selections of branches in loops around others, of which lanes may execute several iterations
together.  Where there are no lanes after all, both sides would be computed one number after another: the gradient of a
censored regression, whose sides are a square and the logarithm of a tail probability, took twice as long as with the
branch.

The *sides* of an op are those of a condition for which its result is read: one of them, or both.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ...ir.uses import ops_of, users
from ..analysis.cfg import is_pure, set_term
from ..analysis.loops import loop_forest

LEAST = 20
"""The least cost of a side: that of a mispredicted branch, half of the times."""
LARGEST = 200
"""The most ops of a block that is examined, once for each condition."""
BOTH = frozenset((1, 2))
Sides = frozenset[int]


def code_sinking(module: Module) -> bool:
    """Sink what can be sunk in loops around others, which will not become vectors; returns True if anything was."""
    changed = False
    for func in module.functions.values():
        forest = loop_forest(func)
        blocks = [b for b in forest.dom.order if (loop := forest.innermost.get(b)) is not None and loop.children
                  and len(b.ops) <= LARGEST and sum(OPS[op.name].cost for op in b.ops) >= LEAST]
        readers = users(ops_of(func.blocks)) if blocks else {}
        for block in blocks:
            for condition in dict.fromkeys(op.operands[0] for op in block.ops if _is_selection(op)):
                if isinstance(condition.type, Scalar) and (found := _Sinking(func, block, condition, readers)).pays():
                    found.run()
                    changed = True
                    break
    return changed


def _is_selection(op: Op) -> bool:
    return op.name == "select" and isinstance(op.result.type, Scalar)


def _is_ordered(op: Op) -> bool:
    """True for effects, and for ops on arrays: an element is read before it is replaced, or the array is copied."""
    return not is_pure(op) or not all(isinstance(v.type, Scalar) for v in (*op.operands, *op.results))


class _Sinking:
    """The sides of one condition for which each op of a block is needed; ``readers``: of the function's values."""

    def __init__(self, func: Function, block: Block, condition: Value, readers: dict[Value, list[Op]]) -> None:
        self.func, self.block, self.condition, self.readers = func, block, condition, readers
        self.ops = block.ops
        self.selections = {op for op in self.ops if _is_selection(op) and op.operands[0] is condition}
        self.sides = self._sides()

    def _sides(self) -> dict[Op, Sides]:
        """The sides of each op, so that an op of one side reads nothing that waits for the selections of both.

        A selection of what waits for another one is an op like others.
        """
        here = set(self.ops)
        pinned = set[Op]()
        while True:
            sides: dict[Op, Sides] = {}
            for op in reversed(self.ops):
                found: Sides = frozenset()
                if op in pinned or _is_ordered(op):
                    found = BOTH
                else:
                    for user in self.readers.get(op.result, ()):
                        found |= self._of_use(op.result, user, sides) if user in here else BOTH
                sides[op] = found
            late = self._late(sides) - self.selections
            wait = {op for op in self.ops if any(v.op in late for v in op.operands)}
            chosen = {op for op in self.selections & wait if not late.isdisjoint(v.op for v in op.operands[1:])}
            new = {op for op in wait - self.selections if len(sides[op]) == 1}
            if not chosen and not new - pinned:
                return sides
            pinned |= new
            self.selections -= chosen

    def _of_use(self, v: Value, user: Op, sides: dict[Op, Sides]) -> Sides:
        if user not in self.selections:
            return sides[user]
        found: Sides = frozenset()
        if user.operands[0] is v:
            found = BOTH
        for k in (1, 2):
            if user.operands[k] is v and k in sides[user]:
                found |= {k}
        return found

    def _late(self, sides: dict[Op, Sides]) -> set[Op]:
        """The ops behind the join: selections of both sides, what is computed from them, and effects that follow."""
        late, effects = set[Op](), False
        for op in self.ops:
            waits = op in self.selections or any(v.op in late for v in op.operands)
            if sides[op] == BOTH and (waits or effects and _is_ordered(op)):
                late.add(op)
                effects |= _is_ordered(op)
        return late

    def pays(self) -> bool:
        """True if a side has enough of its own."""
        cost = [sum(OPS[op.name].cost for op in self.ops if self.sides[op] == {k} and op not in self.selections)
                for k in (1, 2)]
        return max(cost) >= LEAST and self.condition.op not in self._late(self.sides)

    def run(self) -> None:
        block, late, term = self.block, self._late(self.sides), self.block.term
        assert term is not None
        join = self.func.new_block("join")
        joined = [op for op in self.ops if op in late and op in self.selections]
        merged = {op.result: join.add_param(op.result.type, op.result.hint) for op in joined}
        block.ops = [op for op in self.ops if self.sides[op] == BOTH and op not in late]
        sides = [self._side(k, join, joined) for k in (1, 2)]
        join.ops = [op for op in self.ops if op in late and op not in self.selections]
        for op in join.ops:
            op.block = join
        term.block, join.term, block.term = join, term, None
        set_term(block, "branch", [self.condition], [Edge(side, []) for side in sides])
        for op in joined:
            for user in self.readers.get(op.result, ()):
                user.replace_uses(merged)

    def _side(self, k: int, join: Block, joined: list[Op]) -> Block:
        """The block of a side, in which a selection is what it selects there."""
        side = self.func.new_block("then" if k == 1 else "else")
        values: dict[Value, Value] = {}
        for op in self.ops:
            if op in self.selections:
                v = op.operands[k]
                values[op.result] = values.get(v, v)
            elif self.sides[op] == {k}:
                op.replace_uses(values)
                op.block = side
                side.ops.append(op)
        Builder(side).jump(join, [values[op.result] for op in joined])
        return side
