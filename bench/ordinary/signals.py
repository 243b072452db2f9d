"""Signal processing: filters, correlation, a transform by its definition, an envelope."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.ordinary.program import Ordinary
from bench.ordinary.program import cases as of_programs

TITLE = "Ordinary programs: signal processing"


def fir(x: Any, h: Any) -> float:
    """The energy of a signal behind a filter of finite response."""
    energy = 0.0
    for i in range(len(h) - 1, len(x)):
        y = 0.0
        for k in range(len(h)):
            y += h[k] * x[i - k]
        energy += y * y
    return energy


def fir_stored(x: Any, h: Any) -> float:
    y = np.zeros(len(x))
    for i in range(len(h) - 1, len(x)):
        for k in range(len(h)):
            y[i] += h[k] * x[i - k]
    return np.sum(y * y)


def fir_taps_outside(x: Any, h: Any) -> float:
    n, m = len(x), len(h)
    y = np.zeros(n - m + 1)
    for k in range(m):
        for i in range(n - m + 1):
            y[i] += h[k] * x[i + m - 1 - k]
    energy = 0.0
    for i in range(n - m + 1):
        energy += y[i] * y[i]
    return energy


def fir_slices(x: Any, h: Any) -> float:
    n, m = len(x), len(h)
    y = np.zeros(n - m + 1)
    for k in range(m):
        y += h[k] * x[m - 1 - k:n - k]
    return np.sum(y * y)


def fir_jax(jnp: Any, x: Any, h: Any) -> Any:
    y = jnp.convolve(x, h, mode="valid")
    return (y * y).sum()


def biquad(x: Any, b0: float, b1: float, b2: float, a1: float, a2: float) -> float:
    """The energy behind a recursive filter of second order."""
    z1 = 0.0
    z2 = 0.0
    energy = 0.0
    for i in range(len(x)):
        y = b0 * x[i] + z1
        z1 = b1 * x[i] - a1 * y + z2
        z2 = b2 * x[i] - a2 * y
        energy += y * y
    return energy


def biquad_while(x: Any, b0: float, b1: float, b2: float, a1: float, a2: float) -> float:
    z = np.zeros(2)
    energy, i = 0.0, 0
    while i < len(x):
        y = b0 * x[i] + z[0]
        z[0] = b1 * x[i] - a1 * y + z[1]
        z[1] = b2 * x[i] - a2 * y
        energy += y * y
        i += 1
    return energy


def biquad_helper(x: Any, b0: float, b1: float, b2: float, a1: float, a2: float) -> float:
    def step(v: Any, z1: Any, z2: Any) -> Any:
        y = b0 * v + z1
        return y, b1 * v - a1 * y + z2, b2 * v - a2 * y
    z1, z2, energy = 0.0, 0.0, 0.0
    for v in x:
        y, z1, z2 = step(v, z1, z2)
        energy += y * y
    return energy


def fourier(x: Any, count: int) -> float:
    """The sum of squared magnitudes of the first frequencies, by the definition of the transform."""
    n = len(x)
    total = 0.0
    for k in range(count):
        re = 0.0
        im = 0.0
        for i in range(n):
            angle = -2.0 * math.pi * k * i / n
            re += x[i] * math.cos(angle)
            im += x[i] * math.sin(angle)
        total += math.sqrt(re * re + im * im + 1e-12)
    return total


def fourier_arrays(x: Any, count: int) -> float:
    n = len(x)
    i = np.arange(n)
    total = 0.0
    for k in range(count):
        angle = -2.0 * math.pi * k * i / n
        re = np.sum(x * np.cos(angle))
        im = np.sum(x * np.sin(angle))
        total += math.sqrt(re * re + im * im + 1e-12)
    return total


def fourier_jax(jnp: Any, x: Any, count: int) -> Any:
    n = len(x)
    angle = -2.0 * math.pi * jnp.arange(count)[:, None] * jnp.arange(n)[None, :] / n
    re, im = jnp.cos(angle) @ x, jnp.sin(angle) @ x
    return jnp.sqrt(re * re + im * im + 1e-12).sum()


def envelope(x: Any, attack: float, release: float) -> float:
    """The mean of an envelope follower, which rises faster than it falls."""
    level = 0.0
    total = 0.0
    for i in range(len(x)):
        size = abs(x[i])
        if size > level:
            level = attack * level + (1.0 - attack) * size
        else:
            level = release * level + (1.0 - release) * size
        total += level
    return total / len(x)


def envelope_where(x: Any, attack: float, release: float) -> float:
    level, total = 0.0, 0.0
    for v in x:
        size = abs(v)
        rate = attack if size > level else release
        level = rate * level + (1.0 - rate) * size
        total += level
    return total / len(x)


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(1)
    x = rng.normal(0.0, 1.0, 20_000)
    h = rng.normal(0.0, 0.1, 48)
    filter_ = (0.2, 0.3, 0.2, -0.5, 0.2)
    yield from of_programs(bench, "signals", [
        Ordinary(fir, (x, h), (0, 1), {"stored": fir_stored, "taps outside": fir_taps_outside, "slices": fir_slices},
                 adjoint=True, jax=fir_jax),
        Ordinary(biquad, (x, *filter_), (0, 1, 2, 3, 4, 5), {"while": biquad_while, "helper": biquad_helper},
                 adjoint=True),
        Ordinary(fourier, (x[:1000], 60), (0,), {"arrays": fourier_arrays}, adjoint=True, jax=fourier_jax),
        Ordinary(envelope, (x, 0.6, 0.99), (0, 1, 2), {"where": envelope_where}, adjoint=True)])
