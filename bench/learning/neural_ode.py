"""A small neural ODE: 64 points in the plane moved by a network of 32 hidden units, 100 steps of Runge-Kutta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_ours

TITLE = "A neural ODE: 64 points, 32 hidden units, 100 Runge-Kutta steps"
POINTS, HIDDEN, STEPS = 64, 32, 100


def slope(net: Any, y: Any, xp: Any) -> Any:
    w1, b1, w2, b2 = net
    return xp.tanh(y @ w1 + b1) @ w2 + b2


def step(net: Any, y: Any, h: float, xp: Any) -> Any:
    k1 = slope(net, y, xp)
    k2 = slope(net, y + h / 2 * k1, xp)
    k3 = slope(net, y + h / 2 * k2, xp)
    k4 = slope(net, y + h * k3, xp)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def loss(net: Any, y: Any, target: Any, steps: int) -> float:
    for _ in range(steps):
        y = step(net, y, 1.0 / steps, np)
    return np.mean((y - target) ** 2)


def in_jax(net: Any, y: Any, target: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def total(net: Any, y: Any) -> Any:
        y = jax.lax.scan(lambda y, _: (step(net, y, 1.0 / STEPS, jnp), None), y, length=STEPS)[0]
        return jnp.mean((y - target) ** 2)
    run = jax.jit(jax.value_and_grad(total) if gradient else total)
    net, y = jax.tree.map(jnp.asarray, (net, y))
    return lambda: jax.block_until_ready(run(net, y))


def in_torch(net: Any, y: Any, target: Any, gradient: bool) -> Program:
    import torch

    torch.set_num_threads(1)
    parameters, start, wanted = [torch.tensor(a, requires_grad=gradient) for a in net], torch.tensor(y), \
        torch.tensor(target)

    def run() -> Any:
        y = start
        for _ in range(STEPS):
            y = step(parameters, y, 1.0 / STEPS, torch)
        value = ((y - wanted) ** 2).mean()
        return (value.detach(), torch.autograd.grad(value, parameters)) if gradient else value
    return run


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    net = (rng.normal(0, 0.5, (2, HIDDEN)), np.zeros(HIDDEN), rng.normal(0, 0.5, (HIDDEN, 2)), np.zeros(2))
    y, target = rng.normal(size=(POINTS, 2)), rng.normal(size=(POINTS, 2))
    value = bench.case("Neural ODE", "value")
    add_ours(value, loss, lambda f: lambda: f(net, y, target, STEPS))
    value.add("JAX", lambda: in_jax(net, y, target, False))
    value.add("PyTorch", lambda: in_torch(net, y, target, False))
    yield value
    gradient = bench.case("Neural ODE", "gradient", rtol=1e-8, steps=STEPS)
    add_ours(gradient, loss, lambda f: lambda: f.value_and_grad(net, y, target, STEPS), grad=True)
    gradient.add("JAX", lambda: in_jax(net, y, target, True))
    gradient.add("PyTorch", lambda: in_torch(net, y, target, True))
    yield gradient
