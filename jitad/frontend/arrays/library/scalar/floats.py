"""``math`` functions of floats."""

from __future__ import annotations

import math


def gamma(x: float) -> float:
    """The gamma function by ``lgamma``; its sign alternates between negative integers."""
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
    """x·2ⁱ in two steps, since 2ⁱ alone may overflow; the first step is exact if the result is a normal float."""
    if not math.isfinite(x):
        return x
    i = max(-2200, min(2200, i))
    if i > 1023:                          # this step is exact, or the result is infinite too
        x, i = x * 2.0 ** 1023, i - 1023
    first = i // 2
    return x * 2.0 ** first * 2.0 ** (i - first)


def frexp(x: float) -> tuple[float, int]:
    if x == 0 or not math.isfinite(x):
        return x, 0
    exponent = math.floor(math.log2(abs(x))) + 1          # off by at most one
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
    size, step = x * sign, abs(y)         # not abs(x), since its derivative is 0 at 0
    low = math.fmod(size, step)
    high = step - low
    if low < high:
        r = low
    elif low > high:
        r = -high
    else:
        r = low - 2.0 * math.fmod(0.5 * (size - low), step)
    return r * sign
