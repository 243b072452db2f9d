"""Rules of ``array_sroa``: each op on split arrays as an index map, or as scalar ops on the elements.

The elements of an array are held in a NumPy array of IR values of the same shape (``()`` for a scalar).  So
``reshape``, ``transpose``, ``concat`` and others are those of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...ir.builder import Builder
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, Type, dims_of, dtype_of
from ..analysis.float_facts import has_no_sign

Elements = np.ndarray
Rule = Callable[[Builder, Op, list[Elements]], Elements]

MOST_ELEMENTS = 16
"""The most elements of an array that is split."""
MOST_WORK = 128
"""The most scalar ops that replace one op: those of a product of two 4 by 4 matrices."""

MOST_SCATTERED = 8
"""The most elements that are stored one by one into another array; a larger array is built first."""


def is_small(t: Type) -> bool:
    """True if arrays of this type may be split: the type has all sizes, and there are few elements."""
    return isinstance(t, Array) and None not in t.dims and 1 <= _count(t) <= MOST_ELEMENTS


def _count(t: Type) -> int:
    return prod(d or 0 for d in dims_of(t))


def elements(values: Sequence[Value], shape: Sequence[int | None] = ()) -> Elements:
    """The elements of an array of this shape, given in C order."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape([d or 0 for d in shape])


def indices_of(t: Type) -> Iterable[tuple[int, ...]]:
    """The indices of a small array, in C order."""
    return product(*(range(d or 0) for d in dims_of(t)))


# --- the ops that can be replaced -----------------------------------------------------------------

def expandable(op: Op, derived: bool) -> bool:
    """True if an op can be replaced by scalar ops: its arrays are small and its indices are constant.

    ``derived``: derivatives have been generated already.  Before that, ``max`` and ``min`` of floats are not replaced,
    since their derivative differs from that of ``maximum`` and ``minimum`` where several elements are equal.
    """
    if op.name not in RULES and not (op.name in OPS and OPS[op.name].elementwise):
        return False
    arrays = [v.type for v in (*op.operands, *op.results) if not isinstance(v.type, Scalar)]
    if not arrays or not all(map(is_small, arrays)):
        return False
    if op.name == "take" and not _is_constant(op.operands[1]):
        return False
    if op.name in ("max", "min") and not derived and dtype_of(op.result.type).is_float:
        return False
    return _in_bounds(op) and scalar_ops(op) <= MOST_WORK


def _is_constant(v: Value) -> bool:
    """True if the elements of an array of indices are computed from constants, so that they fold to constants."""
    todo, depth = [v], 0
    while todo:
        op = todo.pop().op
        depth += 1
        if op is None or depth > MOST_WORK:
            return False
        if op.name != "const" and (op.name not in _FOLDED or not all(is_small(r.type) for r in op.results)):
            return False
        todo += op.operands
    return True


def scalar_ops(op: Op) -> int:
    """The approximate number of scalar ops that replace an op: the size of the code, not its time."""
    if op.name == "matmul":
        a, b = (v.type for v in op.operands)
        return 2 * _count(a) * _count(b) // max(1, _inner(op))
    if OPS[op.name].indices or op.name in _MAPS:
        return 0
    return max(_count(v.type) for v in (*op.operands, *op.results))


def _inner(op: Op) -> int:
    dims = dims_of(op.operands[0].type)
    return dims[-2 if op.attrs.get("ta") and len(dims) > 1 else -1] or 0


def _in_bounds(op: Op) -> bool:
    """True if the indices of an op are constant and in bounds.

    They can be out of bounds after a check that fails.
    """
    if not OPS[op.name].indices:
        return True
    where = _where(op)
    if where is None:
        return False
    return all(0 <= i < (d or 0) for axis, d in zip(where, dims_of(op.operands[0].type)) for i in axis)


def _where(op: Op) -> list[list[int]] | None:
    """The indices along each axis that an op accesses, or ``None`` if they are not constant."""
    numbers = [v.const for v in op.operands[OPS[op.name].indices:]]
    if None in numbers:
        return None
    if op.name == "slice":
        return [[s + t * k for k in range(n)] for s, n, t in zip(numbers[::3], numbers[1::3], numbers[2::3])]
    if op.name in ("set_slice", "add_slice"):
        sizes = dims_of(op.operands[1].type)
        return [[s + t * k for k in range(n or 0)] for s, t, n in zip(numbers[::2], numbers[1::2], sizes)]
    return [[i] for i in numbers]


_FOLDED = frozenset("empty fill iota set concat reshape copy lt add select".split())
"""The ops between the literal indices of a program, negative ones included, and the op that uses them."""

# --- the rules ------------------------------------------------------------------------------------

def expand(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    """Emit the elements of an op's result, given the elements of its operands."""
    rule = RULES.get(op.name, _elementwise)
    return rule(b, op, xs)


def _each(b: Builder, name: str, *xs: Elements, **attrs: object) -> Elements:
    """Emit an elementwise op for each element, with NumPy's broadcasting."""
    together = np.broadcast_arrays(*xs)
    values = [b.emit(name, *vs, **attrs) for vs in zip(*(x.flat for x in together))]
    return elements(values, together[0].shape)


def _elementwise(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    return _each(b, op.name, *xs, **op.attrs)


def _indexer(op: Op) -> Any:
    where = _where(op)
    assert where is not None
    if op.name in ("get", "set", "add_at"):
        return (*(i for axis in where for i in axis), ...)
    return np.ix_(*where)


def _update(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    after, at = xs[0].copy(), _indexer(op)
    adds = op.name in ("add_at", "add_slice")
    after[at] = _each(b, "add", after[at], xs[1], **op.attrs) if adds else xs[1]
    return after


def _take(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    return np.stack([_chosen(b, xs[0], i) for i in xs[1].flat]).reshape(_shaped(op))


def _chosen(b: Builder, rows: Elements, i: Value) -> Elements:
    """Row ``i``; if ``i`` is not constant, as its array has stayed in memory, a chain of selects."""
    if i.const is not None:
        return rows[min(max(int(i.const), 0), len(rows) - 1), ...]        # out of bounds only after a check that fails
    found = rows[-1, ...]
    for k in range(len(rows) - 1):
        found = _each(b, "select", elements([b.eq(i, k)]), rows[k, ...], found)
    return found


def _shaped(op: Op) -> tuple[int, ...]:
    return tuple(d or 0 for d in dims_of(op.result.type))


def _iota(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    return elements([b.const(i) for i in range(_count(op.result.type))], dims_of(op.result.type))


def _undef(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    t = op.result.type
    return elements([b.undef(dtype_of(t)) for _ in indices_of(t)], dims_of(t))


def _reduction(name: str) -> Rule:
    """The rule of a reduction, which combines the elements in order."""
    def rule(b: Builder, op: Op, xs: list[Elements]) -> Elements:
        axes = op.attrs["axes"]
        rest = [i for i in range(xs[0].ndim) if i not in axes]
        rows = xs[0].transpose(*axes, *rest).reshape(-1, *(xs[0].shape[i] for i in rest))
        return reduce(lambda x, y: _each(b, name, x, y), (rows[i, ...] for i in range(len(rows))))
    return rule


def _sum(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    total = _reduction("add")(b, op, xs)
    if not dtype_of(op.result.type).is_float or all(has_no_sign(x) for x in xs[0].flat):
        return total
    return _each(b, "add", total, elements([b.const(0, dtype_of(op.result.type))]))        # sum of -0 is 0


def _scan(name: str) -> Rule:
    def rule(b: Builder, op: Op, xs: list[Elements]) -> Elements:
        rows = np.moveaxis(xs[0], op.attrs["axis"], 0).copy()
        for i in range(1, len(rows)):
            rows[i, ...] = _each(b, name, rows[i - 1, ...], rows[i, ...])
        return np.moveaxis(rows, 0, op.attrs["axis"])
    return rule


def _matmul(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    """Sums over the inner axis, which is moved to the end of ``x`` and ``y``."""
    x, y = xs
    if op.attrs.get("ta") and x.ndim > 1:
        x = x.swapaxes(-1, -2)
    if not op.attrs.get("tb") and y.ndim > 1:
        y = y.swapaxes(-1, -2)
    if y.ndim > 1 and x.ndim > 1:
        x, y = x[..., :, None, :], y[..., None, :, :]
    x, y = np.broadcast_arrays(x, y)
    terms = (_each(b, "mul", x[..., k], y[..., k]) for k in range(x.shape[-1]))
    return reduce(lambda s, term: _each(b, "add", s, term), terms)


_MAPS: dict[str, Rule] = {
    "fill": lambda b, op, xs: np.broadcast_to(xs[0], _shaped(op)),
    "empty": lambda b, op, xs: np.broadcast_to(elements([b.const(0, dtype_of(op.result.type))]), _shaped(op)),
    "dim": lambda b, op, xs: elements([b.const(dims_of(op.operands[0].type)[op.attrs["axis"]])]),
    "iota": _iota,
    "undef": _undef,
    "get": lambda b, op, xs: xs[0][_indexer(op)],
    "slice": lambda b, op, xs: xs[0][_indexer(op)],
    "set": _update,
    "set_slice": _update,
    "reshape": lambda b, op, xs: xs[0].reshape(_shaped(op)),
    "broadcast_to": lambda b, op, xs: np.broadcast_to(xs[0], _shaped(op)),
    "transpose": lambda b, op, xs: xs[0].transpose(op.attrs["perm"]),
    "take": _take,
    "concat": lambda b, op, xs: np.concatenate(xs, op.attrs["axis"]),
    "copy": lambda b, op, xs: xs[0],
    "as_type": lambda b, op, xs: xs[0],
}
"""Ops without arithmetic."""

RULES: dict[str, Rule] = {
    **_MAPS,
    "add_at": _update, "add_slice": _update,
    "sum": _sum, "prod": _reduction("mul"), "all": _reduction("and"), "any": _reduction("or"),
    "max": _reduction("maximum"), "min": _reduction("minimum"),
    "cumsum": _scan("add"), "cumprod": _scan("mul"),
    "matmul": _matmul,
}

# --- between arrays and their elements ------------------------------------------------------------

def read(b: Builder, v: Value) -> Elements:
    """Emit loads of the elements of an array in memory; those of a slice are loaded from the sliced array."""
    assert isinstance(v.type, Array)
    op, indices = v.op, list(indices_of(v.type))
    if op is None or op.name != "slice":
        return elements([b.emit("get", v, *map(b.const, at)) for at in indices], v.type.dims)
    source, starts, steps = op.operands[0], op.operands[1::3], op.operands[3::3]
    return elements([b.emit("get", source, *_moved(b, starts, steps, at)) for at in indices], v.type.dims)


def _moved(b: Builder, starts: Sequence[Value], steps: Sequence[Value], at: Sequence[int]) -> list[Value]:
    return [b.add(s, b.mul(t, b.const(k))) for s, t, k in zip(starts, steps, at)]


def build(b: Builder, xs: Elements, t: Array) -> Value:
    """Emit the array in memory that has these elements."""
    sizes, values = [b.const(d or 0) for d in t.dims], list(xs.flat)
    if all(v is values[0] for v in values):
        return b.emit("fill", values[0], *sizes)
    array = b.emit("empty", *sizes, dtype=t.dtype)
    for v, at in zip(values, indices_of(t)):
        array = b.emit("set", array, v, *map(b.const, at))
    return array


def scatters(op: Op) -> bool:
    """True if an op stores or adds a small array into another array, which can be done element by element."""
    if op.name not in ("set", "add_at", "set_slice", "add_slice"):
        return False
    t = op.operands[1].type
    return is_small(t) and _count(t) <= MOST_SCATTERED


def scatter(b: Builder, op: Op, xs: Elements) -> Value:
    """Emit a store or an addition for each element; returns the updated array."""
    array, at = op.operands[0], op.operands[2:]
    name = "add_at" if op.name in ("add_at", "add_slice") else "set"
    for k, v in zip(indices_of(op.operands[1].type), xs.flat):
        index = _moved(b, at[::2], at[1::2], k) if op.name.endswith("_slice") else [*at, *map(b.const, k)]
        array = b.emit(name, array, v, *index, **op.attrs)
    return array
