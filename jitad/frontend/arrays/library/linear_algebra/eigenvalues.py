"""``numpy.linalg.eigh`` and ``eigvalsh``: a symmetric matrix becomes tridiagonal, and then diagonal.

Householder's reflections make it tridiagonal, QL steps with implicit shifts diagonal (Golub and Van Loan, *Matrix
Computations*, sections 8.3.1 and 8.3.3).  Derivatives: Giles, *An extended collection of matrix derivative results*
(2008), section 3.1.  Those of eigenvectors do not exist for eigenvalues that are equal: what is infinite is left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ....callables.custom import custom_vjp
from ..marks import in_range
from .orthogonal import reflect, reflector, scale_of
from .solving import each, matrices

EighResult = type(np.linalg.eigh(np.ones((1, 1))))
MOST_STEPS = 50
"""The most QL steps for one eigenvalue; two are usual."""


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in ascending order, and eigenvectors as columns, of which only the signs differ from NumPy's."""
    return EighResult(*of_each(triangle_of(a, UPLO)))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    a = triangle_of(a, UPLO)
    return each(eigenvalues, a, a.shape[-1:])


def triangle_of(a: Any, uplo: str) -> Any:
    """The matrices with the triangle that counts as the lower one."""
    if uplo.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    a = matrices(a)
    return a if uplo.upper() == "L" else np.swapaxes(a, -1, -2)


def of_each(a: Any) -> Any:
    if a.ndim == 2:
        return eigenpairs(a)
    w, v = np.empty(a.shape[:-1], a.dtype), np.empty(a.shape, a.dtype)
    for i in range(len(a)):
        w[i], v[i] = of_each(a[i])
    return w, v


# --- the decomposition --------------------------------------------------------------------------------

def diagonalised(a: Any, vectors: bool) -> Any:
    """Eigenvalues in ascending order, and eigenvectors as rows: none of them without ``vectors``."""
    n, scale = len(a), scale_of(a)
    t = (np.tril(a) + np.tril(a, -1).T) / scale
    d, e, z = np.zeros(n, a.dtype), np.zeros(n, a.dtype), np.eye(n if vectors else 0, dtype=a.dtype)
    if n == 0:
        return d, z
    scales, v = tridiagonalise(t)
    for k in range(n):
        d[k] = t[k, k]
        if k + 1 < n:
            e[k] = t[k + 1, k]
    if vectors:
        for k in range(n - 3, -1, -1):
            v[0], v[1:n - k - 1] = 1, t[k + 2:, k]
            reflect(z, scales[k], v, k + 1, k + 1)
        z = z.T.copy()
    if not diagonalise(d, e, z, vectors):
        raise LinAlgError("Eigenvalues did not converge")
    order = np.argsort(d)
    return d[order] * scale, z[order] if vectors else z


def tridiagonalise(t: Any) -> Any:
    """Makes a symmetric matrix tridiagonal; below the diagonals it has the reflections then.  Returns their scales."""
    n = len(t)
    scales, v = np.zeros(n, t.dtype), np.zeros(n, t.dtype)
    for k in range(n - 2):
        scales[k] = reflector(t[k + 1:, k], v)
        beta = v[0]
        v[0] = 1
        reflect_both(t, scales[k], v, k + 1)
        t[k + 1, k], t[k + 2:, k] = beta, v[1:n - k - 1]
    return scales, v


@in_range
def reflect_both(t: Any, tau: Any, v: Any, first: int) -> None:
    """H T H for H = I - τ v vᵀ and the symmetric part T of ``t`` from row and column ``first`` on."""
    n = len(t)
    w = np.zeros(n, t.dtype)
    for i in range(first, n):
        for j in range(first, n):
            w[j - first] += v[i - first] * t[i, j]
    half = w[0] * 0
    for j in range(n - first):
        w[j] *= tau
        half += w[j] * v[j]
    for j in range(n - first):
        w[j] -= 0.5 * tau * half * v[j]
    for i in range(first, n):
        for j in range(first, n):
            t[i, j] -= v[i - first] * w[j - first] + w[i - first] * v[j - first]


@in_range
def diagonalise(d: Any, e: Any, z: Any, vectors: bool) -> bool:
    """QL steps on the diagonal ``d`` and the one below, ``e``, until that is zero; turns the rows of ``z`` along.

    Returns False if they do not converge, as for NaN.
    """
    n, small = len(d), np.finfo(d.dtype).eps
    for first in range(n):
        steps = 0
        while True:
            last = first
            while last < n - 1 and not abs(e[last]) <= small * (abs(d[last]) + abs(d[last + 1])):
                last += 1
            if last == first:
                break
            steps += 1
            if steps > MOST_STEPS:
                return False
            step(d, e, z, first, last, vectors)
    return not math.isnan(np.sum(d))


@in_range
def step(d: Any, e: Any, z: Any, first: int, last: int, vectors: bool) -> None:
    """One QL step with Wilkinson's shift on rows ``first`` to ``last``."""
    g = (d[first + 1] - d[first]) / (2 * e[first])
    g = d[last] - d[first] + e[first] / (g + math.copysign(math.hypot(g, 1.0), g))
    s, c, p = d.dtype.type(1), d.dtype.type(1), d.dtype.type(0)
    for i in range(last - 1, first - 1, -1):
        f, b = s * e[i], c * e[i]
        r = np.hypot(f, g)
        e[i + 1] = r
        if r == 0:                                      # the matrix falls apart here
            d[i + 1] -= p
            e[last] = 0
            return
        s, c = f / r, g / r
        g = d[i + 1] - p
        r = (d[i] - g) * s + 2 * c * b
        p = s * r
        d[i + 1] = g + p
        g = c * r - b
        if vectors:
            for j in range(z.shape[1]):
                x, y = z[i, j], z[i + 1, j]
                z[i, j], z[i + 1, j] = c * x - s * y, s * x + c * y
    d[first] -= p
    e[first] = g
    e[last] = 0


# --- derivatives --------------------------------------------------------------------------------------

@custom_vjp
def eigenpairs(a: Any) -> Any:
    w, z = diagonalised(a, True)
    return w, z.T.copy()


@custom_vjp
def eigenvalues(a: Any) -> Any:
    return diagonalised(a, False)[0]


def inverted(x: Any) -> Any:
    """1 / x, and 0 where x is 0."""
    return np.where(x == 0, 0, 1 / np.where(x == 0, 1, x))


def apart(w: Any) -> Any:
    """1 / (w[j] - w[i]), and 0 where they are equal."""
    return inverted(w - w[:, None])


def folded(bar: Any) -> Any:
    """The cotangent of the lower triangle, which alone is read, from that of a symmetric matrix."""
    return np.tril(bar + bar.T) - np.diag(np.diagonal(bar))


def pairs_backward(kept: Any, bars: Any) -> Any:
    (w, v), (w_bar, v_bar) = kept, bars
    return (folded(v @ (np.diag(w_bar) + apart(w) * (v.T @ v_bar)) @ v.T),)


def pairs_forward(a: Any) -> Any:
    w, v = eigenpairs(a)
    return (w, v), (w, v)


def pairs_along(primals: Any, tangents: Any) -> Any:
    w, v = eigenpairs(*primals)
    moved = turned(v, tangents)
    return (w, v), (np.diagonal(moved), v @ (apart(w) * moved))


def turned(v: Any, tangents: Any) -> Any:
    """Vᵀ Ȧ V for the symmetric matrix of which the lower triangle counts."""
    (a_dot,) = tangents
    return v.T @ (np.tril(a_dot) + np.tril(a_dot, -1).T) @ v


def values_forward(a: Any) -> Any:
    w, v = eigenpairs(a)
    return w, v


def values_along(primals: Any, tangents: Any) -> Any:
    w, v = eigenpairs(*primals)
    return w, np.diagonal(turned(v, tangents))


eigenpairs.defvjp(pairs_forward, pairs_backward)
eigenpairs.defjvp(pairs_along)
eigenvalues.defvjp(values_forward, lambda v, w_bar: (folded((v * w_bar) @ v.T),))
eigenvalues.defjvp(values_along)
