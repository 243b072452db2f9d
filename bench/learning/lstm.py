"""ADBench's LSTM: value and gradient, as scalar loops and in array operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme
from jitad import jit

TITLE = "ADBench: LSTM"
EXPECTED = {"l2_c1024": 0.66666518, "l4_c4096": 0.68726840}


class Weights(NamedTuple):
    main: Any               # (2 layers, 4 b): of each layer the weights, then the biases; forget, in, out, change
    extra: Any              # (3, b)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def objective(weights: Weights, start: Any, sequence: Any) -> float:
    main, extra = weights
    layers = main.shape[0] // 2
    length, b = sequence.shape
    state = start.copy()                        # (2 layers, b): of each layer hidden, then cell
    total = 0.0
    for t in range(length - 1):
        signal = np.empty(b)
        for j in range(b):
            signal[j] = sequence[t, j] * extra[0, j]
        for i in range(layers):
            for j in range(b):
                forget = sigmoid(signal[j] * main[2 * i, j] + main[2 * i + 1, j])
                into = sigmoid(state[2 * i, j] * main[2 * i, b + j] + main[2 * i + 1, b + j])
                out = sigmoid(signal[j] * main[2 * i, 2 * b + j] + main[2 * i + 1, 2 * b + j])
                change = math.tanh(state[2 * i, j] * main[2 * i, 3 * b + j] + main[2 * i + 1, 3 * b + j])
                state[2 * i + 1, j] = state[2 * i + 1, j] * forget + into * change
                state[2 * i, j] = out * math.tanh(state[2 * i + 1, j])
                signal[j] = state[2 * i, j]
        exponentials = 2.0
        scores = 0.0
        targets = 0.0
        for j in range(b):
            y = signal[j] * extra[1, j] + extra[2, j]
            exponentials += math.exp(y)
            scores += sequence[t + 1, j] * y
            targets += sequence[t + 1, j]
        total += scores - targets * math.log(exponentials)
    return -total / ((length - 1) * b)


def objective_arrays(weights: Weights, start: Any, sequence: Any) -> float:
    """The same in array operations, one row at a time."""
    main, extra = weights
    layers = main.shape[0] // 2
    length, b = sequence.shape
    state = start.copy()
    total = 0.0
    for t in range(length - 1):
        signal = sequence[t] * extra[0]
        for i in range(layers):
            w, bias, hidden = main[2 * i], main[2 * i + 1], state[2 * i]
            forget = 1 / (1 + np.exp(-(signal * w[:b] + bias[:b])))
            into = 1 / (1 + np.exp(-(hidden * w[b:2 * b] + bias[b:2 * b])))
            out = 1 / (1 + np.exp(-(signal * w[2 * b:3 * b] + bias[2 * b:3 * b])))
            change = np.tanh(hidden * w[3 * b:] + bias[3 * b:])
            state[2 * i + 1] = state[2 * i + 1] * forget + into * change
            state[2 * i] = out * np.tanh(state[2 * i + 1])
            signal = state[2 * i]
        y = signal * extra[1] + extra[2]
        total += np.sum(sequence[t + 1] * (y - np.log(2 + np.sum(np.exp(y)))))
    return -total / ((length - 1) * b)


def load(path: Path) -> tuple[Weights, Any, Any]:
    numbers = path.read_text().split()
    layers, length, b = (int(v) for v in numbers[:3])
    sizes = np.cumsum([2 * layers * 4 * b, 3 * b, 2 * layers * b])
    main, extra, state, sequence = np.split(np.array(numbers[3:], float), sizes)
    return (Weights(main.reshape(2 * layers, 4 * b), extra.reshape(3, b)), state.reshape(2 * layers, b),
            sequence.reshape(length, b))


def step(xp: Any, sigmoid: Any, main: Any, extra: Any, state: list[Any], x: Any, target: Any) -> tuple[list[Any], Any]:
    """One element of the sequence for an array library: (state, term of the total)."""
    signal, after = x * extra[0], []
    for i in range(len(state) // 2):
        (wf, wi, wo, wc), (bf, bi, bo, bc) = main[2 * i].reshape(4, -1), main[2 * i + 1].reshape(4, -1)
        hidden, cell = state[2 * i], state[2 * i + 1]
        cell = cell * sigmoid(signal * wf + bf) + sigmoid(hidden * wi + bi) * xp.tanh(hidden * wc + bc)
        signal = sigmoid(signal * wo + bo) * xp.tanh(cell)
        after += [signal, cell]
    y = signal * extra[1] + extra[2]
    return after, (target * (y - xp.log(2 + xp.exp(y).sum()))).sum()


def in_jax(weights: Weights, start: Any, sequence: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def total(w: Weights, s: Any, xs: Any) -> Any:
        def body(state: Any, pair: Any) -> Any:
            return step(jnp, jax.nn.sigmoid, w.main, w.extra, state, *pair)
        return -jax.lax.scan(body, list(s), (xs[:-1], xs[1:]))[1].sum() / xs[1:].size

    run = jax.jit(jax.value_and_grad(total) if gradient else total)
    w, s, x = jax.tree.map(jnp.asarray, (weights, start, sequence))
    return lambda: jax.block_until_ready(run(w, s, x))


def in_torch(weights: Weights, start: Any, sequence: Any, gradient: bool) -> Program:
    import torch

    torch.set_num_threads(1)
    w, x = [torch.tensor(a, requires_grad=gradient) for a in weights], torch.as_tensor(sequence)

    def run() -> Any:
        state, total = list(torch.as_tensor(start)), torch.zeros((), dtype=x.dtype)
        for t in range(len(x) - 1):
            state, added = step(torch, torch.sigmoid, *w, state, x[t], x[t + 1])
            total = total + added
        value = -total / x[1:].numel()
        return (value.detach(), torch.autograd.grad(value, w)) if gradient else value
    return run


def cases(bench: Bench) -> Iterator[Case]:
    for size in ("l2_c1024",) if bench.quick else EXPECTED:
        problem = load(bench.file(f"adbench/lstm/lstm_{size}.txt"))
        yield from problem_cases(bench, f"LSTM {size}", problem, EXPECTED[size])


def problem_cases(bench: Bench, name: str, problem: Any, expected: float) -> Iterator[Case]:
    weights, start, sequence = problem
    arrays = jit(objective_arrays, grad=True)
    layers, (length, b), bars = len(start) // 2, sequence.shape, [np.empty_like(a) for a in weights]
    scratch = np.empty((length - 1) * layers * 8 * b), np.empty((length - 1) * b)
    inputs = (layers, length, b, *weights, start, sequence)
    sizes = {"L": layers, "LENGTH": length, "B": b}
    value = bench.case(name, "value", rtol=1e-7)
    value.results["the known value"] = expected
    add_ours(value, objective, lambda f: lambda: f(*problem))
    value.add("jitad arrays", lambda: lambda: arrays(*problem))
    add_c(value, "lstm", "lstm_value", *inputs, *scratch)
    add_enzyme(value, "lstm", (*weights, start, sequence), sizes=sizes)
    value.add("JAX", lambda: in_jax(*problem, False))
    value.add("PyTorch", lambda: in_torch(*problem, False))
    yield value
    gradient = bench.case(name, "gradient", rtol=1e-7, steps=length - 1)
    add_ours(gradient, objective, lambda f: lambda: f.value_and_grad(*problem), grad=True)
    gradient.add("jitad arrays", lambda: lambda: arrays.value_and_grad(*problem))
    add_c(gradient, "lstm", "lstm_gradient", *inputs, *bars, *scratch, results=lambda v: (v, bars))
    add_enzyme(gradient, "lstm", (*weights, start, sequence), (0, 1), sizes=sizes, results=lambda both: (
        both[0], [bar.reshape(a.shape) for bar, a in zip(both[1], weights)]))
    gradient.add("JAX", lambda: in_jax(*problem, True))
    gradient.add("PyTorch", lambda: in_torch(*problem, True))
    yield gradient
