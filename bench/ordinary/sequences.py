"""Layers over sequences: attention in both precisions, and a gated recurrent unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: layers over sequences"


def attention(q: Any, k: Any, v: Any) -> float:
    """The sum of squares of what queries attend to."""
    n, d = q.shape
    scale = 1.0 / math.sqrt(d)
    total = 0.0
    for i in range(n):
        weights = np.zeros(len(k))
        highest = -1e30
        for j in range(len(k)):
            s = 0.0
            for c in range(d):
                s += q[i, c] * k[j, c]
            weights[j] = s * scale
            highest = max(highest, weights[j])
        norm = 0.0
        for j in range(len(k)):
            weights[j] = math.exp(weights[j] - highest)
            norm += weights[j]
        for c in range(d):
            out = 0.0
            for j in range(len(k)):
                out += weights[j] * v[j, c]
            out /= norm
            total += out * out
    return total


def attention_stored(q: Any, k: Any, v: Any) -> float:
    n, d = q.shape
    m = len(k)
    weights = np.zeros((n, m))
    out = np.zeros((n, d))
    for i in range(n):
        for j in range(m):
            for c in range(d):
                weights[i, j] += q[i, c] * k[j, c]
            weights[i, j] /= math.sqrt(d)
    for i in range(n):
        weights[i] = np.exp(weights[i] - np.max(weights[i]))
        weights[i] /= np.sum(weights[i])
    for i in range(n):
        for j in range(m):
            for c in range(d):
                out[i, c] += weights[i, j] * v[j, c]
    return np.sum(out * out)


def attention_helper(q: Any, k: Any, v: Any) -> float:
    def dot(a: Any, b: Any) -> Any:
        s = 0.0
        for x, y in zip(a, b):
            s += x * y
        return s
    n, d = q.shape
    weights = np.zeros(len(k))
    total, i = 0.0, 0
    while i < n:
        for j in range(len(k)):
            weights[j] = dot(q[i], k[j]) / math.sqrt(d)
        highest = np.max(weights)
        norm = 0.0
        out = np.zeros(d)
        for j in range(len(k)):
            weight = math.exp(weights[j] - highest)
            norm += weight
            for c in range(d):
                out[c] += weight * v[j, c]
        total += np.sum((out / norm) ** 2)
        i += 1
    return total


def attention_rows(q: Any, k: Any, v: Any) -> float:
    total = 0.0
    for row in q:
        scores = k @ row / np.sqrt(q.shape[1])
        weights = np.exp(scores - np.max(scores))
        out = weights @ v / np.sum(weights)
        total += np.sum(out ** 2)
    return total


def attention_matrices(q: Any, k: Any, v: Any) -> float:
    scores = q @ k.T / np.sqrt(q.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    weights /= np.sum(weights, axis=1, keepdims=True)
    return np.sum((weights @ v) ** 2)


def attention_jax(jnp: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / math.sqrt(q.shape[1])
    weights = jnp.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return ((weights @ v) ** 2).sum()


def attention_float32(q: Any, k: Any, v: Any) -> Any:
    """The same in single precision."""
    n, d = q.shape
    scale = np.float32(1.0 / math.sqrt(d))
    total = np.float32(0.0)
    for i in range(n):
        weights = np.zeros(len(k), dtype=np.float32)
        highest = np.float32(-1e30)
        for j in range(len(k)):
            s = np.float32(0.0)
            for c in range(d):
                s += q[i, c] * k[j, c]
            weights[j] = s * scale
            highest = max(highest, weights[j])
        norm = np.float32(0.0)
        for j in range(len(k)):
            weights[j] = np.exp(weights[j] - highest)
            norm += weights[j]
        for c in range(d):
            out = np.float32(0.0)
            for j in range(len(k)):
                out += weights[j] * v[j, c]
            out /= norm
            total += out * out
    return total


def gru(xs: Any, h0: Any, w: Any, u: Any, b: Any) -> float:
    """The sum of squares of the states of a gated recurrent unit; rows of matrices: update, reset, candidate."""
    size = len(h0)
    inputs = xs.shape[1]
    h = h0.copy()
    total = 0.0
    for t in range(len(xs)):
        new = np.zeros(size)
        for i in range(size):
            update = b[i]
            reset = b[size + i]
            candidate = b[2 * size + i]
            for k in range(inputs):
                update += w[i, k] * xs[t, k]
                reset += w[size + i, k] * xs[t, k]
                candidate += w[2 * size + i, k] * xs[t, k]
            recurrent = 0.0
            for k in range(size):
                update += u[i, k] * h[k]
                reset += u[size + i, k] * h[k]
                recurrent += u[2 * size + i, k] * h[k]
            update = 1.0 / (1.0 + math.exp(-update))
            reset = 1.0 / (1.0 + math.exp(-reset))
            candidate = math.tanh(candidate + reset * recurrent)
            new[i] = (1.0 - update) * candidate + update * h[i]
            total += new[i] * new[i]
        h = new
    return total


def gru_stored(xs: Any, h0: Any, w: Any, u: Any, b: Any) -> float:
    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + math.exp(-x))
    size = len(h0)
    states = np.zeros((len(xs) + 1, size))
    states[0] = h0
    for t in range(len(xs)):
        from_x = b.copy()
        from_h = np.zeros(3 * size)
        for i in range(3 * size):
            for k in range(xs.shape[1]):
                from_x[i] += w[i, k] * xs[t, k]
            for k in range(size):
                from_h[i] += u[i, k] * states[t, k]
        for i in range(size):
            z = sigmoid(from_x[i] + from_h[i])
            r = sigmoid(from_x[size + i] + from_h[size + i])
            c = math.tanh(from_x[2 * size + i] + r * from_h[2 * size + i])
            states[t + 1, i] = (1.0 - z) * c + z * states[t, i]
    return np.sum(states[1:] ** 2)


def gru_vectors(xs: Any, h0: Any, w: Any, u: Any, b: Any) -> float:
    n = len(h0)
    h = h0
    total = 0.0
    for x in xs:
        a = w @ x + b
        g = u @ h
        z = 1.0 / (1.0 + np.exp(-a[:n] - g[:n]))
        r = 1.0 / (1.0 + np.exp(-a[n:2 * n] - g[n:2 * n]))
        c = np.tanh(a[2 * n:] + r * g[2 * n:])
        h = (1.0 - z) * c + z * h
        total += np.sum(h ** 2)
    return total


def gru_jax(jnp: Any, xs: Any, h0: Any, w: Any, u: Any, b: Any) -> Any:
    from jax import lax
    n = len(h0)

    def step(h: Any, x: Any) -> Any:
        a = w @ x + b
        g = u @ h
        z = 1.0 / (1.0 + jnp.exp(-a[:n] - g[:n]))
        r = 1.0 / (1.0 + jnp.exp(-a[n:2 * n] - g[n:2 * n]))
        c = jnp.tanh(a[2 * n:] + r * g[2 * n:])
        h = (1.0 - z) * c + z * h
        return h, (h ** 2).sum()
    return lax.scan(step, h0, xs)[1].sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(7)
    qkv = tuple(rng.normal(size=(64, 24)) for _ in range(3))
    single = tuple(a.astype(np.float32) for a in qkv)
    size, inputs = 20, 12
    weights = (rng.normal(size=size), rng.normal(0.0, 0.3, (3 * size, inputs)), rng.normal(0.0, 0.3, (3 * size, size)),
               rng.normal(0.0, 0.3, 3 * size))
    yield from of_programs(bench, "sequences", [
        Ordinary(attention, qkv, (0, 1, 2),
                 {"stored": attention_stored, "helper, while": attention_helper, "rows": attention_rows,
                  "matrices": attention_matrices}, adjoint=True, jax=attention_jax),
        Ordinary(attention_float32, single, (0, 1, 2), {"rows": attention_rows, "matrices": attention_matrices},
                 adjoint=True, jax=attention_jax, rtol=1e-4),
        Ordinary(gru, (rng.normal(size=(80, inputs)), *weights), (1, 2, 3, 4),
                 {"stored, helper": gru_stored, "vectors": gru_vectors}, adjoint=True, jax=gru_jax)])
