"""Arithmetic that takes several ops of MLIR: NumPy's division, powers of integers, shifts, conversions.

Each function appends ops for operands of one lane type, scalars or vectors, and returns the result.  Integers divided
by zero yield 0, and no op of MLIR sees operands for which it is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir.types import F32, F64, I32, I64, U64, Scalar
from .types import scalar
from .writer import Reg, Writer, is_float, with_element

Expansion = Callable[[Writer, Scalar, list[Reg]], Reg]


def _const(w: Writer, value: Any, t: Scalar, like: Reg) -> Reg:
    """A constant with the lanes of ``like``."""
    c = w.const(value, t)
    return c if not like.type.startswith("vector") else _splat(w, c, with_element(like.type, c.type))


def _splat(w: Writer, x: Reg, type: str) -> Reg:
    return w.text(f"vector.broadcast {x.name} : {x.type} to {type}", type)


def same(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return xs[0]


# --- floats ---------------------------------------------------------------------------------------------

def float_mod(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """``fmod`` with the sign of the divisor; a zero has this sign too."""
    x, y = xs
    zero = _const(w, 0.0, t, x)
    m = w.op("arith.remf", x, y)
    moved = w.select(_other_sign(w, m, y, zero), w.op("arith.addf", m, y), m)
    return w.select(w.compare("oeq", m, zero), w.op("math.copysign", zero, y), moved)


def _other_sign(w: Writer, m: Reg, y: Reg, zero: Reg) -> Reg:
    """True if ``m`` is not zero and has another sign than ``y``."""
    less, differs = ("olt", "une") if is_float(m) else ("slt", "ne")
    apart = w.op("arith.xori", w.compare(less, m, zero), w.compare(less, y, zero))
    return w.op("arith.andi", apart, w.compare(differs, m, zero))


def float_floordiv(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """As NumPy computes it: from the exact remainder, then rounded to the nearest integer below."""
    x, y = xs
    zero, half, one = (_const(w, c, t, x) for c in (0.0, 0.5, 1.0))
    m = w.op("arith.remf", x, y)
    exact = w.op("arith.divf", w.op("arith.subf", x, m), y)
    q = w.select(_other_sign(w, m, y, zero), w.op("arith.subf", exact, one), exact)
    down = w.op("math.floor", q)
    far = w.compare("ogt", w.op("arith.subf", q, down), half)
    near = w.select(far, w.op("arith.addf", down, one), down)
    plain = w.op("arith.divf", x, y)
    nonzero = w.select(w.compare("oeq", q, zero), w.op("math.copysign", zero, plain), near)
    return w.select(w.compare("oeq", y, zero), plain, nonzero)


def float_sign(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """A NaN stays; both zeros become 0.0."""
    (x,), zero = xs, _const(w, 0.0, t, xs[0])
    middle = w.select(w.compare("oeq", x, zero), zero, x)
    below = w.select(w.compare("olt", x, zero), _const(w, -1.0, t, x), middle)
    return w.select(w.compare("ogt", x, zero), _const(w, 1.0, t, x), below)


def is_nan(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return w.compare("uno", xs[0], xs[0])


def is_inf(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return w.compare("oeq", w.op("math.absf", xs[0]), _const(w, math.inf, t, xs[0]))


def is_finite(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return w.compare("olt", w.op("math.absf", xs[0]), _const(w, math.inf, t, xs[0]))


def library(w: Writer, t: Scalar, name: str, xs: list[Reg]) -> Reg:
    """A call of a function of floats, which is external, for each lane."""
    if not xs[0].type.startswith("vector"):
        wide = xs if t is F64 else [w.convert("arith.extf", x, "f64") for x in xs]
        (r,) = w.call(name, wide, ["f64"])
        return r if t is F64 else w.convert("arith.truncf", r, scalar(t))
    out = _const(w, 0.0, t, xs[0])
    for k in range(int(out.type[len("vector<"):].partition("x")[0])):
        lanes = [w.text(f"vector.extract {x.name}[{k}] : {scalar(t)} from {x.type}", scalar(t)) for x in xs]
        r = library(w, t, name, lanes)
        out = w.text(f"vector.insert {r.name}, {out.name}[{k}] : {r.type} into {out.type}", out.type)
    return out


# --- integers -------------------------------------------------------------------------------------------

def neg(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return w.op("arith.subi", _const(w, 0, t, xs[0]), xs[0])


def invert(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return w.op("arith.xori", xs[0], _const(w, True if t.is_bool else -1, t, xs[0]))


def _divisor(w: Writer, t: Scalar, y: Reg) -> tuple[Reg, Reg]:
    """A divisor that is neither 0 nor −1, and whether ``y`` is 0."""
    zero = w.compare("eq", y, _const(w, 0, t, y))
    bad = w.op("arith.ori", zero, w.compare("eq", y, _const(w, -1, t, y))) if t.is_signed else zero
    return w.select(bad, _const(w, 1, t, y), y), zero


def floordiv(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    (x, y), zero = xs, _const(w, 0, t, xs[0])
    d, is_zero = _divisor(w, t, y)
    q, r = w.op("arith.divsi", x, d), w.op("arith.remsi", x, d)
    down = w.select(_other_sign(w, r, d, zero), w.op("arith.subi", q, _const(w, 1, t, x)), q)
    known = w.select(w.compare("eq", y, _const(w, -1, t, y)), w.op("arith.subi", zero, x), down)
    return w.select(is_zero, zero, known)


def mod(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """The remainder with the sign of the divisor; by 1, in the place of 0 and −1, it is 0."""
    x, y = xs
    d, _ = _divisor(w, t, y)
    r = w.op("arith.remsi", x, d)
    return w.select(_other_sign(w, r, d, _const(w, 0, t, x)), w.op("arith.addi", r, d), r)


def unsigned_div(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    d, is_zero = _divisor(w, t, xs[1])
    return w.select(is_zero, _const(w, 0, t, xs[0]), w.op("arith.divui", xs[0], d))


def unsigned_mod(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    d, _ = _divisor(w, t, xs[1])
    return w.op("arith.remui", xs[0], d)


def int_pow(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """A negative exponent counts as 0."""
    return unsigned_pow(w, t, [xs[0], w.op("arith.maxsi", xs[1], _const(w, 0, t, xs[1]))])


def unsigned_pow(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    """By squaring, over all bits of the exponent."""
    zero, one = _const(w, 0, t, xs[0]), _const(w, 1, t, xs[0])

    def step(k: Reg, carried: list[Reg]) -> list[Reg]:
        power, base, rest = carried
        odd = w.compare("ne", w.op("arith.andi", rest, one), zero)
        return [w.select(odd, w.op("arith.muli", power, base), power), w.op("arith.muli", base, base),
                w.op("arith.shrui", rest, one)]
    return w.loop(w.number(t.bits), step, [one, *xs])[0]


def int_sign(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    (x,), zero = xs, _const(w, 0, t, xs[0])
    below = w.select(w.compare("slt", x, zero), _const(w, -1, t, x), zero)
    return w.select(w.compare("sgt", x, zero), _const(w, 1, t, x), below)


def unsigned_sign(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    zero = _const(w, 0, t, xs[0])
    return w.select(w.compare("ne", xs[0], zero), _const(w, 1, t, xs[0]), zero)


def _shift(w: Writer, t: Scalar, xs: list[Reg], name: str, all_out: Reg) -> Reg:
    """A shift; ``all_out`` results when no bit stays."""
    x, y = xs
    inside = w.compare("ult", y, _const(w, t.bits, t, y))
    return w.select(inside, w.op(name, x, w.select(inside, y, _const(w, 0, t, y))), all_out)


def shl(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return _shift(w, t, xs, "arith.shli", _const(w, 0, t, xs[0]))


def shr(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return _shift(w, t, xs, "arith.shrsi", w.op("arith.shrsi", xs[0], _const(w, t.bits - 1, t, xs[0])))


def unsigned_shr(w: Writer, t: Scalar, xs: list[Reg]) -> Reg:
    return _shift(w, t, xs, "arith.shrui", _const(w, 0, t, xs[0]))


# --- conversions ----------------------------------------------------------------------------------------

def cast(w: Writer, x: Reg, source: Scalar, to: Scalar) -> Reg:
    """``x.astype(to)``; floats out of range become the least integer."""
    type = with_element(x.type, scalar(to))
    if to.is_bool:
        return w.compare("une" if source.is_float else "ne", x, _const(w, 0, source, x)) if source is not to else x
    if source.is_float:
        return _of_float(w, x, source, to)
    if to.is_float:
        return w.convert("arith.sitofp" if source.is_signed else "arith.uitofp", x, type)
    bits = 1 if source.is_bool else source.bits
    if bits == to.bits:
        return x
    widen = "arith.extsi" if source.is_signed else "arith.extui"
    return w.convert(widen if bits < to.bits else "arith.trunci", x, type)


def _of_float(w: Writer, x: Reg, source: Scalar, to: Scalar) -> Reg:
    if to.is_float:
        name = {(F32, F64): "arith.extf", (F64, F32): "arith.truncf"}.get((source, to))
        return w.convert(name, x, with_element(x.type, scalar(to))) if name else x
    if to is U64:
        return _u64(w, x, source)
    middle = I32 if to.bits < 32 or to is I32 else I64
    return cast(w, _whole(w, x, source, middle), middle, to)


def _whole(w: Writer, x: Reg, source: Scalar, t: Scalar) -> Reg:
    """A float as i32 or i64."""
    above = w.compare("oge", x, _const(w, float(t.low), source, x))
    fits = w.op("arith.andi", above, w.compare("olt", x, _const(w, float(t.high + 1), source, x)))
    near = w.select(fits, x, _const(w, 0.0, source, x))
    return w.select(fits, w.convert("arith.fptosi", near, with_element(x.type, scalar(t))), _const(w, t.low, t, x))


def _u64(w: Writer, x: Reg, source: Scalar) -> Reg:
    """From 2**63 on the upper half, which is reached by the highest bit."""
    bound = _const(w, 2.0**63, source, x)
    high = w.compare("oge", x, bound)
    rest = _whole(w, w.select(high, w.op("arith.subf", x, bound), _const(w, 0.0, source, x)), source, I64)
    return w.select(high, w.op("arith.xori", rest, _const(w, I64.low, I64, x)), _whole(w, x, source, I64))
