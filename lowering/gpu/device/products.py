"""Products of matrices within a thread: rows, columns, then the axis that is summed over, with the sum carried."""

from __future__ import annotations

from ....ir.graph import Op
from ...llvm import types
from ...math import ops
from .memory import Writes, nest


def matmul(fn: Writes, op: Op) -> None:
    """``out = a @ b``, or ``out += a @ b`` under ``add``."""
    out, a, b = (fn.memory(v) for v in op.operands)
    t, batch = out.dtype, 1 if a.type.rank == 3 else 0
    rows, cols = a.type.rank > 1, b.type.rank > 1
    ta, tb = bool(op.attrs.get("ta") and rows), bool(op.attrs.get("tb") and cols)
    length = a.sizes[a.type.rank - 1 - (1 if ta else 0)]
    zero = types.literal(0, t)

    def combine(name: str, x: str, y: str) -> str:
        return ops.apply(fn, name, t, [x, y], {"acc": True}, t)

    def element(place: list[str]) -> None:
        group, rest = place[:batch], place[batch:]
        i, j = rest[:1] if rows else [], rest[-1:] if cols else []

        def step(k: str, carried: list[str]) -> list[str]:
            x = fn.load(t, fn.address(a, [*group, *_turned([*i, k], ta)]))
            y = fn.load(t, fn.address(b, [*group, *_turned([k, *j], tb)]))
            return [combine("add", carried[0], combine("mul", x, y))]
        total = fn.loop("0", length, "1", step, [(types.register(t), zero)])[0]
        at = fn.address(out, place)
        if op.attrs.get("add"):
            total = combine("add", fn.load(t, at), total)
        fn.store(t, total, at)
    nest(fn, out.sizes, element)


def _turned(place: list[str], turned: bool) -> list[str]:
    return place[::-1] if turned else place
