"""Begins a table only outside of the box of elements that a later nest fills, which may read what it has stored.

::

    d0 = fill(0, n + 1, m + 1)                          e0 = empty(n + 1, m + 1)
    loop(i, a): … set(a, u, i + 1, 0)                   d0 = set_slice(e0, fill(0, 1, m + 1)), and column 0
    loop(i, b):                               becomes   loop(i, a): … set(a, u, i + 1, 0)
      inner(j, c): … get c, i, j …                      loop(i, b):
                   set(c, v, i + 1, j + 1)                inner(j, c): … get c, i, j … set(c, v, i + 1, j + 1)

Dynamic programs have this form: a table of zeros or of a bound, its first row and column, and a recurrence for the
rest.  To clear the table is a pass over memory of its own.

The box is that of ``covered_boxes``.  A load in the nest is of an element with its final value (``final_loads.py``): no
iteration stores to the element later.  As the nest stores to each element of the box once, it has done so by then.

On any path from the start that has not passed the nest, only elements outside of the box are read or added to.  Where
the nest is skipped as it would have no iteration, the box is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ..analysis.cfg import reached, substitute
from ..analysis.loops import Loop, always_runs
from .covered_boxes import Box, Search, outside
from .final_loads import Carried, Judge


def table_starts(module: Module) -> bool:
    """Rewrite the start of each table that a nest fills; expects normal form.  Returns True if there was one."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    starts = [op for op in func.all_ops() if op.name == "fill"]
    if not starts or not any(op.name == "set" for op in func.all_ops()):
        return False
    search, found = _Search(func), False
    for start in starts:
        box = search.filled(start)
        if box is not None:
            _begin(func, start, box)
            search, found = _Search(func), True
    return found


class _Search(Search):
    def __init__(self, func: Function) -> None:
        super().__init__(func, self._are_final)
        self.func = func
        self.known: dict[Loop, Box | None] = {}

    def _are_final(self, loads: Sequence[Op], updates: Sequence[Op], loop: Loop, param: Value) -> bool:
        """True if no update in a nest is of an element that has been loaded."""
        if not all(isinstance(load.result.type, Scalar) for load in loads):
            return False
        carried = Carried(loop, param)
        judge = Judge(self.func, self.forest, dict.fromkeys(loads, carried), {carried: list(updates)})
        return len(judge.final) == len(loads)

    def filled(self, start: Op) -> Box | None:
        """The box that a nest fills of the table ``start``, if nothing else needs what is there at first."""
        here = start.block
        assert here is not None
        around, names, todo, box = self.forest.loop_of(here), {start.result}, [start.result], None
        accesses: list[tuple[Value, Op]] = []
        passed: list[tuple[Value, Edge, Block]] = []
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()):
                if op.block is None or op.edges and (op.name == "call" or v in op.operands):
                    return None
                fresh = []
                for e in op.edges:
                    for q, a in e.passed():
                        if a is v and box is None:
                            box = self._nest(e, q, op.block, around)
                        if a is v and not (box is not None and q is box.param and op.block is box.outer.preheader):
                            fresh.append(q)
                            passed.append((q, e, op.block))
                if not op.edges and op.name != "dim":
                    accesses.append((v, op))
                    fresh += [op.result] if op.name in ("set", "add_at") and op.operands[0] is v else []
                todo += [q for q in fresh if q not in names]
                names.update(fresh)
        if box is None or not self._is_known(start, box) or not all(op.name == "set" for op in box.updates):
            return None
        return box if self._keeps_clear(start, box, around, accesses, passed) else None

    def _nest(self, edge: Edge, param: Value, source: Block, around: Loop | None) -> Box | None:
        """The box of the nest that an edge enters, if it has a loop for each axis."""
        loop = self.entered.get(source)
        if loop is None or edge.block is not loop.head or loop.parent is not around or \
                edge.args.count(edge.args[param.index]) != 1:
            return None
        if loop not in self.known:
            self.known[loop] = self.box(loop, param)
        box = self.known[loop]
        return box if box is not None and box.param is param and not box.is_read and all(
            trip is not None for _, _, trip in box.axes) else None

    def _is_known(self, start: Op, box: Box) -> bool:
        """True if the bounds of the box are computed ahead of the table."""
        here = start.block
        assert here is not None
        for _, _, trip in box.axes:
            assert trip is not None
            if trip.const is None and not (
                    trip.block is not here and self.dom.dominates(trip.block, here)
                    or trip.block is here and (trip.op is None or here.ops.index(trip.op) < here.ops.index(start))):
                return False
        return True

    def _keeps_clear(self, start: Op, box: Box, around: Loop | None, accesses: Sequence[tuple[Value, Op]],
                     passed: Sequence[tuple[Value, Edge, Block]]) -> bool:
        """True if what has not passed the nest accesses elements outside of the box only.

        ``accesses``: of all values that the table has without the nest; ``passed``: the edges that pass them.
        """
        def onward(b: Block) -> Iterator[Block]:
            return (s for s in b.successors() if around is None or s is not around.head)
        assert start.block is not None
        behind = reached([box.outer.head], onward)
        ahead = reached([start.block], lambda b: [s for s in onward(b) if s is not box.outer.head])
        entering = {b for b in ahead if box.outer.head in reached([b], onward)}
        # Joins with paths on which the nest would have no iteration.
        ends = {q for q, _, _ in passed if q.block not in entering and (around is None or q.block in around.blocks)
                and all(source not in behind for p, _, source in passed if p is q)
                and always_runs(self.forest, box.outer, q.block)}
        derived = self._derived(start.result, ends, box)
        return all(v not in derived or self._is_outside(op, v, box) for v, op in accesses)

    def _derived(self, table: Value, ends: set[Value], box: Box) -> set[Value]:
        """The values that the table has without the nest, up to ``ends``."""
        found, todo = {table}, [table]
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()):
                fresh = [q for e in op.edges for q, a in e.passed() if a is v and q not in ends
                         and not (q is box.param and op.block is box.outer.preheader)]
                if op.name in ("set", "add_at") and op.operands[0] is v:
                    fresh.append(op.result)
                todo += [q for q in fresh if q not in found]
                found.update(fresh)
        return found

    def _is_outside(self, op: Op, v: Value, box: Box) -> bool:
        """True if an op stores to the table, or if the element that it accesses is outside of the box."""
        if op.name == "set" and op.operands[0] is v and op.operands[1] is not v:
            return isinstance(op.operands[1].type, Scalar)
        if op.name == "get" and isinstance(op.result.type, Scalar):
            at = op.operands[1:]
        elif op.name == "add_at" and op.operands[0] is v and isinstance(op.operands[1].type, Scalar):
            at = op.operands[2:]
        else:
            return False
        return any(i.const is not None and i.const < low for i, (low, _, _) in zip(at, box.axes))


def _begin(func: Function, start: Op, box: Box) -> None:
    """Make the table without the elements of the box."""
    block, t = start.block, start.result.type
    assert block is not None and isinstance(t, Array)
    at = block.ops.index(start)
    tail, block.ops = block.ops[at + 1:], block.ops[:at]
    term, block.term = block.term, None
    b = Builder(block, start.loc)
    number, *sizes = start.operands
    table, one = b.emit_op("empty", sizes, dtype=t.dtype).result, b.const(1)
    for part in outside(b, sizes, box):
        rest = b.fill(number, *(m for _, m in part))
        table = b.set_slice(table, rest, *(v for s, _ in part for v in (s, one)))
    table = b.as_type(table, type=t)
    block.ops += tail
    block.term = term
    substitute(func, {start.result: table})
