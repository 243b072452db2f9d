"""Functions of the standard library that are no operation of the IR, written out in Python.

They are traced like the user's own functions, and differentiated with them.  ``WRITTEN`` says which stands for which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

LARGEST_ROOT = 3037000499                 # of a 64-bit integer
FACTORIALS = 20                           # 21! does not fit in 64 bits
PARTIALS = 1100


# --- integers ---------------------------------------------------------------------------------------

def gcd(*integers: int) -> int:
    a = 0
    for b in integers:
        while b != 0:
            a, b = b, a % b
    return abs(a)


def lcm(*integers: int) -> int:
    a = 1
    for b in integers:
        a = 0 if b == 0 else abs(a // gcd(a, b) * b)
    return a


def isqrt(n: int) -> int:
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    root = int(math.sqrt(n))              # at most one off
    if root > LARGEST_ROOT or root * root > n:
        return root - 1
    return root + 1 if root < LARGEST_ROOT and (root + 1) * (root + 1) <= n else root


def factorial(n: int) -> int:
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    if n > FACTORIALS:
        raise OverflowError("a factorial above 20! does not fit in 64 bits")
    return perm(n, n)


def perm(n: int, k: int | None = None) -> int:
    if k is None:
        return factorial(n)
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    out = 1 if k <= n else 0
    for i in range(k if k <= n else 0):
        out *= n - i
    return out


def comb(n: int, k: int) -> int:
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    out = 1 if k <= n else 0
    for i in range(min(k, n - k) if k <= n else 0):
        shared = gcd(out, i + 1)                              # the product with n - i alone may not fit
        out = out // shared * ((n - i) // ((i + 1) // shared))
    return out


def bit_length(n: int) -> int:
    bits = 0
    if n < 0:                                        # -n may not fit, its half does
        n, bits = -((n + 1) >> 1), 1
    while n != 0:
        n, bits = n >> 1, bits + 1
    return bits


def bit_count(n: int) -> int:
    n, bits = abs(n), 0
    while n != 0:
        n, bits = n & (n - 1), bits + 1
    return bits


def pow_modulo(base: int, exponent: int, modulus: int) -> int:
    """By squaring.  The square of the modulus must fit in 64 bits."""
    if modulus == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    if abs(modulus) > LARGEST_ROOT:
        raise OverflowError("pow() with a modulus whose square does not fit in 64 bits")
    if exponent < 0:
        base, exponent = inverse_modulo(base, modulus), -exponent
    out, base = 1 % modulus, base % modulus
    while exponent > 0:
        if exponent & 1:
            out = out * base % modulus
        base, exponent = base * base % modulus, exponent >> 1
    return out


def inverse_modulo(a: int, modulus: int) -> int:
    """Euclid's algorithm, with the factor of ``a`` kept."""
    b, x, y = abs(modulus), 1, 0
    a = a % b
    while b != 0:
        q = a // b
        a, b, x, y = b, a - q * b, y, x - q * y
    if a != 1:
        raise ValueError("base is not invertible for the given modulus")
    return x


# --- floats -----------------------------------------------------------------------------------------

def gamma(x: float) -> float:
    """By ``lgamma``, whose sign changes from one negative integer to the next."""
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        raise ValueError("math domain error")
    if math.isnan(x):
        return x
    size = math.exp(math.lgamma(x))
    return size if x > 0 or math.floor(x) % 2 == 0 else -size


def modf(x: float) -> tuple[float, float]:
    if math.isinf(x):
        return math.copysign(0.0, x), x
    if math.isnan(x):
        return x, x
    fraction = math.fmod(x, 1.0)
    return fraction, math.copysign(x - fraction, x)


def ldexp(x: float, i: int) -> float:
    """In two steps, since 2ⁱ alone may not be a float; where the result is one, the first step is exact."""
    if not math.isfinite(x):
        return x
    i = max(-2200, min(2200, i))
    if i > 1023:                          # then this is exact, or the result is infinite too
        x, i = x * 2.0 ** 1023, i - 1023
    first = i // 2
    return x * 2.0 ** first * 2.0 ** (i - first)


def frexp(x: float) -> tuple[float, int]:
    if x == 0 or not math.isfinite(x):
        return x, 0
    exponent = math.floor(math.log2(abs(x))) + 1          # at most one off
    fraction = ldexp(x, -exponent)
    if abs(fraction) >= 1:
        return fraction / 2, exponent + 1
    return (fraction * 2, exponent - 1) if abs(fraction) < 0.5 else (fraction, exponent)


def remainder(x: float, y: float) -> float:
    """The IEEE 754 remainder, as CPython computes it."""
    if math.isnan(x) or math.isnan(y):
        return x + y
    if math.isinf(x) or y == 0:
        raise ValueError("math domain error")
    if math.isinf(y):
        return x
    sign = math.copysign(1.0, x)
    size, step = x * sign, abs(y)         # not abs(x), whose derivative is 0 at 0
    low = math.fmod(size, step)
    high = step - low
    if low < high:
        r = low
    elif low > high:
        r = -high
    else:
        r = low - 2.0 * math.fmod(0.5 * (size - low), step)
    return r * sign


def fsum(items: Any) -> float:
    """Shewchuk's sum, as CPython writes it: exact, and rounded once, at the end."""
    partials, so_far = no_partials()
    for item in items:
        so_far = added_exactly(partials, so_far, float(item))
    return added_up(partials, so_far)


def no_partials() -> Any:
    """``partials`` hold by size what has been added, exactly and without common bits; with more of them than there are
    exponents of floats two would be adjacent.  Beside them: how many, the sum of NaN and infinities, of infinities,
    and 0.0, whose derivative is the sum's.
    """
    return np.empty(PARTIALS), (0, 0.0, 0.0, 0.0)


def constant(x: float) -> float:
    """``x``, which differentiation takes for a constant (``reducing`` has the rule)."""
    return x


def added_exactly(partials: Any, so_far: Any, given: float) -> Any:
    n, special, infinite, slope = so_far
    x = whole = constant(given)
    slope += given - x if math.isfinite(x) else 0.0
    kept = 0
    for j in range(n):
        y = partials[j]
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0:
            partials[kept] = low
            kept += 1
        x = high
    if x != 0 and math.isfinite(x):
        partials[kept] = x
        kept += 1
    elif x != 0:
        if math.isfinite(whole):
            raise OverflowError("intermediate overflow in fsum")
        infinite += whole if math.isinf(whole) else 0.0
        special += whole
        kept = 0
    return kept, special, infinite, slope


def added_up(partials: Any, so_far: Any) -> float:
    n, special, infinite, slope = so_far
    if special != 0:
        if math.isnan(infinite):
            raise ValueError("-inf + inf in fsum")
        return special + slope
    return rounded_sum(partials, n) + slope


def rounded_sum(partials: Any, n: int) -> float:
    """What ``n`` partials add up to; half-way between two floats the next partial decides."""
    if n == 0:
        return 0.0
    n -= 1
    total, low = partials[n] + 0.0, 0.0
    while n > 0 and low == 0:
        n -= 1
        x, y = total, partials[n]
        total = x + y
        low = y - (total - x)
    if n > 0 and (low < 0 and partials[n - 1] < 0 or low > 0 and partials[n - 1] > 0):
        twice = low * 2.0
        further = total + twice
        if twice == further - total:
            total = further
    return total


def sumprod(p: Any, q: Any) -> Any:
    return sum(x * y for x, y in zip(p, q, strict=True))


WRITTEN: dict[Any, Callable[..., Any]] = {
    math.gcd: gcd, math.lcm: lcm, math.isqrt: isqrt, math.factorial: factorial, math.perm: perm, math.comb: comb,
    math.gamma: gamma, math.modf: modf, math.ldexp: ldexp, math.frexp: frexp, math.remainder: remainder,
    **({math.sumprod: sumprod} if hasattr(math, "sumprod") else {}),
}
INT_METHODS: dict[str, Callable[..., Any]] = {"bit_length": bit_length, "bit_count": bit_count}
