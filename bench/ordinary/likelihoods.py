"""Likelihoods: a Gaussian process, counts whose rates are exponentials, a series whose variance varies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: likelihoods"


def gaussian_process(x: Any, y: Any, amplitude: float, length: float, noise: float) -> float:
    """The negative logarithm of the marginal likelihood of a Gaussian process, all of it by loops."""
    n = len(x)
    k = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            k[i, j] = amplitude ** 2 * math.exp(-0.5 * ((x[i] - x[j]) / length) ** 2)
        k[i, i] += noise ** 2
    l = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = k[i, j]
            for m in range(j):
                s -= l[i, m] * l[j, m]
            if i == j:
                l[i, j] = math.sqrt(s)
            else:
                l[i, j] = s / l[j, j]
    z = np.zeros(n)
    value = 0.5 * n * math.log(2.0 * math.pi)
    for i in range(n):
        s = y[i]
        for j in range(i):
            s -= l[i, j] * z[j]
        z[i] = s / l[i, i]
        value += 0.5 * z[i] * z[i] + math.log(l[i, i])
    return value


def gaussian_process_in_place(x: Any, y: Any, amplitude: float, length: float, noise: float) -> float:
    n = len(x)
    l = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            d = x[i] - x[j]
            l[i, j] = amplitude * amplitude * math.exp(-d * d / (2.0 * length * length))
        l[i, i] += noise * noise
    for j in range(n):
        for m in range(j):
            for i in range(j, n):
                l[i, j] -= l[i, m] * l[j, m]
        pivot = math.sqrt(l[j, j])
        for i in range(j, n):
            l[i, j] /= pivot
    z = y.copy()
    for j in range(n):
        z[j] /= l[j, j]
        for i in range(j + 1, n):
            z[i] -= l[i, j] * z[j]
    value = 0.5 * n * math.log(2.0 * math.pi)
    for i in range(n):
        value += 0.5 * z[i] * z[i] + math.log(l[i, i])
    return value


def gaussian_process_helpers(x: Any, y: Any, amplitude: float, length: float, noise: float) -> float:
    def factor(k: Any) -> Any:
        l = np.zeros_like(k)
        for i in range(len(k)):
            for j in range(i):
                l[i, j] = (k[i, j] - np.dot(l[i, :j], l[j, :j])) / l[j, j]
            l[i, i] = np.sqrt(k[i, i] - np.dot(l[i, :i], l[i, :i]))
        return l

    def solve(l: Any, b: Any) -> Any:
        z = np.zeros_like(b)
        for i in range(len(b)):
            z[i] = (b[i] - np.dot(l[i, :i], z[:i])) / l[i, i]
        return z
    k = amplitude ** 2 * np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise ** 2 * np.eye(len(x))
    l = factor(k)
    z = solve(l, y)
    return 0.5 * np.dot(z, z) + np.sum(np.log(np.diag(l))) + 0.5 * len(x) * np.log(2.0 * np.pi)


def gaussian_process_numpy(x: Any, y: Any, amplitude: float, length: float, noise: float) -> float:
    k = amplitude ** 2 * np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise ** 2 * np.eye(len(x))
    log_det = 2.0 * np.sum(np.log(np.diag(np.linalg.cholesky(k))))
    return 0.5 * (y @ np.linalg.solve(k, y) + log_det + len(x) * math.log(2.0 * math.pi))


def gaussian_process_jax(jnp: Any, x: Any, y: Any, amplitude: Any, length: Any, noise: Any) -> Any:
    from jax.scipy.linalg import solve_triangular
    k = amplitude ** 2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise ** 2 * jnp.eye(len(x))
    l = jnp.linalg.cholesky(k)
    z = solve_triangular(l, y, lower=True)
    return 0.5 * (z @ z) + jnp.log(jnp.diag(l)).sum() + 0.5 * len(x) * math.log(2.0 * math.pi)


def poisson(x: Any, counts: Any, w: Any) -> float:
    """The negative log-likelihood of counts whose rate is the exponential of a linear function."""
    n, m = x.shape
    total = 0.0
    for i in range(n):
        eta = 0.0
        for j in range(m):
            eta += x[i, j] * w[j]
        rate = math.exp(eta)
        total += rate - counts[i] * math.log(rate) + math.lgamma(counts[i] + 1.0)
    return total / n


def poisson_stored(x: Any, counts: Any, w: Any) -> float:
    n, m = x.shape
    rate = np.zeros(n)
    for i in range(n):
        for j in range(m):
            rate[i] += x[i, j] * w[j]
        rate[i] = math.exp(rate[i])
    total = 0.0
    for i in range(n):
        total += rate[i] - counts[i] * math.log(rate[i])
    for i in range(n):
        total += math.lgamma(counts[i] + 1.0)
    return total / n


def poisson_rows(x: Any, counts: Any, w: Any) -> float:
    total = 0.0
    for row, count in zip(x, counts):
        rate = np.exp(np.dot(row, w))
        total += rate - count * np.log(rate) + math.lgamma(count + 1.0)
    return total / len(x)


def poisson_while(x: Any, counts: Any, w: Any) -> float:
    total, i = 0.0, 0
    while i < x.shape[0]:
        eta, j = 0.0, 0
        while j < x.shape[1]:
            eta += x[i, j] * w[j]
            j += 1
        rate = math.exp(eta)
        total += rate - counts[i] * math.log(rate) + math.lgamma(counts[i] + 1.0)
        i += 1
    return total / x.shape[0]


def poisson_jax(jnp: Any, x: Any, counts: Any, w: Any) -> Any:
    from jax.scipy.special import gammaln
    rate = jnp.exp(x @ w)
    return (rate - counts * jnp.log(rate) + gammaln(counts + 1.0)).mean()


def autoregression(x: Any, phi: Any, omega: float, alpha: float, beta: float) -> float:
    """The negative log-likelihood of an autoregressive series whose variance follows its last residual."""
    n, p = len(x), len(phi)
    h = omega / (1.0 - alpha - beta)
    total = 0.0
    for t in range(p, n):
        e = x[t]
        for k in range(p):
            e -= phi[k] * x[t - 1 - k]
        total += 0.5 * (math.log(h) + e * e / h)
        h = omega + alpha * e * e + beta * h
    return total


def autoregression_stored(x: Any, phi: Any, omega: float, alpha: float, beta: float) -> float:
    n, p = len(x), len(phi)
    e, h = np.zeros(n), np.zeros(n)
    h[p] = omega / (1.0 - alpha - beta)
    for t in range(p, n):
        e[t] = x[t]
        for k in range(p):
            e[t] -= phi[k] * x[t - 1 - k]
        if t + 1 < n:
            h[t + 1] = omega + alpha * e[t] ** 2 + beta * h[t]
    total = 0.0
    for t in range(p, n):
        total += 0.5 * (math.log(h[t]) + e[t] ** 2 / h[t])
    return total


def autoregression_slices(x: Any, phi: Any, omega: float, alpha: float, beta: float) -> float:
    n, p = len(x), len(phi)
    e = x[p:].copy()
    for k in range(p):
        e -= phi[k] * x[p - 1 - k:n - 1 - k]
    h = np.zeros(n - p)
    h[0] = omega / (1.0 - alpha - beta)
    for t in range(1, n - p):
        h[t] = omega + alpha * e[t - 1] * e[t - 1] + beta * h[t - 1]
    return 0.5 * np.sum(np.log(h) + e * e / h)


def autoregression_while(x: Any, phi: Any, omega: float, alpha: float, beta: float) -> float:
    p = len(phi)
    h, e, total, t = omega / (1.0 - alpha - beta), 0.0, 0.0, p
    while t < len(x):
        if t > p:
            h = omega + alpha * e ** 2 + beta * h
        e = x[t] - np.sum(phi * x[t - p:t][::-1])
        total += (math.log(h) + e ** 2 / h) / 2.0
        t += 1
    return total


def autoregression_jax(jnp: Any, x: Any, phi: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    from jax import lax
    n, p = len(x), len(phi)
    e = x[p:] - sum(phi[k] * x[p - 1 - k:n - 1 - k] for k in range(p))

    def step(h: Any, now: Any) -> Any:
        return omega + alpha * now * now + beta * h, h
    h = lax.scan(step, omega / (1.0 - alpha - beta), e)[1]
    return 0.5 * (jnp.log(h) + e * e / h).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0.0, 10.0, 100))
    y = np.sin(x) + rng.normal(0.0, 0.2, 100)
    features, w = rng.normal(0.0, 1.0, (3000, 10)), rng.normal(0.0, 0.3, 10)
    counts = rng.poisson(np.exp(features @ w)).astype(np.float64)
    series = rng.normal(0.0, 1.0, 6000)
    yield from of_programs(bench, "likelihoods", [
        Ordinary(gaussian_process, (x, y, 1.1, 0.8, 0.3), (1, 2, 3, 4), {
            "in place": gaussian_process_in_place, "helpers": gaussian_process_helpers,
            "NumPy": gaussian_process_numpy}, adjoint=True, jax=gaussian_process_jax),
        Ordinary(poisson, (features, counts, w), (2,), {
            "stored": poisson_stored, "rows": poisson_rows, "while": poisson_while}, adjoint=True, jax=poisson_jax),
        Ordinary(autoregression, (series, np.array([0.3, -0.2, 0.1, 0.05]), 0.1, 0.15, 0.75), (1, 2, 3, 4), {
            "stored": autoregression_stored, "slices": autoregression_slices, "while": autoregression_while},
                 adjoint=True, jax=autoregression_jax)])
