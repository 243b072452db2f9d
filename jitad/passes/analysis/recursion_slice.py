"""The slice of a recursive function that depends on its arguments alone, and a function that computes only that.

A value is *known* if it depends on arguments, and not on the result of a recursive call.  In a recursion over a tree
these are the node, its children, and the words at its leaves.  Rounded floating-point results do not count as known.
``collector`` generates a function that makes the same calls in the same order, and that stores one known vector
at each execution of one op, row after row.

The collector does not raise.  It stops, in all calls, where the function itself would raise.  It cannot foresee an
exception that another function raises, or that depends on the result of a call, and then continues with reads that the
original never makes.  So it tests every index before it reads, and it stops after ``CALLS`` calls.
"""

from __future__ import annotations

from typing import NamedTuple

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import dominators, reverse_postorder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, Array, Type, is_float
from .cfg import append, reached, set_term
from .loops import loop_forest, raising_blocks

SCALAR = frozenset("const add sub mul floordiv mod neg abs sign maximum minimum eq ne lt le gt ge and or xor not "
                   "clz popcount select".split())
ROUNDED = frozenset(("add", "sub", "mul", "floordiv", "mod"))
"""Ops that are excluded for floats.  Machine code may contract or reorder them differently in the two functions, which
would then not make the same calls."""
VIEW = frozenset(("dim", "get", "as_type", "transpose"))
"""Ops on arrays that are followed."""

FAILED = 1 << 62
"""Added to the count where the function would raise; stops all calls of the collector."""

CALLS = 1 << 14
"""The most calls of a collector.  Only an exception that it does not foresee may end the recursion."""


class Unknown(Exception):
    """The requested value depends on the result of a recursive call."""


class Size(NamedTuple):
    """The size of an argument along an axis."""

    argument: int
    axis: int


class RecursionSlice:
    """The known values of ``func``.

    ``calls``: the blocks that end in a call of ``func`` itself, each with the call.  ``unknown``: the values that are
    not known.  ``uncertain``: the blocks uncertain a branch on an unknown value.
    """

    def __init__(self, func: Function) -> None:
        self.func = func
        self.order = reverse_postorder(func)
        self.preds = func.predecessors()
        self.calls = {b: b.call for b in self.order if b.call is not None and b.call.attrs["callee"] == func.name}
        self.unknown: set[Value] = set()
        while self._spread():
            pass
        self.raising = raising_blocks(dominators(func))
        forks = (b for b in self.order if b.term is not None and len(self.normal_edges(b.term)) > 1
                 and not self.unknown.isdisjoint(b.term.operands))
        self.uncertain = reached(s for b in forks for s in b.successors())

    def _spread(self) -> bool:
        """Propagate ``unknown`` once over all values; returns True if it has grown."""
        before = len(self.unknown)
        for block in self.order:
            if block is not self.func.entry:
                for p in block.params:
                    given = [edge.argument(p) for _, edge in self.preds[block]]
                    if any(v is None or v in self.unknown for v in given):
                        self.unknown.add(p)
            for op in block.ops:
                if not _is_followed(op) or not self.unknown.isdisjoint(op.operands):
                    self.unknown.update(op.results)
        return len(self.unknown) > before

    def normal_edges(self, term: Op) -> list[Edge]:
        """The edges of a terminator, except those to blocks that only raise."""
        return [e for e in term.edges if e.block not in self.raising]

    def is_invariant(self, v: Value) -> bool:
        """True if ``v`` is a parameter that every recursive call passes on unchanged."""
        return v in self.func.params and all(call.operands[v.index] is v for call in self.calls.values())

    def needed(self, place: Block, vector: Value) -> tuple[dict[Value, None], set[Block]]:
        """The values and blocks that a collector of ``vector`` in block ``place`` needs.

        The blocks are those that lead to recursive calls or to ``place``.  Raises ``Unknown`` if one of the values is
        not known, or if the collector would run a loop that contains neither.
        """
        goals = {place, *self.calls}
        blocks = _leading(goals, self.preds)
        forest = loop_forest(self.func)
        if not goals.isdisjoint(self.uncertain) or forest.irreducible or any(
                loop.head in blocks and goals.isdisjoint(loop.blocks) for loop in forest.loops):
            raise Unknown
        found: dict[Value, None] = {}
        todo = [vector]
        for block in (b for b in self.order if b in blocks):
            todo += [op.operands[0] for op in block.ops if op.name == "check" and op.operands[0] not in self.unknown]
            if block.term is not None and len(block.term.edges) > 1:
                todo += [v for v in block.term.operands if v not in self.unknown]
        while todo:
            v = todo.pop()
            if v in self.unknown:
                raise Unknown
            if v not in found:
                found[v] = None
                todo += self._sources(v, blocks)
        return found, blocks

    def size_of(self, v: Value) -> Size | None:
        """The size that ``v`` is, if it is that of an array which is the same in all calls."""
        if v.op is None or v.op.name != "dim" or not self.is_invariant(v.op.operands[0]):
            return None
        return Size(v.op.operands[0].index, v.op.attrs["axis"])

    def _sources(self, v: Value, blocks: set[Block]) -> list[Value]:
        if v.op is not None:
            return [] if self.size_of(v) is not None else v.op.operands
        if v.block is self.func.entry:
            return [call.operands[v.index] for call in self.calls.values()]
        return [given for source, edge in self.preds[v.block] if source in blocks
                if (given := edge.argument(v)) is not None]


def _is_followed(op: Op) -> bool:
    """True if an op is cheap, and its result is known where its operands are."""
    if len(op.results) != 1:
        return False
    arrays = [v for v in (*op.operands, op.result) if isinstance(v.type, Array)]
    if is_float(op.result.type) and op.name in ROUNDED:
        return False
    return op.name in (VIEW if arrays else SCALAR)


def _leading(goals: set[Block], preds: dict[Block, list[tuple[Block, Edge]]]) -> set[Block]:
    return reached(goals, lambda block: [source for source, _ in preds[block]])


def collector(module: Module, down: RecursionSlice, place: Op, vector: Value, rows: Array,
              most: int) -> tuple[Function, list[int], list[Size]]:
    """Generate ``f.collect(arguments…, sizes…, xs: rows, count, calls) → (xs, count, calls)`` for ``f``, ``down.func``.

    It makes the calls that ``f`` makes.  At each execution of the op ``place`` it sets row ``count`` of ``xs`` to
    ``vector``, if ``xs`` has that row, and increments ``count``, up to ``most``.  Where ``f`` would raise, it adds
    ``FAILED`` to the count.  ``calls`` is the number of calls that are left.

    Also returns the indices of the arguments that it takes, and the sizes of other arguments that it takes.  An
    argument of which it takes sizes alone has no derivative through it.  Raises ``Unknown``.
    """
    assert place.block is not None
    values, blocks = down.needed(place.block, vector)
    return _Collector(module, down, place, vector, values, blocks, rows, most).made()


class _Collector:
    """Copies ``blocks``, with the ops that define ``values``, to the collector.

    The last parameters of each copy are ``xs``, ``count`` and ``calls``.
    """

    def __init__(self, module: Module, down: RecursionSlice, place: Op, vector: Value, values: dict[Value, None],
                 blocks: set[Block], rows: Array, most: int) -> None:
        self.most = most
        self.down, self.place, self.vector, self.needed = down, place, vector, values
        self.params = [p.index for p in down.func.params if p in values]
        self.types: list[Type] = [rows, I64, I64]
        sizes = {v: size for v in values if (size := down.size_of(v)) is not None}
        self.sizes = list(dict.fromkeys(sizes.values()))
        types = [*(down.func.params[i].type for i in self.params), *(I64 for _ in self.sizes)]
        name = module.unique_name(f"{down.func.name}.collect")
        self.func = module.add(Function(name, [*types, *self.types], self.types))
        self.func.own, self.func.loc = {len(types)}, down.func.loc
        self.given = self.func.params[len(self.params):-3]
        self.new = {v: self.given[self.sizes.index(size)] for v, size in sizes.items()}
        self.blocks = {b: self.func.entry if b is down.func.entry else self.func.new_block(b.name)
                       for b in down.order if b in blocks}
        for old, block in self.blocks.items():
            kept = [p for p in old.params if p in values]
            if block is not self.func.entry:
                for t in (*(p.type for p in kept), *self.types):
                    block.add_param(t)
            self.new.update(zip(kept, block.params))
        self.stop, self.failed = self.func.new_block("stop"), self.func.new_block("failed")
        Builder(self.stop, self.func.loc).ret([self.stop.add_param(t) for t in self.types])
        xs, count, calls = (self.failed.add_param(t) for t in self.types)
        b = Builder(self.failed, self.func.loc)
        b.ret([xs, b.add(count, FAILED), calls])

    def made(self) -> tuple[Function, list[int], list[Size]]:
        for old, block in self.blocks.items():
            self.b, self.log = Builder(block, old.func.loc), block.params[-3:]
            for op in old.ops:
                self._op(op)
            assert old.term is not None
            self.b.loc = old.term.loc
            self._end(old.term)
        return self.func, self.params, self.sizes

    def _op(self, op: Op) -> None:
        self.b.loc = op.loc
        if op is self.place:
            self._store(self.new[self.vector])
        elif op.name == "check" and op.operands[0] in self.needed:
            self._only_if(self.new[op.operands[0]])
        elif op.results and op.results[0] in self.needed and op.results[0] not in self.new:
            if op.name == "get":
                array, *at = (self.new[v] for v in op.operands)
                for axis, i in enumerate(at):
                    self._only_if(self.b.and_(self.b.ge(i, 0), self.b.lt(i, self.b.dim(array, axis=axis))))
            append(self.b.block, clone_op(op, self.new))

    def _only_if(self, condition: Value, otherwise: Block | None = None) -> None:
        """Continue where the condition holds; otherwise stop, at ``otherwise`` or as failed."""
        if condition.const is not True:
            onward = self.func.new_block()
            self.b.branch(condition, onward, [], otherwise or self.failed, self.log)
            self.b.at(onward)

    def _store(self, x: Value) -> None:
        b, (xs, count, calls) = self.b, self.log
        self._only_if(b.eq(b.dim(x, axis=0), b.dim(xs, axis=1)))
        fits, onward = self.func.new_block("fits"), self.func.new_block()
        following = b.add(count, 1)
        b.branch(b.lt(count, b.dim(xs, axis=0)), fits, [], onward, [xs])
        b.at(fits)
        b.jump(onward, [b.set(xs, x, count)])
        self.log = [onward.add_param(xs.type), following, calls]
        b.at(onward)
        self._only_if(b.lt(following, self.most), self.stop)

    def _end(self, term: Op) -> None:
        normal_edges = self.down.normal_edges(term)
        known = self.down.unknown.isdisjoint(term.operands)
        if not normal_edges and term.name != "return":
            self.b.jump(self.failed, self.log)
        elif not normal_edges or len(normal_edges) > 1 and not known:
            self.b.ret(self.log)
        elif term.name == "call" or not known:
            if term.name == "call" and term.attrs["callee"] == self.down.func.name:
                self._call([self.new[term.operands[i]] for i in self.params])
            edge = self._edge(normal_edges[0])
            self.b.jump(edge.block, edge.args)
        else:
            set_term(self.b.block, term.name, [self.new[v] for v in term.operands],
                     [self._edge(e) for e in term.edges])

    def _call(self, args: list[Value]) -> None:
        b, (xs, count, calls) = self.b, self.log
        self._only_if(b.gt(calls, 0), self.stop)
        self.log = b.call_then(self.func.name, [*args, *self.given, xs, count, b.sub(calls, 1)], self.types)
        _, count, calls = self.log
        self._only_if(b.and_(b.lt(count, self.most), b.gt(calls, 0)), self.stop)

    def _edge(self, edge: Edge) -> Edge:
        if edge.block not in self.blocks:
            return Edge(self.failed if edge.block in self.down.raising else self.stop, list(self.log))
        kept = [self.new[v] for p, v in edge.passed() if p in self.needed]
        return Edge(self.blocks[edge.block], [*kept, *self.log])
