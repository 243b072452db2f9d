"""Differential equations in time: predators and prey, transport along a line, heat by an implicit method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: differential equations"


def predator_prey(rates: Any, start: Any, seen: Any, dt: float) -> float:
    """The squared distance of counts of two species to counted ones, by the method of Runge and Kutta."""
    a, b, c, d = rates[0], rates[1], rates[2], rates[3]
    x = start[0]
    y = start[1]
    error = 0.0
    for i in range(len(seen)):
        k1x = a * x - b * x * y
        k1y = d * x * y - c * y
        u = x + 0.5 * dt * k1x
        v = y + 0.5 * dt * k1y
        k2x = a * u - b * u * v
        k2y = d * u * v - c * v
        u = x + 0.5 * dt * k2x
        v = y + 0.5 * dt * k2y
        k3x = a * u - b * u * v
        k3y = d * u * v - c * v
        u = x + dt * k3x
        v = y + dt * k3y
        k4x = a * u - b * u * v
        k4y = d * u * v - c * v
        x += dt / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x)
        y += dt / 6.0 * (k1y + 2.0 * k2y + 2.0 * k3y + k4y)
        error += (x - seen[i, 0]) ** 2 + (y - seen[i, 1]) ** 2
    return error


def growth(rates: Any, state: Any) -> Any:
    x, y = state[0], state[1]
    return np.array([rates[0] * x - rates[1] * x * y, rates[3] * x * y - rates[2] * y])


def predator_prey_vectors(rates: Any, start: Any, seen: Any, dt: float) -> float:
    state = start
    error = 0.0
    for row in seen:
        k1 = growth(rates, state)
        k2 = growth(rates, state + 0.5 * dt * k1)
        k3 = growth(rates, state + 0.5 * dt * k2)
        k4 = growth(rates, state + dt * k3)
        state = state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        error += np.sum((state - row) ** 2)
    return error


def predator_prey_stages(rates: Any, start: Any, seen: Any, dt: float) -> float:
    z = start.copy()
    k = np.zeros((4, 2))
    along = (0.0, 0.5, 0.5, 1.0)
    error, i = 0.0, 0
    while i < len(seen):
        for s in range(4):
            x, y = z[0], z[1]
            if s > 0:
                x += along[s] * dt * k[s - 1, 0]
                y += along[s] * dt * k[s - 1, 1]
            k[s, 0] = rates[0] * x - rates[1] * x * y
            k[s, 1] = rates[3] * x * y - rates[2] * y
        for j in range(2):
            z[j] += dt / 6.0 * (k[0, j] + 2.0 * k[1, j] + 2.0 * k[2, j] + k[3, j])
            error += (z[j] - seen[i, j]) ** 2
        i += 1
    return error


def predator_prey_stored(rates: Any, start: Any, seen: Any, dt: float) -> float:
    def f(x: Any, y: Any) -> Any:
        return rates[0] * x - rates[1] * x * y, rates[3] * x * y - rates[2] * y
    n = len(seen)
    path = np.zeros((n + 1, 2))
    path[0] = start
    for i in range(n):
        x, y = path[i, 0], path[i, 1]
        ax, ay = f(x, y)
        bx, by = f(x + 0.5 * dt * ax, y + 0.5 * dt * ay)
        cx, cy = f(x + 0.5 * dt * bx, y + 0.5 * dt * by)
        dx, dy = f(x + dt * cx, y + dt * cy)
        path[i + 1, 0] = x + dt / 6.0 * (ax + 2.0 * bx + 2.0 * cx + dx)
        path[i + 1, 1] = y + dt / 6.0 * (ay + 2.0 * by + 2.0 * cy + dy)
    return np.sum((path[1:] - seen) ** 2)


def predator_prey_jax(jnp: Any, rates: Any, start: Any, seen: Any, dt: Any) -> Any:
    from jax import lax

    def f(z: Any) -> Any:
        return jnp.stack([rates[0] * z[0] - rates[1] * z[0] * z[1], rates[3] * z[0] * z[1] - rates[2] * z[1]])

    def step(z: Any, row: Any) -> Any:
        k1 = f(z)
        k2 = f(z + 0.5 * dt * k1)
        k3 = f(z + 0.5 * dt * k2)
        k4 = f(z + dt * k3)
        z = z + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return z, ((z - row) ** 2).sum()
    return lax.scan(step, start, seen)[1].sum()


def advection(u: Any, wind: Any, ratio: float, steps: int) -> float:
    """The energy of a profile carried by a wind of either sign; each difference is taken against the wind."""
    n = len(u)
    now = u.copy()
    for _ in range(steps):
        new = now.copy()
        for i in range(1, n - 1):
            if wind[i] > 0.0:
                new[i] = now[i] - ratio * wind[i] * (now[i] - now[i - 1])
            else:
                new[i] = now[i] - ratio * wind[i] * (now[i + 1] - now[i])
        now = new
    energy = 0.0
    for i in range(n):
        energy += now[i] * now[i]
    return energy


def advection_two_arrays(u: Any, wind: Any, ratio: float, steps: int) -> float:
    now, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            slope = now[i] - now[i - 1] if wind[i] > 0.0 else now[i + 1] - now[i]
            new[i] = now[i] - ratio * wind[i] * slope
        now, new = new, now
    return np.sum(now * now)


def advection_in_place(u: Any, wind: Any, ratio: float, steps: int) -> float:
    now = u.copy()
    for _ in range(steps):
        left = now[0]
        for i in range(1, len(now) - 1):
            here = now[i]
            if wind[i] > 0.0:
                now[i] -= ratio * wind[i] * (here - left)
            else:
                now[i] -= ratio * wind[i] * (now[i + 1] - here)
            left = here
    return np.sum(now ** 2)


def advection_slices(u: Any, wind: Any, ratio: float, steps: int) -> float:
    now = u.copy()
    w = wind[1:-1]
    for _ in range(steps):
        slope = np.where(w > 0.0, now[1:-1] - now[:-2], now[2:] - now[1:-1])
        now[1:-1] -= ratio * w * slope
    return np.sum(now ** 2)


def advection_jax(jnp: Any, u: Any, wind: Any, ratio: Any, steps: int) -> Any:
    from jax import lax
    w = wind[1:-1]

    def step(now: Any, _: None) -> tuple[Any, None]:
        slope = jnp.where(w > 0.0, now[1:-1] - now[:-2], now[2:] - now[1:-1])
        return now.at[1:-1].add(-ratio * w * slope), None
    now, _ = lax.scan(step, u, None, length=steps)
    return (now ** 2).sum()


def implicit_heat(u: Any, conductivity: Any, slope: float, dt: float, steps: int) -> float:
    """The energy of a rod with cold ends that conducts better where it is hot; each step solves a linear system."""
    n = len(u)
    now = u.copy()
    k = np.zeros(n + 1)
    c = np.zeros(n)
    d = np.zeros(n)
    for _ in range(steps):
        for i in range(n + 1):
            left = now[i - 1] if i > 0 else 0.0
            right = now[i] if i < n else 0.0
            k[i] = dt * conductivity[i] * (1.0 + slope * (left + right))
        below = 1.0 + k[0] + k[1]
        c[0] = -k[1] / below
        d[0] = now[0] / below
        for i in range(1, n):
            below = 1.0 + k[i] + k[i + 1] + k[i] * c[i - 1]
            c[i] = -k[i + 1] / below
            d[i] = (now[i] + k[i] * d[i - 1]) / below
        now[n - 1] = d[n - 1]
        for i in range(n - 2, -1, -1):
            now[i] = d[i] - c[i] * now[i + 1]
    return np.sum(now * now)


def solved(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The solution of a tridiagonal system, by the algorithm of Thomas."""
    n = len(d)
    x = np.zeros(n)
    above = np.zeros(n)
    above[0] = c[0] / b[0]
    x[0] = d[0] / b[0]
    for i in range(1, n):
        below = b[i] - a[i] * above[i - 1]
        above[i] = c[i] / below
        x[i] = (d[i] - a[i] * x[i - 1]) / below
    for i in range(n - 2, -1, -1):
        x[i] -= above[i] * x[i + 1]
    return x


def implicit_heat_solver(u: Any, conductivity: Any, slope: float, dt: float, steps: int) -> float:
    now = u
    for _ in range(steps):
        padded = np.concatenate((np.zeros(1), now, np.zeros(1)))
        k = dt * conductivity * (1.0 + slope * (padded[:-1] + padded[1:]))
        now = solved(-k[:-1], 1.0 + k[:-1] + k[1:], -k[1:], now)
    return np.sum(now ** 2)


def implicit_heat_new_arrays(u: Any, conductivity: Any, slope: float, dt: float, steps: int) -> float:
    n = len(u)
    now = np.zeros(n + 2)
    now[1:-1] = u
    for _ in range(steps):
        matrix = np.zeros((n, 3))
        for i in range(n):
            west = dt * conductivity[i] * (1.0 + slope * (now[i] + now[i + 1]))
            east = dt * conductivity[i + 1] * (1.0 + slope * (now[i + 1] + now[i + 2]))
            matrix[i, 0], matrix[i, 1], matrix[i, 2] = -west, 1.0 + west + east, -east
        right = now[1:-1].copy()
        for i in range(1, n):
            factor = matrix[i, 0] / matrix[i - 1, 1]
            matrix[i, 1] -= factor * matrix[i - 1, 2]
            right[i] -= factor * right[i - 1]
        now = np.zeros(n + 2)
        i = n
        while i > 0:
            now[i] = (right[i - 1] - matrix[i - 1, 2] * now[i + 1]) / matrix[i - 1, 1]
            i -= 1
    return np.sum(now ** 2)


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(4)
    rates, start = np.array([1.1, 0.4, 0.4, 0.1]), np.array([10.0, 5.0])
    seen = rng.uniform(1.0, 9.0, (3000, 2))
    place = np.linspace(0.0, 1.0, 1000)
    profile, wind = np.sin(12.0 * place) ** 2, np.cos(9.0 * place)
    rod = np.sin(np.pi * np.linspace(0.0, 1.0, 300)) + rng.uniform(0.0, 0.1, 300)
    yield from of_programs(bench, "differential_equations", [
        Ordinary(predator_prey, (rates, start, seen, 0.01), (0, 1),
                 {"vectors": predator_prey_vectors, "loops over stages": predator_prey_stages,
                  "stored, helper": predator_prey_stored}, adjoint=True, jax=predator_prey_jax),
        Ordinary(advection, (profile, wind, 0.5, 100), (0, 1),
                 {"two arrays": advection_two_arrays, "in place": advection_in_place, "slices": advection_slices},
                 adjoint=True, jax=advection_jax),
        Ordinary(implicit_heat, (rod, rng.uniform(0.5, 2.0, 301), 0.3, 0.5, 40), (0, 1, 2),
                 {"solver": implicit_heat_solver, "new arrays, while": implicit_heat_new_arrays}, adjoint=True)])
