"""Removes ops whose results nothing uses: sizes that were measured for nothing, elements read for nothing."""

from __future__ import annotations

from ..ir.graph import Block, Function, Value
from .ops import OPS


def remove_unused(func: Function) -> None:
    """Remove every op that has no effect and no used result."""
    used = _used(func)
    for block in func.blocks:
        _sweep(block, used)


def _used(func: Function) -> set[Value]:
    """The values on which an effect, a store or control flow depends."""
    needed: set[Value] = set()
    todo: list[Value] = []
    for block in func.blocks:
        for op in block.nested_ops():
            if op.name not in OPS or not OPS[op.name].pure:
                todo += op.used()
    while todo:
        v = todo.pop()
        if v not in needed:
            needed.add(v)
            if v.op is not None:
                todo += v.op.operands
    return needed


def _sweep(block: Block, used: set[Value]) -> None:
    for op in block.ops:
        for region in op.regions:
            _sweep(region, used)
    block.ops = [op for op in block.ops if not OPS[op.name].pure or any(r in used for r in op.results)]
