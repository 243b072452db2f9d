"""Jacobians over trees: each float of the result is replaced by the arguments' tree of blocks, with the axes of both.

Forward mode computes a column for each element of an argument, by a derivative with respect to that argument alone.
Reverse mode computes a row for each element of a result.  The forward sweep runs once; every row reuses its stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import pytree
from ...errors import DifferentiationError
from ...ir.graph import Value
from ...ir.types import Array, dims_of, dtype_of
from ...pytree import Structure
from ..arrays.rules import lengths, promotion
from ..flow.stacking import room, stacked
from ..objects import containers
from ..values.protocol import Trace
from ..values.values import Sym
from .derivative_call import Applied, user_value
from .result_shapes import Given, result_sizes

Blocks = dict[tuple[int, Value], Value]            # (result, argument) → the derivative of one by the other
NOTHING = "the Jacobian of a function that does not return"


def forward(f: Applied, has_aux: bool) -> Any:
    """The Jacobian by columns; with ``has_aux``, a pair of it and the function's second result."""
    t, b, ref, own = f.t, f.t.builder, f.ref, _own_floats(f, has_aux)
    sizes, _ = result_sizes(t, ref, [Given(b, v) for v in ref.params], lambda: ref.params)
    blocks: Blocks = {}
    for x, place in zip(f.inputs, f.positions):
        name = t.module.derive(ref.name, "jvp", (place,))

        def column(tangent: Value, name: str = name) -> list[Value]:
            dots = [ref.result_types[i] for i in f.float_results]
            values: list[Value] = b.call_then(name, [*ref.params, tangent], [*ref.result_types, *dots])
            return values[len(ref.result_types):][:len(own)]

        columns = _over_units(t, x, column, [sizes[i] for i in own])
        for i, c in zip(own, columns):
            blocks[i, x] = _columns_last(t, c, sizes[i], x)
    results = b.call_then(ref.name, ref.params, ref.result_types) if ref.mutates or has_aux else []
    return _with_aux(f, blocks, results, has_aux)


def reverse(f: Applied, has_aux: bool) -> Any:
    """The Jacobian by rows; see ``forward``."""
    t, b = f.t, f.t.builder
    own = _own_floats(f, has_aux)
    results, tape = f.sweep_forward()
    blocks: Blocks = {}
    for i in own:
        def row(seed: Value, i: int = i) -> list[Value]:
            seeds = [seed if k == i else b.zeros_like(results[k]) for k in f.float_results]
            return f.sweep_back(seeds, tape)

        rows = _over_units(t, results[i], row, [_sizes_of(t, x) for x in f.inputs])
        for x, r in zip(f.inputs, rows):
            shape = [*_sizes_of(t, results[i]), *_sizes_of(t, x)]
            blocks[i, x] = promotion.reshape(t, r, shape) if shape else r
    return _with_aux(f, blocks, results, has_aux)


def _own_floats(f: Applied, has_aux: bool) -> list[int]:
    """The positions of the float results that are differentiated."""
    count = f.differentiated(has_aux).count
    return [i for i in f.float_results if i < count]


def _with_aux(f: Applied, blocks: Blocks, results: list[Value], has_aux: bool) -> Any:
    """The Jacobian, with aux if there is any; applies the function's side effects once."""
    if not f.ref.mutates and not has_aux:
        return _tree(f, f.structure, blocks)
    leaves, structure = f.finish(results)
    if not has_aux:
        return _tree(f, structure, blocks)
    return _tree(f, structure.children[0], blocks), user_value(f.t, structure, leaves)[1]


def _sizes_of(t: Trace, v: Value) -> list[Value]:
    return lengths.sizes(t, v) if isinstance(v.type, Array) else []


def _over_units(t: Trace, x: Value, linear: Callable[[Value], list[Value]],
                sizes: Sequence[Sequence[Value]]) -> list[Value]:
    """The values of a linear function for each unit vector of the space of ``x``, stacked along a new first axis.

    There is no new axis if ``x`` is a scalar.  ``sizes`` are the sizes of the function's results.
    """
    b, one = t.builder, t.builder.const(1, dtype_of(x.type))
    if not isinstance(x.type, Array):
        return linear(one)
    shape = lengths.sizes(t, x)
    n = shape[0]
    for size in shape[1:]:
        n = b.mul(n, size)

    def body(it: Value) -> list[Value]:
        unit = b.set(b.fill(b.const(0, dtype_of(x.type)), n), one, it)
        return linear(b.as_type(promotion.reshape(t, unit, shape), type=x.type))
    return stacked(t, n, body, lambda values: [room(t, n, v, s) for v, s in zip(values, sizes)], NOTHING)


def _columns_last(t: Trace, columns: Value, sizes: Sequence[Value], x: Value) -> Value:
    """The columns with the axes of the argument after those of the result."""
    if not isinstance(x.type, Array):
        return columns
    rank = len(sizes)
    last = t.builder.transpose(columns, perm=(*range(1, rank + 1), 0)) if rank else columns
    out: Value = promotion.reshape(t, last, [*sizes, *lengths.sizes(t, x)])
    return out


def _tree(f: Applied, structure: Structure, blocks: Blocks) -> Any:
    """The result's structure with the arguments' trees in place of floats, and None for other leaves."""
    if any(map(pytree.holds_packed, (structure, *(w.structure for w in f.wrt)))):
        raise DifferentiationError(f"{f.what} of trees: it would have a tree for each number in a tree", f.loc,
                                   "use grad, vjp, jvp or hvp")
    if any(map(pytree.holds_columns, (structure, *(w.structure for w in f.wrt)))):
        f.t.unsupported(f"{f.what} of a long list", "use an array")
    if pytree.holds_choice(structure) or any(pytree.holds_choice(w.structure) for w in f.wrt):
        raise DifferentiationError(f"{f.what} with a value of one kind or another, depending on the path taken", f.loc,
                                   "give it one structure on every path, or use vjp or jvp")

    def leaf(i: int) -> Any:
        if i not in f.float_results:
            return None
        y = f.ref.value[1 + i]

        def entry(x: Sym) -> Sym:
            block = blocks[i, x.value]
            return Sym(block, not dims_of(block.type) and x.weak and isinstance(y, Sym) and y.weak)
        trees = tuple(w.tree(entry) for w in f.wrt)
        return trees if f.several else trees[0]
    return containers.import_(f.t, pytree.as_gradient(structure, [leaf(i) for i in range(structure.count)]))
