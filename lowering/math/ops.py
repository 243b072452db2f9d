"""The lowering table: one line for each elementwise op, for every target.

A rule takes the emitter (a ``FunctionBuilder``), the operands' dtype, their LLVM names and the float flags, and
returns the result's name.  ``scalar`` applies the table; array lowering applies it to each element of a fused loop.
The meaning is NumPy's.  Tests compare every op with ``ir/evaluate/meaning.py`` on the edge cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.graph import Op
from ...ir.types import Scalar, Stack, dtype_of
from ..llvm import types
from . import composite
from .casts import cast
from .extremes import extreme_behind
from .instructions import binary, by_intrinsic, by_kind, compare, math_function
from .options import Emitter, Rule, float_flags
from .selection import select

TABLE: dict[str, Rule] = {
    "add": binary("fadd", "add"),
    "sub": binary("fsub", "sub"),
    "mul": binary("fmul", "mul"),
    "div": binary("fdiv"),
    "floordiv": by_kind(composite.float_floordiv, composite.int_floordiv, composite.unsigned("udiv")),
    "mod": by_kind(composite.float_mod, composite.int_mod, composite.unsigned("urem")),
    "pow": by_kind(math_function("pow"), composite.int_pow, composite.int_pow),
    "neg": composite.neg,
    "abs": by_kind(by_intrinsic("fabs"), by_intrinsic("", "abs", ("i1", "false")), composite.same),
    "sign": by_kind(composite.float_sign, composite.int_sign, composite.unsigned_sign),
    "maximum": by_kind(by_intrinsic("maximum"), by_intrinsic("", "smax"), by_intrinsic("", "umax"),
                       binary("", "", "or")),
    "minimum": by_kind(by_intrinsic("minimum"), by_intrinsic("", "smin"), by_intrinsic("", "umin"),
                       binary("", "", "and")),
    "copysign": by_intrinsic("copysign"),
    "floor": by_intrinsic("floor"),
    "ceil": by_intrinsic("ceil"),
    "trunc": by_intrinsic("trunc"),
    "round": by_intrinsic("rint"),
    "sqrt": by_intrinsic("sqrt"),
    **{name: math_function(name) for name in (
        "fmod", "atan2", "hypot", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma")},
    "digamma": composite.digamma, "polygamma": composite.polygamma,
    "isnan": lambda e, t, xs, f: e.code.fcmp("uno", types.register(t), xs[0], xs[0], hint="c"),
    "isinf": composite.class_of("oeq"),
    "isfinite": composite.class_of("olt"),
    "eq": compare("oeq", "eq", "eq"),
    "ne": compare("une", "ne", "ne"),
    "lt": compare("olt", "slt", "ult"),
    "le": compare("ole", "sle", "ule"),
    "gt": compare("ogt", "sgt", "ugt"),
    "ge": compare("oge", "sge", "uge"),
    "and": binary("", "and", "and"),
    "or": binary("", "or", "or"),
    "xor": binary("", "xor", "xor"),
    "not": composite.invert,
    "shl": composite.shift("shl", "shl"),
    "shr": composite.shift("ashr", "lshr"),
    "clz": by_intrinsic("", "ctlz", ("i1", "false")),
    "popcount": by_intrinsic("", "ctpop"),
    "stop": composite.same,
}

UNSIGNED: dict[str, Rule] = {"floordiv": composite.unsigned("udiv"), "mod": composite.unsigned("urem")}
"""Rules for integers that are not negative."""


def apply(e: Emitter, name: str, t: Scalar, xs: Sequence[str], attrs: dict[str, Any], result: Scalar) -> str:
    """One element of an elementwise op; ``t`` is the dtype of the operands, for ``select`` of the alternatives."""
    if name == "cast":
        return cast(e, t, result, xs[0])
    if name == "select":                             # of a term or 0, LLVM makes a mask, without a constant
        free = e.options.fastmath and t.is_float
        return select(e, t, *(types.literal(0.0, t) if free and x == types.literal(-0.0, t) else x for x in xs))
    if attrs.get("acc") and name in ("maximum", "minimum") and t.is_float:   # of zeros of both signs either one will do
        return TABLE[name](e, t, list(xs), "nnan nsz" if attrs.get("numbers") else "nsz")
    if e.options.fastmath and name in ("maximum", "minimum") and t.is_float and not attrs.get("reduces"):
        # One instruction, but LLVM's vectoriser does not know it as a reduction.
        chosen = e.code.fcmp("ogt" if name == "maximum" else "olt", types.register(t), xs[0], xs[1], hint="c")
        return select(e, t, chosen, xs[0], xs[1])
    if attrs.get("late") and t.bits >= 32 and not e.options.fastmath:        # lanes: ``chain_reassociation``
        return extreme_behind(e.code, name, t, xs)
    if attrs.get("unsigned"):
        return UNSIGNED[name](e, t, list(xs), "")
    return TABLE[name](e, t, list(xs), float_flags(e.options, attrs))


def scalar(e: Emitter, op: Op, xs: Sequence[str], apart: bool = False, chained: bool = False) -> str:
    """An op on scalars only: elementwise, a constant, or an array op of rank 0.

    ``apart`` marks a sum or a product that must not be contracted (``fma_control.py``, ``recurrences.py``), ``chained``
    an op of a recurrence.
    """
    t = op.result.type
    if op.name in ("const", "undef", "empty"):       # undefined values are 0, so that results are deterministic
        return "null" if isinstance(t, Stack) else types.literal(op.attrs.get("value", 0), dtype_of(t))
    if op.name in ("fill", "broadcast_to"):
        return xs[0]
    attrs = op.attrs | {"apart": True} if apart or not e.options.fastmath and _compares_products(op) else op.attrs
    if chained and op.name in ("minimum", "maximum") and not e.options.fastmath and dtype_of(t).bits >= 32:
        return extreme_behind(e.code, op.name, dtype_of(t), xs)
    attrs = attrs | ({"chained": True} if chained else {"reduces": any(x.op is None for x in op.operands)})
    return apply(e, op.name, dtype_of(op.operands[-1].type), xs, attrs, dtype_of(t))


def _compares_products(op: Op) -> bool:
    """True if ``op`` is ``a * b - c * d``, which must not be contracted.

    With contraction only one product would be rounded, and the difference of equal products would not be 0: its square
    root might be NaN, and a determinant would not vanish.
    """
    return op.name == "sub" and all(v.op is not None and v.op.name == "mul" for v in op.operands)
