"""Iterative methods: power iteration, conjugate gradients until a tolerance, paths by a soft minimum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: iterative methods"


def power_iteration(a: Any, start: Any, steps: int) -> float:
    """The greatest eigenvalue of a symmetric matrix, by powers of it."""
    n = len(start)
    v = start.copy()
    value = 0.0
    for _ in range(steps):
        w = np.zeros(n)
        for i in range(n):
            for j in range(n):
                w[i] += a[i, j] * v[j]
        value = 0.0
        square = 0.0
        for i in range(n):
            value += v[i] * w[i]
            square += w[i] * w[i]
        norm = math.sqrt(square)
        for i in range(n):
            v[i] = w[i] / norm
    return value


def power_iteration_scratch(a: Any, start: Any, steps: int) -> float:
    n = len(start)
    v, w = start.copy(), np.zeros(n)
    value = 0.0
    for _ in range(steps):
        value, square = 0.0, 0.0
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * v[j]
            w[i] = s
            value += v[i] * s
            square += s * s
        for i in range(n):
            v[i] = w[i] / math.sqrt(square)
    return value


def power_iteration_columns(a: Any, start: Any, steps: int) -> float:
    n, step, value = len(start), 0, 0.0
    v = start
    while step < steps:
        w = np.zeros(n)
        for j in range(n):
            for i in range(n):
                w[i] += a[i, j] * v[j]
        value = np.dot(v, w)
        v = w / np.sqrt(np.dot(w, w))
        step += 1
    return value


def power_iteration_numpy(a: Any, start: Any, steps: int) -> float:
    v = start
    value = 0.0
    for _ in range(steps):
        w = a @ v
        value = v @ w
        v = w / np.linalg.norm(w)
    return value


def power_iteration_jax(jnp: Any, a: Any, start: Any, steps: int) -> Any:
    from jax import lax

    def step(_: Any, state: Any) -> Any:
        v, _value = state
        w = a @ v
        return w / jnp.sqrt(w @ w), v @ w
    return lax.fori_loop(0, steps, step, (start, 0.0))[1]


def conjugate_gradient(a: Any, b: Any, tolerance: float) -> float:
    """The squared norm of the solution of a positive definite system, by conjugate gradients."""
    n = len(b)
    x = np.zeros(n)
    r = b.copy()
    p = b.copy()
    rs = np.dot(r, r)
    while rs > tolerance:
        q = np.zeros(n)
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * p[j]
            q[i] = s
        alpha = rs / np.dot(p, q)
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
        new = np.dot(r, r)
        for i in range(n):
            p[i] = r[i] + new / rs * p[i]
        rs = new
    return np.dot(x, x)


def conjugate_gradient_numpy(a: Any, b: Any, tolerance: float) -> float:
    x = np.zeros_like(b)
    r, p = b, b
    rs = r @ r
    while rs > tolerance:
        q = a @ p
        alpha = rs / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        p = r + new / rs * p
        rs = new
    return np.sum(x * x)


def conjugate_gradient_in_place(a: Any, b: Any, tolerance: float) -> float:
    n = len(b)
    x, r, p, q = np.zeros(n), b.copy(), b.copy(), np.zeros(n)
    rs = np.dot(r, r)
    while rs > tolerance:
        for i in range(n):
            q[i] = np.dot(a[i], p)
        alpha = rs / np.dot(p, q)
        x += alpha * p
        r -= alpha * q
        new = np.dot(r, r)
        p *= new / rs
        p += r
        rs = new
    return np.dot(x, x)


def conjugate_gradient_break(a: Any, b: Any, tolerance: float) -> float:
    n = len(b)
    x, r, p, q = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    rs = 0.0
    for i in range(n):
        r[i] = b[i]
        p[i] = b[i]
        rs += b[i] * b[i]
    for _ in range(1000):
        if rs <= tolerance:
            break
        pq = 0.0
        for i in range(n):
            q[i] = 0.0
            for j in range(n):
                q[i] += a[i, j] * p[j]
            pq += p[i] * q[i]
        alpha, before = rs / pq, rs
        rs = 0.0
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
            rs += r[i] * r[i]
        beta = rs / before
        for i in range(n):
            p[i] = r[i] + beta * p[i]
    total = 0.0
    for i in range(n):
        total += x[i] ** 2
    return total


def soft_paths(lengths: Any, softness: float) -> float:
    """The mean of the soft lengths of all shortest paths, by Floyd's recursion with a soft minimum."""
    n = len(lengths)
    d = lengths
    for k in range(n):
        new = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                a = d[i, j]
                b = d[i, k] + d[k, j]
                if b < a:
                    new[i, j] = b - softness * math.log1p(math.exp((b - a) / softness))
                else:
                    new[i, j] = a - softness * math.log1p(math.exp((a - b) / softness))
        d = new
    return np.mean(d)


def soft_paths_helper(lengths: Any, softness: float) -> float:
    def soft_min(a: Any, b: Any) -> Any:
        return min(a, b) - softness * math.log1p(math.exp(-abs(a - b) / softness))
    n = lengths.shape[0]
    d = lengths.copy()
    for k in range(n):
        row, column = d[k].copy(), d[:, k].copy()
        for i in range(n):
            for j in range(n):
                d[i, j] = soft_min(d[i, j], column[i] + row[j])
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += d[i, j]
    return total / (n * n)


def soft_paths_two_arrays(lengths: Any, softness: float) -> float:
    n = len(lengths)
    d, new = lengths.copy(), np.empty((n, n))
    for k in range(n):
        for i in range(n):
            first = d[i, k]
            for j in range(n):
                a, b = d[i, j], first + d[k, j]
                least = b if b < a else a
                new[i, j] = least - softness * math.log1p(math.exp(-abs(b - a) / softness))
        d[:] = new
    return d.sum() / n ** 2


def soft_paths_numpy(lengths: Any, softness: float) -> float:
    d = lengths
    for k in range(len(lengths)):
        through = d[:, k, None] + d[k]
        d = np.minimum(d, through) - softness * np.log1p(np.exp(-np.abs(d - through) / softness))
    return d.mean()


def soft_paths_jax(jnp: Any, lengths: Any, softness: Any) -> Any:
    from jax import lax

    def step(k: Any, d: Any) -> Any:
        through = d[:, k, None] + d[k]
        return jnp.minimum(d, through) - softness * jnp.log1p(jnp.exp(-jnp.abs(d - through) / softness))
    return lax.fori_loop(0, len(lengths), step, lengths).mean()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    root = rng.normal(0.0, 1.0, (80, 80))
    spread = rng.normal(0.0, 1.0, (150, 150))
    yield from of_programs(bench, "iterations", [
        Ordinary(power_iteration, (root @ root.T, np.full(80, 0.1), 40), (0,), {
            "scratch": power_iteration_scratch, "columns": power_iteration_columns, "NumPy": power_iteration_numpy},
                 adjoint=True, jax=power_iteration_jax),
        Ordinary(conjugate_gradient, (spread @ spread.T / 150.0 + np.eye(150), rng.normal(0.0, 1.0, 150), 1e-12),
                 (0, 1), {"NumPy": conjugate_gradient_numpy, "in place": conjugate_gradient_in_place,
                          "break": conjugate_gradient_break}, adjoint=True),
        Ordinary(soft_paths, (rng.uniform(1.0, 5.0, (30, 30)), 0.3), (0,), {
            "helper": soft_paths_helper, "two arrays": soft_paths_two_arrays, "NumPy": soft_paths_numpy},
                 adjoint=True, jax=soft_paths_jax)])
