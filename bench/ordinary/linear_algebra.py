"""Linear algebra by loops: a product of matrices, a factorisation, a triangular system, orthogonal columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: linear algebra"


def matmul(a: Any, b: Any) -> float:
    """The squared norm of a product of two matrices."""
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    total = 0.0
    for i in range(n):
        for j in range(p):
            s = 0.0
            for k in range(m):
                s += a[i, k] * b[k, j]
            total += s * s
    return total


def matmul_stored(a: Any, b: Any) -> float:
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            for k in range(m):
                c[i, j] += a[i, k] * b[k, j]
    return np.sum(c * c)


def matmul_columns_inside(a: Any, b: Any) -> float:
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for k in range(m):
            for j in range(p):
                c[i, j] += a[i, k] * b[k, j]
    return np.sum(c ** 2)


def matmul_sum_outside(a: Any, b: Any) -> float:
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    c = np.zeros((n, p))
    for k in range(m):
        for i in range(n):
            for j in range(p):
                c[i, j] += a[i, k] * b[k, j]
    total = 0.0
    for i in range(n):
        for j in range(p):
            total += c[i, j] * c[i, j]
    return total


def matmul_rows(a: Any, b: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        row = np.zeros(b.shape[1])
        for k in range(len(b)):
            row += a[i, k] * b[k]
        total += np.dot(row, row)
    return total


def matmul_numpy(a: Any, b: Any) -> float:
    c = a @ b
    return np.sum(c * c)


def matmul_jax(jnp: Any, a: Any, b: Any) -> Any:
    c = a @ b
    return (c * c).sum()


def cholesky(a: Any) -> float:
    """The logarithm of the determinant of a positive definite matrix, of which the lower half is read."""
    n = len(a)
    l = np.zeros((n, n))
    log_det = 0.0
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= l[j, k] * l[j, k]
        l[j, j] = math.sqrt(s)
        log_det += 2.0 * math.log(l[j, j])
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / l[j, j]
    return log_det


def cholesky_rows(a: Any) -> float:
    n = a.shape[0]
    l = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += l[i, k] * l[j, k]
            if i == j:
                l[i, j] = math.sqrt(a[i, i] - s)
            else:
                l[i, j] = (a[i, j] - s) / l[j, j]
    log_det = 0.0
    for i in range(n):
        log_det += math.log(l[i, i])
    return 2.0 * log_det


def cholesky_in_place(a: Any) -> float:
    n = len(a)
    l = a.copy()
    for k in range(n):
        l[k, k] = math.sqrt(l[k, k])
        for i in range(k + 1, n):
            l[i, k] /= l[k, k]
        for j in range(k + 1, n):
            for i in range(j, n):
                l[i, j] -= l[i, k] * l[j, k]
    return 2.0 * np.sum(np.log(np.diag(l)))


def cholesky_slices(a: Any) -> float:
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        l[j, j] = np.sqrt(a[j, j] - np.dot(l[j, :j], l[j, :j]))
        l[j + 1:, j] = (a[j + 1:, j] - l[j + 1:, :j] @ l[j, :j]) / l[j, j]
    return 2.0 * np.log(np.diag(l)).sum()


def cholesky_jax(jnp: Any, a: Any) -> Any:
    whole = jnp.tril(a) + jnp.tril(a, -1).T
    return 2.0 * jnp.log(jnp.diag(jnp.linalg.cholesky(whole))).sum()


def triangular(l: Any, b: Any) -> float:
    """The squared norm of the solution of a triangular system."""
    n = len(b)
    x = np.zeros(n)
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= l[i, j] * x[j]
        x[i] = s / l[i, i]
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    return total


def triangular_columns(l: Any, b: Any) -> float:
    n = len(b)
    x = b.copy()
    total = 0.0
    for j in range(n):
        x[j] /= l[j, j]
        total += x[j] ** 2
        for i in range(j + 1, n):
            x[i] -= l[i, j] * x[j]
    return total


def triangular_element(l: Any, b: Any) -> float:
    n = len(b)
    x = np.empty(n)
    i = 0
    while i < n:
        x[i] = b[i]
        for j in range(i):
            x[i] -= l[i, j] * x[j]
        x[i] = x[i] / l[i, i]
        i += 1
    return np.sum(x * x)


def triangular_slices(l: Any, b: Any) -> float:
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - np.sum(l[i, :i] * x[:i])) / l[i, i]
    return np.dot(x, x)


def triangular_jax(jnp: Any, l: Any, b: Any) -> Any:
    from jax.scipy.linalg import solve_triangular
    x = solve_triangular(l, b, lower=True)
    return (x * x).sum()


def gram_schmidt(a: Any) -> float:
    """The logarithm of the volume that the columns of a matrix span, by the modified method of Gram and Schmidt."""
    q = a.copy()
    volume = 0.0
    for j in range(q.shape[1]):
        for i in range(j):
            r = np.dot(q[:, i], q[:, j])
            q[:, j] -= r * q[:, i]
        size = np.sqrt(np.sum(q[:, j] ** 2))
        q[:, j] /= size
        volume += math.log(size)
    return volume


def gram_schmidt_loops(a: Any) -> float:
    m, n = a.shape
    q = np.zeros((m, n))
    v = np.zeros(m)
    volume = 0.0
    for j in range(n):
        for t in range(m):
            v[t] = a[t, j]
        for i in range(j):
            r = 0.0
            for t in range(m):
                r += q[t, i] * v[t]
            for t in range(m):
                v[t] -= r * q[t, i]
        s = 0.0
        for t in range(m):
            s += v[t] * v[t]
        size = math.sqrt(s)
        for t in range(m):
            q[t, j] = v[t] / size
        volume += math.log(size)
    return volume


def gram_schmidt_later_columns(a: Any) -> float:
    q = a.copy()
    n = q.shape[1]
    volume = 0.0
    for i in range(n):
        size = math.sqrt(np.dot(q[:, i], q[:, i]))
        q[:, i] /= size
        for j in range(i + 1, n):
            q[:, j] -= np.dot(q[:, i], q[:, j]) * q[:, i]
        volume += math.log(size)
    return volume


def gram_schmidt_rows(a: Any) -> float:
    q = a.T.copy()
    volume = 0.0
    for j in range(len(q)):
        v = q[j]
        for i in range(j):
            v -= np.dot(q[i], v) * q[i]
        size = np.sqrt((v * v).sum())
        v /= size
        volume += np.log(size)
    return volume


def gram_schmidt_jax(jnp: Any, a: Any) -> Any:
    return jnp.log(jnp.abs(jnp.diag(jnp.linalg.qr(a, mode="r")))).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.0, 1.0, (64, 56)), rng.normal(0.0, 1.0, (56, 72))
    root = rng.normal(0.0, 1.0, (96, 96))
    lower = np.tril(rng.normal(0.0, 0.05, (450, 450))) + 2.0 * np.eye(450)
    yield from of_programs(bench, "linear_algebra", [
        Ordinary(matmul, (a, b), (0, 1), {
            "stored": matmul_stored, "columns inside": matmul_columns_inside, "sum outside": matmul_sum_outside,
            "rows": matmul_rows, "NumPy": matmul_numpy}, adjoint=True, jax=matmul_jax),
        Ordinary(cholesky, (root @ root.T + 96.0 * np.eye(96),), (0,), {
            "rows": cholesky_rows, "in place": cholesky_in_place, "slices": cholesky_slices},
                 adjoint=True, jax=cholesky_jax),
        Ordinary(triangular, (lower, rng.normal(0.0, 1.0, 450)), (0, 1), {
            "columns": triangular_columns, "element": triangular_element, "slices": triangular_slices},
                 adjoint=True, jax=triangular_jax),
        Ordinary(gram_schmidt, (rng.normal(0.0, 1.0, (120, 32)),), (0,), {
            "loops": gram_schmidt_loops, "later columns": gram_schmidt_later_columns, "rows": gram_schmidt_rows},
                 adjoint=True, jax=gram_schmidt_jax)])
