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
reduction goes over such an axis, or if an inner loop has such a length.  Longer rows count if slices with constant
bounds take parts of them, as ``camera[:3]`` and ``camera[3:6]``: whether these have three elements depends on the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_function
from ...ir.graph import Edge, Function, Module, Op, Value
from ...ir.ops import Axis
from ...ir.signature import signature
from ...ir.types import Array, join
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import set_term
from ..analysis.loops import LoopForest, counted, loop_forest
from ..analysis.sizes import Size, Solver
from .callee_versions import CalleeVersions
from .shape_inference import retype

SIZES = range(2, 5)
"""The sizes that get a version: coordinates, colours and quaternions."""
LONGEST = 16
"""The largest size of an axis that gets a version as slices take parts of it which have such sizes."""
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
        found = tuple((i, axis, n) for i, shape in enumerate(shapes) for axis, n in enumerate(shape)
                      if SIZES.start <= n <= LONGEST)
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
    changed, callees = False, CalleeVersions(module)
    for name, func in list(module.functions.items()):
        likely: Sequence[Likely] = func.attrs.pop("likely", ())
        if likely and name not in graph.recursive and "checkpoint" not in func.attrs \
                and (sizes := _worthwhile(func, likely)):
            caller = _caller_of_derivative(module, name)
            if caller is None:
                _add_version(func, sizes)
                _join(func)
                retype(module, func)
            else:
                func = _add_function(module, func, sizes, caller)
            callees.run(func, None if caller is None else 1)
            changed = True
    return changed


def inlined_sizes(module: Module) -> bool:
    """Infer the types of versions again, with the functions that were inlined; returns True if there are versions."""
    found = [func for func in module.functions.values() if any(_is_learnt(op) for op in func.all_ops())]
    for func in found:
        retype(module, func)
    return bool(found)


def _is_learnt(op: Op) -> bool:
    """True if ``op`` is where a version states the sizes of a parameter."""
    before = op.operands[0].type if op.name == "as_type" else None
    return isinstance(before, Array) and None in before.dims and before != op.result.type \
        and join(before, op.result.type) == before


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


def _worthwhile(func: Function, likely: Sequence[Likely]) -> list[Likely]:
    """One axis for each size that is literal in a version of ``func``; none if literal sizes make no difference."""
    solver = Solver(func)
    sizes: dict[Size, Likely] = {}
    for i, axis, n in likely:
        p = func.params[i]
        if i not in func.own and isinstance(p.type, Array) and axis < p.type.rank and p.type.dims[axis] is None:
            sizes.setdefault(_size(solver, (p, axis)), (i, axis, n))
    parts = _parts(func, solver, sizes)
    sliced = set(parts.values())
    sizes = {size: found for size, found in sizes.items() if found[2] in SIZES or size in sliced}
    ops = sum(len(b.ops) for b in func.blocks)
    worthwhile = ops <= MOST_OPS and any(_differences(func, solver, sizes.keys() | parts))
    return list(sizes.values()) if worthwhile else []


def _parts(func: Function, solver: Solver, sizes: Mapping[Size, Likely]) -> dict[Size, Size]:
    """The small sizes of slices from the beginning of an axis, ``minimum(3, n)``, by the size of that axis."""
    found: dict[Size, Size] = {}
    counts = dict.fromkeys(v for b in func.blocks for op in b.ops if op.name == "slice" for v in op.operands[2::3])
    for op in (v.op for v in counts if v.op is not None and v.op.name == "minimum"):
        x, y = op.operands if op.operands[0].const is None else op.operands[::-1]
        if y.const in SIZES and x.op is not None and x.op.name == "dim":
            size = _size(solver, (x.op.operands[0], x.op.attrs["axis"]))
            if size in sizes:
                found[op.result] = size
    return found


def _differences(func: Function, solver: Solver, sizes: Set[Size]) -> Iterator[bool]:
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


def _has_short_loop(forest: LoopForest, solver: Solver, sizes: Set[Size]) -> bool:
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
    holds = _test(b, func.params, likely)
    b.at(start)
    for i, t in _literal(func, likely).items():
        values[func.params[i]] = b.as_type(func.params[i], type=t)
    copies = clone_blocks([x for x in func.blocks if x not in (entry, start)], func, values)
    set_term(start, "jump", edges=[Edge(copies[body])])
    set_term(entry, "branch", [holds], [Edge(start), Edge(body)])


def _test(b: Builder, args: Sequence[Value], likely: Sequence[Likely]) -> Value:
    """Emit the test of the sizes of arguments."""
    holds = b.const(True)
    for i, axis, n in likely:
        holds = b.and_(holds, b.eq(b.dim(args[i], axis=axis), n))
    return holds


def _literal(func: Function, likely: Sequence[Likely]) -> dict[int, Array]:
    """The types of the parameters whose sizes are literal in the version."""
    found = {}
    for i in dict.fromkeys(i for i, *_ in likely):
        t = func.params[i].type
        assert isinstance(t, Array)
        literal = {axis: n for k, axis, n in likely if k == i}
        found[i] = Array(t.dtype, tuple(literal.get(axis, d) for axis, d in enumerate(t.dims)))
    return found


def _caller_of_derivative(module: Module, name: str) -> Op | None:
    """The only call of ``name`` if that is one of its derivative, with both sweeps in one function."""
    of_name = {n for n, d in module.derived.items() if d.base == name}
    calls = [b.term for f in module.functions.values() for b in f.blocks if b.term is not None
             and b.term.name == "call" and b.term.attrs["callee"] in (name, *of_name)]
    if len(of_name) != 1 or len(calls) != 1 or calls[0].attrs["callee"] not in of_name or name in module.rules:
        return None
    derived = calls[0].attrs["callee"]
    again = any(d.base == derived for d in module.derived.values())
    return calls[0] if module.derived[derived].kind == "vjp" and not again else None


def _add_function(module: Module, func: Function, likely: Sequence[Likely], call: Op) -> Function:
    """Make the version a function of its own, which ``call`` differentiates where its arguments have these sizes.

    In one function, what both versions end with would lie between the loops of a version and their reverse loops.
    """
    name = call.attrs["callee"]
    version, _ = clone_function(func, module.unique_name(f"{func.name}.known"))
    module.add(version)
    for i, t in _literal(func, likely).items():
        version.params[i].type = t
    retype(module, version)
    derived = module.unique_name(name.replace(func.name, version.name, 1))
    module.derived[derived] = replace(module.derived[name], base=version.name)
    known, block, (edge,) = signature(module, derived), call.block, call.edges
    assert known is not None and block is not None
    start, whole = block.func.new_block("known"), block.func.new_block("any")
    block.term = None
    b = Builder(block, call.loc)
    b.branch(_test(b, call.operands, likely), start, [], whole, [])
    b.at(start)
    args = [b.typed(v, t) for v, t in zip(call.operands, known.params, strict=True)]
    results = b.call_then(derived, args, known.results)
    b.jump(edge.block, [*(b.typed(r, p.type) for r, p in zip(results, edge.block.params)), *edge.args])
    b.at(whole)
    results = b.call_then(name, call.operands, [p.type for p in edge.block.params[:len(results)]])
    b.jump(edge.block, [*results, *edge.args])
    return version


def _join(func: Function) -> None:
    """Let all paths that return meet in one block."""
    returns = [b.term for b in func.blocks if b.term is not None and b.term.name == "return"]
    join = func.new_block("join")
    results = [join.add_param(t) for t in func.result_types]
    for term in returns:
        assert term.block is not None
        set_term(term.block, "jump", edges=[Edge(join, list(term.operands))])
    set_term(join, "return", results)
