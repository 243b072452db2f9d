"""The same programs with JAX and PyTorch: functions of NumPy arrays that return a call and a way to wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.device.programs import STEPS

Made = tuple[Callable[[], Any], Callable[[], Any]]
Peer = Callable[..., Made]


def _jax() -> Any:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")      # otherwise it takes most of the memory
    import jax
    jax.config.update("jax_enable_x64", True)
    if jax.default_backend() != "gpu":
        raise ImportError("JAX has no GPU")
    return jax


def _jitted(make: Callable[[Any], Any]) -> Peer:
    """A program of JAX: ``make(jax)`` is the function."""
    def peer(*args: Any) -> Made:
        jax = _jax()
        moved = [jax.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
        run, last = jax.jit(make(jax)), []

        def call() -> Any:
            last[:] = [run(*moved)]
            return last[0]
        return call, lambda: jax.block_until_ready(last)
    return peer


def _lorenz(jax: Any) -> Any:
    def energy(x: Any, y: Any, z: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, y, z = state
            dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z
            return (x + 0.001 * dx, y + 0.001 * dy, z + 0.001 * dz), None
        (x, y, z), _ = jax.lax.scan(step, (x, y, z), None, length=STEPS)
        return x * x + y * y + z * z
    return jax.vmap(jax.grad(energy, (0, 1, 2)))


def _kepler(jax: Any) -> Any:
    """Newton's method with a fixed number of steps: JAX has no reverse mode of ``while_loop``."""
    jnp = jax.numpy

    def angle(mean: Any, e: Any) -> Any:
        def step(a: Any, _: Any) -> Any:
            return a - (a - e * jnp.sin(a) - mean) / (1.0 - e * jnp.cos(a)), None
        return jax.lax.scan(step, mean, None, length=10)[0]
    return jax.vmap(jax.grad(angle, (0, 1)))


def _curve(jax: Any) -> Any:
    return jax.vmap(jax.value_and_grad(lambda x: x * x * (3.0 - 2.0 * x) / (1.0 + x * x)))


def _greeks(jax: Any) -> Any:
    jnp, normal = jax.numpy, jax.scipy.stats.norm.cdf

    def price(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        root = v * jnp.sqrt(t)
        d = (jnp.log(s / k) + (r + 0.5 * v * v) * t) / root
        return s * normal(d) - k * jnp.exp(-r * t) * normal(d - root)
    return jax.vmap(jax.value_and_grad(price, (0, 2, 3, 4)))


def _torch(make: Callable[[Any, Any], Any]) -> Peer:
    def peer(x: Any) -> Made:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch has no GPU")
        on_device = torch.from_numpy(x).cuda()
        return lambda: make(torch, on_device), torch.cuda.synchronize
    return peer


PEERS: dict[str, dict[str, Peer]] = {
    "curve": {"JAX": _jitted(_curve)},
    "lorenz": {"JAX": _jitted(_lorenz)},
    "kepler": {"JAX": _jitted(_kepler)},
    "greeks": {"JAX": _jitted(_greeks)},
    "row sums": {"PyTorch": _torch(lambda torch, x: x.sum(1))},
    "softmax": {"PyTorch": _torch(lambda torch, x: torch.softmax(x, 1))},
}
