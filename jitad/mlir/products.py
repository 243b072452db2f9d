"""Products of matrices as loops: rows, columns, then the axis that is summed over, with the sum carried."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Op
from ..loop_level.types import buffer_type
from . import buffers
from .arithmetic import compute
from .writer import Reg, Writer

Body = Callable[[list[Reg]], None]


def matmul(w: Writer, op: Op) -> None:
    """``out = a @ b``, or ``out += a @ b`` under ``add``."""
    out, a, b = w.uses(op.operands)
    t, ranks = buffer_type(op.operands[0]), [buffer_type(v).rank for v in op.operands]
    batch = 1 if ranks[1] == 3 else 0
    rows, cols = ranks[1] > 1, ranks[2] > 1
    a_axis = ranks[1] - 1 - (1 if rows and op.attrs.get("ta") else 0)
    zero = w.const(0, t.dtype)

    def element(place: list[Reg]) -> None:
        group, rest = place[:batch], place[batch:]
        i, j = rest[:1] if rows else [], rest[-1:] if cols else []

        def step(k: Reg, carried: list[Reg]) -> list[Reg]:
            x = buffers.load(w, a, [*group, *_turned([*i, k], op.attrs.get("ta") and rows)], t.dtype)
            y = buffers.load(w, b, [*group, *_turned([k, *j], op.attrs.get("tb") and cols)], t.dtype)
            return [compute(w, "add", t.dtype, [carried[0], compute(w, "mul", t.dtype, [x, y])])]
        total = w.loop(buffers.size(w, a, a_axis), step, [zero])[0]
        if op.attrs.get("add"):
            total = compute(w, "add", t.dtype, [buffers.load(w, out, place, t.dtype), total])
        buffers.store(w, total, out, place)
    nest(w, [buffers.size(w, out, axis) for axis in range(ranks[0])], element, [])


def _turned(place: list[Reg], turned: object) -> list[Reg]:
    return place[::-1] if turned else place


def nest(w: Writer, sizes: list[Reg], body: Body, place: list[Reg]) -> None:
    """Append a loop for each size, the last innermost."""
    if not sizes:
        body(place)
        return

    def inner(i: Reg, _: list[Reg]) -> list[Reg]:
        nest(w, sizes[1:], body, [*place, i])
        return []
    w.loop(sizes[0], inner)
