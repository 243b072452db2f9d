"""Vector functions of our own, written in LLVM, for loops over ``tanh`` and over ``exp`` of single precision.

libmvec's ``tanh`` of doubles takes twice as long, and all of libmvec's are calls, across which a loop keeps what it
computes in memory.  These are inlined once loops have been vectorised, so that several of them overlap.

With x = k·ln 2 + r and |r| ≤ ln 2 / 2::

    exp(x)     = 2^k·(1 + p)              p = exp(r) − 1, its Taylor polynomial in the order of Estrin (1960)
    exp(x) − 1 = 2^k·p + (2^k − 1)
    tanh(x)    = sign(x)·e / (e + 2)      e = exp(2a) − 1, a = min(|x|, ``beyond``)

``tanh`` loses nothing near 0, so there is one path for all x.  ``k`` is rounded by adding and taking off ``shift``, in
whose last bits it then is.  The error stays below 3 ulp, where libmvec promises 4.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Precision:
    """Of a float type: its bits and those of the fraction; ``ln 2`` in two parts, the first with bits to spare; the
    degree of the polynomial; where tanh is 1; where exp is 0 and where it is infinite."""

    name: str
    bits: int
    fraction: int
    ln2: tuple[float, float]
    degree: int
    beyond: float
    limits: tuple[float, float]

    @property
    def shift(self) -> float:
        return 1.5 * 2.0 ** self.fraction

    @property
    def bias(self) -> int:
        return int((1 << (self.bits - self.fraction - 2)) - 1)


DOUBLE = Precision("double", 64, 52, (6.93147180369123816e-01, 1.90821492927058770e-10), 13, 20.0, (-746.0, 710.0))
FLOAT = Precision("float", 32, 23, (0.693359375, -2.12194440e-4), 7, 10.0, (-104.0, 89.0))
PREFIX = "jitad.vector."
FUNCTIONS = {"tanh": DOUBLE, "tanhf": FLOAT, "expf": FLOAT}
FEATURES = {"avx512f": 512, "fma": 256}              # bits of the vectors that each has


def name(function: str, lanes: int) -> str:
    return f"{PREFIX}{function}.{lanes}"


def suits(function: str, lanes: int, features: list[str]) -> bool:
    """Whether a target with these features has use for that version."""
    known = FUNCTIONS.get(function)
    return known is not None and any(f"+{f}" in features and lanes * known.bits == n for f, n in FEATURES.items())


def definitions(source: str) -> str:
    """LLVM IR of the functions that a module declares, or ``""``; they are for inlining, no code is made of them."""
    wanted = sorted(set(re.findall(rf"@{re.escape(PREFIX)}(\w+)\.(\d+)", source)))
    texts = [_Text(FUNCTIONS[function], int(lanes)).text(name(function, int(lanes)), function.startswith("tanh"))
             for function, lanes in wanted]
    return "\n".join(texts)


class _Text:
    def __init__(self, precision: Precision, lanes: int) -> None:
        self.p, self.lanes = precision, lanes
        self.t, self.n = f"<{lanes} x {precision.name}>", f"<{lanes} x i{precision.bits}>"
        self.suffix = f"v{lanes}f{precision.bits}"
        self.lines: list[str] = []

    def text(self, called: str, tanh: bool) -> str:
        out = self._tanh() if tanh else self._exp()
        head = f"define available_externally {self.t} @{called}({self.t} %x)"
        facts = "alwaysinline memory(none) nounwind willreturn"
        return "\n".join([f"{head} {facts} {{", *self.lines, f"  ret {self.t} {out}", "}", ""])

    # --- the functions ------------------------------------------------------------------------------

    def _tanh(self) -> str:
        t = self.t
        a = self._limited(self.op(f"call {t} @llvm.fabs.{self.suffix}({t} %x)"), "ogt", self.p.beyond)
        shifted, p = self._reduced(self.op(f"fadd {t} {a}, {a}"))
        power = self._power(self.op(f"bitcast {t} {shifted} to {self.n}"))
        e = self.fma(power, p, self.op(f"fsub {t} {power}, {self.all(1.0)}"))
        y = self.op(f"fdiv {t} {e}, {self.op(f'fadd {t} {e}, {self.all(2.0)}')}")
        return self.op(f"call {t} @llvm.copysign.{self.suffix}({t} {y}, {t} %x)")

    def _exp(self) -> str:
        """2^k is two factors, as it may be no normal number where the result is one or is rounded to 0."""
        low, high = self.p.limits
        shifted, p = self._reduced(self._limited(self._limited("%x", "ogt", high), "olt", low))
        bits = self.op(f"bitcast {self.t} {shifted} to {self.n}")
        offset = int(self._bits(self.p.shift), 16)
        k = self.op(f"sub {self.n} {bits}, splat (i{self.p.bits} {offset})")
        half = self.op(f"ashr {self.n} {k}, splat (i{self.p.bits} 1)")
        rest = self.op(f"sub {self.n} {k}, {half}")
        y = self.op(f"fmul {self.t} {self.op(f'fadd {self.t} {p}, {self.all(1.0)}')}, {self._power(half)}")
        return self.op(f"fmul {self.t} {y}, {self._power(rest)}")

    # --- steps --------------------------------------------------------------------------------------

    def _limited(self, x: str, beyond: str, limit: float) -> str:
        """``x``, or ``limit`` where ``x`` is beyond it; NaN stays."""
        far = self.op(f"fcmp {beyond} {self.t} {x}, {self.all(limit)}")
        return self.op(f"select <{self.lanes} x i1> {far}, {self.t} {self.all(limit)}, {self.t} {x}")

    def _reduced(self, x: str) -> tuple[str, str]:
        """(``k`` plus ``shift``, ``p``)."""
        shifted = self.fma(x, self.all(1 / math.log(2)), self.all(self.p.shift))
        k = self.op(f"fsub {self.t} {shifted}, {self.all(self.p.shift)}")
        r = x
        for part in self.p.ln2:
            r = self.fma(k, self.all(-part), r)
        terms = [self.all(1 / math.factorial(i)) for i in range(2, self.p.degree + 1)]
        return shifted, self.fma(self.op(f"fmul {self.t} {r}, {r}"), self._polynomial(terms, r), r)

    def _power(self, k: str) -> str:
        """2^k for integers whose last bits are ``k``."""
        n, bits = self.n, self.p.bits
        moved = self.op(f"shl {n} {k}, splat (i{bits} {self.p.fraction})")
        exponent = self.op(f"add {n} {moved}, splat (i{bits} {self.p.bias << self.p.fraction})")
        return self.op(f"bitcast {n} {exponent} to {self.t}")

    def _polynomial(self, terms: list[str], x: str) -> str:
        """The polynomial with these coefficients, constant first: neighbours in pairs, then pairs of these, …"""
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
        """The same number in all lanes; LLVM writes floats as the doubles that they are."""
        exact = x if self.p is DOUBLE else float(np.float32(x))
        return f"splat ({self.p.name} 0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X})"

    def _bits(self, x: float) -> str:
        """The number as it is stored, in hexadecimal digits."""
        return struct.pack(">d" if self.p is DOUBLE else ">f", x).hex()
