"""A vector ``tanh`` in double precision, written in LLVM, for loops: libmvec's takes twice as long.

With a = min(|x|, 20), 2a = k·ln 2 + r and |r| ≤ ln 2 / 2::

    e = exp(2a) − 1 = 2^k·(exp(r) − 1) + (2^k − 1)      tanh(x) = sign(x)·e / (e + 2)

which loses nothing near 0, so there is one path for all x.  exp(r) − 1 is its Taylor polynomial of degree 13
(the next term is below 2⁻⁵⁶), in the order of Estrin (1960); ``k`` is rounded by adding and taking off 1.5·2⁵².
The error stays below 3 ulp, where libmvec promises 4.
"""

from __future__ import annotations

import math
import struct

from .emit import Writer

LANES = {"avx512f": 8, "fma": 4}        # by the feature of the target that it takes
BEYOND = 20.0                           # tanh is 1 from here on
SHIFT = 1.5 * 2.0 ** 52
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10      # the former with 21 bits to spare
DEGREE = 13


def name(lanes: int) -> str:
    return f"jitad.tanh.{lanes}"


def define(writer: Writer, lanes: int) -> None:
    """Write the function for vectors of so many lanes into the module."""
    if not writer.defines(name(lanes)):
        writer.function(name(lanes), _Text(lanes).text())


class _Text:
    def __init__(self, lanes: int) -> None:
        self.lanes, self.t, self.n = lanes, f"<{lanes} x double>", f"<{lanes} x i64>"
        self.lines: list[str] = []

    def text(self) -> str:
        k, r = self._reduce()
        e = self._expm1(k, r)
        y = self.op(f"fdiv {self.t} {e}, {self.op(f'fadd {self.t} {e}, {self.all(2.0)}')}")
        out = self.op(f"call {self.t} @llvm.copysign.v{self.lanes}f64({self.t} {y}, {self.t} %x)")
        head = f"define internal {self.t} @{name(self.lanes)}({self.t} %x) memory(none) nounwind willreturn"
        return "\n".join([f"{head} {{", *self.lines, f"  ret {self.t} {out}", "}", ""])

    def op(self, text: str) -> str:
        self.lines.append(f"  %v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def all(self, x: float) -> str:
        """The same number in all lanes."""
        bits = struct.unpack("<Q", struct.pack("<d", x))[0]
        return f"splat (double 0x{bits:016X})"

    def fma(self, a: str, b: str, c: str) -> str:
        t = self.t
        return self.op(f"call {t} @llvm.fma.v{self.lanes}f64({t} {a}, {t} {b}, {t} {c})")

    def _reduce(self) -> tuple[str, str]:
        """(``k`` plus ``SHIFT``, ``r``)."""
        t = self.t
        a = self.op(f"call {t} @llvm.fabs.v{self.lanes}f64({t} %x)")
        far = self.op(f"fcmp ogt {t} {a}, {self.all(BEYOND)}")
        a = self.op(f"select <{self.lanes} x i1> {far}, {t} {self.all(BEYOND)}, {t} {a}")
        twice = self.op(f"fadd {t} {a}, {a}")
        shifted = self.fma(twice, self.all(1 / math.log(2)), self.all(SHIFT))
        k = self.op(f"fsub {t} {shifted}, {self.all(SHIFT)}")
        r = self.fma(k, self.all(-LN2_HIGH), twice)
        return shifted, self.fma(k, self.all(-LN2_LOW), r)

    def _expm1(self, shifted: str, r: str) -> str:
        """``exp(2a) − 1``; the last bits of ``shifted`` are ``k``."""
        t, n = self.t, self.n
        bits = self.op(f"bitcast {t} {shifted} to {n}")
        exponent = self.op(f"add {n} {self.op(f'shl {n} {bits}, splat (i64 52)')}, splat (i64 {1023 << 52})")
        power = self.op(f"bitcast {n} {exponent} to {t}")
        terms = [self.all(1 / math.factorial(i)) for i in range(2, DEGREE + 1)]
        p = self.fma(self.op(f"fmul {t} {r}, {r}"), self._polynomial(terms, r), r)
        return self.fma(power, p, self.op(f"fsub {t} {power}, {self.all(1.0)}"))

    def _polynomial(self, terms: list[str], x: str) -> str:
        """The polynomial with these coefficients, constant first: neighbours in pairs, then pairs of these, …"""
        while len(terms) > 1:
            pairs = [self.fma(high, x, low) for low, high in zip(terms[::2], terms[1::2])]
            terms = pairs + terms[2 * len(pairs):]
            x = self.op(f"fmul {self.t} {x}, {x}")
        return terms[0]
