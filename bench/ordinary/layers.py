"""Layers of networks: a dense one in both precisions, normalisation, classification, pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: layers of networks"


def dense(x: Any, w: Any, b: Any) -> float:
    """The sum of squares behind a dense layer with tanh, for some inputs."""
    total = 0.0
    for i in range(x.shape[0]):
        for o in range(w.shape[0]):
            s = b[o]
            for k in range(x.shape[1]):
                s += w[o, k] * x[i, k]
            y = math.tanh(s)
            total += y * y
    return total


def dense_stored(x: Any, w: Any, b: Any) -> float:
    y = np.zeros((x.shape[0], w.shape[0]))
    for i in range(x.shape[0]):
        for o in range(w.shape[0]):
            y[i, o] = b[o]
            for k in range(x.shape[1]):
                y[i, o] += w[o, k] * x[i, k]
            y[i, o] = math.tanh(y[i, o])
    return np.sum(y * y)


def dense_inputs_outside(x: Any, w: Any, b: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        s = b.copy()
        for k in range(x.shape[1]):
            for o in range(w.shape[0]):
                s[o] += w[o, k] * x[i, k]
        for o in range(w.shape[0]):
            total += math.tanh(s[o]) ** 2
    return total


def dense_rows(x: Any, w: Any, b: Any) -> float:
    total = 0.0
    for row in x:
        y = np.tanh(w @ row + b)
        total += np.sum(y ** 2)
    return total


def dense_matrix(x: Any, w: Any, b: Any) -> float:
    return np.sum(np.tanh(x @ w.T + b) ** 2)


def dense_jax(jnp: Any, x: Any, w: Any, b: Any) -> Any:
    return (jnp.tanh(x @ w.T + b) ** 2).sum()


def dense_float32(x: Any, w: Any, b: Any) -> Any:
    """The same in single precision."""
    total = np.float32(0.0)
    for i in range(x.shape[0]):
        for o in range(w.shape[0]):
            s = b[o]
            for k in range(x.shape[1]):
                s += w[o, k] * x[i, k]
            y = np.tanh(s)
            total += y * y
    return total


def dense_float32_stored(x: Any, w: Any, b: Any) -> Any:
    y = np.zeros((x.shape[0], w.shape[0]), dtype=np.float32)
    for i in range(x.shape[0]):
        for o in range(w.shape[0]):
            y[i, o] = b[o]
            for k in range(x.shape[1]):
                y[i, o] += w[o, k] * x[i, k]
            y[i, o] = np.tanh(y[i, o])
    return np.sum(y * y)


def layer_norm(x: Any, gain: Any, bias: Any, target: Any) -> float:
    """The squared distance of rows of mean zero and deviation one, scaled and shifted, to others."""
    n, d = x.shape
    error = 0.0
    for i in range(n):
        mean = 0.0
        for j in range(d):
            mean += x[i, j]
        mean /= d
        variance = 0.0
        for j in range(d):
            variance += (x[i, j] - mean) ** 2
        scale = 1.0 / math.sqrt(variance / d + 1e-5)
        for j in range(d):
            y = gain[j] * (x[i, j] - mean) * scale + bias[j]
            error += (y - target[i, j]) ** 2
    return error


def layer_norm_stored(x: Any, gain: Any, bias: Any, target: Any) -> float:
    def moments(row: Any) -> Any:
        mean = 0.0
        for v in row:
            mean += v / len(row)
        variance = 0.0
        for v in row:
            variance += (v - mean) * (v - mean) / len(row)
        return mean, variance
    y = np.zeros(x.shape)
    for i in range(len(x)):
        mean, variance = moments(x[i])
        for j in range(x.shape[1]):
            y[i, j] = gain[j] * (x[i, j] - mean) / math.sqrt(variance + 1e-5) + bias[j]
    return np.sum((y - target) ** 2)


def layer_norm_rows(x: Any, gain: Any, bias: Any, target: Any) -> float:
    error = 0.0
    for i in range(len(x)):
        row = x[i] - np.mean(x[i])
        y = gain * row / np.sqrt(np.mean(row ** 2) + 1e-5) + bias
        error += np.sum((y - target[i]) ** 2)
    return error


def layer_norm_arrays(x: Any, gain: Any, bias: Any, target: Any) -> float:
    mean = np.mean(x, axis=1, keepdims=True)
    variance = np.var(x, axis=1, keepdims=True)
    y = gain * (x - mean) / np.sqrt(variance + 1e-5) + bias
    return np.sum((y - target) ** 2)


def layer_norm_jax(jnp: Any, x: Any, gain: Any, bias: Any, target: Any) -> Any:
    y = gain * (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5) + bias
    return ((y - target) ** 2).sum()


def classify(scores: Any, labels: Any) -> float:
    """The mean of the cross entropies of classes by softmax."""
    n, classes = scores.shape
    loss = 0.0
    for i in range(n):
        highest = scores[i, 0]
        for c in range(1, classes):
            if scores[i, c] > highest:
                highest = scores[i, c]
        total = 0.0
        for c in range(classes):
            total += math.exp(scores[i, c] - highest)
        loss += math.log(total) + highest - scores[i, labels[i]]
    return loss / n


def classify_probabilities(scores: Any, labels: Any) -> float:
    def softmax(row: Any) -> Any:
        out = np.zeros(len(row))
        highest = row[0]
        for v in row:
            highest = max(highest, v)
        for c in range(len(row)):
            out[c] = math.exp(row[c] - highest)
        return out / np.sum(out)
    loss = 0.0
    for i in range(len(scores)):
        loss -= math.log(softmax(scores[i])[labels[i]])
    return loss / len(scores)


def classify_while(scores: Any, labels: Any) -> float:
    n, classes = scores.shape
    total = np.zeros(n)
    i = 0
    while i < n:
        highest = np.max(scores[i])
        c = 0
        while c < classes:
            total[i] += math.exp(scores[i, c] - highest)
            c += 1
        total[i] = math.log(total[i]) + highest - scores[i, labels[i]]
        i += 1
    return np.sum(total) / n


def classify_arrays(scores: Any, labels: Any) -> float:
    highest = np.max(scores, axis=1)
    total = np.sum(np.exp(scores - highest[:, None]), axis=1)
    return np.mean(np.log(total) + highest - scores[np.arange(len(scores)), labels])


def classify_jax(jnp: Any, scores: Any, labels: Any) -> Any:
    highest = scores.max(1)
    total = jnp.exp(scores - highest[:, None]).sum(1)
    return (jnp.log(total) + highest - scores[jnp.arange(len(scores)), labels]).mean()


def pool(x: Any, weights: Any) -> float:
    """A weighted sum of squares of the largest values of 2 × 2 pixels, in each channel."""
    rows, columns, channels = x.shape
    total = 0.0
    for i in range(rows // 2):
        for j in range(columns // 2):
            for c in range(channels):
                largest = x[2 * i, 2 * j, c]
                for di in range(2):
                    for dj in range(2):
                        if x[2 * i + di, 2 * j + dj, c] > largest:
                            largest = x[2 * i + di, 2 * j + dj, c]
                total += weights[c] * largest * largest
    return total


def pool_max(x: Any, weights: Any) -> float:
    rows, columns, channels = x.shape
    out = np.zeros((rows // 2, columns // 2, channels))
    for i in range(rows // 2):
        for j in range(columns // 2):
            for c in range(channels):
                out[i, j, c] = max(x[2 * i, 2 * j, c], x[2 * i, 2 * j + 1, c],
                                   x[2 * i + 1, 2 * j, c], x[2 * i + 1, 2 * j + 1, c])
    return np.sum(out * out * weights)


def pool_windows(x: Any, weights: Any) -> float:
    total = 0.0
    for i in range(0, x.shape[0], 2):
        for j in range(0, x.shape[1], 2):
            largest = np.max(x[i:i + 2, j:j + 2], axis=(0, 1))
            total += np.sum(weights * largest ** 2)
    return total


def pool_slices(x: Any, weights: Any) -> float:
    upper = np.maximum(x[::2, ::2], x[::2, 1::2])
    lower = np.maximum(x[1::2, ::2], x[1::2, 1::2])
    return np.sum(np.maximum(upper, lower) ** 2 * weights)


def pool_jax(jnp: Any, x: Any, weights: Any) -> Any:
    rows, columns, channels = x.shape
    largest = x.reshape(rows // 2, 2, columns // 2, 2, channels).max((1, 3))
    return (weights * largest ** 2).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(6)
    x, w, b = rng.normal(size=(100, 40)), rng.normal(0.0, 0.2, (32, 40)), rng.normal(size=32)
    single = tuple(a.astype(np.float32) for a in (x, w, b))
    rows = rng.normal(1.0, 2.0, (600, 64))
    yield from of_programs(bench, "layers", [
        Ordinary(dense, (x, w, b), (0, 1, 2),
                 {"stored": dense_stored, "inputs outside": dense_inputs_outside, "rows": dense_rows,
                  "matrix": dense_matrix}, adjoint=True, jax=dense_jax),
        Ordinary(dense_float32, single, (0, 1, 2),
                 {"stored": dense_float32_stored, "rows": dense_rows, "matrix": dense_matrix},
                 adjoint=True, jax=dense_jax, rtol=1e-4),
        Ordinary(layer_norm, (rows, rng.normal(1.0, 0.3, 64), rng.normal(size=64), rng.normal(size=rows.shape)),
                 (0, 1, 2), {"stored, helper": layer_norm_stored, "rows": layer_norm_rows, "arrays": layer_norm_arrays},
                 adjoint=True, jax=layer_norm_jax),
        Ordinary(classify, (rng.normal(0.0, 2.0, (1000, 20)), rng.integers(0, 20, 1000)), (0,),
                 {"probabilities, helper": classify_probabilities, "while": classify_while, "arrays": classify_arrays},
                 adjoint=True, jax=classify_jax),
        Ordinary(pool, (rng.normal(size=(128, 128, 12)), rng.uniform(0.5, 1.5, 12)), (0, 1),
                 {"max": pool_max, "windows": pool_windows, "slices": pool_slices}, adjoint=True, jax=pool_jax)])
