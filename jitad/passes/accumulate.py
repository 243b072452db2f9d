"""``a[i] = a[i] + v`` as one ``add_at``, and ``a[i:j] = a[i:j] + v`` as one ``add_slice``, before differentiation.

Its derivative then is a load: the adjoint of ``set`` has to clear the element and that of ``get`` to add to it
again.  The value is the same to the last bit, as there is one addition either way.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.fold import same
from ..ir.graph import Function, Module, Op, Value

_READ = {"set": "get", "set_slice": "slice"}             # what reads the place that an op writes
_ADD = {"set": "add_at", "set_slice": "add_slice"}


def accumulate(module: Module) -> None:
    """Rewrite every update in place whose new value is the old one plus or minus something."""
    for func in module.functions.values():
        uses = _use_counts(func)
        for block in func.blocks:
            for op in list(block.ops):
                if op.name in _READ and (found := _sum(op, uses)) is not None:
                    _rewrite(op, *found)


def _use_counts(func: Function) -> dict[Value, int]:
    uses: dict[Value, int] = {}
    for op in func.all_ops():
        for v in op.used():
            uses[v] = uses.get(v, 0) + 1
    return uses


def _sum(op: Op, uses: dict[Value, int]) -> tuple[Value, bool] | None:
    """What is added to the element that ``op`` sets, and whether it is taken off instead."""
    new = op.operands[1].op
    if new is None or new.name not in ("add", "sub") or new.block is not op.block or uses[new.result] != 1:
        return None
    x, y = new.operands
    if new.name == "add" and _reads(y, op, uses):
        x, y = y, x
    if not _reads(x, op, uses) or x.type != y.type:
        return None
    return y, new.name == "sub"


def _reads(v: Value, update: Op, uses: dict[Value, int]) -> bool:
    """Whether ``v`` is what ``update`` overwrites; an element is then of no other use (a slice is a view)."""
    op, (array, _, *at) = v.op, update.operands
    if op is None or op.name != _READ[update.name] or op.operands[0] is not array:
        return False
    if op.name == "get" and uses[v] != 1:
        return False
    place = op.operands[1:] if op.name == "get" else [x for i, x in enumerate(op.operands[1:]) if i % 3 != 1]
    return len(place) == len(at) and all(map(same, place, at))


def _rewrite(op: Op, value: Value, negative: bool) -> None:
    block = op.block
    assert block is not None
    if negative:
        here = block.ops.index(op)
        tail, block.ops = block.ops[here:], block.ops[:here]
        value = Builder(block, op.loc).neg(value)
        block.ops += tail
    op.name = _ADD[op.name]
    op.operands[1] = value
