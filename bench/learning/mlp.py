"""A multilayer perceptron, 784-512-512-10, batch 128, f32: matrix products and elementwise functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_ours

TITLE = "MLP 784-512-512-10, batch 128, f32"
SIZES, BATCH, RATE = (784, 512, 512, 10), 128, 0.01


def loss(layers: Any, x: Any, labels: Any) -> Any:
    """Mean cross-entropy; ``layers`` are pairs of weights and biases."""
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
    w, b = layers[-1]
    scores = x @ w + b
    scores = scores - np.max(scores, axis=1, keepdims=True)
    chosen = scores[np.arange(len(labels)), labels]
    return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - chosen)


def in_jax(layers: Any, x: Any, labels: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def total(layers: Any, x: Any, labels: Any) -> Any:
        for w, b in layers[:-1]:
            x = jnp.maximum(x @ w + b, 0)
        w, b = layers[-1]
        scores = jax.nn.log_softmax(x @ w + b)
        return -jnp.mean(scores[jnp.arange(len(labels)), labels])
    run = jax.jit(jax.value_and_grad(total) if gradient else total)
    given = jax.tree.map(jnp.asarray, (layers, x, labels))
    return lambda: jax.block_until_ready(run(*given))


def in_torch(layers: Any, x: Any, labels: Any, gradient: bool, compiled: bool = False) -> Program:
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    parameters = [torch.tensor(a, requires_grad=gradient) for layer in layers for a in layer]
    x, labels = torch.tensor(x), torch.tensor(labels)

    def total() -> Any:
        y = x
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
            y = torch.relu(y @ w + b)
        return F.cross_entropy(y @ parameters[-2] + parameters[-1], labels)
    value_of = torch.compile(total) if compiled else total

    def run() -> Any:
        value = value_of()
        return (value.detach(), torch.autograd.grad(value, parameters)) if gradient else value
    return run


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    layers = [(rng.normal(0, m ** -0.5, (m, n)).astype(np.float32), np.zeros(n, np.float32))
              for m, n in zip(SIZES[:-1], SIZES[1:])]
    x, labels = rng.normal(size=(BATCH, SIZES[0])).astype(np.float32), rng.integers(0, SIZES[-1], BATCH)
    value = bench.case("MLP", "value", rtol=1e-4)
    add_ours(value, loss, lambda f: lambda: f(layers, x, labels))
    value.add("JAX", lambda: in_jax(layers, x, labels, False))
    value.add("PyTorch", lambda: in_torch(layers, x, labels, False))
    yield value
    gradient = bench.case("MLP", "gradient", rtol=1e-3)
    add_ours(gradient, loss, lambda f: lambda: f.value_and_grad(layers, x, labels), grad=True)
    gradient.add("JAX", lambda: in_jax(layers, x, labels, True))
    gradient.add("PyTorch", lambda: in_torch(layers, x, labels, True))
    if not bench.quick:
        gradient.add("PyTorch compiled", lambda: in_torch(layers, x, labels, True, True))
    yield gradient
