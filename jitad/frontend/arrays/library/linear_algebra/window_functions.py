"""``np.i0`` and the windows of signal processing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NEAR = 8.0
# The power series of I₀ in x²/4, exact to the last digit for x ≤ 8.
SERIES = tuple(1.0 / math.factorial(k) ** 2 for k in range(26))
# Coefficients of exp(-x) √x I₀(x) in powers of 16/x - 1 for x ≥ 8: the Chebyshev series on [-1, 1], cut after 22 terms.
TAIL = (
    0.40217650944500816, 0.0033605519836677504, 0.00013621607437904054, 1.1143033800708978e-05, 1.48384809739718e-06,
    2.973596046562712e-07, 8.871360038754707e-08, 3.932889375114634e-08, 2.1620199017859248e-08, 7.534355843803342e-09,
    -7.1010934904762744e-09, -1.3326094405766387e-08, -4.305727426988361e-09, 7.3359687108161536e-09,
    5.191958083669399e-09, -3.1346276429240787e-09, -2.9337366286377844e-09, 1.1050558794424347e-09,
    9.735776625085242e-10, -2.8033819978869995e-10, -1.4824893214970786e-10, 3.629355229718733e-11,
)


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0; uses its power series near zero, which is smooth there."""
    x = np.asarray(x)
    if not np.issubdtype(x.dtype, np.floating):
        x = x.astype(float)
    near = np.abs(x) <= NEAR
    inside, outside = np.where(near, x, 0.0), np.where(near, NEAR, np.abs(x))
    tail = _horner(TAIL, 2 * NEAR / outside - 1.0)
    return np.where(near, _horner(SERIES, inside * inside / 4), np.exp(outside) * tail / np.sqrt(outside))


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    y = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        y = y * x + c
    return y


def bartlett(M: Any) -> Any:
    n = _centred(M) / _half(M)
    return np.where(n <= 0, 1 + n, 1 - n)


def blackman(M: Any) -> Any:
    angle = _angle(M)
    return 0.42 + 0.5 * np.cos(angle) + 0.08 * np.cos(2.0 * angle)


def hamming(M: Any) -> Any:
    return 0.54 + 0.46 * np.cos(_angle(M))


def hanning(M: Any) -> Any:
    return 0.5 + 0.5 * np.cos(_angle(M))


def kaiser(M: Any, beta: Any) -> Any:
    t = (2 * np.arange(M) - (M - 1)) / _half(M)
    return i0(beta * np.sqrt(1.0 - t * t)) / i0(float(beta))


def _centred(M: Any) -> Any:
    """The values -(M - 1), -(M - 3), …, M - 1; empty if M < 1."""
    return np.arange(1 - M, M, 2)


def _angle(M: Any) -> Any:
    return math.pi * _centred(M) / _half(M)


def _half(M: Any) -> Any:
    """The largest value of ``_centred(M)``; 1 if there is only one element, so that the quotient is 0."""
    return M - 1 if M != 1 else 1
