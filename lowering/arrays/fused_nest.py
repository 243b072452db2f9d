"""One loop nest for the members of a group (``fusion_groups``): stored arrays, reductions in registers, added parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from ...ir.graph import Op, Value
from ...ir.types import Array, dtype_of
from ..builder.function_builder import FunctionBuilder
from ..llvm import types
from ..llvm.types import Buffer
from ..planning.fusion_groups import ADDED, REDUCTIONS, shape_of
from . import reduce, update
from .elements import Elements, Place, can_be_flat, is_bounded, masked_tail, nest, note, notes_apart, position, sizes
from .elementwise import destination, taking_over


def emit(fn: FunctionBuilder, members: list[Op]) -> None:
    """Compute the members of a group element by element."""
    parts = [_Part(op, update.updated(fn, op)) for op in members if op.name == ADDED]
    reductions = [op for op in members if op.name in REDUCTIONS]
    computed = [op.result for op in members if op.name not in (*REDUCTIONS, ADDED)]
    stored = [v for v in computed if v not in fn.plan.passing]
    for v in stored:
        fn.values[v] = destination(fn, v)
    nest_of = partial(_nest, fn, shape_of(members[0]), _extent(fn, members), computed)
    pairs = [(p, q) for p, q in combinations(parts, 2) if fn.plan.roots.same(p.op.result, q.op.result)]

    def at_once() -> None:
        marks = notes_apart(fn, [p.op.result for p in parts])
        nest_of(stored, reductions, [replace(p, mark=mark) for p, mark in zip(parts, marks)])

    def one_by_one() -> None:
        for part in parts:                           # before a store overwrites a reused buffer
            nest_of([], [], [part])
        if stored:
            nest_of(stored, [], [])

    with taking_over(fn, stored, [v for v in computed if v in fn.plan.passing]):
        if pairs:
            fn.either(_apart(fn, pairs), at_once, one_by_one)
        else:
            results = nest_of(stored, reductions, parts)
            fn.values.update(zip((op.result for op in reductions), results))


@dataclass(frozen=True)
class _Part:
    """A part of ``buffer`` to which an array is added; ``mark``: alias metadata that replaces the array's."""

    op: Op
    buffer: Buffer
    mark: str = ""


def _apart(fn: FunctionBuilder, pairs: list[tuple[_Part, _Part]]) -> str:
    """The condition under which no pair of parts overlaps: their ranges are disjoint along some axis."""
    code, condition = fn.code, "true"
    for p, q in pairs:
        away = "false"
        for (start, end), (other, last) in zip(_ranges(fn, p.op), _ranges(fn, q.op)):
            for x, y in ((end, other), (last, start)):
                away = code.op(f"or i1 {away}, {code.op(f'icmp sle i64 {x}, {y}', 'c')}", "c")
        condition = code.op(f"and i1 {condition}, {away}", "c")
    return condition


def _ranges(fn: FunctionBuilder, op: Op) -> list[tuple[str, str]]:
    """The half-open range (begin, end) of the part of ``op`` along each axis."""
    starts = [fn.scalar(v) for v in op.operands[2::2]]
    return [(start, fn.add(start, size)) for start, size in zip(starts, sizes(fn, op.operands[1]))]


def _extent(fn: FunctionBuilder, members: list[Op]) -> list[str]:
    """The sizes over which all members loop, literal if they are known for one of them."""
    known = zip(*(sizes(fn, shape_of(op)) for op in members))
    return [next((s for s in axis if s[0] != "%"), axis[0]) for axis in known]


def _nest(fn: FunctionBuilder, shape: Value, extent: list[str], every: list[Value], stored: list[Value],
          reductions: list[Op], parts: list[_Part]) -> list[str]:
    """Emit the loops; returns the results of the reductions.

    Stores follow after all elements are computed, since another member may read a buffer that is reused.
    """
    like = shape.type
    assert isinstance(like, Array)
    sources = [op.operands[0] for op in reductions]
    dtypes = [dtype_of(v.type) for v in sources]
    marks = [note(fn, v) for v in stored]
    everything = [*stored, *sources, *(p.op.operands[1] for p in parts)]

    def body(place: Place, sums: list[str]) -> list[str]:
        elements = Elements(fn)
        index = place.flat if place.flat is not None else position(fn, extent, place.at)
        for v in every:                              # in program order, which keeps the recursion shallow
            elements.get(v, place)
        computed = {v: elements.get(v, place) for v in everything}
        summands = [computed[v] for v in sources]
        for v, mark in zip(stored, marks):
            buffer = fn.array(v)
            fn.store(buffer.dtype, computed[v], buffer.ptr, index, mark)
        for p in parts:
            at = update.part_position(fn, p.op, p.buffer, place)
            update.write(fn, p.op, p.buffer, at, computed[p.op.operands[1]], add=True, mark=p.mark)
        return join(sums, summands)

    def join(xs: list[str], ys: list[str]) -> list[str]:
        return [reduce.combine(fn, op.name, t, x, y) for op, t, x, y in zip(reductions, dtypes, xs, ys)]

    carried = [(types.register(t), reduce.identity(op.name, t)) for op, t in zip(reductions, dtypes)]
    hint = masked_tail(fn, *everything) or (reduce.interleaved(fn) if reductions else "")
    flat = all(can_be_flat(fn, v, like) for v in everything) and all(update.is_one_piece(fn, p.op) for p in parts)
    return nest(fn, extent, body, carried, flat=flat, note=hint,
                unbounded=not any(is_bounded(fn, v) for v in everything), cut=True, join=join)
