"""``numpy.linalg`` functions that use a triangular factorisation, of one matrix or of each matrix of a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ..marks import constant
from .factorisations import cholesky_factor, determinant, log_size, lu_factors, solved

SlogdetResult = type(np.linalg.slogdet(np.ones((1, 1))))


# --- arguments --------------------------------------------------------------------------------------

def floats(a: Any) -> Any:
    a = np.asarray(a)
    return a if np.issubdtype(a.dtype, np.floating) else a.astype(float)


def rectangles(a: Any) -> Any:
    """One matrix of floats, or a stack of matrices."""
    a = floats(a)
    if a.ndim < 2:
        raise LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    return a


def matrices(a: Any) -> Any:
    """One square matrix of floats, or a stack of them."""
    a = rectangles(a)
    if a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a


def each(fun: Callable[[Any], Any], a: Any, shape: Any) -> Any:
    """Applies ``fun``, whose result has this shape, to a matrix or to each matrix of a stack."""
    if a.ndim == 2:
        return fun(a)
    out = np.empty(a.shape[:-2] + shape, a.dtype)
    for i in range(len(a)):
        out[i] = each(fun, a[i], shape)
    return out


# --- equations --------------------------------------------------------------------------------------

def solve(a: Any, b: Any) -> Any:
    """Solves A x = b; b is a vector, a matrix of columns, or a stack of such matrices."""
    a, b = matrices(a), floats(b)
    if a.dtype != b.dtype:
        a, b = a.astype(float), b.astype(float)
    if b.ndim == 0:
        raise ValueError("solve: Input operand 1 does not have enough dimensions")
    rows = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if rows != a.shape[-1]:
        raise ValueError(f"solve: Input operand 1 has a mismatch in its core dimension 0, size {rows} is different "
                         f"from {a.shape[-1]}")
    if a.ndim == 2 and b.ndim <= 2:
        return solve_one(a, b)
    columns = b[:, None] if b.ndim == 1 else b
    lead = common(a.shape[:-2], columns.shape[:-2])
    x = solve_stack(np.broadcast_to(a, lead + a.shape[-2:]), np.broadcast_to(columns, lead + columns.shape[-2:]))
    return x[..., 0] if b.ndim == 1 else x


def common(m: Any, n: Any) -> Any:
    """The shape that two shapes broadcast to; the caller has to make sure that they do."""
    longest = max(len(m), len(n))
    m, n = (1,) * (longest - len(m)) + m, (1,) * (longest - len(n)) + n
    return tuple(y if x == 1 else x for x, y in zip(m, n))


def solve_stack(a: Any, b: Any) -> Any:
    if a.ndim == 2:
        return solve_one(a, b)
    out = np.empty(b.shape, a.dtype)
    for i in range(len(a)):
        out[i] = solve_stack(a[i], b[i])
    return out


def solve_one(a: Any, b: Any) -> Any:
    lu, order, _ = regular(a)
    return solved(False, lu, order, a, b).reshape(b.shape)             # a size of 1 may have broadcast


def regular(a: Any) -> Any:
    """The LU factors of a matrix; raises ``LinAlgError`` if the matrix is singular."""
    lu, order, sign = lu_factors(constant(a))
    if (np.diagonal(lu) == 0).any():
        raise LinAlgError("Singular matrix")
    return lu, order, sign


def inv(a: Any) -> Any:
    a = matrices(a)
    return each(inverse, a, a.shape[-2:])


def inverse(a: Any) -> Any:
    lu, order, _ = regular(a)
    return solved(False, lu, order, a, np.eye(len(a), dtype=a.dtype)).reshape(a.shape)


# --- determinants -----------------------------------------------------------------------------------

def det(a: Any) -> Any:
    return each(det_one, matrices(a), ())


def det_one(a: Any) -> Any:
    lu, order, sign = lu_factors(constant(a))
    return determinant(lu, order, sign, a)


def slogdet(a: Any) -> Any:
    """Returns the sign, which is constant to differentiation, and the logarithm of the absolute value."""
    a = matrices(a)
    if a.ndim == 2:
        lu, order, sign = lu_factors(constant(a))
        return SlogdetResult(sign * np.sign(np.diagonal(lu)).prod(), log_size(lu, order, a))
    signs, logs = np.empty(a.shape[:-2], a.dtype), np.empty(a.shape[:-2], a.dtype)
    for i in range(len(a)):
        signs[i], logs[i] = slogdet(a[i])
    return SlogdetResult(signs, logs)


# --- the rest ---------------------------------------------------------------------------------------

def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """L with L Lᵀ = A, from the lower triangle of ``a``; with ``upper``, Lᵀ from the upper triangle."""
    a = matrices(a)
    if upper:
        return np.swapaxes(each(cholesky_one, np.swapaxes(a, -1, -2), a.shape[-2:]), -1, -2)
    return each(cholesky_one, a, a.shape[-2:])


def cholesky_one(a: Any) -> Any:
    return cholesky_factor(a).reshape(a.shape)


def matrix_power(a: Any, n: int) -> Any:
    a = np.asarray(a)
    matrices(a)
    if np.ndim(n) > 0 or np.issubdtype(np.asarray(n).dtype, np.floating):
        raise TypeError("exponent must be an integer")
    n = int(n)
    if n == 1:
        return a                                     # the same array, as in NumPy
    if n < 0:
        a, n = inv(a), -n
    out = np.zeros_like(a) + np.eye(a.shape[-1], dtype=a.dtype)
    while n > 0:
        if n % 2 == 1:
            out = out @ a
        a, n = a @ a, n // 2
    return out


def multi_dot(arrays: Any) -> Any:
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    if len(arrays) == 2:
        return np.dot(arrays[0], arrays[1])
    for k, factor in enumerate(arrays):
        if np.ndim(factor) != 2 and (np.ndim(factor) != 1 or 0 < k < len(arrays) - 1):
            raise LinAlgError(f"{np.ndim(factor)}-dimensional array given. Array must be two-dimensional")
    product = arrays[0]
    for factor in arrays[1:]:
        product = product @ factor
    return product
