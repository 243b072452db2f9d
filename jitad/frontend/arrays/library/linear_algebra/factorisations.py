"""Matrix factorisations and the solvers built on them, with derivative rules of their own.

The rules differentiate the equations that a result satisfies, not the steps that compute it.  So they save only the
factors, which serve every derivative (Giles, *An extended collection of matrix derivative results* (2008), sections 2.2
and 2.3; Murray, *Differentiation of the Cholesky decomposition* (2016)).  The factorisations are blocked, so most of
the work is in matrix products (Golub and Van Loan, *Matrix Computations*, chapters 3 and 4).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ....callables.custom import custom_vjp
from ..marks import constant, in_range

BLOCK = 48


def outer(x: Any, y: Any) -> Any:
    """x yᵀ for two vectors, or for two matrices whose columns are the vectors."""
    return x[:, None] * y if x.ndim == 1 else x @ y.T


# --- triangles --------------------------------------------------------------------------------------

def substituted(t: Any, b: Any, lower: bool, transposed: bool, unit: bool) -> Any:
    """Solves T x = b, or Tᵀ x = b if ``transposed``, for the triangle T of ``t``; ``unit``: its diagonal is ones."""
    n, x = len(t), b.copy()
    down = lower != transposed
    for begin in range(0, n, BLOCK):
        first = begin if down else max(n - begin - BLOCK, 0)
        last = min(begin + BLOCK, n) if down else n - begin
        x[first:last] -= known(t, x, first, last, down, transposed)
        substitute_block(t, x, first, last, down, transposed, unit)
    return x


def known(t: Any, x: Any, first: int, last: int, down: bool, transposed: bool) -> Any:
    """The contribution of the part of x that is already solved to rows ``first`` to ``last``."""
    if transposed:
        return t[:first, first:last].T @ x[:first] if down else t[last:, first:last].T @ x[last:]
    return t[first:last, :first] @ x[:first] if down else t[first:last, last:] @ x[last:]


@in_range
def substitute_block(t: Any, x: Any, first: int, last: int, down: bool, transposed: bool, unit: bool) -> None:
    for step in range(last - first):
        i = first + step if down else last - 1 - step
        if not unit:
            x[i] /= t[i, i]
        for j in range(i + 1 if down else first, last if down else i):
            x[j] -= (t[i, j] if transposed else t[j, i]) * x[i]


# --- P A = L U --------------------------------------------------------------------------------------

def lu_factors(a: Any) -> Any:
    """LU factorisation with partial pivoting: returns ``(lu, order, sign)``.

    ``lu`` holds L below its diagonal (L has a unit diagonal) and U on and above it.  Row ``order[i]`` of ``a`` is row i
    of L U; ``sign`` is the sign of that permutation.  A column of zeros stays as it is.
    """
    n = len(a)
    lu, order, signs = a.copy(), np.arange(n), np.ones(1, a.dtype)
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        factor_columns(lu, order, signs, first, last)
        lu[last:, last:] -= lu[last:, first:last] @ lu[first:last, last:]
    return lu, order, signs[0]


@in_range
def factor_columns(lu: Any, order: Any, signs: Any, first: int, last: int) -> None:
    """Factors columns ``first`` to ``last`` in place and computes the same rows of U to the right of them."""
    n = len(lu)
    for k in range(first, last):
        p, largest = k, abs(lu[k, k])
        for i in range(k + 1, n):
            if abs(lu[i, k]) > largest:
                p, largest = i, abs(lu[i, k])
        if p != k:
            for j in range(n):
                lu[k, j], lu[p, j] = lu[p, j], lu[k, j]
            order[k], order[p] = order[p], order[k]
            signs[0] = -signs[0]
        if largest != 0:
            for i in range(k + 1, n):
                lu[i, k] /= lu[k, k]
                for j in range(k + 1, last):
                    lu[i, j] -= lu[i, k] * lu[k, j]
    for k in range(first, last):
        for i in range(k + 1, last):
            for j in range(last, n):
                lu[i, j] -= lu[i, k] * lu[k, j]


@functools.partial(custom_vjp, nondiff_argnums=0)
def solved(transposed: bool, lu: Any, order: Any, a: Any, b: Any) -> Any:
    """Solves A x = b, or Aᵀ x = b, with the factors of A.  Differentiable in A and b; the factors are constants."""
    if not transposed:
        return substituted(lu, substituted(lu, b[order], True, False, True), False, False, False)
    y = substituted(lu, substituted(lu, b, False, True, False), True, True, True)
    x = np.empty_like(y)
    x[order] = y
    return x


def solved_forward(transposed: bool, lu: Any, order: Any, a: Any, b: Any) -> Any:
    x = solved(transposed, lu, order, a, b)
    return x, (lu, order, a, x)


def solved_backward(transposed: bool, kept: Any, x_bar: Any) -> Any:
    lu, order, a, x = kept
    b_bar = solved(not transposed, lu, order, a, x_bar)
    return None, None, -outer(x, b_bar) if transposed else -outer(b_bar, x), b_bar


def solved_along(transposed: bool, primals: Any, tangents: Any) -> Any:
    (lu, order, a, _), (_, _, a_dot, b_dot) = primals, tangents
    x = solved(transposed, *primals)
    return x, solved(transposed, lu, order, a, b_dot - (a_dot.T if transposed else a_dot) @ x)


solved.defvjp(solved_forward, solved_backward)
solved.defjvp(solved_along)


# --- determinants -----------------------------------------------------------------------------------

@custom_vjp
def log_size(lu: Any, order: Any, a: Any) -> Any:
    """log |det A|."""
    return np.log(np.abs(np.diagonal(lu))).sum()


def inverse_transposed(lu: Any, order: Any, a: Any) -> Any:
    return solved(True, lu, order, a, np.eye(len(a), dtype=a.dtype))


log_size.defvjp(lambda lu, order, a: (log_size(lu, order, a), (lu, order, a)),
                lambda kept, y_bar: (None, None, y_bar * inverse_transposed(*kept)))
log_size.defjvp(lambda primals, tangents: (log_size(*primals), (inverse_transposed(*primals) * tangents[2]).sum()))


@custom_vjp
def determinant(lu: Any, order: Any, sign: Any, a: Any) -> Any:
    return sign * np.diagonal(lu).prod()


def cofactors(lu: Any, order: Any, sign: Any, a: Any) -> Any:
    """The cofactor matrix, which is the derivative of the determinant; computed from minors if A is singular."""
    if (np.diagonal(lu) != 0).all():
        return determinant(lu, order, sign, a) * inverse_transposed(lu, order, a)
    n, out = len(a), np.empty_like(a)
    for i in range(n):
        for j in range(n):
            part = without(a, i, j)
            lu, order, sign = lu_factors(constant(part))
            out[i, j] = determinant(lu, order, sign, part) * (1 - 2 * ((i + j) % 2))
    return out


def without(a: Any, i: int, j: int) -> Any:
    """``a`` without row ``i`` and column ``j``."""
    n = len(a)
    out = np.empty((n - 1, n - 1), a.dtype)
    out[:i, :j], out[:i, j:], out[i:, :j], out[i:, j:] = a[:i, :j], a[:i, j + 1:], a[i + 1:, :j], a[i + 1:, j + 1:]
    return out


determinant.defvjp(lambda lu, order, sign, a: (determinant(lu, order, sign, a), (lu, order, sign, a)),
                   lambda kept, y_bar: (None, None, None, y_bar * cofactors(*kept)))
determinant.defjvp(lambda primals, tangents: (determinant(*primals), (cofactors(*primals) * tangents[3]).sum()))


# --- A = L Lᵀ ---------------------------------------------------------------------------------------

@custom_vjp
def cholesky_factor(a: Any) -> Any:
    """The lower triangle L with L Lᵀ = A; reads only the lower triangle of ``a``."""
    n, out = len(a), np.tril(a)
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        if not factor_block(out, first, last):
            raise LinAlgError("Matrix is not positive definite")
        out[last:, last:] -= out[last:, first:last] @ out[last:, first:last].T
    return np.tril(out)


@in_range
def factor_block(out: Any, first: int, last: int) -> bool:
    """Factors columns ``first`` to ``last`` of L in place; returns False if a pivot is not positive."""
    n = len(out)
    for j in range(first, last):
        pivot = out[j, j]
        for k in range(first, j):
            pivot -= out[j, k] * out[j, k]
        if not pivot > 0:
            return False
        out[j, j] = pivot = np.sqrt(pivot)
        for i in range(j + 1, n):                                         # rows are lanes
            s = out[i, j]
            for k in range(first, j):
                s -= out[i, k] * out[j, k]
            out[i, j] = s / pivot
    return True


@functools.partial(custom_vjp, nondiff_argnums=0)
def solved_lower(transposed: bool, t: Any, b: Any) -> Any:
    """Solves T X = B, or Tᵀ X = B, for the lower triangle T of ``t``."""
    return substituted(t, b, True, transposed, False)


def lower_forward(transposed: bool, t: Any, b: Any) -> Any:
    x = solved_lower(transposed, t, b)
    return x, (t, x)


def lower_backward(transposed: bool, kept: Any, x_bar: Any) -> Any:
    t, x = kept
    b_bar = solved_lower(not transposed, t, x_bar)
    return -np.tril(x @ b_bar.T if transposed else b_bar @ x.T), b_bar


def lower_along(transposed: bool, primals: Any, tangents: Any) -> Any:
    (t, _), (t_dot, b_dot) = primals, tangents
    x, moved = solved_lower(transposed, *primals), np.tril(t_dot)
    return x, solved_lower(transposed, t, b_dot - (moved.T if transposed else moved) @ x)


solved_lower.defvjp(lower_forward, lower_backward)
solved_lower.defjvp(lower_along)


def half(a: Any) -> Any:
    """The lower triangle of ``a`` with half of the diagonal."""
    return np.tril(a) - np.diag(np.diagonal(a) * 0.5)


def cholesky_backward(factor: Any, bar: Any) -> Any:
    right = solved_lower(True, factor, half(factor.T @ bar))
    both = solved_lower(True, factor, right.T)                        # the transpose of L⁻ᵀ Φ(Lᵀ L̄) L⁻¹
    return (np.tril(both + both.T) - np.diag(np.diagonal(both)),)


def cholesky_along(primals: Any, tangents: Any) -> Any:
    factor, (dot,) = cholesky_factor(*primals), tangents
    symmetric = np.tril(dot) + np.tril(dot, -1).T
    both = solved_lower(False, factor, solved_lower(False, factor, symmetric).T)
    return factor, factor @ half(both)


def cholesky_forward(a: Any) -> Any:
    factor = cholesky_factor(a)
    return factor, factor


cholesky_factor.defvjp(cholesky_forward, cholesky_backward)
cholesky_factor.defjvp(cholesky_along)
