"""``numpy.linalg.svd`` and what stands on it: ``svdvals``, ``pinv``, ``lstsq``, ``matrix_rank``, ``cond``.

Derivatives: Townsend, *Differentiating the singular value decomposition* (2016); Golub and Pereyra, *The
differentiation of pseudo-inverses and nonlinear least squares problems* (1973).  Those of singular vectors do not exist
for values that are equal: what is infinite is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ....callables.custom import custom_vjp
from ..marks import constant, refuse
from .bidiagonal import decomposed
from .eigenvalues import inverted
from .orthogonal import householder
from .solving import each, floats, inv, rectangles

SVDResult = type(np.linalg.svd(np.ones((1, 1))))


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """U, the singular values in descending order, and Vᵀ with A = U diag(s) Vᵀ.

    The signs of the vectors are not NumPy's, nor are the vectors of a value that is there several times.
    """
    if hermitian:
        refuse("`np.linalg.svd` with hermitian=True", "np.linalg.eigh")
    a = rectangles(a)
    return SVDResult(*of_each(a, full_matrices)) if compute_uv else values_of_each(a)


def svdvals(x: Any, /) -> Any:
    return values_of_each(rectangles(x))


def of_each(a: Any, full: bool) -> Any:
    if a.ndim == 2:
        return whole(*triplets(a)) if full else triplets(a)
    m, n = a.shape[-2], a.shape[-1]
    rank = min(m, n)
    u = np.empty((*a.shape[:-2], m, m if full else rank), a.dtype)
    s = np.empty((*a.shape[:-2], rank), a.dtype)
    vt = np.empty((*a.shape[:-2], n if full else rank, n), a.dtype)
    for i in range(len(a)):
        u[i], s[i], vt[i] = of_each(a[i], full)
    return u, s, vt


def values_of_each(a: Any) -> Any:
    return each(singular_values, a, (min(a.shape[-2], a.shape[-1]),))


def whole(u: Any, s: Any, vt: Any) -> Any:
    return with_complement(u), s, with_complement(vt.T).T


def with_complement(u: Any) -> Any:
    """Orthonormal columns, and columns that make them a square matrix."""
    m, n = u.shape
    if m == n:
        return u
    return np.concatenate((u, householder(u, m)[0][:, n:]), axis=1)


# --- derivatives --------------------------------------------------------------------------------------

@custom_vjp
def triplets(a: Any) -> Any:
    s, u, vt = decomposed(a, True)
    return u, s, vt


@custom_vjp
def singular_values(a: Any) -> Any:
    return decomposed(a, False)[0]


def apart(s: Any) -> Any:
    """1 / (s[j]² - s[i]²), and 0 where they are equal."""
    return inverted((s - s[:, None]) * (s + s[:, None]))


def triplets_forward(a: Any) -> Any:
    u, s, vt = triplets(a)
    return (u, s, vt), (u, s, vt)


def triplets_backward(kept: Any, bars: Any) -> Any:
    (u, s, vt), (u_bar, s_bar, vt_bar) = kept, bars
    gaps, inverse, v_bar = apart(s), inverted(s), vt_bar.T
    of_u, of_v = u.T @ u_bar, vt @ v_bar
    inside = gaps * (of_u - of_u.T) * s + s[:, None] * (gaps * (of_v - of_v.T)) + np.diag(s_bar)
    beyond_u, beyond_v = (u_bar - u @ of_u) * inverse, (v_bar - vt.T @ of_v) * inverse
    return (u @ inside @ vt + beyond_u @ vt + u @ beyond_v.T,)


def triplets_along(primals: Any, tangents: Any) -> Any:
    u, s, vt = triplets(*primals)
    (a_dot,) = tangents
    gaps, inverse, moved = apart(s), inverted(s), u.T @ a_dot @ vt.T
    of_u = gaps * (moved * s + s[:, None] * moved.T)
    of_v = gaps * (s[:, None] * moved + moved.T * s)
    u_dot = u @ of_u + (a_dot @ vt.T - u @ moved) * inverse
    v_dot = vt.T @ of_v + (a_dot.T @ u - vt.T @ moved.T) * inverse
    return (u, s, vt), (u_dot, np.diagonal(moved), v_dot.T)


def values_forward(a: Any) -> Any:
    u, s, vt = triplets(a)
    return s, (u, vt)


def values_along(primals: Any, tangents: Any) -> Any:
    u, s, vt = triplets(*primals)
    return s, np.diagonal(u.T @ tangents[0] @ vt.T)


triplets.defvjp(triplets_forward, triplets_backward)
triplets.defjvp(triplets_along)
singular_values.defvjp(values_forward, lambda kept, s_bar: ((kept[0] * s_bar) @ kept[1],))
singular_values.defjvp(values_along)


# --- pseudo-inverses ----------------------------------------------------------------------------------

@custom_vjp
def pseudo_inverse(a: Any, least: Any) -> Any:
    """The inverse on the singular vectors whose values are above ``least`` times the largest one."""
    s, u, vt = decomposed(a, True)
    return (vt.T * np.where(s > least * np.max(s, initial=0), inverted(s), 0)) @ u.T


def inverse_forward(a: Any, least: Any) -> Any:
    p = pseudo_inverse(a, least)
    return p, (a, p)


def inverse_backward(kept: Any, bar: Any) -> Any:
    a, p = kept
    left, right = bar - (bar @ a) @ p, bar - p @ (a @ bar)
    return (-(p.T @ bar) @ p.T + (left.T @ p) @ p.T + p.T @ (p @ right.T), None)


def inverse_along(primals: Any, tangents: Any) -> Any:
    a, p, a_dot = primals[0], pseudo_inverse(*primals), tangents[0]
    beyond_rows, beyond_columns = a_dot.T - (a_dot.T @ a) @ p, a_dot.T - p @ (a @ a_dot.T)
    return p, -p @ a_dot @ p + p @ (p.T @ beyond_rows) + beyond_columns @ (p.T @ p)


pseudo_inverse.defvjp(inverse_forward, inverse_backward)
pseudo_inverse.defjvp(inverse_along)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The pseudo-inverse; singular values up to ``rcond`` (10⁻¹⁵) times the largest one count as zero."""
    if rtol is not None:
        if rcond is not None:
            raise ValueError("`rtol` and `rcond` can't be both set.")
        rcond = rtol
    if hermitian:
        refuse("`np.linalg.pinv` with hermitian=True", "the same without it")
    a = rectangles(a)
    least = 1e-15 if rcond is None else rcond
    return each(lambda m: pseudo_inverse(m, least), a, (a.shape[-1], a.shape[-2]))


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The x of least norm that minimises |A x - b|; the sums of squares that are left, the rank, the singular values.

    The sums are empty if the rank is not the number of columns, or there are not more rows than columns.
    """
    a, b = floats(a), floats(b)
    if a.ndim != 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    if b.ndim not in (1, 2):
        raise LinAlgError(f"{b.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if len(b) != m:
        raise LinAlgError("Incompatible dimensions")
    if a.dtype != b.dtype:
        a, b = a.astype(float), b.astype(float)
    least = np.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    s = singular_values(a)
    rank = np.int32(np.sum(s > least * np.max(s, initial=0)))
    x = pseudo_inverse(a, least) @ b
    rest = b - a @ x
    left = np.sum(rest * rest, axis=0).reshape(-1)
    return x, left[:len(left) if rank == n and m > n else 0], rank, s


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values above ``tol``, by default max(m, n) ε times the largest one."""
    if hermitian:
        refuse("`np.linalg.matrix_rank` with hermitian=True", "the same without it")
    a = floats(A)
    if a.ndim < 2:
        return int(np.any(a != 0))
    s = values_of_each(constant(a))
    if tol is None:
        least = np.finfo(a.dtype).eps * max(a.shape[-2], a.shape[-1]) if rtol is None else rtol
        tol = least * np.max(s, axis=-1, keepdims=True, initial=0)
    elif rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    return np.count_nonzero(s > tol, axis=-1)


def cond(x: Any, p: Any = None) -> Any:
    """The ratio of the largest to the smallest singular value; with ``p``, the norm of A times that of its inverse."""
    x = rectangles(x)
    if x.size == 0 and x.shape[-1] * x.shape[-2] == 0:
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p == 2 or p == -2:
        s = np.moveaxis(values_of_each(x), -1, 0)
        return s[-1] / s[0] if p == -2 else s[0] / s[-1]
    return np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(inv(x), p, axis=(-2, -1))
