"""``s = sin(s * w) + w`` over 20,000 steps: a serial chain of transcendentals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.casadi_peer import add_casadi
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme

TITLE = "A scalar recurrence"
STEPS, S, W = 20_000, 0.3, 1.1


def recurrence(w: float, s: float, steps: int) -> float:
    for _ in range(steps):
        s = math.sin(s * w) + w
    return s


def by_hand(w: float, s: float, steps: int) -> float:
    kept = np.empty(steps)
    for i in range(steps):
        kept[i] = s
        s = math.sin(s * w) + w
    s_bar, w_bar = 1.0, 0.0
    for i in range(steps - 1, -1, -1):
        inner_bar = s_bar * math.cos(kept[i] * w)
        w_bar += s_bar + inner_bar * kept[i]
        s_bar = inner_bar * w
    return w_bar


def in_numba(function: Any) -> Program:
    import numba
    compiled = numba.njit(function)
    return lambda: compiled(W, S, STEPS)


def in_casadi(ca: Any, w: Any) -> Any:
    s, factor = ca.SX.sym("s"), ca.SX.sym("w")
    step = ca.Function("step", [s, factor], [ca.sin(s * factor) + factor])
    return step.fold(STEPS)(S, w)


def in_jax(transform: str) -> Program:
    import jax
    import jax.numpy as jnp

    def total(w: Any) -> Any:
        return jax.lax.scan(lambda s, _: (jnp.sin(s * w) + w, None), jnp.asarray(S), length=STEPS)[0]
    run, w = jax.jit(getattr(jax, transform)(total) if transform else total), jnp.asarray(W)
    return lambda: run(w).block_until_ready()


def in_torch(backward: bool) -> Program:
    import torch

    w = torch.tensor(W, dtype=torch.float64, requires_grad=backward)

    def run() -> Any:
        s = torch.tensor(S, dtype=torch.float64)
        for _ in range(STEPS):
            s = torch.sin(s * w) + w
        return torch.autograd.grad(s, w)[0] if backward else s
    return run


def cases(bench: Bench) -> Iterator[Case]:
    kept = np.empty(STEPS)
    per_step = {"per": STEPS, "unit": "a step", "rtol": 1e-6}
    value = bench.case("recurrence", "value", **per_step)
    add_ours(value, recurrence, lambda f: lambda: f(W, S, STEPS), arrays=False)
    add_c(value, "recurrence", "recurrence", STEPS, S, W)
    add_enzyme(value, "recurrence", [W], sizes={"STEPS": STEPS})
    add_casadi(value, in_casadi, [W])
    value.add("Numba", lambda: in_numba(recurrence))
    value.add("JAX scan", lambda: in_jax(""))
    value.add("PyTorch", lambda: in_torch(False))
    yield value
    gradient = bench.case("recurrence", "gradient", steps=STEPS, **per_step)
    add_ours(gradient, recurrence, lambda f: lambda: f.grad(W, S, STEPS), arrays=False, grad=True)
    add_c(gradient, "recurrence", "recurrence_gradient", STEPS, S, W, kept)
    add_enzyme(gradient, "recurrence", [W], sizes={"STEPS": STEPS}, results=lambda both: both[1])
    add_casadi(gradient, in_casadi, [W], results=lambda both: both[1])
    gradient.add("Numba by hand", lambda: in_numba(by_hand))
    gradient.add("JAX scan", lambda: in_jax("grad"))
    gradient.add("PyTorch", lambda: in_torch(True))
    yield gradient
