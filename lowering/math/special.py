"""Functions that neither LLVM nor libm provides, written in LLVM IR: integer power, digamma and polygamma.

Each function of this file defines the LLVM function for a scalar type once in the module and returns its ``@name``.
"""

from __future__ import annotations

import math

from ...ir.evaluate.gamma import EULER_MACLAURIN, HIGHEST
from ...ir.types import F64, Scalar
from ..llvm import types
from ..llvm.emit import Writer
from ..llvm.target import Target
from . import libm

_HEAD = "define internal {t} @{name}({params}) memory(none) nounwind willreturn {{"

_POWER = """entry:
  %positive = icmp {greater} {t} %n, 0
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
    """``x ** n`` by repeated squaring; 1 if n is not positive."""
    name, of = f"jitad.power.{t}", types.register(t)
    head = _HEAD.format(t=of, name=name, params=f"{of} %x, {of} %n")
    return writer.function(name, head + "\n" + _POWER.format(t=of, greater="sgt" if t.is_signed else "ugt"))


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
    body = _DIGAMMA.format(t=of, s=_suffix(t), terms="\n".join(lines), log=libm.declare(target, writer, "log", t, 1),
                           tan=libm.declare(target, writer, "tan", t, 1), **names)
    return writer.function(name, _HEAD.format(t=of, name=name, params=f"{of} %x") + "\n" + body)


# The Hurwitz zeta function, Σ (x + k)^(−s) over k ≥ 0 for x > 0, as in ``ir.evaluate.gamma``.
_ZETA = """entry:
  %minus = fneg double %s
  %end = fadd double %s, 10.0
  %small = fcmp olt double %x, %end
  br i1 %small, label %loop, label %series
loop:
  %y = phi double [ %x, %entry ], [ %y1, %loop ]
  %t = phi double [ 0.0, %entry ], [ %t1, %loop ]
  %p = call double {pow}(double %y, double %minus)
  %t1 = fadd double %t, %p
  %y1 = fadd double %y, 1.0
  %again = fcmp olt double %y1, %end
  br i1 %again, label %loop, label %series
series:
  %z = phi double [ %x, %entry ], [ %y1, %loop ]
  %head = phi double [ 0.0, %entry ], [ %t1, %loop ]
  %q = call double {pow}(double %z, double %minus)
  %zz = fmul double %z, %z
  %order = fsub double %s, 1.0
  %zq = fmul double %z, %q
  %integral = fdiv double %zq, %order
  %half = fmul double %q, 0.5
  %head1 = fadd double %head, %integral
  %sum0 = fadd double %head1, %half
  %sq = fmul double %s, %q
  %term0 = fdiv double %sq, %z
{terms}
  %infinite = fcmp oeq double %x, {inf}
  %out = select i1 %infinite, double 0.0, double %sum{count}
  ret double %out
}}
"""
_ZETA_TERM = """  %part{i} = fmul double %term{i}, {c}
  %sum{j} = fadd double %sum{i}, %part{i}
  %a{i} = fadd double %s, {first}
  %b{i} = fadd double %s, {second}
  %ab{i} = fmul double %a{i}, %b{i}
  %grown{i} = fmul double %term{i}, %ab{i}
  %term{j} = fdiv double %grown{i}, %zz"""

_POLYGAMMA = """entry:
  %n = call double @llvm.rint.f64(double %order)
  %s = fadd double %n, 1.0
  %n2 = fmul double %n, 0.5
  %even = call double @llvm.floor.f64(double %n2)
  %isodd = fcmp one double %even, %n2
  %sign = select i1 %isodd, double 1.0, double -1.0
  %low = fcmp oge double %n, 1.0
  %high = fcmp ole double %n, {highest}
  %valid = and i1 %low, %high
  br i1 %valid, label %where, label %other
other:
  %none = fcmp oeq double %n, 0.0
  %first = call double {digamma}(double %x)
  %rest = select i1 %none, double %first, double {nan}
  ret double %rest
where:
  %positive = fcmp ogt double %x, 0.0
  br i1 %positive, label %right, label %left
right:
  %zeta = call double {zeta}(double %s, double %x)
  br label %done
left:
  %floor = call double @llvm.floor.f64(double %x)
  %f = fsub double %x, %floor
  %whole = fcmp ueq double %f, 0.0
  br i1 %whole, label %pole, label %between
pole:
  ret double {nan}
between:
  %g = fsub double 1.0, %f
  %h = fsub double 1.0, %x
  %zf = call double {zeta}(double %s, double %f)
  %zg = call double {zeta}(double %s, double %g)
  %zh = call double {zeta}(double %s, double %h)
  %below = fsub double %zg, %zh
  %signed = fmul double %sign, %below
  %both = fadd double %zf, %signed
  br label %done
done:
  %sum = phi double [ %zeta, %right ], [ %both, %between ]
  %factorial = call double {gamma}(double %s)
  %size = fmul double %factorial, %sum
  %out = fmul double %sign, %size
  ret double %out
}}
"""


def polygamma(writer: Writer, target: Target) -> str:
    """The derivative of order ``n`` of digamma, in double precision."""
    for name in ("rint", "floor"):
        writer.declare(f"llvm.{name}.f64", "double", "double")
    nan = types.literal(math.nan, F64)
    body = _POLYGAMMA.format(zeta=_zeta(writer, target), digamma=digamma(writer, target, F64), nan=nan,
                             gamma=libm.declare(target, writer, "tgamma", F64, 1),
                             highest=types.literal(float(HIGHEST), F64))
    name = "jitad.polygamma"
    return writer.function(name, _HEAD.format(t="double", name=name, params="double %order, double %x") + "\n" + body)


def _zeta(writer: Writer, target: Target) -> str:
    terms = [_ZETA_TERM.format(i=j - 1, j=j, c=types.literal(c, F64), first=types.literal(2.0 * j - 1, F64),
                               second=types.literal(2.0 * j, F64)) for j, c in enumerate(EULER_MACLAURIN, 1)]
    body = _ZETA.format(pow=libm.declare(target, writer, "pow", F64, 2), terms="\n".join(terms), count=len(terms),
                        inf=types.literal(math.inf, F64))
    name = "jitad.zeta"
    return writer.function(name, _HEAD.format(t="double", name=name, params="double %s, double %x") + "\n" + body)


def _suffix(t: Scalar) -> str:
    """LLVM's name of the type in the name of an intrinsic."""
    return t.name if t.is_float else f"i{t.bits}"
