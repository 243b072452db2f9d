"""Linear recurrences ``x = a * x + b``, with ``a`` and ``b`` known beforehand, as scans of the maps of iterations.

Maps are composed, ``(a, b)`` and then ``(c, d)`` being ``(c * a, c * b + d)``, and three kernels do as for other scans
(``scans.py``): ``totals`` composes the maps of each block's part of the loop, ``offsets`` finds the value before each
part, ``scan`` goes through the parts again, and runs each iteration with the value before it at hand.

*Where this is not the loop in order.*  A composed map may overflow where no value of the loop does, and if ``a`` is
large, ``a * x`` and ``b`` may cancel.  So a map whose factor exceeds ``LIMIT``, or whose ``b`` is not finite, gets a
factor of NaN, which all maps inherit that it is part of.  Iterations whose maps are not all known are run in order:
a tile by one thread, or, if no value before the last part is known, all tiles by one block one after another.  Integers
wrap, and need none of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ....errors import Loc
from ....ir.types import I32, Scalar
from ...llvm import types
from ...math import ops, selection
from ..device import reduce
from ..device.emitter import Shared
from ..image import BLOCK, WARP, Kernel
from .scans import ROWS, TILE, Body, LoopKernel, ScanKernels
from .writer import KernelWriter, Known, Resident

LIMIT = 64.0
"""The greatest factor of a composed map: a bound of how much an error of the value before it grows, six bits of 53, or
of 24.  Filters and discounted sums have factors of at most 1."""
WORDS = 2
"""Words that each part has among the partial results: a map, then the value before the part."""
WARPS = BLOCK // WARP


def recurrence_kernels(shared: Shared, name: str, loc: Loc, known: Known, body: Body, resident: Resident = ((), ())
                       ) -> ScanKernels:
    """The kernels of a recurrence, with the parameters of those of a scan; ``body.term`` returns ``a`` and ``b``."""
    return ScanKernels(_Loop(shared, f"{name}_totals", loc, known, body, resident).totals(),
                       _Offsets(shared, f"{name}_offsets", loc, body.type, bool(resident[0])).scan(),
                       _Loop(shared, name, loc, known, body, resident).scan())


@dataclass(frozen=True)
class Map:
    """``x`` becomes ``a * x + b``."""

    a: str
    b: str


class _Recurrence(KernelWriter, ABC):
    """A kernel that goes through the iterations ``k < count``, ``part`` of them in a block."""

    def __init__(self, shared: Shared, name: str, loc: Loc, t: Scalar, resident: bool) -> None:
        super().__init__(shared, name, loc, BLOCK)
        self.t, self.of = t, types.register(t)
        self.count, self.part, self.partial = (self.param(kind, h) for kind, h in (
            ("i64", "count"), ("i64", "part"), ("ptr", "partial")))
        self.before = str(self.given(t, "before", resident))
        self.neutral = Map(types.literal(1, t), selection.neutral("add", t))

    @abstractmethod
    def map(self, k: str) -> Map:
        """The map of iteration ``k``."""

    @abstractmethod
    def step(self, k: str, x: str) -> str:
        """Append iteration ``k`` with the value before it; returns the one after it."""

    @abstractmethod
    def limits(self) -> tuple[str, str, str]:
        """The first iteration of the block, the end, and the value before it."""

    # --- maps ---------------------------------------------------------------------------------------

    def _apply(self, name: str, x: str, y: str) -> str:
        return ops.apply(self, name, self.t, [x, y], {"acc": True}, self.t)

    def applied(self, m: Map, x: str) -> str:
        return self._apply("add", self._apply("mul", m.a, x), m.b)

    def then(self, first: Map, second: Map) -> Map:
        """The map of one after another; its factor is NaN if it is of no use."""
        a, b = self._apply("mul", second.a, first.a), self.applied(second, first.b)
        if self.t.is_int:
            return Map(a, b)
        small = self.code.op(f"fcmp ole {self.of} {self._abs(a)}, {types.literal(LIMIT, self.t)}", "c")
        useful = self.code.op(f"and i1 {small}, {self._is_finite(b)}", "c")
        return Map(self._select(useful, a, types.literal(float("nan"), self.t)), b)

    def _abs(self, x: str) -> str:
        return ops.apply(self, "abs", self.t, [x], {}, self.t)

    def _is_finite(self, x: str) -> str:
        return self.code.op(f"fcmp olt {self.of} {self._abs(x)}, {types.literal(float('inf'), self.t)}", "c")

    def _select(self, condition: str, x: str, y: str) -> str:
        return self.code.op(f"select i1 {condition}, {self.of} {x}, {self.of} {y}")

    def _either(self, condition: str, x: Map, y: Map) -> Map:
        return Map(self._select(condition, x.a, y.a), self._select(condition, x.b, y.b))

    def _inside(self, condition: str, k: str) -> Map:
        """The map of an iteration, or the neutral one beyond the end."""
        code = self.code
        yes, after, here = code.label("inside"), code.label("known"), code.here
        phis = [code.phi(self.of, after) for _ in range(WORDS)]
        for phi, x in zip(phis, (self.neutral.a, self.neutral.b)):
            code.add_incoming(phi, x, here)
        code.branch(condition, yes, after)
        code.start(yes)
        found = self.map(k)
        for phi, x in zip(phis, (found.a, found.b)):
            code.add_incoming(phi, x)
        code.jump(after)
        code.start(after)
        return Map(*phis)

    def _in_warp(self, own: Map, lane: str) -> tuple[Map, Map]:
        """The maps of the lanes before this one composed, and those of all lanes."""
        before, total, lanes = self.neutral, own, 1
        while lanes < WARP:
            other = Map(*(reduce.shuffle(self, "xor", self.t, x, str(lanes)) for x in (total.a, total.b)))
            later = self.code.op(f"icmp ne i64 {self.code.op(f'and i64 {lane}, {lanes}')}, 0", "c")
            before = self._either(later, self.then(other, before), before)
            total = self.then(self._either(later, other, total), self._either(later, total, other))
            lanes *= 2
        return before, total

    # --- tiles --------------------------------------------------------------------------------------

    def _places(self) -> tuple[str, str, str]:
        """The lane and the warp of this thread, and its first iteration in a tile."""
        thread = self.number("thread")
        lane = self.code.op(f"and i64 {thread}, {WARP - 1}", "lane")
        warp = self.code.op(f"lshr i64 {thread}, 5", "warp")
        return lane, warp, self.add(self.mul(warp, str(WARP * ROWS)), lane)

    def _composed(self, base: str, end: str, places: tuple[str, str, str]
                  ) -> tuple[list[tuple[str, str, Map]], Map]:
        """For each iteration of this thread its number, if it is inside, and the map of what comes before it in the
        tile; the map of the tile."""
        lane, warp, own = places
        rows, total = [], self.neutral
        for r in range(ROWS):
            k = self.add(self.add(base, own), str(WARP * r))
            inside = self.code.op(f"icmp slt i64 {k}, {end}", "c")
            before, row = self._in_warp(self._inside(inside, k), lane)
            rows.append((k, inside, self.then(total, before)))
            total = self.then(total, row)
        earlier, whole = self._warps(total, lane, warp)
        return [(k, inside, self.then(earlier, before)) for k, inside, before in rows], whole

    def _warps(self, total: Map, lane: str, warp: str) -> tuple[Map, Map]:
        """The maps of the warps before this one composed, and those of all."""
        arrays = [self.shared_array(f"{self.name}.{part}", self.t, WARPS) for part in ("factors", "terms")]
        self.barrier()

        def tell() -> None:
            for array, x in zip(arrays, (total.a, total.b)):
                self.store(self.t, x, self.shared_at(array, self.t, warp), 3)
        self.if_(self.code.op(f"icmp eq i64 {lane}, 0", "c"), tell)
        self.barrier()
        earlier = whole = self.neutral
        for k in range(WARPS):
            here = self.code.op(f"icmp eq i64 {warp}, {k}", "c")
            earlier = whole if k == 0 else self._either(here, whole, earlier)
            whole = self.then(whole, Map(*(self.load(self.t, self.shared_at(array, self.t, str(k)), 3)
                                           for array in arrays)))
        return earlier, whole

    def scan(self) -> Kernel:
        first, end, start = self.limits()
        places = self._places()

        def tile(base: str, carried: list[str]) -> list[str]:
            x = carried[0]
            rows, whole = self._composed(base, end, places)

            def together() -> str:
                for k, inside, before in rows:
                    self.if_(inside, partial(self._run, k, before, x))
                return self.applied(whole, x)
            if self.t.is_int:
                return [together()]
            known = [self.code.op(f"fcmp ord {self.of} {m.a}, {m.a}", "c") for m in (whole, *(m for *_, m in rows))]
            good = self._everywhere([self._is_finite(x), *known], places)
            return [self._choose(good, together, partial(self._in_order, base, end, x))]
        self.loop(first, end, str(TILE), tile, [(self.of, start)])
        return self.write()

    def _run(self, k: str, before: Map, x: str) -> None:
        self.step(k, self.applied(before, x))

    def _everywhere(self, conditions: list[str], places: tuple[str, str, str]) -> str:
        """True, in all threads of the block, if conditions hold in all of them."""
        lane, warp, _ = places
        mine = conditions[0]
        for c in conditions[1:]:
            mine = self.code.op(f"and i1 {mine}, {c}", "c")
        array = self.shared_array(f"{self.name}.votes", I32, WARPS)
        votes = self.ballot(mine)
        self.if_(self.code.op(f"icmp eq i64 {lane}, 0", "c"),
                 lambda: self.store(I32, votes, self.shared_at(array, I32, warp), 3))
        self.barrier()
        every = "-1"
        for k in range(WARPS):
            every = self.code.op(f"and i32 {every}, {self.load(I32, self.shared_at(array, I32, str(k)), 3)}")
        return self.code.op(f"icmp eq i32 {every}, -1", "c")

    def _choose(self, condition: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        code = self.code
        ways, after = [code.label("together"), code.label("order")], code.label("tile")
        x = code.phi(self.of, after)
        code.branch(condition, *ways)
        for way, run in zip(ways, (yes, no)):
            code.start(way)
            code.add_incoming(x, run())
            code.jump(after)
        code.start(after)
        return x

    def _in_order(self, base: str, end: str, x: str) -> str:
        """The value after a tile whose iterations one thread runs."""
        after = self.add(base, str(TILE))
        below = self.code.op(f"icmp slt i64 {after}, {end}", "c")
        stop = self.code.op(f"select i1 {below}, i64 {after}, i64 {end}", "end")
        array = self.shared_array(f"{self.name}.value", self.t, 1)

        def run() -> None:
            last, = self.loop(base, stop, "1", lambda k, xs: [self.step(k, xs[0])], [(self.of, x)])
            self.store(self.t, last, self.shared_at(array, self.t, "0"), 3)
        self.if_(self.code.op(f"icmp eq i64 {self.number('thread')}, 0", "c"), run)
        self.barrier()
        return self.load(self.t, self.shared_at(array, self.t, "0"), 3)

    def part_at(self, k: str, word: int = 0) -> str:
        """The address of a word of part ``k``."""
        return self.offset(self.partial, self.add(self.mul(k, str(8 * WORDS)), str(8 * word)))


class _Loop(_Recurrence, LoopKernel):
    """Kernels of the loop itself; parameters as in ``scans.py``."""

    def __init__(self, shared: Shared, name: str, loc: Loc, known: Known, body: Body, resident: Resident) -> None:
        super().__init__(shared, name, loc, body.type, bool(resident[0]))
        self.take_loop(known, body, resident)

    def map(self, k: str) -> Map:
        return Map(*self.terms(k))

    def step(self, k: str, x: str) -> str:
        return self.run(k, x)

    def _part(self) -> tuple[str, str]:
        count, block = self.unless_failed(self.count), self.number("block")
        first = self.mul(block, self.part)
        end = self.add(first, self.part)
        below = self.code.op(f"icmp slt i64 {end}, {count}", "c")
        return first, self.code.op(f"select i1 {below}, i64 {end}, i64 {count}", "end")

    def limits(self) -> tuple[str, str, str]:
        first, end = self._part()
        several = self.code.op(f"icmp ne i64 {self.number('grid_size')}, 1", "c")
        start = self.where(several, self.t, self.before, lambda: self.load(self.t, self.part_at(self.number("block"))))
        if self.t.is_int:
            return first, end, start
        last = self.where(several, self.t, types.literal(0, self.t), lambda: self.load(
            self.t, self.part_at(self.add(self.number("grid_size"), "-1"))))
        known = self._is_finite(last)                # if not, the first block does it all
        is_first = self.code.op(f"icmp eq i64 {self.number('block')}, 0", "c")
        alone = self.code.op(f"select i1 {is_first}, i64 {self.unless_failed(self.count)}, i64 0", "count")
        return (self.code.op(f"select i1 {known}, i64 {first}, i64 0", "first"),
                self.code.op(f"select i1 {known}, i64 {end}, i64 {alone}", "end"),
                self._select(known, start, self.before))

    def totals(self) -> Kernel:
        first, end = self._part()
        places = self._places()

        def tile(base: str, carried: list[str]) -> list[str]:
            found = self.then(Map(*carried), self._composed(base, end, places)[1])
            return [found.a, found.b]
        total = self.loop(first, end, str(TILE), tile, [(self.of, self.neutral.a), (self.of, self.neutral.b)])

        def tell() -> None:
            for word, x in enumerate(total):
                self.store(self.t, x, self.part_at(self.number("block"), word))
        self.if_(self.code.op(f"icmp eq i64 {self.number('thread')}, 0", "c"), tell)
        return self.write()


class _Offsets(_Recurrence):
    """The maps of the parts become the values before them; parameters: status, their number, the same, partial, the
    value before the loop."""

    def map(self, k: str) -> Map:
        return Map(*(self.load(self.t, self.part_at(k, word)) for word in range(WORDS)))

    def step(self, k: str, x: str) -> str:
        after = self.applied(self.map(k), x)
        self.store(self.t, x, self.part_at(k))
        return after

    def limits(self) -> tuple[str, str, str]:
        return "0", self.unless_failed(self.count), self.before
