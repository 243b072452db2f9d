"""The table that maps functions of NumPy, ``math`` and the builtins to rules.

A rule takes the context and the arguments of its function (stand-ins, Python scalars, lists and tuples of those) and
emits IR.  Rules raise Python's own exceptions where NumPy is certain to raise.  To add a function, write its rule under
``rules/`` and add one line here.

``TABLE``     function → rule
``METHODS``   name of an array method → rule; the array is the first argument
``INT_METHODS``  names of methods of Python's or NumPy's integers; the rules of the methods are in ``TABLE``
``ATTRIBUTES``  name of an array attribute → rule
``MUTATING``  function that writes into its first argument → rule that returns its new value;
              ``MUTATING_METHODS`` is the same for methods
``VIEWS``     functions, and names of methods and attributes, whose result may be a view of the first argument in NumPy
"""

from __future__ import annotations

import builtins
import math
import sys
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...ir.types import SCALARS, Array, dims_of, dtype_of
from ..values.values import Context, Sym
from .rules import contractions, creation, diagonals, gathering, indexing, joining, operators, promotion, shape
from .rules import reductions as red
from .rules import scalars as sc
from .rules import ufuncs as uf
from .rules.lifting import lift
from .rules.promotion import Rule

__all__ = ["ATTRIBUTES", "METHODS", "MUTATING", "MUTATING_METHODS", "TABLE", "VIEWS", "binary", "compare", "find",
           "getitem", "inplace", "lift", "setitem", "truth", "unary"]

getitem = indexing.getitem
setitem = indexing.setitem
truth = operators.truth


# --- operators ------------------------------------------------------------------------------------

def binary(t: Context, op: str, x: Any, y: Any) -> Sym:
    """``x op y`` for the name of a binary operator of Python (``add``, ``truediv``, …)."""
    out: Sym = OPERATORS[op](t, x, y)
    return out


def compare(t: Context, op: str, x: Any, y: Any) -> Sym:
    """``x op y`` for ``eq ne lt le gt ge``."""
    out: Sym = operators.COMPARE[op](t, x, y)
    return out


def unary(t: Context, op: str, x: Any) -> Sym:
    """The unary operators ``neg pos invert abs``."""
    out: Sym = operators.UNARY[op](t, x)
    return out


def inplace(t: Context, op: str, a: Sym, y: Any) -> Sym:
    """The value of the array ``a`` after ``a op= y``; its dtype and its sizes do not change."""
    kind = a.value.type
    if not isinstance(kind, Array):
        return binary(t, op, a, y)
    out = binary(t, op, a, y)
    if not np.can_cast(out.scalar.np, kind.dtype.np, "same_kind"):
        raise TypeError(f"Cannot cast ufunc '{op}' output from dtype('{out.scalar.np}') to dtype('{kind.dtype.np}') "
                        "with casting rule 'same_kind'")
    message, wide = "non-broadcastable output operand doesn't match the broadcast shape", dims_of(out.value.type)
    if promotion.rank(out.value) != kind.rank or any(d == 1 and n not in (1, None) for d, n in zip(kind.dims, wide)):
        raise ValueError(message)
    for axis, (d, n) in enumerate(zip(kind.dims, wide)):
        if d == 1 and n is None:             # the size of a slice, say, which is 1 or an error
            t.check(t.builder.eq(t.builder.dim(out.value, axis=axis), 1), "ValueError", message)
    value = promotion.cast(t, out.value, kind.dtype)
    return Sym(t.builder.as_type(value, type=kind), False)


OPERATORS: dict[str, Rule] = {**operators.BINARY, "pow": uf.power_operator, "matmul": contractions.matmul}


# --- functions ------------------------------------------------------------------------------------

def find(t: Context, fun: Any) -> Rule | None:
    """The rule of a function, or None if it is not NumPy's; refuses NumPy functions without a rule."""
    try:
        rule = TABLE.get(fun) or _scipy().get(fun)
    except TypeError:                        # unhashable, so it is not in the table
        return None
    if isinstance(fun, type) and issubclass(fun, tuple):                   # SlogdetResult
        return None
    if rule is None and (isinstance(fun, np.ufunc) or _package(fun) == "numpy"):
        name = getattr(fun, "__name__", str(fun))
        draws = hasattr(np.random, name) and getattr(np, name, None) is not fun
        hint = DRAW if draws else HINTS.get(name, "write it as a loop, or call it outside and pass the result")
        raise UnsupportedError(f"the NumPy function {name} is not supported", t.loc, hint)
    return rule


def _package(fun: Any) -> str:
    return str(getattr(fun, "__module__", None) or "").split(".")[0]


DRAW = "`jitad.random.default_rng(seed)`, or draw outside and pass the numbers as an array"
HINTS = {
    "lstsq": "the normal equations: np.linalg.solve(a.T @ a, a.T @ b)",
    "pinv": "np.linalg.solve(a.T @ a, a.T) for columns that are independent",
    "qr": "np.linalg.cholesky(a.T @ a).T is R, up to signs",
    "vectorize": "a loop: it is as fast",
    "gamma": "math.exp(math.lgamma(x)) for positive x",
}

_FLOAT_UFUNCS = {
    "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "rint": "round",
}

_UFUNCS: dict[Any, Rule] = {
    **{getattr(np, name): uf.float_unary(how) for name, how in _FLOAT_UFUNCS.items()},
    **{getattr(np, name): uf.rounding(name) for name in ("floor", "ceil", "trunc")},
    np.fix: uf.rounding("trunc"),
    **{getattr(np, name): uf.of_numpy(operators.BINARY[how]) for name, how in {
        "add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "truediv", "floor_divide": "floordiv",
        "remainder": "mod", "power": "pow", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
        "left_shift": "lshift", "right_shift": "rshift"}.items()},
    **{getattr(np, name): uf.of_numpy(operators.COMPARE[how]) for name, how in {
        "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
        "greater_equal": "ge"}.items()},
    np.negative: uf.of_numpy(operators.negative), np.positive: uf.of_numpy(operators.positive),
    np.absolute: uf.of_numpy(operators.absolute),
    np.fabs: uf.float_unary("abs"), np.invert: uf.of_numpy(operators.invert), np.bitwise_count: operators.bitwise_count,
    np.divmod: uf.of_numpy(operators.divmod_),
    np.maximum: uf.of_numpy(uf.extremum("maximum")), np.minimum: uf.of_numpy(uf.extremum("minimum")),
    np.fmax: uf.extremum_but_nan("maximum"), np.fmin: uf.extremum_but_nan("minimum"),
    np.square: uf.square, np.reciprocal: uf.reciprocal, np.sign: uf.sign,
    np.fmod: uf.of_numpy(uf.fmod), np.arctan2: uf.float_binary("atan2"), np.hypot: uf.float_binary("hypot"),
    np.copysign: uf.float_binary("copysign"), np.logaddexp: uf.logaddexp, np.logaddexp2: uf.logaddexp2,
    np.isnan: uf.classify("isnan", False), np.isinf: uf.classify("isinf", False),
    np.isfinite: uf.classify("isfinite", True),
    np.logical_and: operators.logical("and"), np.logical_or: operators.logical("or"),
    np.logical_xor: operators.logical("xor"), np.logical_not: operators.logical_not,
    np.deg2rad: uf.scaled(math.pi / 180),
    np.rad2deg: uf.scaled(180 / math.pi), np.radians: uf.scaled(math.pi / 180), np.degrees: uf.scaled(180 / math.pi),
    np.heaviside: uf.heaviside, np.float_power: uf.float_power, np.conjugate: uf.conjugate,
    np.matmul: contractions.matmul,
}

_CREATION: dict[Any, Rule] = {
    np.zeros: creation.filled_with(0), np.ones: creation.filled_with(1), np.empty: creation.empty,
    np.full: creation.full, np.zeros_like: creation.like(0), np.ones_like: creation.like(1),
    np.empty_like: creation.like(None), np.full_like: creation.full_like, np.array: creation.array,
    np.asarray: creation.asarray, np.asanyarray: creation.asarray, np.ascontiguousarray: creation.contiguous,
    np.copy: creation.copy, np.arange: creation.arange, np.linspace: creation.linspace,
    np.logspace: creation.logspace, np.eye: creation.eye, np.identity: creation.identity, np.tri: creation.tri,
    np.tril: creation.tril, np.triu: creation.triu, np.meshgrid: creation.meshgrid,
    np.astype: creation.astype_function,
    **{made: creation.constructor(SCALARS[name]) for made, name in creation.CONSTRUCTORS.items()},
}

_REDUCTIONS: dict[Any, Rule] = {
    np.sum: red.adding("sum"), np.prod: red.adding("prod"), np.max: red.extreme("max"), np.min: red.extreme("min"),
    np.amax: red.extreme("max"), np.amin: red.extreme("min"), np.any: red.testing("any"), np.all: red.testing("all"),
    np.argmax: red.arg_extreme("argmax"), np.argmin: red.arg_extreme("argmin"), np.mean: red.mean, np.var: red.var,
    np.std: red.std, np.average: red.average, np.ptp: red.ptp, np.count_nonzero: red.count_nonzero,
    np.nansum: red.skipping_nan(red.adding("sum"), 0.0), np.nanprod: red.skipping_nan(red.adding("prod"), 1.0),
    np.nanmean: red.nanmean, np.cumsum: red.scan("cumsum"), np.cumprod: red.scan("cumprod"), np.diff: red.diff,
    np.trapezoid: red.trapezoid,
    np.add.reduce: red.along_first(red.adding("sum")), np.multiply.reduce: red.along_first(red.adding("prod")),
    np.maximum.reduce: red.along_first(red.extreme("max")), np.minimum.reduce: red.along_first(red.extreme("min")),
    np.logical_and.reduce: red.along_first(red.testing("all")),
    np.logical_or.reduce: red.along_first(red.testing("any")),
    np.add.accumulate: red.along_first(red.scan("cumsum"), False),
    np.multiply.accumulate: red.along_first(red.scan("cumprod"), False),
}

_SHAPES: dict[Any, Rule] = {
    np.reshape: shape.reshape, np.ravel: shape.ravel, np.transpose: shape.transpose, np.swapaxes: shape.swapaxes,
    np.permute_dims: shape.transpose, np.matrix_transpose: shape.matrix_transpose, np.moveaxis: shape.moveaxis,
    np.squeeze: shape.squeeze, np.expand_dims: shape.expand_dims, np.atleast_1d: shape.at_least(1),
    np.atleast_2d: shape.at_least(2), np.broadcast_to: shape.broadcast_to,
    np.broadcast_arrays: shape.broadcast_arrays, np.shape: shape.shape_of, np.size: shape.size_of, np.ndim: shape.ndim,
    np.concatenate: joining.concatenate, np.concat: joining.concatenate, np.stack: joining.stack,
    np.vstack: joining.vstack, np.hstack: joining.hstack, np.column_stack: joining.column_stack,
    np.append: joining.append, np.split: joining.split, np.vsplit: joining.split_along(0),
    np.hsplit: joining.split_along(1), np.repeat: joining.repeat, np.tile: joining.tile, np.flip: joining.flip,
    np.flipud: joining.flip_along(0), np.fliplr: joining.flip_along(1), np.roll: joining.roll, np.pad: joining.pad,
    np.real: creation.real,
    np.real_if_close: creation.real_if_close,
}

_CHOOSING: dict[Any, Rule] = {
    np.where: gathering.where, np.clip: uf.clip, np.isclose: uf.isclose, np.allclose: red.allclose,
    np.nan_to_num: uf.nan_to_num, np.round: uf.round_, np.around: uf.round_,
    np.sinc: uf.sinc, np.take: gathering.take, np.take_along_axis: gathering.take_along_axis,
    np.compress: gathering.compress, np.nonzero: gathering.nonzero, np.flatnonzero: gathering.flatnonzero,
    np.argwhere: gathering.argwhere,
}

_LINEAR: dict[Any, Rule] = {
    np.dot: contractions.dot, np.vdot: contractions.vdot, np.inner: contractions.inner, np.outer: contractions.outer,
    np.kron: contractions.kron, np.tensordot: contractions.tensordot, np.einsum: contractions.einsum,
    np.trace: diagonals.trace, np.diag: diagonals.diag, np.diagonal: diagonals.diagonal,
    np.cross: contractions.cross, np.linalg.norm: diagonals.norm,
}

_BUILTINS: dict[Any, Rule] = {
    builtins.len: sc.length_builtin, builtins.sum: sc.sum_builtin, builtins.abs: operators.absolute,
    builtins.min: sc.extremum("min", "min", "lt"), builtins.max: sc.extremum("max", "max", "gt"),
    builtins.round: sc.round_builtin, builtins.pow: sc.pow_builtin, builtins.divmod: operators.divmod_,
    builtins.int: sc.to_int, builtins.float: sc.to_float, builtins.bool: sc.to_bool,
    builtins.any: sc.testing("any"), builtins.all: sc.testing("all"),
}

_MATH: dict[Any, Rule] = {
    **{getattr(math, name): sc.function(how, sc.DOMAINS.get(how)) for name, how in {
        "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "log2": "log2", "log10": "log10", "log1p": "log1p",
        "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
        "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf",
        "erfc": "erfc", "lgamma": "lgamma", "cbrt": "cbrt", "exp2": "exp2", "fabs": "abs"}.items()},
    math.log: sc.log, math.atan2: sc.binary("atan2"), math.copysign: sc.binary("copysign"), math.hypot: sc.hypot,
    math.pow: sc.math_pow, math.fmod: sc.fmod, math.floor: sc.rounding("floor"), math.ceil: sc.rounding("ceil"),
    math.trunc: sc.rounding("trunc"), math.isnan: sc.classify("isnan"), math.isinf: sc.classify("isinf"),
    math.isfinite: sc.classify("isfinite"), math.degrees: sc.scaled(180 / math.pi),
    math.radians: sc.scaled(math.pi / 180), math.isclose: sc.isclose, math.dist: sc.dist, math.prod: sc.prod,
}

INT_METHODS = ("bit_length", "bit_count")
_INTS: dict[Any, Rule] = {
    builtins.int.bit_length: sc.bit_length, builtins.int.bit_count: sc.bit_count(builtins.int),
    **{t.np.type.bit_count: sc.bit_count(t.np.type) for t in SCALARS.values() if t.is_int},
}

TABLE: dict[Any, Rule] = {
    **_UFUNCS, **_CREATION, **_REDUCTIONS, **_SHAPES, **_CHOOSING, **_LINEAR, **_BUILTINS, **_MATH, **_INTS,
    **{getattr(np, name).outer: contractions.outer_of(_UFUNCS[getattr(np, name)]) for name in
       ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal", "less", "greater")},
}

MUTATING: dict[Any, Rule] = {
    np.add.at: gathering.add_at, np.copyto: gathering.copyto, np.put: gathering.put,
    np.fill_diagonal: gathering.fill_diagonal,
}
MUTATING_METHODS: dict[str, Rule] = {"fill": gathering.fill, "put": gathering.put_method}


# --- methods and attributes -----------------------------------------------------------------------

METHODS: dict[str, Rule] = {
    **{name: TABLE[getattr(np, name)] for name in (
        "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean", "var", "std", "cumsum", "cumprod",
        "ravel", "swapaxes", "squeeze", "repeat", "take", "nonzero", "trace", "diagonal",
        "dot", "round")},
    "reshape": shape.reshape_method, "transpose": shape.transpose_method, "clip": uf.clip_method,
    "copy": creation.copy_in_order,
    "flatten": shape.flatten, "astype": creation.astype, "item": gathering.item, "tolist": gathering.tolist,
    "compress": gathering.compress_method,
    "conj": creation.itself, "conjugate": creation.itself, "__len__": shape.length, "is_integer": sc.is_integer,
}


def _dtype(t: Context, x: Any) -> np.dtype:
    return dtype_of(lift(t, x).value.type).np


ATTRIBUTES: dict[str, Rule] = {
    "shape": shape.shape_of, "size": shape.size_of, "ndim": shape.ndim, "dtype": _dtype, "T": shape.transpose,
    "mT": shape.matrix_transpose, "real": creation.real, "flat": shape.ravel,
    "itemsize": lambda t, x: _dtype(t, x).itemsize, "nbytes": lambda t, x: binary(t, "mul", shape.size_of(t, x),
                                                                                 _dtype(t, x).itemsize),
}

# Rules whose results are in C order in NumPy, whatever the layout of the operands; other results follow the operands.
IN_ORDER: frozenset[Rule] = frozenset((creation.copy_in_order, *(TABLE[f] for f in (
    np.matmul, np.dot, np.tensordot, np.outer, np.cross, np.take, np.repeat, np.tril, np.triu))))

VIEWS: frozenset[Any] = frozenset((
    np.reshape, np.ravel, np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes, np.moveaxis, np.squeeze,
    np.expand_dims, np.atleast_1d, np.atleast_2d, np.broadcast_to, np.broadcast_arrays, np.asarray, np.asanyarray,
    np.ascontiguousarray, np.split, np.vsplit, np.hsplit, np.flip, np.flipud, np.fliplr, np.diagonal, np.real,
    np.real_if_close, np.positive, np.astype,
    "reshape", "ravel", "transpose", "swapaxes", "squeeze", "diagonal", "T", "mT", "real", "flat", "astype",
))


# --- SciPy, if the user's program imports it --------------------------------------------------------

def _scipy() -> dict[Any, Rule]:
    """The rules of ``scipy.special`` functions; empty until the user's program has imported ``scipy.special``."""
    special = sys.modules.get("scipy.special")
    if special is None:
        return {}
    if not _SCIPY:
        _SCIPY.update({getattr(special, name): rule for name, rule in {
            **{name: uf.float_unary(op, np.float32) for name, op in {
                "erf": "erf", "erfc": "erfc", "gammaln": "lgamma", "loggamma": "lgamma", "digamma": "digamma",
                "psi": "digamma"}.items()},
            "polygamma": uf.float_binary("polygamma"),
            "expit": uf.expit, "logsumexp": red.logsumexp, "softmax": red.softmax, "log_softmax": red.log_softmax,
            "xlogy": uf.xlogy}.items()})
    return _SCIPY


_SCIPY: dict[Any, Rule] = {}
