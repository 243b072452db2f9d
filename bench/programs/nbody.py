"""The energy of 256 bodies: a loop over pairs, gradient with respect to positions and velocities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme

TITLE = "N-body energy, 256 bodies"
BODIES, SOFT = 256, 1e-3


def energy(x: Any, v: Any, m: Any) -> float:
    total = 0.0
    for i in range(len(m)):
        total += 0.5 * m[i] * (v[i, 0] ** 2 + v[i, 1] ** 2 + v[i, 2] ** 2)
        pull = 0.0
        for j in range(i):
            dx = x[i, 0] - x[j, 0]
            dy = x[i, 1] - x[j, 1]
            dz = x[i, 2] - x[j, 2]
            pull += m[j] / math.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
        total -= m[i] * pull
    return total


def array_energy(xp: Any, x: Any, v: Any, m: Any, below: Any) -> Any:
    """For array libraries: all pairs at once, masked."""
    d = x[:, None] - x[None]
    potential = (m[:, None] * m[None] / xp.sqrt((d ** 2).sum(-1) + SOFT) * below).sum()
    return 0.5 * (m * (v ** 2).sum(1)).sum() - potential


def in_jax(x: Any, v: Any, m: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    x, v, m, below = map(jnp.asarray, (x, v, m, np.tri(len(m), k=-1)))

    def total(x: Any, v: Any) -> Any:
        return array_energy(jnp, x, v, m, below)
    run = jax.jit(jax.value_and_grad(total, (0, 1)) if gradient else total)
    return lambda: jax.block_until_ready(run(x, v))


def in_torch(x: Any, v: Any, m: Any, gradient: bool) -> Program:
    import torch

    x, v, m, below = (torch.tensor(a, requires_grad=gradient and i < 2)
                      for i, a in enumerate((x, v, m, np.tri(len(m), k=-1))))

    def run() -> Any:
        value = array_energy(torch, x, v, m, below)
        return (value.detach(), torch.autograd.grad(value, (x, v))) if gradient else value
    return run


def in_numba(*problem: Any) -> Program:
    import numba
    run = numba.njit(energy)
    return lambda: run(*problem)


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    problem = x, v, m = rng.normal(size=(BODIES, 3)), rng.normal(size=(BODIES, 3)), rng.uniform(0.5, 1.5, BODIES)
    bars = [np.empty((BODIES, 3)), np.empty((BODIES, 3))]
    value = bench.case("N-body", "value")
    add_ours(value, energy, lambda f: lambda: f(x, v, m))
    add_c(value, "nbody", "nbody", BODIES, x, v, m)
    add_enzyme(value, "nbody", problem)
    value.add("Numba", lambda: in_numba(*problem))
    value.add("JAX", lambda: in_jax(*problem, False))
    value.add("PyTorch", lambda: in_torch(*problem, False))
    yield value
    gradient = bench.case("N-body", "gradient", rtol=1e-8)
    add_ours(gradient, energy, lambda f: lambda: f.value_and_grad(x, v, m), grad=(0, 1))
    add_c(gradient, "nbody", "nbody_gradient", BODIES, x, v, m, *bars, results=lambda e: (e, bars))
    add_enzyme(gradient, "nbody", problem, (0, 1),
               results=lambda found: (found[0], [bar.reshape(-1, 3) for bar in found[1]]))
    gradient.add("JAX", lambda: in_jax(*problem, True))
    gradient.add("PyTorch", lambda: in_torch(*problem, True))
    yield gradient
