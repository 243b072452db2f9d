"""Finds loads, in loops, of elements that have their final value, so that the finished array can be read instead.

``l[i, k]`` with ``k < j`` in a factorisation that fills column ``j`` is final when it is read, and so is the part
``l[j:, :j]``.  The reverse sweep reads it again from the finished array, and it is not saved for each of the iterations
that read it (n³ numbers).  A load is a ``get`` or a ``slice``, or a ``slice`` of a ``get``.

Notation.  The *carrier* of an array is the outermost loop around the load that carries it from iteration to iteration;
its *names* are all values that it has there.  No write in the carrier may touch the loaded elements after the load.
That holds if, along one axis, the write's indices are at least ``g``, which does not decrease with the carrier's
counter, and the load's indices are below ``g``; or the same with above and below exchanged.

It also holds if it does so loop by loop: a factorisation that fills row ``i`` from left to right reads ``l[j, k]`` with
``j <= i`` and ``k < j``.  Later iterations of the carrier write to rows from ``i + 1`` on, which are above; those of
the loop inside, in row ``i`` again, write to columns from ``j`` on.  So for each loop around both, from the carrier
inwards, ``g`` of the next iteration must be above along some axis, and for the last one ``g`` of the same.  The last
condition is not needed for a write that precedes the load in each iteration: a factorisation that divides column ``k``
and then reads it, ``l[j:, j] -= l[j:, k] * l[j, k]``, writes to later columns from then on.

What holds along an axis may hold along a diagonal as well, the sum or the difference of two indices: a table of
intervals, filled from the short ones to the long ones, writes ``best[i, i + span]`` and reads ``best[i, k]`` and
``best[k, i + span]``, whose differences are less than ``span``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS, Memory
from ...ir.types import Array, is_float
from ...ir.uses import ops_of, users
from ..analysis.affine import Affine
from ..analysis.facts import Walk
from ..analysis.loops import Counted, Loop, LoopForest, counted

ELEMENTS, SLICES = frozenset(("set", "add_at")), frozenset(("set_slice", "add_slice"))
WRITES = ELEMENTS | SLICES
DEEP = 4
"""Recursion limit for trip counts that depend on the counters of enclosing loops."""


@dataclass(frozen=True)
class Carried:
    """An array that ``loop`` carries in parameter ``param`` of its head."""

    loop: Loop
    param: Value


Span = tuple[Affine | None, Affine | None]
"""The least and the greatest index along an axis or a diagonal; None if it is that of the axis, or is not known."""


def settled(func: Function, forest: LoopForest) -> dict[Op, Carried]:
    """Map the loads of floats whose elements are final to the array that holds them at the end."""
    if not forest.loops or not any(op.name in WRITES for op in func.all_ops()):
        return {}
    incoming: dict[Block, list[Edge]] = {b: [e for _, e in es] for b, es in func.predecessors().items()}
    found: dict[Op, Carried] = {}
    for block in func.blocks:
        for op in block.ops if forest.loop_of(block) is not None else ():
            if op.name in ("get", "slice") and is_float(op.result.type):
                carried = carrier(op, forest, incoming)
                if carried is not None:
                    found[op] = carried
    writes = {c: writes_to(func, c, incoming) for c in set(found.values())}
    judge = Judge(func, forest, {op: c for op, c in found.items() if writes[c]}, writes)
    return judge.final | _read_finally(func, judge) if judge.final else {}


def _read_finally(func: Function, judge: Judge) -> dict[Op, Carried]:
    """The loads of rows of which only parts that are final are read."""
    rows = {op: c for op, c in judge.loads.items() if op.name == "get" and op not in judge.final
            and isinstance(op.result.type, Array)}
    readers = users(ops_of(func.blocks)) if rows else {}
    return {op: c for op, c in rows.items()
            if all(r in judge.final or r.name == "dim" for r in readers.get(op.result, ()))}


def base(load: Op) -> Value:
    """The array of which a load reads a part."""
    v = load.operands[0]
    return v.op.operands[0] if load.name == "slice" and v.op is not None and v.op.name == "get" else v


def carrier(load: Op, forest: LoopForest, incoming: Mapping[Block, list[Edge]]) -> Carried | None:
    heads = {loop.head: loop for loop in forest.loops}
    v, found, seen = base(load), None, set[Value]()
    while v not in seen:
        seen.add(v)
        if v.op is not None:
            if v.op.name not in WRITES:
                break
            v = v.op.operands[0]
            continue
        loop = heads.get(v.block)
        if loop is not None and loop.preheader is None:
            return None
        if loop is not None and load.block in loop.blocks:
            found = Carried(loop, v)
        edges = incoming[v.block] if loop is None else [loop.entry_edge()]
        v = next((a for e in edges if (a := e.argument(v)) is not None), v)
    return found


def writes_to(func: Function, carried: Carried, incoming: Mapping[Block, list[Edge]]) -> list[Op] | None:
    """The writes to the array in its carrier; None if it may be changed in another way."""
    loop, param = carried.loop, carried.param
    blocks = [b for b in func.blocks if b in loop.blocks]
    names, found, grown = {param}, dict[Op, None](), True
    while grown:
        before = len(names)
        for op in (op for b in blocks for op in b.all_ops()):
            if any(v in names for v in op.operands) and not _harmless(op, names, found):
                return None
            for p, a in (pair for e in op.edges if e.block in loop.blocks for pair in e.passed()):
                if a in names:
                    names.add(p)
        grown = len(names) > before
    heads = [p for p in names if p.owner is loop.head]
    joined = [p for p in names if p.op is None and p is not param]
    mixed = any(e.argument(p) not in names for p in joined for e in incoming[p.block])
    return None if heads != [param] or mixed or loop.back_edge().args[param.index] not in names else list(found)


def _harmless(op: Op, names: set[Value], writes: dict[Op, None]) -> bool:
    """True if an op reads the array, or writes elements at known indices; such a write is added to ``writes``."""
    definition = OPS.get(op.name)
    if definition is None:
        return op.name not in ("call", "return")
    if definition.memory is Memory.UPDATE and op.operands[0] in names:
        writes[op] = None
        names.add(op.result)
        return op.name in WRITES
    return definition.memory is not Memory.STACK


class Judge(Walk):
    """Decides which loads are final, in two walks over the function.

    Writes come after loads in the order of a walk, but the facts about a write's index are needed at the load.
    """

    def __init__(self, func: Function, forest: LoopForest, loads: Mapping[Op, Carried],
                 writes: Mapping[Carried, list[Op] | None]) -> None:
        super().__init__(func)
        self.forest, self.loads, self.writes = forest, loads, writes
        self.counts: dict[Value, Counted] = {k.iv: k for loop in forest.loops if (k := counted(loop)) is not None}
        self.position = {op: n for n, op in enumerate(func.all_ops())} if loads else {}
        self.of_writes = {w for ws in writes.values() for w in ws or ()}
        self.spans: dict[Op, list[Span]] = {}                  # of the writes
        self.final: dict[Op, Carried] = {}
        self.behind: dict[tuple[Block, Block], set[Block]] = {}     # a block and a head: what follows in an iteration
        for self.judging in (False, True) if loads else ():
            self.run()

    def op(self, op: Op) -> bool:
        if op in self.of_writes and not self.judging:
            self.spans[op] = _with_diagonals(self._written(op))
        if op in self.loads and self.judging:
            carried, read = self.loads[op], _with_diagonals(self._read(op))
            if all(self.stays_clear(w, op, read, carried.loop) for w in self.writes[carried] or ()):
                self.final[op] = carried
        return super().op(op)

    def _written(self, write: Op) -> list[Span]:
        value = write.operands[1].type
        if write.name in ELEMENTS:
            return self._elements(write.operands[2:], write)
        sizes = value.dims if isinstance(value, Array) else ()
        starts, steps = write.operands[2::2], write.operands[3::2]
        return [(form, form if n == 1 else None) if (step.const or 0) > 0 else (Affine(0), None)
                for form, step, n in zip(map(self.ranges.form, starts), steps, sizes)]

    def _read(self, load: Op) -> list[Span]:
        if load.name == "get":
            return self._elements(load.operands[1:], load)
        row = load.operands[0].op
        spans = self._elements(row.operands[1:], row, 0) if row is not None and row.name == "get" else []
        form = self.ranges.form
        for start, length, step in zip(*(load.operands[k::3] for k in (1, 2, 3))):
            k = step.const or 0
            spans.append((form(start), form(start).plus(form(length).plus(Affine(-1)), k)) if k > 0
                         else (Affine(0), None))
        return spans

    def _elements(self, at: Sequence[Value], op: Op, rest: int | None = None) -> list[Span]:
        """The spans of indices, followed by axes without an index, which are taken whole."""
        t = op.operands[0].type
        assert isinstance(t, Array)
        whole = t.rank - len(at) if rest is None else rest
        return [*((self.ranges.form(v),) * 2 for v in at), *[(Affine(0), None)] * whole]

    def around(self, load: Op, write: Op, carrier: Loop) -> list[Loop]:
        """The loops around a load and a write, from the carrier inwards."""
        assert load.block is not None
        found, loop = list[Loop](), self.forest.loop_of(load.block)
        while loop is not None:
            found += [loop] if write.block in loop.blocks else []
            loop = loop.parent if loop is not carrier else None
        return found[::-1]

    def stays_clear(self, write: Op, load: Op, read: list[Span], carrier: Loop) -> bool:
        """True if, after the load, no iteration of the loops around both writes to what was read."""
        around = self.around(load, write, carrier)
        for loop in around:
            if self.is_beside(write, read, loop, 0):
                return True
            if not self.is_beside(write, read, loop, 1):
                return False
        return self.precedes(write, load, around[-1])

    def precedes(self, write: Op, load: Op, loop: Loop) -> bool:
        """True if no iteration of ``loop``, the innermost around both, writes after it has loaded."""
        assert write.block is not None and load.block is not None
        if write.block is load.block:
            return self.position[write] < self.position[load]
        behind = self.behind.setdefault((load.block, loop.head), set())
        todo = [] if behind else [load.block]
        while todo:
            fresh = [b for b in todo.pop().successors() if b in loop.blocks and b is not loop.head]
            todo += [b for b in fresh if b not in behind]
            behind.update(fresh)
        return write.block not in behind

    def is_beside(self, write: Op, read: list[Span], loop: Loop, after: int, direction: int = 1) -> bool:
        """True if the iterations of ``loop`` from ``after`` (0: this one, 1: the next) on write beside what was read.

        ``direction``: 1 towards later iterations, -1 towards earlier ones.
        """
        return any(least is not None and top is not None and self._above(least, top, loop, after, direction) or
                   most is not None and bottom is not None and
                   self._above(most.times(-1), bottom.times(-1), loop, after, direction)
                   for (least, most), (bottom, top) in zip(self.spans[write], read))

    def _above(self, write: Affine, load: Affine, loop: Loop, after: int, direction: int) -> bool:
        g = self._least(write, loop, direction, DEEP)
        if g is None:
            return False
        step = after * direction * sum(c for v, c in g.terms if v.owner is loop.head)
        return self.prover.proves(g.minus(load).plus(Affine(step - 1)))

    def _least(self, form: Affine, loop: Loop, direction: int, depth: int) -> Affine | None:
        """A lower bound over all iterations of inner loops, in terms of the counter of ``loop``, or None.

        It never decreases as that counter takes its next values in ``direction``.
        """
        for v, c in form.terms:
            known = self.counts.get(v)
            if v.block not in loop.blocks or (v.owner is loop.head and known is not None and c * direction > 0):
                continue
            if known is None or v.owner is loop.head or not depth:
                return None
            end = Affine(0) if c > 0 else self.ranges.form(run(known.trip)).plus(Affine(-1))
            return self._least(form.plus(Affine(0, ((v, 1),)), -c).plus(end, c), loop, direction, depth - 1)
        return form


def _with_diagonals(axes: list[Span]) -> list[Span]:
    """The spans along the axes, and those of the difference and the sum of each two indices."""
    found = list(axes)
    for (low, high), (least, most) in combinations(axes, 2):
        found += [(_plus(least, high, -1), _plus(most, low, -1)), (_plus(least, low, 1), _plus(most, high, 1))]
    return found


def _plus(a: Affine | None, b: Affine | None, factor: int) -> Affine | None:
    return a.plus(b, factor) if a is not None and b is not None else None


def run(trip: Value) -> Value:
    """The number of iterations of a loop that runs: ``n`` for ``max(n, 0)``."""
    op = trip.op
    if op is not None and op.name == "maximum" and op.operands[1].const == 0:
        return op.operands[0]
    return trip


# --- in the reverse sweep -----------------------------------------------------------------------------------

def copied(loads: Mapping[Op, Carried], loops: Mapping[Loop, Loop], values: Mapping[Value, Value]
           ) -> dict[Op, Carried]:
    """The final loads in the copy of an iteration: ``loops`` and ``values`` map to those of the copy."""
    found: dict[Op, Carried] = {}
    for load, carried in loads.items():
        if carried.loop in loops and carried.param in values and load.result in values \
                and (copy := values[load.result].op) is not None:
            found[copy] = Carried(loops[carried.loop], values[carried.param])
    return found


class Finished:
    """For each final load, the finished array: the carrier's result, as a parameter of its exit, added if necessary.

    ``may_stay``: True for an array that leaves the loop for other uses and may be read later without a copy.
    """

    def __init__(self, loads: Mapping[Op, Carried], may_stay: Callable[[Value], bool]) -> None:
        self.loads, self.may_stay = loads, may_stay
        self.known: dict[Carried, Value | None] = {}

    def array(self, load: Op) -> Value | None:
        """The array to read in place of the load's; None if the load is not final."""
        carried = self.loads.get(load)
        if carried is None:
            return None
        if carried not in self.known:
            self.known[carried] = self._find(carried)
        return self.known[carried]

    def _find(self, carried: Carried) -> Value | None:
        loop = carried.loop
        if loop.exit is None:
            return None
        last, edge = loop.back_edge().args[carried.param.index], loop.exit_edge()
        leaving = [p for p, a in edge.passed() if a is last]
        if leaving:
            return leaving[0] if all(map(self.may_stay, leaving)) else None
        edge.args.append(last)
        return loop.exit.add_param(last.type, carried.param.hint)
