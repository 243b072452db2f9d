"""The loop over chunks of ``outer_loop``: the blocks of an outer loop for ``LANES`` iterations together.

It is emitted in new blocks.  ``enter`` then lets the preheader enter it, followed by the original loop for the rest.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import BOOL, I64
from ..analysis.cfg import own_exit
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, counted
from .collected_sums import CollectedSums
from .lane_kinds import COLLECTED, SHARED, UNIFORM, VARYING, Kinds, NoLanes
from .lane_profit import runs_backwards, stay_in_cache
from .lane_rules import Lanes, lanes_type


class LaneChunks:
    """Emits the loop over chunks in new blocks; the rest of the function does not change before ``enter``."""

    def __init__(self, func: Function, loop: Loop, known: Counted, kinds: Kinds, width: int = LANES) -> None:
        self.func, self.loop, self.known, self.kinds, self.width = func, loop, known, kinds, width
        self.copies: dict[Block, Block] = {}
        self.head = func.new_block("chunks")
        self.chunk = self.head.add_param(I64, "chunk")
        self.carried = [self.head.add_param(p.type, p.hint) for p in loop.head.params[1:]]
        self.latch, self.done = func.new_block("next"), func.new_block("done")
        assert loop.preheader is not None and loop.preheader.term is not None
        self.entry = func.new_block("preheader")
        before = Builder(self.entry, loop.preheader.term.loc)
        self.results = self._results()
        self.limit = known.trip if self.results is not None else before.sub(known.trip, 1)
        self.count = before.floordiv(before.add(self.limit, width - 1), width)
        b = Builder(self.head, loop.preheader.term.loc)
        self.start, done, whole = b.mul(self.chunk, width), None, known.trip.const
        if whole is None or self.results is None or whole % width:
            first = b.minimum(self.start, b.sub(self.limit, width))
            done = b.sub(self.start, first)
        else:
            first = self.start
        backwards = runs_backwards(kinds)
        iv = b.add(first, width - 1) if backwards else first
        values = {known.iv: iv} | dict(zip(loop.head.params[1:], self.carried))
        self.lanes = Lanes(b, kinds, values, done, backwards, width)
        self.updated = False                                    # True after the first update of a shared array
        self.may_fail = False                                   # True if a check can end the loop over chunks early
        self.cold: set[Block] = set()                           # heads of loops that are not to be tried
        self.collected = CollectedSums(self.lanes, before)

    def run(self) -> None:
        """Copy the blocks for all lanes.  The end of an iteration and failing checks lead to ``next``."""
        order, values = self.kinds.blocks, self.lanes.values
        for block in order:
            copy = self.copies[block] = self.head if block is self.loop.head else self.func.new_block(block.name)
            for p in block.params if block is not self.loop.head else ():
                if self.kinds[p] == COLLECTED:
                    self.collected.enter(p, copy)
                    continue
                wide = self.kinds[p] == VARYING
                values[p] = copy.add_param(lanes_type(p.type, self.width) if wide else p.type, p.hint)
        self.lanes.b.at(self.head)
        early = self._check_early() if self.kinds.reads_shared else set()
        for block in order:
            if block is not self.loop.head:
                self.lanes.b.at(self.copies[block])
            for op in self._updates_last(block):
                if op in early:
                    continue
                if op in self.kinds.adding:
                    self.collected.add(op)
                else:
                    self._op(op, block)
            if block is self.loop.latch:
                self._go_on()
            else:
                self._leave(block)
        self._end()

    def _updates_last(self, block: Block) -> list[Op]:
        """The ops of a block, where an update of a shared array waits until the result is read: checks go ahead."""
        found: list[Op] = []
        waiting: list[Op] = []
        for op in block.ops:
            if op.results and self.kinds[op.results[0]] == SHARED:
                waiting.append(op)
                continue
            if any(w.result in op.operands for w in waiting):
                found += waiting
                waiting.clear()
            found.append(op)
        return found + waiting

    def _op(self, op: Op, block: Block) -> None:
        self.lanes.b.loc = op.loc
        if op.name == "check" and any(self.kinds[v] != UNIFORM for v in op.operands[:1]):
            return self._check(op, block)
        self.updated |= bool(op.results) and self.kinds[op.results[0]] == SHARED
        self.lanes.add(op)

    def _check_early(self) -> set[Op]:
        """Emit checks of the counter ahead of the chunk, before any update, and return them.

        A chunk in which one does not hold is left to the original loop, even if it would not get to the check.
        """
        early = self.kinds.early_checks()
        for op, made in early.items():
            for each in made:
                self._op(each, self.loop.head)
            self._check(op, self.loop.head)
        return set(early)

    def _check(self, op: Op, block: Block) -> None:
        """Emit a varying check: if it does not hold in all lanes, control leaves the chunk."""
        if self.kinds.reads_shared and (self.updated or self._updates_around(block)):
            raise NoLanes
        b = self.lanes.b
        each, active = self.lanes.of(op.operands[0]), self.lanes.active()
        if active is not None:
            each = b.or_(each, b.not_(active))
        holds = b.emit("all", each, axes=(0,))
        self.may_fail = True
        fine, failing = self.func.new_block("fine"), self.func.new_block("failing")
        b.branch(holds, fine, [], failing, [])
        b.at(failing)
        b.jump(self.latch, [b.const(False), *(self._now(p, block) if self.kinds[p] == SHARED else v
                                              for p, v in zip(self.loop.head.params[1:], self.carried))])
        b.at(fine)

    def _now(self, array: Value, block: Block) -> Value:
        """The value of a shared array in a block, so far: passing an older one would cost a copy."""
        names, values, above = self.kinds.names, self.lanes.values, self.kinds.forest.dom.idom
        while True:
            made = [v for op in reversed(block.ops) for v in op.results if v in values]
            for v in (*made, *block.params):
                if names.get(v) is array:
                    return values[v]
            higher = above[block]
            assert higher is not None
            block = higher

    def _updates_around(self, block: Block) -> bool:
        """True if an inner loop around ``block`` updates a shared array, perhaps in an earlier iteration."""
        inner = self.kinds.forest.innermost[block]
        if inner is self.loop:
            return False
        while inner.parent is not None and inner.parent is not self.loop:
            inner = inner.parent
        return any(op.results and self.kinds[op.results[0]] == SHARED for b in inner.blocks for op in b.ops)

    def _leave(self, block: Block) -> None:
        term, b = block.term, self.lanes.b
        assert term is not None
        if term.name not in ("jump", "branch", "switch") or any(self.kinds[v] != UNIFORM for v in term.operands):
            raise NoLanes
        edges = [Edge(self._target(e.block), self._arguments(e)) for e in term.edges]
        b._end(term.name, [self.lanes.flat(v) for v in term.operands], edges, **term.attrs)

    def _target(self, block: Block) -> Block:
        if block not in self.copies:
            raise NoLanes                                       # a block that only raises
        return self.copies[block]

    def _arguments(self, edge: Edge) -> list[Value]:
        out: list[Value] = []
        for p, a in zip(edge.block.params, edge.args, strict=True):
            if self.kinds[p] == COLLECTED:
                out += self.collected.terms[a]
                continue
            if (self.kinds[p] == SHARED) != (self.kinds[a] == SHARED):
                raise NoLanes
            given = self.lanes.of(a) if self.kinds[p] == VARYING else self.lanes.flat(a)
            wanted = lanes_type(p.type, self.width) if self.kinds[p] == VARYING else p.type
            # A size that is known, of an array that the loop makes, is in the type of its lanes.
            out.append(given if given.type == wanted else self.lanes.b.as_type(given, type=wanted))
        return out

    def _go_on(self) -> None:
        """Emit the end of a chunk: it passes on shared arrays, and sums, to which the lanes add one after the other.

        Sums of cotangents have no order.
        """
        b = self.lanes.b
        passed = []
        for p, back, start in zip(self.loop.head.params[1:], self.loop.back_edge().args[1:], self.carried):
            if p in self.kinds.collected:
                passed.append(self.collected.total(start, back))
                continue
            if p not in self.kinds.sums:
                if self.kinds[back] != SHARED:
                    raise NoLanes
                passed.append(self.lanes.values[back])
                continue
            terms, total, v = [], start, p
            for op in self.kinds.sums[p]:
                term = op.operands[op.operands[0] is v]
                terms.append(self.lanes.term(op, self.lanes.of(term)))
                v = op.result
            if terms and all(op.attrs.get("acc") for op in self.kinds.sums[p]):
                for t in terms:
                    total = b.emit("add", total, b.emit("sum", t, axes=(0,), acc=True), acc=True)
                terms = []
            for lane in self.lanes.order() if terms else ():
                for t in terms:
                    total = b.add(total, b.get(t, b.const(lane)))
            passed.append(total)
        b.jump(self.latch, [b.const(True), *passed])

    def _end(self) -> None:
        """Emit ``next``, which repeats the loop over chunks, or passes ``done`` the first iteration of the rest."""
        b, params = self.lanes.b, [self.latch.add_param(BOOL, "fine")]
        params += [self.latch.add_param(p.type, p.hint) for p in self.carried]
        first = self.done.add_param(I64, "first")
        left = [self.done.add_param(p.type, p.hint) for p in self.carried]
        b.at(self.latch)
        following = b.add(self.chunk, 1)
        reached = b.minimum(b.mul(b.select(params[0], following, self.chunk), self.width), self.limit)
        again = b.and_(params[0], b.lt(following, self.count))
        b.branch(again, self.head, [following, *params[1:]], self.done, [reached, *params[1:]])
        self.left = [first, *left]

    # --- the original loop ------------------------------------------------------------------------------

    def _small(self, b: Builder, sizes: list[list[Value]], short: dict[Value, int]) -> Value:
        """Emit the test that there are enough iterations, and that the arrays of all lanes stay in the cache."""
        small = b.ge(self.known.trip, self.width if self.results is not None else self.width + 1)
        for trip, bound in short.items():
            small = b.and_(small, b.le(trip, bound))
        return stay_in_cache(b, sizes, small)

    def enter(self, sizes: list[list[Value]], short: dict[Value, int], narrow: LaneChunks | None = None) -> None:
        """Let the preheader enter the loop over chunks, followed by the original loop if iterations are left.

        ``sizes``, and the ``short`` trip counts of inner loops, are tested before.  If there are not enough iterations,
        they may be for ``narrow`` chunks.
        """
        loop, known = self.loop, self.known
        preheader, latch = loop.preheader, loop.latch
        assert preheader is not None and preheader.term is not None and latch is not None and latch.term is not None
        args = preheader.term.edges[0].args[1:]
        b = Builder(preheader, preheader.term.loc)
        preheader.term = None
        rest = self.func.new_block("preheader")
        first = rest.add_param(I64, "first")
        carried = [rest.add_param(p.type, p.hint) for p in self.carried]
        leave = loop.exit if self.results is not None else None
        if leave is not None:
            own_exit(self.func, latch, leave)
        cold = self._unlikely(bool(sizes), bool(short))
        vectors = known.trip.const is None and any(map(_divides, cold))
        for chunks, then in ((self, narrow), (narrow, None)):
            if chunks is not None:
                other = rest if then is None else self.func.new_block("few")
                b.branch(chunks._small(b, sizes, short), chunks.entry, [], other,
                         [b.const(0), *args] if then is None else [])
                chunks._run_from(args, rest, leave, vectors)
                b.at(other)
        b.at(rest)
        left = b.sub(known.trip, first)
        b.jump(loop.head, [b.const(0), *carried])
        self._count_from(first, left)
        for inner in cold:
            assert inner.latch is not None and inner.latch.term is not None
            if not vectors:
                inner.latch.term.attrs["cold"] = True
            self.cold.add(inner.head)

    def _unlikely(self, sizes: bool, short: bool) -> list[Loop]:
        """The loops inside the original one that need no vectors: if checks alone lead there, or if they are shorter
        than a chunk, as the loop around is.  ``sizes`` and ``short``: whether these are tested before.
        """
        inside = [x for x in self.kinds.forest.loops if x.head in self.loop.blocks - {self.loop.head} and x.latch]
        if self.known.trip.const is not None:
            return [] if short else inside
        if self.may_fail or self.results is None or sizes or short:
            return []
        trips = [(x, counted(x)) for x in inside]
        return [x for x, known in trips if known is not None and known.trip is self.known.trip]

    def _results(self) -> list[int | Value] | None:
        """The values that the loop passes to its exit: positions of ``carried``, or values from outside.

        ``None`` if it passes anything else: then the last iteration is left to the original loop.
        """
        loop, back = self.loop, self.loop.back_edge().args
        found: list[int | Value] = []
        for v in loop.exit_edge().args:
            if v in back[1:]:
                found.append(back.index(v, 1) - 1)
            elif v.block not in loop.blocks:
                found.append(v)
            else:
                return None
        return found

    def _run_from(self, args: list[Value], rest: Block, leave: Block | None, vectors: bool) -> None:
        """Emit the jump into the chunks, and behind the last one: to the rest, or past it if no iteration is left.

        A way to the rest, though never taken, keeps LLVM from knowing that the rest is shorter than two ``vectors``:
        it would mask both where one vector and a number are enough.
        """
        b = Builder(self.entry, self.lanes.b.loc)
        b.jump(self.head, [b.const(0), *args])
        b.at(self.done)
        if self.results is None or leave is None:
            b.jump(rest, self.left)
            return
        past = self.func.new_block("past")
        first, carried = self.left[0], self.left[1:]
        if self.may_fail or vectors:
            b.branch(b.lt(first, self.known.trip), rest, self.left, past, [])
        else:
            b.jump(past)
        b.at(past)
        b.jump(leave, [carried[v] if isinstance(v, int) else v for v in self.results])

    def _count_from(self, first: Value, left: Value) -> None:
        """Let the original loop execute ``left`` iterations from ``first`` on.

        Its own counter begins at 0.  All other uses of the counter read the number of the iteration.
        """
        loop, known = self.loop, self.known
        assert loop.latch is not None and loop.latch.term is not None and loop.latch.term.operands[0].op is not None
        number = Op("add", [known.iv, first], [I64])
        one = Op("const", (), [I64], {"value": 1, "type": I64})
        following = Op("add", [number.result, one.result], [I64])
        numbers = {known.iv: number.result, known.next: following.result}
        test, back = loop.latch.term.operands[0].op, loop.back_edge()
        for block in loop.blocks:
            for op in (op for op in block.all_ops() if op not in (known.next.op, test)):
                op.replace_uses(numbers)
        back.args[0], test.operands = known.next, [known.next, left]
        for op in (number, one, following):
            op.block = loop.head
        loop.head.ops[:0] = [number, one, following]


def _divides(loop: Loop) -> bool:
    """True if a loop divides: vectors pay for nine quotients too."""
    return any(op.name in ("div", "sqrt") for b in loop.blocks for op in b.ops)
