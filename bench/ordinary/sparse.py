"""Sums through indices: a sparse matrix, ranks on a graph, soft bins, embeddings, segments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: sums through indices"


def csr_product(values: Any, columns: Any, starts: Any, x: Any) -> float:
    """Half the squared norm of a sparse matrix times a vector; the matrix is stored by rows."""
    total = 0.0
    for i in range(len(starts) - 1):
        y = 0.0
        for k in range(starts[i], starts[i + 1]):
            y += values[k] * x[columns[k]]
        total += 0.5 * y * y
    return total


def csr_product_stored(values: Any, columns: Any, starts: Any, x: Any) -> float:
    n = len(starts) - 1
    y = np.zeros(n)
    for i in range(n):
        for k in range(starts[i], starts[i + 1]):
            y[i] += values[k] * x[columns[k]]
    return 0.5 * np.dot(y, y)


def csr_product_while(values: Any, columns: Any, starts: Any, x: Any) -> float:
    total, i, k = 0.0, 0, 0
    while i < len(starts) - 1:
        y = 0.0
        while k < starts[i + 1]:
            y += values[k] * x[columns[k]]
            k += 1
        total += y * y
        i += 1
    return 0.5 * total


def csr_product_rows(values: Any, columns: Any, starts: Any, x: Any) -> float:
    total = 0.0
    for i in range(len(starts) - 1):
        row = slice(starts[i], starts[i + 1])
        total += np.dot(values[row], x[columns[row]]) ** 2
    return 0.5 * total


def csr_product_jax(jnp: Any, values: Any, columns: Any, starts: Any, x: Any) -> Any:
    n = len(starts) - 1
    rows = jnp.repeat(jnp.arange(n), jnp.diff(starts), total_repeat_length=len(values))
    y = jnp.zeros(n).at[rows].add(values * x[columns], indices_are_sorted=True)
    return 0.5 * (y * y).sum()


def page_rank(source: Any, target: Any, weight: Any, interest: Any, damping: float, steps: int) -> float:
    """The interest in the pages that a walk along weighted links ends on."""
    n = len(interest)
    rank = np.full(n, 1.0 / n)
    for _ in range(steps):
        after = np.zeros(n)
        for e in range(len(source)):
            after[target[e]] += weight[e] * rank[source[e]]
        for i in range(n):
            rank[i] = (1.0 - damping) / n + damping * after[i]
    return np.dot(rank, interest)


def page_rank_outside(source: Any, target: Any, weight: Any, interest: Any, damping: float, steps: int) -> float:
    n = len(interest)
    rank, after = np.zeros(n) + 1.0 / n, np.zeros(n)
    step = 0
    while step < steps:
        after[:] = (1.0 - damping) / n
        for e in range(len(source)):
            after[target[e]] += damping * weight[e] * rank[source[e]]
        rank[:] = after
        step += 1
    total = 0.0
    for i in range(n):
        total += rank[i] * interest[i]
    return total


def page_rank_zip(source: Any, target: Any, weight: Any, interest: Any, damping: float, steps: int) -> float:
    n = len(interest)
    rank = np.ones(n) / n
    for _ in range(steps):
        after = np.full(n, (1.0 - damping) / n)
        for s, t, w in zip(source, target, weight):
            after[t] += damping * w * rank[s]
        rank = after
    return np.sum(rank * interest)


def page_rank_arrays(source: Any, target: Any, weight: Any, interest: Any, damping: float, steps: int) -> float:
    n = len(interest)
    rank = np.ones(n) / n
    for _ in range(steps):
        after = np.zeros(n)
        np.add.at(after, target, weight * rank[source])
        rank = (1.0 - damping) / n + damping * after
    return np.sum(rank * interest)


def page_rank_jax(jnp: Any, source: Any, target: Any, weight: Any, interest: Any, damping: float, steps: int) -> Any:
    import jax

    n = len(interest)

    def step(rank: Any, _: None) -> Any:
        return (1.0 - damping) / n + damping * jnp.zeros(n).at[target].add(weight * rank[source]), None
    return jnp.dot(jax.lax.scan(step, jnp.full(n, 1.0 / n), None, steps)[0], interest)


def soft_histogram(x: Any, centers: Any, width: float) -> float:
    """The entropy of a histogram to whose bins each value belongs in part."""
    m = len(centers)
    bins = np.zeros(m)
    for i in range(len(x)):
        part = np.zeros(m)
        total = 0.0
        for k in range(m):
            d = (x[i] - centers[k]) / width
            part[k] = math.exp(-0.5 * d * d)
            total += part[k]
        for k in range(m):
            bins[k] += part[k] / total
    entropy = 0.0
    for k in range(m):
        p = bins[k] / len(x)
        entropy -= p * math.log(p)
    return entropy


def soft_histogram_outside(x: Any, centers: Any, width: float) -> float:
    m = len(centers)
    bins, part = np.zeros(m), np.zeros(m)
    for v in x:
        for k in range(m):
            part[k] = math.exp(-(v - centers[k]) ** 2 / (2.0 * width ** 2))
        bins += part / np.sum(part)
    p = bins / len(x)
    return -np.sum(p * np.log(p))


def soft_histogram_rows(x: Any, centers: Any, width: float) -> float:
    bins = np.zeros(len(centers))
    for i in range(len(x)):
        part = np.exp(-0.5 * ((x[i] - centers) / width) ** 2)
        bins = bins + part / part.sum()
    p = bins / len(x)
    return -np.sum(p * np.log(p))


def soft_histogram_arrays(x: Any, centers: Any, width: float) -> float:
    part = np.exp(-0.5 * ((x[:, None] - centers[None, :]) / width) ** 2)
    p = np.mean(part / np.sum(part, axis=1)[:, None], axis=0)
    return -np.sum(p * np.log(p))


def soft_histogram_jax(jnp: Any, x: Any, centers: Any, width: float) -> Any:
    part = jnp.exp(-0.5 * ((x[:, None] - centers[None, :]) / width) ** 2)
    p = (part / part.sum(axis=1)[:, None]).mean(axis=0)
    return -(p * jnp.log(p)).sum()


def embedding(table: Any, words: Any, label: Any, w: Any) -> float:
    """The logistic loss of texts, each the mean of the vectors of its words."""
    loss = 0.0
    for b in range(len(words)):
        score = 0.0
        for d in range(len(w)):
            mean = 0.0
            for k in range(words.shape[1]):
                mean += table[words[b, k], d]
            score += w[d] * mean / words.shape[1]
        loss += math.log(1.0 + math.exp(-label[b] * score))
    return loss / len(words)


def embedding_words_outside(table: Any, words: Any, label: Any, w: Any) -> float:
    count, length = words.shape
    loss = 0.0
    for b in range(count):
        mean = np.zeros(len(w))
        for k in range(length):
            for d in range(len(w)):
                mean[d] += table[words[b, k], d]
        score = 0.0
        for d in range(len(w)):
            score += w[d] * mean[d]
        loss += math.log(1.0 + math.exp(-label[b] * score / length))
    return loss / count


def embedding_slices(table: Any, words: Any, label: Any, w: Any) -> float:
    loss = 0.0
    for b in range(len(words)):
        mean = np.zeros(len(w))
        for word in words[b]:
            mean += table[word]
        loss += np.log1p(np.exp(-label[b] * np.dot(mean, w) / words.shape[1]))
    return loss / len(words)


def embedding_arrays(table: Any, words: Any, label: Any, w: Any) -> float:
    score = table[words].mean(axis=1) @ w
    return np.mean(np.log(1.0 + np.exp(-label * score)))


def embedding_jax(jnp: Any, table: Any, words: Any, label: Any, w: Any) -> Any:
    return jnp.log(1.0 + jnp.exp(-label * (table[words].mean(axis=1) @ w))).mean()


def segment_spread(x: Any, segment: Any, count: int) -> float:
    """The sum of the standard deviations of the segments of a list of numbers."""
    number = np.zeros(count)
    mean = np.zeros(count)
    for i in range(len(x)):
        number[segment[i]] += 1.0
        mean[segment[i]] += x[i]
    for s in range(count):
        mean[s] /= number[s]
    spread = np.zeros(count)
    for i in range(len(x)):
        spread[segment[i]] += (x[i] - mean[segment[i]]) ** 2
    total = 0.0
    for s in range(count):
        total += math.sqrt(spread[s] / number[s])
    return total


def segment_spread_counts(x: Any, segment: Any, count: int) -> float:
    number = np.bincount(segment, minlength=count)
    mean = np.bincount(segment, weights=x, minlength=count) / number
    spread = np.bincount(segment, weights=(x - mean[segment]) ** 2, minlength=count)
    return np.sum(np.sqrt(spread / number))


def segment_spread_pairs(x: Any, segment: Any, count: int) -> float:
    sums = np.zeros((count, 3))
    for v, s in zip(x, segment):
        sums[s, 0] += 1.0
        sums[s, 1] += v
    for i, s in enumerate(segment):
        sums[s, 2] += (x[i] - sums[s, 1] / sums[s, 0]) ** 2
    return np.sqrt(sums[:, 2] / sums[:, 0]).sum()


def segment_spread_add_at(x: Any, segment: Any, count: int) -> float:
    number, mean, spread = np.zeros(count), np.zeros(count), np.zeros(count)
    np.add.at(number, segment, 1.0)
    np.add.at(mean, segment, x)
    mean /= number
    np.add.at(spread, segment, (x - mean[segment]) ** 2)
    return np.sum(np.sqrt(spread / number))


def segment_spread_jax(jnp: Any, x: Any, segment: Any, count: int) -> Any:
    number = jnp.zeros(count).at[segment].add(1.0)
    mean = jnp.zeros(count).at[segment].add(x) / number
    return jnp.sqrt(jnp.zeros(count).at[segment].add((x - mean[segment]) ** 2) / number).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(4)
    rows, pages = 12_000, 500
    starts = np.concatenate([[0], np.cumsum(rng.integers(2, 16, rows))])
    entries = int(starts[-1])
    source, target = rng.integers(0, pages, (2, 6000))
    share = 1.0 / np.bincount(source, minlength=pages)[source]
    words, label = rng.integers(0, 2000, (400, 10)), rng.choice([-1.0, 1.0], 400)
    yield from of_programs(bench, "sparse", [
        Ordinary(csr_product, (rng.normal(0.0, 1.0, entries), rng.integers(0, rows, entries), starts,
                               rng.normal(0.0, 1.0, rows)), (0, 3),
                 {"stored": csr_product_stored, "while": csr_product_while, "rows": csr_product_rows},
                 adjoint=True, jax=csr_product_jax),
        Ordinary(page_rank, (source, target, share, rng.uniform(0.0, 1.0, pages), 0.85, 20), (2, 3, 4),
                 {"outside": page_rank_outside, "zip": page_rank_zip, "arrays": page_rank_arrays},
                 adjoint=True, jax=page_rank_jax),
        Ordinary(soft_histogram, (rng.normal(0.0, 1.0, 2000), np.linspace(-3.0, 3.0, 24), 0.4), (0, 1, 2),
                 {"outside": soft_histogram_outside, "rows": soft_histogram_rows, "arrays": soft_histogram_arrays},
                 adjoint=True, jax=soft_histogram_jax),
        Ordinary(embedding, (rng.normal(0.0, 1.0, (2000, 24)), words, label, rng.normal(0.0, 0.5, 24)), (0, 3),
                 {"words outside": embedding_words_outside, "slices": embedding_slices, "arrays": embedding_arrays},
                 adjoint=True, jax=embedding_jax),
        Ordinary(segment_spread, (rng.normal(0.0, 1.0, 50_000), rng.integers(0, 200, 50_000), 200), (0,),
                 {"counts": segment_spread_counts, "one array": segment_spread_pairs,
                  "add.at": segment_spread_add_at}, adjoint=True, jax=segment_spread_jax)])
