"""ADBench's Gaussian mixture (d = 64, K = 25, n = 1000): value and gradient, jitad against C, JAX and PyTorch.

The program is the one of ``examples/gmm.py``: scalar loops.  JAX and PyTorch get the usual array formulation.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Program, agree, c_call, compiled, has, options, report, turns
from examples.gmm import Mixture, Prior, gmm_objective, load_adbench

EXPECTED = {"d10_K25": -25649.65262120, "d32_K50": -176686.52222310, "d64_K25": -944188.54186602}


def in_c(mixture: Mixture, points: Any, prior: Prior, *flags: str) -> tuple[Program, Program]:
    """(value, value and gradient)."""
    n, d = points.shape
    K = len(mixture.alphas)
    lib, work, bars = compiled("gmm", *flags), np.empty(2 * K * d + d + K), [np.empty_like(a) for a in mixture]
    inputs = (d, K, n, *mixture, points, float(prior.gamma), prior.m)
    value = c_call(lib.gmm_value, *inputs, work)
    gradient = c_call(lib.gmm_gradient, *inputs, *bars, work)
    return value, lambda: (gradient(), tuple(bars))


def array_objective(xp: Any, logsumexp: Any, lower: Any, mixture: Any, points: Any, prior: Prior) -> Any:
    """The objective in array operations, for array libraries; ``lower(entries)`` builds the strict triangles."""
    alphas, means, icf = mixture
    n, d = points.shape
    K = len(alphas)
    logs, entries = icf[:, :d], icf[:, d:]
    centred = points[:, None, :] - means[None]
    scaled = xp.exp(logs) * centred + xp.einsum("krc,nkc->nkr", lower(entries), centred)
    terms = alphas + logs.sum(1) - 0.5 * (scaled ** 2).sum(2)
    dof = d + prior.m + 1
    log_gamma_d = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dof - j)) for j in range(d))
    constant = dof * d * (math.log(prior.gamma) - 0.5 * math.log(2)) - log_gamma_d
    wishart = 0.5 * prior.gamma ** 2 * (xp.exp(2 * logs).sum() + (entries ** 2).sum()) - prior.m * logs.sum()
    likelihood = logsumexp(terms, 1).sum() - n * logsumexp(alphas, 0)
    return -0.5 * n * d * math.log(2 * math.pi) + likelihood + wishart - K * constant


def triangle(d: int) -> tuple[Any, Any]:
    """Rows and columns of the strictly lower entries, by columns."""
    columns, rows = np.triu_indices(d, 1)
    return rows, columns


def in_jax(mixture: Mixture, points: Any, prior: Prior) -> Program:
    import jax
    import jax.numpy as jnp

    d = points.shape[1]
    rows, columns = triangle(d)

    def lower(entries: Any) -> Any:
        return jnp.zeros((len(entries), d, d)).at[:, rows, columns].set(entries)

    def objective(m: Mixture, x: Any) -> Any:
        return array_objective(jnp, jax.scipy.special.logsumexp, lower, m, x, prior)

    run = jax.jit(jax.value_and_grad(objective))
    m, x = Mixture(*(jnp.asarray(a) for a in mixture)), jnp.asarray(points)
    return lambda: jax.block_until_ready(run(m, x))


def in_torch(mixture: Mixture, points: Any, prior: Prior) -> Program:
    import torch

    torch.set_num_threads(1)
    d = points.shape[1]
    rows, columns = (torch.as_tensor(a) for a in triangle(d))
    m, x = [torch.tensor(a, requires_grad=True) for a in mixture], torch.as_tensor(points)

    def lower(entries: Any) -> Any:
        out = torch.zeros(len(entries), d, d, dtype=entries.dtype)
        out[:, rows, columns] = entries
        return out

    def run() -> Any:
        value = array_objective(torch, torch.logsumexp, lower, m, x, prior)
        return value.detach(), torch.autograd.grad(value, m)
    return run


def main() -> None:
    opts = options()
    rows = {}
    for size in ("d10_K25", "d64_K25"):
        file = opts.data / f"adbench/gmm/gmm_{size}.txt"
        rows[size], rows[size + " value"] = measure(file, EXPECTED[size], opts.rounds)
    report("gmm", rows)


def measure(file: Path, expected: float, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Times of value and gradient together, and of the value alone."""
    from jitad import jit

    mixture, points, prior = load_adbench(file)
    objective = jit(gmm_objective, grad=True)
    value, gradient = in_c(mixture, points, prior)
    fast_value, fast_gradient = in_c(mixture, points, prior, "-ffast-math")
    values = {"jitad": lambda: objective(mixture, points, prior), "C": value, "C -ffast-math": fast_value}
    gradients = {"jitad": lambda: objective.value_and_grad(mixture, points, prior), "C": gradient,
                 "C -ffast-math": fast_gradient}
    gradients |= {"JAX": in_jax(mixture, points, prior)} if has("jax") else {}
    gradients |= {"PyTorch": in_torch(mixture, points, prior)} if has("torch") else {}
    agree({"the known value": expected} | {k: v() for k, v in values.items()}, 1e-9)
    agree({k: v() for k, v in gradients.items()}, 1e-8)
    return turns(gradients, rounds), turns(values, rounds)


if __name__ == "__main__":
    main()
