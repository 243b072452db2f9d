"""A million European options: prices, the Greeks that are first derivatives, and gamma, a second one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.drjit_peer import add_drjit, numbers
from bench.peers.enzyme_peer import add_enzyme
from jitad import hvp

TITLE = "Black-Scholes: a million options, first and second derivatives"
FIRST = (0, 2, 3, 4)                        # delta, theta, rho, vega


def price(S: float, K: float, T: float, r: float, v: float) -> float:
    w = v * math.sqrt(T)
    d1 = (math.log(S / K) + (r + 0.5 * v * v) * T) / w
    d2 = d1 - w
    half = math.sqrt(0.5)
    return S * 0.5 * (1 + math.erf(d1 * half)) - K * math.exp(-r * T) * 0.5 * (1 + math.erf(d2 * half))


def total(S: Any, K: Any, T: Any, r: Any, v: Any) -> float:
    value = 0.0
    for i in range(len(S)):
        value += price(S[i], K[i], T[i], r[i], v[i])
    return value


def gamma(S: Any, K: Any, T: Any, r: Any, v: Any) -> Any:
    """The diagonal of the Hessian, as the Hessian times ones: options are independent."""
    return hvp(lambda s: total(s, K, T, r, v), (S,), (np.ones_like(S),))


def in_numba(*options: Any) -> Program:
    import numba
    one = numba.njit(price)

    @numba.njit
    def run(S: Any, K: Any, T: Any, r: Any, v: Any) -> float:
        value = 0.0
        for i in range(len(S)):
            value += one(S[i], K[i], T[i], r[i], v[i])
        return value
    return lambda: run(*options)


def array_terms(xp: Any, erf: Any, S: Any, K: Any, T: Any, r: Any, v: Any) -> Any:
    w = v * xp.sqrt(T)
    d1 = (xp.log(S / K) + (r + 0.5 * v * v) * T) / w
    half = math.sqrt(0.5)
    return S * 0.5 * (1 + erf(d1 * half)) - K * xp.exp(-r * T) * 0.5 * (1 + erf((d1 - w) * half))


def in_drjit(dr: Any, *options: Any) -> Any:
    return dr.sum(array_terms(dr, dr.erf, *options))


def in_jax(kind: str, *options: Any) -> Program:
    import jax
    import jax.numpy as jnp

    def value(*options: Any) -> Any:
        return array_terms(jnp, jax.scipy.special.erf, *options).sum()

    def second(*options: Any) -> Any:
        return jax.jvp(jax.grad(lambda S: value(S, *options[1:])), (options[0],), (jnp.ones_like(options[0]),))[1]
    run = jax.jit({"value": value, "gradient": jax.value_and_grad(value, FIRST), "hessian": second}[kind])
    given = [jnp.asarray(a) for a in options]
    return lambda: jax.block_until_ready(run(*given))


def in_torch(kind: str, *options: Any) -> Program:
    import torch

    given = [torch.tensor(a, requires_grad=kind != "value" and i in FIRST) for i, a in enumerate(options)]
    wrt = [given[i] for i in FIRST]

    def run() -> Any:
        value = array_terms(torch, torch.erf, *given).sum()
        if kind == "value":
            return value
        if kind == "gradient":
            return value.detach(), torch.autograd.grad(value, wrt)
        first = torch.autograd.grad(value, given[0], create_graph=True)[0]
        return torch.autograd.grad(first.sum(), given[0])[0]
    return run


def cases(bench: Bench) -> Iterator[Case]:
    n = 10 ** 5 if bench.quick else 10 ** 6
    rng = np.random.default_rng(0)
    options = [rng.uniform(a, b, n) for a, b in ((50, 150), (50, 150), (0.2, 2), (0.0, 0.1), (0.1, 0.5))]
    bars = [np.empty(n) for _ in FIRST]
    kinds = {"value": (total, lambda f: lambda: f(*options), "black_scholes", lambda v: v, ()),
             "gradient": (total, lambda f: lambda: f.value_and_grad(*options), "black_scholes_gradient",
                          lambda v: (v, bars), bars),
             "hessian": (gamma, lambda f: lambda: f(*options), "black_scholes_gamma", lambda v: bars[0], bars[:1])}
    for kind, (function, call, c_name, results, outputs) in kinds.items():
        case = bench.case("Black-Scholes", kind, per=n, unit="an option", rtol=1e-7)
        add_ours(case, function, call, grad=FIRST if function is total else False)
        add_c(case, "black_scholes", c_name, n, *options, *outputs, results=results)
        if kind == "hessian":
            case.cannot["Enzyme"] = "its JAX interface has no second derivatives"
            case.cannot["Dr.Jit"] = "no derivatives of derivatives"
        else:
            add_drjit(case, in_drjit, options, FIRST, (lambda v: v[0]) if kind == "value" else numbers)
            add_enzyme(case, "black_scholes", options, FIRST, sizes={"N": n})
        if kind == "value":
            case.add("Numba", lambda: in_numba(*options))
        case.add("JAX", lambda kind=kind: in_jax(kind, *options))
        case.add("PyTorch", lambda kind=kind: in_torch(kind, *options))
        yield case
