"""Array programs as in simulations: values and derivatives, and the number of passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit, value_and_grad

RNG = np.random.default_rng(0)


def heat(u: Any, k: float, steps: int) -> Any:
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += k * (u[:-2] - 2 * u[1:-1] + u[2:])
    return np.sum(u * u)


def heat_by_loops(start: Any, k: float, steps: int) -> Any:
    u, new = start.copy(), start.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1])
        u[:] = new
    total = 0.0
    for i in range(len(u)):
        total += u[i] * u[i]
    return total


def wave(u: Any, v: Any, c: Any) -> Any:
    """Two arrays, a coefficient for each point, slices with steps and in reverse."""
    u, v = u.copy(), v.copy()
    for _ in range(4):
        v[1:-1] = v[1:-1] + c[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[::2] -= 0.1 * np.tanh(v[::2])
        u[1:] = u[1:] - 0.05 * u[:-1] * v[::-1][1:]
        v[::-1][:3] += u[:3] * u[3:6]
    return np.sum(u * v)


def plate(u: Any, k: float) -> Any:
    u = u.copy()
    for _ in range(3):
        u[1:-1, 1:-1] += k * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        u[0] += 0.5 * u[-1]
        u[:, 1] = u[:, 1] * u[:, 0]
    return np.sum(u * u * u)


PROGRAMS = [
    (heat, (RNG.normal(size=9), 0.2, 5), 2), (heat, (RNG.normal(size=3), 0.2, 2), 1),
    (heat, (RNG.normal(size=2), 0.2, 2), 1), (heat_by_loops, (RNG.normal(size=9), 0.2, 5), 2),
    (heat_by_loops, (RNG.normal(size=2), 0.2, 5), 1),
    (wave, tuple(RNG.normal(size=(3, 11)) * 0.5), 1), (wave, tuple(RNG.normal(size=(3, 40)) * 0.5), 1),
    (plate, (RNG.normal(size=(3, 4)), 0.1), 1), (plate, (RNG.normal(size=(5, 21)) * 0.1, 0.1), 1),
]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f, args, order", PROGRAMS)
def test_values_and_derivatives(f, args, order) -> None:
    expected = f(*args)
    assert jit(f)(*args) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    which = tuple(i for i, a in enumerate(args) if not isinstance(a, int))
    check_grads(lambda *xs: f(*xs, *args[len(which):]), args[:len(which)], order=order)


@pytest.mark.parametrize("f, args", [(heat, (RNG.normal(size=5), 0.2, 2)), (plate, (RNG.normal(size=(3, 3)), 0.1))])
def test_what_they_mean(f, args) -> None:
    assert interpret(f, *args) == pytest.approx(f(*args), rel=1e-12, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 4, 17, 64, 1001])
def test_both_ways_to_write_the_heat_equation_have_one_gradient(n) -> None:
    start = RNG.normal(size=n)
    value, (u_bar, k_bar) = jit(heat, grad=(0, 1)).value_and_grad(start, 0.25, 20)
    other, (u_bar_2, k_bar_2) = jit(heat_by_loops, grad=(0, 1)).value_and_grad(start, 0.25, 20)
    np.testing.assert_allclose(u_bar, u_bar_2, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose([value, k_bar], [other, k_bar_2], rtol=1e-11)


def ops_in_loops(f: Any, *args: Any) -> set[str]:
    """The ops in the loops of the compiled ``f``."""
    text = jit(f).inspect("optimized", *args)
    blocks = [b for b in text.split("\n^") if b.startswith("loop")]
    return {line.split(" = ")[1].split()[0] for b in blocks for line in b.splitlines() if " = " in line}


def test_an_update_in_place_is_added_and_its_adjoint_neither_copies_nor_clears() -> None:
    def step(u, k):
        return value_and_grad(heat)(u, k, 10)
    found = ops_in_loops(step, np.ones(9), 0.2)
    assert "add_slice" in found and not {"copy", "set_slice", "fill"} & found


@pytest.mark.slow
def test_a_chain_and_its_gradient_keep_nothing() -> None:
    def chain(x):
        return np.sum(np.exp(np.sin(x)) * np.sqrt(1 + x * x) + np.tanh(x))
    x = RNG.normal(size=1000)
    value, x_bar = jit(chain, grad=True).value_and_grad(x)
    e, root = np.exp(np.sin(x)), np.sqrt(1 + x * x)
    assert value == pytest.approx(np.sum(e * root + np.tanh(x)))
    np.testing.assert_allclose(x_bar, e * (np.cos(x) * root + x / root) + 1 - np.tanh(x) ** 2, rtol=1e-12)
    check_grads(chain, (x[:7],), order=2)
