"""Type rules: the result types of each op from its operands and attributes; ``ops.py`` assigns them to the ops.

Notation: a, b arrays; n, i, j, s, l, t i64 scalars (start, length, step).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .types import BOOL, I64, STACK, Array, Dim, Scalar, Type, broadcast_dims, dims_of, dtype_of, make, with_dtype

TypeRule = Callable[[Sequence[Any], dict[str, Any]], list[Type]]   # operands are ir.graph.Value


class TypeRuleError(Exception):
    """An op's type rule rejects the operands."""


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise TypeRuleError(message)


def _broadcast(vs: Sequence[Any]) -> tuple[Dim, ...]:
    dims: tuple[Dim, ...] = ()
    for v in vs:
        if more := dims_of(v.type):
            try:
                dims = broadcast_dims(dims, more) if dims else more
            except ValueError as e:
                raise TypeRuleError(str(e)) from None
    return dims


def _same_dtype(vs: Sequence[Any]) -> Scalar:
    dtype = dtype_of(vs[0].type)
    for v in vs:
        if v.type is not dtype and dtype_of(v.type) is not dtype:
            raise TypeRuleError(f"mixed dtypes {[str(v.type) for v in vs]}")
    return dtype


def elementwise(n: int, kinds: str, result: Scalar | None = None) -> TypeRule:
    """``n`` operands of one dtype whose kind is among ``kinds`` (f, i, b); ``result`` overrides the result's dtype."""
    def rule(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
        if len(vs) != n:
            raise TypeRuleError(f"takes {n} operands")
        dtype = _same_dtype(vs)
        if dtype.kind not in kinds:
            raise TypeRuleError(f"does not take {dtype}")
        shapes = [v.type for v in vs if v.type is not dtype]
        if not shapes:
            return [result or dtype]
        if result is None and shapes.count(shapes[0]) == len(shapes):      # most arrays: one type, kept as one object
            return [shapes[0]]
        return [make(result or dtype, _broadcast(vs))]
    return rule


def select(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(len(vs) == 3 and dtype_of(vs[0].type) == BOOL, "takes a bool and two alternatives")
    return [make(_same_dtype(vs[1:]), _broadcast(vs))]


def cast(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(len(vs) == 1, "takes one operand")
    dtype_of(vs[0].type)
    return [with_dtype(vs[0].type, attrs["dtype"])]


def const(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(isinstance(attrs["type"], Scalar) and attrs["value"] is not None, "needs a value and a scalar type")
    return [attrs["type"]]


def undef(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [attrs["type"]]


def _size(v: Any) -> Dim:
    """The dimension that an i64 value gives: a literal if it is a constant, else None."""
    if v.type is not I64:
        raise TypeRuleError(f"a size must be i64, not {v.type}")
    known: int | None = v.const
    return known


def _array(v: Any) -> Array:
    t = v.type
    if not isinstance(t, Array):
        raise TypeRuleError(f"needs an array, not {t}")
    return t


def _axis(a: Array, axis: int) -> int:
    if not 0 <= axis < a.rank:
        raise TypeRuleError(f"axis {axis} of an array of rank {a.rank}")
    return axis


def _fit(xs: Sequence[Dim], ys: Sequence[Dim]) -> bool:
    """True if the sizes can be equal at run time."""
    return len(xs) == len(ys) and all(x is None or y is None or x == y for x, y in zip(xs, ys))


def _scalars(vs: Sequence[Any], t: Scalar = I64) -> None:
    for v in vs:
        if v.type is not t:
            raise TypeRuleError(f"needs {t} scalars, not {[str(v.type) for v in vs]}")


def fill(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(isinstance(vs[0].type, Scalar), "fills with a scalar")
    return [make(vs[0].type, tuple(_size(v) for v in vs[1:]))]


def empty(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [make(attrs["dtype"], tuple(_size(v) for v in vs))]


def iota(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [Array(I64, (_size(vs[0]),))]


def dim(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _axis(_array(vs[0]), attrs["axis"])
    return [I64]


def get(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _need(1 <= len(vs) - 1 <= a.rank, "too many indices")
    _scalars(vs[1:])
    return [make(a.dtype, a.dims[len(vs) - 1:])]


def set_(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, i…): v has the type of a[i…], up to literal sizes."""
    a, v = _array(vs[0]), vs[1].type
    _scalars(vs[2:])
    if not 0 < len(vs) - 2 <= a.rank:
        raise TypeRuleError(f"{len(vs) - 2} indices into an array of rank {a.rank}")
    if dtype_of(v) is not a.dtype or not _fit(dims_of(v), a.dims[len(vs) - 2:]):
        raise TypeRuleError(f"cannot store {v} in {a}")
    return [a]


def slice_(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, s0, l0, t0, s1, l1, t1, …) for every axis."""
    a = _array(vs[0])
    _need(len(vs) == 1 + 3 * a.rank, "needs start, length, step for every axis")
    _scalars(vs[1:])
    return [Array(a.dtype, tuple(_size(v) for v in vs[2::3]))]


def set_slice(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, s0, t0, s1, t1, …): v has the rank of a and gives the lengths."""
    a, v = _array(vs[0]), _array(vs[1])
    _need(v.rank == a.rank and v.dtype == a.dtype and len(vs) == 2 + 2 * a.rank, f"cannot store {v} in {a}")
    _scalars(vs[2:])
    return [a]


def reshape(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a, sizes = _array(vs[0]), tuple(_size(v) for v in vs[1:])
    _need(len(sizes) > 0, "needs sizes")
    _need(None in a.dims + sizes or _product(a.dims) == _product(sizes), f"cannot reshape {a} to {sizes}")
    return [Array(a.dtype, sizes)]


def _product(dims: Sequence[Dim]) -> int:
    return math.prod(d or 0 for d in dims)


def broadcast_to(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    have, sizes = dims_of(vs[0].type), tuple(_size(v) for v in vs[1:])
    grown = sizes[len(sizes) - len(have):]
    _need(len(have) <= len(sizes) and all(d == 1 or _fit([d], [n]) for d, n in zip(have, grown)),
          f"cannot broadcast {vs[0].type} to {sizes}")
    return [make(dtype_of(vs[0].type), sizes)]


def transpose(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _need(sorted(attrs["perm"]) == list(range(a.rank)), "not a permutation")
    return [Array(a.dtype, tuple(a.dims[p] for p in attrs["perm"]))]


def concat(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    first = _array(vs[0])
    axis = _axis(first, attrs["axis"])
    rest = first.dims[:axis] + first.dims[axis + 1:]
    sizes = [_array(v).dims[axis] for v in vs]
    total = None if None in sizes else sum(s for s in sizes if s is not None)
    _need(all(v.type.dtype == first.dtype and _fit(v.type.dims[:axis] + v.type.dims[axis + 1:], rest) for v in vs),
          "mixed arrays")
    return [Array(first.dtype, first.dims[:axis] + (total,) + first.dims[axis + 1:])]


def take(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, index array) → index shape + a.shape[1:]."""
    a, i = _array(vs[0]), _array(vs[1])
    _need(i.dtype == I64, "indices must be i64")
    return [Array(a.dtype, i.dims + a.dims[1:])]


def put(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, index array): v has the shape of a[index]."""
    a, v, i = _array(vs[0]), _array(vs[1]), _array(vs[2])
    _need(i.dtype == I64 and v.dtype == a.dtype and _fit(v.dims, i.dims + a.dims[1:]), f"cannot store {v} in {a}")
    return [a]


def nonzero(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(_array(vs[0]).rank == 1 and vs[0].type.dtype == BOOL, "needs a bool array of rank 1")
    return [Array(I64, (None,))]


def reduce(result: Scalar | None = None, kinds: str = "fib") -> TypeRule:
    def rule(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
        a, axes = _array(vs[0]), attrs["axes"]
        _need(a.dtype.kind in kinds, f"does not take {a.dtype}")
        _need(list(axes) == sorted(set(axes)) and all(0 <= x < a.rank for x in axes), "bad axes")
        return [make(result or a.dtype, tuple(d for i, d in enumerate(a.dims) if i not in axes))]
    return rule


def arg_reduce(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    axis = _axis(a, attrs["axis"])
    return [make(I64, tuple(d for i, d in enumerate(a.dims) if i != axis))]


def same(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    dtype_of(vs[0].type)
    return [vs[0].type]


def scan(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _axis(a, attrs["axis"])
    _need(not a.dtype.is_bool, "does not take bool")
    return [a]


def as_type(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    t = attrs["type"]
    _need(isinstance(t, Array), f"needs an array type, not {t}")
    _need(_array(vs[0]).dtype == t.dtype and _fit(vs[0].type.dims, t.dims), "only sizes may be learnt or forgotten")
    return [t]


def matmul(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """Ranks (1,1) (2,1) (1,2) (2,2) (3,3); ``ta``/``tb`` transpose the last two axes first."""
    a, b = _array(vs[0]), _array(vs[1])
    _need(a.dtype == b.dtype, "mixed dtypes")
    _need((a.rank, b.rank) in ((1, 1), (2, 1), (1, 2), (2, 2), (3, 3)), "bad ranks")
    inner = (a.dims[-2 if attrs.get("ta") and a.rank > 1 else -1], b.dims[-1 if attrs.get("tb") or b.rank == 1 else -2])
    _need(_fit(inner[:1], inner[1:]) and (a.rank < 3 or _fit(a.dims[:1], b.dims[:1])), f"cannot multiply {a} and {b}")
    rows = () if a.rank == 1 else (a.dims[-1 if attrs.get("ta") else -2],)
    cols = () if b.rank == 1 else (b.dims[-2 if attrs.get("tb") else -1],)
    batch = a.dims[:1] if a.rank == 3 else ()
    return [make(a.dtype, batch + rows + cols)]


def push(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == STACK, "needs a stack")
    return [STACK]


def pop(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == STACK, "needs a stack")
    unknown = sum(t.dims.count(None) for t in attrs["types"] if isinstance(t, Array))
    _need(len(vs) == 1 + (unknown if attrs.get("zeros") else 0), "takes the sizes of arrays where there may be zeros")
    _need(all(v.type == I64 for v in vs[1:]), "takes sizes as i64")
    return [STACK, *attrs["types"]]


def check(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == BOOL and len(vs) <= 5, "takes a bool and at most four scalars")
    return []
