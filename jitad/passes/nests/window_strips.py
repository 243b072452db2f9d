"""The strips of ``window_adjoints``: the blocks of a loop over windows, and of the chain with that loop inside."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import I64, Array, Scalar, dtype_of
from ..analysis.cfg import Mapping, own_exit
from ..analysis.loops import Loop
from .regular import Regular

STRIP = 256
"""The windows of a strip: what is kept for them, and the elements that they add to, stay in the first cache."""


@dataclass
class Windows:
    """A loop over windows, and the chain of loops in it that adds to their elements, outermost first.

    ``needed``: the loops that must have an iteration, so that every one of ``loop`` enters the chain.  ``ways``: for
    each array that the chain adds to, the values that it is on its way through the loop, the parameter of the head
    first.  ``inputs``: floats of the loop that the chain reads; ``again``: the ops that compute other values.
    """

    regular: Regular
    loop: Loop
    chain: list[Loop]
    needed: list[Loop]
    ways: list[dict[Value, None]] = field(default_factory=list)
    inputs: dict[Value, None] = field(default_factory=dict)
    again: dict[Op, None] = field(default_factory=dict)

    @property
    def iv(self) -> Value:
        return self.regular.known[self.loop].iv

    @property
    def ops(self) -> list[Op]:
        """The ops of the chain, in order, but for the tests of its loops and what only these read."""
        ops = [op for b in self.regular.dom.in_order(self.chain[0].blocks) for op in b.ops]
        tests = {x.latch.term.operands[0].op for x in self.chain if x.latch is not None and x.latch.term is not None}
        read = {v for op in ops if op not in tests for v in op.operands}
        counts = {self.regular.known[x].next.op for x in self.chain if self.regular.known[x].next not in read}
        return [op for op in ops if op not in tests and op not in counts]

    def blocks(self, chain: bool) -> list[Block]:
        """The blocks of the loop, with or without those of the chain, in order."""
        return self.regular.dom.in_order(self.loop.blocks if chain else self.loop.blocks - self.chain[0].blocks)


class Strips:
    """Strip-mines a loop: in a strip the loop runs without its chain, and then the chain with the loop inside."""

    def __init__(self, func: Function, w: Windows) -> None:
        self.func, self.w, self.known = func, w, w.regular.known[w.loop]
        self.strip, self.between, self.behind = (func.new_block(n) for n in ("strip", "between", "next"))
        self.start = self.strip.add_param(I64, "start")
        self.stores: set[Op | None] = set()                  # what keeps the inputs, at the number within the strip

    def run(self) -> Block:
        """Emit the strips, to be executed if there are more windows than elements in a row of one.

        Returns the head of the loop as it was, which is executed otherwise.
        """
        w, loop = self.w, self.w.loop
        before, leave, latch = loop.preheader, loop.exit, loop.latch
        assert before is not None and before.term is not None and leave is not None and latch is not None
        copies = clone_blocks(w.blocks(chain=True), self.func, {})
        own_exit(self.func, copies[latch], leave)
        args, b = loop.entry_edge().args[1:], Builder(before, before.term.loc)
        before.term = None
        enter, other = self.func.new_block("preheader"), self.func.new_block("preheader")
        b.branch(b.lt(self._fixed(b, w.chain[-1]), self._fixed(b, loop)), enter, [], other, [])
        b.at(other)
        b.jump(copies[loop.head], [b.const(0), *args])
        b.at(enter)
        some = b.const(True)
        for x in w.needed:
            some = b.and_(some, b.lt(0, self._fixed(b, x)))
        arrays = [b.emit_op("empty", [b.const(STRIP)], dtype=v.type).result for v in w.inputs]
        b.jump(self.strip, [b.const(0), *args, *arrays])
        passed = [self.strip.add_param(p.type, p.hint) for p in loop.head.params[1:]]
        kept = [self.strip.add_param(a.type) for a in arrays]
        b.at(self.strip)
        self.length = b.minimum(b.sub(self.known.trip, self.start), STRIP)
        b.jump(loop.head, [b.const(0), *passed, *kept])
        arrays = self._keep()
        numbers = self._count()
        self._around(some, leave, self._leave(arrays), numbers)
        return copies[loop.head]

    def _fixed(self, b: Builder, loop: Loop) -> Value:
        return b.again(self.w.regular.known[loop].trip)

    def _keep(self) -> list[Value]:
        """Let the loop store what the chain reads, and pass the chain; returns the arrays at the end of an iteration.

        The arrays take the way of the first one that the chain adds to.
        """
        w, loop, first = self.w, self.w.loop, self.w.chain[0]
        before, behind = first.preheader, first.exit
        assert before is not None and before.term is not None and behind is not None
        own, way = w.blocks(chain=False), w.ways[0]
        edges = [(e, [v for p, v in e.passed() if v in way]) for b in own if b is not before and b.term is not None
                 for e in b.term.edges if e.block in loop.blocks and e.block not in (loop.head, behind)]
        starts = [next(v for v in other if v.owner is loop.head) for v in first.exit_edge().args
                  for other in w.ways if v in other]
        types = [Array(v.type, (STRIP,)) for v in w.inputs if isinstance(v.type, Scalar)]
        last = next(v for v in loop.back_edge().args if v in way)
        at: dict[Value, list[Value]] = {}
        for block in own:
            for p in list(block.params):
                if p in way and block is not behind:
                    at[p] = [block.add_param(t) for t in types]
        b = Builder(before, before.term.loc)
        before.term = None
        stored = [b.emit("set", t, v, self.known.iv) for t, v in zip(at[next(iter(way))], w.inputs)]
        self.stores.update(v.op for v in stored)
        b.jump(behind, starts)
        at |= {p: stored for p in behind.params if p in way}
        for op in (op for block in own for op in block.ops if op.name == "add_at" and op.result in way):
            at[op.result] = at[op.operands[0]]               # of another nest in the loop, which stays there
        for e, values in edges:
            e.args += [t for v in values for t in at[v]]
        return at[last]

    def _count(self) -> list[Value]:
        """Let the loop count within the strip; returns the number of the iteration and the next one.

        They take the place of the counter and the next one.
        """
        w, known, loop = self.w, self.known, self.w.loop
        assert loop.latch is not None and loop.latch.term is not None and known.next.op is not None
        number = Op("add", [self.start, known.iv], [I64])
        one = Op("const", (), [I64], {"value": 1, "type": I64})
        following = Op("add", [number.result, one.result], [I64])
        numbers = {known.iv: number.result, known.next: following.result}
        test = loop.latch.term.operands[0].op
        assert test is not None
        for block in w.blocks(chain=False):
            for op in block.all_ops():
                if op not in (known.next.op, test) and op not in self.stores:
                    op.replace_uses(numbers)
        test.operands = [known.next, self.length]
        for op in (number, one, following):
            op.block = loop.head
        loop.head.ops[:0] = [number, one, following]
        return [number.result, following.result]

    def _leave(self, arrays: list[Value]) -> tuple[list[Value], ...]:
        """Let the loop leave to ``between``; returns what its next iteration, its arrays and its exit would receive."""
        loop = self.w.loop
        back, leaving = loop.back_edge(), loop.exit_edge()
        states, left = back.args[1:], leaving.args
        found = {v: self.between.add_param(v.type, v.hint) for v in dict.fromkeys([*states, *arrays, *left])}
        back.args = [self.known.next, *states, *arrays]
        leaving.block, leaving.args = self.between, list(found)
        return tuple([found[v] for v in values] for values in (states, arrays, left))

    def _around(self, some: Value, leave: Block, passed: tuple[list[Value], ...], numbers: list[Value]) -> None:
        """Emit the chain behind the loop, and the next strip."""
        w, (states, arrays, leaving) = self.w, passed
        places = [next(iter(way)).index - 1 for way in w.ways]
        b = Builder(self.between, w.ops[0].loc)
        enter, skip = self.func.new_block("preheader"), self.func.new_block("skip")
        ends = [self.behind.add_param(states[k].type, states[k].hint) for k in places]
        b.branch(some, enter, [], skip, [])
        b.at(skip)
        b.jump(self.behind, [states[k] for k in places])
        b.at(enter)
        chain = _Chain(self.func, w, self.start, self.length, arrays, numbers)
        b.jump(self.behind, chain.emit(b, [states[k] for k in places]))
        for k, end in zip(places, ends):
            leaving = [end if v is states[k] else v for v in leaving]
            states = [end if i == k else v for i, v in enumerate(states)]
        b.at(self.behind)
        again = b.add(self.start, STRIP)
        b.branch(b.lt(again, self.known.trip), self.strip, [again, *states, *arrays], leave, leaving)


class _Chain:
    """Emits the chain with the loop over the windows of a strip inside.

    ``numbers``: what the loop reads now in place of its counter and the next one.
    """

    def __init__(self, func: Function, w: Windows, start: Value, length: Value, arrays: list[Value],
                 numbers: list[Value]) -> None:
        self.func, self.w, self.start, self.length, self.arrays, self.numbers = func, w, start, length, arrays, numbers
        self.counters = [w.regular.known[x] for x in w.chain]
        depth: dict[Value, int] = {c.iv: k for k, c in enumerate(self.counters)}
        depth |= dict.fromkeys([w.iv, *numbers, *w.inputs], len(w.chain))
        self.ops: list[list[Op]] = [[] for _ in range(len(w.chain) + 1)]
        for op in (*w.again, *w.ops):
            if op.name != "add_at":
                k = max((depth[v] for v in op.operands if v in depth), default=0)
                depth.update(dict.fromkeys(op.results, k))
                self.ops[k].append(op)
        adds = [op for op in w.ops if op.name == "add_at"]
        self.moving = [op for op in adds if any(depth.get(v) == len(w.chain) for v in op.operands[2:])]
        self.sums = [op for op in adds if op not in self.moving]
        self.values: Mapping = {}

    def emit(self, b: Builder, arrays: list[Value]) -> list[Value]:
        """Emit all loops; ``arrays`` are what the chain adds to, and so is the result."""
        return self._loops(b, 0, arrays)

    def _loops(self, b: Builder, k: int, arrays: list[Value]) -> list[Value]:
        if k == len(self.w.chain):
            return self._windows(b, arrays)
        trip = self.counters[k].trip
        head, behind = self.func.new_block("loop"), self.func.new_block("exit")
        counter = head.add_param(I64, self.counters[k].iv.hint)
        inside = [head.add_param(a.type, a.hint) for a in arrays]
        b.jump(head, [b.const(0), *arrays])
        b.at(head)
        self.values[self.counters[k].iv] = counter
        self._emit(b, k)
        inside = self._loops(b, k + 1, inside)
        following = b.add(counter, 1)
        again = b.lt(following, b.again(trip))
        b.branch(again, head, [following, *inside], behind, inside)
        b.at(behind)
        return [behind.add_param(a.type, a.hint) for a in arrays]

    def _windows(self, b: Builder, arrays: list[Value]) -> list[Value]:
        """Emit the innermost loop, which adds to arrays that move with it, and sums up what goes to one element."""
        w = self.w
        moving = [k for k, way in enumerate(w.ways) if any(op.result in way for op in self.moving)]
        head, behind = self.func.new_block("loop"), self.func.new_block("exit")
        j = head.add_param(I64, w.iv.hint)
        current = {k: head.add_param(arrays[k].type, arrays[k].hint) for k in moving}
        totals = [head.add_param(op.operands[1].type) for op in self.sums]
        b.jump(head, [b.const(0), *(arrays[k] for k in moving),
                      *(b.const(-0.0, dtype_of(op.operands[1].type)) for op in self.sums)])
        b.at(head)
        self.values[w.iv] = at = b.add(self.start, j)
        self.values |= zip(self.numbers, (at, b.add(at, 1)))
        self.values |= {v: b.get(t, j) for v, t in zip(w.inputs, self.arrays)}
        self._emit(b, len(w.chain))
        for op in self.moving:
            k = next(k for k in moving if op.result in w.ways[k])
            b.loc = op.loc
            current[k] = b.emit("add_at", current[k], *map(self._here, op.operands[1:]), acc=True)
        sums = [b.emit("add", t, self._here(op.operands[1]), acc=True) for t, op in zip(totals, self.sums)]
        following = b.add(j, 1)
        left = [*current.values(), *sums]
        edges = [Edge(head, [following, *left]), Edge(behind, left)]
        b._end("branch", [b.lt(following, self.length)], edges, windows=True)        # no lanes around it
        b.at(behind)
        arrays = list(arrays)
        for k in moving:
            arrays[k] = behind.add_param(arrays[k].type, arrays[k].hint)
        for op in self.sums:
            k = next(k for k, way in enumerate(w.ways) if op.result in way)
            total = behind.add_param(op.operands[1].type)
            arrays[k] = b.emit("add_at", arrays[k], total, *map(self._here, op.operands[2:]), acc=True)
        return arrays

    def _emit(self, b: Builder, k: int) -> None:
        for op in self.ops[k]:
            copy = clone_op(op, self.values)
            copy.block = b.block
            b.block.ops.append(copy)

    def _here(self, v: Value) -> Value:
        return self.values.get(v, v)
