"""``numpy.linalg.qr``: Householder's factorisation, with the signs of LAPACK's.

Golub and Van Loan, *Matrix Computations*, section 5.2; the derivative of the reduced factorisation of a matrix that is
not wide: Walter and Lehmann, *Algorithmic Differentiation of Linear Algebra Functions* (2010).  Of a wide matrix, and
of a complete factorisation, the steps are differentiated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....callables.custom import custom_vjp
from ..marks import in_range, refuse
from .factorisations import solved_lower
from .solving import each, rectangles

QRResult = type(np.linalg.qr(np.ones((1, 1))))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q and R with A = Q R; ``mode`` is "reduced", "complete" or "r" (R alone).  ``a`` may be a stack of matrices."""
    if mode not in ("reduced", "complete", "r"):
        if mode == "raw":
            refuse("`np.linalg.qr` with mode='raw'", "mode='complete'")
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = rectangles(a)
    if mode == "r":
        return each(lambda m: factors(m, False)[1], a, (min(a.shape[-2], a.shape[-1]), a.shape[-1]))
    return QRResult(*factors_of_each(a, mode == "complete"))


def factors_of_each(a: Any, complete: bool) -> Any:
    if a.ndim == 2:
        return factors(a, complete)
    m, n = a.shape[-2], a.shape[-1]
    columns = m if complete else min(m, n)
    q, r = np.empty((*a.shape[:-2], m, columns), a.dtype), np.empty((*a.shape[:-2], columns, n), a.dtype)
    for i in range(len(a)):
        q[i], r[i] = factors_of_each(a[i], complete)
    return q, r


def factors(a: Any, complete: bool) -> Any:
    m, n = a.shape
    if complete or m < n:
        return householder(a, m if complete else min(m, n))
    return thin_factors(a)


# --- the factorisation --------------------------------------------------------------------------------

def householder(a: Any, columns: int) -> Any:
    """The first columns of Q, and as many rows of R."""
    m, n = a.shape
    r, scales = a.copy(), np.zeros(min(m, n), a.dtype)
    v = np.zeros(m, a.dtype)
    for k in range(min(m - 1, n)):
        scales[k] = reflector(r[k:, k], v)
        r[k, k], r[k + 1:, k] = v[0], v[1:m - k]
        v[0] = 1
        reflect(r, scales[k], v, k, k + 1)
    q = np.eye(m, columns, dtype=a.dtype)
    for k in range(min(m - 1, n) - 1, -1, -1):
        v[0], v[1:m - k] = 1, r[k + 1:, k]
        reflect(q, scales[k], v, k, k)
    return q, np.triu(r[:columns])


def reflector(x: Any, v: Any) -> Any:
    """τ with (I - τ u uᵀ) x = β e₁, where u is 1 followed by ``v[1:]``, and β is stored in ``v[0]``."""
    n, largest = len(x), np.max(np.abs(x))
    v[:n] = x
    if not largest > 0 or not largest < math.inf:
        return np.sum(x) * 0                            # NaN for what is not finite
    first, rest = x[0] / largest, x[1:] / largest
    below = np.sum(rest * rest)
    if below == 0:
        return below
    beta = -math.copysign(np.sqrt(first * first + below), first)
    v[0], v[1:n] = beta * largest, rest / (first - beta)
    return (beta - first) / beta


def scale_of(a: Any) -> Any:
    """1, or the largest element if squares would overflow or vanish."""
    largest = np.max(np.abs(a), initial=0)
    least = np.sqrt(np.sqrt(np.finfo(a.dtype).tiny))
    return largest if 0 < largest < least or 1 / least < largest < np.inf else largest * 0 + 1


@in_range
def reflect(a: Any, tau: Any, v: Any, row: int, column: int) -> None:
    """Applies I - τ v vᵀ to the rows of ``a`` from ``row`` on, in the columns from ``column`` on."""
    m, n = a.shape
    w = np.zeros(n, a.dtype)
    for i in range(row, m):
        for j in range(column, n):
            w[j] += v[i - row] * a[i, j]
    for i in range(row, m):
        for j in range(column, n):
            a[i, j] -= tau * v[i - row] * w[j]


# --- derivatives --------------------------------------------------------------------------------------

@custom_vjp
def thin_factors(a: Any) -> Any:
    """Q and R of a matrix that has at least as many rows as columns."""
    return householder(a, a.shape[1])


def thin_forward(a: Any) -> Any:
    q, r = thin_factors(a)
    return (q, r), (q, r)


def thin_backward(kept: Any, bars: Any) -> Any:
    (q, r), (q_bar, r_bar) = kept, bars
    m = r @ r_bar.T - q_bar.T @ q
    symmetric = np.tril(m) + np.tril(m, -1).T
    return (solved_lower(True, r.T, (q_bar + q @ symmetric).T).T,)


def thin_along(primals: Any, tangents: Any) -> Any:
    q, r = thin_factors(*primals)
    (a_dot,) = tangents
    moved = solved_lower(False, r.T, a_dot.T).T
    inside = q.T @ moved
    turn = np.tril(inside, -1) - np.tril(inside, -1).T
    return (q, r), (q @ (turn - inside) + moved, (inside - turn) @ r)


thin_factors.defvjp(thin_forward, thin_backward)
thin_factors.defjvp(thin_along)
