"""Where a carried value comes from, if an iteration chooses it by more than its number.

A loop that data end, as by ``break``, has no counter, and a loop around choices chooses among what was chosen inside.
Then the loop carries which of the *sources* of the value was the last to replace it, and the integers that the source
is computed from::

    ^loop(i, a):                                  ^loop(i, a, which, at):              which begins as 0
      v = get x, r, i                               v = get x, r, i
      c = gt v, a                                   c = gt v, a
      next = select c, v, a                         next = select c, v, a
      …                                becomes      w = select c, 1, which;  k = select c, i, at
      branch …, ^loop(j, next), ^exit(next)         branch …, ^loop(j, next, w, k), ^exit(w, k)
    ^exit(largest):                               ^exit(w, k):
                                                    switch w, ^go(a at entry), ^chosen
                                                  ^chosen:
                                                    again = get x, r, k
                                                    jump ^go(again)
                                                  ^go(largest):

So a nest of such loops, as a search in a tree of moves, is differentiated as one load.

*Old*: the value of the iteration before.  A source is a value that is not chosen from it, and that scalar ops compute
from integers and from what is known before the loop.  Behind a ``break`` the latch passes a value to the exit and
nothing to the head, and the other way round: two parameters, of which each edge defines one, are taken as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import COMPARISONS, OPS
from ...ir.types import I64, Array, Scalar
from ...ir.uses import EDGE
from ..analysis.loops import Loop, LoopForest
from .chosen_iteration import LONGEST, copy_op, is_scratch
from .undefined_arguments import agree, is_undefined, merged_arguments

MOST = 4
"""The most sources, and the most integers that are carried for one."""

Uses = dict[Value, list[tuple[Op, int]]]
Row = list[Value]
"""The number of a source, 0 for the value at entry, and the integers carried for it."""


@dataclass(frozen=True)
class Source:
    """A value that replaces the old one, the ops that compute it, in order, and the integers that they start from."""

    value: Value
    ops: list[Op]
    kept: list[Value]


class Slots:
    """The layout of a row: the types of its values, and what they begin with.

    ``places``: for each source where its integers are, which share places with those of other sources.  ``counter``:
    one of them that tells whether there is a source, in place of its number.  ``teller``: the place of that.
    """

    def __init__(self, sources: list[Source], counter: Value | None) -> None:
        self.counter = counter
        self.types: list[Scalar] = [] if counter is not None else [I64]
        self.places: list[list[int]] = []
        least, self.teller = len(self.types), 0
        for source in sources:
            at: list[int] = []
            for v in source.kept:
                assert isinstance(v.type, Scalar)
                free = [k for k, t in enumerate(self.types) if k >= least and t == v.type and k not in at]
                if not free:
                    self.types.append(v.type)
                at.append(free[0] if free else len(self.types) - 1)
                if v is counter:
                    self.teller = at[-1]
            self.places.append(at)
        self.first = [0] * len(self.types)
        if counter is not None:
            self.first[self.teller] = -1


class Sources:
    """The sources of ``p``, a carried float; ``results``: the exit's parameters that receive what it becomes.

    ``behind``: the block to which what follows the loop has moved, once it has.
    """

    behind: Block | None = None

    def __init__(self, loop: Loop, forest: LoopForest, used: Uses, p: Value) -> None:
        self.loop, self.forest, self.dom, self.used, self.p = loop, forest, forest.dom, used, p
        self.following = loop.back_edge().args[p.index]
        self.group = self._group()
        self.results = [q for q, a in loop.exit_edge().passed() if a in self.group]
        self.links: dict[Value, bool] = {p: True}        # value → whether it may be the old one
        self.sources: dict[Value, Source] = {}
        self.parts: dict[Value, list[Value]] = {}        # value → what it is chosen from
        self.rows: dict[Value, Row] = {}

    # --- analysis -------------------------------------------------------------------------------------

    def holds(self) -> bool:
        """True if ``p`` is kept or replaced by one of a few sources, and is read by comparisons alone."""
        return (self.following is not self.p and self._is_link(self.following) and self._enter(self.following)
                and 0 < len(self.sources) <= MOST and self._only_compared())

    def _group(self) -> list[Value]:
        """``following``, and other parameters of the latch that are the same wherever they are defined."""
        latch, group = self.loop.latch, [self.following]
        if latch is None or self.following.owner is not latch or latch is self.loop.head:
            return group
        edges = list(self.dom.incoming(latch))
        merged = [e.argument(self.following) for e in edges]
        for w in latch.params:
            passed = [e.argument(w) for e in edges]
            if w.type == self.following.type and w is not self.following and agree(merged, passed):
                merged = merged_arguments(merged, passed)
                group.append(w)
        return group

    def _passed(self, edge: Edge, v: Value) -> Value | None:
        """What an edge passes for a parameter, or for one of its group."""
        given = [edge.argument(q) for q in (self.group if v is self.following else [v])]
        return next((a for a in given if not is_undefined(a)), given[0])

    def _is_here(self, v: Value) -> bool:
        """True for values of an iteration of this loop itself, not of a loop inside."""
        return v.block in self.loop.blocks and self.forest.loop_of(v.block) is self.loop

    def _alternatives(self, v: Value) -> list[Value]:
        if not self._is_here(v) or v.owner is self.loop.head:
            return []
        if v.op is not None:
            return v.op.operands[1:] if v.op.name == "select" else []
        given = [self._passed(e, v) for e in self.dom.incoming(v.block)]
        return [] if None in given else [a for a in given if a is not None]

    def _is_link(self, v: Value) -> bool:
        if v not in self.links:
            if len(self.links) >= LONGEST:
                return False
            self.links[v] = False                        # counted from here on
            self.links[v] = any([self._is_link(a) for a in self._alternatives(v)])
        return self.links[v]

    def _enter(self, v: Value) -> bool:
        """Enter what ``v`` is chosen from; False if that is not known, or too much."""
        if v is self.p or v in self.parts or v in self.sources or is_undefined(v):
            return True
        if len(self.parts) + len(self.sources) >= LONGEST:
            return False
        source = None if self._is_link(v) else self._source(v)
        if source is not None:
            self.sources[v] = source
            return True
        self.parts[v] = self._alternatives(v)
        return bool(self.parts[v]) and all([self._enter(a) for a in self.parts[v]])

    def _source(self, v: Value) -> Source | None:
        needed, kept = set[Op](), dict[Value, None]()
        todo = [v]
        while todo:
            u = todo.pop()
            op = u.op
            if u.block not in self.loop.blocks or u in kept or op in needed:
                continue
            if not self._is_here(u) or not isinstance(u.type, Scalar):
                return None
            if op is None:
                if u.type.is_float or len(kept) == MOST:
                    return None
                kept[u] = None
            elif not self._is_pure(op) or len(needed) == LONGEST:
                return None
            else:
                needed.add(op)
                todo += op.operands
        blocks = {op.block for op in needed if op.block is not None}
        return Source(v, [op for b in self.dom.in_order(blocks) for op in b.ops if op in needed], [*kept])

    def _is_pure(self, op: Op) -> bool:
        if OPS[op.name].effect or OPS[op.name].consumes or len(op.results) != 1:
            return False
        arrays = [v for v in op.operands if isinstance(v.type, Array)]
        return all(v.block not in self.loop.blocks and not is_scratch(self.loop, v) for v in arrays)

    def _only_compared(self) -> bool:
        """True if nothing but the results is computed from what may be the old value, except by comparisons."""
        links = {v for v, is_link in self.links.items() if is_link} | {*self.group}
        todo, seen = [*links], set(links)
        while todo:
            v = todo.pop()
            for op, i in self.used.get(v, ()):
                following: list[Value] = []
                if i == EDGE:
                    passed = [(e, q) for e in op.edges for q, a in e.passed() if a is v]
                    following = [q for e, q in passed if e.block is not self.loop.exit or v not in self.group]
                elif op.name == "select" and i > 0:
                    following = op.results
                elif op.name not in COMPARISONS:
                    return False
                for q in following:
                    if q.block not in self.loop.blocks or q.owner is self.loop.head and q is not self.p:
                        return False
                    if q not in seen:
                        seen.add(q)
                        todo.append(q)
        return True

    def is_indirect(self) -> bool:
        return False

    # --- rewriting ------------------------------------------------------------------------------------

    def rewrite(self, func: Function) -> dict[Value, Value]:
        """Carry the source and its integers; returns what takes the place of the results behind the loop."""
        loop, exit = self.loop, self.loop.exit
        assert exit is not None and loop.preheader is not None and exit.term is not None
        sources, start = [*self.sources.values()], loop.entry_edge().args[self.p.index]
        slots = Slots(sources, self._counter(sources))
        term, loop.preheader.term = loop.preheader.term, None
        b = Builder(loop.preheader)
        none = [b.const(first, t) for t, first in zip(slots.types, slots.first)]
        numbers = [b.const(n, I64) for n in range(1, len(sources) + 1)] if slots.counter is None else []
        loop.preheader.term = term
        for n, source in enumerate(sources):
            row = self.rows[source.value] = [*numbers[n:n + 1], *none[len(numbers[:1]):]]
            for v, k in zip(source.kept, slots.places[n]):
                row[k] = v
        self.rows[self.p] = [loop.head.add_param(v.type, "last") for v in none]
        loop.entry_edge().args += none
        row = self._row(self.following, none)
        loop.back_edge().args += row
        loop.exit_edge().args += row
        last = [exit.add_param(v.type, "last") for v in row]
        return dict.fromkeys(self.results, self._chosen(func, exit, last, slots, start))

    def _counter(self, sources: list[Source]) -> Value | None:
        """What the only source is computed from, and is never negative: the number of the iteration, from 0 by 1."""
        def counts(v: Value) -> bool:
            if v.owner is not self.loop.head or self.loop.entry_edge().args[v.index].const != 0:
                return False
            following = self.loop.back_edge().args[v.index]
            ahead = [following] if following.op is not None else self._alternatives(following)
            return bool(ahead) and all(is_undefined(a) or a.op is not None and a.op.name == "add" and
                                       a.op.operands[0] is v and a.op.operands[1].const == 1 for a in ahead)
        return next(filter(counts, sources[0].kept), None) if len(sources) == 1 else None

    def _row(self, v: Value, none: Row) -> Row:
        """The row of the source that ``v`` is."""
        if is_undefined(v) and v not in self.rows:
            return none
        if v not in self.rows and v.op is not None:
            c, x, y = v.op.operands
            pairs = zip(self._row(x, none), self._row(y, none))
            choices = [a if a is b else Op("select", [c, a, b], [a.type], loc=v.op.loc) for a, b in pairs]
            ops = [op for op in choices if isinstance(op, Op)]
            for op in ops:
                op.block = v.block
            at = v.block.ops.index(v.op) + 1
            v.block.ops[at:at] = ops
            self.rows[v] = [op.result if isinstance(op, Op) else op for op in choices]
        elif v not in self.rows:
            edges = [(e, self._row(a, none)) for e in self.dom.incoming(v.block)
                     if (a := self._passed(e, v)) is not None]
            self.rows[v] = [v.block.add_param(u.type, "last") for u in none]
            for edge, row in edges:
                edge.args += row
        return self.rows[v]

    def _chosen(self, func: Function, exit: Block, last: Row, slots: Slots, start: Value) -> Value:
        """Compute the value again behind the loop, by the number of its source."""
        go = self.behind = func.new_block("go")
        final = go.add_param(self.p.type, self.p.hint)
        go.ops, go.term, exit.ops, exit.term = exit.ops, exit.term, [], None
        for op in go.all_ops():
            op.block = go
        loc = go.term.loc if go.term is not None else func.loc
        kept = func.new_block("kept")
        Builder(kept, loc).jump(go, [start])
        edges = [Edge(kept)]
        for source, at in zip(self.sources.values(), slots.places):
            block = func.new_block("chosen")                 # one for each edge: none may be critical
            b, values = Builder(block, loc), {v: last[k] for v, k in zip(source.kept, at)}
            for op in source.ops:
                values[op.result] = copy_op(op, b, values)
            b.jump(go, [values.get(source.value, source.value)])
            edges.append(Edge(block))
        b = Builder(exit, loc)
        if len(edges) == 2:
            number, none = last[slots.teller], slots.first[slots.teller]
            b._end("branch", [b.eq(number, none)], edges)
        else:
            b.switch(last[0], edges)
        return final
