"""``np.poly…`` on arrays of coefficients, highest power first; ``np.vander``, ``np.trim_zeros``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import refuse
from .convolutions import convolve
from .singular_values import pseudo_inverse

NEARLY_ZERO = 1e-8            # the absolute tolerance of ``np.allclose``, which NumPy applies to remainders

def polyval(p: Any, x: Any) -> Any:
    """Evaluates by Horner's rule; the loop over a list of coefficients is unrolled, so ``x`` is read only once."""
    x = np.asarray(x)
    coefficients = p if isinstance(p, (list, tuple)) else np.asarray(p)
    y = np.zeros(x.shape, np.result_type(np.asarray(p), x))
    for c in coefficients:
        y = y * x + c
    return y


def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """The coefficients of least squares: powers of ``x`` with columns of length 1, times their pseudo-inverse."""
    if full or cov:
        refuse("`np.polyfit` with full= or cov=", "np.linalg.lstsq of np.vander")
    if deg < 0:
        raise ValueError("expected deg >= 0")
    x, y = np.asarray(x) + 0.0, np.asarray(y) + 0.0
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if len(x) == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim < 1 or y.ndim > 2:
        raise TypeError("expected 1D or 2D array for y")
    if len(x) != len(y):
        raise TypeError("expected x and y to have same length")
    powers = np.vander(x, int(deg) + 1)
    if w is not None:
        w = np.asarray(w) + 0.0
        if w.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if len(w) != len(y):
            raise TypeError("expected w and y to have the same length")
        powers = powers * w[:, None]
        y = y * (w if y.ndim == 1 else w[:, None])
    lengths = np.sqrt(np.sum(powers * powers, axis=0))
    least = len(x) * np.finfo(x.dtype).eps if rcond is None else rcond
    found = pseudo_inverse(powers / lengths, least) @ y
    return found / (lengths if y.ndim == 1 else lengths[:, None])


def polyadd(a1: Any, a2: Any) -> Any:
    a1, a2 = _as_long(a1, a2)
    return a1 + a2


def polysub(a1: Any, a2: Any) -> Any:
    a1, a2 = _as_long(a1, a2)
    return a1 - a2


def _as_long(a1: Any, a2: Any) -> Any:
    """Both polynomials, padded with leading zeros to the length of the longer one."""
    a1, a2 = np.atleast_1d(a1), np.atleast_1d(a2)
    n = max(len(a1), len(a2))
    return _longer(a1, n), _longer(a2, n)


def _longer(p: Any, n: int) -> Any:
    out = np.zeros(n, p.dtype)
    out[n - len(p):] = p
    return out


def polymul(a1: Any, a2: Any) -> Any:
    """The product; leading zeros of the factors are dropped first, as in NumPy, so the length gives the degree."""
    return convolve(_without_leading_zeros(np.atleast_1d(a1)), _without_leading_zeros(np.atleast_1d(a2)))


def _without_leading_zeros(p: Any) -> Any:
    if len(p) == 0:
        return np.zeros(1, p.dtype)
    return p[min(_leading_zeros(p), len(p) - 1):]


def _leading_zeros(p: Any) -> int:
    """The number of leading zeros."""
    k = 0
    while k < len(p) and p[k] == 0:
        k += 1
    return k


def polydiv(u: Any, v: Any) -> Any:
    """Returns quotient and remainder; leading coefficients of the remainder that are nearly zero are dropped."""
    u, v = np.atleast_1d(u) + 0.0, np.atleast_1d(v) + 0.0
    if len(u) == 0 or len(v) == 0:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")
    dtype, steps = np.result_type(u, v), len(u) - len(v) + 1
    q, r, scale = np.zeros(max(steps, 1), dtype), u.astype(dtype), 1.0 / v[0]
    for k in range(steps):
        q[k] = scale * r[k]
        r[k:k + len(v)] -= q[k] * v
    first = 0
    while first < len(r) - 1 and abs(r[first]) <= NEARLY_ZERO:
        first += 1
    return q, r[first:]


def poly(seq_of_zeros: Any) -> Any:
    """The monic polynomial with these roots, one factor multiplied in at a time."""
    roots = np.atleast_1d(seq_of_zeros)
    if roots.ndim != 1:
        refuse("`np.poly` of a matrix", "its eigenvalues")
    out = np.zeros(len(roots) + 1, roots.dtype if np.issubdtype(roots.dtype, np.floating) else np.float64)
    out[0] = 1
    for i in range(len(roots)):
        out[1:i + 2] -= roots[i] * out[:i + 1]
    return out


def polyder(p: Any, m: int = 1) -> Any:
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    if np.ndim(p) == 0:
        raise TypeError("len() of unsized object")
    p = np.atleast_1d(p)
    if m == 0:
        return p
    p = _derived(p)
    for _ in range(m - 1):
        p = _derived(p)
    return p


def _derived(p: Any) -> Any:
    """The derivative, which has one coefficient fewer; empty if ``p`` is empty."""
    n = max(len(p) - 1, 0)
    return p[:n] * np.arange(n, 0, -1)


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = np.atleast_1d(0.0 if k is None else k)
    if len(k) != 1 and len(k) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    if np.ndim(p) == 0:
        raise TypeError("len() of unsized object")
    p = np.atleast_1d(p)
    if m == 0:
        return p
    p = _integrated(p, k[0])
    for i in range(1, m):
        p = _integrated(p, k[i if len(k) > 1 else 0])
    return p


def _integrated(p: Any, constant: Any) -> Any:
    return np.append(p / np.arange(len(p), 0, -1), constant)


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = len(x) if N is None else N
    out = np.empty((len(x), n), np.promote_types(x.dtype, int))
    for i in range(len(x)):
        power = out.dtype.type(1)
        for j in range(n):
            out[i, j if increasing else n - 1 - j] = power
            power *= x[i]
    return out


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    if isinstance(filt, (list, tuple)):
        refuse("`np.trim_zeros` of a list, whose length must be known while tracing", "`np.array` of it first")
    filt = np.asarray(filt)
    if filt.ndim != 1 or axis not in (None, 0, -1, (0,), (-1,)):
        refuse("`np.trim_zeros` of anything but a vector", "slices, by the positions that `np.argwhere(a)` gives")
    start, stop = _leading_zeros(filt), len(filt) - _leading_zeros(filt[::-1])
    if start == len(filt):
        start, stop = 0, 0
    elif "f" not in trim:
        start = 0
    elif "b" not in trim:
        stop = len(filt)
    return filt[start:stop]
