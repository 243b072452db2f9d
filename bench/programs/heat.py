"""The heat equation on a line of 1,000 points, 1,000 steps in place; gradient for the start and the coefficient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.casadi_peer import add_casadi
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme
from jitad import jit

TITLE = "Heat equation, 1,000 points, 1,000 steps in place"
POINTS, STEPS, K = 1000, 1000, 0.25


def heat(start: Any, k: float, steps: int) -> float:
    u = start.copy()
    for _ in range(steps):
        u[1:-1] += k * (u[:-2] - 2 * u[1:-1] + u[2:])
    return np.sum(u * u)


def heat_loops(start: Any, k: float, steps: int) -> float:
    """The same as scalar loops, with a second array."""
    u, new = start.copy(), start.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1])
        u[:] = new
    total = 0.0
    for i in range(len(u)):
        total += u[i] * u[i]
    return total


def in_casadi(ca: Any, start: Any, k: Any) -> Any:
    u, rate = ca.MX.sym("u", POINTS), ca.MX.sym("k")
    inner = u[1:-1] + rate * (u[:-2] - 2 * u[1:-1] + u[2:])
    one = ca.Function("step", [u, rate], [ca.vertcat(u[0], inner, u[-1])])
    return ca.sumsqr(one.fold(STEPS)(start, k))


def in_jax(start: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def total(start: Any, k: Any) -> Any:
        def one(u: Any, _: Any) -> Any:
            return u.at[1:-1].add(k * (u[:-2] - 2 * u[1:-1] + u[2:])), None
        u = jax.lax.scan(one, start, length=STEPS)[0]
        return (u * u).sum()
    run, u = jax.jit(jax.value_and_grad(total, (0, 1)) if gradient else total), jnp.asarray(start)
    return lambda: jax.block_until_ready(run(u, K))


def in_torch(start: Any, gradient: bool) -> Program:
    import torch

    first, k = torch.tensor(start, requires_grad=gradient), torch.tensor(K, dtype=torch.float64, requires_grad=gradient)

    def run() -> Any:
        u = first
        for _ in range(STEPS):
            u = torch.cat((u[:1], u[1:-1] + k * (u[:-2] - 2 * u[1:-1] + u[2:]), u[-1:]))
        value = (u * u).sum()
        return (value.detach(), torch.autograd.grad(value, (first, k))) if gradient else value
    return run


def in_numba(start: Any) -> Program:
    import numba
    run = numba.njit(heat_loops)
    return lambda: run(start, K, STEPS)


def cases(bench: Bench) -> Iterator[Case]:
    start = np.sin(np.linspace(0, 7, POINTS)) + np.random.default_rng(0).normal(0, 0.1, POINTS)
    loops = jit(heat_loops, grad=(0, 1))
    u_bar, k_bar, kept, work = np.empty(POINTS), np.empty(1), np.empty((STEPS + 1, POINTS)), np.empty((2, POINTS))
    sizes = {"POINTS": POINTS, "STEPS": STEPS}
    value = bench.case("Heat", "value")
    add_ours(value, heat, lambda f: lambda: f(start, K, STEPS))
    value.add("jitad loops", lambda: lambda: loops(start, K, STEPS))
    add_c(value, "heat", "heat", POINTS, STEPS, K, start, work)
    add_enzyme(value, "heat", [start, K], sizes=sizes)
    add_casadi(value, in_casadi, [start, K])
    value.add("Numba", lambda: in_numba(start))
    value.add("JAX scan", lambda: in_jax(start, False))
    value.add("PyTorch", lambda: in_torch(start, False))
    yield value
    gradient = bench.case("Heat", "gradient", rtol=1e-8, steps=STEPS)
    add_ours(gradient, heat, lambda f: lambda: f.value_and_grad(start, K, STEPS), grad=(0, 1))
    gradient.add("jitad loops", lambda: lambda: loops.value_and_grad(start, K, STEPS))
    add_c(gradient, "heat", "heat_gradient", POINTS, STEPS, K, start, u_bar, k_bar, kept, work,
          results=lambda v: (v, u_bar, k_bar[0]))
    add_enzyme(gradient, "heat", [start, K], (0, 1), sizes=sizes,
               results=lambda found: (found[0], found[1][0], found[1][1][0]))
    add_casadi(gradient, in_casadi, [start, K], (0, 1), lambda found: (found[0][0], found[1], found[2][0]))
    gradient.add("JAX scan", lambda: in_jax(start, True))
    gradient.add("PyTorch", lambda: in_torch(start, True))
    yield gradient
