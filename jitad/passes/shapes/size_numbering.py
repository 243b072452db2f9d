"""Value numbering of sizes: each size of arrays becomes one value.

A ``dim`` of an array is replaced by the ``dim`` of the array from which it has its shape, taken where that one is
defined.  So equal sizes (``analysis.sizes``) are one value, and the sizes of arrays that a loop carries are known
outside the loop.

The reverse sweep begins behind the guard of a loop, and what it needs of the preheader comes by parameters, which are
undefined if the loop had no iteration.  For it sizes, starts of slices and comparisons of them are computed ahead of
the guard instead (``sizes_ahead``), so that equal ones are one value in both sweeps.  What iterations compute stays::

      branch %any, ^preheader, ^skip                  %n = maximum %a, 0
    ^preheader:                                       branch %any, ^preheader, ^skip
      %n = maximum %a, 0                 becomes    …
      …                                             ^after:
    ^after(%m):       # %n, or undefined              … %n …
      … %m …
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS, Axis
from ...ir.types import I64, Scalar
from ..analysis.cfg import append, resolve, substitute
from ..analysis.loops import LoopForest, loop_forest
from ..analysis.sizes import Solver

LONGEST = 16
"""The most ops that are moved for one parameter."""


def size_numbering(module: Module) -> None:
    for func in module.functions.values():
        name_sizes(func)


def sizes_ahead(module: Module) -> bool:
    """Compute sizes ahead of the branches that lead to them; returns True if there were any."""
    return any([_of_function(func) for func in module.functions.values()
                if any(op.name == "undef" for op in func.all_ops())])


def name_sizes(func: Function, defined: bool = False) -> bool:
    """Replace each ``dim`` in a function by its canonical size; returns True if there was any.

    ``defined``: arguments that are undefined have any size.
    """
    dims = [op for op in func.all_ops() if op.name == "dim"]
    if not dims:
        return False
    solver = Solver(func, defined)
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
        if defined and not _is_available(origin, op.block, forest):
            continue
        if isinstance(size, Value):
            mapping[op.result] = size
        else:
            if size not in made:
                made[size] = _take(size)
            mapping[op.result] = made[size]
    substitute(func, mapping)
    return bool(mapping)


def _take(axis: Axis) -> Value:
    """Insert a ``dim`` right after the definition of its array."""
    array, number = axis
    op = Op("dim", [array], [I64], {"axis": number})
    op.block = block = array.block
    block.ops.insert(0 if array.op is None else block.ops.index(array.op) + 1, op)
    return op.result


# --- sizes of the reverse sweep -----------------------------------------------------------------------


def _of_function(func: Function) -> bool:
    found = name_sizes(func, defined=True)
    while _move(func):
        found = True
        name_sizes(func, defined=True)
    return found


def _move(func: Function) -> bool:
    """Compute what parameters stand for ahead of the branches that lead to them; returns True if there was any."""
    forest = loop_forest(func)
    mapping: dict[Value, Value] = {}
    for block in forest.dom.order[1:]:
        params = [p for p in block.params if isinstance(p.type, Scalar) and not p.type.is_float]
        ahead = _ahead_of(block, forest) if params else None
        for p in params if ahead is not None else ():
            assert ahead is not None
            given = {v if v is None else resolve(mapping, v) for v in forest.dom.arguments(p)} - {p}
            known = {v for v in given if v is None or v.op is None or v.op.name != "undef"}
            value = known.pop() if len(known) == 1 else None
            moved = _computation(value, ahead, forest) if value is not None else None
            if value is not None and moved is not None and (not moved or len(given) > 1):
                for op in moved:
                    assert op.block is not None
                    op.block.ops.remove(op)
                    append(ahead, op)
                mapping[p] = value
    substitute(func, mapping)
    for block in forest.dom.order:
        for edge in block.term.edges if mapping and block.term is not None else ():
            edge.args = [a for p, a in edge.passed() if p not in mapping]
    for block in {p.block for p in mapping}:
        block.params = [p for p in block.params if p not in mapping]
        for i, p in enumerate(block.params):
            p.index = i
    return bool(mapping)


def _ahead_of(block: Block, forest: LoopForest) -> Block | None:
    """The nearest block in no loop that every path to ``block`` passes: sizes are the same in all iterations."""
    ahead = forest.dom.idom[block]
    while ahead is not None and forest.loop_of(ahead) is not None:
        ahead = forest.dom.idom[ahead]
    return ahead


def _computation(value: Value, ahead: Block, forest: LoopForest) -> list[Op] | None:
    """The ops that compute ``value`` at the end of ``ahead`` from what is known there, in order; None if none do."""
    order: dict[Op, None] = {}

    def visit(v: Value) -> bool:
        op = v.op
        if _is_available(v, ahead, forest) or op in order:
            return True
        if op is None or len(order) >= LONGEST or not _may_move(op) or not all(map(visit, op.operands)):
            return False
        order[op] = None
        return True
    return list(order) if visit(value) else None


def _may_move(op: Op) -> bool:
    """True for cheap arithmetic of integers and bools, which cannot fail, and sizes."""
    definition = OPS[op.name]
    return op.name in ("const", "dim") or definition.elementwise and definition.cost < EXPENSIVE and \
        all(isinstance(v.type, Scalar) and not v.type.is_float for v in (*op.operands, *op.results))


def _is_available(v: Value, block: Block, forest: LoopForest) -> bool:
    """True if ``v`` is defined where ``block`` ends, and in no loop without ``block``."""
    loop = forest.loop_of(v.block)
    return forest.dom.dominates(v.block, block) and (loop is None or block in loop.blocks)
