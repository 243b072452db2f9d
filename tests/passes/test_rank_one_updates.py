"""Adjoints of products by loops in a loop around: nests that add products of two vectors to a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.passes.algebra import outer_product_log

RNG = np.random.default_rng(0)


def steps(w: Any, h: Any, count: int) -> float:
    """The adjoint of ``w`` has the vectors of the loop around: nothing else is around the inner loop."""
    h = h.copy()
    n = len(h)
    for _ in range(count):
        new = np.zeros(n)
        for i in range(n):
            for j in range(n):
                new[i] += w[i, j] * h[j]
        for i in range(n):
            h[i] = math.tanh(new[i])
    return np.sum(h * h)


def by_columns(w: Any, h: Any, count: int) -> float:
    h = h.copy()
    n = len(h)
    for _ in range(count):
        new = np.zeros(n)
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += h[j] * w[j, i]
            new[i] = math.sin(total) + 0.1 * h[i]
        h = new
    return np.sum(h)


def gates(w: Any, h: Any, count: int) -> float:
    """Three parts of the rows of one matrix, and its first columns only; what is added up is read elsewhere too."""
    n = len(h)
    for _ in range(count):
        new = np.zeros(n)
        for i in range(n):
            r, z, c = 0.0, 0.1, 0.2
            for j in range(n):
                r += w[i, j] * h[j]
                z += w[n + i, j] * h[j]
                c += w[2 * n + i, j] * h[j]
            new[i] = math.tanh(r) * h[i] + math.sin(z) * c
        h = new
    return np.sum(h)


def rows(w: Any, h: Any, count: int) -> float:
    """A factor is an element of a matrix, and of the first loop's only every other index is in it."""
    table = np.outer(np.arange(1.0, 4.0), h)
    total = 0.0
    for t in range(count):
        for i in range(len(h)):
            s = 0.0
            for j in range(len(h)):
                s += w[i, j] * table[t % 3, j]
            total += s * s * h[i]
    return total


def sometimes(w: Any, h: Any, count: int) -> float:
    """Rows that an iteration leaves out are not multiplied: a factor may be infinite."""
    n = len(h)
    for _ in range(count):
        new = np.ones(n)
        for i in range(n):
            if h[i] < 0.5:
                for j in range(n):
                    new[i] += w[i, j] * h[j]
        h = np.sin(new)
    return np.sum(h)


def read_again(w: Any, h: Any, count: int) -> float:
    """The matrix changes between the steps, so that its adjoint is read there."""
    w = w.copy()
    n = len(h)
    for _ in range(count):
        new = np.zeros(n)
        for i in range(n):
            for j in range(n):
                new[i] += w[i, j] * h[j]
        h = np.tanh(new)
        for i in range(n):
            w[i, 0] *= h[i]
    return np.sum(h)


PROGRAMS = [steps, by_columns, gates, rows, sometimes, read_again]


def arguments(f: Callable[..., Any], n: int, count: int, more: int = 0) -> tuple[Any, ...]:
    height = (3 if f is gates else 1) * n + more
    return RNG.normal(0.0, 0.5, (height, n + more)), RNG.normal(0.0, 1.0, n), count


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ours = jit(f, grad=(0, 1)).value_and_grad
    check_grads(f, arguments(f, 5, 3), order=2)
    monkeypatch.setenv("JITAD_WITHOUT", "rank_one_updates")
    plain = jit(f, grad=(0, 1)).value_and_grad
    plain(*arguments(f, 2, 1))
    monkeypatch.delenv("JITAD_WITHOUT")
    for sizes in ((20, 70, 0), (17, 130, 3), (40, 2, 1), (1, 4, 2), (3, 0, 0), (0, 3, 0), (0, 3, 2), (64, 65, 0)):
        args = arguments(f, *sizes)
        value, bars = ours(*args)
        expected, wanted = plain(*args)
        assert value == expected
        for bar, other in zip(bars, wanted):
            np.testing.assert_allclose(bar, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("f", [steps, by_columns, gates, rows], ids=lambda f: f.__name__)
def test_steps_are_one_product(f: Callable[..., Any]) -> None:
    text = str(jit(f, grad=(0, 1)).value_and_grad.inspect("optimized", *arguments(f, 20, 70)))
    assert "matmul {ta = True}" in text


@pytest.mark.parametrize("f", [sometimes, read_again], ids=lambda f: f.__name__)
def test_others_are_not(f: Callable[..., Any]) -> None:
    text = str(jit(f, grad=(0, 1)).value_and_grad.inspect("optimized", *arguments(f, 20, 70)))
    assert "matmul" not in text


def test_what_is_infinite() -> None:
    """An infinite factor meets only the elements that the program multiplies with it."""
    w, h = np.full((4, 5), 0.5), np.array([1.0, np.inf, 2.0])

    def product(w: Any, h: Any, count: int) -> float:
        total = 0.0
        for _ in range(count):
            for i in range(len(h)):
                s = 0.0
                for j in range(len(h)):
                    s += w[i, j] * h[j]
                total += s
        return total
    bar = jit(product, grad=(0,)).value_and_grad(w, h, 70)[1][0]
    np.testing.assert_array_equal(bar[:3, :3], np.tile(70.0 * h, (3, 1)))
    assert not bar[3].any() and not bar[:, 3:].any()


def test_failures_in_order() -> None:
    ours = jit(steps, grad=(0, 1)).value_and_grad
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        ours(np.ones((4, 5)), np.ones(5), 3)
    assert ours(np.ones((4, 5)), np.ones(5), 0)[0] == 5.0


@pytest.mark.slow
def test_sizes_of_loops_that_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is added, the numbers of iterations may be any: no memory is asked for them."""
    monkeypatch.setattr(outer_product_log, "SMALL", 0)

    def product(w: Any, h: Any, n: int, m: int, count: int) -> float:
        total = 0.0
        for _ in range(count):
            for i in range(n):
                s = 0.0
                for j in range(m):
                    s += w[i, j] * h[j]
                total += s * s
        return total
    ours = jit(product, grad=(0, 1)).value_and_grad
    w, h = RNG.normal(0.0, 1.0, (6, 7)), RNG.normal(0.0, 1.0, 7)
    for n, m in ((6, 7), (5, 3), (-10**15, -10**15), (-3, 10**15), (2, 0)):
        value, bars = ours(w, h, n, m, 66)
        part, x = w[:max(n, 0), :max(m, 0)], h[:max(m, 0)]
        expected = np.zeros_like(w)
        expected[:part.shape[0], :part.shape[1]] = 66 * 2 * np.outer(part @ x, x)
        assert value == pytest.approx(66 * np.sum((part @ x) ** 2))
        np.testing.assert_allclose(bars[0], expected, rtol=1e-12)
