"""Loads elements that do not change ahead of the loops in which a check or a branch precedes the load.

A check of other data, or a branch, keeps ``walls[0]`` in a loop: the array may have no such element, and if the check
fails first, or the branch is not taken, no one asks.  The pass loads the element ahead of the outermost loop if the
array has one, and leaves the check where it is::

    ^preheader:                               ^preheader:
      jump ^loop(0)                             branch (0 < len(a)), ^some, ^none
                                becomes       ^some:  x = a[k if 0 <= k < len(a) else 0];  jump ^ahead(x)
                                              ^none:  jump ^ahead(0.0)
    ^loop(i):                                 ^ahead(x):  jump ^loop(0)
      …                                       ^loop(i):
      check k < len(a)                          check k < len(a)
      … a[k] …                                  … x …

What is computed from it can leave the loops too, and in the reverse sweep its cotangent is a scalar.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ..analysis.cfg import set_term
from ..analysis.loops import Loop, LoopForest, loop_forest

MOST = 24
"""The most elements that are loaded ahead of a loop: more would wait in memory, where they are already."""


def load_speculation(module: Module) -> bool:
    """Load such elements ahead of every outermost loop; expects normal form.  Returns True if there were any."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    forest = loop_forest(func)
    replaced: dict[Value, Value] = {}
    for loop in forest.roots:
        loads = _loads(forest, loop) if loop.preheader is not None else []
        if 0 < len({(*op.operands,) for op in loads}) <= MOST:
            _load_ahead(func, loop, loads, replaced)
    if replaced:
        for block in func.blocks:
            block.ops = [op for op in block.ops if not op.results or op.results[0] not in replaced]
            for op in block.all_ops():
                op.replace_uses(replaced)
    return bool(replaced)


def _loads(forest: LoopForest, loop: Loop) -> list[Op]:
    """The loads in a loop of elements of arrays from outside of all loops, at indices from there."""
    def outside(v: Value) -> bool:
        return v.const is not None or v.block is not None and forest.depth(v.block) == 0
    return [op for b in forest.dom.in_order(loop.blocks) for op in b.ops
            if op.name == "get" and isinstance(op.result.type, Scalar) and all(map(outside, op.operands))]


def _load_ahead(func: Function, loop: Loop, loads: list[Op], replaced: dict[Value, Value]) -> None:
    """Emit the loads, array by array, at the end of the preheader."""
    entry, before = loop.entry_edge(), loop.preheader
    assert before is not None and before.term is not None
    loc = loads[0].loc
    arrays: dict[Value, list[Op]] = {}
    for op in loads:
        arrays.setdefault(op.operands[0], []).append(op)
    for array, ops in arrays.items():
        before.term = None
        b = Builder(before, loc)
        assert isinstance(array.type, Array)
        sizes = [b.dim(array, axis=axis) for axis in range(array.type.rank)]
        holds = b.const(True)
        for size in sizes:
            holds = b.and_(holds, b.lt(0, size))
        some, none, ahead = (func.new_block(name) for name in ("some", "none", "ahead"))
        b.branch(holds, some, [], none, [])
        b.at(some)
        known: dict[tuple[object, ...], int] = {}
        elements: list[Value] = []
        for op in ops:
            key = tuple(v if v.const is None else v.const for v in op.operands[1:])
            if key not in known:
                known[key] = len(elements)
                elements.append(_element(b, array, sizes, op))
                ahead.add_param(op.result.type, op.result.hint)
            replaced[op.result] = ahead.params[known[key]]
        b.jump(ahead, elements)
        b.at(none)
        b.jump(ahead, [b.const(0, array.type.dtype)] * len(elements))
        set_term(ahead, "jump", edges=[entry])
        before = ahead


def _element(b: Builder, array: Value, sizes: list[Value], op: Op) -> Value:
    """Load the element of ``op``, or another one where its index is out of bounds."""
    index = []
    for v, size in zip(op.operands[1:], sizes):
        v = v if v.const is None else b.const(v.const)
        index.append(b.select(b.and_(b.ge(v, 0), b.lt(v, size)), v, 0))
    return b.get(array, *index)
