"""Vector functions of our own, written in LLVM IR, for loops over ``tanh``, logarithms, and ``exp``, ``sin`` and
``cos`` of single precision.

libmvec's ``tanh`` of doubles takes twice as long, and all of libmvec's functions are calls, across which a loop spills
its values to memory.  Ours are inlined after loops were vectorised, so that several of them overlap.

With x = k·ln 2 + r and |r| ≤ ln 2 / 2::

    exp(x)     = 2^k·(1 + p)              p = exp(r) − 1 = r + r²·q(r), q in the order of Estrin (1960)
    exp(x) − 1 = 2^k·p + (2^k − 1)
    tanh(x)    = sign(x)·e / (e + 2)      e = exp(2a) − 1, a = min(|x|, ``beyond``)

With x = k·π + r, |r| ≤ π / 2, and k an integer for the sine, an integer plus 1/2 for the cosine::

    sin(x)     = ±sin(r)                  sin(r) = r + r³·p(r²), p the minimax polynomial of the relative error
    cos(x)     = ∓sin(r)                  the sign depends on the parity of k, or of k − 1/2

``k·π`` is subtracted in three parts (Cody and Waite 1980), which is accurate up to ``NEAR``.  A vector with a lane
beyond it is passed to libmvec.

``q`` is the Taylor polynomial for doubles, and the minimax polynomial of the relative error of ``exp`` for single
precision (3e-9, by Remez).  ``tanh`` loses no accuracy near 0, so there is one path for all x.  ``k`` is rounded by
adding and subtracting ``shift``; the last bits of the sum are then ``k``.  The error stays below 3 ulp; libmvec
promises 4.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Precision:
    """Constants of a float type.

    Its bits and those of the fraction; ``ln 2`` in two parts, the first with trailing zero bits; the coefficients
    of ``q``, constant first; the argument from which tanh is 1; those from which exp is 0 and infinite.
    """

    name: str
    bits: int
    fraction: int
    ln2: tuple[float, float]
    terms: tuple[float, ...]
    beyond: float
    limits: tuple[float, float]

    @property
    def shift(self) -> float:
        return 1.5 * 2.0 ** self.fraction

    @property
    def bias(self) -> int:
        return int((1 << (self.bits - self.fraction - 2)) - 1)


DOUBLE = Precision("double", 64, 52, (6.93147180369123816e-01, 1.90821492927058770e-10),
                   tuple(1 / math.factorial(i) for i in range(2, 14)), 20.0, (-746.0, 710.0))
FLOAT = Precision("float", 32, 23, (0.693359375, -2.12194440e-4),
                  (0.49999993432129, 0.16666520399043, 0.04166839078355, 0.00836874510894, 0.00138145401768),
                  10.0, (-104.0, 89.0))
PREFIX = "jitad.vector."
FUNCTIONS = {"tanh": DOUBLE, "tanhf": FLOAT, "expf": FLOAT, "sinf": FLOAT, "cosf": FLOAT,
             "log": DOUBLE, "logf": FLOAT, "log2": DOUBLE, "log10": DOUBLE, "pow": DOUBLE, "powf": FLOAT}
LOGARITHMS = ("log", "log2", "log10")
FEATURES = {"avx512f": 512, "fma": 256}              # vector width in bits
LETTERS = {512: "e", 256: "d"}                       # the letter for this width in libmvec's names

# Constants of sin and cos.  The parts of π are truncated, not rounded: all are positive, which preserves -0.0.
NEAR = 65536.0
PI = (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14)
SINE = (-0.16666659712791443, 0.008333069272339344, -0.00019809776858892292, 2.606095677037956e-06)
SELDOM = '!0 = !{!"branch_weights", i32 1, i32 2000}'


def name(function: str, lanes: int) -> str:
    return f"{PREFIX}{function}.{lanes}"


def suits(function: str, lanes: int, features: list[str]) -> bool:
    """True if this version of ``function`` is to be used on a target with these features."""
    known = FUNCTIONS.get(function)
    return known is not None and any(f"+{f}" in features and lanes * known.bits == n for f, n in FEATURES.items())


def stands_alone(function: str) -> bool:
    """True if our version of ``function`` does not call libmvec."""
    return function.rstrip("f") in ("tanh", "exp")


def definitions(names: Iterable[str]) -> str:
    """LLVM IR of those of the functions that are ours, or ``""``; they are only inlined, never compiled."""
    wanted = sorted(n.removeprefix(PREFIX).rsplit(".", 1) for n in set(names) if n.startswith(PREFIX))
    texts = [_Text(function, int(lanes)).text() for function, lanes in wanted]
    return "\n".join([*texts, SELDOM]) if texts else ""


class _Text:
    def __init__(self, function: str, lanes: int) -> None:
        self.function, self.lanes = function, lanes
        self.p = precision = FUNCTIONS[function]
        self.t, self.n = f"<{lanes} x {precision.name}>", f"<{lanes} x i{precision.bits}>"
        self.suffix = f"v{lanes}f{precision.bits}"
        self.lines: list[str] = []
        self.params = ("%x", "%y") if function.startswith("pow") else ("%x",)
        self.outside = ""                            # declarations of external functions

    def text(self) -> str:
        body = {"tanh": self._tanh, "exp": self._exp, "sin": self._sin, "cos": self._cos,
                "pow": self._pow, **dict.fromkeys(LOGARITHMS, self._log)}[self.function.rstrip("f")]
        out = body()
        params = ", ".join(f"{self.t} {x}" for x in self.params)
        head = f"define available_externally {self.t} @{name(self.function, self.lanes)}({params})"
        facts = "alwaysinline memory(none) nounwind willreturn"
        return "\n".join([self.outside, f"{head} {facts} {{", *self.lines, f"  ret {self.t} {out}", "}", ""])

    # --- the functions ------------------------------------------------------------------------------

    def _tanh(self) -> str:
        t = self.t
        a = self._limited(self.op(f"call {t} @llvm.fabs.{self.suffix}({t} %x)"), "ogt", self.p.beyond)
        shifted, _, r = self._reduced(self.op(f"fadd {t} {a}, {a}"))
        p = self._plus_rest(r, r)
        power = self._power(self.op(f"bitcast {t} {shifted} to {self.n}"))
        e = self.fma(power, p, self.op(f"fsub {t} {power}, {self.all(1.0)}"))
        y = self.op(f"fdiv {t} {e}, {self.op(f'fadd {t} {e}, {self.all(2.0)}')}")
        return self.op(f"call {t} @llvm.copysign.{self.suffix}({t} {y}, {t} %x)")

    def _exp(self) -> str:
        low, high = self.p.limits
        shifted, k, r = self._reduced(self._limited(self._limited("%x", "ogt", high), "olt", low))
        y = self._plus_rest(self.op(f"fadd {self.t} {r}, {self.all(1.0)}"), r)
        if self.lanes * self.p.bits != 512:
            return self._scaled(y, shifted)
        scale = "@llvm.x86.avx512.mask.scalef.ps.512"
        self.outside = f"declare {self.t} {scale}({self.t}, {self.t}, {self.t}, i16, i32 immarg)"
        return self.op(f"call {self.t} {scale}({self.t} {y}, {self.t} {k}, {self.t} {y}, i16 -1, i32 4)")

    def _sin(self) -> str:
        x = self._near()
        shifted = self.fma(x, self.all(1 / math.pi), self.all(self.p.shift))
        return self._sine(x, shifted, self.op(f"fsub {self.t} {shifted}, {self.all(self.p.shift)}"), even=0)

    def _cos(self) -> str:
        x = self._near()
        below = self.fma(x, self.all(1 / math.pi), self.all(-0.5))
        shifted = self.op(f"fadd {self.t} {below}, {self.all(self.p.shift)}")
        whole = self.op(f"fsub {self.t} {shifted}, {self.all(self.p.shift)}")
        return self._sine(x, shifted, self.op(f"fadd {self.t} {whole}, {self.all(0.5)}"), even=1)

    def _log(self) -> str:
        """libmvec's, but for zeros, for each of which that calls a scalar function: inactive lanes often are zeros."""
        zero = self.op(f"fcmp oeq {self.t} %x, {self.all(0.0)}")
        y = self.op(f"call {self._library(self._select(zero, self.all(1.0), '%x'))}")
        return self._select(zero, self.all(-math.inf), y)

    def _pow(self) -> str:
        """The same; powers of zero are 0, 1, infinite or NaN."""
        bits = self.op(f"bitcast {self.t} %x to {self.n}")
        zero = self.op(f"icmp eq {self.n} {bits}, zeroinitializer")
        power = self.op(f"call {self._library(self._select(zero, self.all(1.0), '%x'), '%y')}")
        signs = [self.op(f"fcmp {order} {self.t} %y, {self.all(0.0)}") for order in ("ogt", "olt", "oeq")]
        of_zero = "%y"
        for sign, result in zip(signs, (0.0, math.inf, 1.0)):
            of_zero = self._select(sign, self.all(result), of_zero)
        return self._select(zero, of_zero, power)

    # --- steps --------------------------------------------------------------------------------------

    def _library(self, *args: str) -> str:
        """Declare libmvec's function; returns what follows ``call``."""
        kinds = ", ".join([self.t] * len(args))
        head = f"{self.t} @_ZGV{LETTERS[self.lanes * self.p.bits]}N{self.lanes}{'v' * len(args)}_{self.function}"
        self.outside = f"declare {head}({kinds}) memory(none) nounwind willreturn"
        return f"{head}({', '.join(f'{self.t} {x}' for x in args)})"

    def _select(self, condition: str, x: str, y: str) -> str:
        return self.op(f"select <{self.lanes} x i1> {condition}, {self.t} {x}, {self.t} {y}")

    def _limited(self, x: str, beyond: str, limit: float) -> str:
        """``limit`` if ``x`` is beyond it, else ``x``; NaN stays NaN."""
        far = self.op(f"fcmp {beyond} {self.t} {x}, {self.all(limit)}")
        return self._select(far, self.all(limit), x)

    def _reduced(self, x: str) -> tuple[str, str, str]:
        """Reduce the argument: (``k`` plus ``shift``, ``k``, ``r``)."""
        shifted = self.fma(x, self.all(1 / math.log(2)), self.all(self.p.shift))
        k = self.op(f"fsub {self.t} {shifted}, {self.all(self.p.shift)}")
        r = x
        for part in self.p.ln2:
            r = self.fma(k, self.all(-part), r)
        return shifted, k, r

    def _plus_rest(self, start: str, r: str) -> str:
        """``start`` + exp(``r``) − 1 − ``r``."""
        square = self.op(f"fmul {self.t} {r}, {r}")
        return self.fma(square, self._polynomial([self.all(c) for c in self.p.terms], r), start)

    def _scaled(self, y: str, shifted: str) -> str:
        """2^k·y without AVX-512.  Two factors are used, since 2^k may be out of range where the result is not."""
        bits = self.op(f"bitcast {self.t} {shifted} to {self.n}")
        offset = int(self._bits(self.p.shift), 16)
        k = self.op(f"sub {self.n} {bits}, splat (i{self.p.bits} {offset})")
        half = self.op(f"ashr {self.n} {k}, splat (i{self.p.bits} 1)")
        rest = self.op(f"sub {self.n} {k}, {half}")
        return self.op(f"fmul {self.t} {self.op(f'fmul {self.t} {y}, {self._power(half)}')}, {self._power(rest)}")

    def _near(self) -> str:
        """Freeze and return ``x``, after a branch that leaves if a lane is beyond ``NEAR``, infinite or NaN.

        Inactive lanes may hold poison, on which no branch may depend.
        """
        x = self.op(f"freeze {self.t} %x")
        size = self.op(f"call {self.t} @llvm.fabs.{self.suffix}({self.t} {x})")
        far = self.op(f"fcmp ugt {self.t} {size}, {self.all(NEAR)}")
        mask = self.op(f"bitcast <{self.lanes} x i1> {far} to i{self.lanes}")
        some = self.op(f"icmp ne i{self.lanes} {mask}, 0")
        self.lines += [f"  br i1 {some}, label %far, label %near, !prof !0", "far:",
                       f"  %library = call {self._library(x)}", f"  ret {self.t} %library", "near:"]
        return x

    def _sine(self, x: str, shifted: str, k: str, even: int) -> str:
        """sin(``x`` − ``k``·π), negated if the last bit of ``shifted`` is set (with ``even``: if it is clear)."""
        r = x
        for part in PI:
            r = self.fma(k, self.all(-part), r)
        square = self.op(f"fmul {self.t} {r}, {r}")
        cube = self.op(f"fmul {self.t} {square}, {r}")
        y = self.fma(cube, self._polynomial([self.all(c) for c in SINE], square), r)
        size = self.op(f"call {self.t} @llvm.fabs.{self.suffix}({self.t} {y})")
        y = self._limited(size, "ogt", 1.0)                                # else sqrt(1 - sin(x) * sin(x)) may be NaN
        y = self.op(f"call {self.t} @llvm.copysign.{self.suffix}({self.t} {y}, {self.t} {r})")       # -0.0 as well
        sign = self.op(f"shl {self.n} {self.op(f'bitcast {self.t} {shifted} to {self.n}')}, splat (i32 31)")
        if even:
            sign = self.op(f"xor {self.n} {sign}, splat (i32 -2147483648)")
        turned = self.op(f"xor {self.n} {self.op(f'bitcast {self.t} {y} to {self.n}')}, {sign}")
        return self.op(f"bitcast {self.n} {turned} to {self.t}")

    def _power(self, k: str) -> str:
        """2^k for integers ``k``, of which only the low bits are valid."""
        n, bits = self.n, self.p.bits
        moved = self.op(f"shl {n} {k}, splat (i{bits} {self.p.fraction})")
        exponent = self.op(f"add {n} {moved}, splat (i{bits} {self.p.bias << self.p.fraction})")
        return self.op(f"bitcast {n} {exponent} to {self.t}")

    def _polynomial(self, terms: list[str], x: str) -> str:
        """Evaluate the polynomial with these coefficients, constant first, by Estrin's scheme."""
        while len(terms) > 1:
            pairs = [self.fma(high, x, low) for low, high in zip(terms[::2], terms[1::2])]
            terms = pairs + terms[2 * len(pairs):]
            x = self.op(f"fmul {self.t} {x}, {x}")
        return terms[0]

    # --- text ---------------------------------------------------------------------------------------

    def op(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def fma(self, a: str, b: str, c: str) -> str:
        t = self.t
        return self.op(f"call {t} @llvm.fma.{self.suffix}({t} {a}, {t} {b}, {t} {c})")

    def all(self, x: float) -> str:
        """A splat of ``x``.  LLVM writes float constants as the doubles of the same value."""
        exact = x if self.p is DOUBLE else float(np.float32(x))
        return f"splat ({self.p.name} 0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X})"

    def _bits(self, x: float) -> str:
        """The bits of the number, in hexadecimal digits."""
        return struct.pack(">d" if self.p is DOUBLE else ">f", x).hex()
