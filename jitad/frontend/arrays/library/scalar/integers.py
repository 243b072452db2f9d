"""``math`` functions and methods of integers."""

from __future__ import annotations

import math

LARGEST_ROOT = 3037000499                 # the integer square root of the largest 64-bit integer
FACTORIALS = 20                           # 21! does not fit in 64 bits


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
    root = int(math.sqrt(n))              # off by at most one
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
        shared = gcd(out, i + 1)                              # avoids overflow of the product with n - i
        out = out // shared * ((n - i) // ((i + 1) // shared))
    return out


def pow_modulo(base: int, exponent: int, modulus: int) -> int:
    """``pow(base, exponent, modulus)`` by repeated squaring.  The square of the modulus must fit in 64 bits."""
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
    """The inverse of ``a`` by the extended Euclidean algorithm; raises ``ValueError`` if there is none."""
    b, x, y = abs(modulus), 1, 0
    a = a % b
    while b != 0:
        q = a // b
        a, b, x, y = b, a - q * b, y, x - q * y
    if a != 1:
        raise ValueError("base is not invertible for the given modulus")
    return x
