"""Peels the first and the last iterations of innermost loops in which borders are treated apart.

::

    for j in range(n):                              the body with j = 0
        left = (j - 1) % n                          for j in range(1, n - 1):
        right = j + 1 if j < n - 1 else 0    →          left = j - 1;  right = j + 1;  …
        …                                           the body with j = n - 1

A condition, a clamped index or a remainder *turns* where its value, as a formula of the counter, changes.  If it turns
in the first or the last iterations only, the middle has the formula of the inside alone.  ``check_elimination`` runs
next and replaces it.  The middle loop then accesses neighbours and does not branch, and so does its derivative;
nothing about the borders has to be saved for it.

Each first copy leaves the loop if it was the last iteration::

    first copies → guard:  branch peeled < trip, ^preheader, ^skip
    ^preheader → ^loop → ^exit → ^after;  ^skip → ^after;  ^after → the last copy → what follows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import COMPARISONS, MIRRORED, OPS
from ...ir.types import I64, Array, Scalar
from ..analysis.affine import Affine, AffineForms, without_multiple
from ..analysis.cfg import landing, merge_chains, own_exit, set_term
from ..analysis.loops import MOST_FIRST, MOST_LAST, Counted, Loop, counted, loop_forest, raising_blocks

LARGEST = 100
"""The most ops of a loop, which is copied up to three times."""
SHORTEST = 6
"""The least constant trip count."""


@dataclass(frozen=True)
class Turns:
    """The numbers of iterations, at the start and at the end, in which a formula is not that of the inside."""

    first: int
    last: int

    def both(self, other: Turns) -> Turns:
        return Turns(max(self.first, other.first), max(self.last, other.last))


NOWHERE = Turns(0, 0)


def peel(module: Module) -> bool:
    """Peel every innermost loop that treats its borders apart; expects normal form.  Returns True if there was one."""
    peeled = False
    for func in module.functions.values():
        if any([_peel(func, loop) for loop in loop_forest(func).loops if not loop.children]):
            merge_chains(func)
            peeled = True
    return peeled


def _peel(func: Function, loop: Loop) -> bool:
    known = counted(loop) if loop.exit is not None else None
    if known is None or sum(len(b.ops) for b in loop.blocks) > LARGEST or _computes_arrays(loop) or \
            any(b.call for b in loop.blocks):
        return False
    if known.trip.const is not None and known.trip.const < SHORTEST:
        return False
    turns = NOWHERE
    for found in _Borders(loop, known).find():
        turns = turns.both(found)
    if turns == NOWHERE:
        return False
    _Peeling(func, loop, known).run(turns)
    return True


def _computes_arrays(loop: Loop) -> bool:
    """True if an iteration computes arrays, or parts of them: relative to that, a decision costs little.

    Windows of which a sum is made are left to ``scalarise``, which takes loops of one block.
    """
    made = {v for b in loop.blocks for op in b.ops for v in op.results
            if isinstance(v.type, Array) and op.name not in ("set", "add_at")}
    summed = {v for b in loop.blocks for op in b.ops if op.name == "sum" and isinstance(op.result.type, Scalar)
              for v in op.operands}
    inside = [op for b in loop.blocks for op in b.all_ops() if not made.isdisjoint(op.used())]
    return bool(made) and not (summed and all(map(_is_of_a_window, inside)))


def _is_of_a_window(op: Op) -> bool:
    """True for an op that may stand between a window and its sum."""
    return op.name in ("sum", "slice", "dim") or op.name in OPS and OPS[op.name].elementwise


class _Borders:
    """Finds where the formulas of one loop turn."""

    def __init__(self, loop: Loop, known: Counted) -> None:
        self.loop, self.known = loop, known
        self.forms = AffineForms()
        self.deciding = self._decisions()

    def find(self) -> Iterator[Turns]:
        """The turns of comparisons, clamped indices and remainders, for those that turn at a border only."""
        for b in self.loop.blocks:
            for op in b.ops:
                turns = self._turns(op)
                if turns is not None:
                    yield turns

    def _decisions(self) -> set[Op]:
        """The comparisons by which branches and selections decide.  Those of checks are tested before the loop."""
        todo = [op.operands[0] for b in self.loop.blocks for op in b.all_ops()
                if op.name == "select" or op.name == "branch" and b is not self.loop.latch]
        found: set[Op] = set()
        while todo:
            op = todo.pop().op
            if op is not None and op.block in self.loop.blocks and op not in found:
                found.add(op)
                todo += op.operands if op.name in ("and", "or", "not") else ()
        return found

    def _turns(self, op: Op) -> Turns | None:
        """The border at which the formula of an op turns; ``None`` if not, or not at a border."""
        if len(op.operands) != 2 or any(v.type != I64 for v in op.operands):
            return None
        x, y = map(self.forms.of, op.operands)
        if op.name in COMPARISONS:
            return self._turn(op.name, x.minus(y)) if op in self.deciding else None
        if op.name in ("maximum", "minimum"):                # if the operands are equal, either will do
            return self._turn("lt", x.minus(y)) or self._turn("le", x.minus(y))
        if op.name == "mod":
            x = without_multiple(x, y)
            low, high = self._turn("ge", x), self._turn("lt", x.minus(y))
            return low.both(high) if low is not None and high is not None else None
        return None

    def _turn(self, comparison: str, form: Affine) -> Turns | None:
        """The border at which the comparison of a form with 0 changes; ``None`` if it does not, or not at a border."""
        step, rest = form.coefficient(self.known.iv), form.without(self.known.iv)
        if not step or (rest.terms and step not in (1, -1)):
            return None
        name = comparison if step > 0 else MIRRORED[comparison]
        if not rest.terms:                                   # the comparison is one of the counter with a quotient
            quotient, between = divmod(-rest.constant if step > 0 else rest.constant, abs(step))
            if (first := quotient + (name not in ("lt", "ge") or between > 0)) <= MOST_FIRST:
                return Turns(max(first, 0), 0)
        if step not in (1, -1):
            return None
        at = rest.times(-step)                               # the comparison is one of the counter with ``at``
        from_end = at.minus(self.forms.of(self.known.trip))
        if not from_end.terms and (last := -from_end.constant - (name in ("le", "gt"))) <= MOST_LAST:
            return Turns(0, max(last, 0))
        return None


class _Peeling:
    """Peels one loop.  ``edge``: leads from what has been emitted to the next copy of the head."""

    def __init__(self, func: Function, loop: Loop, known: Counted) -> None:
        self.func, self.loop, self.known = func, loop, known
        forest = loop_forest(func)
        region = loop.region(raising_blocks(forest.dom))
        self.blocks = forest.dom.in_order(region)
        self.edge, self.back, self.leave = loop.entry_edge(), loop.back_edge(), loop.exit_edge()
        assert loop.latch is not None and loop.latch.term is not None
        self.latch, self.loc = loop.latch, loop.latch.term.loc

    def run(self, turns: Turns) -> None:
        copies = [self._copy() for _ in range(turns.first)]
        last = self._copy() if turns.last else None
        for copy, _ in copies:
            self._first(copy)
        if last is None:
            preheader = self._block("preheader")
            own_exit(self.func, self.latch, self.leave.block)
        else:
            preheader = self._middle(turns, *last)
        self._count(preheader, turns)

    def _copy(self) -> tuple[dict[Block, Block], dict[Value, Value]]:
        values: dict[Value, Value] = {}
        return clone_blocks(self.blocks, self.func, values), values

    def _first(self, copy: dict[Block, Block]) -> None:
        """Let the next iteration run in ``copy``, which leaves by itself if there is no other."""
        self.edge.block = copy[self.loop.head]
        term = copy[self.latch].term
        assert term is not None
        self.edge = next(e for e in term.edges if e.block is self.edge.block)
        landing(next(e for e in term.edges if e is not self.edge), self.func, "single")

    def _block(self, name: str) -> Block:
        """A block that enters the loop, at the end of ``edge``."""
        block = self.func.new_block(name)
        set_term(block, "jump", edges=[Edge(self.loop.head, list(self.edge.args))])
        self.edge.block, self.edge.args = block, []
        return block

    def _middle(self, turns: Turns, last: dict[Block, Block], values: dict[Value, Value]) -> Block:
        """Emit the guard of the middle loop, and the last iteration behind it; returns the new preheader."""
        head, iv, trip = self.loop.head, self.known.iv.index, self.known.trip
        guard, preheader, skip, leave, after = map(
            self.func.new_block, ("guard", "preheader", "skip", "exit", "after"))
        args = self.edge.args
        self.edge.block, self.edge.args = guard, []
        b = Builder(guard, self.loc)
        b.branch(b.lt(turns.first + turns.last, trip), preheader, [], skip, [])
        set_term(preheader, "jump", edges=[Edge(head, args)])
        carried = [p for p in head.params if p.index != iv]
        set_term(skip, "jump", edges=[Edge(after, [args[p.index] for p in carried])])
        left = [leave.add_param(p.type, p.hint) for p in carried]
        set_term(leave, "jump", edges=[Edge(after, list(left))])
        passed = [after.add_param(p.type, p.hint) for p in carried]
        b.at(after)
        passed.insert(iv, b.sub(trip, 1))
        b.jump(last[head], passed)
        set_term(last[self.latch], "jump", edges=[
            Edge(self.leave.block, [values.get(v, v) for v in self.leave.args])])
        self.leave.block, self.leave.args = leave, [self.back.args[p.index] for p in carried]
        return preheader

    def _count(self, preheader: Block, turns: Turns) -> None:
        """Let the loop, entered from ``preheader``, run without the iterations that are peeled."""
        iv, head, entry, test = self.known.iv, self.loop.head, preheader.term, self.latch.term
        assert entry is not None and test is not None
        preheader.term = self.latch.term = None
        b = Builder(preheader, self.loc)
        left = b.sub(self.known.trip, turns.first + turns.last)
        entry.edges[0].args[iv.index] = b.const(0)
        if turns.first:
            first = Op("const", (), [I64], {"value": turns.first, "type": I64}, loc=self.loc)
            number = Op("add", [iv, first.result], [I64], loc=self.loc)
            for op in (op for block in self.blocks for op in (*block.ops, *((block.term,) if block.term else ()))):
                op.replace_uses({iv: number.result})
            test.replace_uses({iv: number.result})
            first.block = number.block = head
            head.ops[:0] = [first, number]
        b.at(self.latch)
        self.back.args[iv.index] = following = b.add(iv, 1)
        test.operands = [b.lt(following, left)]
        preheader.term, self.latch.term = entry, test
