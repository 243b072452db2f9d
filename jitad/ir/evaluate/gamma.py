"""The derivatives of the logarithm of the gamma function: digamma, and polygamma of any order.

Sources: *NIST Digital Library of Mathematical Functions* (https://dlmf.nist.gov), 5.11 and 5.15 (asymptotic series,
reflection), 25.11 (the Hurwitz zeta function by Euler–Maclaurin summation).
"""

from __future__ import annotations

import math

# B(2j) / (2j)!, with the Bernoulli numbers B.
EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
                   -3617 / 10670622842880000)
HIGHEST = 170
"""Beyond this order n! is no float."""


def digamma(x: float) -> float:
    """The derivative of ``lgamma``: reflection below zero, recurrence up to 10, then the asymptotic series."""
    if x == math.inf or math.isnan(x):
        return x
    if x <= 0 and (x == -math.inf or x == math.floor(x)):
        return math.nan
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x - math.floor(x)))
    shift = 0.0
    while x < 10:
        shift, x = shift + 1 / x, x + 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - shift


def polygamma(n: float, x: float) -> float:
    """The derivative of order ``n``, rounded to an integer, of digamma: (−1)ⁿ⁺¹ n! ζ(n + 1, x); NaN at poles."""
    if math.isnan(n) or math.isnan(x) or not 0 <= round(min(max(n, -1), HIGHEST + 1)) <= HIGHEST:
        return math.nan
    n = round(n)
    if n == 0:
        return digamma(x)
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    sign = 1 if n % 2 else -1
    if x > 0:
        zeta = _zeta(n + 1, x)
    else:                                                # the sum over all of ℤ + x, less the terms below x
        f = x - math.floor(x)
        zeta = _zeta(n + 1, f) + sign * (_zeta(n + 1, 1 - f) - _zeta(n + 1, 1 - x))
    return sign * math.gamma(n + 1) * zeta


def _zeta(s: float, x: float) -> float:
    """Σ (x + k)⁻ˢ over k ≥ 0, for x > 0 and s ≥ 2: the first terms, then Euler and Maclaurin's formula."""
    if x == math.inf:
        return 0.0
    total = 0.0
    while x < s + 10:
        total, x = total + _power(x, -s), x + 1
    p = _power(x, -s)
    total += p * x / (s - 1) + p / 2
    term = s * p / x
    for j, c in enumerate(EULER_MACLAURIN, 1):
        total += c * term
        term *= (s + 2 * j - 1) * (s + 2 * j) / (x * x)
    return total


def _power(x: float, y: float) -> float:
    try:
        return float(x ** y)
    except OverflowError:
        return math.inf
