"""A chain of elementwise functions over 10 million f32 numbers: memory bandwidth and vector mathematics."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours, c_call, compiled
from bench.peers.drjit_peer import add_drjit, numbers
from bench.peers.enzyme_peer import add_enzyme

TITLE = "An elementwise chain over 10 million f32 numbers"
MATH = "C, the vector mathematics' limit"        # the same functions of libmvec on data in the first-level cache
COPY = "NumPy copy, the memory's limit"       # reads and writes four bytes per number


def chain(x: Any) -> Any:
    return np.sum(np.exp(np.sin(x)) * np.sqrt(1 + x * x) + np.tanh(x))


def in_drjit(dr: Any, x: Any) -> Any:
    return dr.sum(dr.exp(dr.sin(x)) * dr.sqrt(1 + x * x) + dr.tanh(x))


def in_jax(x: Any, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def total(x: Any) -> Any:
        return (jnp.exp(jnp.sin(x)) * jnp.sqrt(1 + x * x) + jnp.tanh(x)).sum()
    run, given = jax.jit(jax.value_and_grad(total) if gradient else total), jnp.asarray(x)
    return lambda: jax.block_until_ready(run(given))


def in_torch(x: Any, gradient: bool, compiled: bool) -> Program:
    import torch

    given = torch.tensor(x, requires_grad=gradient)

    def total(x: Any) -> Any:
        return (torch.exp(torch.sin(x)) * torch.sqrt(1 + x * x) + torch.tanh(x)).sum()
    value_of = torch.compile(total) if compiled else total

    def run() -> Any:
        value = value_of(given)
        return (value.detach(), torch.autograd.grad(value, given)) if gradient else value
    return run


def copied(x: Any) -> Program:
    """A program that copies an array: the limit that memory bandwidth sets."""
    to = np.empty_like(x)
    return lambda: np.copyto(to, x)


def add_limits(case: Case, x: Any, function: str, outputs: int) -> None:
    """Adds the limits of the machine: the functions on data in the first-level cache, and a copy."""
    given = np.zeros((1 + outputs, 2048), np.float32)
    aligned = np.zeros(given.size + 16, np.float32)                  # vectors are read at full width
    start = -aligned.ctypes.data % 64 // 4
    rows = aligned[start:start + given.size].reshape(given.shape)
    rows[0] = x[:2048]
    try:
        case.programs[MATH] = c_call(getattr(compiled("vector_math"), function), len(x), *rows)
    except (OSError, subprocess.CalledProcessError) as e:            # no libmvec
        case.cannot[MATH] = str(e)
    case.programs[COPY] = copied(x)
    case.apart |= {MATH, COPY}


def cases(bench: Bench) -> Iterator[Case]:
    n = 10 ** 6 if bench.quick else 10 ** 7
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    x_bar = np.empty_like(x)
    value = bench.case("chain", "value", per=n, unit="a number", rtol=1e-3)     # the sums are in single precision
    add_ours(value, chain, lambda f: lambda: f(x))
    add_c(value, "chain", "chain", n, x)
    add_enzyme(value, "chain", [x], sizes={"N": n}, dtype="float32")
    add_drjit(value, in_drjit, [x], results=lambda v: v[0])
    value.add("JAX", lambda: in_jax(x, False))
    value.add("PyTorch", lambda: in_torch(x, False, False))
    add_limits(value, x, "value", 0)
    yield value
    gradient = bench.case("chain", "gradient", per=n, unit="a number", rtol=1e-3)
    add_ours(gradient, chain, lambda f: lambda: f.value_and_grad(x), grad=True)
    add_c(gradient, "chain", "chain_gradient", n, x, x_bar, results=lambda v: (v, x_bar))
    add_enzyme(gradient, "chain", [x], sizes={"N": n}, dtype="float32")
    add_drjit(gradient, in_drjit, [x], results=numbers)
    gradient.add("JAX", lambda: in_jax(x, True))
    gradient.add("PyTorch", lambda: in_torch(x, True, False))
    if not bench.quick:
        gradient.add("PyTorch compiled", lambda: in_torch(x, True, True))
    add_limits(gradient, x, "gradient", 1)
    yield gradient
