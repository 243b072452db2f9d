"""Functions that neither LLVM nor libm has, written in LLVM: integer power and digamma.

Each ``…(writer, t)`` defines the function for the scalar type ``t`` once in the module and yields its ``@name``.
"""

from __future__ import annotations

import math

from ..ir.types import Scalar
from . import types
from .emit import Writer
from .target import Target

_HEAD = "define internal {t} @{name}({params}) memory(none) nounwind willreturn {{"

_POWER = """entry:
  %positive = icmp sgt {t} %n, 0
  br i1 %positive, label %loop, label %done
loop:
  %e = phi {t} [ %n, %entry ], [ %half, %loop ]
  %b = phi {t} [ %x, %entry ], [ %square, %loop ]
  %r = phi {t} [ 1, %entry ], [ %next, %loop ]
  %odd = trunc {t} %e to i1
  %times = mul {t} %r, %b
  %next = select i1 %odd, {t} %times, {t} %r
  %square = mul {t} %b, %b
  %half = lshr {t} %e, 1
  %more = icmp ne {t} %half, 0
  br i1 %more, label %loop, label %done
done:
  %out = phi {t} [ 1, %entry ], [ %next, %loop ]
  ret {t} %out
}}
"""

# digamma(x) by recurrence up to 10 and the asymptotic series; below zero by reflection.
_DIGAMMA = """entry:
  %negative = fcmp ole {t} %x, {zero}
  %flipped = fsub {t} {one}, %x
  %start = select i1 %negative, {t} %flipped, {t} %x
  %small = fcmp olt {t} %start, {ten}
  br i1 %small, label %loop, label %series
loop:
  %y = phi {t} [ %start, %entry ], [ %y1, %loop ]
  %s = phi {t} [ {zero}, %entry ], [ %s1, %loop ]
  %inverse = fdiv {t} {one}, %y
  %s1 = fadd {t} %s, %inverse
  %y1 = fadd {t} %y, {one}
  %again = fcmp olt {t} %y1, {ten}
  br i1 %again, label %loop, label %series
series:
  %z = phi {t} [ %start, %entry ], [ %y1, %loop ]
  %shift = phi {t} [ {zero}, %entry ], [ %s1, %loop ]
  %zz = fmul {t} %z, %z
  %w = fdiv {t} {one}, %zz
{terms}
  %log = call {t} {log}({t} %z)
  %twice = fadd {t} %z, %z
  %halfinverse = fdiv {t} {one}, %twice
  %d0 = fsub {t} %log, %halfinverse
  %d1 = fsub {t} %d0, %sum
  %d2 = fsub {t} %d1, %shift
  %infinite = fcmp oeq {t} %z, {inf}
  %value = select i1 %infinite, {t} %z, {t} %d2
  br i1 %negative, label %reflect, label %done
reflect:
  %floor = call {t} @llvm.floor.{s}({t} %x)
  %part = fsub {t} %x, %floor
  %angle = fmul {t} %part, {pi}
  %tan = call {t} {tan}({t} %angle)
  %cot = fdiv {t} {pi}, %tan
  %mirrored = fsub {t} %value, %cot
  %pole = fcmp oeq {t} %part, {zero}
  %reflected = select i1 %pole, {t} {nan}, {t} %mirrored
  br label %done
done:
  %out = phi {t} [ %value, %series ], [ %reflected, %reflect ]
  ret {t} %out
}}
"""
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)


def integer_power(writer: Writer, t: Scalar) -> str:
    """``x ** n`` by squaring; 1 when n is not positive."""
    name, of = f"jitad.power.{t}", types.register(t)
    head = _HEAD.format(t=of, name=name, params=f"{of} %x, {of} %n")
    return writer.function(name, head + "\n" + _POWER.format(t=of))


def digamma(writer: Writer, target: Target, t: Scalar) -> str:
    """The derivative of the logarithm of the gamma function."""
    name, of = f"jitad.digamma.{t}", types.register(t)
    lines, last = [], types.literal(0.0, t)
    for i, c in enumerate(reversed(_SERIES)):                  # Horner's rule
        lines += [f"  %h{i} = fadd {of} {last}, {types.literal(c, t)}", f"  %p{i} = fmul {of} %h{i}, %w"]
        last = f"%p{i}"
    lines[-1] = lines[-1].replace(last, "%sum", 1)
    writer.declare(f"llvm.floor.{_suffix(t)}", of, of)
    names = {n: types.literal(v, t) for n, v in (("zero", 0.0), ("one", 1.0), ("ten", 10.0), ("inf", math.inf),
                                                 ("nan", math.nan), ("pi", math.pi))}
    body = _DIGAMMA.format(t=of, s=_suffix(t), terms="\n".join(lines), log=target.math(writer, "log", t, 1),
                           tan=target.math(writer, "tan", t, 1), **names)
    return writer.function(name, _HEAD.format(t=of, name=name, params=f"{of} %x") + "\n" + body)


def _suffix(t: Scalar) -> str:
    """How LLVM names the type in an intrinsic."""
    return t.name if t.is_float else f"i{t.bits}"
