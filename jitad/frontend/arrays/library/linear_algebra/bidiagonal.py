"""Singular values and vectors: a matrix becomes bidiagonal, and then diagonal.

Householder's reflections from both sides make it bidiagonal, QR steps with implicit shifts diagonal (Golub and Van
Loan, *Matrix Computations*, section 8.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ..marks import in_range
from .orthogonal import householder, reflect, reflector, scale_of

MOST_STEPS = 50
"""The most QR steps for one singular value; two are usual."""


def decomposed(a: Any, vectors: bool) -> Any:
    """The min(m, n) singular values in descending order, U and Vᵀ, which are empty without ``vectors``."""
    m, n = a.shape
    rank, scale = min(m, n), scale_of(a)
    u, vt = np.empty((m, rank if vectors else 0), a.dtype), np.empty((rank if vectors else 0, n), a.dtype)
    tall, square = np.empty((max(m, n), rank), a.dtype), np.empty((rank, rank), a.dtype)
    tall[:] = a.T / scale if m < n else a / scale
    if m == n:
        square[:] = tall
    else:
        tall, square[:] = householder(tall, rank)
    s, left, right = decomposed_square(square, vectors)
    if vectors:
        longer = np.empty((rank, max(m, n)), a.dtype)
        longer[:] = left if m == n else left @ tall.T
        u[:], vt[:] = (right.T, longer) if m < n else (longer.T, right)
    return s * scale, u, vt


def decomposed_square(a: Any, vectors: bool) -> Any:
    """Singular values, and singular vectors as rows; ``a`` is overwritten."""
    n = len(a)
    d, f = np.zeros(n, a.dtype), np.zeros(n, a.dtype)
    ut, vt = (np.eye(n if vectors else 0, dtype=a.dtype) for _ in range(2))
    if n == 0:
        return d, ut, vt
    left, right, v = bidiagonalise(a, d, f)
    if vectors:
        for k in range(n - 1, -1, -1):
            v[0], v[1:n - k] = 1, a[k + 1:, k]
            reflect(ut, left[k], v, k, k)
        for k in range(n - 3, -1, -1):
            v[0], v[1:n - k - 1] = 1, a[k, k + 2:]
            reflect(vt, right[k], v, k + 1, k + 1)
        ut, vt = ut.T.copy(), vt.T.copy()
    if not diagonalise(d, f, ut, vt):
        raise LinAlgError("SVD did not converge")
    for k in range(n):
        if d[k] < 0:
            d[k] = -d[k]
            if vectors:
                vt[k] = -vt[k]
    order = np.argsort(-d)
    return (d[order], ut[order], vt[order]) if vectors else (d[order], ut, vt)


def bidiagonalise(a: Any, d: Any, f: Any) -> Any:
    """Stores the diagonal, the one above it, and the reflections below and right of them in ``a``.

    Returns the scales of the reflections from the left and from the right.
    """
    n = len(a)
    left, right, v = np.zeros(n, a.dtype), np.zeros(n, a.dtype), np.zeros(n, a.dtype)
    for k in range(n):
        left[k] = reflector(a[k:, k], v)
        d[k], a[k + 1:, k] = v[0], v[1:n - k]
        v[0] = 1
        reflect(a, left[k], v, k, k + 1)
        if k + 2 < n:
            right[k] = reflector(a[k, k + 1:], v)
            f[k], a[k, k + 2:] = v[0], v[1:n - k - 1]
            v[0] = 1
            reflect_rows(a, right[k], v, k + 1)
        elif k + 1 < n:
            f[k] = a[k, k + 1]
    return left, right, v


@in_range
def reflect_rows(a: Any, tau: Any, v: Any, first: int) -> None:
    """Applies I - τ v vᵀ to the rows of ``a`` from ``first`` on, in the columns from ``first`` on."""
    n = len(a)
    for i in range(first, n):
        w = tau * 0
        for j in range(first, n):
            w += a[i, j] * v[j - first]
        w *= tau
        for j in range(first, n):
            a[i, j] -= w * v[j - first]


@in_range
def diagonalise(d: Any, f: Any, ut: Any, vt: Any) -> bool:
    """QR steps on the diagonal ``d`` and the one above, ``f``, until that is zero; turns the rows of U and V along.

    Returns False if they do not converge, as for NaN.
    """
    small = np.finfo(d.dtype).eps
    largest = d[0] * 0
    for k in range(len(d)):
        largest = max(largest, abs(d[k]), abs(f[k]))
    if not np.isfinite(np.sum(d) + np.sum(f)):
        return False
    least = small * small * largest
    for end in range(len(d) - 1, 0, -1):
        steps = 0
        while True:
            first = end
            while first > 0 and abs(f[first - 1]) > small * (abs(d[first - 1]) + abs(d[first])) + least:
                first -= 1
            if first == end:
                break
            f[first - 1 if first > 0 else end] = 0
            steps += 1
            if steps > MOST_STEPS:
                return False
            zero = first
            while zero < end and abs(d[zero]) > small * largest:
                zero += 1
            if zero < end:
                split(d, f, ut, zero, end, least)
            else:
                step(d, f, ut, vt, first, end)
        f[end - 1] = 0
    return True


@in_range
def split(d: Any, f: Any, ut: Any, zero: int, end: int, least: Any) -> None:
    """Removes the element right of a diagonal element that is zero, by rotations of its row with those below."""
    beside = f[zero]
    d[zero] = f[zero] = 0
    for k in range(zero + 1, end + 1):
        if abs(beside) <= least:
            return
        r = np.hypot(d[k], beside)
        c, s = d[k] / r, beside / r
        d[k] = r
        turn(ut, zero, k, c, s)
        beside = -s * f[k]
        f[k] *= c


@in_range
def step(d: Any, f: Any, ut: Any, vt: Any, first: int, end: int) -> None:
    """One QR step on rows ``first`` to ``end``, with the eigenvalue of the last two rows of BᵀB as the shift."""
    scale = max(abs(d[first]), abs(f[first]), abs(d[end]), abs(d[end - 1]), abs(f[end - 1]))
    p, q, g = d[end - 1] / scale, d[end] / scale, f[end - 1] / scale
    before = f[end - 2] / scale if end - 1 > first else g * 0
    a, b, both = p * p + before * before, q * q + g * g, p * g
    half = (a - b) / 2
    shift = b
    if both != 0:
        shift = b - both * both / (half + np.copysign(np.hypot(half, both), half))
    x = d[first] / scale
    y, z = x * x - shift, x * (f[first] / scale)
    for k in range(first, end):
        r = np.hypot(y, z)
        c, s = (y / r, z / r) if r != 0 else (r + 1, r)
        if k > first:
            f[k - 1] = r
        y, f[k] = c * d[k] + s * f[k], c * f[k] - s * d[k]
        z, d[k + 1] = s * d[k + 1], c * d[k + 1]
        turn(vt, k, k + 1, c, -s)
        r = np.hypot(y, z)
        c, s = (y / r, z / r) if r != 0 else (r + 1, r)
        d[k] = r
        y, d[k + 1] = c * f[k] + s * d[k + 1], c * d[k + 1] - s * f[k]
        if k + 1 < end:
            z, f[k + 1] = s * f[k + 1], c * f[k + 1]
        turn(ut, k, k + 1, c, -s)
    f[end - 1] = y


@in_range
def turn(a: Any, p: int, q: int, c: Any, s: Any) -> None:
    """Rows p and q become c p - s q and s p + c q."""
    for j in range(a.shape[1]):
        x, y = a[p, j], a[q, j]
        a[p, j], a[q, j] = c * x - s * y, s * x + c * y
