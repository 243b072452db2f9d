"""Loops that add to neighbouring elements: the same sums to the last bit, right derivatives, whatever the lengths."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit

RNG = np.random.default_rng(0)
W = np.array([0.5, -2.0, 4.0])                 # products are exact, so fused operations change nothing


def spread(x: Any, w: Any, n: int) -> Any:
    """Adds to four neighbours, not in the order of their indices, and twice to one of them."""
    g = np.full(n, -0.0)
    for i in range(2, n - 1):
        g[i - 1] += x[i] * w[0]
        g[i] += x[i] * w[1]
        g[i + 1] += x[i]
        g[i - 2] += w[2] * x[i]
        g[i] -= w[2]
    return g


def window(x: Any, w: Any, n: int) -> Any:
    """The first element waits for the last six iterations."""
    g = np.full(n, -0.0)
    for i in range(n - 6):
        g[i] += x[i] * w[0]
        g[i + 4] += x[i + 1] * w[1]
        g[i + 6] += x[i + 2] * w[2]
    return g


def downwards(x: Any, w: Any, n: int) -> Any:
    g = np.zeros(n)
    for i in range(n - 2, -1, -1):
        g[i] += x[i] * w[0]
        g[i + 1] -= x[i] * w[1]
    return g


def in_pairs(x: Any, w: Any, n: int) -> Any:
    """Two elements further in each iteration: odd elements are never even ones."""
    g = np.ones(n)
    for i in range(n // 2 - 1):
        g[2 * i] += x[i] * w[0]
        g[2 * i + 1] += x[i] * w[1]
        g[2 * i + 2] += x[i] * w[2]
    return g


def on_the_diagonal(x: Any, w: Any, n: int) -> Any:
    g = np.zeros((n, n))
    for i in range(n - 1):
        g[i, i] += x[i] * w[0]
        g[i + 1, i + 1] += x[i] * w[1]
        g[i, i + 1] += w[2]
    return g


def read_as_well(x: Any, w: Any, n: int) -> Any:
    g = np.ones(n)
    for i in range(n - 2):
        g[i] += x[i] * w[0]
        g[i + 1] += g[i] * w[1]
        g[i + 2] += x[i] * w[2]
    return g


def sometimes(x: Any, w: Any, n: int) -> Any:
    g = np.zeros(n)
    for i in range(n - 1):
        g[i] += x[i]
        if x[i] > 0.0:
            g[i + 1] += w[0]
    return g


def far(x: Any, w: Any, n: int) -> Any:
    g = np.zeros(n + 100)
    for i in range(n):
        g[i] += x[i] * w[0]
        g[i + 100] += x[i] * w[1]
        g[n] += w[2]
    return g


def whole_numbers(x: Any, w: Any, n: int) -> Any:
    g = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        g[i] += i
        g[i - 1] -= 2 * i
    return g


PROGRAMS = [spread, window, downwards, in_pairs, on_the_diagonal, read_as_well, sometimes, far, whole_numbers]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for n in (2, 3, 4, 5, 6, 9, 70):
        x = RNG.normal(size=n)
        np.testing.assert_array_equal(compiled(x, W, n), f(x, W, n))


def test_zeros_keep_their_sign() -> None:
    g = jit(spread)(np.zeros(6), np.ones(3), 3)
    np.testing.assert_array_equal(np.signbit(g), np.signbit(spread(np.zeros(6), np.ones(3), 3)))
    np.testing.assert_array_equal(np.signbit(jit(spread)(np.zeros(1), W, 2)), [True, True])


def line(x: Any, w: Any) -> Any:
    total = 0.0
    for i in range(1, len(x) - 1):
        d = w[0] * x[i - 1] * x[i] + w[1] * x[i] + w[2] * x[i + 1]
        total += d * d
    return total


def seven(x: Any, w: Any) -> Any:
    """The gradient adds to seven neighbours, in any order: the loop carries six sums."""
    total = 0.0
    for k in range(len(x) - 6):
        d = x[k] + w[0] * (x[k + 3] + w[1] * (x[k + 2] + w[1] * x[k + 1])
                           + w[0] * (x[k + 6] + w[2] * (x[k + 5] + w[2] * x[k + 4])))
        total += d * d
    return total


def plane(x: Any, w: Any) -> Any:
    rows, columns = x.shape
    total = 0.0
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            d = x[i - 1, j] * w[0] + x[i, j] * w[1] + x[i, j + 1] * w[2] - x[i, j - 1] + x[i + 1, j - 1] * w[0]
            total += d * d * x[i, j]
    return total


def in_time(x: Any, w: Any) -> Any:
    now = x.copy()
    for _ in range(3):
        new = now.copy()
        for i in range(1, len(x) - 1):
            new[i] = now[i] + w[0] * (now[i - 1] - 2.0 * now[i] + now[i + 1]) + w[1] * now[i] * now[i]
        now = new
    return np.sum(now * now)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("f", "shapes"), [
    (line, [(2,), (3,), (4,), (5,), (40,)]), (seven, [(3,), (7,), (8,), (9,), (40,)]),
    (plane, [(2, 2), (3, 3), (3, 4), (4, 3), (5, 21)]),
    (in_time, [(2,), (3,), (4,), (37,)])], ids=["line", "seven", "plane", "in_time"])
def test_gradients(f: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    compiled, threaded = (jit(f, grad=(0, 1), parallel=parallel) for parallel in (False, True))
    for shape in shapes:
        x = RNG.normal(size=shape)
        np.testing.assert_allclose(compiled(x, W), f(x, W), rtol=1e-13, atol=1e-13)
        wanted = interpret(grad(f, argnums=(0, 1)), x, W)
        for found in (compiled.grad(x, W), threaded.grad(x, W)):
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    check_grads(compiled, (RNG.normal(size=shapes[2]), W))


@pytest.mark.slow
@pytest.mark.parametrize("f", [spread, in_pairs, on_the_diagonal], ids=lambda f: f.__name__)
def test_derivatives_of_updates(f: Callable[..., Any]) -> None:
    def total(x: Any, w: Any) -> Any:
        g = f(x, w, 7)
        return np.sum(g * g)
    check_grads(jit(total, grad=(0, 1)), (RNG.normal(size=7), W))


def test_elements_that_are_reached_once_need_no_zeros() -> None:
    """The gradient of ``line`` is stored element by element; only what the loop does not reach is cleared."""
    compiled = jit(line, grad=0)
    x = RNG.normal(size=9)
    compiled.grad(x, W)
    reverse = compiled.grad.inspect("optimized").split("^loop_bar")[1]
    assert "get %x_bar" not in reverse and "set_slice" in compiled.grad.inspect("optimized")


def test_sums_in_any_order_wait_as_one_value() -> None:
    compiled = jit(seven, grad=0)
    loops = compiled.grad.inspect("loops", np.ones(9), W)
    assert compiled.grad(np.ones(9), W) == pytest.approx(interpret(grad(seven), np.ones(9), W))
    head, body = re.findall(r"^  (%[^\n]*) = for [^\n]*\n(.*?)^  }", loops, re.MULTILINE | re.DOTALL)[-1]
    assert head.count("%") == 6 and body.count("store") == 1
