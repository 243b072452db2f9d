"""Differential equations on grids: waves, substances that react and spread, shallow water."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: differential equations on grids"


def wave(start: Any, speed: Any, steps: int) -> float:
    """The energy of a membrane with a fixed border, some steps after it is let go."""
    rows, columns = start.shape
    old = start.copy()
    now = start.copy()
    for _ in range(steps):
        new = now.copy()
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
                new[i, j] = 2.0 * now[i, j] - old[i, j] + speed[i, j] * speed[i, j] * around
        old = now
        now = new
    return np.sum(now * now)


def wave_three_arrays(start: Any, speed: Any, steps: int) -> float:
    rows, columns = start.shape
    old, now, new = start.copy(), start.copy(), start.copy()
    for _ in range(steps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
                new[i, j] = 2.0 * now[i, j] - old[i, j] + speed[i, j] ** 2 * around
        old, now, new = now, new, old
    energy = 0.0
    for i in range(rows):
        for j in range(columns):
            energy += now[i, j] ** 2
    return energy


def wave_over_old(start: Any, speed: Any, steps: int) -> float:
    old, now = start.copy(), start.copy()
    for _ in range(steps):
        i = 1
        while i < start.shape[0] - 1:
            for j in range(1, start.shape[1] - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
                old[i, j] = 2.0 * now[i, j] - old[i, j] + speed[i, j] ** 2 * around
            i += 1
        old, now = now, old
    return np.sum(now ** 2)


def wave_slices(start: Any, speed: Any, steps: int) -> float:
    old, now = start, start
    for _ in range(steps):
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * now[1:-1, 1:-1]
        new = now.copy()
        new[1:-1, 1:-1] = 2.0 * now[1:-1, 1:-1] - old[1:-1, 1:-1] + speed[1:-1, 1:-1] ** 2 * around
        old, now = now, new
    return np.sum(now ** 2)


def wave_jax(jnp: Any, start: Any, speed: Any, steps: int) -> Any:
    from jax import lax

    def step(state: Any, _: None) -> tuple[Any, None]:
        old, now = state
        around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * now[1:-1, 1:-1]
        inner = 2.0 * now[1:-1, 1:-1] - old[1:-1, 1:-1] + speed[1:-1, 1:-1] ** 2 * around
        return (now, now.at[1:-1, 1:-1].set(inner)), None
    (_, now), _ = lax.scan(step, (start, start), None, length=steps)
    return (now ** 2).sum()


def reaction(u: Any, v: Any, feed: float, kill: float, steps: int) -> float:
    """The amount of the second of two substances (Gray and Scott) on a grid that closes on itself, squared."""
    rows, columns = u.shape
    for _ in range(steps):
        new_u = np.zeros((rows, columns))
        new_v = np.zeros((rows, columns))
        for i in range(rows):
            for j in range(columns):
                up, down = (i - 1) % rows, (i + 1) % rows
                left, right = (j - 1) % columns, (j + 1) % columns
                around_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4.0 * u[i, j]
                around_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4.0 * v[i, j]
                made = u[i, j] * v[i, j] * v[i, j]
                new_u[i, j] = u[i, j] + 0.16 * around_u - made + feed * (1.0 - u[i, j])
                new_v[i, j] = v[i, j] + 0.08 * around_v + made - (feed + kill) * v[i, j]
        u = new_u
        v = new_v
    return np.sum(v * v)


def reaction_swap(u: Any, v: Any, feed: float, kill: float, steps: int) -> float:
    rows, columns = u.shape
    u, v = u.copy(), v.copy()
    other_u, other_v = np.zeros((rows, columns)), np.zeros((rows, columns))
    for _ in range(steps):
        for i in range(rows):
            up, down = i - 1 if i > 0 else rows - 1, i + 1 if i < rows - 1 else 0
            for j in range(columns):
                left, right = j - 1 if j > 0 else columns - 1, j + 1 if j < columns - 1 else 0
                around_u = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4.0 * u[i, j]
                around_v = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4.0 * v[i, j]
                made = u[i, j] * v[i, j] ** 2
                other_u[i, j] = u[i, j] + 0.16 * around_u - made + feed * (1.0 - u[i, j])
                other_v[i, j] = v[i, j] + 0.08 * around_v + made - (feed + kill) * v[i, j]
        u, other_u = other_u, u
        v, other_v = other_v, v
    return np.sum(v ** 2)


def reaction_padded(u: Any, v: Any, feed: float, kill: float, steps: int) -> float:
    def padded(a: Any) -> Any:
        out = np.zeros((a.shape[0] + 2, a.shape[1] + 2))
        out[1:-1, 1:-1] = a
        out[0, 1:-1], out[-1, 1:-1] = a[-1], a[0]
        out[1:-1, 0], out[1:-1, -1] = a[:, -1], a[:, 0]
        return out

    def around(a: Any, i: Any, j: Any) -> Any:
        return a[i, j + 1] + a[i + 2, j + 1] + a[i + 1, j] + a[i + 1, j + 2] - 4.0 * a[i + 1, j + 1]
    rows, columns = u.shape
    u, v = u.copy(), v.copy()
    for _ in range(steps):
        wide_u, wide_v = padded(u), padded(v)
        for i in range(rows):
            for j in range(columns):
                made = u[i, j] * v[i, j] ** 2
                u[i, j] += 0.16 * around(wide_u, i, j) - made + feed * (1.0 - u[i, j])
                v[i, j] += 0.08 * around(wide_v, i, j) + made - (feed + kill) * v[i, j]
    return np.sum(v ** 2)


def reaction_roll(u: Any, v: Any, feed: float, kill: float, steps: int) -> float:
    for _ in range(steps):
        around_u = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u
        around_v = np.roll(v, 1, 0) + np.roll(v, -1, 0) + np.roll(v, 1, 1) + np.roll(v, -1, 1) - 4.0 * v
        made = u * v ** 2
        u, v = u + 0.16 * around_u - made + feed * (1.0 - u), v + 0.08 * around_v + made - (feed + kill) * v
    return np.sum(v ** 2)


def reaction_jax(jnp: Any, u: Any, v: Any, feed: Any, kill: Any, steps: int) -> Any:
    from jax import lax

    def around(a: Any) -> Any:
        return jnp.roll(a, 1, 0) + jnp.roll(a, -1, 0) + jnp.roll(a, 1, 1) + jnp.roll(a, -1, 1) - 4.0 * a

    def step(state: Any, _: None) -> tuple[Any, None]:
        u, v = state
        made = u * v ** 2
        return (u + 0.16 * around(u) - made + feed * (1.0 - u), v + 0.08 * around(v) + made - (feed + kill) * v), None
    (_, v), _ = lax.scan(step, (u, v), None, length=steps)
    return (v ** 2).sum()


def shallow(h: Any, gravity: float, drag: float, dt: float, steps: int) -> float:
    """The energy of the surface of shallow water in a basin, after some steps on a staggered grid."""
    rows, columns = h.shape
    h = h.copy()
    u = np.zeros((rows - 1, columns))
    v = np.zeros((rows, columns - 1))
    for _ in range(steps):
        for i in range(rows - 1):
            for j in range(columns):
                u[i, j] = (1.0 - drag) * u[i, j] - dt * gravity * (h[i + 1, j] - h[i, j])
        for i in range(rows):
            for j in range(columns - 1):
                v[i, j] = (1.0 - drag) * v[i, j] - dt * gravity * (h[i, j + 1] - h[i, j])
        flux_u = np.zeros((rows + 1, columns))
        flux_v = np.zeros((rows, columns + 1))
        for i in range(rows - 1):
            for j in range(columns):
                flux_u[i + 1, j] = u[i, j] * (h[i, j] if u[i, j] > 0.0 else h[i + 1, j])
        for i in range(rows):
            for j in range(columns - 1):
                flux_v[i, j + 1] = v[i, j] * (h[i, j] if v[i, j] > 0.0 else h[i, j + 1])
        for i in range(rows):
            for j in range(columns):
                h[i, j] -= dt * (flux_u[i + 1, j] - flux_u[i, j] + flux_v[i, j + 1] - flux_v[i, j])
    return np.sum(h * h)


def shallow_scatter(h: Any, gravity: float, drag: float, dt: float, steps: int) -> float:
    def carried(speed: Any, before: Any, after: Any) -> Any:
        if speed > 0.0:
            return speed * before
        return speed * after
    rows, columns = h.shape
    u, v = np.zeros((rows, columns)), np.zeros((rows, columns))
    for _ in range(steps):
        change = np.zeros((rows, columns))
        for i in range(rows):
            for j in range(columns):
                if i + 1 < rows:
                    u[i, j] = (1.0 - drag) * u[i, j] - dt * gravity * (h[i + 1, j] - h[i, j])
                    flux = dt * carried(u[i, j], h[i, j], h[i + 1, j])
                    change[i, j] -= flux
                    change[i + 1, j] += flux
                if j + 1 < columns:
                    v[i, j] = (1.0 - drag) * v[i, j] - dt * gravity * (h[i, j + 1] - h[i, j])
                    flux = dt * carried(v[i, j], h[i, j], h[i, j + 1])
                    change[i, j] -= flux
                    change[i, j + 1] += flux
        h = h + change
    return np.sum(h ** 2)


def shallow_slices(h: Any, gravity: float, drag: float, dt: float, steps: int) -> float:
    rows, columns = h.shape
    u, v = np.zeros((rows - 1, columns)), np.zeros((rows, columns - 1))
    for _ in range(steps):
        u = (1.0 - drag) * u - dt * gravity * (h[1:, :] - h[:-1, :])
        v = (1.0 - drag) * v - dt * gravity * (h[:, 1:] - h[:, :-1])
        flux_u, flux_v = np.zeros((rows + 1, columns)), np.zeros((rows, columns + 1))
        flux_u[1:-1, :] = u * np.where(u > 0.0, h[:-1, :], h[1:, :])
        flux_v[:, 1:-1] = v * np.where(v > 0.0, h[:, :-1], h[:, 1:])
        h = h - dt * (flux_u[1:, :] - flux_u[:-1, :] + flux_v[:, 1:] - flux_v[:, :-1])
    return np.sum(h ** 2)


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:64, 0:64] / 63.0
    hill = np.exp(-40.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2)) * np.sin(np.pi * x) * np.sin(np.pi * y)
    speed = 0.4 + 0.2 * x * y
    u, v = 1.0 - 0.5 * hill[:40, :40], 0.25 * hill[:40, :40] + rng.uniform(0.0, 0.01, (40, 40))
    yield from of_programs(bench, "grids", [
        Ordinary(wave, (hill, speed, 40), (0, 1),
                 {"three arrays": wave_three_arrays, "over old, while": wave_over_old, "slices": wave_slices},
                 adjoint=True, jax=wave_jax),
        Ordinary(reaction, (u, v, 0.035, 0.065, 30), (0, 1, 2, 3),
                 {"swap": reaction_swap, "padded, helper": reaction_padded, "roll": reaction_roll},
                 adjoint=True, jax=reaction_jax),
        Ordinary(shallow, (1.0 + hill[:48, :48], 9.81, 0.01, 0.05, 20), (0, 1, 2),
                 {"scatter, helper": shallow_scatter, "slices": shallow_slices}, adjoint=True)])
