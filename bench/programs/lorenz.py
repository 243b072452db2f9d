"""The Lorenz system by the classical Runge-Kutta method, 10,000 steps: small arithmetic in a long serial chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.casadi_peer import add_casadi
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme
from jitad import jit

TITLE = "Lorenz, Runge-Kutta, 10,000 steps"
STEPS, H = 10_000, 0.001
ARRAYS = "jitad, arrays of three"
START, PARAMETERS = (1.0, 2.0, 3.0), (10.0, 28.0, 8.0 / 3.0)


def slope(s: Any, p: Any) -> Any:
    x, y, z = s
    sigma, rho, beta = p
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


def moved(s: Any, h: float, k: Any) -> Any:
    return s[0] + h * k[0], s[1] + h * k[1], s[2] + h * k[2]


def step(s: Any, p: Any, h: float) -> Any:
    k1 = slope(s, p)
    k2 = slope(moved(s, h / 2, k1), p)
    k3 = slope(moved(s, h / 2, k2), p)
    k4 = slope(moved(s, h, k3), p)
    return tuple([x + h / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(s, k1, k2, k3, k4)])


def lorenz(s: Any, p: Any, h: float, steps: int) -> float:
    for _ in range(steps):
        s = step(s, p, h)
    return s[0] + s[1] + s[2]


def slope_of_array(s: Any, p: Any) -> Any:
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


def lorenz_of_arrays(s: Any, p: Any, h: float, steps: int) -> float:
    """As usual in NumPy: the state is an array of three."""
    for _ in range(steps):
        k1 = slope_of_array(s, p)
        k2 = slope_of_array(s + h / 2 * k1, p)
        k3 = slope_of_array(s + h / 2 * k2, p)
        k4 = slope_of_array(s + h * k3, p)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return s[0] + s[1] + s[2]


def in_numba() -> Program:
    import numba

    inner = numba.njit(lambda s, p: (p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]))
    move = numba.njit(moved)

    @numba.njit
    def run(s: Any, p: Any, h: float, steps: int) -> float:
        for _ in range(steps):
            a = inner(s, p)
            b = inner(move(s, h / 2, a), p)
            c = inner(move(s, h / 2, b), p)
            d = inner(move(s, h, c), p)
            s = (s[0] + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0]), s[1] + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1]),
                 s[2] + h / 6 * (a[2] + 2 * b[2] + 2 * c[2] + d[2]))
        return s[0] + s[1] + s[2]
    return lambda: run(START, PARAMETERS, H, STEPS)


def in_arrays(gradient: bool) -> Program:
    run, (s, p) = jit(lorenz_of_arrays, grad=(0, 1)), map(np.array, (START, PARAMETERS))
    return (lambda: entries(run.value_and_grad(s, p, H, STEPS))) if gradient else (lambda: run(s, p, H, STEPS))


def in_casadi(ca: Any, s: Any, p: Any) -> Any:
    state, parameters = ca.SX.sym("s", 3), ca.SX.sym("p", 3)
    after = step(ca.vertsplit(state), ca.vertsplit(parameters), H)
    one = ca.Function("step", [state, parameters], [ca.vertcat(*after)])
    return ca.sum1(one.fold(STEPS)(s, p))


def in_jax(transform: Callable[[Any, Any], Any], checkpointed: bool = False) -> Program:
    import jax
    import jax.numpy as jnp

    def total(s: Any, p: Any) -> Any:
        def one(s: Any, _: Any) -> Any:
            return step(s, p, H), None
        body = jax.checkpoint(one) if checkpointed else one
        return sum(jax.lax.scan(body, s, length=STEPS)[0])
    run, (s, p) = jax.jit(transform(jax, total)), jax.tree.map(jnp.asarray, (START, PARAMETERS))
    return lambda: jax.block_until_ready(run(s, p))


def in_torch(steps: int) -> Program:
    import torch

    s, p = ([torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in vs] for vs in (START, PARAMETERS))

    def run() -> Any:
        value = lorenz(tuple(s), tuple(p), H, steps)
        return value.detach(), torch.autograd.grad(value, s + p)
    return run


def entries(found: Any) -> Any:
    """Value and gradient, entry by entry, in our order."""
    value, bars = found
    return value, [bar[i] for bar in bars for i in range(3)]


def entries_of_casadi(found: Any) -> Any:
    value, *bars = found
    return entries((value[0], bars))


def cases(bench: Bench) -> Iterator[Case]:
    start, parameters = np.array(START), np.array(PARAMETERS)
    bars, kept = (np.empty(3), np.empty(3)), np.empty(3 * STEPS)
    value = bench.case("Lorenz", "value", rtol=1e-6)
    add_ours(value, lorenz, lambda f: lambda: f(START, PARAMETERS, H, STEPS), arrays=False)
    value.add(ARRAYS, lambda: in_arrays(False), apart=True)
    add_c(value, "lorenz", "lorenz", STEPS, H, start, parameters)
    add_enzyme(value, "lorenz", [start, parameters])
    add_casadi(value, in_casadi, [start, parameters])
    value.add("Numba", in_numba)
    value.add("JAX scan", lambda: in_jax(lambda jax, f: f))
    yield value
    gradient = bench.case("Lorenz", "gradient", rtol=1e-5, steps=STEPS)
    add_ours(gradient, lorenz, lambda f: lambda: f.value_and_grad(START, PARAMETERS, H, STEPS), arrays=False,
             grad=(0, 1))
    gradient.add(ARRAYS, lambda: in_arrays(True), apart=True)
    add_c(gradient, "lorenz", "lorenz_gradient", STEPS, H, start, parameters, *bars, kept,
          results=lambda v: (v, [float(b) for bar in bars for b in bar]))
    add_enzyme(gradient, "lorenz", [start, parameters], (0, 1), results=entries)
    add_casadi(gradient, in_casadi, [start, parameters], (0, 1), entries_of_casadi)
    gradient.add("JAX scan", lambda: in_jax(lambda jax, f: jax.value_and_grad(f, (0, 1))))
    gradient.add("JAX scan, checkpointed", lambda: in_jax(lambda jax, f: jax.value_and_grad(f, (0, 1)), True))
    if not bench.quick:
        gradient.add("PyTorch", lambda: in_torch(STEPS))
    yield gradient
