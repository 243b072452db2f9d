"""Reductions between the threads of a block, and between blocks.

A value is combined within a warp by shuffles, between warps through shared memory, and between blocks through an array
with one partial result a block, which a second kernel of one block combines.  The order is fixed, so that a sum is the
same in each run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.types import I32, Scalar
from ...llvm import types
from ...math import ops
from ..image import WARP
from .emitter import Emitter

BEST = ("lt", "le", "gt", "ge")
ROLES = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or"}
"""The roles of results of outlined loops that are the reductions of a ``for``."""
_SUFFIX = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32"}


def neutral(role: str, t: Scalar) -> str:
    """The value that changes nothing."""
    if role in ("minimum", "lt", "le"):
        return types.literal(math.inf if t.is_float else True if t.is_bool else t.high, t)
    if role in ("maximum", "gt", "ge"):
        return types.literal(-math.inf if t.is_float else False if t.is_bool else t.low, t)
    value = {"mul": 1, "and": -1}.get(role, 0)
    return types.literal(-0.0 if t.is_float and value == 0 else value, t)


def combine(e: Emitter, role: str, t: Scalar, x: str, y: str) -> str:
    """``x`` combined with ``y``, of later iterations."""
    if role in BEST:
        return ops.select(e, t, ops.apply(e, role, t, [y, x], {}, t), y, x)
    return ops.apply(e, role, t, [x, y], {"acc": True}, t)


def shuffle(e: Emitter, kind: str, t: Scalar, x: str, lanes: str) -> str:
    """The value of the lane that is ``lanes`` further (``down``), or has the other bits (``xor``)."""
    if t.bits < 32 or t.is_bool:
        wide = ops.cast(e, t, I32, x)
        return ops.cast(e, I32, t, shuffle(e, kind, I32, wide, lanes))
    of = types.register(t)
    name = e.writer.declare(f"gpu.shuffle_{kind}.{_SUFFIX[of]}", of, f"{of}, i32",
                            e.writer.attributes("convergent nounwind"))
    return e.code.op(f"call {of} {name}({of} {x}, i32 {lanes})")


def in_warp(e: Emitter, role: str, t: Scalar, x: str) -> str:
    """The values of a warp combined; lane 0 has the result."""
    lanes = WARP // 2
    while lanes:
        x = combine(e, role, t, x, shuffle(e, "down", t, x, str(lanes)))
        lanes //= 2
    return x


def all_lanes(e: Emitter, role: str, t: Scalar, x: str) -> str:
    """The values of a warp combined; every lane has the result, of the same order of operations."""
    lanes = WARP // 2
    while lanes:
        x = combine(e, role, t, x, shuffle(e, "xor", t, x, str(lanes)))
        lanes //= 2
    return x


def in_block(e: Emitter, role: str, t: Scalar, x: str, block: int, name: str) -> str:
    """The values of a block combined; thread 0 has the result.  ``name``: of the shared memory, used once."""
    x = in_warp(e, role, t, x)
    warps = block // WARP
    if warps == 1:
        return x
    shared = e.writer.global_(name, f"internal addrspace(3) global [{warps} x {types.memory(t)}] undef")
    code, thread = e.code, e.number("thread")
    lane, warp = code.op(f"and i64 {thread}, {WARP - 1}"), code.op(f"lshr i64 {thread}, 5")

    def at(k: str) -> str:
        return code.op(f"getelementptr inbounds {types.memory(t)}, ptr addrspace(3) {shared}, i64 {k}")
    e.if_(code.op(f"icmp eq i64 {lane}, 0", "c"), lambda: e.store(t, x, at(warp), 3))
    e.barrier()
    yes, after = code.label("first"), code.label("others")
    before, part = code.here, code.phi(types.register(t), after)
    code.add_incoming(part, neutral(role, t), before)
    code.branch(code.op(f"icmp ult i64 {thread}, {warps}", "c"), yes, after)
    code.start(yes)
    code.add_incoming(part, e.load(t, at(thread), 3))
    code.jump(after)
    code.start(after)
    return in_warp(e, role, t, part)


def slots(scalars: Sequence[Scalar]) -> int:
    """Bytes for results, eight for each."""
    return 8 * len(scalars)


