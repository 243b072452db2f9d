"""ADBench's Gaussian mixture: value and gradient.

The program is the one of ``examples/gmm.py``: scalar loops.  JAX and PyTorch get the usual array formulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme
from examples.gmm import Mixture, Prior, gmm_objective, load_adbench

TITLE = "ADBench: Gaussian mixture model"
EXPECTED = {"d10_K25": -25649.65262120, "d32_K50": -176686.52222310, "d64_K25": -944188.54186602}


def array_objective(xp: Any, logsumexp: Any, lower: Any, mixture: Any, points: Any, prior: Prior) -> Any:
    """The objective in array operations, for array libraries; ``lower(entries)`` builds the strict triangles."""
    alphas, means, icf = mixture
    n, d = points.shape
    K = len(alphas)
    logs, entries = icf[:, :d], icf[:, d:]
    centred = points[:, None, :] - means[None]
    scaled = xp.exp(logs) * centred + xp.einsum("krc,nkc->nkr", lower(entries), centred)
    terms = alphas + logs.sum(1) - 0.5 * (scaled ** 2).sum(2)
    wishart = 0.5 * prior.gamma ** 2 * (xp.exp(2 * logs).sum() + (entries ** 2).sum()) - prior.m * logs.sum()
    likelihood = logsumexp(terms, 1).sum() - n * logsumexp(alphas, 0)
    return -0.5 * n * d * math.log(2 * math.pi) + likelihood + wishart - K * wishart_constant(d, prior)


def wishart_constant(d: int, prior: Prior) -> float:
    dof = d + prior.m + 1
    log_gamma_d = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dof - j)) for j in range(d))
    return dof * d * (math.log(prior.gamma) - 0.5 * math.log(2)) - log_gamma_d


def triangle(d: int) -> tuple[Any, Any]:
    """Rows and columns of the strictly lower entries, by columns."""
    columns, rows = np.triu_indices(d, 1)
    return rows, columns


def in_jax(mixture: Mixture, points: Any, prior: Prior, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    d = points.shape[1]
    rows, columns = triangle(d)

    def lower(entries: Any) -> Any:
        return jnp.zeros((len(entries), d, d)).at[:, rows, columns].set(entries)

    def objective(m: Mixture, x: Any) -> Any:
        return array_objective(jnp, jax.scipy.special.logsumexp, lower, m, x, prior)

    run = jax.jit(jax.value_and_grad(objective) if gradient else objective)
    m, x = Mixture(*(jnp.asarray(a) for a in mixture)), jnp.asarray(points)
    return lambda: jax.block_until_ready(run(m, x))


def in_torch(mixture: Mixture, points: Any, prior: Prior, gradient: bool, compiled: bool = False) -> Program:
    import torch

    torch.set_num_threads(1)
    d = points.shape[1]
    rows, columns = (torch.as_tensor(a) for a in triangle(d))
    m, x = [torch.tensor(a, requires_grad=gradient) for a in mixture], torch.as_tensor(points)

    def lower(entries: Any) -> Any:
        out = torch.zeros(len(entries), d, d, dtype=entries.dtype)
        out[:, rows, columns] = entries
        return out

    def objective() -> Any:
        return array_objective(torch, torch.logsumexp, lower, m, x, prior)
    value_of = torch.compile(objective) if compiled else objective

    def run() -> Any:
        value = value_of()
        return (value.detach(), torch.autograd.grad(value, m)) if gradient else value
    return run


def cases(bench: Bench) -> Iterator[Case]:
    for size in ("d10_K25",) if bench.quick else EXPECTED:
        problem = load_adbench(bench.file(f"adbench/gmm/gmm_{size}.txt"))
        yield from problem_cases(bench, f"GMM {size}", problem, EXPECTED[size])


def problem_cases(bench: Bench, name: str, problem: Any, expected: float) -> Iterator[Case]:
    mixture, points, prior = problem
    (n, d), K, bars = points.shape, len(mixture.alphas), [np.empty_like(a) for a in mixture]
    inputs, work = (d, K, n, *mixture, points, float(prior.gamma), prior.m), np.empty(2 * K * d + d + K)
    packed, sizes = (*mixture, points, np.array([prior.gamma, prior.m])), {"D": d, "K": K, "N": n}
    constant = -0.5 * n * d * math.log(2 * math.pi) - K * wishart_constant(d, prior)
    value = bench.case(name, "value", rtol=1e-9)
    value.results["the known value"] = expected
    add_ours(value, gmm_objective, lambda f: lambda: f(mixture, points, prior))
    add_c(value, "gmm", "gmm_value", *inputs, work)
    add_enzyme(value, "gmm", packed, sizes=sizes, results=lambda v: v + constant)
    value.add("JAX", lambda: in_jax(*problem, False))
    value.add("PyTorch", lambda: in_torch(*problem, False))
    yield value
    gradient = bench.case(name, "gradient", rtol=1e-8)
    add_ours(gradient, gmm_objective, lambda f: lambda: f.value_and_grad(mixture, points, prior), grad=True)
    add_c(gradient, "gmm", "gmm_gradient", *inputs, *bars, work, results=lambda v: (v, bars))
    add_enzyme(gradient, "gmm", packed, (0, 1, 2), sizes=sizes, results=lambda both: (
        both[0] + constant, [bar.reshape(a.shape) for bar, a in zip(both[1], mixture)]))
    gradient.add("JAX", lambda: in_jax(*problem, True))
    gradient.add("PyTorch", lambda: in_torch(*problem, True))
    gradient.add("PyTorch compiled", lambda: in_torch(*problem, True, True))
    yield gradient
