"""The meaning of each op in NumPy, one entry an op, for the reference interpreter.

An entry takes the op's attributes and its operands (NumPy scalars and arrays).  It writes only to operands that the op
consumes, for which the interpreter passes copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import CompileError
from ..ops import OPS
from ..types import I32, I64, U64, Array, Scalar, Type, dtype_of
from .fold import wrap
from .gamma import digamma, polygamma

Meaning = Callable[..., Any]                 # (attrs, *operands) -> result


class OutOfRange(CompileError):
    """An index that no ``check`` kept in range: a bug in the code that emitted or moved the op."""


# --- elementwise --------------------------------------------------------------------------------------

def _each(f: Callable[[float], float]) -> Callable[[Any], Any]:
    """Map a function of Python floats over NumPy scalars and arrays, preserving the dtype."""
    def g(x: Any) -> Any:
        x = np.asarray(x)
        return np.array([f(float(e)) for e in x.flat], dtype=x.dtype).reshape(x.shape)[()]
    return g


def _each_pair(f: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    """Map a function of two Python floats over NumPy scalars and arrays that broadcast, preserving the dtype."""
    def g(x: Any, y: Any) -> Any:
        x, y = np.broadcast_arrays(x, y)
        return np.array([f(float(a), float(b)) for a, b in zip(x.flat, y.flat)], dtype=x.dtype).reshape(x.shape)[()]
    return g


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):      # a pole; too large
        return math.inf


def _pow(x: Any, y: Any) -> Any:
    """Integer exponents are not negative, which the front end checks."""
    return np.power(x, y if np.asarray(y).dtype.kind == "f" else np.maximum(y, np.zeros_like(y)))


def _select(c: Any, x: Any, y: Any) -> Any:
    return np.where(c, x, y)[()]


def _leading_zeros(x: Any) -> Any:
    """The ones of the complement of ``x`` in which every bit behind the first one is set."""
    u = x.view(f"u{x.dtype.itemsize}")
    for k in range((8 * x.dtype.itemsize).bit_length() - 1):
        u = u | u >> u.dtype.type(1 << k)
    return _ones(~u.view(x.dtype))


def _ones(x: Any) -> Any:
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.remainder,
    "pow": _pow, "div": np.true_divide, "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign,
    "maximum": np.maximum, "minimum": np.minimum, "neg": np.negative, "abs": np.absolute, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": _each(math.erf), "erfc": _each(math.erfc),
    "lgamma": _each(_lgamma), "digamma": _each(digamma), "polygamma": _each_pair(polygamma),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": np.left_shift, "shr": np.right_shift, "clz": _leading_zeros, "popcount": _ones,
    "select": _select, "stop": lambda x: np.array(x)[()],
}


# --- sizes and indices --------------------------------------------------------------------------------

def garbage(t: Type | Scalar) -> Any:
    """The value of uninitialised memory, one that no test expects."""
    dtype = dtype_of(t)
    return dtype.np.type(math.nan if dtype.is_float else False if dtype.is_bool else wrap(-1234567, dtype))


def _sizes(ns: tuple[Any, ...]) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in ns)
    if any(n < 0 for n in sizes):
        raise OutOfRange(f"negative size in {sizes}")
    return sizes


def _index(a: Any, indices: tuple[Any, ...]) -> tuple[int, ...]:
    index = tuple(int(i) for i in indices)
    for axis, i in enumerate(index):
        if not 0 <= i < a.shape[axis]:
            raise OutOfRange(f"index {i} on axis {axis} of an array of shape {a.shape}")
    return index


def _indices(a: Any, index: Any) -> Any:
    if index.size and not (0 <= index.min() and index.max() < a.shape[0]):
        raise OutOfRange(f"indices from {index.min()} to {index.max()} into {a.shape[0]} rows")
    return index


def _slices(a: Any, starts: Any, lengths: Any, steps: Any) -> tuple[slice, ...]:
    out = []
    for axis, (s, n, t) in enumerate(zip(starts, lengths, steps, strict=True)):
        s, n, t = int(s), int(n), int(t)
        if n <= 0:
            out.append(slice(0, 0))
            continue
        last = s + (n - 1) * t
        if not (0 <= s < a.shape[axis] and 0 <= last < a.shape[axis]):
            raise OutOfRange(f"slice from {s}, {n} by {t}, on axis {axis} of an array of shape {a.shape}")
        stop = last + (1 if t >= 0 else -1)
        out.append(slice(s, None if stop < 0 else stop, t if t else 1))
    return tuple(out)


# --- arrays -------------------------------------------------------------------------------------------

def _store(index: Callable[..., Any], add: bool) -> Meaning:
    """``a`` with something stored, or added, at ``index(a, v, where)``."""
    def meaning(attrs: dict[str, Any], a: Any, v: Any, *where: Any) -> Any:
        at = index(a, v, where)
        a[at] = a[at] + v if add else v
        return a
    return meaning


def _at_slice(a: Any, v: Any, where: tuple[Any, ...]) -> Any:
    return _slices(a, where[0::2], v.shape, where[1::2])


def _add_put(attrs: dict[str, Any], a: Any, v: Any, index: Any) -> Any:
    np.add.at(a, _indices(a, index), v)
    return a


def _slice(attrs: dict[str, Any], a: Any, *where: Any) -> Any:
    return a[_slices(a, where[0::3], where[1::3], where[2::3])]


def _empty(attrs: dict[str, Any], *ns: Any) -> Any:
    return np.full(_sizes(ns), garbage(attrs["dtype"]))[()]


def _reduce(f: Any) -> Meaning:
    return lambda attrs, a: f(a, axis=tuple(attrs["axes"]), dtype=a.dtype)


def _extreme(f: Any) -> Meaning:
    """``max``, ``min`` and their indices; arbitrary for empty arrays."""
    def meaning(attrs: dict[str, Any], a: Any) -> Any:
        axes = tuple(attrs["axes"]) if "axes" in attrs else (attrs["axis"],)
        if all(a.shape[axis] for axis in axes):
            return f(a, axis=axes if "axes" in attrs else axes[0])
        dtype = a.dtype if "axes" in attrs else np.dtype(np.int64)
        return np.zeros([n for i, n in enumerate(a.shape) if i not in axes], dtype)[()]
    return meaning


def _matmul(attrs: dict[str, Any], a: Any, b: Any) -> Any:
    a = np.swapaxes(a, -1, -2) if attrs.get("ta") else a
    b = np.swapaxes(b, -1, -2) if attrs.get("tb") else b
    return np.matmul(a, b)


def _cast(x: Any, to: Scalar) -> Any:
    """Conversion that is defined for every float; in NumPy values out of range are undefined (see ``fold.whole``)."""
    if not to.is_int or x.dtype.kind != "f":
        return x.astype(to.np)
    if to is U64:
        high = x >= 2.0**63
        return np.where(high, _whole(np.where(high, x - 2.0**63, 0), I64) ^ I64.low, _whole(x, I64)).astype(to.np)[()]
    return _whole(x, I32 if to.bits < 32 or to is I32 else I64).astype(to.np)[()]


def _whole(x: Any, t: Scalar) -> Any:
    """Floats as i32 or i64; values out of range become the least integer."""
    fits = (x >= float(t.low)) & (x < float(t.high + 1))
    return np.where(fits, np.where(fits, x, 0).astype(t.np), t.low)


def _elementwise(f: Callable[..., Any]) -> Meaning:
    return lambda attrs, *xs: f(*xs)


MEANING: dict[str, Meaning] = {
    **{name: _elementwise(f) for name, f in _UFUNCS.items()},
    "cast": lambda attrs, x: _cast(x, attrs["dtype"]),
    "const": lambda attrs: attrs["type"].np.type(attrs["value"]),
    "fill": lambda attrs, v, *ns: np.full(_sizes(ns), v)[()],
    "empty": _empty,
    "iota": lambda attrs, n: np.arange(*_sizes((n,)), dtype=np.int64),
    "dim": lambda attrs, a: np.int64(a.shape[attrs["axis"]]),
    "get": lambda attrs, a, *i: a[_index(a, i)],
    "set": _store(lambda a, v, i: _index(a, i), add=False),
    "add_at": _store(lambda a, v, i: _index(a, i), add=True),
    "slice": _slice,
    "set_slice": _store(_at_slice, add=False),
    "add_slice": _store(_at_slice, add=True),
    "reshape": lambda attrs, a, *ns: a.reshape(_sizes(ns)),
    "broadcast_to": lambda attrs, a, *ns: np.broadcast_to(a, _sizes(ns)).copy(),
    "transpose": lambda attrs, a: a.transpose(attrs["perm"]),
    "concat": lambda attrs, *arrays: np.concatenate(arrays, attrs["axis"]),
    "take": lambda attrs, a, index: a[_indices(a, index)],
    "put": _store(lambda a, v, index: _indices(a, index[0]), add=False),
    "add_put": _add_put,
    "nonzero": lambda attrs, a: np.nonzero(a)[0],
    "copy": lambda attrs, a: a.copy(),
    "as_type": lambda attrs, a: a,
    "sum": _reduce(np.sum),
    "prod": _reduce(np.prod),
    "max": _extreme(np.max),
    "min": _extreme(np.min),
    "all": lambda attrs, a: np.all(a, axis=tuple(attrs["axes"])),
    "any": lambda attrs, a: np.any(a, axis=tuple(attrs["axes"])),
    "argmax": _extreme(np.argmax),
    "argmin": _extreme(np.argmin),
    "cumsum": lambda attrs, a: np.cumsum(a, attrs["axis"], dtype=a.dtype),
    "cumprod": lambda attrs, a: np.cumprod(a, attrs["axis"], dtype=a.dtype),
    "matmul": _matmul,
}

# Ops that access the interpreter's own state; ``interp.py`` defines them.
STATEFUL = ("undef", "stack_empty", "push", "pop", "check")


_REDUCTIONS = ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin")
# Ops that touch one element if their result is a scalar.
_AS_RESULT = frozenset(name for name, op in OPS.items() if not op.consumes and name not in ("matmul", *_REDUCTIONS))


def work(name: str, operands: Sequence[Any], result: Any) -> int:
    """The number of elements that an op touches: the time of a compiled program, up to a constant."""
    if name in _AS_RESULT and isinstance(result, np.generic):
        return 1
    if name == "matmul":
        return int(np.size(result)) * _contracted(operands[0], operands[1], result)
    if OPS[name].view:
        return 1
    if OPS[name].consumes:
        return int(np.size(operands[1]))
    if name in _REDUCTIONS:
        return int(np.size(operands[0]))
    return int(np.size(result))


def _contracted(a: Any, b: Any, result: Any) -> int:
    """The length of the axis that a matrix product sums over."""
    batch = a.shape[0] if a.ndim == 3 else 1
    return math.isqrt(a.size * b.size // max(1, result.size * batch))


def conforms(x: Any, t: Type) -> bool:
    """True if a NumPy value has the dtype, rank and literal sizes of an array or scalar type."""
    if type(t) is Scalar and type(x) is t.np.type:
        return True                                     # most values; this is asked after each op
    if not isinstance(x, (np.generic, np.ndarray)) or x.dtype != dtype_of(t).np:
        return False
    dims = t.dims if isinstance(t, Array) else ()
    return x.ndim == len(dims) and all(d is None or d == n for d, n in zip(dims, x.shape))
