"""Conversions between dtypes."""

from __future__ import annotations

import struct

from ...ir.types import F64, I32, I64, U64, Scalar
from ..llvm import types
from .options import Emitter
from .selection import select


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


BIASED = 2.0**52 + 2.0**51
"""A float whose last bit is worth 1, also after integers of up to 50 bits and either sign are added to its bits."""


def converts_by_bits(e: Emitter) -> bool:
    """True if ``of_small_integer`` is faster than the instruction: see ``planning/small_integers.py``."""
    return e.target.triple.startswith("x86_64") and e.target.vector_bits < 512


def of_small_integer(e: Emitter, x: str) -> str:
    """Convert an i64 of at most 50 bits to f64 by its bits."""
    bits = e.code.arith("add", "i64", x, str(struct.unpack("<q", struct.pack("<d", BIASED))[0]))
    return e.code.arith("fsub", "double", e.code.cast("bitcast", "i64", bits, "double"), types.literal(BIASED, F64))


def rounds_by_instruction(e: Emitter) -> bool:
    """True if ``integer_part`` is one instruction: SSE 4.1 comes with vectors of 256 bits at the latest."""
    return e.target.triple.startswith("x86_64") and e.target.vector_bits >= 256


def integer_part(e: Emitter, x: str) -> str:
    """Convert an f64 that is in range to i64 and back, without leaving its register.  A negative zero becomes zero."""
    truncate = e.writer.declare("llvm.trunc.f64", "double", "double")
    return e.code.arith("fadd", "double", e.code.call("double", truncate, ("double", x)), types.literal(0.0, F64))
