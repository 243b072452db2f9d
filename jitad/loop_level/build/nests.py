"""Loop nests of stored arrays: elementwise results, copies, and groups that share a nest (``fusion_groups``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations

from ...ir.graph import Op, Value
from ...ir.types import Array, dtype_of
from ...lowering.planning.fusion_groups import ADDED, REDUCTIONS, is_near, shape_of
from . import updates
from .elements import Elements, Place, can_be_flat, nest, put
from .overlaps import add_overlapping
from .state import State, combine, identity


def store(fn: State, op: Op) -> None:
    """Compute every element of ``op``'s result into its buffer."""
    result, target = op.result, fn.plan.reuse.get(op.result)
    fn.values[result] = fn.destination(result)
    if target is not None and op.name in ("copy", "stop") and op.operands[0] is target:
        return                                       # the original has no later reader and becomes the copy
    with computed_here(fn, [result]):
        fill(fn, fn.buffer(result), result)


def fill(fn: State, buffer: Value, source: Value) -> None:
    """Store every element of ``source`` in ``buffer``."""
    assert isinstance(source.type, Array)

    def body(place: Place, _: list[Value]) -> list[Value]:
        put(fn, Elements(fn).get(source, place), buffer, place)
        return []
    nest(fn, fn.shape(source), body, flat=can_be_flat(fn, [source], source.type))


@contextmanager
def computed_here(fn: State, values: Sequence[Value]) -> Iterator[None]:
    """Mark ``values`` as lazy while their elements are computed."""
    fn.plan.lazy.update(values)
    try:
        yield
    finally:
        fn.plan.lazy.difference_update(values)


def group(fn: State, members: list[Op]) -> None:
    """Compute the members of a group, element by element.

    Parts that are added to one array may overlap (``overlaps.py``).  They then have nests of their own, before a
    store changes a buffer that another one reads.
    """
    parts = [op for op in members if op.name == ADDED]
    for op in parts:
        updates.update(fn, op)
    reductions = [op for op in members if op.name in REDUCTIONS]
    computed = [op.result for op in members if op.name not in (*REDUCTIONS, ADDED)]
    stored = [v for v in computed if v not in fn.plan.passing]
    for v in stored:
        fn.values[v] = fn.destination(v)
    nest_of = partial(_nest, fn, shape_of(members[0]), _extent(fn, members), computed)

    def together() -> None:
        results = nest_of(stored, reductions, parts)
        fn.values.update(zip((op.result for op in reductions), results))

    def apart() -> None:
        if stored and not any(v in fn.plan.reuse for v in stored):
            nest_of(stored, [], [])                  # nothing is overwritten: the parts read what is stored
            fn.plan.lazy.difference_update(stored)
            _add_parts(fn, parts)
            fn.plan.lazy.update(stored)
            return
        _add_parts(fn, parts)
        if stored:
            nest_of(stored, [], [])

    with computed_here(fn, computed):
        pairs = [pair for pair in combinations(parts, 2) if fn.plan.roots.same(*(op.result for op in pair))]
        if any(map(_overlap, _arrays(parts))):
            apart()
        elif pairs:
            fn.added_at_once(parts, together, apart)
        else:
            together()


def _arrays(parts: list[Op]) -> list[list[Op]]:
    """The parts by the array that they are added to, each to the result of the one before."""
    found: dict[Value, list[Op]] = {}
    for op in parts:
        found[op.result] = [*found.pop(op.operands[0], ()), op]
    return list(found.values())


def _overlap(parts: list[Op]) -> bool:
    """True if parts of one array are those of a stencil in the plane or in space: rims are a small share of these."""
    return len(parts[0].operands) > 4 and any(is_near(*pair) for pair in combinations(parts, 2))


def _add_parts(fn: State, parts: list[Op]) -> None:
    """Add parts that may overlap, array by array."""
    for ops in _arrays(parts):
        if _overlap(ops) and not fn.device and all(step.const == 1 for op in ops for step in op.operands[3::2]):
            add_overlapping(fn, ops)
            continue
        for op in ops:
            _nest(fn, op.operands[1], list(fn.shape(op.operands[1])), [], [], [], [op])


def _extent(fn: State, members: list[Op]) -> list[Value]:
    """The sizes over which all members loop, literal if they are known for one of them."""
    known = zip(*(fn.shape(shape_of(op)) for op in members))
    return [next((s for s in axis if s.const is not None), axis[0]) for axis in known]


def _nest(fn: State, shape: Value, extent: list[Value], every: list[Value], stored: list[Value],
          reductions: list[Op], parts: list[Op]) -> list[Value]:
    """Append the loops; returns the results of the reductions.

    Stores follow after all elements are computed, since another member may read a buffer that is taken over.
    """
    like = shape.type
    assert isinstance(like, Array)
    everything = [*stored, *(op.operands[0] for op in reductions), *(op.operands[1] for op in parts)]
    pieces = {op: updates.piece(fn, op) for op in parts}

    def body(place: Place, sums: list[Value]) -> list[Value]:
        elements = Elements(fn)
        for v in every:                              # in program order, which keeps the recursion shallow
            elements.get(v, place)
        element = {v: elements.get(v, place) for v in everything}
        for v in stored:
            put(fn, element[v], fn.buffer(v), place)
        for op in parts:
            updates.write_part(fn, op, pieces[op], place, element[op.operands[1]], add=True)
        return [combine(fn, op.name, x, element[op.operands[0]]) for op, x in zip(reductions, sums)]

    start = [identity(fn, op.name, dtype_of(op.operands[0].type)) for op in reductions]
    flat = can_be_flat(fn, everything, like) and None not in pieces.values()
    return nest(fn, extent, body, start, [op.name for op in reductions], flat=flat)
