"""The profitability of ``outer_loop``, the order of its lanes, and the sizes of their arrays.

For innermost loops that access neighbouring elements of arrays from outside, vectors along that loop are better, and
the pass leaves them alone.  It applies if the lanes access neighbours too, and LLVM cannot vectorise the innermost
loop, or not well: it carries a float that is computed in order, its own accesses are strided, or it adds to a window of
an array, which moves by one element from iteration to iteration of the outer loop.  The gradient of a convolution takes
0.63 of the time, that of a filter of 48 taps 0.89 (AMD EPYC).

It also applies if each lane reads a row of its own, and a float is computed along the rows in order.  One addition
waits for the one before, four cycles, in which the elements of sixteen rows can nearly be loaded: the product of a
matrix and a vector takes half of the time.  Under fast math LLVM reorders such a sum, and vectors along the rows are
better, unless they are short, more so if each is followed by transcendental functions, of which lanes make vectors.  A
float that the iterations read on its way, as an angle that adds up along an arm of robots, is computed in order there
too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ...ir.builder import Builder
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, dims_of, is_float_scalar
from ...ir.uses import users
from ..analysis.cost import LANES
from ..analysis.loops import Loop, LoopForest, counted
from .lane_kinds import FALLING, RISING, STEP, UNIFORM, UPDATES, VARYING, Kinds, NoLanes

SHORT_ROW = 128
"""The longest rows that lanes add up under fast math.  A row of 128 numbers of a logistic regression takes lanes 0.71
of the time of vectors along it, its gradient 1.09; of 192 numbers 0.87 and 1.37 (Intel Xeon with AVX-512)."""
NARROW_ROW = 32
"""The longest rows that lanes add up under fast math whatever follows.  A product of a matrix of 512 rows and a vector
takes lanes 0.6 of the time of vectors along the rows for 8 columns, 0.8 for 16 or 32; from 48 on about the same."""
LARGEST = 1024
"""The most elements of an array that each lane has for itself: the arrays of all lanes then stay in the L2 cache."""
REDUCTIONS = {"add": "add", "sub": "add", "mul": "mul", "minimum": "minimum", "maximum": "maximum"}
SHORT_WINDOW, SHORT_SIDE = 16, 6
"""The longest windows, and sides of windows in nested loops, to which lanes add where only that keeps vectors along
them from being fast.  A filter's gradient takes lanes 0.66 of the time of vectors along its taps for 8 taps, 0.90 for
16 and 1.17 for 24; that of a convolution 0.68 for 5 × 5 elements and 1.40 for 8 × 8 (AMD EPYC)."""


def pays(forest: LoopForest, kinds: Kinds, fastmath: bool) -> dict[Value, int] | None:
    """The trip counts that are bounded, with the bounds, which are tested at run time; ``None`` if lanes do not pay.

    They do if the deepest loops have varying arithmetic, and do not access elements along lanes and an inner loop.
    """
    deepest = max(forest.depth(b) for b in kinds.blocks)
    blocks = [b for b in kinds.blocks if forest.depth(b) == deepest]
    ops = [op for b in blocks for op in b.ops if op.results]
    accesses = [op for op in ops if _in_a_row(op, kinds)]
    if any(b.term is not None and b.term.attrs.get("windows") for b in blocks):
        return None
    if any(op.name == "matmul" for b in kinds.blocks for op in b.ops) or not any(
            _is_work(op, kinds, accesses) for op in ops):
        return None
    inner = dict.fromkeys(forest.innermost[b] for b in blocks)
    if kinds.collected and not any(_is_serial(loop, kinds) or _is_strided(loop, accesses) for loop in inner):
        return None
    if all(_along_lanes(op, kinds) for op in accesses):
        if accesses and not all(_keeps_from_vectors(loop, accesses, kinds) for loop in inner):
            return _short_trips(inner, kinds, SHORT_WINDOW) if all(_sums_up(loop, kinds) for loop in inner) else None
        if not accesses and any(_adds_across(loop, kinds) for loop in inner) and \
                all(_may_be_vectors(loop, kinds, fastmath) for loop in inner):
            return _short_trips(inner, kinds, LANES - 1)
        if not accesses or any(_is_serial(loop, kinds) or _is_strided(loop, accesses) for loop in inner):
            return {}
        windows = [known.trip for loop in inner if (known := counted(loop)) is not None]
        most = SHORT_WINDOW if all(loop.parent is kinds.loop for loop in inner) else SHORT_SIDE
        return {trip: most for trip in windows if trip.block not in kinds.loop.blocks}
    if not all(_along_lanes(op, kinds) or _accesses_rows(op, kinds) for op in accesses) or \
            not any(_is_serial(forest.innermost[b], kinds) or _recurs(forest.innermost[b], kinds) for b in blocks):
        return None
    in_order = not fastmath or any(_is_serial(loop, kinds, free=True) or _recurs(loop, kinds) for loop in inner)
    return {} if in_order else _row_lengths(inner, kinds)


def reads_rows(forest: LoopForest, kinds: Kinds) -> bool:
    """True if a lane of the deepest loops reads a row of its own, so that the lanes' elements are no neighbours."""
    deepest = max(forest.depth(b) for b in kinds.blocks)
    return any(_in_a_row(op, kinds) and not _along_lanes(op, kinds)
               for b in kinds.blocks if forest.depth(b) == deepest for op in b.ops if op.results)


def runs_along_rows(kinds: Kinds) -> bool:
    """True if lanes access neighbours in a row of a matrix: of states, features or channels there may be few."""
    return any(_along_lanes(op, kinds) and len(dims_of(op.operands[0].type)) > 1 for b in kinds.blocks for op in b.ops)


def vectors_inside(forest: LoopForest, kinds: Kinds, fastmath: bool) -> bool:
    """True if LLVM can make vectors along all of the deepest loops."""
    deepest = max(forest.depth(b) for b in kinds.blocks)
    inner = dict.fromkeys(forest.innermost[b] for b in kinds.blocks if forest.depth(b) == deepest)
    return all(_may_be_vectors(loop, kinds, fastmath) for loop in inner)


def _row_lengths(inner: Collection[Loop], kinds: Kinds) -> dict[Value, int] | None:
    """The trip counts of inner loops that are known before the outer loop, with the longest rows for which lanes pay.

    They are longer if transcendental functions follow, or if a loop around reads the rows again, which are packed
    (``panels``).
    """
    within = {b for loop in inner for b in loop.blocks}
    follow = any(OPS[op.name].vector and kinds[op.results[0]] == VARYING
                 for b in kinds.blocks if b not in within for op in b.ops)
    around = kinds.loop.parent
    again = around is not None and all(op.operands[0].block not in around.blocks for b in within for op in b.ops
                                       if _in_a_row(op, kinds) and not _along_lanes(op, kinds))
    return _short_trips(inner, kinds, SHORT_ROW if follow or again else NARROW_ROW)


def _short_trips(inner: Collection[Loop], kinds: Kinds, most: int) -> dict[Value, int] | None:
    """The trip counts of inner loops, with a bound; ``None`` if they are not known before the outer loop, or larger."""
    trips = [known.trip for loop in inner if (known := counted(loop)) is not None]
    known_before = len(trips) == len(inner) and all(t.block not in kinds.loop.blocks for t in trips)
    return dict.fromkeys(trips, most) if known_before and all((t.const or 0) <= most for t in trips) else None


def _is_work(op: Op, kinds: Kinds, accesses: list[Op]) -> bool:
    """True for varying arithmetic of floats, and of other things in a loop in which LLVM would have to gather elements.

    Those are integers, and a number that is added along a column, as by the adjoint of a sum of rows.
    """
    t = op.results[0].type
    assert op.block is not None
    if op.name == "add_at":
        return kinds[op.operands[1]] == VARYING or \
            op in accesses and _is_strided(kinds.forest.innermost[op.block], accesses)
    return op.name in ("add", "sub", "mul", "div") and isinstance(t, Scalar) and kinds[op.results[0]] == VARYING and \
        (t.is_float or _is_strided(kinds.forest.innermost[op.block], accesses))


def _in_a_row(op: Op, kinds: Kinds) -> bool:
    """True if ``op`` accesses an array at an index that is not uniform."""
    first = OPS[op.name].indices
    return bool(first) and any(kinds[v] != UNIFORM for v in op.operands[first:])


def _along_lanes(op: Op, kinds: Kinds) -> bool:
    """True if the lanes access neighbouring elements: only the last index depends on the lane."""
    at = op.operands[OPS[op.name].indices:]
    moving = [v for v in at if kinds[v] != UNIFORM]
    element = op.name == "get" and isinstance(op.result.type, Scalar) or \
        op.name == "add_at" and isinstance(op.operands[1].type, Scalar)
    return element and moving == at[-1:] and kinds[at[-1]] in STEP


def _accesses_rows(op: Op, kinds: Kinds) -> bool:
    """True if each lane accesses an element of its own row: only an index ahead of the last depends on the lane.

    A store takes a lane about as long as alone, which only pays beside what is computed in order.
    """
    at = op.operands[OPS[op.name].indices:]
    moving = [v for v in at if kinds[v] != UNIFORM]
    element = op.result if op.name == "get" else op.operands[1]
    assert op.block is not None
    return isinstance(element.type, Scalar) and len(moving) == 1 and kinds[moving[0]] in STEP and (
        op.name == "get" or op.name == "set" and any(
            test(kinds.forest.innermost[op.block], kinds) for test in (_is_serial, _recurs)))


def _is_serial(loop: Loop, kinds: Kinds, free: bool = False) -> bool:
    """True if a loop carries a float whose varying next value must be computed in order: LLVM cannot vectorise it.

    ``free``: sums may be reordered, and products.  Those of cotangents always may.
    """
    def in_order(p: Value, v: Value) -> bool:
        if not (is_float_scalar(v.type) and kinds[v] == VARYING and v.op is not None):
            return False
        return not (free or v.op.attrs.get("acc")) or not _is_reduction(loop, p, v)
    return any(in_order(p, v) for p, v in loop.back_edge().passed())


def _recurs(loop: Loop, kinds: Kinds) -> bool:
    """True if each iteration stores an element that follows from a reduction of those that it has stored before.

    An example is a discount factor, which the sum of the ones before determines: the slices are too short for vectors.
    The adjoint adds to such a slice what follows from an element.
    """
    same = {p for p in loop.head.params if isinstance(p.type, Array) and kinds[p] == VARYING}
    sums: set[Value] = set()
    elements: set[Value] = set()
    for op in loop.head.ops:
        inside = op.operands[0].op if op.name == "sum" else None
        if inside is not None and inside.name == "slice" and inside.operands[0] in same:
            sums.add(op.result)
        elif op.name == "get" and op.operands[0] in same:
            elements.add(op.result)
        elif op.name in UPDATES and op.operands[0] in same:
            if op.operands[1] in sums and op.name == "set" or op.operands[1] in elements and op.name == "add_slice":
                return True
            same.add(op.result)
        else:
            for found in (sums, elements):
                found.update(op.results if not found.isdisjoint(op.operands) else ())
    return False


def _is_reduction(loop: Loop, p: Value, v: Value) -> bool:
    """True if ``v`` is ``p`` plus terms, times factors, or the least of it and others, and nothing else reads ``p``."""
    readers = users(op for b in loop.blocks for op in b.ops)
    at, kind = p, None
    while at is not v:
        match readers.get(at, ()):
            case []:                                         # a block passes it on
                return True
            case [op] if op.name in REDUCTIONS and kind in (None, REDUCTIONS[op.name]) and op.operands.count(at) == 1:
                at, kind = op.result, REDUCTIONS[op.name]
            case _:
                return False
    return v not in readers


def _sums_up(loop: Loop, kinds: Kinds) -> bool:
    """True if all that a loop carries are sums whose order is free, as those of windows."""
    return all(a.op is not None and bool(a.op.attrs.get("acc")) and kinds[a] == VARYING and _is_reduction(loop, p, a)
               for p, a in loop.back_edge().passed() if p is not loop.head.params[0])


def _adds_across(loop: Loop, kinds: Kinds) -> bool:
    """True if lanes would be summed up in each iteration of an inner loop.

    An example is the adjoint of what pairs of rows have between them: what a lane adds to the element of the other one
    goes to the same place in all lanes.  Vectors along the inner loop add to neighbouring elements.  Arrays that each
    lane has for itself are no such place.
    """
    return any(op.name == "add_at" and kinds[op.operands[0]] != VARYING and
               all(kinds[v] == UNIFORM for v in op.operands[2:]) for op in loop.head.ops)


def _may_be_vectors(loop: Loop, kinds: Kinds, fastmath: bool) -> bool:
    """True if LLVM can make vectors along an inner loop."""
    serial = not fastmath and _is_serial(loop, kinds)
    return loop.blocks == {loop.head} and not serial and all(
        _steps_along(op, loop) for op in loop.head.ops if OPS[op.name].indices)


def _steps_along(op: Op, loop: Loop) -> bool:
    """True if iterations of ``loop`` access the same element, or neighbouring ones of a row."""
    *ahead, last = op.operands[OPS[op.name].indices:]
    if not isinstance(op.operands[1].type if op.name == "add_at" else op.result.type, Scalar) or \
            any(_depends(v, loop) for v in ahead):
        return False
    sides = last.op.operands if last.op is not None and last.op.name == "add" else [last]
    moving = [v for v in sides if _depends(v, loop)]
    return not moving or moving == [loop.head.params[0]]


def _keeps_from_vectors(loop: Loop, accesses: list[Op], kinds: Kinds) -> bool:
    """True if vectors along an inner loop are impossible, or slow."""
    return _is_serial(loop, kinds) or _is_strided(loop, accesses) or _adds_to_windows(loop, kinds)


def _is_strided(loop: Loop, accesses: list[Op]) -> bool:
    """True if iterations of an inner loop access elements that are not neighbours: LLVM does not vectorise that."""
    moving = set(loop.head.params)
    for op in loop.head.ops:
        if any(v in moving for v in op.operands):
            moving.update(op.results)
    return any(v in moving for op in accesses if op.block is loop.head
               for v in op.operands[OPS[op.name].indices:-1])


def _adds_to_windows(loop: Loop, kinds: Kinds) -> bool:
    """True if an inner loop adds to elements that the next iteration of the outer loop, one further, adds to again.

    An example is the adjoint of a convolution.  The loads of a vector along the inner loop would overlap what the
    iteration before has stored, and wait until the stores are in the cache.
    """
    return any(op.name == "add_at" and kinds[op.operands[-1]] in STEP and _depends(op.operands[-1], loop)
               for b in loop.blocks for op in b.ops)


def _depends(v: Value, loop: Loop) -> bool:
    """True if ``v``, an index, differs between iterations of ``loop``: it is computed there, from its parameters."""
    return v.owner is loop.head or v.op is not None and v.block in loop.blocks and v.const is None and \
        any(_depends(u, loop) for u in v.op.operands)


def runs_backwards(kinds: Kinds) -> bool:
    """True if more accesses go downwards from iteration to iteration than upwards, as in reverse sweeps.

    The lanes are then in the reverse order, so that vectors need not be reversed.
    """
    accesses = [op for b in kinds.blocks for op in b.ops if OPS[op.name].indices]
    moving = [kinds[v] for op in accesses for v in op.operands[OPS[op.name].indices:]]
    return moving.count(FALLING) > moving.count(RISING)


# --- the arrays of lanes ----------------------------------------------------------------------------------

def sizes_to_test(loop: Loop, made: Iterable[Sequence[Value]]) -> list[list[Value]]:
    """The sizes, to be tested before the loop, of the arrays that each lane has for itself (``Lanes.made``).

    Raises ``NoLanes`` if one is not known before the loop, or if a constant one is too large.
    """
    found: dict[tuple[Value, ...], None] = {}
    for sizes in made:
        left = [n for n in sizes if n.op is None or n.op.name != "dim" or n.block not in loop.blocks]
        if any(n.block in loop.blocks and n.const is None for n in left):
            raise NoLanes
        if math.prod(n.const for n in left if n.const is not None) > LARGEST:
            raise NoLanes
        found[tuple(n for n in left if n.const is None)] = None
    return [list(sizes) for sizes in found if sizes]


def stay_in_cache(b: Builder, sizes: Sequence[Sequence[Value]], small: Value) -> Value:
    """Emit ``small``, and that arrays of these sizes are not too large."""
    for n in dict.fromkeys(n for each in sizes for n in each):
        small = b.and_(small, b.le(n, LARGEST))
    for first, *others in sizes:
        total = first
        for n in others:
            total = b.mul(total, n)
        small = b.and_(small, b.le(total, LARGEST)) if others else small
    return small
