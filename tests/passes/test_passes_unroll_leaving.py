"""Unrolling makes what depends on the counter and on parameters alone leave the loop around, in derivatives too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit, spec


def mixture(x: Any, means: Any, variances: Any) -> float:
    """Logarithms of the variances of four kinds, which no point changes."""
    total = 0.0
    for i in range(len(x)):
        best = -1e300
        for k in range(4):
            s = np.log(variances[k, 2])
            for a in range(2):
                z = x[i, a] - means[k, a]
                s -= 0.5 * (z * z / variances[k, a] + np.log(6.28 * variances[k, a]))
                s += 0.1 * np.log1p(z * z * variances[k, a]) + 0.2 * np.tanh(z) * np.sqrt(variances[k, a])
            best = max(best, s)
        total += best
    return total


def transitions(codes: Any, rates: Any) -> float:
    """The matrix of four states is made in loops, and read for each row."""
    p = np.zeros((4, 4))
    part = np.zeros((2 * len(codes), 4))
    for _ in range(len(codes)):
        for a in range(4):
            for b in range(4):
                p[a, b] = np.exp(-rates[a] * rates[b])
    for n in range(len(codes)):
        for a in range(4):
            part[n, a] = rates[a]
        for a in range(4):
            s = 0.0
            for b in range(4):
                s += p[a, b] * part[codes[n], b]
            part[len(codes) + n, a] = s * s
    return np.sum(part)


RNG = np.random.default_rng(3)
POINTS = (RNG.normal(0, 1, (9, 2)), RNG.normal(0, 1, (4, 2)), RNG.uniform(0.5, 2, (4, 3)))
CODES = (np.array([0, 0, 1, 5, 2, 8]), RNG.uniform(0.1, 1, 4))


def _in_loop(text: str, op: str) -> int:
    """How many ops are in blocks of loops."""
    blocks = text.split("\n\n")
    return sum(f" = {op} " in line for b in blocks if b.startswith("^loop") for line in b.splitlines())


@pytest.mark.slow
def test_logarithms_of_parameters_leave_the_loop() -> None:
    assert jit(mixture)(*POINTS) == pytest.approx(mixture(*POINTS), rel=1e-13)
    check_grads(mixture, POINTS, order=1, modes=("rev",))
    text = jit(mixture).inspect("optimized", *map(spec, ("f64[:, :]", "f64[:, :]", "f64[:, :]")))
    assert _in_loop(str(text), "log") == 0


def test_a_negative_parameter_raises_only_if_there_are_points() -> None:
    x, means, variances = POINTS

    def in_math(x: Any, v: Any) -> float:
        import math
        total = 0.0
        for i in range(len(x)):
            for k in range(4):
                total += x[i] * math.log(v[k]) + math.log(x[i])
        return total
    f = jit(in_math)
    bad = np.array([1.0, 2.0, -1.0, 3.0])
    assert f(np.empty(0), bad) == 0.0
    with pytest.raises(ValueError, match="domain|positive"):
        f(np.array([1.0, -1.0]), bad)


@pytest.mark.slow
def test_gradient_of_matrices_made_in_loops() -> None:
    f = jit(transitions, grad=1)
    assert f(*CODES) == pytest.approx(transitions(*CODES), rel=1e-13)
    check_grads(lambda r: transitions(CODES[0], r), CODES[1:], order=1, modes=("rev",))
    text = str(f.value_and_grad.inspect("optimized", *CODES))
    saved = text.count("empty")
    assert saved <= 12, saved                               # not the 16 elements of the matrix for each row
