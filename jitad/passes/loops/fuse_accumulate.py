"""Fuses ``a[i] = a[i] + v`` into one ``add_at``, and ``a[i:j] = a[i:j] + v`` into one ``add_slice``.

Runs before differentiation: the adjoint of ``add_at`` is one load, while the adjoint of ``set`` clears the element and
that of ``get`` adds to it again.  The value does not change, as there is one addition either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.window import reads, unshaped

_ADD = {"set": "add_at", "set_slice": "add_slice"}


def fuse_accumulate(module: Module) -> bool:
    """Rewrite every update whose new value is the old one plus or minus another value; returns True if there was one.

    The old value and the sum are dead then, and must go: what else reads an array keeps its updates in a branch.
    """
    changed = False
    for func in module.functions.values():
        uses = _use_counts(func)
        for block in func.blocks:
            for op in list(block.ops):
                if op.name in _ADD and (found := _sum(op, uses)) is not None:
                    _rewrite(op, *found)
                    changed = True
    return changed


def _use_counts(func: Function) -> dict[Value, int]:
    uses: dict[Value, int] = {}
    for op in func.all_ops():
        for v in op.used():
            uses[v] = uses.get(v, 0) + 1
    return uses


def _sum(op: Op, uses: dict[Value, int]) -> tuple[Value, bool] | None:
    """The value that is added to the part that ``op`` sets, and True if it is subtracted; ``None`` if there is none."""
    value, shape = unshaped(op.operands[1])
    new = value.op
    if new is None or new.name not in ("add", "sub") or new.block is not op.block or uses[new.result] != 1:
        return None
    x, y = new.operands
    if new.name == "add" and _reads(y, op, shape, uses):
        x, y = y, x
    if not _reads(x, op, shape, uses) or x.type != y.type:
        return None
    return y, new.name == "sub"


def _reads(v: Value, update: Op, shape: Sequence[Value] | None, uses: dict[Value, int]) -> bool:
    """True if ``v`` reads the part that ``update`` overwrites.

    An element must have no other use.  A slice may, since it is a view.
    """
    return reads(v, update, shape) and (update.name == "set_slice" or uses[v] == 1)


def _rewrite(op: Op, value: Value, negative: bool) -> None:
    block = op.block
    assert block is not None
    type, (_, shape) = op.operands[1].type, unshaped(op.operands[1])
    here = block.ops.index(op)
    tail, block.ops = block.ops[here:], block.ops[:here]
    b = Builder(block, op.loc)
    value = b.neg(value) if negative else value
    op.operands[1] = b.typed(b.reshape(value, *shape), type) if shape is not None else value
    block.ops += tail
    op.name = _ADD[op.name]
