"""Safepoints: about every million iterations, loops poll the context for a request to stop.

* A loop that holds loops, calls or array ops, or that is not counted, decrements a counter at each back edge.  The
  innermost counted loops in it subtract their trip count on entry, or what they have run when they are left, if there
  are several ways out.
* A walk to a bound in another loop (``walks.py``) counts what it has run when it is left, unless that is little.
* A loop over the bits or digits of a number (``bit_loops.py``) has no counter, and counts as a part of the loop around.
* An innermost counted loop on its own must not have a counter, so that it can vectorise.  It is strip-mined: an outer
  loop runs it for a million iterations at a time and polls between these chunks.
* Loops in others are not, as most are short, unless they have more than ``LONGEST`` iterations.  If that is not known,
  the code returns ``context.LONG`` instead of running them (``Options.restart``), ahead of the outermost loop if it can
  tell.  The call is repeated with code in which all loops are strip-mined or count (``Options.strips``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...ir.graph import Block, Op, Value
from ...ir.ops import ELEMENTWISE, OPS
from ...ir.types import Array
from ...passes.analysis.loops import Counted, Loop, counted
from ...passes.analysis.ranges import Ranges
from ..builder.function_builder import FunctionBuilder
from ..llvm import context, types
from ..llvm.types import Lowered
from ..memory import alloc_runtime
from .bit_loops import ends_soon
from .walks import FEW, Walk, is_short, walk_of

# Weight of an iteration that holds calls or array ops; of one that holds only loops, which count themselves.
_HEAVY, _OUTER = 1 << 10, 16
LONGEST = 1 << 26
"""Iterations of a loop without polls, which take a second at most if they call no function."""


@dataclass
class Strip:
    """The outer loop of a strip-mined loop: its label, its phis by parameter and part, and the current chunk's end."""

    count: Counted
    label: str
    phis: list[list[str | None]]
    limit: str


class Polling:
    """The polls of one function."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn, self.code = fn, fn.code
        self.active = fn.options.poll and not fn.target.is_gpu
        self.strips: dict[Loop, Strip] = {}
        self._counter = ""
        self._weights: dict[Loop, int] = {}
        self._walks: dict[Loop, Walk | None] = {}
        self._within = False                             # inside a loop over arrays
        self._ranges = Ranges()
        self._compared: set[Loop] = set()                # inner loops, the trip counts of which were compared ahead

    # --- counting -------------------------------------------------------------------------------------

    def weight(self, loop: Loop) -> int:
        """The weight of an iteration.

        It is 0 in a loop that carries scalars and counts or walks, if it is an innermost one, or has few iterations and
        in no loop in it they have a weight.
        """
        if not self.active:
            return 0
        if loop not in self._weights:
            heavy = any(self._takes_long(op) for b in loop.blocks for op in b.all_ops())
            known = counted(loop)
            walks = not self.fn.options.strips and self._walk(loop) is not None
            plain = (known is not None or walks) and not any(
                p in self.fn.places.slotted for p in loop.head.params) or ends_soon(loop)
            few = known is not None and loop.parent is not None and (known.trip.const or FEW + 1) <= FEW and \
                not any(x.children for x in loop.children)
            nested = any(self.weight(x) for x in loop.children) if few else not all(map(ends_soon, loop.children))
            self._weights[loop] = _HEAVY if heavy else _OUTER if nested else 0 if plain else 1
        return self._weights[loop]

    def _walk(self, loop: Loop) -> Walk | None:
        if loop not in self._walks:
            self._walks[loop] = walk_of(loop, self.fn.forest.dom)
        return self._walks[loop]

    def _takes_long(self, op: Op) -> bool:
        """True if an op may take long: a call, or an op that loops over arrays."""
        if op.name not in OPS or op.name in ("push", "pop"):
            return op.name == "call"
        if op.name in ("set", "add_at"):
            return isinstance(op.operands[1].type, Array)
        if op.name == "dim" or op.name in ELEMENTWISE and not isinstance(op.result.type, Array) \
                or not any([isinstance(v.type, Array) for v in (*op.operands, *op.results)]):
            return False
        return not OPS[op.name].view and self.fn.plan.lazy.isdisjoint(op.results)

    def count(self, weight: str, bounded: bool = True) -> None:
        """Subtract from the function's counter; the next poll asks if nothing is left.

        The counter may wrap around, but not before it has counted far more than any loop can run.  Unless the weight is
        ``bounded``, what is left is compared with ``-LONGEST`` if it is negative: x86 has one operation for a
        subtraction and a jump on the sign.
        """
        counter, code = self._own_counter(), self.code
        left = code.arith("sub", "i64", code.load("i64", counter), weight)
        code.store("i64", left, counter)
        if not bounded and self.fn.options.restart:
            self.fn.if_(code.icmp("slt", "i64", left, "0", hint="c"), lambda: self.fn.require(
                code.icmp("sge", "i64", left, str(-LONGEST), hint="c"), context.LONG), rare=True)

    def _own_counter(self) -> str:
        """The count's memory, which becomes a register.

        The first count is that of the context.  Of a constant LLVM would know more than is of use.
        """
        if not self._counter:
            self._counter = self.code.alloca("i64", 1, 8)
            entry = self.code.at_entry
            field = entry.address("i8", "%ctx", context.offset("polls"), hint="field")
            entry.store("i64", entry.load("i64", field, hint="count"), self._counter)
        return self._counter

    def poll(self, weight: int, counter: str = "") -> None:
        """Subtract from a counter, by default the function's own, and poll if nothing is left.

        Machine code has one operation for a subtraction and a jump that tests its sign.
        """
        code, counter = self.code, counter or self._own_counter()
        left = code.arith("sub", "i64", code.load("i64", counter), str(weight))
        code.store("i64", left, counter)

        def reset_and_ask() -> None:
            self.code.store("i64", str(context.POLL_PERIOD), counter)
            self.ask()
        self.fn.if_(code.icmp("slt", "i64", left, "0", hint="c"), reset_and_ask, rare=True)

    def ask(self) -> None:
        """Call the handler, if there is one, and fail if it requests a stop."""
        fn, code = self.fn, self.code
        stop = code.call("i32", alloc_runtime.asking(fn.writer), ("ptr", "%ctx"), flags="preserve_mostcc", hint="stop")
        fn.require(code.icmp("eq", "i32", stop, "0", hint="c"), context.INTERRUPT)

    # --- loops over arrays ------------------------------------------------------------------------------

    @contextmanager
    def around(self, n: str, each: str, unbounded: bool) -> Iterator[bool]:
        """Yields True if the loop that is emitted within the context must be chunked, with a poll after each chunk.

        The loop has ``n`` iterations of ``each`` elements.  Inside a loop of the program they count towards that loop's
        poll instead.  Elsewhere a loop is chunked if it is unbounded: if no stored array has as many elements.  Loops
        over stored arrays end soon enough, and chunks would cost a fifth of their compile time.
        """
        inner, self._within = self._within, True
        known = [int(x) for x in (n, each) if x[0] != "%"]
        repeated = self.fn.forest.loop_of(self.fn.block) is not None
        short = len(known) == 2 and known[0] * known[1] <= (_HEAVY if repeated else context.POLL_PERIOD)
        polled = self.active and not inner and not short and self.fn.code is self.code     # not in an outlined routine
        if polled and repeated:
            if unbounded and not self.fn.options.strips:
                self._stop_if_long(self.fn.mul(n, each))
            self.count(self.fn.mul(n, each))
        try:
            yield polled and unbounded and (not repeated or self.fn.options.strips)
        finally:
            self._within = inner

    def strips_of(self, n: str, each: str, carried: Sequence[tuple[str, str]],
                  run: Callable[[str, str, list[str]], list[str]]) -> list[str]:
        """``for i in range(n)`` in chunks: ``run(start, end, values)`` emits one, which is not empty."""
        code, length = self.code, self._strip_length(each)
        strip, again, done, before = code.label("strip"), code.label("again"), code.label("done"), code.here
        outs = [code.phi(t, done) for t, _ in carried]
        code.branch(code.icmp("sgt", "i64", n, "0", hint="c"), strip, done)
        phis = [code.phi(t, strip) for t in ("i64", *(t for t, _ in carried))]
        for phi, value in zip([*phis, *outs], ["0", *(v for _, v in carried), *(v for _, v in carried)]):
            code.add_incoming(phi, value, before)
        code.start(strip)
        smin = self.fn.writer.declare("llvm.smin.i64", "i64", "i64, i64")
        step = code.call("i64", smin, ("i64", code.arith("sub", "i64", n, phis[0], flags="nsw")), ("i64", length))
        end = code.arith("add", "i64", phis[0], step, flags="nsw", hint="limit")
        values = run(phis[0], end, phis[1:])
        for out, value in zip(outs, values):
            code.add_incoming(out, value)
        code.branch(code.icmp("slt", "i64", end, n, hint="c"), again, done)
        code.start(again)
        self.ask()
        for phi, value in zip(phis, [end, *values]):
            code.add_incoming(phi, value)
        code.jump(strip)
        code.start(done)
        return outs

    def _strip_length(self, each: str) -> str:
        """The number of iterations of ``each`` elements in a chunk."""
        if each[0] != "%":
            return str(max(1, context.POLL_PERIOD // max(1, int(each))))
        umax = self.fn.writer.declare("llvm.umax.i64", "i64", "i64, i64")
        most = self.code.call("i64", umax, ("i64", each), ("i64", "1"))
        quotient = self.code.arith("udiv", "i64", str(context.POLL_PERIOD), most)
        return self.code.call("i64", umax, ("i64", quotient), ("i64", "1"))

    # --- strip-mined loops ------------------------------------------------------------------------------

    def enter(self, loop: Loop, args: list[Lowered]) -> list[Lowered]:
        """Emit code at the entry of a loop; returns the arguments of its head."""
        if not self.active:
            return args
        if loop.parent is None:
            self._look_into(loop)
        count = counted(loop)
        if count is None:
            walk = None if self.weight(loop) else self._walk(loop)
            if walk is not None and not is_short(walk, loop):
                self._stop_if_long(self.fn.sub(*map(self.fn.scalar, (walk.bound, walk.start)[::walk.sign])))
            return args
        trip = self.fn.scalar(count.trip)
        if self.weight(loop) or trip[0] != "%" and int(trip) <= context.POLL_PERIOD:
            return args
        counts = loop.parent is not None and loop.exit is not None
        bounded = loop in self._compared or _is_row(count.trip) or not self._may_be_long(count.trip)
        if counts:
            self.count(trip, bounded)
        if loop.parent is None or self.fn.options.strips or trip[0] != "%" and int(trip) > LONGEST:
            return self._enter_strip(loop, count, args)
        if not bounded and not counts:
            self._stop_if_long(trip)
        return args

    def _look_into(self, outermost: Loop) -> None:
        """Compare the trip counts of the loops in a loop that are known ahead of it."""
        compared: set[Value] = set()
        todo = [*outermost.children]
        while todo:
            loop = todo.pop()
            todo += loop.children
            count = counted(loop)
            if count is not None and not self.weight(loop) and count.trip.block not in outermost.blocks \
                    and self._may_be_long(count.trip):
                self._compared.add(loop)
                if count.trip not in compared:
                    compared.add(count.trip)
                    self._stop_if_long(self.fn.scalar(count.trip))

    def _may_be_long(self, trip: Value) -> bool:
        return self.fn.options.restart and trip.const is None and self._ranges.interval(trip)[1] > LONGEST

    def _stop_if_long(self, trip: str) -> None:
        """Return ``context.LONG`` if a loop without polls has more than ``LONGEST`` iterations."""
        if self.fn.options.restart:
            self.fn.require(self.code.icmp("sle", "i64", trip, str(LONGEST), hint="c"), context.LONG)

    def left(self, source: Block, target: Block) -> list[Loop]:
        """The loops that an edge leaves and that count when they are left: counted ones with several exits, and walks.

        What they have run may be far less than their trip count.
        """
        found = []
        loop = self.fn.forest.loop_of(source) if self.active else None
        while loop is not None and target not in loop.blocks:
            walk = self._walk(loop)
            several = counted(loop) is not None and loop.exit is None or walk is not None and not is_short(walk, loop)
            if loop.parent is not None and several and not self.weight(loop):
                found.append(loop)
            loop = loop.parent
        return found

    def leave(self, loops: list[Loop]) -> None:
        """Count the iterations of loops that are being left."""
        for loop in loops:
            known, walk = counted(loop), self._walk(loop)
            if known is not None:
                self.count(self.fn.scalar(known.iv))
            elif walk is not None:
                self.count(self.fn.sub(*map(self.fn.scalar, (walk.param, walk.start)[::walk.sign])))

    def _enter_strip(self, loop: Loop, count: Counted, args: list[Lowered]) -> list[Lowered]:
        code, label = self.code, self.code.label("strip")
        phis: list[list[str | None]] = []
        inner: list[Lowered] = []
        for p, arg in zip(loop.head.params, args):
            parts, own = types.split(arg), list[str | None]()
            for k, t in enumerate(types.parts_of(p.type)):
                phi = None if self.fn.places.is_fixed(p, k) else code.phi(t, label)
                if phi is not None:
                    code.add_incoming(phi, parts[k])
                    parts[k] = phi
                own.append(phi)
            phis.append(own)
            inner.append(types.assemble(p.type, parts))
        code.jump(label)
        code.start(label)
        start = inner[count.iv.index]
        assert isinstance(start, str)
        left = code.arith("sub", "i64", self.fn.scalar(count.trip), start, flags="nsw")
        smin = self.fn.writer.declare("llvm.smin.i64", "i64", "i64, i64")
        step = code.call("i64", smin, ("i64", left), ("i64", str(context.POLL_PERIOD)))
        self.strips[loop] = Strip(count, label, phis, code.arith("add", "i64", start, step, flags="nsw", hint="limit"))
        return inner

    def end_strip(self, loop: Loop, head: str, note: str, args: Sequence[Lowered], leave: Callable[[], None]) -> None:
        """At the latch, whose edge to ``head`` is recorded: continue the chunk, start the next one, or leave.

        ``note``: metadata for the edge to ``head``.
        """
        code, strip = self.code, self.strips[loop]
        following, trip = self.fn.scalar(strip.count.next), self.fn.scalar(strip.count.trip)
        over, again, out = code.label("over"), code.label("again"), code.label("leave")
        code.branch(code.icmp("slt", "i64", following, strip.limit, hint="c"), head, over, note)
        code.start(over)
        code.branch(code.icmp("slt", "i64", following, trip, hint="c"), again, out)
        code.start(again)
        self.ask()
        for phis, arg in zip(strip.phis, args):
            for phi, name in zip(phis, types.split(arg)):
                if phi is not None:
                    code.add_incoming(phi, name)
        code.jump(strip.label)
        code.start(out)
        leave()


def _is_row(trip: Value) -> bool:
    """True for the distance of two elements of one array, as ``starts[i + 1] - starts[i]``: rows are in memory.

    With a comparison LLVM would compute the end of a row from its length, for which branches then wait: 8 % of the
    time of a product with a sparse matrix.
    """
    op = trip.op
    if op is not None and op.name == "maximum" and op.operands[1].const == 0:
        op = op.operands[0].op
    if op is None or op.name != "sub":
        return False
    end, start = (v.op for v in op.operands)
    return end is not None and start is not None and end.name == start.name == "get" \
        and end.operands[0] is start.operands[0]
