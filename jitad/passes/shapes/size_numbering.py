"""Value numbering of sizes: each size of arrays becomes one value.

A ``dim`` of an array is replaced by the ``dim`` of the array from which it has its shape, taken where that one is
defined.  So equal sizes (``analysis.sizes``) are one value, and the sizes of arrays that a loop carries are known
outside the loop.
"""

from __future__ import annotations

from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import Axis
from ...ir.types import I64
from ..analysis.cfg import substitute
from ..analysis.loops import loop_forest
from ..analysis.sizes import Solver


def size_numbering(module: Module) -> None:
    for func in module.functions.values():
        name_sizes(func)


def name_sizes(func: Function) -> None:
    """Replace each ``dim`` in a function by its canonical size."""
    dims = [op for op in func.all_ops() if op.name == "dim"]
    if not dims:
        return
    solver = Solver(func)
    forest = loop_forest(func)
    mapping: dict[Value, Value] = {}
    made: dict[Axis, Value] = {}
    for op in dims:
        axis = op.operands[0], op.attrs["axis"]
        size = solver.size(axis)
        if isinstance(size, int):
            op.name, op.operands, op.attrs = "const", [], {"value": size, "type": I64}
            continue
        origin = size if isinstance(size, Value) else size[0]
        loop = forest.loop_of(origin.block)
        assert op.block is not None
        if loop is not None and op.block not in loop.blocks:
            continue                                     # loops stay closed
        if isinstance(size, Value):
            mapping[op.result] = size
        else:
            if size not in made:
                made[size] = _take(size)
            mapping[op.result] = made[size]
    substitute(func, mapping)


def _take(axis: Axis) -> Value:
    """Insert a ``dim`` right after the definition of its array."""
    array, number = axis
    op = Op("dim", [array], [I64], {"axis": number})
    op.block = block = array.block
    block.ops.insert(0 if array.op is None else block.ops.index(array.op) + 1, op)
    return op.result
