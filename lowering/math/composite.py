"""Rules of ops that take more than one instruction."""

from __future__ import annotations

import math

from ...ir.types import F64, Scalar
from ..llvm import types
from ..llvm.code import Code
from . import special
from .casts import cast
from .instructions import intrinsic, math_function
from .options import Emitter, Rule
from .selection import select

_FMOD = math_function("fmod")


def float_mod(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    """The remainder with the divisor's sign, for zero too.  Computed without the flags ``f``, to be exact."""
    (x, y), of, c, zero = xs, types.register(t), e.code, types.literal(0.0, t)
    m = _FMOD(e, t, [x, y], "")
    other = c.arith("xor", "i1", c.fcmp("olt", of, m, zero), c.fcmp("olt", of, y, zero))
    moved = select(e, t, other, c.arith("fadd", of, m, y), m)
    is_zero = c.fcmp("oeq", of, m, zero)
    by_zero = c.fcmp("oeq", of, y, zero)
    signed = select(e, t, is_zero, intrinsic(e, "copysign", t, [zero, y]), moved)
    return select(e, t, by_zero, m, signed)


def float_floordiv(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    """As NumPy computes it: from the exact remainder, then rounded to the nearest integer below."""
    (x, y), of, c, zero = xs, types.register(t), e.code, types.literal(0.0, t)
    m = _FMOD(e, t, [x, y], "")
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


def _without_sign(c: Code, of: str, x: str, bits: int, d: int) -> str:
    """``x``, which is not negative, in a form that tells LLVM so, if the division by a literal then takes fewer steps.

    A division is a multiplication by a number of ``bits`` bits, for some divisors of one bit more, which takes three
    more instructions, each of which waits for the one before; not for numbers whose highest bit is 0.
    """
    for shift in range(d.bit_length() + 1):
        factor = -(-(1 << bits + shift) // d)
        if factor < 1 << bits and factor * d - (1 << bits + shift) <= 1 << shift:
            return x
    return c.arith("and", of, x, str((1 << bits - 1) - 1))


def _literal_floordiv(e: Emitter, of: str, x: str, bits: int, d: int) -> str:
    """The quotient by a positive literal, by division without signs: of x < 0 it is ~(~x / d).

    A remainder of a signed division is corrected by its sign, which takes four more instructions.
    """
    c = e.code
    if d & d - 1 == 0:
        return c.arith("ashr", of, x, str(d.bit_length() - 1))
    sign = c.arith("ashr", of, x, str(bits - 1))
    magnitude = _without_sign(c, of, c.arith("xor", of, x, sign), bits, d)
    return c.arith("xor", of, c.arith("udiv", of, magnitude, str(d)), sign)


def int_floordiv(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    (x, y), of, c = xs, types.register(t), e.code
    if y.isdecimal() and int(y) > 0:
        return _literal_floordiv(e, of, x, t.bits, int(y))
    d, is_zero, is_minus = _divisor(e, of, y)
    q, r = c.arith("sdiv", of, x, d), c.arith("srem", of, x, d)
    low = _signs_differ(e, of, r, d)
    down = c.arith("add", of, q, c.cast("sext", "i1", low, of))
    known = select(e, t, is_minus, c.arith("sub", of, "0", x), down)
    return select(e, t, is_zero, "0", known)


def int_mod(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    (x, y), of, c = xs, types.register(t), e.code
    if y.isdecimal() and (literal := int(y)) > 0:
        if literal & literal - 1 == 0:
            return c.arith("and", of, x, str(literal - 1))
        return c.arith("sub", of, x, c.arith("mul", of, _literal_floordiv(e, of, x, t.bits, literal), y))
    d, _, _ = _divisor(e, of, y)
    r = c.arith("srem", of, x, d)
    low = _signs_differ(e, of, r, d)
    return c.arith("add", of, r, select(e, t, low, d, "0"))      # by 0 and by −1 the remainder is 0


def unsigned(name: str) -> Rule:
    """The rule of ``udiv`` or ``urem``; the result is 0 if the divisor is 0.  A signed number is not negative."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        (x, y), of, c = xs, types.register(t), e.code
        if t.is_signed and y.isdecimal() and int(y) > 0:
            return c.arith(name, of, _without_sign(c, of, x, t.bits, int(y)), y)
        is_zero = c.icmp("eq", of, y, "0", hint="c")
        return select(e, t, is_zero, "0", c.arith(name, of, x, select(e, t, is_zero, "1", y)))
    return rule


def int_pow(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.call(of, special.integer_power(e.writer, t), (of, xs[0]), (of, xs[1]))


def digamma(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.call(of, special.digamma(e.writer, e.target, t), (of, xs[0]))


def polygamma(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    n, x = (cast(e, t, F64, v) for v in xs)
    return cast(e, F64, t, e.code.call("double", special.polygamma(e.writer, e.target), ("double", n), ("double", x)))


def float_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    x, of, c, zero = xs[0], types.register(t), e.code, types.literal(0.0, t)
    flat = select(e, t, c.fcmp("oeq", of, x, zero, hint="c"), zero, x)                # NaN stays
    down = select(e, t, c.fcmp("olt", of, x, zero, hint="c"), types.literal(-1.0, t), flat)
    return select(e, t, c.fcmp("ogt", of, x, zero, hint="c"), types.literal(1.0, t), down)


def int_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    x, of, c = xs[0], types.register(t), e.code
    positive, negative = c.icmp("sgt", of, x, "0", hint="c"), c.icmp("slt", of, x, "0", hint="c")
    return c.arith("add", of, c.cast("zext", "i1", positive, of), c.cast("sext", "i1", negative, of))


def unsigned_sign(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return e.code.cast("zext", "i1", e.code.icmp("ne", types.register(t), xs[0], "0", hint="c"), types.register(t))


def shift(signed: str, unsigned: str) -> Rule:
    """The rule of a shift.  A count below 0, or not below the width, shifts all bits out."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        (x, n), of, c = xs, types.register(t), e.code
        name = signed if t.is_signed else unsigned
        fits = c.icmp("ult", of, n, str(t.bits), hint="c")
        if name == "ashr":
            return c.arith("ashr", of, x, select(e, t, fits, n, str(t.bits - 1)))
        return select(e, t, fits, c.arith(name, of, x, n), "0")
    return rule


def neg(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    of = types.register(t)
    return e.code.arith("fneg", of, xs[0], flags=f) if t.is_float else e.code.arith("sub", of, "0", xs[0])


def invert(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return e.code.arith("xor", types.register(t), xs[0], "true" if t.is_bool else "-1")


def same(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
    return xs[0]


def class_of(predicate: str) -> Rule:
    """The rule that compares |x| with infinity."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        size = intrinsic(e, "fabs", t, xs)
        return e.code.fcmp(predicate, types.register(t), size, types.literal(math.inf, t), hint="c")
    return rule
