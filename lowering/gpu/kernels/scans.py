"""Scans: running totals along a loop, in three kernels.

1. ``totals``: each block combines the terms of a part of the loop, and leaves the total.
2. ``offsets``, of one block: the totals become what comes before each part.
3. ``scan``: each block goes through its part again, tile by tile, with the carried value of every iteration at hand.

A loop that one block can do needs the third alone.  Within a tile a warp has rows of 32 iterations, so that it accesses
whole lines; it combines them by shuffles, and warps through shared memory.  The order of operations is fixed by the
number of iterations.  Each block reads its part twice: it would take waiting for other blocks to read it once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ....errors import Loc
from ....ir.graph import Function
from ....ir.types import Scalar
from ...llvm import types
from ...math import selection
from ..device import reduce
from ..device.emitter import Shared
from ..device.function import call
from ..device.values import Part
from ..image import BLOCK, WARP, Kernel
from .writer import KernelWriter, Known, Resident

ROWS = 4
"""Iterations of a thread in a tile."""
TILE = BLOCK * ROWS


@dataclass(frozen=True)
class ScanKernels:
    """The kernels of a scan; parameters in the head of ``_Scan``."""

    totals: Kernel
    offsets: Kernel
    scan: Kernel


@dataclass(frozen=True)
class Body:
    """The functions of a scan: ``term`` takes (i, captured…), ``step`` (i, carried, [term], captured…).

    ``takes_term``: the step is given the term, which it would have to compute again otherwise.  ``compacts``: steps
    whose term is 0 are left out.
    """

    role: str
    type: Scalar
    term: Function
    step: Function
    takes_term: bool
    compacts: bool


def scan_kernels(shared: Shared, name: str, loc: Loc, known: Known, body: Body, resident: Resident = ((), ())
                 ) -> ScanKernels:
    """The kernels for ``for i in range(lower, …, step)``.

    ``resident``: those of the values before it (0), and of the captured ones, of which the address is passed.
    """
    return ScanKernels(_Loop(shared, f"{name}_totals", loc, known, body, resident).totals(),
                       _Offsets(shared, f"{name}_offsets", loc, body, bool(resident[0])).scan(),
                       _Loop(shared, name, loc, known, body, resident).scan())


class _Scan(KernelWriter, ABC):
    """A kernel that goes through the iterations ``k < count``, ``part`` of them in a block."""

    def __init__(self, shared: Shared, name: str, loc: Loc, body: Body, resident: bool) -> None:
        super().__init__(shared, name, loc, BLOCK)
        self.body, self.t, self.of = body, body.type, types.register(body.type)
        self.count, self.part, self.partial = (self.param(kind, h) for kind, h in (
            ("i64", "count"), ("i64", "part"), ("ptr", "partial")))
        self.before = str(self.given(self.t, "before", resident))

    @abstractmethod
    def term(self, k: str) -> str:
        """The term of iteration ``k``."""

    @abstractmethod
    def step(self, k: str, carried: str, term: str) -> None:
        """Append iteration ``k``."""

    def combine(self, x: str, y: str) -> str:
        return reduce.combine(self, self.body.role, self.t, x, y)

    def _limits(self) -> tuple[str, str]:
        """The first iteration of the block, and the end."""
        count = self.unless_failed(self.count)
        first = self.mul(self.number("block"), self.part)
        end = self.add(first, self.part)
        below = self.code.op(f"icmp slt i64 {end}, {count}", "c")
        return first, self.code.op(f"select i1 {below}, i64 {end}, i64 {count}", "end")

    def scan(self) -> Kernel:
        first, end = self._limits()
        thread = self.number("thread")
        lane = self.code.op(f"and i64 {thread}, {WARP - 1}", "lane")
        warp = self.code.op(f"lshr i64 {thread}, 5", "warp")
        own, neutral = self.add(self.mul(warp, str(WARP * ROWS)), lane), selection.neutral(self.body.role, self.t)

        def tile(base: str, carried: list[str]) -> list[str]:
            places = [self.add(self.add(base, own), str(WARP * k)) for k in range(ROWS)]
            inside = [self.code.op(f"icmp slt i64 {k}, {end}", "c") for k in places]
            terms = [self.where(c, self.t, neutral, partial(self.term, k)) for c, k in zip(inside, places)]
            befores, total = [], neutral
            for x in terms:
                before, row = reduce.scan_of_warp(self, self.body.role, self.t, x, lane)
                befores.append(self.combine(total, before))
                total = self.combine(total, row)
            earlier, whole = self._warps(total, lane, warp)
            start = self.combine(carried[0], earlier)
            for c, k, before, x in zip(inside, places, befores, terms):
                self.if_(c, partial(self.step, k, self.combine(start, before), x))
            return [self.combine(carried[0], whole)]
        self.loop(first, end, str(TILE), tile, [(self.of, self.start())])
        return self.write()

    def start(self) -> str:
        """The carried value at the first iteration of the block."""
        return self.before

    def _warps(self, total: str, lane: str, warp: str) -> tuple[str, str]:
        """The totals of the warps before this one combined, and those of all."""
        array = self.shared_array(f"{self.name}.warps", self.t, BLOCK // WARP)
        self.barrier()
        self.if_(self.code.op(f"icmp eq i64 {lane}, 0", "c"),
                 lambda: self.store(self.t, total, self.shared_at(array, self.t, warp), 3))
        self.barrier()
        earlier = whole = selection.neutral(self.body.role, self.t)
        for k in range(BLOCK // WARP):
            here = self.code.op(f"icmp eq i64 {warp}, {k}", "c")
            earlier = whole if k == 0 else self._select(here, whole, earlier)
            whole = self.combine(whole, self.load(self.t, self.shared_at(array, self.t, str(k)), 3))
        return earlier, whole

    def _select(self, condition: str, x: str, y: str) -> str:
        return self.code.op(f"select i1 {condition}, {self.of} {x}, {self.of} {y}")


class LoopKernel(KernelWriter):
    """The part of a kernel that calls the functions of a loop; it adds the parameters slots, [lower], [step], captured.
    """

    t: Scalar
    count: str
    body: Body

    def take_loop(self, known: Known, body: Body, resident: Resident) -> None:
        """Take the parameters of the loop."""
        self.body, self.slots = body, self.param("ptr", "slots")
        lower, step = (None if x is None else str(x) for x in known)
        self.lower, self.stride = lower or self.param("i64", "lower"), step or self.param("i64", "step")
        self.captured: list[Part] = [self.given(t, "captured", k in resident[1])
                                     for k, t in enumerate(body.term.param_types[1:])]

    def terms(self, k: str) -> Sequence[str]:
        """The values that the loop computes before the carried value is known."""
        made, _ = call(self, self.body.term, "null", [self._index(k), *self.captured])
        return made()

    def run(self, k: str, *carried: str) -> str:
        """Append iteration ``k``; returns the carried value, which the last iteration stores."""
        made, _ = call(self, self.body.step, "null", [self._index(k), *carried, *self.captured])
        after = made()[0]
        self.if_(self.code.op(f"icmp eq i64 {self.add(k, '1')}, {self.count}", "c"),
                 lambda: self.store(self.t, after, self.slots))
        return after

    def _index(self, k: str) -> str:
        return self.add(self.lower, self.mul(k, self.stride))


class _Loop(_Scan, LoopKernel):
    """Kernels of the loop itself; parameters: status, count, part, partial, before, and those of ``LoopKernel``.

    ``before`` is the value before the loop, from which the only block starts; each of several has it in ``partial``.
    """

    def __init__(self, shared: Shared, name: str, loc: Loc, known: Known, body: Body, resident: Resident) -> None:
        super().__init__(shared, name, loc, body, bool(resident[0]))
        self.take_loop(known, body, resident)

    def term(self, k: str) -> str:
        return self.terms(k)[0]

    def step(self, k: str, carried: str, term: str) -> None:
        def run() -> None:
            self.run(k, carried, *([term] if self.body.takes_term else []))
        if not self.body.compacts:
            run()
            return
        self.if_(self.code.op(f"icmp ne i64 {term}, 0", "c"), run)

    def start(self) -> str:
        code = self.code
        several, known, here = code.label("several"), code.label("start"), code.here
        x = code.phi(self.of, known)
        code.add_incoming(x, self.before, here)
        code.branch(code.op(f"icmp eq i64 {self.number('grid_size')}, 1", "c"), known, several)
        code.start(several)
        code.add_incoming(x, self.load(self.t, self.offset(self.partial, self.mul(self.number("block"), "8"))))
        code.jump(known)
        code.start(known)
        return x

    def totals(self) -> Kernel:
        first, end = self._limits()
        thread = self.number("thread")

        def iteration(k: str, carried: list[str]) -> list[str]:
            return [self.combine(carried[0], self.term(k))]
        own = self.loop(self.add(first, thread), end, str(BLOCK), iteration,
                        [(self.of, selection.neutral(self.body.role, self.t))])
        total, = reduce.in_block(self, self.body.role, [self.t], own, BLOCK, f"{self.name}.shared")
        at = self.offset(self.partial, self.mul(self.number("block"), "8"))
        self.if_(self.code.op(f"icmp eq i64 {thread}, 0", "c"), lambda: self.store(self.t, total, at))
        return self.write()


class _Offsets(_Scan):
    """The scan of the totals; parameters: status, their number, the same, partial, the value before the loop."""

    def _at(self, k: str) -> str:
        return self.offset(self.partial, self.mul(k, "8"))

    def term(self, k: str) -> str:
        return self.load(self.t, self._at(k))

    def step(self, k: str, carried: str, term: str) -> None:
        self.store(self.t, carried, self._at(k))
