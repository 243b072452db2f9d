"""Partial sums: gradients of paths run in lanes, sums in order stay in order, and failures are raised as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.text import parse_module
from jitad.ir.verify import verify
from jitad.passes.nests.partial_sums import partial_sums


def paths(z: Any, v0: float, kappa: float, xi: float, rate: float) -> float:
    """The mean payoff of paths with a stochastic variance; a root in each step may fail."""
    total = 0.0
    for i in range(z.shape[0]):
        x, v = 0.1, v0
        for t in range(z.shape[1]):
            root = math.sqrt(v)
            x += root * z[i, t] - 0.05 * v
            v += kappa * (0.04 - v) + xi * root * z[i, t]
        total += max(x, 0.0)
    return math.exp(-rate) * total / len(z)


def differences(z: Any, *args: float) -> list[float]:
    found = []
    for k in range(len(args)):
        up, down = ([x + h * (k == i) for i, x in enumerate(args)] for h in (1e-6, -1e-6))
        found.append((paths(z, *up) - paths(z, *down)) / 2e-6)
    return found


@pytest.mark.slow
@pytest.mark.long
def test_paths() -> None:
    rng = np.random.default_rng(0)
    both = jit(paths, grad=(1, 2, 3, 4)).value_and_grad
    for shape in ((40, 6), (16, 1), (37, 9), (3, 5), (20, 0)):
        args = rng.uniform(-0.5, 0.5, shape), 0.09, 0.1, 0.05, 0.03
        value, bars = both(*args)
        assert value == pytest.approx(paths(*args), rel=1e-12)
        assert len(bars) == 4
        z = args[0]
        for bar, expected in zip(bars, differences(z, *args[1:])):
            assert bar == pytest.approx(expected, rel=1e-5, abs=1e-7)
        check_grads(paths, args, order=1)
    assert "f64[16]" in str(both.inspect("optimized", *args))


def test_paths_that_fail() -> None:
    z = np.full((40, 6), -0.3)
    z[29, 3] = -40.0                                            # the variance is negative in the next step
    with pytest.raises(ValueError, match="math domain error"):
        paths(z, 0.09, 0.1, 0.05, 0.03)
    with pytest.raises(ValueError, match="math domain error"):
        jit(paths, grad=(1, 2, 3, 4)).value_and_grad(z, 0.09, 0.1, 0.05, 0.03)


def total(a: Any, scale: float) -> float:
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += scale * a[i, j]
    return s


@pytest.mark.slow
def test_sums_of_values_stay_in_order() -> None:
    a = np.zeros((40, 3))
    a[0, 0], a[1:, 1], a[-1, 2] = 1e16, 1.0, -1e16
    assert jit(total)(a, 1.0) == total(a, 1.0) != 39.0
    assert jit(total, fastmath=True)(np.ones((40, 3)), 2.0) == 240.0
    assert math.copysign(1.0, jit(total, fastmath=True)(np.ones((40, 0)), 2.0)) == 1.0


def bonds(q: Any, beta: float) -> float:
    """An energy from which products of neighbours are subtracted."""
    e = 0.0
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            e += q[i, k]
        if i + 1 < q.shape[0]:
            for k in range(q.shape[1]):
                e -= beta * q[i, k] * q[i + 1, k]
    return e


def subtracted(q: Any, beta: float) -> float:
    """What the sum is subtracted from is no sum."""
    e = beta
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            e = q[i, k] - e
    return e


@pytest.mark.slow
def test_what_is_subtracted() -> None:
    q = np.random.default_rng(1).normal(size=(19, 5))
    for f in (bonds, subtracted):
        for fastmath in (False, True):
            compiled = jit(f, grad=(0, 1), fastmath=fastmath)
            value, (q_bar, beta_bar) = compiled.value_and_grad(q, 0.3)
            assert value == pytest.approx(f(q, 0.3), rel=1e-12)
            assert beta_bar == pytest.approx((f(q, 0.4) - f(q, 0.2)) / 0.2, rel=1e-9)
            assert q_bar[3, 2] == pytest.approx((f(q + _unit(q), 0.3) - f(q - _unit(q), 0.3)) / 2.0, rel=1e-9)
    assert str(jit(bonds, fastmath=True).inspect("optimized", q, 0.3)).count("-0.0") >= 1


def _unit(q: Any) -> Any:
    step = np.zeros_like(q)
    step[3, 2] = 1.0
    return step


def windows(x: Any, k: Any) -> float:
    """The iterations of the outer loop are independent but for the last sum, which no inner loop continues."""
    total = 0.0
    for i in range(len(x) - len(k) + 1):
        s = 0.0
        for a in range(k.shape[0]):
            for b in range(k.shape[1]):
                s += k[a, b] * x[i + a, b]
        total += s * s
    return total


def all_elements(x: Any, k: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * k[0, 0]
    return total


def all_windows(x: Any, k: Any) -> float:
    total = 0.0
    for i in range(len(x) - len(k) + 1):
        for a in range(k.shape[0]):
            for b in range(k.shape[1]):
                total += k[a, b] * x[i + a, b]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f, split", [(windows, False), (all_elements, True), (all_windows, True)])
def test_sums_under_fast_math(f: Callable[..., float], split: bool) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(40, 3)), rng.normal(size=(5, 3))
    for fastmath in (False, True):
        module = parse_module(jit(f).inspect("cps", x, k))
        module.fastmath = fastmath
        assert partial_sums(module) == (fastmath and split)
        verify(module)
        assert Interpreter(module).run(next(iter(module.functions)), [x, k])[0] == pytest.approx(f(x, k), rel=1e-12)
    assert jit(f, fastmath=True)(x, k) == pytest.approx(f(x, k), rel=1e-12)
