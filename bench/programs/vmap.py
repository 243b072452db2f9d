"""Functions of one element, mapped: options, Kepler's equation with as many steps as needed, a small network."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.case import OURS, Bench, Case, Program
from jitad import grad, vmap

TITLE = "vmap: a function of one element, and its gradient, over many"
WIDTH, INPUTS = 32, 16


def price(xp: Any, s: Any, k: Any, t: Any) -> Any:
    """Black-Scholes with a logistic approximation of the normal distribution."""
    w = 0.2 * xp.sqrt(t)
    d1 = (xp.log(s / k) + 0.07 * t) / w
    d2 = d1 - w
    n1 = 1 / (1 + xp.exp(-1.5976 * d1 - 0.07056 * d1 ** 3))
    n2 = 1 / (1 + xp.exp(-1.5976 * d2 - 0.07056 * d2 ** 3))
    return s * n1 - k * xp.exp(-0.05 * t) * n2


def anomaly(m: Any, e: Any) -> Any:
    """Newton's method for x - e sin x = m."""
    x, step = m, 1.0
    while abs(step) > 1e-12:
        step = (x - e * math.sin(x) - m) / (1 - e * math.cos(x))
        x = x - step
    return x


def anomaly_in_jax(m: Any, e: Any, gradient: bool) -> Any:
    """JAX has reverse mode only for loops of fixed length: as many steps as the slowest element takes."""
    import jax
    import jax.numpy as jnp

    def step(x: Any) -> Any:
        return (x - e * jnp.sin(x) - m) / (1 - e * jnp.cos(x))
    if gradient:
        return jax.lax.fori_loop(0, 9, lambda _, x: x - step(x), m)

    def again(state: Any) -> Any:
        x, d = state[0], step(state[0])
        return x - d, d
    return jax.lax.while_loop(lambda state: jnp.abs(state[1]) > 1e-12, again, (m, jnp.ones_like(m)))[0]


def network(xp: Any, p: Any, x: Any) -> Any:
    h = xp.tanh(p[0] @ x + p[1])
    return xp.sum(p[4] * xp.tanh(p[2] @ h + p[3]))


@dataclass(frozen=True)
class Problem:
    """``in_jax(gradient)``: the function for JAX, for its gradients or not."""

    name: str
    elements: int
    function: Callable[..., Any]
    in_jax: Callable[[bool], Any]
    axes: tuple[int | None, ...]
    argnums: int | tuple[int, ...]
    args: tuple[Any, ...]

    def case(self, bench: Bench, kind: str) -> Case:
        return bench.case(f"vmap, {self.name}", kind, rtol=1e-7, per=self.elements, unit="element")

    def add(self, case: Case, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Case:
        """Adds both; each argument makes the function that is called."""
        case.add(OURS, lambda: functools.partial(ours(), *self.args))
        case.add("JAX", lambda: in_jax(theirs(), *self.args))
        return case


def problems(n: int) -> Iterator[Problem]:
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    yield Problem("options", n, lambda s, k, t: price(np, s, k, t), lambda _: functools.partial(price, jnp), (0, 0, 0),
                  (0, 1, 2), (rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 2, n)))
    yield Problem("Kepler", n, anomaly, lambda more: functools.partial(anomaly_in_jax, gradient=more), (0, 0), (0, 1),
                  (rng.uniform(0, 6, n), rng.uniform(0, 0.8, n)))
    m = n // 16
    p = [rng.normal(size=s) / 5 for s in ((WIDTH, INPUTS), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,))]
    yield Problem("network", m, lambda p, x: network(np, p, x), lambda _: functools.partial(network, jnp), (None, 0), 1,
                  (p, rng.normal(size=(m, INPUTS))))


def in_jax(function: Any, *args: Any) -> Program:
    import jax

    run, given = jax.jit(function), jax.tree.map(jax.numpy.asarray, args)
    return lambda: jax.block_until_ready(run(*given))


def cases(bench: Bench) -> Iterator[Case]:
    for problem in problems(20_000 if bench.quick else 100_000):
        yield from of_problem(bench, problem)


def of_problem(bench: Bench, p: Problem) -> Iterator[Case]:
    import jax

    f, axes, every = p.function, p.axes, tuple(range(len(p.args)))
    yield p.add(p.case(bench, "value"), lambda: vmap(f, axes), lambda: jax.vmap(p.in_jax(False), axes))
    yield p.add(p.case(bench, "gradient of each"), lambda: vmap(grad(f, p.argnums), axes),
                lambda: jax.vmap(jax.grad(p.in_jax(True), p.argnums), axes))
    g = p.in_jax(True)
    yield p.add(p.case(bench, "gradient of the sum"), lambda: grad(lambda *args: vmap(f, axes)(*args).sum(), every),
                lambda: jax.grad(lambda *args: jax.vmap(g, axes)(*args).sum(), every))
