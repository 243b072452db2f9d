"""Kernels for products of matrices."""

from __future__ import annotations

from ....ir.graph import Op
from ....loop_level.types import buffer_type
from ...llvm import types
from ...math import ops
from ..image import Kernel
from .emitter import Shared
from .kernels import BLOCK, KernelWriter, indices
from .values import Memory


def product_kernel(shared: Shared, name: str, op: Op) -> Kernel:
    """``out = a @ b``, or ``out += a @ b`` under ``add``: a thread for each element of ``out``."""
    w = KernelWriter(shared, name, op.loc, BLOCK)
    found = [w.given(buffer_type(v), h) for v, h in zip(op.operands, ("out", "a", "b"))]
    out, a, b = (x for x in found if isinstance(x, Memory))
    t, batch = out.dtype, 1 if a.type.rank == 3 else 0
    rows, cols = a.type.rank > 1, b.type.rank > 1
    ta, tb = bool(op.attrs.get("ta") and rows), bool(op.attrs.get("tb") and cols)
    length = a.sizes[a.type.rank - 1 - (1 if ta else 0)]

    def element(number: str, _: list[str]) -> list[str]:
        place = indices(w, number, [("0", n, "1") for n in out.sizes])
        group, rest = place[:batch], place[batch:]
        i, j = rest[:1] if rows else [], rest[-1:] if cols else []

        def step(k: str, total: list[str]) -> list[str]:
            x = w.load(t, w.address(a, [*group, *([k, *i] if ta else [*i, k])]))
            y = w.load(t, w.address(b, [*group, *([*j, k] if tb else [k, *j])]))
            return [_combine(w, op, "add", total[0], _combine(w, op, "mul", x, y))]
        total = w.loop("0", length, "1", step, [(types.register(t), types.literal(0, t))])[0]
        at = w.address(out, place)
        w.store(t, _combine(w, op, "add", w.load(t, at), total) if op.attrs.get("add") else total, at)
        return []
    w.loop(w.first(), w.unless_failed(w.product(out.sizes)), w.threads(), element)
    return w.write()


def _combine(w: KernelWriter, op: Op, name: str, x: str, y: str) -> str:
    t = buffer_type(op.operands[0]).dtype
    return ops.apply(w, name, t, [x, y], {"acc": True}, t)
