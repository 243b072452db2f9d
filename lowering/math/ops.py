"""The lowering table: one line for each elementwise op, for every target.

A rule takes the emitter (a ``FunctionBuilder``), the operands' dtype, their LLVM names and the float flags, and
returns the result's name.  ``scalar`` applies the table; array lowering applies it to each element of a fused loop.
The meaning is NumPy's.  Tests compare every op with ``ir/evaluate/meaning.py`` on the edge cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...ir.graph import Op
from ...ir.types import F64, I32, I64, U64, Scalar, Stack, dtype_of
from ..llvm import types
from ..llvm.code import Code
from ..llvm.emit import Writer
from ..llvm.target import Target
from . import libm, special
from .extremes import extreme_behind


@dataclass(frozen=True)
class Options:
    """Options of the lowering.

    ``level``: 0 to debug, 1 by default, 3 for all of LLVM's optimisations.  ``fastmath``: LLVM's ``fast``.
    ``written_out``: LLVM's passes would change nothing, and are skipped.
    """

    fastmath: bool = False
    flush: bool = False                   # subnormal numbers are taken for zero (``float_state``)
    level: int = 1
    poll: bool = True
    blas: bool = True                     # call the BLAS of NumPy's wheel for large matrix products
    written_out: bool = False


class Emitter(Protocol):
    """The part of a ``FunctionBuilder`` that a rule needs."""

    @property
    def code(self) -> Code: ...

    writer: Writer
    target: Target
    options: Options


Rule = Callable[[Emitter, Scalar, list[str], str], str]

ACCUMULATE = "reassoc nsz contract"      # for sums whose order the compiler may choose
UNCONTRACTED = "reassoc nnan ninf nsz arcp afn"      # ``fast`` without ``contract``
CHAINED = "nnan ninf nsz contract afn"               # fast math on a recurrence, without what may lengthen it


def flags(options: Options, attrs: dict[str, Any]) -> str:
    """The fast-math flags of a float op."""
    if options.fastmath:
        return CHAINED if attrs.get("chained") else UNCONTRACTED if attrs.get("apart") else "fast"
    return ACCUMULATE if attrs.get("acc") else "" if attrs.get("apart") else "contract"


# --- constructors of the table's rules ----------------------------------------------------------------

def _suffix(t: Scalar) -> str:
    return t.name if t.is_float else f"i{1 if t.is_bool else t.bits}"


def intrinsic(e: Emitter, name: str, t: Scalar, xs: Sequence[str], f: str = "",
              extra: tuple[str, str] | None = None) -> str:
    """Call ``llvm.name`` overloaded on ``t``; ``extra`` is a last argument with its type."""
    of = types.register(t)
    args = [(of, x) for x in xs] + ([extra] if extra else [])
    callee = e.writer.declare(f"llvm.{name}.{_suffix(t)}", of, ", ".join([kind for kind, _ in args]))
    return e.code.call(of, callee, *args, flags=f)


def _math(name: str) -> Rule:
    """The rule of a function of libm or libdevice."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        of = types.register(t)
        callee = libm.declare(e.target, e.writer, name, t, len(xs))
        return e.code.call(of, callee, *((of, x) for x in xs), flags=f)
    return rule


def _intrinsic(floats: str, ints: str = "", extra: tuple[str, str] | None = None) -> Rule:
    """The rule of an LLVM intrinsic; ``ints`` is its name for integers."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        return intrinsic(e, floats, t, xs, f) if t.is_float else intrinsic(e, ints, t, xs, "", extra)
    return rule


def _binary(floats: str, ints: str = "", bools: str = "") -> Rule:
    """The rule of an LLVM instruction with two operands, by kind of dtype."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        if t.is_float:
            return e.code.arith(floats, types.register(t), *xs, flags=f)
        return e.code.arith(bools if t.is_bool else ints, types.register(t), *xs)
    return rule


def _compare(floats: str, signed: str, unsigned: str) -> Rule:
    """The rule of a comparison; bools are unsigned."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        if t.is_float:
            return e.code.fcmp(floats, types.register(t), xs[0], xs[1], hint="c")
        return e.code.icmp(signed if t.is_signed else unsigned, types.register(t), xs[0], xs[1], hint="c")
    return rule


def _by_kind(floats: Rule, signed: Rule, unsigned: Rule | None = None, bools: Rule | None = None) -> Rule:
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        chosen = floats if t.is_float else bools if t.is_bool else signed if t.is_signed else unsigned
        assert chosen is not None, t
        return chosen(e, t, xs, f)
    return rule


def select(e: Emitter, t: Scalar, condition: str, x: str, y: str, note: str = "") -> str:
    of = types.register(t)
    return e.code.select(condition, of, x, y, note)


_MASKS = {"eq": (0, False), "lt": (1, False), "le": (2, False), "ne": (4, False), "gt": (1, True), "ge": (2, True)}
"""The number of a comparison in x86 instructions, and whether its operands are swapped."""


def selects_by_mask(e: Emitter) -> bool:
    """True if ``select_by_mask`` may be used, and pays: with AVX-512 LLVM selects by registers of masks."""
    return e.target.triple.startswith("x86_64") and e.target.vector_bits == 256


def select_by_mask(e: Emitter, comparison: str, t: Scalar, xs: Sequence[str]) -> str:
    """A selection of ``xs[2]`` or ``xs[3]`` by the comparison of ``xs[0]`` with ``xs[1]``, which branches nowhere.

    It is made of intrinsics: LLVM makes the selection of scalars of one of vectors.
    """
    of, lanes, suffix = types.register(t), 128 // t.bits, "ps" if t.bits == 32 else "pd"
    vector = f"<{lanes} x {of}>"
    a, b, x, y = ((vector, e.code.insert_element(vector, "poison", of, v, 0)) for v in xs)
    number, swapped = _MASKS[comparison]
    compare = e.writer.declare(f"llvm.x86.sse{'' if t.bits == 32 else '2'}.cmp.s{suffix[1]}", vector,
                               f"{vector}, {vector}, i8")
    blend = e.writer.declare(f"llvm.x86.sse41.blendv{suffix}", vector, f"{vector}, {vector}, {vector}")
    first, second = (b, a) if swapped else (a, b)
    mask = e.code.call(vector, compare, first, second, ("i8", str(number)))
    return e.code.extract_element(of, vector, e.code.call(vector, blend, y, x, (vector, mask)), 0)


def inverse_comparison(e: Emitter, name: str, t: Scalar, xs: Sequence[str]) -> str:
    """The negation of a comparison of floats, which holds if one of them is NaN."""
    return e.code.fcmp("uge" if name == "lt" else "ule", types.register(t), xs[0], xs[1], hint="c")


# --- ops of more than one instruction ---------------------------------------------------------------------

def _float_mod(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    """The remainder with the divisor's sign, for zero too.  Computed without the flags ``f``, to be exact."""
    (x, y), of, c, zero = xs, types.register(t), e.code, types.literal(0.0, t)
    m = TABLE["fmod"](e, t, [x, y], "")
    other = c.arith("xor", "i1", c.fcmp("olt", of, m, zero), c.fcmp("olt", of, y, zero))
    moved = select(e, t, other, c.arith("fadd", of, m, y), m)
    is_zero = c.fcmp("oeq", of, m, zero)
    by_zero = c.fcmp("oeq", of, y, zero)
    signed = select(e, t, is_zero, intrinsic(e, "copysign", t, [zero, y]), moved)
    return select(e, t, by_zero, m, signed)


def _float_floordiv(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    """As NumPy computes it: from the exact remainder, then rounded to the nearest integer below."""
    (x, y), of, c, zero = xs, types.register(t), e.code, types.literal(0.0, t)
    m = TABLE["fmod"](e, t, [x, y], "")
    exact = c.arith("fdiv", of, c.arith("fsub", of, x, m), y)
    other = c.arith("xor", "i1", c.fcmp("olt", of, m, zero), c.fcmp("olt", of, y, zero))
    lowered = c.arith("and", "i1", other, c.fcmp("une", of, m, zero))
    q = select(e, t, lowered, c.arith("fsub", of, exact, types.literal(1.0, t)), exact)
    down = intrinsic(e, "floor", t, [q])
    far = c.fcmp("ogt", of, c.arith("fsub", of, q, down), types.literal(0.5, t))
    near = select(e, t, far, c.arith("fadd", of, down, types.literal(1.0, t)), down)
    plain = c.arith("fdiv", of, x, y)
    nonzero = select(e, t, c.fcmp("oeq", of, q, zero), intrinsic(e, "copysign", t, [zero, plain]), near)
    return select(e, t, c.fcmp("oeq", of, y, zero), plain, nonzero)


def _divisor(e: Emitter, of: str, y: str) -> tuple[str, str, str]:
    """(safe divisor, y is 0, y is −1): the machine traps on x / 0 and on the least integer / −1."""
    c = e.code
    is_zero, is_minus = c.icmp("eq", of, y, "0", hint="c"), c.icmp("eq", of, y, "-1", hint="c")
    special_case = c.arith("or", "i1", is_zero, is_minus, hint="c")
    return c.select(special_case, of, "1", y), is_zero, is_minus


def _signs_differ(e: Emitter, of: str, r: str, d: str) -> str:
    """A bool that is true if the remainder ``r`` is not 0 and has another sign than the divisor ``d``."""
    c = e.code
    other = c.icmp("slt", of, c.arith("xor", of, r, d), "0", hint="c")
    return c.arith("and", "i1", other, c.icmp("ne", of, r, "0", hint="c"), hint="c")


def _int_floordiv(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    (x, y), of, c = xs, types.register(t), e.code
    d, is_zero, is_minus = _divisor(e, of, y)
    q, r = c.arith("sdiv", of, x, d), c.arith("srem", of, x, d)
    low = _signs_differ(e, of, r, d)
    down = c.arith("add", of, q, c.cast("sext", "i1", low, of))
    known = select(e, t, is_minus, c.arith("sub", of, "0", x), down)
    return select(e, t, is_zero, "0", known)


def _int_mod(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    (x, y), of, c = xs, types.register(t), e.code
    d, _, _ = _divisor(e, of, y)
    r = c.arith("srem", of, x, d)
    low = _signs_differ(e, of, r, d)
    return c.arith("add", of, r, select(e, t, low, d, "0"))      # by 0 and by −1 the remainder is 0


def _unsigned(name: str) -> Rule:
    """The rule of ``udiv`` or ``urem``; the result is 0 if the divisor is 0."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        (x, y), of, c = xs, types.register(t), e.code
        is_zero = c.icmp("eq", of, y, "0", hint="c")
        return select(e, t, is_zero, "0", c.arith(name, of, x, select(e, t, is_zero, "1", y)))
    return rule


def _int_pow(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.call(of, special.integer_power(e.writer, t), (of, xs[0]), (of, xs[1]))


def _digamma(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.call(of, special.digamma(e.writer, e.target, t), (of, xs[0]))


def _polygamma(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    n, x = (cast(e, t, F64, v) for v in xs)
    return cast(e, F64, t, e.code.call("double", special.polygamma(e.writer, e.target), ("double", n), ("double", x)))


def _float_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    x, of, c, zero = xs[0], types.register(t), e.code, types.literal(0.0, t)
    flat = select(e, t, c.fcmp("oeq", of, x, zero, hint="c"), zero, x)                # NaN stays
    down = select(e, t, c.fcmp("olt", of, x, zero, hint="c"), types.literal(-1.0, t), flat)
    return select(e, t, c.fcmp("ogt", of, x, zero, hint="c"), types.literal(1.0, t), down)


def _int_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    x, of, c = xs[0], types.register(t), e.code
    positive, negative = c.icmp("sgt", of, x, "0", hint="c"), c.icmp("slt", of, x, "0", hint="c")
    return c.arith("add", of, c.cast("zext", "i1", positive, of), c.cast("sext", "i1", negative, of))


def _unsigned_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return e.code.cast("zext", "i1", e.code.icmp("ne", types.register(t), xs[0], "0", hint="c"), types.register(t))


def _shift(signed: str, unsigned: str) -> Rule:
    """The rule of a shift.  A count below 0, or not below the width, shifts all bits out."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        (x, n), of, c = xs, types.register(t), e.code
        name = signed if t.is_signed else unsigned
        fits = c.icmp("ult", of, n, str(t.bits), hint="c")
        if name == "ashr":
            return c.arith("ashr", of, x, select(e, t, fits, n, str(t.bits - 1)))
        return select(e, t, fits, c.arith(name, of, x, n), "0")
    return rule


def _neg(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.arith("fneg", of, xs[0], flags=f) if t.is_float else e.code.arith("sub", of, "0", xs[0])


def _not(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return e.code.arith("xor", types.register(t), xs[0], "true" if t.is_bool else "-1")


def _same(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return xs[0]


def _class(predicate: str) -> Rule:
    """The rule that compares |x| with infinity."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        size = intrinsic(e, "fabs", t, xs)
        return e.code.fcmp(predicate, types.register(t), size, types.literal(math.inf, t), hint="c")
    return rule


# --- the table --------------------------------------------------------------------------------------------

TABLE: dict[str, Rule] = {
    "add": _binary("fadd", "add"),
    "sub": _binary("fsub", "sub"),
    "mul": _binary("fmul", "mul"),
    "div": _binary("fdiv"),
    "floordiv": _by_kind(_float_floordiv, _int_floordiv, _unsigned("udiv")),
    "mod": _by_kind(_float_mod, _int_mod, _unsigned("urem")),
    "pow": _by_kind(_math("pow"), _int_pow, _int_pow),
    "neg": _neg,
    "abs": _by_kind(_intrinsic("fabs"), _intrinsic("", "abs", ("i1", "false")), _same),
    "sign": _by_kind(_float_sign, _int_sign, _unsigned_sign),
    "maximum": _by_kind(_intrinsic("maximum"), _intrinsic("", "smax"), _intrinsic("", "umax"), _binary("", "", "or")),
    "minimum": _by_kind(_intrinsic("minimum"), _intrinsic("", "smin"), _intrinsic("", "umin"), _binary("", "", "and")),
    "copysign": _intrinsic("copysign"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("rint"),
    "sqrt": _intrinsic("sqrt"),
    **{name: _math(name) for name in (
        "fmod", "atan2", "hypot", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma")},
    "digamma": _digamma, "polygamma": _polygamma,
    "isnan": lambda e, t, xs, f: e.code.fcmp("uno", types.register(t), xs[0], xs[0], hint="c"),
    "isinf": _class("oeq"),
    "isfinite": _class("olt"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "and": _binary("", "and", "and"),
    "or": _binary("", "or", "or"),
    "xor": _binary("", "xor", "xor"),
    "not": _not,
    "shl": _shift("shl", "shl"),
    "shr": _shift("ashr", "lshr"),
    "stop": _same,
}


def cast(e: Emitter, source: Scalar, to: Scalar, x: str) -> str:
    """Convert ``x`` to another dtype.

    A conversion of float to int truncates, through i32 or i64.  A value out of range gives the least integer of these,
    as on x86 (``ir.evaluate.fold.whole`` does the same for constants).
    """
    a, b, c = types.register(source), types.register(to), e.code
    if source == to:
        return x
    if to.is_bool:
        zero = types.literal(0, source)
        return c.fcmp("une", a, x, zero, hint="c") if source.is_float else c.icmp("ne", a, x, zero, hint="c")
    if source.is_float and to.is_float:
        return c.cast("fpext" if to.bits > source.bits else "fptrunc", a, x, b)
    if source.is_float:
        return _whole(e, source, to, x)
    if to.is_float:
        return c.cast("sitofp" if source.is_signed else "uitofp", a, x, b)
    if a == b:                                       # signed and unsigned
        return x
    wider = source.is_bool or to.bits > source.bits
    return c.cast("trunc" if not wider else "sext" if source.is_signed else "zext", a, x, b)


def _whole(e: Emitter, source: Scalar, to: Scalar, x: str) -> str:
    """Convert a float to an integer."""
    a, c = types.register(source), e.code
    if to is U64:
        high = c.fcmp("oge", a, x, types.literal(2.0**63, source), hint="c")
        rest = _whole(e, source, I64, c.arith("fsub", a, x, types.literal(2.0**63, source)))
        return select(e, to, high, c.arith("xor", "i64", rest, str(I64.low)), _whole(e, source, I64, x))
    if to not in (I64, I32):
        first = I32 if to.bits < 32 else I64
        return cast(e, first, to, _whole(e, source, first, x))
    above = c.fcmp("oge", a, x, types.literal(float(to.low), source), hint="c")
    below = c.fcmp("olt", a, x, types.literal(-float(to.low), source), hint="c")
    fits = c.arith("and", "i1", above, below, hint="c")
    return select(e, to, fits, c.cast("fptosi", a, x, types.register(to)), str(to.low))


def truncates_by_instruction(e: Emitter) -> bool:
    """True if ``truncated`` may be used."""
    return e.target.triple.startswith("x86_64")


def truncated(e: Emitter, source: Scalar, x: str) -> str:
    """Convert a float to i64 by the instruction of x86, which returns the least integer for all that does not fit."""
    a, name, lanes = types.register(source), *(("sse.cvttss2si64", 4) if source.bits == 32 else ("sse2.cvttsd2si64", 2))
    vector = f"<{lanes} x {a}>"
    convert = e.writer.declare(f"llvm.x86.{name}", "i64", vector)
    return e.code.call("i64", convert, (vector, e.code.insert_element(vector, "poison", a, x, 0)))


def apply(e: Emitter, name: str, t: Scalar, xs: Sequence[str], attrs: dict[str, Any], result: Scalar) -> str:
    """One element of an elementwise op; ``t`` is the dtype of the operands, for ``select`` of the alternatives."""
    if name == "cast":
        return cast(e, t, result, xs[0])
    if name == "select":
        return select(e, t, *xs)
    extreme = attrs.get("acc") and name in ("maximum", "minimum")      # of zeros of both signs either one will do
    return TABLE[name](e, t, list(xs), "nsz" if extreme else flags(e.options, attrs))


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
    attrs = attrs | {"chained": True} if chained else attrs
    return apply(e, op.name, dtype_of(op.operands[-1].type), xs, attrs, dtype_of(t))


def _compares_products(op: Op) -> bool:
    """True if ``op`` is ``a * b - c * d``, which must not be contracted.

    With contraction only one product would be rounded, and the difference of equal products would not be 0: its square
    root might be NaN, and a determinant would not vanish.
    """
    return op.name == "sub" and all(v.op is not None and v.op.name == "mul" for v in op.operands)
