"""The table of arithmetic: for each op of the loop level the op of MLIR for floats, signed, unsigned, bools.

An entry is a name of MLIR, a comparison (``"? olt"``), a function of a library (``"@lgamma"``), or a function of
``expansions.py``; the last entry of a row stands for the kinds after it.
"""

from __future__ import annotations

from ..ir.graph import Op, Value
from ..ir.types import Scalar
from ..loop_level.types import Vector, type_of
from . import expansions as x
from .types import NoText
from .writer import Reg, Writer

Entry = str | x.Expansion | None

TABLE: dict[str, tuple[Entry, ...]] = {
    # op         floats             signed            unsigned          bools
    "add":      ("arith.addf",      "arith.addi"),
    "sub":      ("arith.subf",      "arith.subi"),
    "mul":      ("arith.mulf",      "arith.muli"),
    "div":      ("arith.divf", None),
    "floordiv": (x.float_floordiv,  x.floordiv,       x.unsigned_div, None),
    "mod":      (x.float_mod,       x.mod,            x.unsigned_mod, None),
    "pow":      ("math.powf",       x.int_pow,        x.unsigned_pow, None),
    "maximum":  ("arith.maximumf",  "arith.maxsi",    "arith.maxui",    "arith.ori"),
    "minimum":  ("arith.minimumf",  "arith.minsi",    "arith.minui",    "arith.andi"),
    "neg":      ("arith.negf",      x.neg),
    "abs":      ("math.absf",       "math.absi",      x.same),
    "sign":     (x.float_sign,      x.int_sign,       x.unsigned_sign),
    "copysign": ("math.copysign", None),
    "floor":    ("math.floor", None),
    "ceil":     ("math.ceil", None),
    "trunc":    ("math.trunc", None),
    "round":    ("math.roundeven", None),
    "sqrt":     ("math.sqrt", None),
    "isnan":    (x.is_nan, None),
    "isinf":    (x.is_inf, None),
    "isfinite": (x.is_finite, None),
    "eq":       ("? oeq",           "? eq"),
    "ne":       ("? une",           "? ne"),
    "lt":       ("? olt",           "? slt",          "? ult"),
    "le":       ("? ole",           "? sle",          "? ule"),
    "gt":       ("? ogt",           "? sgt",          "? ugt"),
    "ge":       ("? oge",           "? sge",          "? uge"),
    "and":      (None,              "arith.andi"),
    "or":       (None,              "arith.ori"),
    "xor":      (None,              "arith.xori"),
    "not":      (None,              x.invert),
    "shl":      (None,              x.shl,            x.shl, None),
    "shr":      (None,              x.shr,            x.unsigned_shr, None),
    "clz":      (None,              "math.ctlz",      "math.ctlz",      None),
    "popcount": (None,              "math.ctpop",     "math.ctpop",     None),
    **{name: (f"math.{name}", None) for name in (
        "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
        "asinh", "acosh", "atanh", "atan2", "cbrt", "erf")},
    # MLIR lowers its ops for these two to exp(x) - 1 and log(1 + x), which are wrong near 0.
    "expm1":    ("@expm1", None),
    "log1p":    ("@log1p", None),
    "erfc":     ("@erfc", None),
    "hypot":    ("@hypot", None),
    "lgamma":   ("@lgamma", None),
    "digamma":  ("@jitad_digamma", None),
    "polygamma": ("@jitad_polygamma", None),
    "stop":     (x.same,),
}
SPECIAL = ("select", "cast")
"""Elementwise ops whose operands have different types."""


def kind(t: Scalar) -> int:
    """The column of a type."""
    return 0 if t.is_float else 3 if t.is_bool else 1 if t.is_signed else 2


def elementwise(w: Writer, op: Op) -> Reg:
    """Append an op on scalars or vectors."""
    xs = w.uses(op.operands)
    if op.name == "select":
        return w.select(*xs)
    if op.name == "cast":
        return x.cast(w, xs[0], lane_type(op.operands[0]), op.attrs["dtype"])
    return compute(w, op.name, lane_type(op.operands[0]), xs)


def compute(w: Writer, name: str, t: Scalar, xs: list[Reg]) -> Reg:
    """Append an op of the table on operands of lane type ``t``."""
    row = TABLE[name]
    entry = row[min(kind(t), len(row) - 1)]
    if entry is None:
        raise NoText(f"MLIR: {name} of {t}")
    if callable(entry):
        return entry(w, t, xs)
    if entry.startswith("?"):
        return w.compare(entry[2:], *xs)
    return x.library(w, t, entry[1:], xs) if entry.startswith("@") else w.op(entry, *xs)


def lane_type(v: Value) -> Scalar:
    t = type_of(v)
    if isinstance(t, Vector):
        return t.dtype
    if not isinstance(t, Scalar):
        raise NoText(f"MLIR: arithmetic on {t}")
    return t
