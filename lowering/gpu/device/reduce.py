"""Reductions between the threads of a block, and between blocks.

A value is combined within a warp by shuffles, between warps through shared memory, and between blocks through an array
with one partial result a block, which a second kernel of one block combines.  The order is fixed, so that a sum is the
same in each run.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.types import I32, Scalar
from ...llvm import types
from ...math import casts, ops, selection
from ..image import WARP
from .emitter import Emitter

ARGS = ARGMAX, ARGMIN = "argmax", "argmin"
"""The roles of two results: an extreme element, and its index."""
ROLES = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or",
         **{role: role for role in ARGS}}
"""The roles of results of outlined loops that are the reductions of a ``for``."""
_SUFFIX = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32"}


def combine(e: Emitter, role: str, t: Scalar, x: str, y: str) -> str:
    """``x`` combined with ``y``, of later iterations."""
    if role in selection.BEST:
        return selection.select(e, t, ops.apply(e, role, t, [y, x], {}, t), y, x)
    return ops.apply(e, role, t, [x, y], {"acc": True}, t)


def shuffle(e: Emitter, kind: str, t: Scalar, x: str, lanes: str) -> str:
    """The value of the lane that is ``lanes`` further (``down``), or has the other bits (``xor``)."""
    if t.bits < 32 or t.is_bool:
        wide = casts.cast(e, t, I32, x)
        return casts.cast(e, I32, t, shuffle(e, kind, I32, wide, lanes))
    of = types.register(t)
    name = e.writer.declare(f"gpu.shuffle_{kind}.{_SUFFIX[of]}", of, f"{of}, i32",
                            e.writer.attributes("convergent nounwind"))
    return e.code.op(f"call {of} {name}({of} {x}, i32 {lanes})")


Kinds = Sequence[Scalar]
"""The types of values that are combined together: one, or an element and its index."""


def neutrals(role: str, ts: Kinds) -> list[str]:
    """The values that change nothing; a search has index 0 before it finds anything."""
    start = selection.neutral({ARGMAX: "maximum", ARGMIN: "minimum"}.get(role, role), ts[0])
    return [start, "0"] if role in ARGS else [start]


def merge(e: Emitter, role: str, ts: Kinds, xs: Sequence[str], ys: Sequence[str]) -> list[str]:
    """Values combined; of two equal elements, or NaNs, the one with the lesser index."""
    t = ts[0]
    if role not in ARGS:
        return [combine(e, role, t, xs[0], ys[0])]

    def both(name: str, x: str, y: str) -> str:
        return e.code.op(f"{name} i1 {x}, {y}", "c")
    takes = ops.apply(e, "gt" if role == ARGMAX else "lt", t, [ys[0], xs[0]], {}, t)
    same = ops.apply(e, "eq", t, [ys[0], xs[0]], {}, t)
    if t.is_float:
        nan_x, nan_y = (ops.apply(e, "isnan", t, [v], {}, t) for v in (xs[0], ys[0]))
        takes = both("or", takes, both("and", nan_y, both("xor", nan_x, "true")))
        same = both("or", same, both("and", nan_x, nan_y))
    earlier = e.code.op(f"icmp slt i64 {ys[1]}, {xs[1]}", "c")
    takes = both("or", takes, both("and", same, earlier))
    return [selection.select(e, kind, takes, y, x) for kind, x, y in zip(ts, xs, ys)]


def in_warp(e: Emitter, role: str, ts: Kinds, xs: Sequence[str]) -> list[str]:
    """The values of a warp combined; lane 0 has the result."""
    return _halved(e, "down", role, ts, xs)


def all_lanes(e: Emitter, role: str, ts: Kinds, xs: Sequence[str]) -> list[str]:
    """The values of a warp combined; every lane has the result, of the same order of operations."""
    return _halved(e, "xor", role, ts, xs)


def _halved(e: Emitter, kind: str, role: str, ts: Kinds, xs: Sequence[str]) -> list[str]:
    lanes, found = WARP // 2, list(xs)
    while lanes:
        found = merge(e, role, ts, found, [shuffle(e, kind, t, x, str(lanes)) for t, x in zip(ts, found)])
        lanes //= 2
    return found


def scan_of_warp(e: Emitter, role: str, t: Scalar, x: str, lane: str) -> tuple[str, str]:
    """The values of the lanes before this one combined, and those of all lanes."""
    before, total, lanes = selection.neutral(role, t), x, 1
    while lanes < WARP:
        other = shuffle(e, "xor", t, total, str(lanes))
        later = e.code.op(f"icmp ne i64 {e.code.op(f'and i64 {lane}, {lanes}')}, 0", "c")
        before = selection.select(e, t, later, combine(e, role, t, other, before), before)
        first, second = (selection.select(e, t, later, a, b) for a, b in ((other, total), (total, other)))
        total = combine(e, role, t, first, second)
        lanes *= 2
    return before, total


def in_block(e: Emitter, role: str, ts: Kinds, xs: Sequence[str], block: int, name: str) -> list[str]:
    """The values of a block combined; thread 0 has the result.  ``name``: of the shared memory, used once."""
    xs = in_warp(e, role, ts, xs)
    warps = block // WARP
    if warps == 1:
        return list(xs)
    code, thread = e.code, e.number("thread")
    lane, warp = code.op(f"and i64 {thread}, {WARP - 1}"), code.op(f"lshr i64 {thread}, 5")
    shared = [e.shared_array(f"{name}{f'.{k}' if k else ''}", t, warps) for k, t in enumerate(ts)]

    def store() -> None:
        for t, x, array in zip(ts, xs, shared):
            e.store(t, x, e.shared_at(array, t, warp), 3)
    e.if_(code.op(f"icmp eq i64 {lane}, 0", "c"), store)
    e.barrier()
    yes, after = code.label("first"), code.label("others")
    before, parts = code.here, [code.phi(types.register(t), after) for t in ts]
    for part, x in zip(parts, neutrals(role, ts)):
        code.add_incoming(part, x, before)
    code.branch(code.op(f"icmp ult i64 {thread}, {warps}", "c"), yes, after)
    code.start(yes)
    for part, t, array in zip(parts, ts, shared):
        code.add_incoming(part, e.load(t, e.shared_at(array, t, thread), 3))
    code.jump(after)
    code.start(after)
    return in_warp(e, role, ts, parts)
