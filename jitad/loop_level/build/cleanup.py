"""Replaces sizes that are known where the buffer is made, and removes ops whose results nothing uses."""

from __future__ import annotations

from ...ir.graph import Block, Function, Op, Value
from ..ops import OPS


def fold_sizes(func: Function) -> None:
    """Replace each ``dim`` of a buffer by the size that the op which makes the buffer takes.

    Literal sizes are not put into views and reshapes: they would be part of the type of the result, which stands in the
    types of parameters, results and carried buffers already.
    """
    known: dict[Value, Value] = {}
    for block in func.blocks:
        for op in block.nested_ops():
            if op.name == "dim" and (size := _size(op.operands[0].op, op.attrs["axis"])) is not None:
                known[op.result] = size
    varying = {v: size for v, size in known.items() if size.const is None}
    for block in func.blocks if known else ():
        for op in block.nested_ops():
            op.replace_uses(varying if op.name in ("view", "reshape") else known)


def _size(op: Op | None, axis: int) -> Value | None:
    """The operand of the op that makes a buffer which is its size along an axis; None if there is none."""
    while op is not None and op.name == "retype":
        op = op.operands[0].op
    if op is None or op.name not in ("alloc", "reshape", "view"):
        return None
    if op.name != "view":
        return op.operands[axis + (op.name == "reshape")]
    lengths = op.operands[2::3]
    kept = [a for a in range(len(lengths)) if a not in op.attrs.get("drop", ())]
    return lengths[kept[op.attrs["perm"][axis] if "perm" in op.attrs else axis]]


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
