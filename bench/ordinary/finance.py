"""Finance: an American option on a tree, a barrier option and one in Heston's model on paths of given numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: finance"


def american_put(spot: float, strike: float, rate: float, vol: float, maturity: float, steps: int) -> float:
    """The price of an American put on a binomial tree; the values at the nodes are overwritten step by step."""
    dt = maturity / steps
    up = math.exp(vol * math.sqrt(dt))
    down = 1.0 / up
    p = (math.exp(rate * dt) - down) / (up - down)
    discount = math.exp(-rate * dt)
    prices = np.zeros(steps + 1)
    values = np.zeros(steps + 1)
    for i in range(steps + 1):
        prices[i] = spot * up ** (2 * i - steps)
        values[i] = max(strike - prices[i], 0.0)
    for step in range(steps - 1, -1, -1):
        for i in range(step + 1):
            prices[i] = prices[i] * up
            kept = discount * (p * values[i + 1] + (1.0 - p) * values[i])
            if strike - prices[i] > kept:
                values[i] = strike - prices[i]
            else:
                values[i] = kept
    return values[0]


def american_put_new_arrays(spot: float, strike: float, rate: float, vol: float, maturity: float,
                            steps: int) -> float:
    dt = maturity / steps
    up = math.exp(vol * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    discount = math.exp(-rate * dt)
    values = np.zeros(steps + 1)
    for i in range(steps + 1):
        values[i] = max(strike - spot * up ** (2 * i - steps), 0.0)
    step = steps - 1
    while step >= 0:
        new = np.zeros(step + 1)
        price = spot * up ** (-step)
        for i in range(step + 1):
            new[i] = max(discount * (p * values[i + 1] + (1.0 - p) * values[i]), strike - price)
            price *= up * up
        values = new
        step -= 1
    return values[0]


def american_put_table(spot: float, strike: float, rate: float, vol: float, maturity: float, steps: int) -> float:
    dt = maturity / steps
    up = math.exp(vol * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    discount = math.exp(-rate * dt)
    values = np.zeros((steps + 1, steps + 1))
    exercise = strike - spot * up ** np.arange(-steps, steps + 1)
    for i in range(steps + 1):
        values[steps, i] = max(exercise[2 * i], 0.0)
    for step in reversed(range(steps)):
        for i in range(step + 1):
            kept = discount * (p * values[step + 1, i + 1] + (1.0 - p) * values[step + 1, i])
            values[step, i] = max(kept, exercise[steps + 2 * i - step])
    return values[0, 0]


def american_put_slices(spot: float, strike: float, rate: float, vol: float, maturity: float, steps: int) -> float:
    dt = maturity / steps
    up = np.exp(vol * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    discount = np.exp(-rate * dt)
    prices = spot * up ** (2.0 * np.arange(steps + 1) - steps)
    values = np.maximum(strike - prices, 0.0)
    for step in range(steps - 1, -1, -1):
        prices[:step + 1] *= up
        kept = discount * (p * values[1:step + 2] + (1.0 - p) * values[:step + 1])
        values[:step + 1] = np.maximum(kept, strike - prices[:step + 1])
    return values[0]


def barrier(z: Any, spot: float, strike: float, level: float, rate: float, vol: float, maturity: float) -> float:
    """The price of an up-and-out call on paths with given normal numbers."""
    paths, steps = z.shape
    dt = maturity / steps
    total = 0.0
    for i in range(paths):
        s = spot
        alive = True
        for t in range(steps):
            s *= math.exp((rate - 0.5 * vol * vol) * dt + vol * math.sqrt(dt) * z[i, t])
            if s > level:
                alive = False
                break
        if alive and s > strike:
            total += s - strike
    return math.exp(-rate * maturity) * total / paths


def barrier_flag(z: Any, spot: float, strike: float, level: float, rate: float, vol: float, maturity: float) -> float:
    paths, steps = z.shape
    dt = maturity / steps
    drift, scale = (rate - 0.5 * vol ** 2) * dt, vol * math.sqrt(dt)
    total = 0.0
    for i in range(paths):
        s, alive = spot, 1.0
        for t in range(steps):
            s = s * math.exp(drift + scale * z[i, t])
            if s > level:
                alive = 0.0
        total += alive * max(s - strike, 0.0)
    return math.exp(-rate * maturity) * total / paths


def barrier_while(z: Any, spot: float, strike: float, level: float, rate: float, vol: float, maturity: float) -> float:
    paths, steps = z.shape
    dt = maturity / steps
    payoff = np.zeros(paths)
    for i in range(paths):
        x, t = math.log(spot), 0
        while t < steps and x <= math.log(level):
            x += (rate - 0.5 * vol ** 2) * dt + vol * math.sqrt(dt) * z[i, t]
            t += 1
        s = math.exp(x)
        if s <= level:
            payoff[i] = max(s - strike, 0.0)
    return math.exp(-rate * maturity) * np.mean(payoff)


def barrier_all_paths(z: Any, spot: float, strike: float, level: float, rate: float, vol: float,
                      maturity: float) -> float:
    paths, steps = z.shape
    dt = maturity / steps
    s, alive = np.full(paths, spot), np.ones(paths)
    for t in range(steps):
        s = s * np.exp((rate - 0.5 * vol ** 2) * dt + vol * np.sqrt(dt) * z[:, t])
        alive = np.where(s > level, 0.0, alive)
    return np.exp(-rate * maturity) * np.mean(alive * np.maximum(s - strike, 0.0))


def barrier_jax(jnp: Any, z: Any, spot: Any, strike: Any, level: Any, rate: Any, vol: Any, maturity: Any) -> Any:
    dt = maturity / z.shape[1]
    s = spot * jnp.exp(jnp.cumsum((rate - 0.5 * vol ** 2) * dt + vol * jnp.sqrt(dt) * z, axis=1))
    pays = jnp.where((s > level).any(axis=1), 0.0, jnp.maximum(s[:, -1] - strike, 0.0))
    return jnp.exp(-rate * maturity) * pays.mean()


def heston(z: Any, spot: float, strike: float, rate: float, v0: float, kappa: float, theta: float, xi: float,
           rho: float) -> float:
    """The price of a call after a year in Heston's model, by Euler steps with a floor under the variance."""
    paths, steps = z.shape[0], z.shape[1]
    dt = 1.0 / steps
    total = 0.0
    for i in range(paths):
        x = math.log(spot)
        v = v0
        for t in range(steps):
            root = math.sqrt(v * dt)
            z2 = rho * z[i, t, 0] + math.sqrt(1.0 - rho * rho) * z[i, t, 1]
            x += (rate - 0.5 * v) * dt + root * z[i, t, 0]
            v += kappa * (theta - v) * dt + xi * root * z2
            if v < 1e-6:
                v = 1e-6
        total += max(math.exp(x) - strike, 0.0)
    return math.exp(-rate) * total / paths


def heston_helper(z: Any, spot: float, strike: float, rate: float, v0: float, kappa: float, theta: float, xi: float,
                  rho: float) -> float:
    steps = z.shape[1]
    dt, other = 1.0 / steps, math.sqrt(1.0 - rho ** 2)

    def step(x: Any, v: Any, draw: Any) -> Any:
        root = math.sqrt(v) * math.sqrt(dt)
        x = x + (rate - v / 2.0) * dt + root * draw[0]
        v = v + kappa * (theta - v) * dt + xi * root * (rho * draw[0] + other * draw[1])
        return x, max(v, 1e-6)
    total = 0.0
    for path in z:
        x, v = math.log(spot), v0
        for draw in path:
            x, v = step(x, v, draw)
        if math.exp(x) > strike:
            total += math.exp(x) - strike
    return math.exp(-rate) * total / len(z)


def heston_stored(z: Any, spot: float, strike: float, rate: float, v0: float, kappa: float, theta: float, xi: float,
                  rho: float) -> float:
    paths, steps = z.shape[0], z.shape[1]
    dt = 1.0 / steps
    x, v = np.zeros((paths, steps + 1)), np.zeros((paths, steps + 1))
    for i in range(paths):
        x[i, 0], v[i, 0] = math.log(spot), v0
        for t in range(steps):
            root = math.sqrt(v[i, t] * dt)
            z2 = rho * z[i, t, 0] + math.sqrt(1.0 - rho * rho) * z[i, t, 1]
            x[i, t + 1] = x[i, t] + (rate - 0.5 * v[i, t]) * dt + root * z[i, t, 0]
            v[i, t + 1] = max(v[i, t] + kappa * (theta - v[i, t]) * dt + xi * root * z2, 1e-6)
    return math.exp(-rate) * np.mean(np.maximum(np.exp(x[:, steps]) - strike, 0.0))


def heston_all_paths(z: Any, spot: float, strike: float, rate: float, v0: float, kappa: float, theta: float,
                     xi: float, rho: float) -> float:
    paths, steps = z.shape[0], z.shape[1]
    dt = 1.0 / steps
    x, v = np.full(paths, np.log(spot)), np.full(paths, v0)
    for t in range(steps):
        z1, z2 = z[:, t, 0], z[:, t, 1]
        root = np.sqrt(v * dt)
        x += (rate - 0.5 * v) * dt + root * z1
        v += kappa * (theta - v) * dt + xi * root * (rho * z1 + np.sqrt(1.0 - rho ** 2) * z2)
        v = np.maximum(v, 1e-6)
    return np.exp(-rate) * np.mean(np.maximum(np.exp(x) - strike, 0.0))


def heston_jax(jnp: Any, z: Any, spot: Any, strike: Any, rate: Any, v0: Any, kappa: Any, theta: Any, xi: Any,
               rho: Any) -> Any:
    from jax import lax
    dt, other = 1.0 / z.shape[1], jnp.sqrt(1.0 - rho ** 2)

    def step(state: Any, draw: Any) -> Any:
        x, v = state
        root = jnp.sqrt(v * dt)
        x = x + (rate - 0.5 * v) * dt + root * draw[:, 0]
        v = v + kappa * (theta - v) * dt + xi * root * (rho * draw[:, 0] + other * draw[:, 1])
        return (x, jnp.maximum(v, 1e-6)), None
    start = jnp.log(spot) + jnp.zeros(len(z)), v0 + jnp.zeros(len(z))
    x = lax.scan(step, start, jnp.swapaxes(z, 0, 1))[0][0]
    return jnp.exp(-rate) * jnp.maximum(jnp.exp(x) - strike, 0.0).mean()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(6)
    yield from of_programs(bench, "finance", [
        Ordinary(american_put, (100.0, 105.0, 0.03, 0.25, 1.0, 600), (0, 1, 2, 3), {
            "new arrays": american_put_new_arrays, "table": american_put_table, "slices": american_put_slices},
                 adjoint=True),
        Ordinary(barrier, (rng.normal(0.0, 1.0, (500, 32)), 100.0, 95.0, 125.0, 0.03, 0.2, 1.0), (1, 2, 4, 5), {
            "flag": barrier_flag, "while": barrier_while, "all paths": barrier_all_paths},
                 adjoint=True, jax=barrier_jax),
        Ordinary(heston, (rng.normal(0.0, 1.0, (200, 50, 2)), 100.0, 98.0, 0.02, 0.05, 1.5, 0.06, 0.4, -0.6),
                 (1, 3, 4, 5, 6, 7, 8), {"helper": heston_helper, "stored": heston_stored,
                                         "all paths": heston_all_paths}, adjoint=True, jax=heston_jax)])
