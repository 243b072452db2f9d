"""Particles: pair sums with a cutoff, springs, a particle-in-cell step, and a time stepper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: particles"


def lennard_jones(p: Any, epsilon: float, sigma: float, cutoff: float) -> float:
    """The potential energy of atoms, pair by pair."""
    energy = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            dx = p[i, 0] - p[j, 0]
            dy = p[i, 1] - p[j, 1]
            dz = p[i, 2] - p[j, 2]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            if r < cutoff:
                s = (sigma / r) ** 6
                energy += 4.0 * epsilon * (s * s - s)
    return energy


def lennard_jones_three_arrays(x: Any, y: Any, z: Any, epsilon: float, sigma: float, cutoff: float) -> float:
    energy = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            dx, dy, dz = x[i] - x[j], y[i] - y[j], z[i] - z[j]
            r = math.sqrt(dx * dx + dy * dy + dz * dz)
            if r < cutoff:
                s = (sigma / r) ** 6
                energy += 4.0 * epsilon * (s * s - s)
    return energy


def pair(d: Any, epsilon: float, sigma: float, cutoff: float) -> Any:
    r = np.sqrt(np.dot(d, d))
    if r >= cutoff:
        return 0.0
    s = (sigma / r) ** 6
    return 4.0 * epsilon * (s * s - s)


def lennard_jones_helper(p: Any, epsilon: float, sigma: float, cutoff: float) -> float:
    energy = 0.0
    for i in range(len(p)):
        for j in range(i):
            energy += pair(p[i] - p[j], epsilon, sigma, cutoff)
    return energy


def lennard_jones_rows(p: Any, epsilon: float, sigma: float, cutoff: float) -> float:
    energy = 0.0
    for i in range(len(p) - 1):
        d = p[i + 1:] - p[i]
        r = np.sqrt(np.sum(d * d, axis=1))
        s = (sigma / r) ** 6
        energy += np.sum(np.where(r < cutoff, 4.0 * epsilon * (s * s - s), 0.0))
    return energy


def lennard_jones_jax(jnp: Any, p: Any, epsilon: float, sigma: float, cutoff: float) -> Any:
    i, j = np.triu_indices(len(p), 1)
    d = p[i] - p[j]
    r = jnp.sqrt((d * d).sum(axis=1))
    s = (sigma / r) ** 6
    return jnp.where(r < cutoff, 4.0 * epsilon * (s * s - s), 0.0).sum()


def springs(p: Any, edges: Any, rest: Any, stiffness: float) -> float:
    """The energy of a network of springs in the plane."""
    energy = 0.0
    for e in range(len(edges)):
        a = edges[e, 0]
        b = edges[e, 1]
        dx = p[a, 0] - p[b, 0]
        dy = p[a, 1] - p[b, 1]
        stretch = math.sqrt(dx * dx + dy * dy) - rest[e]
        energy += 0.5 * stiffness * stretch * stretch
    return energy


def springs_stored(p: Any, edges: Any, rest: Any, stiffness: float) -> float:
    stretch = np.zeros(len(edges))
    for e in range(len(edges)):
        a, b = edges[e]
        dx, dy = p[a] - p[b]
        stretch[e] = math.sqrt(dx * dx + dy * dy) - rest[e]
    return 0.5 * stiffness * np.sum(stretch ** 2)


def springs_while(p: Any, edges: Any, rest: Any, stiffness: float) -> float:
    energy = np.zeros(1)
    e = 0
    while e < len(edges):
        d = p[edges[e, 0]] - p[edges[e, 1]]
        energy[0] += 0.5 * stiffness * (math.sqrt(d[0] * d[0] + d[1] * d[1]) - rest[e]) ** 2
        e += 1
    return energy[0]


def springs_arrays(p: Any, edges: Any, rest: Any, stiffness: float) -> float:
    d = p[edges[:, 0]] - p[edges[:, 1]]
    stretch = np.sqrt(np.sum(d * d, axis=1)) - rest
    return 0.5 * stiffness * np.sum(stretch * stretch)


def springs_jax(jnp: Any, p: Any, edges: Any, rest: Any, stiffness: float) -> Any:
    d = p[edges[:, 0]] - p[edges[:, 1]]
    stretch = jnp.sqrt((d * d).sum(axis=1)) - rest
    return 0.5 * stiffness * (stretch * stretch).sum()


def particle_in_cell(x: Any, v: Any, charge: float, dt: float, cells: int) -> float:
    """The kinetic energy behind a step of charged particles in a ring of cells: deposit, field, gather."""
    density = np.zeros(cells)
    for p in range(len(x)):
        s = x[p] * cells
        i = int(s)
        f = s - i
        density[i] += charge * (1.0 - f)
        density[(i + 1) % cells] += charge * f
    density -= np.mean(density)
    field = np.zeros(cells)
    for i in range(1, cells):
        field[i] = field[i - 1] + density[i] / cells
    energy = 0.0
    for p in range(len(x)):
        s = x[p] * cells
        i = int(s)
        f = s - i
        u = v[p] + dt * ((1.0 - f) * field[i] + f * field[(i + 1) % cells])
        energy += 0.5 * u * u
    return energy


def particle_in_cell_kept(x: Any, v: Any, charge: float, dt: float, cells: int) -> float:
    n = len(x)
    index, part, density, field = np.zeros(n, np.int64), np.zeros(n), np.zeros(cells + 1), np.zeros(cells + 1)
    for p in range(n):
        s = x[p] * cells
        index[p] = int(s)
        part[p] = s - index[p]
    for p in range(n):
        density[index[p]] += charge * (1.0 - part[p])
        density[index[p] + 1] += charge * part[p]
    density[0] += density[cells]
    mean = np.sum(density[:cells]) / cells
    level = 0.0
    for i in range(1, cells):
        level += (density[i] - mean) / cells
        field[i] = level
    energy = 0.0
    for p in range(n):
        u = v[p] + dt * ((1.0 - part[p]) * field[index[p]] + part[p] * field[index[p] + 1])
        energy += 0.5 * u * u
    return energy


def weights(x: Any, cells: int) -> Any:
    s = x * cells
    i = math.floor(s)
    return i, (i + 1 if i + 1 < cells else 0), s - i


def particle_in_cell_helper(x: Any, v: Any, charge: float, dt: float, cells: int) -> float:
    density = np.zeros(cells)
    for at in x:
        i, j, f = weights(at, cells)
        density[i] += charge * (1.0 - f)
        density[j] += charge * f
    field = np.cumsum(density - np.mean(density)) / cells
    field -= field[0]
    energy = 0.0
    for at, u in zip(x, v):
        i, j, f = weights(at, cells)
        u = u + dt * ((1.0 - f) * field[i] + f * field[j])
        energy += 0.5 * u * u
    return energy


def particle_in_cell_arrays(x: Any, v: Any, charge: float, dt: float, cells: int) -> float:
    s = x * cells
    i = np.floor(s).astype(np.int64)
    j, f = (i + 1) % cells, s - i
    density = np.zeros(cells)
    np.add.at(density, i, charge * (1.0 - f))
    np.add.at(density, j, charge * f)
    field = np.cumsum(density - np.mean(density)) / cells
    field = field - field[0]
    u = v + dt * ((1.0 - f) * field[i] + f * field[j])
    return 0.5 * np.sum(u * u)


def particle_in_cell_jax(jnp: Any, x: Any, v: Any, charge: float, dt: float, cells: int) -> Any:
    s = x * cells
    i = jnp.floor(s).astype(int)
    j, f = (i + 1) % cells, s - i
    density = jnp.zeros(cells).at[i].add(charge * (1.0 - f)).at[j].add(charge * f)
    field = jnp.cumsum(density - density.mean()) / cells
    field = field - field[0]
    u = v + dt * ((1.0 - f) * field[i] + f * field[j])
    return 0.5 * (u * u).sum()


def leapfrog(p0: Any, v0: Any, mass: Any, dt: float, steps: int) -> float:
    """The motion of bodies that attract one another; velocities live half a step later than positions."""
    n = len(mass)
    p = p0.copy()
    v = v0.copy()
    for _ in range(steps):
        a = np.zeros((n, 3))
        for i in range(n):
            for j in range(n):
                if i != j:
                    dx = p[j, 0] - p[i, 0]
                    dy = p[j, 1] - p[i, 1]
                    dz = p[j, 2] - p[i, 2]
                    r2 = dx * dx + dy * dy + dz * dz + 0.01
                    w = mass[j] / (r2 * math.sqrt(r2))
                    a[i, 0] += w * dx
                    a[i, 1] += w * dy
                    a[i, 2] += w * dz
        v += dt * a
        p += dt * v
    total = 0.0
    for i in range(n):
        for k in range(3):
            total += mass[i] * (0.5 * v[i, k] ** 2 + p[i, k] ** 2)
    return total


def leapfrog_three_arrays(p0: Any, v0: Any, mass: Any, dt: float, steps: int) -> float:
    n = len(mass)
    x, y, z = p0[:, 0].copy(), p0[:, 1].copy(), p0[:, 2].copy()
    u, v, w = v0[:, 0].copy(), v0[:, 1].copy(), v0[:, 2].copy()
    for _ in range(steps):
        for i in range(n):
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(n):
                if i != j:
                    dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                    r2 = dx * dx + dy * dy + dz * dz + 0.01
                    c = mass[j] / (r2 * math.sqrt(r2))
                    ax += c * dx
                    ay += c * dy
                    az += c * dz
            u[i] += dt * ax
            v[i] += dt * ay
            w[i] += dt * az
        x += dt * u
        y += dt * v
        z += dt * w
    return np.sum(mass * (0.5 * (u * u + v * v + w * w) + x * x + y * y + z * z))


def accelerations(p: Any, mass: Any) -> Any:
    a = np.zeros_like(p)
    for i in range(len(mass)):
        for j in range(len(mass)):
            if i != j:
                d = p[j] - p[i]
                r2 = np.sum(d * d) + 0.01
                a[i] += mass[j] * d / (r2 * np.sqrt(r2))
    return a


def leapfrog_helper(p0: Any, v0: Any, mass: Any, dt: float, steps: int) -> float:
    p, v = p0, v0
    for _ in range(steps):
        v = v + dt * accelerations(p, mass)
        p = p + dt * v
    return np.sum(mass[:, None] * (0.5 * v ** 2 + p ** 2))


def leapfrog_arrays(p0: Any, v0: Any, mass: Any, dt: float, steps: int) -> float:
    p, v = p0, v0
    for _ in range(steps):
        d = p[None, :, :] - p[:, None, :]
        r2 = np.sum(d * d, axis=2) + 0.01
        v = v + dt * np.sum((mass / (r2 * np.sqrt(r2)))[:, :, None] * d, axis=1)
        p = p + dt * v
    return np.sum(mass[:, None] * (0.5 * v ** 2 + p ** 2))


def leapfrog_jax(jnp: Any, p0: Any, v0: Any, mass: Any, dt: float, steps: int) -> Any:
    import jax

    def step(state: Any, _: None) -> Any:
        p, v = state
        d = p[None, :, :] - p[:, None, :]
        r2 = (d * d).sum(axis=2) + 0.01
        v = v + dt * ((mass / (r2 * jnp.sqrt(r2)))[:, :, None] * d).sum(axis=1)
        return (p + dt * v, v), None
    (p, v), _ = jax.lax.scan(step, (p0, v0), None, steps)
    return (mass[:, None] * (0.5 * v ** 2 + p ** 2)).sum()


def smoothed_density(x: Any, y: Any, z: Any, reach: float) -> float:
    """The sum of the logarithms of the density around each particle, in single precision."""
    n = len(x)
    density = np.zeros(n, dtype=np.float32)
    for i in range(n):
        for j in range(n):
            r2 = (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + (z[i] - z[j]) ** 2
            if r2 < reach * reach:
                density[i] += (reach * reach - r2) ** 3
    return np.sum(np.log(density))


def smoothed_density_local(x: Any, y: Any, z: Any, reach: float) -> float:
    total = np.float32(0.0)
    for i in range(len(x)):
        density = np.float32(0.0)
        for j in range(len(x)):
            dx, dy, dz = x[i] - x[j], y[i] - y[j], z[i] - z[j]
            density += max(reach * reach - dx * dx - dy * dy - dz * dz, 0.0) ** 3
        total += np.log(density)
    return total


def smoothed_density_once(x: Any, y: Any, z: Any, reach: float) -> float:
    density = np.full(len(x), reach ** 6, dtype=np.float32)
    for i in range(len(x)):
        for j in range(i):
            r2 = (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + (z[i] - z[j]) ** 2
            if r2 < reach ** 2:
                w = (reach ** 2 - r2) ** 3
                density[i] += w
                density[j] += w
    return np.sum(np.log(density))


def smoothed_density_rows(x: Any, y: Any, z: Any, reach: float) -> float:
    density = np.zeros_like(x)
    for i in range(len(x)):
        r2 = (x - x[i]) ** 2 + (y - y[i]) ** 2 + (z - z[i]) ** 2
        density[i] = np.sum(np.maximum(reach ** 2 - r2, 0.0) ** 3)
    return np.sum(np.log(density))


def smoothed_density_jax(jnp: Any, x: Any, y: Any, z: Any, reach: float) -> Any:
    r2 = sum((a[:, None] - a[None, :]) ** 2 for a in (x, y, z))
    return jnp.log((jnp.maximum(reach ** 2 - r2, 0.0) ** 3).sum(axis=1)).sum()


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(2)
    lattice = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    atoms = 1.1 * lattice + rng.uniform(-0.1, 0.1, lattice.shape)
    columns = tuple(np.ascontiguousarray(atoms[:, k]) for k in range(3))
    points, edges = rng.normal(0.0, 1.0, (4000, 2)), rng.integers(0, 3999, (30_000, 2))
    edges[:, 1] += edges[:, 0] == edges[:, 1]
    rest = rng.uniform(0.5, 1.5, len(edges))
    x, v = rng.uniform(0.0, 1.0, 10_000), rng.normal(0.0, 1.0, 10_000)
    p = rng.normal(0.0, 1.0, (16, 3))
    grains = tuple(rng.uniform(0.0, 1.0, 400).astype(np.float32) for _ in range(3))
    yield from of_programs(bench, "particles", [
        Ordinary(lennard_jones, (atoms, 0.7, 1.0, 2.5), (0, 1, 2),
                 {"three arrays": lennard_jones_three_arrays, "helper": lennard_jones_helper,
                  "rows": lennard_jones_rows},
                 {"three arrays": (*columns, 0.7, 1.0, 2.5)}, adjoint=True, jax=lennard_jones_jax),
        Ordinary(springs, (points, edges, rest, 3.0), (0, 2, 3),
                 {"stored": springs_stored, "while": springs_while, "arrays": springs_arrays},
                 adjoint=True, jax=springs_jax),
        Ordinary(particle_in_cell, (x, v, 0.01, 0.3, 128), (0, 1, 2, 3),
                 {"kept": particle_in_cell_kept, "helper": particle_in_cell_helper,
                  "arrays": particle_in_cell_arrays}, adjoint=True, jax=particle_in_cell_jax),
        Ordinary(leapfrog, (p, rng.normal(0.0, 0.3, p.shape), rng.uniform(0.05, 0.1, len(p)), 0.02, 80), (0, 1, 2),
                 {"three arrays": leapfrog_three_arrays, "helper": leapfrog_helper, "arrays": leapfrog_arrays},
                 adjoint=True, jax=leapfrog_jax),
        Ordinary(smoothed_density, (*grains, 0.4), (0, 1, 2),
                 {"local": smoothed_density_local, "once a pair": smoothed_density_once,
                  "rows": smoothed_density_rows}, adjoint=True, jax=smoothed_density_jax, rtol=2e-4)])
