"""Kepler's equation for 1,000 pairs by Newton's method: a ``while`` that depends on the data, for each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.drjit_peer import add_drjit, numbers
from bench.peers.enzyme_peer import add_enzyme

TITLE = "Kepler's equation by Newton's method, 1,000 pairs"
PAIRS = 1000


def solve(e: float, M: float) -> float:
    E = M + e * math.sin(M)
    delta = 1.0
    while abs(delta) >= 1e-12:
        delta = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= delta
    return E


def kepler(e: Any, M: Any) -> float:
    total = 0.0
    for i in range(len(e)):
        total += math.cos(solve(e[i], M[i]))
    return total


def in_numba(e: Any, M: Any) -> Program:
    import numba

    inner = numba.njit(solve)

    @numba.njit
    def run(e: Any, M: Any) -> float:
        total = 0.0
        for i in range(len(e)):
            total += math.cos(inner(e[i], M[i]))
        return total
    return lambda: run(e, M)


def in_drjit(dr: Any, e: Any, M: Any) -> Any:
    """All pairs at once; finished ones are masked.  Reverse mode requires a bound on the number of iterations."""
    def newton(E: Any, _: Any) -> Any:
        delta = (E - e * dr.sin(E) - M) / (1 - e * dr.cos(E))
        return E - delta, delta
    start = (M + e * dr.sin(M), dr.full(type(M), 1.0, len(M)))
    return dr.sum(dr.cos(dr.while_loop(start, lambda E, d: dr.abs(d) >= 1e-12, newton, max_iterations=64)[0]))


def in_jax(e: Any, M: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def one(e: Any, M: Any) -> Any:
        def newton(state: Any) -> Any:
            E, _ = state
            delta = (E - e * jnp.sin(E) - M) / (1 - e * jnp.cos(E))
            return E - delta, delta
        start = (M + e * jnp.sin(M), jnp.ones_like(M))
        return jnp.cos(jax.lax.while_loop(lambda s: abs(s[1]) >= 1e-12, newton, start)[0])

    def total(e: Any, M: Any) -> Any:
        return jax.vmap(one)(e, M).sum()
    run = jax.jit(jax.value_and_grad(total, (0, 1)) if gradient else total)
    e, M = jnp.asarray(e), jnp.asarray(M)
    return lambda: jax.block_until_ready(run(e, M))


def in_torch(e: Any, M: Any, gradient: bool) -> Program:
    """All pairs at once, until the slowest has finished."""
    import torch

    e, M = (torch.tensor(a, requires_grad=gradient) for a in (e, M))

    def run() -> Any:
        E = M + e * torch.sin(M)
        delta = torch.ones_like(E)
        while bool((abs(delta) >= 1e-12).any()):
            delta = (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
            E = E - delta
        value = torch.cos(E).sum()
        return (value.detach(), torch.autograd.grad(value, (e, M))) if gradient else value
    return run


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    e, M = rng.uniform(0.0, 0.9, PAIRS), rng.uniform(-3.0, 3.0, PAIRS)
    bars = [np.empty(PAIRS), np.empty(PAIRS)]
    value = bench.case("Kepler", "value")
    add_ours(value, kepler, lambda f: lambda: f(e, M))
    add_c(value, "kepler", "kepler", PAIRS, e, M)
    add_enzyme(value, "kepler", [e, M])
    value.cannot["CasADi"] = "no loop whose length depends on the data"
    add_drjit(value, in_drjit, [e, M], results=lambda v: v[0])
    value.add("Numba", lambda: in_numba(e, M))
    value.add("JAX", lambda: in_jax(e, M, False))
    value.add("PyTorch", lambda: in_torch(e, M, False))
    yield value
    gradient = bench.case("Kepler", "gradient", rtol=1e-7)
    add_ours(gradient, kepler, lambda f: lambda: f.value_and_grad(e, M), grad=(0, 1))
    add_c(gradient, "kepler", "kepler_gradient", PAIRS, e, M, *bars, results=lambda v: (v, bars))
    add_c(gradient, "kepler", "kepler_implicit", PAIRS, e, M, *bars, results=lambda v: (v, bars),
          flavours={"C by the implicit function theorem": ()}, apart=True)
    add_enzyme(gradient, "kepler", [e, M], (0, 1))
    gradient.cannot["CasADi"] = "no loop whose length depends on the data"
    add_drjit(gradient, in_drjit, [e, M], (0, 1), numbers)
    gradient.add("JAX", lambda: in_jax(e, M, True))
    gradient.add("PyTorch", lambda: in_torch(e, M, True))
    yield gradient
