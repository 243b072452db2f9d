"""Lowers ops that have an array among their operands or results.

``lower`` emits one op: nothing for a lazy result (``planning.array_plan`` decides), a loop nest for a stored one.
``_RULES`` has one line an op; elementwise ops share ``elementwise.store``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Op
from ...ir.ops import OPS
from ..arrays import elementwise, fused_nest, reduce, scan, shape, update
from ..builder.function_builder import FunctionBuilder
from ..matmul import select_kernel

Rule = Callable[[FunctionBuilder, Op], None]

_RULES: dict[str, Rule] = {
    "dim": shape.dim, "undef": shape.undef, "empty": shape.empty, "fill": elementwise.store,
    "iota": elementwise.store, "copy": elementwise.store, "broadcast_to": elementwise.store,
    "transpose": elementwise.store, "take": elementwise.store,
    "get": shape.get, "slice": elementwise.store, "reshape": elementwise.store, "as_type": elementwise.store,
    "concat": shape.concat, "nonzero": shape.nonzero,
    "set": update.set_, "add_at": update.add_at, "set_slice": update.set_slice, "add_slice": update.add_slice,
    "put": update.put, "add_put": update.add_put,
    "sum": reduce.fold, "prod": reduce.fold, "max": reduce.fold, "min": reduce.fold, "all": reduce.fold,
    "any": reduce.fold, "argmax": reduce.arg, "argmin": reduce.arg,
    "cumsum": scan.cumulative, "cumprod": scan.cumulative, "matmul": select_kernel.matmul,
}


def lower(fn: FunctionBuilder, op: Op) -> None:
    """Emit one op with an array among its operands or results."""
    if is_array(op.result):
        fn.plan.sizes[op.result] = shape.result_sizes(fn, op)
        if shape.view(fn, op):
            fn.plan.lazy.discard(op.result)
            return
    if op.result in fn.plan.lazy or op in fn.plan.deferred:
        return
    group = fn.plan.groups.get(op, [op])
    if len(group) > 1:
        if op is group[-1]:
            fused_nest.emit(fn, group)
    elif op.result in fn.plan.accumulate:
        select_kernel.accumulate(fn, op)
    elif OPS[op.name].elementwise:
        elementwise.store(fn, op)
    else:
        _RULES[op.name](fn, op)
