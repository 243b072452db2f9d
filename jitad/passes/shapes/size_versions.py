"""Gives a function a second version for the small sizes that its arrays have in the first call.

A program over points in space has arrays of ``n`` rows of three.  Sizes are not compiled in, so each row would be an
array in memory, with a loop over it.  The first call tells which sizes are likely (the attribute ``likely``: parameter,
axis and size).  The function tests them once, and has a version in which they are literal; rows are split into scalars
there (``array_sroa``), and loops over them are unrolled.  Any other size takes the version as before::

    func @f(%p: f64[?, ?]) {likely = ((0, 1, 3),)}       func @f(%p: f64[?, ?])
    ^entry: …                                            ^entry:   branch (dim(%p, 1) == 3), ^known, ^any
                                               becomes   ^known:   %q = as_type %p : f64[?, 3]
                                                                   … of %q
                                                         ^any:     … of %p
                                                         ^join(%result): return %result

A function gets two versions only if literal sizes make a difference: if an operation on small arrays is in a loop, if a
reduction goes over such an axis, or if an inner loop has such a length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Edge, Function, Module, Op, Value
from ...ir.ops import Axis
from ...ir.types import Array
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import set_term
from ..analysis.loops import LoopForest, counted, loop_forest
from ..analysis.sizes import Size, Solver
from .shape_inference import retype

SIZES = range(2, 5)
"""The sizes that get a version: coordinates, colours and quaternions."""
FEWEST = 16
"""A call is typical if an axis of some array, or an integer, has at least this size: smaller calls are quick anyway."""
MOST_OPS = 1500
"""The largest function that gets two versions, as this doubles the time for its compilation."""
SCALAR = frozenset("dim get set add_at as_type check push".split())
"""Ops that read or write an element, or none."""
REDUCTIONS = frozenset("sum prod max min all any argmax argmin cumsum cumprod matmul".split())

Likely = tuple[int, int, int]


def suggest(func: Function, args: Sequence[Any]) -> None:
    """Note the small sizes of a call on the function that is called."""
    shapes = [x.shape if isinstance(x, np.ndarray) else () for x in args]
    if any(n >= FEWEST for shape in shapes for n in shape) or any(type(x) is int and x >= FEWEST for x in args):
        found = tuple((i, axis, n) for i, shape in enumerate(shapes) for axis, n in enumerate(shape) if n in SIZES)
        if found:
            func.attrs["likely"] = found


def size_versions(module: Module) -> bool:
    """Make the versions; expects normal form.  Returns True if there are any."""
    if not any("likely" in func.attrs for func in module.functions.values()):
        return False
    graph = CallGraph(module)
    for name in reversed(graph.order):                           # callers first
        if "likely" in module.functions[name].attrs:
            _pass_on(module, module.functions[name])
    changed = False
    for name, func in module.functions.items():
        likely: Sequence[Likely] = func.attrs.pop("likely", ())
        if likely and name not in graph.recursive and "checkpoint" not in func.attrs:
            changed |= _split(module, func, likely)
    return changed


def _pass_on(module: Module, func: Function) -> None:
    """Note the sizes that are likely for ``func`` on the functions to which it passes its parameters."""
    likely: Sequence[Likely] = func.attrs["likely"]
    for block in func.blocks:
        if block.term is None or block.term.name != "call":
            continue
        name = block.term.attrs["callee"]
        while name in module.derived and name not in module.functions:
            name = module.derived[name].base                     # whose parameters come first
        callee = module.functions.get(name)
        if callee is not None and "likely" not in callee.attrs:
            places = [(i, v.index) for i, v in enumerate(block.term.operands[:len(callee.params)])
                      if v.owner is func.entry]
            found = tuple((i, axis, n) for i, p in places for k, axis, n in likely if k == p)
            if found:
                callee.attrs["likely"] = found


def _split(module: Module, func: Function, likely: Sequence[Likely]) -> bool:
    """Give ``func`` a version for these sizes, if literal sizes make a difference; returns True if it does."""
    solver = Solver(func)
    sizes: dict[Size, Likely] = {}
    for i, axis, n in likely:
        p = func.params[i]
        if i not in func.own and isinstance(p.type, Array) and axis < p.type.rank and p.type.dims[axis] is None:
            sizes.setdefault(_size(solver, (p, axis)), (i, axis, n))
    ops = sum(len(b.ops) for b in func.blocks)
    if not sizes or ops > MOST_OPS or not any(_differences(func, solver, sizes)):
        return False
    _add_version(func, list(sizes.values()))
    _join(func)
    retype(module, func)
    return True


def _differences(func: Function, solver: Solver, sizes: Mapping[Size, Likely]) -> Iterator[bool]:
    """True for each operation or loop that is better off with literal sizes."""
    forest = loop_forest(func)
    for block in func.blocks:
        for op in block.ops:
            if op.operands and isinstance(t := op.operands[0].type, Array) and op.name not in SCALAR:
                small = [_size(solver, (op.operands[0], axis)) in sizes for axis in range(t.rank)]
                inside = forest.depth(block) > 0 and all(small)
                yield inside or op.name in REDUCTIONS and any(small[k] for k in _reduced(op, t.rank))
    yield _has_short_loop(forest, solver, sizes)


def _size(solver: Solver, axis: Axis) -> Size:
    """The canonical size of an axis; a size that is the ``dim`` of another axis is that one's."""
    found = solver.size(axis)
    while isinstance(found, Value) and found.op is not None and found.op.name == "dim":
        found = solver.size((found.op.operands[0], found.op.attrs["axis"]))
    return found


def _reduced(op: Op, rank: int) -> Iterable[int]:
    """The axes of its first operand over which a reduction or a product goes."""
    if op.name == "matmul":
        return (max(rank - 1 - bool(op.attrs.get("ta")), 0),)
    axes: Iterable[int] = op.attrs["axes"] if "axes" in op.attrs else (op.attrs["axis"],)
    return axes


def _has_short_loop(forest: LoopForest, solver: Solver, sizes: Mapping[Size, Likely]) -> bool:
    """True if an inner loop has one of the sizes as its length."""
    for loop in forest.loops:
        known = counted(loop) if loop.depth > 1 else None
        trip = known.trip.op if known is not None else None
        if trip is not None and trip.name == "dim":
            if _size(solver, (trip.operands[0], trip.attrs["axis"])) in sizes:
                return True
    return False


def _add_version(func: Function, likely: Sequence[Likely]) -> None:
    """Copy the body of ``func``, for literal sizes, and test these at the entry."""
    entry = func.entry
    body = func.new_block("any")
    body.ops, body.term = entry.ops, entry.term
    for op in body.all_ops():
        op.block = body
    entry.ops, entry.term = [], None
    values: dict[Value, Value] = {}
    start = func.new_block("known")
    b = Builder(entry, func.loc)
    holds = b.const(True)
    for i, axis, n in likely:
        holds = b.and_(holds, b.eq(b.dim(func.params[i], axis=axis), n))
    b.at(start)
    for i in dict.fromkeys(i for i, *_ in likely):
        p = func.params[i]
        assert isinstance(p.type, Array)
        literal = {axis: n for k, axis, n in likely if k == i}
        dims = tuple(literal.get(axis, d) for axis, d in enumerate(p.type.dims))
        values[p] = b.as_type(p, type=Array(p.type.dtype, dims))
    copies = clone_blocks([x for x in func.blocks if x not in (entry, start)], func, values)
    set_term(start, "jump", edges=[Edge(copies[body])])
    set_term(entry, "branch", [holds], [Edge(start), Edge(body)])


def _join(func: Function) -> None:
    """Let all paths that return meet in one block."""
    returns = [b.term for b in func.blocks if b.term is not None and b.term.name == "return"]
    join = func.new_block("join")
    results = [join.add_param(t) for t in func.result_types]
    for term in returns:
        assert term.block is not None
        set_term(term.block, "jump", edges=[Edge(join, list(term.operands))])
    set_term(join, "return", results)
