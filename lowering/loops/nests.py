"""Prints nests of loops, with the hints for LLVM that go with them.

A *nest* here is a loop, or several of which each is all that the next outer one does.  A small known number of
iterations is unrolled, which spares LLVM the work.  Several threads may share the iterations of an independent outer
loop; partial results of reductions are then combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS as IR_OPS
from ...ir.types import dtype_of
from ...loop_level.build.state import COMBINE
from ...loop_level.nest_shape import captured_by, perfect_nest
from ...loop_level.types import Buffer as LoopBuffer
from ...loop_level.types import type_of
from ...passes.parallel.duration import FUNCTION, VECTOR
from ..llvm.types import Buffer, literal, register, split
from ..math import libmvec, ops
from ..threads import parallel_nests
from . import idioms
from .printer import Printer

WRITTEN_OUT = 8       # iterations
GATHERS = 2           # the fewest in an iteration for the widest vectors: loops with one have little else to do
_NEUTRAL = {"sum": 0, "prod": 1}        # other reductions may begin twice
Body = Callable[[str, list[str]], Sequence[str]]


class NestPrinter(Printer):
    """Prints all ops of the loop level that lowering builds."""

    def loops(self, op: Op) -> None:
        loops = perfect_nest(op)
        counts = [self.scalar(loop.operands[1]) for loop in loops]
        known = all(n[0] != "%" for n in counts)
        short = known and int(self.fn.product(counts)) <= WRITTEN_OUT
        few = short and not (counts == [str(WRITTEN_OUT)] and self.fn.target.vector_bits)     # that is one vector
        if not short and idioms.lower(self, loops, counts):
            return
        registers, hint = [register(dtype_of(v.type)) for v in op.operands[3:]], self._hint(loops)
        starts = [self.scalar(v) for v in op.operands[3:]]
        join = self._join(op) if _begins_anew(loops) else None

        def level(depth: int, values: list[str]) -> list[str]:
            if depth == len(loops):
                return self._iteration(loops[-1])
            body = self._body(loops[depth], lambda carried: level(depth + 1, carried))
            carried = list(zip(registers, values))
            if few:
                return _written_out(int(counts[depth]), body, values)
            inner = counts[depth + 1] if depth < len(loops) - 1 else ""
            note = hint if not inner else self.fn.writer.around() if inner[0] == "%" else ""
            if join is not None and depth == len(loops) - 1:
                row = self.fn.loop(counts[depth], body, list(zip(registers, starts)), note=note)
                return join(values, row)
            if depth:
                return self.fn.loop(counts[depth], body, carried, note=note)
            return self._outermost(op, counts, body, carried, note, unbounded=not _is_bounded(loops))

        self.names.update(zip(op.results, level(0, starts)))
        if known:
            self._positive_zeros(op)

    def _outermost(self, op: Op, counts: list[str], body: Body, carried: list[tuple[str, str]], note: str,
                   unbounded: bool) -> list[str]:
        fn, each = self.fn, self.fn.product(counts[1:])
        if fn.module.module.parallel and op.attrs.get("independent") and not unbounded:
            walk = parallel_nests.Walk(counts[0], each, body, carried, self._join(op), note, self._captured(op),
                                       _duration(op.regions[0]))
            if parallel_nests.possible(fn, walk):
                return parallel_nests.run(fn, walk, lambda: fn.loop(counts[0], body, carried, note=note, each=each))
        return fn.loop(counts[0], body, carried, note=note, each=each, unbounded=unbounded)

    def _captured(self, op: Op) -> dict[str, str]:
        """The LLVM names that a loop reads from outside, with their types."""
        found: dict[str, str] = {}
        for v in (*op.operands[3:], *captured_by(op.regions[0].all_ops(), op.regions[0].params)):
            x, t = self.value(v), type_of(v)
            names = split(x) if isinstance(x, Buffer) else [x]
            kinds = ["ptr"] + ["i64"] * (len(names) - 1) if isinstance(t, LoopBuffer) else [register(dtype_of(v.type))]
            found.update((name, kind) for name, kind in zip(names, kinds) if name[0] == "%")
        return found

    def _join(self, op: Op) -> parallel_nests.Join | None:
        """Code that combines two partial results of the reductions of a loop."""
        kinds = op.attrs.get("reductions", ())
        dtypes = [dtype_of(v.type) for v in op.operands[3:]]

        def join(xs: list[str], ys: list[str]) -> list[str]:
            return [ops.apply(self.fn, COMBINE[k], t, xy, {"acc": True}, t) for k, t, *xy in zip(kinds, dtypes, xs, ys)]
        return join if kinds else None

    def _body(self, loop: Op, rest: Callable[[list[str]], Sequence[str]]) -> Body:
        def body(i: str, carried: list[str]) -> Sequence[str]:
            self.names.update(zip(loop.regions[0].params, [i, *carried]))
            return rest(carried)
        return body

    def _iteration(self, loop: Op) -> list[str]:
        body = loop.regions[0]
        for op in body.ops:
            self.op(op)
        assert body.term is not None
        return [self.scalar(v) for v in body.term.operands]

    def _hint(self, loops: list[Op]) -> str:
        """Metadata for the innermost loop.

        Transposing copies are left as they are: the loads are strided, so vectors bring nothing, and LLVM need not
        find that out.  Tails of loops over functions are masked, but not where an outer loop stores the same row again:
        the next load would wait for the masked store.  Reductions have four vector accumulators, which hide the
        latency of one.
        """
        fn, inner = self.fn, loops[-1]
        calls = libmvec.masks_tails(fn.target.features) and any(op.name in libmvec.OPS for op in inner.regions[0].ops)
        if calls or fn.target.fast_gathers and _gathers(inner.regions[0]) >= GATHERS:
            fn.width = fn.target.full_width
        if not loops[0].attrs.get("independent"):
            return ""
        if idioms.transposed(loops) is not None:
            return fn.writer.loop_note(cold=True)
        if calls:
            return libmvec.masked(fn.writer, inner.regions[0].ops)
        return fn.writer.interleaved() if inner.attrs.get("reductions") else ""

    def _positive_zeros(self, op: Op) -> None:
        """Add 0 to sums: a loop that LLVM unrolls starts from the first element, and a sum of zeros is not −0."""
        for r, kind in zip(op.results, op.attrs.get("reductions", ())):
            t = dtype_of(r.type)
            if kind == "sum" and t.is_float:
                xs = [self.scalar(r), literal(0, t)]
                self.names[r] = ops.apply(self.fn, "add", t, xs, {}, t)


def _written_out(n: int, body: Body, values: list[str]) -> list[str]:
    """A loop, fully unrolled."""
    for i in range(n):
        values = list(body(str(i), values))
    return values


def _begins_anew(loops: list[Op]) -> bool:
    """True if the innermost loop is to reduce each row by itself: the vectors of a row need not wait for those before.

    A row begins with the values with which the nest begins, which must change nothing.
    """
    first = loops[0]
    kinds = first.attrs.get("reductions", ())
    return len(loops) > 1 and bool(kinds) and all(
        v.const == _NEUTRAL[kind] if kind in _NEUTRAL else kind in COMBINE
        for kind, v in zip(kinds, first.operands[3:]))


def _is_bounded(loops: list[Op]) -> bool:
    """True if each iteration accesses another element of some buffer: no more iterations than elements in memory."""
    ivs = {loop.regions[0].params[0] for loop in loops}
    inside = (op for op in loops[-1].regions[0].nested_ops() if op.name in ("load", "store"))
    return any(ivs <= set().union(*map(_summands, op.operands[1 if op.name == "load" else 2:])) for op in inside)


def _gathers(body: Block) -> int:
    """The number of elements that are read at indices which are computed from elements; 0 if such are updated too."""
    data: set[Value] = set()
    found = 0
    for op in body.ops:
        if op.name == "store" and not data.isdisjoint(op.operands[2:]):
            return 0
        found += op.name == "load" and not data.isdisjoint(op.operands[1:])
        if op.name == "load" or not data.isdisjoint(op.operands):
            data.update(op.results)
    return found


def _summands(index: Value) -> set[Value]:
    """The values from which an index is computed."""
    op = index.op
    if op is None or not op.attrs.get("nsw"):
        return {index}
    return set().union(*map(_summands, op.operands))


def _duration(body: Block) -> int:
    """The time for an iteration, in picoseconds; an iteration of an inner loop counts once."""
    time = VECTOR
    for op in body.ops:
        if op.name == "for":
            time += _duration(op.regions[0])
        elif op.name in ("load", "store"):
            time += VECTOR
        else:
            time += IR_OPS[op.name].cost * (FUNCTION if IR_OPS[op.name].vector else VECTOR)
    return time
