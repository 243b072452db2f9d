"""Writes ``argmax`` and ``argmin`` along another axis than the last as reductions, which run along rows.

In order, each column would be read by itself: its elements are a row apart, and one comparison waits for another.  ::

    k = argmax {axis = 0} x               m = max {axes = (0,)} x
                                 →        here = x == m, or x is NaN, and so is m
                                          k = min {axes = (0,)} (select here, row, rows)

A program that wants the largest elements as well computes them once.  The last axis must not be known to be short.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array
from ..analysis.cfg import substitute

NAMES = {"argmax": "max", "argmin": "min"}
SHORT = 8
"""Rows of a known length up to this are no longer than a vector."""


def arg_reductions(module: Module) -> bool:
    """Rewrite all of them; returns True if there were any."""
    found = False
    for func in module.functions.values():
        if any(_runs_down(op) for op in func.all_ops()):
            _rewrite(func)
            found = True
    return found


def _runs_down(op: Op) -> bool:
    if op.name not in NAMES:
        return False
    t = op.operands[0].type
    return isinstance(t, Array) and op.attrs["axis"] < t.rank - 1 and not t.dtype.is_bool and \
        (t.dims[-1] is None or t.dims[-1] > SHORT)


def _rewrite(func: Function) -> None:
    instead: dict[Value, Value] = {}
    for block in func.blocks:
        if not any(map(_runs_down, block.ops)):
            continue
        extremes: dict[tuple[str, Value, tuple[int, ...]], Value] = {}
        ops, block.ops = block.ops, []
        for op in ops:
            if _runs_down(op):
                instead[op.result] = _reductions(Builder(block, op.loc), op, extremes)
            elif op.name in NAMES.values() and (known := extremes.get((op.name, op.operands[0], op.attrs["axes"]))):
                instead[op.result] = known
            else:
                block.ops.append(op)
    substitute(func, instead)


def _reductions(b: Builder, op: Op, extremes: dict[tuple[str, Value, tuple[int, ...]], Value]) -> Value:
    """Emit the reductions instead of ``op``; ``extremes``: the extreme elements that the block has by now."""
    x, axis, name = op.operands[0], op.attrs["axis"], NAMES[op.name]
    assert isinstance(x.type, Array)
    sizes = b.dims(x)
    key = name, x, (axis,)
    if key not in extremes:
        extremes[key] = b.emit(name, x, axes=(axis,))
    one = b.const(1)
    best = b.emit("reshape", extremes[key], *(one if k == axis else n for k, n in enumerate(sizes)))
    here = b.emit("eq", x, best)
    if x.type.dtype.is_float:
        here = b.emit("or", here, b.emit("ne", x, x))
    rows = b.emit("reshape", b.emit("iota", sizes[axis]), *(n if k == axis else one for k, n in enumerate(sizes)))
    first = b.emit("select", here, rows, b.emit("broadcast_to", sizes[axis], *sizes))
    return b.typed(b.emit("min", first, axes=(axis,)), op.result.type)
