"""Dynamic programs: the forward algorithm, the best path, soft alignment, edit distance, unaligned labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: dynamic programs"


def hmm_forward(start: Any, move: Any, emit: Any, seen: Any) -> float:
    """The logarithm of the probability of what is seen of a hidden Markov model."""
    n = len(start)
    alpha = np.zeros(n)
    for s in range(n):
        alpha[s] = start[s] * emit[s, seen[0]]
    likelihood = 0.0
    for t in range(1, len(seen)):
        after = np.zeros(n)
        scale = 0.0
        for s in range(n):
            total = 0.0
            for r in range(n):
                total += alpha[r] * move[r, s]
            after[s] = total * emit[s, seen[t]]
            scale += after[s]
        likelihood += math.log(scale)
        for s in range(n):
            alpha[s] = after[s] / scale
    return likelihood


def hmm_forward_table(start: Any, move: Any, emit: Any, seen: Any) -> float:
    n, steps = len(start), len(seen)
    alpha, scale = np.zeros((steps, n)), np.ones(steps)
    alpha[0] = start * emit[:, seen[0]]
    for t in range(1, steps):
        for s in range(n):
            for r in range(n):
                alpha[t, s] += alpha[t - 1, r] * move[r, s]
            alpha[t, s] *= emit[s, seen[t]]
        scale[t] = np.sum(alpha[t])
        alpha[t] /= scale[t]
    return np.sum(np.log(scale))


def hmm_forward_from_outside(start: Any, move: Any, emit: Any, seen: Any) -> float:
    n = len(start)
    alpha, after = start * emit[:, seen[0]], np.zeros(n)
    likelihood, t = 0.0, 1
    while t < len(seen):
        after[:] = 0.0
        for r in range(n):
            for s in range(n):
                after[s] += alpha[r] * move[r, s]
        scale = 0.0
        for s in range(n):
            after[s] *= emit[s, seen[t]]
            scale += after[s]
        likelihood += math.log(scale)
        alpha[:] = after / scale
        t += 1
    return likelihood


def hmm_forward_arrays(start: Any, move: Any, emit: Any, seen: Any) -> float:
    alpha = start * emit[:, seen[0]]
    likelihood = 0.0
    for k in seen[1:]:
        alpha = (alpha @ move) * emit[:, k]
        scale = alpha.sum()
        likelihood += np.log(scale)
        alpha = alpha / scale
    return likelihood


def hmm_forward_jax(jnp: Any, start: Any, move: Any, emit: Any, seen: Any) -> Any:
    import jax

    def step(alpha: Any, k: Any) -> Any:
        alpha = (alpha @ move) * emit[:, k]
        scale = alpha.sum()
        return alpha / scale, jnp.log(scale)
    return jax.lax.scan(step, start * emit[:, seen[0]], seen[1:])[1].sum()


def viterbi(start: Any, move: Any, emit: Any, seen: Any) -> float:
    """The score of the best path through the states of a model, by its logarithms."""
    n, steps = len(start), len(seen)
    score = start + emit[:, seen[0]]
    before = np.zeros((steps, n), dtype=np.int64)
    for t in range(1, steps):
        after = np.zeros(n)
        for s in range(n):
            best = 0
            for r in range(1, n):
                if score[r] + move[r, s] > score[best] + move[best, s]:
                    best = r
            before[t, s] = best
            after[s] = score[best] + move[best, s] + emit[s, seen[t]]
        score = after
    state = np.argmax(score)
    total = 0.0
    for t in range(steps - 1, 0, -1):
        last = before[t, state]
        total += move[last, state] + emit[state, seen[t]]
        state = last
    return total + start[state] + emit[state, seen[0]]


def viterbi_score(start: Any, move: Any, emit: Any, seen: Any) -> float:
    n = len(start)
    score, after = start + emit[:, seen[0]], np.zeros(n)
    for t in range(1, len(seen)):
        for s in range(n):
            best = -np.inf
            for r in range(n):
                best = max(best, score[r] + move[r, s])
            after[s] = best + emit[s, seen[t]]
        score[:] = after
    return np.max(score)


def viterbi_argmax(start: Any, move: Any, emit: Any, seen: Any) -> float:
    n, steps = len(start), len(seen)
    score = start + emit[:, seen[0]]
    before = np.zeros((steps, n), dtype=np.int64)
    for t in range(1, steps):
        through = score[:, None] + move
        before[t] = np.argmax(through, axis=0)
        score = np.max(through, axis=0) + emit[:, seen[t]]
    path = np.zeros(steps, dtype=np.int64)
    path[-1] = np.argmax(score)
    for t in range(steps - 1, 0, -1):
        path[t - 1] = before[t, path[t]]
    return start[path[0]] + np.sum(emit[path, seen]) + np.sum(move[path[:-1], path[1:]])


def viterbi_columns(start: Any, move: Any, emit: Any, seen: Any) -> float:
    score = start + emit[:, seen[0]]
    for k in seen[1:]:
        best = np.empty(len(start))
        for s in range(len(start)):
            best[s] = np.max(score + move[:, s])
        score = best + emit[:, k]
    return np.max(score)


def soft_dtw(x: Any, y: Any, gamma: float) -> float:
    """The cost of a soft alignment of two series."""
    n = len(x)
    m = len(y)
    r = np.full((n + 1, m + 1), np.inf)
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a = r[i - 1, j - 1]
            b = r[i - 1, j]
            c = r[i, j - 1]
            low = min(a, b, c)
            total = math.exp((low - a) / gamma) + math.exp((low - b) / gamma) + math.exp((low - c) / gamma)
            r[i, j] = (x[i - 1] - y[j - 1]) ** 2 + low - gamma * math.log(total)
    return r[n, m]


def soft_minimum(a: Any, b: Any, c: Any, gamma: float) -> Any:
    low = min(a, min(b, c))
    return low - gamma * math.log(math.exp((low - a) / gamma) + math.exp((low - b) / gamma)
                                  + math.exp((low - c) / gamma))


def soft_dtw_rows(x: Any, y: Any, gamma: float) -> float:
    above = np.full(len(y) + 1, np.inf)
    above[0] = 0.0
    for v in x:
        row = np.full(len(y) + 1, np.inf)
        for j in range(len(y)):
            row[j + 1] = (v - y[j]) ** 2 + soft_minimum(above[j], above[j + 1], row[j], gamma)
        above = row
    return above[-1]


def soft_dtw_while(x: Any, y: Any, gamma: float) -> float:
    n, m = len(x), len(y)
    row = np.full(m + 1, np.inf)
    row[0] = 0.0
    i = 0
    while i < n:
        corner, row[0] = row[0], np.inf
        j = 1
        while j <= m:
            above = row[j]
            row[j] = (x[i] - y[j - 1]) ** 2 + soft_minimum(corner, above, row[j - 1], gamma)
            corner = above
            j += 1
        i += 1
    return row[m]


def soft_dtw_costs(x: Any, y: Any, gamma: float) -> float:
    costs = (x[:, None] - y[None, :]) ** 2
    r = np.full((len(x) + 1, len(y) + 1), np.inf)
    r[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            z = -np.array([r[i, j], r[i, j + 1], r[i + 1, j]]) / gamma
            high = np.max(z)
            r[i + 1, j + 1] = costs[i, j] - gamma * (np.log(np.sum(np.exp(z - high))) + high)
    return r[-1, -1]


def soft_dtw_jax(jnp: Any, x: Any, y: Any, gamma: float) -> Any:
    import jax

    def row(above: Any, v: Any) -> Any:
        def cell(left: Any, given: Any) -> Any:
            cost, a, b = given
            value = cost - gamma * jax.nn.logsumexp(-jnp.stack([a, b, left]) / gamma)
            return value, value
        found = jax.lax.scan(cell, 1e30, ((v - y) ** 2, above[:-1], above[1:]))[1]
        return jnp.concatenate([jnp.array([1e30]), found]), None
    return jax.lax.scan(row, jnp.full(len(y) + 1, 1e30).at[0].set(0.0), x)[0][-1]


def edit_distance(a: Any, b: Any, insert: float, delete: float, replace: float) -> float:
    """The least cost of the edits that lead from one word to another."""
    n = len(a)
    m = len(b)
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        d[i, 0] = i * delete
    for j in range(1, m + 1):
        d[0, j] = j * insert
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                cost = 0.0
            else:
                cost = replace
            d[i, j] = min(d[i - 1, j] + delete, d[i, j - 1] + insert, d[i - 1, j - 1] + cost)
    return d[n, m]


def edit_distance_rows(a: Any, b: Any, insert: float, delete: float, replace: float) -> float:
    above = insert * np.arange(len(b) + 1.0)
    for i in range(len(a)):
        row = np.zeros(len(b) + 1)
        row[0] = (i + 1) * delete
        for j in range(len(b)):
            best = above[j] if a[i] == b[j] else above[j] + replace
            if above[j + 1] + delete < best:
                best = above[j + 1] + delete
            if row[j] + insert < best:
                best = row[j] + insert
            row[j + 1] = best
        above = row
    return above[-1]


def edit_distance_one_row(a: Any, b: Any, insert: float, delete: float, replace: float) -> float:
    row = np.zeros(len(b) + 1)
    for j in range(1, len(b) + 1):
        row[j] = row[j - 1] + insert
    for letter in a:
        corner = row[0]
        row[0] += delete
        for j in range(1, len(b) + 1):
            above = row[j]
            row[j] = np.minimum(np.minimum(above + delete, row[j - 1] + insert),
                                corner + replace * (letter != b[j - 1]))
            corner = above
    return row[-1]


def edit_distance_arrays(a: Any, b: Any, insert: float, delete: float, replace: float) -> float:
    row = insert * np.arange(len(b) + 1)
    for i in range(len(a)):
        after = row + delete
        after[1:] = np.minimum(after[1:], row[:-1] + np.where(b == a[i], 0.0, replace))
        for j in range(len(b)):
            after[j + 1] = min(after[j + 1], after[j] + insert)
        row = after
    return row[-1]


def unaligned(scores: Any, labels: Any) -> float:
    """The negative log-likelihood of labels whose places in a series of scores are unknown; 0 stands for none (CTC)."""
    states = 2 * len(labels) + 1
    alpha = np.full(states, -1e30)
    alpha[0] = 0.0
    for t in range(len(scores)):
        norm = np.log(np.sum(np.exp(scores[t])))
        after = np.zeros(states)
        for s in range(states):
            k = 0
            if s % 2 == 1:
                k = labels[s // 2]
            a = alpha[s]
            b = -1e30
            c = -1e30
            if s > 0:
                b = alpha[s - 1]
            if s > 2 and k > 0 and k != labels[s // 2 - 1]:
                c = alpha[s - 2]
            high = max(a, b, c)
            total = math.exp(a - high) + math.exp(b - high) + math.exp(c - high)
            after[s] = high + math.log(total) + scores[t, k] - norm
        alpha = after
    high = max(alpha[-1], alpha[-2])
    return -(high + math.log(math.exp(alpha[-1] - high) + math.exp(alpha[-2] - high)))


def log_of_sum(a: Any, b: Any) -> Any:
    high = max(a, b)
    return high + math.log1p(math.exp(-abs(a - b)))


def unaligned_in_place(scores: Any, labels: Any) -> float:
    states = 2 * len(labels) + 1
    alpha = np.full(states, -1e30)
    alpha[0] = 0.0
    for row in scores:
        norm = math.log(np.sum(np.exp(row)))
        for s in range(states - 1, -1, -1):
            value = alpha[s]
            if s > 0:
                value = log_of_sum(value, alpha[s - 1])
            if s % 2 == 0:
                alpha[s] = value + row[0] - norm
            else:
                k = labels[s // 2]
                if s > 2 and k != labels[s // 2 - 1]:
                    value = log_of_sum(value, alpha[s - 2])
                alpha[s] = value + row[k] - norm
    return -log_of_sum(alpha[states - 1], alpha[states - 2])


def unaligned_arrays(scores: Any, labels: Any) -> float:
    states = 2 * len(labels) + 1
    signs = np.zeros(states, dtype=np.int64)
    signs[1::2] = labels
    skips = np.zeros(states, dtype=np.bool_)
    skips[3::2] = labels[1:] != labels[:-1]
    chances = scores - np.log(np.sum(np.exp(scores), axis=1))[:, None]
    alpha = np.full(states + 2, -1e30)
    alpha[2] = 0.0
    for t in range(len(scores)):
        through = np.logaddexp(alpha[2:], alpha[1:-1])
        through = np.where(skips, np.logaddexp(through, alpha[:-2]), through)
        alpha[2:] = through + chances[t][signs]
    return -np.logaddexp(alpha[-1], alpha[-2])


def unaligned_jax(jnp: Any, scores: Any, labels: Any) -> Any:
    import jax

    states = 2 * len(labels) + 1
    signs = jnp.zeros(states, int).at[1::2].set(labels)
    skips = jnp.zeros(states, bool).at[3::2].set(labels[1:] != labels[:-1])

    def step(alpha: Any, chances: Any) -> Any:
        through = jnp.logaddexp(alpha[2:], alpha[1:-1])
        through = jnp.where(skips, jnp.logaddexp(through, alpha[:-2]), through)
        return alpha.at[2:].set(through + chances[signs]), None
    alpha = jax.lax.scan(step, jnp.full(states + 2, -1e30).at[2].set(0.0), jax.nn.log_softmax(scores))[0]
    return -jnp.logaddexp(alpha[-1], alpha[-2])


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    states, signs = 16, 10
    start, move, emit = (rng.dirichlet(np.ones(k), size) for k, size in
                         ((states, None), (states, states), (signs, states)))
    seen = rng.integers(0, signs, 400)
    model, logarithms = (start, move, emit, seen), (np.log(start), np.log(move), np.log(emit), seen)
    walks = np.cumsum(rng.normal(0.0, 0.3, (2, 80)), axis=1)
    first, second = rng.integers(0, 4, 200), rng.integers(0, 4, 180)
    yield from of_programs(bench, "dynamic", [
        Ordinary(hmm_forward, model, (0, 1, 2),
                 {"table": hmm_forward_table, "from outside": hmm_forward_from_outside, "arrays": hmm_forward_arrays},
                 adjoint=True, jax=hmm_forward_jax),
        Ordinary(viterbi, logarithms, (0, 1, 2),
                 {"score": viterbi_score, "argmax": viterbi_argmax, "columns": viterbi_columns}, adjoint=True),
        Ordinary(soft_dtw, (walks[0], walks[1], 0.7), (0, 1),
                 {"rows": soft_dtw_rows, "while": soft_dtw_while, "costs": soft_dtw_costs},
                 adjoint=True, jax=soft_dtw_jax),
        Ordinary(edit_distance, (first, second, 0.913, 1.117, 1.371), (2, 3, 4),
                 {"rows": edit_distance_rows, "one row": edit_distance_one_row, "arrays": edit_distance_arrays},
                 adjoint=True),
        Ordinary(unaligned, (rng.normal(0.0, 1.0, (100, 20)), rng.integers(1, 20, 20)), (0,),
                 {"in place": unaligned_in_place, "arrays": unaligned_arrays}, adjoint=True, jax=unaligned_jax)])
