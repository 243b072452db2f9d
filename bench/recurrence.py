"""The gradient of ``s = sin(s * w) + w`` over 20,000 steps: jitad against adjoints written by hand in C and Numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.harness import agree, c_call, compiled, has, options, report, turns
from jitad import jit

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


def in_jax() -> Any:
    import jax
    import jax.numpy as jnp

    def total(w: Any) -> Any:
        return jax.lax.scan(lambda s, _: (jnp.sin(s * w) + w, None), jnp.asarray(S), length=STEPS)[0]
    gradient, w = jax.jit(jax.grad(total)), jnp.asarray(W)
    return lambda: gradient(w).block_until_ready()


def main() -> None:
    opts, kept = options(), np.empty(STEPS)
    ours = jit(recurrence, grad=True)
    gradients = {"jitad": lambda: ours.grad(W, S, STEPS),
                 "C by hand": c_call(compiled("recurrence").recurrence_gradient, STEPS, S, W, kept)}
    values = {"jitad": lambda: ours(W, S, STEPS), "C": c_call(compiled("recurrence").recurrence, STEPS, S, W)}
    if has("numba"):
        import numba
        adjoint, value = numba.njit(by_hand), numba.njit(recurrence)
        gradients["Numba by hand"] = lambda: adjoint(W, S, STEPS)
        values["Numba"] = lambda: value(W, S, STEPS)
    gradients |= {"JAX scan": in_jax()} if has("jax") else {}
    agree({k: f() for k, f in gradients.items()}, 1e-6)
    per_step = {"gradient, a step": turns(gradients, opts.rounds), "value, a step": turns(values, opts.rounds)}
    report("recurrence", {row: {k: t / STEPS for k, t in times.items()} for row, times in per_step.items()})


if __name__ == "__main__":
    main()
