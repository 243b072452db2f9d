"""Estimates how long a loop takes: the program itself computes it, in picoseconds, before it enters the loop.

The estimate is the cost model (``analysis/cost.py``) times the time that a unit of it takes, for each block as often as
it runs.  A unit is faster in code that becomes vectors.  Vectors are made after this, by later passes and by LLVM, so
the estimate tells from the loop's shape if they will be.

Loops in the loop run as often as is known before it.  If their number of iterations depends on the iteration of a loop
around them, as in a triangle of pairs, the iteration in the middle counts.  So it does for the sizes of arrays.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, is_float_scalar
from ...ir.uses import ops_of
from ..analysis.cost import CALL
from ..analysis.loops import Loop, LoopForest, counted, raising_blocks
from ..analysis.sizes import Solver
from .independence import Dependent, Independence

VECTOR, FUNCTION, IRREGULAR, SERIAL = 25, 60, 50, 120
"""Picoseconds for a unit of the cost model (AMD EPYC, one thread).  In vectors of eight: arithmetic (a filter takes 14,
products of matrices 20, sums over pairs with a branch 35), and transcendental functions.  ``IRREGULAR``: one by one,
where an index depends on data (a sparse product takes 30, springs 60).  ``SERIAL``: each addition waits for the one
before (a triangular system takes 110), or functions are called one by one (``exp`` takes 90, ``sin`` 190)."""
ENOUGH = 15_000_000
"""The least time of a loop for several threads, in picoseconds.  To share it takes a microsecond (Intel Xeon); threads
that sleep are not woken for each loop that is short (``lowering/threads/thread_pool.py``)."""
MOST, LARGEST = 1 << 20, 1 << 40
"""Bounds of trip counts and of durations, so that the estimate cannot wrap."""
UNKNOWN, UNCOUNTED = 8, 32
"""The number of iterations, or of elements along an axis, where it depends on data, as in rows of sparse matrices; and
the number of iterations of a loop that ends when a condition holds."""
MANY = 40_000
"""A loop is not divided that needs as many iterations, and whose length depends on a counter of a serial loop around
it, which then takes a third of a second."""
DEEPEST = 8
"""The longest chain of integer ops by which a trip count depends on a counter."""

_INTEGER = frozenset("add sub mul minimum maximum floordiv".split())


def is_brief(forest: LoopForest, loop: Loop, trip: Value, enough: int) -> bool:
    """True if a loop without others in it never takes long enough, or only in programs that run for long anyway."""
    ops = list(ops_of(forest.dom.in_order(loop.blocks)))
    if loop.children or any(_arrays(op) or op.name == "call" for op in ops):
        return False
    time = sum(_element(op, VECTOR, FUNCTION) for op in ops)
    if trip.const is not None:
        return bool(time * trip.const * SERIAL < enough * VECTOR)
    return time * MANY < enough and _depends_on_counter(forest, trip)


def _depends_on_counter(forest: LoopForest, v: Value, depth: int = DEEPEST) -> bool:
    """True for a counter of a loop, and for an integer that is computed from one."""
    op, loop = v.op, forest.loop_of(v.block)
    if op is None:
        known = counted(loop) if loop is not None and v.block is loop.head else None
        return known is not None and known.iv is v
    return op.name in _INTEGER and depth > 0 and any(_depends_on_counter(forest, x, depth - 1) for x in op.operands)


class Duration:
    """The duration of an iteration of ``loop``, emitted at ``b``, ahead of the loop."""

    def __init__(self, b: Builder, forest: LoopForest, loop: Loop, sizes: Solver, fastmath: bool) -> None:
        self.b, self.forest, self.loop, self.sizes, self.fastmath = b, forest, loop, sizes, fastmath
        self.raising = raising_blocks(forest.dom)
        used = (v for op in ops_of(loop.blocks) for v in op.used())
        self.live = {v for v in used if v.block not in loop.blocks}      # nothing has consumed these arrays

    def of_iteration(self) -> Value:
        return self._iteration(self.loop)

    def _iteration(self, loop: Loop) -> Value:
        b, inner = self.b, {x for child in loop.children for x in child.blocks}
        (rate, function), fixed, other = self._rates(loop), 0, list[Value]()
        for op in ops_of(self.forest.dom.in_order(loop.blocks - inner)):
            arrays = _arrays(op)
            time = _element(op, VECTOR, FUNCTION) if arrays else _element(op, rate, function)
            if arrays and time:
                other.append(b.mul(b.minimum(self._most(arrays), MOST), time))
            else:
                fixed += time
        for child in loop.children:
            known = counted(child)
            trip = self._middle(known.trip) if known is not None else None
            times = b.minimum(trip, MOST) if trip is not None else b.const(UNKNOWN if known is not None else UNCOUNTED)
            other.append(b.minimum(b.mul(times, self._iteration(child)), LARGEST))
        total = b.const(fixed)
        for more in other:
            total = b.add(total, more)
        return total

    # --- arrays -------------------------------------------------------------------------------------

    def _most(self, arrays: list[Value]) -> Value:
        """The number of elements of the largest array."""
        most = self._elements(arrays[0])
        for v in arrays[1:]:
            most = self.b.maximum(most, self._elements(v))
        return most

    def _elements(self, v: Value) -> Value:
        b, total = self.b, self.b.const(1)
        assert isinstance(v.type, Array)
        for axis in range(v.type.rank):
            size = self.sizes.size((v, axis))
            n: Value | None = None
            if isinstance(size, int):
                n = b.const(size)
            elif isinstance(size, Value):
                n = self._middle(size)
            elif size[0] in self.live:
                n = b.dim(size[0], axis=size[1])
            total = b.minimum(b.mul(total, b.minimum(n, MOST) if n is not None else UNKNOWN), MOST)
        return total

    # --- trip counts ----------------------------------------------------------------------------------

    def _middle(self, v: Value, depth: int = DEEPEST) -> Value | None:
        """An integer as it is in the middle iterations of the loops around it, if it can be known before ``loop``."""
        b, op = self.b, v.op
        if v.const is not None:
            return b.const(v.const)
        if v.block not in self.loop.blocks:
            return v
        if op is None:
            known = next((k for k in map(counted, self._around(v.block)) if k is not None and k.iv is v), None)
            trip = self._middle(known.trip, depth - 1) if known is not None and depth else None
            return b.floordiv(trip, 2) if trip is not None else None
        if op.name not in _INTEGER or not depth:
            return None
        parts = [self._middle(x, depth - 1) for x in op.operands]
        if any(x is None for x in parts):
            return None
        return b.emit(op.name, *parts)                                                 # type: ignore[arg-type]

    def _around(self, block: Block) -> list[Loop]:
        found, loop = [], self.forest.loop_of(block)
        while loop is not None:
            found.append(loop)
            loop = loop.parent
        return found

    # --- vectors ----------------------------------------------------------------------------------------

    def _rates(self, loop: Loop) -> tuple[int, int]:
        """The times for a unit, and for one of a function, in ``loop``.

        It may become vectors along itself or along a loop around it.  Functions do so where only sums are in order.
        """
        known = counted(loop)
        if known is None or loop.exit is None:
            return SERIAL, SERIAL
        if loop.children:
            rates, functions = zip(*map(self._rates, loop.children))
            return max(rates), max(functions)
        try:
            Independence(loop, known, loop.region(self.raising)).roles()
        except Dependent:
            return SERIAL, SERIAL
        if loop is self.loop and any(self._adds_in_order(a) for a in loop.back_edge().args):
            return SERIAL, FUNCTION
        if any(b.call for b in loop.blocks):
            return SERIAL, SERIAL
        return VECTOR if self._is_regular(loop) else IRREGULAR, FUNCTION

    def _adds_in_order(self, v: Value) -> bool:
        """True if a float is carried by additions in order.  In inner loops such sums are those of lanes."""
        return is_float_scalar(v.type) and v.op is not None and not (
            self.fastmath or v.op.attrs.get("acc"))

    def _is_regular(self, loop: Loop) -> bool:
        """True if no index depends on data."""
        return not any(self._is_data(v) for block in loop.blocks for op in block.ops
                       for v in (op.operands[OPS[op.name].indices:] if OPS[op.name].indices else ()))

    def _is_data(self, v: Value, depth: int = DEEPEST) -> bool:
        """True if an index comes from an array that is read in the loop."""
        op = v.op
        if op is None or v.block not in self.loop.blocks or v.const is not None:
            return False
        return op.name in ("get", "cast") or not depth or any(self._is_data(x, depth - 1) for x in op.operands)


def _arrays(op: Op) -> list[Value]:
    """The arrays that an op goes through: its result, and what it reads."""
    definition = OPS.get(op.name)
    if definition is None or definition.view or op.name in ("set", "add_at"):
        return []
    return [v for v in (*op.results, *op.operands) if isinstance(v.type, Array) and v.type.rank]


def _element(op: Op, rate: int, function: int) -> int:
    """The time for an element of an op; ``rate`` and ``function``: for a unit of the cost model."""
    if op.name == "call":
        return CALL * SERIAL
    definition = OPS.get(op.name)
    return definition.cost * (function if definition.vector else rate) if definition is not None else 0
