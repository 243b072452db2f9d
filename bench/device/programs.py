"""The programs, as plain Python functions."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np

from jitad import grad, value_and_grad, vmap


def curve(x: float) -> float:
    """A cheap function, so that its value and slope take the time of reading and writing memory."""
    return x * x * (3.0 - 2.0 * x) / (1.0 + x * x)


value_and_slope = vmap(value_and_grad(curve))


STEPS = 100


def lorenz(x: float, y: float, z: float) -> float:
    """The energy after some steps of Euler's method."""
    h = 0.001
    for _ in range(STEPS):
        dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z
        x, y, z = x + h * dx, y + h * dy, z + h * dz
    return x * x + y * y + z * z


lorenz_gradients = vmap(grad(lorenz, (0, 1, 2)))


def kepler(mean: float, e: float) -> float:
    """The eccentric anomaly by Newton's method, as many steps as it takes."""
    angle = mean
    step = 1.0
    while abs(step) > 1e-12:
        step = (angle - e * np.sin(angle) - mean) / (1.0 - e * np.cos(angle))
        angle = angle - step
    return angle


kepler_gradients = vmap(grad(kepler, (0, 1)))


def normal(x: float) -> float:
    return 0.5 * (1.0 + erf(x / 1.4142135623730951))


def call_price(s: float, k: float, t: float, r: float, v: float) -> float:
    """The price of a European call by Black and Scholes."""
    root = v * np.sqrt(t)
    d = (np.log(s / k) + (r + 0.5 * v * v) * t) / root
    return s * normal(d) - k * np.exp(-r * t) * normal(d - root)


greeks = vmap(value_and_grad(call_price, (0, 2, 3, 4)))


def row_sums(x: Any) -> Any:
    return np.sum(x, axis=1)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)
