"""What ops on small arrays are where an array is its elements: an index map, or an op on scalars for each element.

The elements of an array are a NumPy array of values, in its shape (``()`` for a scalar), so that ``reshape``,
``transpose``, ``concat`` and the like are NumPy's own.
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
from ..analysis.float_signs import has_no_sign

Elements = np.ndarray
Rule = Callable[[Builder, Op, list[Elements]], Elements]

MOST_ELEMENTS = 16
MOST_WORK = 128
"""An op that is more scalar ops than this stays one: a product of two matrices of 4 by 4 is the largest."""

MOST_SCATTERED = 8
"""A larger array that is written into another is first built."""


def is_small(t: Type) -> bool:
    """Whether values of this type may be taken apart: an array of few elements whose sizes the type tells."""
    return isinstance(t, Array) and None not in t.dims and 1 <= _count(t) <= MOST_ELEMENTS


def _count(t: Type) -> int:
    return prod(d or 0 for d in dims_of(t))


def elements(values: Sequence[Value], shape: Sequence[int | None] = ()) -> Elements:
    """Values, in C order, as the elements of an array of this shape."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape([d or 0 for d in shape])


def places(t: Type) -> Iterable[tuple[int, ...]]:
    """The indices of a small array, in C order."""
    return product(*(range(d or 0) for d in dims_of(t)))


# --- which ops ------------------------------------------------------------------------------------

def expandable(op: Op, derived: bool) -> bool:
    """Whether an op is known element by element: its arrays are small and what it indexes by is constant.

    ``derived``: derivatives have been made, so that ops may go whose own derivative is another than that of what
    they consist of (the extremes, where several are equal).
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
    return _in_bounds(op) and work(op) <= MOST_WORK


def _is_constant(v: Value) -> bool:
    """Whether the elements of an array of indices are made of constants, so that they will be constants."""
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


def work(op: Op) -> int:
    """How many scalar ops an op becomes, about."""
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
    """Whether the elements that an op reads or writes are known, and there: not so behind a check that fails."""
    if not OPS[op.name].indices:
        return True
    where = _where(op)
    if where is None:
        return False
    return all(0 <= i < (d or 0) for axis, d in zip(where, dims_of(op.operands[0].type)) for i in axis)


def _where(op: Op) -> list[list[int]] | None:
    """The indices along each axis that ``get``, ``slice`` and the updates name, ``None`` if not constant."""
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
"""What indices that are written down in a program go through, negative ones included."""

# --- the rules ------------------------------------------------------------------------------------

def expand(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    """The elements of the result, given those of the operands."""
    rule = RULES.get(op.name, _elementwise)
    return rule(b, op, xs)


def _each(b: Builder, name: str, *xs: Elements, **attrs: object) -> Elements:
    """An elementwise op, broadcast as NumPy does."""
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
    """Row ``i``; where the index array has stayed in memory it is chosen among all."""
    if i.const is not None:
        return rows[min(max(int(i.const), 0), len(rows) - 1), ...]        # behind a check that fails it is anywhere
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
    return elements([b.undef(dtype_of(t)) for _ in places(t)], dims_of(t))


def _reduction(name: str) -> Rule:
    """One element after the other, in order."""
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
    return _each(b, "add", total, elements([b.const(0, dtype_of(op.result.type))]))        # of nothing but -0 it is 0


def _scan(name: str) -> Rule:
    def rule(b: Builder, op: Op, xs: list[Elements]) -> Elements:
        rows = np.moveaxis(xs[0], op.attrs["axis"], 0).copy()
        for i in range(1, len(rows)):
            rows[i, ...] = _each(b, name, rows[i - 1, ...], rows[i, ...])
        return np.moveaxis(rows, 0, op.attrs["axis"])
    return rule


def _matmul(b: Builder, op: Op, xs: list[Elements]) -> Elements:
    """Sums over the inner axis, which comes last in ``x`` and in ``y``."""
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
"""Ops that compute nothing."""

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
    """The elements of an array in memory, those of a slice from the array that it is a part of."""
    assert isinstance(v.type, Array)
    op, indices = v.op, list(places(v.type))
    if op is None or op.name != "slice":
        return elements([b.emit("get", v, *map(b.const, at)) for at in indices], v.type.dims)
    whole, starts, steps = op.operands[0], op.operands[1::3], op.operands[3::3]
    return elements([b.emit("get", whole, *_moved(b, starts, steps, at)) for at in indices], v.type.dims)


def _moved(b: Builder, starts: Sequence[Value], steps: Sequence[Value], at: Sequence[int]) -> list[Value]:
    return [b.add(s, b.mul(t, b.const(k))) for s, t, k in zip(starts, steps, at)]


def build(b: Builder, xs: Elements, t: Array) -> Value:
    """The array in memory."""
    sizes, values = [b.const(d or 0) for d in t.dims], list(xs.flat)
    if all(v is values[0] for v in values):
        return b.emit("fill", values[0], *sizes)
    array = b.emit("empty", *sizes, dtype=t.dtype)
    for v, at in zip(values, places(t)):
        array = b.emit("set", array, v, *map(b.const, at))
    return array


def scatters(op: Op) -> bool:
    """Whether an op writes a small array into another array, so that its elements may be written one by one."""
    if op.name not in ("set", "add_at", "set_slice", "add_slice"):
        return False
    t = op.operands[1].type
    return is_small(t) and _count(t) <= MOST_SCATTERED


def scatter(b: Builder, op: Op, xs: Elements) -> Value:
    """Write the elements one by one."""
    array, at = op.operands[0], op.operands[2:]
    name = "add_at" if op.name in ("add_at", "add_slice") else "set"
    for k, v in zip(places(op.operands[1].type), xs.flat):
        index = _moved(b, at[::2], at[1::2], k) if op.name.endswith("_slice") else [*at, *map(b.const, k)]
        array = b.emit(name, array, v, *index, **op.attrs)
    return array
