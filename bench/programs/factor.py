"""Cholesky and LU factorisations as loops, 100 by 100: the logarithm of the determinant and its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme

TITLE = "Cholesky and LU as loops, 100 by 100"
N = 100


def cholesky(a: Any) -> float:
    n = len(a)
    l = np.zeros((n, n))
    total = 0.0
    for j in range(n):
        d = a[j, j]
        for k in range(j):
            d -= l[j, k] * l[j, k]
        d = math.sqrt(d)
        l[j, j] = d
        total += 2 * math.log(d)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / d
    return total


def lu(a: Any) -> float:
    f = a.copy()
    n = len(f)
    total = 0.0
    for k in range(n):
        total += math.log(abs(f[k, k]))
        for i in range(k + 1, n):
            m = f[i, k] / f[k, k]
            f[i, k] = m
            for j in range(k + 1, n):
                f[i, j] -= m * f[k, j]
    return total


def in_numba(function: Any, a: Any) -> Program:
    import numba
    run = numba.njit(function)
    return lambda: run(a)


def in_jax(name: str, a: Any, gradient: bool) -> Program:
    """The library's factorisations: another program, only shown.

    Written as loops, JAX would copy the matrix at each step of the reverse sweep.
    """
    import jax
    import jax.numpy as jnp

    def by_cholesky(a: Any) -> Any:
        return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a, symmetrize_input=False))).sum()

    def by_lu(a: Any) -> Any:
        return jnp.linalg.slogdet(a)[1]
    function = by_cholesky if name == "Cholesky" else by_lu
    run, given = jax.jit(jax.value_and_grad(function) if gradient else function), jnp.asarray(a)
    return lambda: jax.block_until_ready(run(given))


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    square = rng.normal(size=(N, N))
    bar, l, l_bar = (np.empty((N, N)) for _ in range(3))
    problems = {"Cholesky": (cholesky, square @ square.T + N * np.eye(N), (bar, l, l_bar)),
                "LU": (lu, square + N * np.eye(N), (bar, l))}
    for name, (function, a, arrays) in problems.items():
        c_name = function.__name__
        value = bench.case(name, "value")
        add_ours(value, function, lambda f, a=a: lambda: f(a))
        add_c(value, "factor", c_name, N, a, l)
        add_enzyme(value, "factor", [a], function=c_name, sizes={"N": N})
        value.add("Numba", lambda f=function, a=a: in_numba(f, a))
        value.add("JAX library", lambda name=name, a=a: in_jax(name, a, False), apart=True)
        yield value
        gradient = bench.case(name, "gradient", rtol=1e-8)
        add_ours(gradient, function, lambda f, a=a: lambda: f.value_and_grad(a), grad=True)
        add_c(gradient, "factor", f"{c_name}_gradient", N, a, *arrays, results=lambda v: (v, bar))
        add_enzyme(gradient, "factor", [a], function=c_name, sizes={"N": N},
                   results=lambda found: (found[0], found[1].reshape(N, N)))
        if name == "LU":                            # JAX's gradient of a Cholesky factor is for a symmetric argument
            gradient.add("JAX library", lambda name=name, a=a: in_jax(name, a, True), apart=True)
        yield gradient
