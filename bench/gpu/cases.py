"""Programs whose kernels have a counterpart of the same name in ``kernels.cu``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jitad.lowering.gpu.image import Image
from jitad.lowering.gpu.program import compile_program
from jitad.lowering.math.options import Options

from jitad import grad, jit, pipeline, vmap
from jitad.reference import program_for

N = 4096


@dataclass(frozen=True)
class Program:
    """A program with arguments.  ``kernel``: which of its kernels is the one that counts."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kernel: int = 0

    def image(self) -> Image:
        """The kernels of the program."""
        traced, _ = program_for(self.function, self.args, {})
        pipeline.run(traced.module, [traced.root], gpu=True)
        return compile_program(traced.module, traced.root, Options()).image


def fused(a: Any, x: Any, y: Any) -> Any:
    return np.tanh(a * x + y) * x


def fused_gradient(x: Any, y: Any) -> Any:
    return grad(lambda x: (np.exp(x * y) * y).sum())(x)


def broadcast(a: Any, b: Any, c: Any) -> Any:
    return a[:, None] * b + c


def gather(x: Any, index: Any) -> Any:
    return x[index]


def scatter_add(x: Any, index: Any) -> Any:
    z = np.zeros(N)
    for k in range(len(x)):
        z[index[k]] += x[k]
    return z


def total(x: Any) -> Any:
    return x.sum()


def dot(x: Any, y: Any) -> Any:
    return (x * y).sum()


def black_scholes(S: Any, K: Any, T: Any, r: float, v: float) -> Any:
    def price(S: float, K: float, T: float) -> float:
        w = v * math.sqrt(T)
        d1 = (math.log(S / K) + (r + 0.5 * v * v) * T) / w
        d2 = d1 - w
        half = math.sqrt(0.5)
        return S * 0.5 * (1 + math.erf(d1 * half)) - K * math.exp(-r * T) * 0.5 * (1 + math.erf(d2 * half))
    return vmap(price)(S, K, T)


def lorenz(x0: Any, steps: int, h: float) -> Any:
    def last(x: float) -> float:
        y = z = 1.0
        for _ in range(steps):
            dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z
            x, y, z = x + h * dx, y + h * dy, z + h * dz
        return x + y + z
    return vmap(last)(x0)


def kepler(e: Any, M: Any) -> Any:
    def solve(e: float, M: float) -> float:
        E, f = M, 1.0
        while abs(f) > 1e-12:
            f = E - e * math.sin(E) - M
            E = E - f / (1.0 - e * math.cos(E))
        return E
    return vmap(solve)(e, M)


X, Y = np.linspace(0.1, 0.9, N), np.linspace(0.2, 0.8, N)
INDEX = np.arange(N)[::-1].copy()
PROGRAMS = {
    "fused": Program(fused, (1.5, X, Y)),
    "fused_gradient": Program(fused_gradient, (X, Y)),
    "broadcast": Program(broadcast, (X[:64], Y[:64], X.reshape(64, 64))),
    "gather": Program(jit(gather, boundscheck=False), (X, INDEX)),
    "gather_checked": Program(gather, (X, INDEX)),
    "scatter_add": Program(jit(scatter_add, boundscheck=False), (X, INDEX), kernel=-2),
    "scatter_add_checked": Program(scatter_add, (X, INDEX), kernel=-2),
    "sum": Program(total, (X,)),
    "dot": Program(dot, (X, Y)),
    "black_scholes": Program(black_scholes, (X + 1, Y + 1, X, 0.03, 0.2)),
    "lorenz": Program(lorenz, (X, 100, 0.01)),
    "kepler": Program(kepler, (X, Y)),
}
