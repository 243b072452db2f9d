"""Bodies of nests that the 32 lanes of a warp execute together, such as the reduction of a row, or its softmax.

::

    %m = for {independent, reductions = ("max",)} %j = 0 to %n (…) { load %x, %i, %j … }
    store %m, %y, %i

Lane l runs the iterations l, l + 32, … of each independent loop of the body, so that the warp reads a row in whole
lines.  Reductions are combined by shuffles, after which every lane has the result.  All lanes compute what stands
outside of the loops; lane 0 stores it.  What a later loop reads again is kept in shared memory (``row_cache``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....ir.graph import Function, Op, Value
from ....ir.types import I64, Scalar
from ....loop_level.types import buffer_type
from ...llvm import types
from ...math import selection
from ..image import BLOCK, WARP
from . import reduce
from .emitter import Shared
from .function import DeviceFunction
from .patterns import Scan, scan_of
from .row_cache import ROOM, row_cache

_PLAIN = frozenset(("load", "store", "dim", "view", "reshape", "retype"))


def is_row(ops: Sequence[Op], indices: Sequence[Value]) -> bool:
    """True if the loops of a body read along rows, each lane its own elements of what is stored."""
    loops = [op for op in ops if op.name == "for"]
    every = [*ops, *(op for loop in loops for op in loop.regions[0].nested_ops())]
    if not loops or not all(map(_is_shared, loops)) or not any(map(is_long, loops)):
        return False
    if not all(op.name in _PLAIN or op.name in ("for", "yield", "return") or _is_arithmetic(op) for op in every):
        return False
    if not all(isinstance(v.type, Scalar) for op in loops for v in op.results) or not _keep_apart(ops):
        return False
    outside = set(indices)
    return any(_along(op, loop.regions[0].params[0]) for loop in loops for op in loop.regions[0].ops) and not any(
        op.name == "load" and op.operands[-1] in outside for loop in loops for op in loop.regions[0].ops)


def _is_shared(loop: Op) -> bool:
    """True if the lanes of a warp can share the iterations of a loop."""
    return bool(loop.attrs.get("independent")) or "best" in loop.attrs or (
        loop.operands[0].const == 0 and loop.operands[2].const == 1 and scan_of(loop) is not None)


def _keep_apart(ops: Sequence[Op]) -> bool:
    """True if no lane accesses an element that another one stores.

    What is stored outside of the loops is not read, and stored once.  What is stored in them is accessed at one place
    only, the index of the loop, of loops that all give the same iterations to a lane.
    """
    stored = [buffer_type(op.operands[1]).alias for op in ops if op.name == "store"]
    inside = [(op, loop) for loop in ops if loop.name == "for" for op in loop.regions[0].nested_ops()]
    written = {buffer_type(op.operands[1]).alias for op, _ in inside if op.name == "store"}
    read = {buffer_type(op.operands[0]).alias for op in ops if op.name == "load"}
    read_inside = {buffer_type(op.operands[0]).alias for op, _ in inside if op.name == "load"}
    if len(set(stored)) < len(stored) or None in stored or None in written or set(stored) & (
            read | read_inside | written) or written & read:
        return False
    places: dict[int, list[object]] = {}
    for op, loop in inside:
        if op.name not in ("load", "store"):
            continue
        place: list[object] = list(op.operands[op.name == "store":])
        alias = buffer_type(op.operands[op.name == "store"]).alias
        if alias is None or alias not in written:
            continue
        iv = loop.regions[0].params[0]
        if place.count(iv) != 1 or any(v.op in loop.regions[0].ops for v in op.operands[1:] if v is not iv and v.op):
            return False
        lanes = place[place.index(iv)] = loop.operands[0].const, loop.operands[2].const
        if None in lanes or places.setdefault(alias, place) != place:
            return False
    return True


def _is_arithmetic(op: Op) -> bool:
    return len(op.results) == 1 and isinstance(op.result.type, Scalar) and not op.regions and all(
        isinstance(v.type, Scalar) for v in op.operands) and op.name not in ("check", "pop")


def is_long(op: Op) -> bool:
    lower, upper, step = (v.const for v in op.operands[:3])
    return None in (lower, upper, step) or len(range(lower, upper, step)) >= WARP


def _along(op: Op, iv: Value) -> bool:
    """True if an access runs along the last axis."""
    return op.name in ("load", "store") and op.operands[-1] is iv


def is_reduction(loop: Op) -> bool:
    """True if threads can share a loop that stores nothing, and combine the numbers that it carries."""
    ops = loop.regions[0].ops
    return ("best" in loop.attrs or bool(loop.attrs.get("independent"))) and bool(loop.results) and all(
        isinstance(v.type, Scalar) for v in loop.results) and all(
        op.name in _PLAIN and op.name != "store" or _is_arithmetic(op) for op in ops)


def has_scans(ops: Sequence[Op]) -> bool:
    """True if a body that is for the lanes of a warp has running totals."""
    return any(op.name == "for" and not op.attrs.get("independent") and "best" not in op.attrs for op in ops)


class RowFunction(DeviceFunction):
    """A body for the lanes of a warp.

    ``sharers``: how many threads share the iterations of a loop; ``rows``: the rows of a block.  ``private``: buffers
    that nothing else reads.
    """

    sharers, rows = WARP, BLOCK // WARP

    def __init__(self, shared: Shared, func: Function, private: Collection[Value] = ()) -> None:
        super().__init__(shared, func)
        self._inside, self.arrays = False, 0
        self.cache = row_cache(func.entry.ops, ROOM // self.rows, private)

    def op(self, op: Op) -> None:
        if op.name == "for":
            self.for_(op)
        elif op in self.cache.kept:
            self.loc = op.loc
            self._kept(op)
        elif op.name == "store":
            self.store_op(op)
        else:
            super().op(op)

    def _kept(self, op: Op) -> None:
        """An access to an element of the row that is kept, or will be."""
        kept, is_load = self.cache.kept[op], op.name == "load"
        b, *indices = op.operands[0 if is_load else 1:]
        memory, at = self.memory(b), list(map(self.scalar, indices))
        t, i = memory.dtype, at[kept.axis]
        inside = self.code.op(f"icmp slt i64 {i}, {self.cache.length}", "c")

        def place() -> str:
            row = self.mul(self.row(), str(ROOM // self.rows // types.width(t)))
            array = self.shared_array("rows", I64, ROOM // types.width(I64))
            return self.shared_at(array, t, self.add(self.add(row, str(kept.base)), i))

        def keep() -> None:
            self.store(t, self.scalar(op.result if is_load else op.operands[0]), place(), 3)
        if kept.reads:
            self.values[op.result] = self.where(inside, t, lambda: self.load(t, self.address(memory, at)),
                                                lambda: self.load(t, place(), 3))
        elif kept.keeps and not is_load and not kept.passes:
            self.if_(inside, keep, lambda: self.store_op(op))
        else:
            super().op(op) if is_load else self.store_op(op)
            if kept.keeps:
                self.if_(inside, keep)

    def row(self) -> str:
        """The number of the row among those of the block."""
        return self.code.op(f"lshr i64 {self.number('thread')}, 5", "warp")

    def sharer(self) -> str:
        """The number of this thread among those that share loops."""
        return self.lane()

    def combined(self, role: str, ts: reduce.Kinds, xs: Sequence[str]) -> list[str]:
        """The values of all sharers combined; every thread has the result."""
        return reduce.all_lanes(self, role, ts, xs)

    def lane(self) -> str:
        return self.code.op(f"and i64 {self.number('thread')}, {WARP - 1}", "lane")

    def for_(self, op: Op) -> None:
        """Divide a loop of the body between the threads that share it."""
        if self._inside:
            super().for_(op)
            return
        found = None if op.attrs.get("independent") or "best" in op.attrs else scan_of(op)
        self._inside = True
        if found is None:
            totals = self._reduced(op)
        else:
            totals = [self._scanned(op, found)]
        self._inside = False
        self.define(op.results, totals)

    def _reduced(self, op: Op) -> list[str]:
        """The values that a loop carries, combined by reductions."""
        body = op.regions[0]
        term = body.term
        assert term is not None
        lower, upper, step = (self.scalar(v) for v in op.operands[:3])
        scalars = [t for v in op.operands[3:] if isinstance(t := v.type, Scalar)]
        kinds = [(reduce.ROLES[k], [t]) for k, t in zip(op.attrs.get("reductions", ()), scalars)]
        if "best" in op.attrs:
            kinds = [(f"arg{op.attrs['best']}", scalars)]
        start = [x for role, ts in kinds for x in reduce.neutrals(role, ts)]
        known = op.operands[2].const

        def run(i: str, carried: list[str]) -> list[str]:
            self.values[body.params[0]] = i
            self.define(body.params[1:], carried)
            for inner in body.ops:
                self.op(inner)
            return [self.scalar(v) for v in term.operands]
        first = self.add(lower, self.mul(self.sharer(), step))
        parts = iter(self.loop(first, upper, self.mul(step, str(self.sharers)), run,
                               list(zip(map(types.register, scalars), start)),
                               downwards=known is not None and known < 0, either=known is None))
        before, totals = iter(map(self.scalar, op.operands[3:])), list[str]()
        for role, ts in kinds:
            combined = self.combined(role, ts, [next(parts) for _ in ts])
            totals += reduce.merge(self, role, ts, [next(before) for _ in ts], combined)
        return totals

    def _scanned(self, op: Op, found: Scan) -> str:
        """The total of a scan, 32 iterations at a time: the lanes have what comes before each."""
        body, t = op.regions[0], found.total.result.type
        iv, carried = body.params
        assert isinstance(t, Scalar)
        upper, lane = self.scalar(op.operands[1]), self.lane()

        def run(ops: Sequence[Op]) -> None:
            for inner in ops:
                self.op(inner)

        def term() -> str:
            run(found.ops)
            return self.scalar(found.term)

        def rows(base: str, before: list[str]) -> list[str]:
            i = self.values[iv] = self.add(base, lane)
            inside = self.code.op(f"icmp slt i64 {i}, {upper}", "c")
            x = self.where(inside, t, selection.neutral(found.role, t), term)
            earlier, total = reduce.scan_of_warp(self, found.role, t, x, lane)
            self.values[carried] = reduce.combine(self, found.role, t, before[0], earlier)
            self.values[found.total.result] = reduce.combine(self, found.role, t, self.scalar(carried), x)
            self.if_(inside, lambda: run([o for o in body.ops if o is not found.total]))
            return [reduce.combine(self, found.role, t, before[0], total)]
        return self.loop("0", upper, str(WARP), rows, [(types.register(t), self.scalar(op.operands[3]))])[0]

    def store_op(self, op: Op) -> None:
        if self._inside:
            super().store_op(op)
        else:
            is_first = self.code.op(f"icmp eq i64 {self.sharer()}, 0", "c")
            self.if_(is_first, lambda: super(RowFunction, self).store_op(op))
