"""Statistics: logistic regression, kernels between points, a density of points, the nearest of some centres."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: statistics"


def logistic(x: Any, y: Any, w: Any, b: float, penalty: float) -> float:
    """The loss of a logistic regression with labels -1 and 1."""
    n, m = x.shape
    loss = 0.0
    for i in range(n):
        z = b
        for j in range(m):
            z += x[i, j] * w[j]
        loss += math.log(1.0 + math.exp(-y[i] * z))
    loss /= n
    for j in range(m):
        loss += penalty * w[j] * w[j]
    return loss


def logistic_stored(x: Any, y: Any, w: Any, b: float, penalty: float) -> float:
    n, m = x.shape
    z = np.zeros(n)
    for i in range(n):
        for j in range(m):
            z[i] += x[i, j] * w[j]
        z[i] += b
    loss = 0.0
    for i in range(n):
        loss += math.log(1.0 + math.exp(-y[i] * z[i])) / n
    return loss + penalty * np.sum(w * w)


def logistic_features_outside(x: Any, y: Any, w: Any, b: float, penalty: float) -> float:
    n, m = x.shape
    z = np.full(n, b)
    for j in range(m):
        z += x[:, j] * w[j]
    return np.mean(np.log(1.0 + np.exp(-y * z))) + penalty * np.dot(w, w)


def logistic_numpy(x: Any, y: Any, w: Any, b: float, penalty: float) -> float:
    return np.mean(np.log(1.0 + np.exp(-y * (x @ w + b)))) + penalty * np.sum(w ** 2)


def logistic_jax(jnp: Any, x: Any, y: Any, w: Any, b: Any, penalty: Any) -> Any:
    return jnp.log(1.0 + jnp.exp(-y * (x @ w + b))).mean() + penalty * (w * w).sum()


def rbf(points: Any, weights: Any, gamma: float) -> float:
    """A quadratic form in the Gaussian kernel between points in space."""
    n = len(points)
    total = 0.0
    for i in range(n):
        for j in range(n):
            d2 = 0.0
            for k in range(3):
                d2 += (points[i, k] - points[j, k]) ** 2
            total += weights[i] * weights[j] * math.exp(-gamma * d2)
    return total


def rbf_three_arrays(points: Any, weights: Any, gamma: float) -> float:
    x, y, z = points
    n = len(x)
    total = 0.0
    for i in range(n):
        for j in range(n):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dz = z[i] - z[j]
            total += weights[i] * weights[j] * math.exp(-gamma * (dx * dx + dy * dy + dz * dz))
    return total


def rbf_matrix(points: Any, weights: Any, gamma: float) -> float:
    n = len(points)
    kernel = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            kernel[i, j] = np.exp(-gamma * np.sum((points[i] - points[j]) ** 2))
    return weights @ kernel @ weights


def rbf_helper(points: Any, weights: Any, gamma: float) -> float:
    def kernel(p: Any, q: Any) -> Any:
        dx, dy, dz = p[0] - q[0], p[1] - q[1], p[2] - q[2]
        return math.exp(-gamma * (dx * dx + dy * dy + dz * dz))
    total = 0.0
    for i, p in enumerate(points):
        inner = 0.0
        for j, q in enumerate(points):
            inner += weights[j] * kernel(p, q)
        total += weights[i] * inner
    return total


def rbf_numpy(points: Any, weights: Any, gamma: float) -> float:
    d2 = ((points[:, None] - points) ** 2).sum(axis=2)
    return weights @ np.exp(-gamma * d2) @ weights


def rbf_jax(jnp: Any, points: Any, weights: Any, gamma: Any) -> Any:
    d2 = ((points[:, None] - points) ** 2).sum(axis=2)
    return weights @ jnp.exp(-gamma * d2) @ weights


def density(sample: Any, at: Any, width: float) -> float:
    """The mean logarithm of a kernel density estimate at some points."""
    n = len(sample)
    scale = 1.0 / (n * width * math.sqrt(2.0 * math.pi))
    total = 0.0
    for q in range(len(at)):
        p = 0.0
        for i in range(n):
            u = (at[q] - sample[i]) / width
            p += math.exp(-0.5 * u * u)
        total += math.log(scale * p)
    return total / len(at)


def density_stored(sample: Any, at: Any, width: float) -> float:
    n, m = len(sample), len(at)
    p = np.zeros(m)
    for i in range(n):
        for q in range(m):
            p[q] += math.exp(-0.5 * ((at[q] - sample[i]) / width) ** 2)
    return np.mean(np.log(p / (n * width * np.sqrt(2.0 * np.pi))))


def density_while(sample: Any, at: Any, width: float) -> float:
    n, total, q = len(sample), 0.0, 0
    while q < len(at):
        p, i = 0.0, 0
        while i < n:
            u = (at[q] - sample[i]) / width
            p += math.exp(-u * u / 2.0) / (width * math.sqrt(2.0 * math.pi))
            i += 1
        total += math.log(p / n)
        q += 1
    return total / len(at)


def density_rows(sample: Any, at: Any, width: float) -> float:
    total = 0.0
    for point in at:
        u = (point - sample) / width
        total += np.log(np.mean(np.exp(-0.5 * u ** 2)) / (width * np.sqrt(2.0 * np.pi)))
    return total / len(at)


def density_jax(jnp: Any, sample: Any, at: Any, width: Any) -> Any:
    u = (at[:, None] - sample) / width
    p = jnp.exp(-0.5 * u * u).sum(axis=1) / (len(sample) * width * math.sqrt(2.0 * math.pi))
    return jnp.log(p).mean()


def k_means(points: Any, centres: Any) -> float:
    """The objective of k-means: the mean squared distance of points to the nearest centre."""
    total = 0.0
    for i in range(len(points)):
        best = 1e300
        for c in range(len(centres)):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[c, k]) ** 2
            if d < best:
                best = d
        total += best
    return total / len(points)


def k_means_which(points: Any, centres: Any) -> float:
    total = 0.0
    for p in points:
        best, which = math.inf, 0
        for c in range(len(centres)):
            d = np.sum((p - centres[c]) ** 2)
            if d < best:
                best, which = d, c
        total += np.sum((p - centres[which]) ** 2)
    return total / len(points)


def k_means_min(points: Any, centres: Any) -> float:
    n = len(points)
    best = np.full(n, np.inf)
    for c in range(len(centres)):
        for i in range(n):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[c, k]) * (points[i, k] - centres[c, k])
            best[i] = min(best[i], d)
    return np.sum(best) / n


def k_means_numpy(points: Any, centres: Any) -> float:
    return np.mean(np.min(np.sum((points[:, None] - centres) ** 2, axis=2), axis=1))


def k_means_jax(jnp: Any, points: Any, centres: Any) -> Any:
    return ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean()


def k_means_float32(points: Any, centres: Any) -> float:
    """The objective of k-means with points and centres of single precision, summed in double precision."""
    total = 0.0
    for i in range(len(points)):
        best = np.float32(1e30)
        for c in range(len(centres)):
            dx = points[i, 0] - centres[c, 0]
            dy = points[i, 1] - centres[c, 1]
            d = dx * dx + dy * dy
            if d < best:
                best = d
        total += float(best)
    return total / len(points)


def k_means_float32_arrays(x: Any, y: Any, cx: Any, cy: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        best = np.float32(1e30)
        for c in range(len(cx)):
            dx, dy = x[i] - cx[c], y[i] - cy[c]
            best = min(best, dx * dx + dy * dy)
        total += float(best)
    return total / len(x)


def k_means_float32_rows(points: Any, centres: Any) -> float:
    total = 0.0
    for p in points:
        total += float(np.min(np.sum((p - centres) ** 2, axis=1)))
    return total / len(points)


def columns(a: Any) -> tuple[Any, ...]:
    return tuple(a[:, k].copy() for k in range(a.shape[1]))


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(4)
    x, w = rng.normal(0.0, 1.0, (4000, 14)), rng.normal(0.0, 0.5, 14)
    y = np.where(x @ w + rng.normal(0.0, 1.0, 4000) > 0.0, 1.0, -1.0)
    points, weights = rng.normal(0.0, 1.0, (110, 3)), rng.normal(0.0, 1.0, 110)
    plane, centres = rng.normal(0.0, 1.0, (12_000, 2)), rng.normal(0.0, 1.0, (8, 2))
    single, few = plane.astype(np.float32), centres.astype(np.float32)
    yield from of_programs(bench, "statistics", [
        Ordinary(logistic, (x, y, w, 0.3, 0.01), (2, 3), {
            "stored": logistic_stored, "features outside": logistic_features_outside, "NumPy": logistic_numpy},
                 adjoint=True, jax=logistic_jax),
        Ordinary(rbf, (points, weights, 0.7), (0, 1, 2), {
            "three arrays": rbf_three_arrays, "matrix": rbf_matrix, "helper": rbf_helper, "NumPy": rbf_numpy},
                 others={"three arrays": (columns(points), weights, 0.7)}, adjoint=True, jax=rbf_jax),
        Ordinary(density, (rng.normal(0.0, 1.0, 400), rng.normal(0.0, 1.0, 60), 0.3), (0, 2), {
            "stored": density_stored, "while": density_while, "rows": density_rows}, adjoint=True, jax=density_jax),
        Ordinary(k_means, (plane[:6000], centres), (0, 1), {
            "which": k_means_which, "min": k_means_min, "NumPy": k_means_numpy}, adjoint=True, jax=k_means_jax),
        Ordinary(k_means_float32, (single, few), (), {
            "arrays": k_means_float32_arrays, "rows": k_means_float32_rows},
                 others={"arrays": (*columns(single), *columns(few))}, rtol=1e-6)])
