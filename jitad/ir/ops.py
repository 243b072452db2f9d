"""The op table: each operation once, with its type rule, effect and NumPy meaning.

An op's derivative is one line in ``ad/derivatives.py`` and its machine code one line in
``lowering/ops.py``; the tests find new ops by walking ``OPS``.

Elementwise ops take scalars and arrays mixed, all of one dtype, and broadcast as NumPy does by the
*types* (a literal 1 broadcasts, ``?`` does not); the front end checks run-time sizes with ``check``.
No op raises: bounds, sizes and domains are ``check`` ops of their own, written by the front end.

Notation in the comments: a, b arrays; n, i, j, s, l, t i64 scalars (start, length, step).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .types import BOOL, I64, STACK, Array, Dim, Scalar, Type, broadcast_dims, dims_of, dtype_of, make, with_dtype

TypeRule = Callable[[Sequence[Any], dict[str, Any]], list[Type]]   # operands are ir.graph.Value


@dataclass(frozen=True)
class OpDef:
    """``elementwise``: acts on each element alone.  ``effect``: must run, in order, even if unused.
    ``consumes``: indices of operands used up (worked on in place).  ``view``: may share its first
    operand's memory.  ``arity``: the number of operands, unless it varies.  ``doc``: the meaning, in NumPy."""

    name: str
    rule: TypeRule
    doc: str
    elementwise: bool = False
    effect: bool = False
    consumes: tuple[int, ...] = ()
    view: bool = False
    arity: int | None = None


OPS: dict[str, OpDef] = {}
TERMINATORS = ("jump", "branch", "switch", "call", "return", "raise")


class TypeRuleError(Exception):
    """Operands that an op's type rule refuses."""


def _op(name: str, rule: TypeRule, doc: str, **flags: Any) -> None:
    OPS[name] = OpDef(name, rule, doc, **flags)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise TypeRuleError(message)


# --- type rules -----------------------------------------------------------------------------------

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


def _elementwise(n: int, kinds: str, result: Scalar | None = None) -> TypeRule:
    """``n`` operands of one dtype whose kind is among ``kinds`` (f, i, b); ``result`` overrides."""
    def rule(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
        if len(vs) != n:
            raise TypeRuleError(f"takes {n} operands")
        dtype = _same_dtype(vs)
        if dtype.kind not in kinds:
            raise TypeRuleError(f"does not take {dtype}")
        return [make(result or dtype, _broadcast(vs))]
    return rule


def _select(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(len(vs) == 3 and dtype_of(vs[0].type) == BOOL, "takes a bool and two alternatives")
    return [make(_same_dtype(vs[1:]), _broadcast(vs))]


def _cast(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(len(vs) == 1, "takes one operand")
    dtype_of(vs[0].type)
    return [with_dtype(vs[0].type, attrs["dtype"])]


def _const(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(isinstance(attrs["type"], Scalar) and attrs["value"] is not None, "needs a value and a scalar type")
    return [attrs["type"]]


def _undef(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [attrs["type"]]


def _size(v: Any) -> Dim:
    """The dimension that an i64 value gives: literal when it is a constant."""
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
    """Whether sizes can be equal at run time."""
    return len(xs) == len(ys) and all(x is None or y is None or x == y for x, y in zip(xs, ys))


def _scalars(vs: Sequence[Any], t: Scalar = I64) -> None:
    for v in vs:
        if v.type is not t:
            raise TypeRuleError(f"needs {t} scalars, not {[str(v.type) for v in vs]}")


def _fill(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(isinstance(vs[0].type, Scalar), "fills with a scalar")
    return [make(vs[0].type, tuple(_size(v) for v in vs[1:]))]


def _empty(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [make(attrs["dtype"], tuple(_size(v) for v in vs))]


def _iota(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    return [Array(I64, (_size(vs[0]),))]


def _dim(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _axis(_array(vs[0]), attrs["axis"])
    return [I64]


def _get(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _need(1 <= len(vs) - 1 <= a.rank, "too many indices")
    _scalars(vs[1:])
    return [make(a.dtype, a.dims[len(vs) - 1:])]


def _set(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, i…): v has the type of a[i…], up to literal sizes."""
    a, v = _array(vs[0]), vs[1].type
    _scalars(vs[2:])
    if not 0 < len(vs) - 2 <= a.rank:
        raise TypeRuleError(f"{len(vs) - 2} indices into an array of rank {a.rank}")
    if dtype_of(v) is not a.dtype or not _fit(dims_of(v), a.dims[len(vs) - 2:]):
        raise TypeRuleError(f"cannot store {v} in {a}")
    return [a]


def _slice(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, s0, l0, t0, s1, l1, t1, …) for every axis."""
    a = _array(vs[0])
    _need(len(vs) == 1 + 3 * a.rank, "needs start, length, step for every axis")
    _scalars(vs[1:])
    return [Array(a.dtype, tuple(_size(v) for v in vs[2::3]))]


def _set_slice(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, s0, t0, s1, t1, …): v has the rank of a and gives the lengths."""
    a, v = _array(vs[0]), _array(vs[1])
    _need(v.rank == a.rank and v.dtype == a.dtype and len(vs) == 2 + 2 * a.rank, f"cannot store {v} in {a}")
    _scalars(vs[2:])
    return [a]


def _reshape(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a, sizes = _array(vs[0]), tuple(_size(v) for v in vs[1:])
    _need(len(sizes) > 0, "needs sizes")
    _need(None in a.dims + sizes or _product(a.dims) == _product(sizes), f"cannot reshape {a} to {sizes}")
    return [Array(a.dtype, sizes)]


def _product(dims: Sequence[Dim]) -> int:
    return math.prod(d or 0 for d in dims)


def _broadcast_to(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    have, sizes = dims_of(vs[0].type), tuple(_size(v) for v in vs[1:])
    grown = sizes[len(sizes) - len(have):]
    _need(len(have) <= len(sizes) and all(d == 1 or _fit([d], [n]) for d, n in zip(have, grown)),
          f"cannot broadcast {vs[0].type} to {sizes}")
    return [make(dtype_of(vs[0].type), sizes)]


def _transpose(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _need(sorted(attrs["perm"]) == list(range(a.rank)), "not a permutation")
    return [Array(a.dtype, tuple(a.dims[p] for p in attrs["perm"]))]


def _concat(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    first = _array(vs[0])
    axis = _axis(first, attrs["axis"])
    rest = first.dims[:axis] + first.dims[axis + 1:]
    sizes = [_array(v).dims[axis] for v in vs]
    total = None if None in sizes else sum(s for s in sizes if s is not None)
    _need(all(v.type.dtype == first.dtype and _fit(v.type.dims[:axis] + v.type.dims[axis + 1:], rest) for v in vs),
          "mixed arrays")
    return [Array(first.dtype, first.dims[:axis] + (total,) + first.dims[axis + 1:])]


def _take(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, index array) → index shape + a.shape[1:]."""
    a, i = _array(vs[0]), _array(vs[1])
    _need(i.dtype == I64, "indices must be i64")
    return [Array(a.dtype, i.dims + a.dims[1:])]


def _put(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """(a, v, index array): v has the shape of a[index]."""
    a, v, i = _array(vs[0]), _array(vs[1]), _array(vs[2])
    _need(i.dtype == I64 and v.dtype == a.dtype and _fit(v.dims, i.dims + a.dims[1:]), f"cannot store {v} in {a}")
    return [a]


def _nonzero(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(_array(vs[0]).rank == 1 and vs[0].type.dtype == BOOL, "needs a bool array of rank 1")
    return [Array(I64, (None,))]


def _reduce(result: Scalar | None = None, kinds: str = "fib") -> TypeRule:
    def rule(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
        a, axes = _array(vs[0]), attrs["axes"]
        _need(a.dtype.kind in kinds, f"does not take {a.dtype}")
        _need(list(axes) == sorted(set(axes)) and all(0 <= x < a.rank for x in axes), "bad axes")
        return [make(result or a.dtype, tuple(d for i, d in enumerate(a.dims) if i not in axes))]
    return rule


def _arg_reduce(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    axis = _axis(a, attrs["axis"])
    return [make(I64, tuple(d for i, d in enumerate(a.dims) if i != axis))]


def _same(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    dtype_of(vs[0].type)
    return [vs[0].type]


def _scan(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    a = _array(vs[0])
    _axis(a, attrs["axis"])
    _need(not a.dtype.is_bool, "does not take bool")
    return [a]


def _as_type(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    t = attrs["type"]
    _need(isinstance(t, Array), f"needs an array type, not {t}")
    _need(_array(vs[0]).dtype == t.dtype and _fit(vs[0].type.dims, t.dims), "only sizes may be learnt or forgotten")
    return [t]


def _matmul(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
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


def _push(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == STACK, "needs a stack")
    return [STACK]


def _pop(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == STACK, "needs a stack")
    unknown = sum(t.dims.count(None) for t in attrs["types"] if isinstance(t, Array))
    _need(len(vs) == 1 + (unknown if attrs.get("zeros") else 0), "takes the sizes of arrays where there may be zeros")
    _need(all(v.type == I64 for v in vs[1:]), "takes sizes as i64")
    return [STACK, *attrs["types"]]


def _check(vs: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    _need(vs[0].type == BOOL and len(vs) <= 5, "takes a bool and at most four scalars")
    return []


# --- the table ------------------------------------------------------------------------------------

def _unary(kinds: str, names: str, result: Scalar | None = None) -> None:
    for name in names.split():
        _op(name, _elementwise(1, kinds, result), f"np.{_NUMPY_NAME.get(name, name)}(x)", elementwise=True)


def _binary(kinds: str, names: str, result: Scalar | None = None) -> None:
    for name in names.split():
        _op(name, _elementwise(2, kinds, result), f"np.{_NUMPY_NAME.get(name, name)}(x, y)", elementwise=True)


_NUMPY_NAME = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "neg": "negative", "abs": "absolute", "round": "rint",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "not": "invert", "shl": "left_shift", "shr": "right_shift",
}

_binary("fi", "add sub mul floordiv mod pow")      # integer division by zero yields 0: checked before
_binary("f", "div atan2 hypot copysign polygamma")     # polygamma: the order, rounded to an integer, comes first
_binary("fib", "maximum minimum")                  # NaN wins, as in NumPy
_unary("fi", "neg abs sign")
_unary("f", "floor ceil trunc round sqrt cbrt exp exp2 expm1 log log2 log10 log1p "
            "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc lgamma digamma")
_unary("f", "isnan isinf isfinite", BOOL)
_binary("fib", "eq ne lt le gt ge", BOOL)
_binary("ib", "and or xor")
_binary("i", "shl shr")
_unary("ib", "not")
_op("select", _select, "np.where(c, x, y)", elementwise=True)
_op("cast", _cast, "x.astype(dtype); float to int truncates", elementwise=True, arity=1)
_op("stop", _same, "x, with derivative zero", elementwise=True, arity=1)

_op("const", _const, "the scalar `value` of type `type`", arity=0)
_op("undef", _undef, "a value of type `type` that nothing looks at", arity=0)
_op("fill", _fill, "np.full((n0, …), v): operands (v, n0, …)")
_op("empty", _empty, "np.empty((n0, …), dtype)")
_op("iota", _iota, "np.arange(n)", arity=1)
_op("dim", _dim, "a.shape[axis]", arity=1)
_op("get", _get, "a[i, …] with 0 <= i < size; fewer indices than axes give a subarray", view=True)
_op("set", _set, "a with a[i, …] = v: operands (a, v, i, …)", consumes=(0,))
_op("add_at", _set, "a with a[i, …] += v: operands (a, v, i, …)", consumes=(0,))
_op("slice", _slice, "a[s0 : s0+l0*t0 : t0, …]: operands (a, s0, l0, t0, …)", view=True)
_op("set_slice", _set_slice, "a with that slice = v: operands (a, v, s0, t0, …)", consumes=(0,))
_op("add_slice", _set_slice, "a with that slice += v: operands (a, v, s0, t0, …)", consumes=(0,))
_op("reshape", _reshape, "a.reshape(n0, …)", view=True)
_op("broadcast_to", _broadcast_to, "np.broadcast_to(a, (n0, …)); a may be a scalar; a size that changes is a literal 1")
_op("transpose", _transpose, "a.transpose(perm)", view=True, arity=1)
_op("concat", _concat, "np.concatenate((a, b, …), axis)")
_op("take", _take, "a[index]", arity=2)
_op("put", _put, "a with a[index] = v, in order: operands (a, v, index)", consumes=(0,), arity=3)
_op("add_put", _put, "np.add.at(a, index, v): operands (a, v, index)", consumes=(0,), arity=3)
_op("nonzero", _nonzero, "np.nonzero(a)[0]", arity=1)
_op("copy", _same, "a.copy(): a value that may be consumed", arity=1)
_op("as_type", _as_type, "a with other literal sizes in its type", view=True, arity=1)
_op("sum", _reduce(kinds="fi"), "a.sum(axes)", arity=1)
_op("prod", _reduce(kinds="fi"), "a.prod(axes)", arity=1)
_op("max", _reduce(), "a.max(axes)", arity=1)               # empty: checked before
_op("min", _reduce(), "a.min(axes)", arity=1)
_op("all", _reduce(BOOL, "b"), "a.all(axes)", arity=1)
_op("any", _reduce(BOOL, "b"), "a.any(axes)", arity=1)
_op("argmax", _arg_reduce, "a.argmax(axis)", arity=1)
_op("argmin", _arg_reduce, "a.argmin(axis)", arity=1)
_op("cumsum", _scan, "a.cumsum(axis)", arity=1)
_op("cumprod", _scan, "a.cumprod(axis)", arity=1)
_op("matmul", _matmul, "a @ b, with ta/tb the last two axes exchanged first", arity=2)

_op("stack_empty", lambda vs, attrs: [STACK], "a stack with nothing on it", arity=0)
_op("push", _push, "(stack, v, …) → stack: a new frame on top; the old stack stays valid")
_op("pop", _pop, "stack → (stack below, v, …), as pushed; with `zeros` of an empty stack zeros: (stack, sizes…)")
_op("check", _check, "raise exception `exc` unless c: operands (c, up to 4 scalars for the message)", effect=True)


def result_types(name: str, operands: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """The result types of an op; raises ``TypeRuleError``."""
    definition = OPS[name]
    if definition.arity is not None and definition.arity != len(operands):
        raise TypeRuleError(f"takes {definition.arity} operands")
    try:
        return definition.rule(operands, attrs)
    except (IndexError, KeyError) as e:
        raise TypeRuleError(f"missing operand or attribute {e}") from None
    except TypeError as e:
        raise TypeRuleError(str(e)) from None


CONSUMING = frozenset(name for name, definition in OPS.items() if definition.consumes)
EFFECTS = frozenset(name for name, definition in OPS.items() if definition.effect)
