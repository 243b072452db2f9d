"""Arrays of which a nest fills a box: the right values and derivatives, whatever the sizes, and fewer passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit
from jitad.passes.buffers import covered_boxes

RNG = np.random.default_rng(0)


def membrane(x: Any, w: Any) -> Any:
    n, m = x.shape
    now = x.copy()
    for _ in range(3):
        new = now.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new[i, j] = now[i, j] * w[0] + w[1] * now[i - 1, j] * now[i, j + 1]
        now = new
    return np.sum(now * now)


def rod(x: Any, w: Any) -> Any:
    now = x[:, 0].copy()
    n = len(now)
    for _ in range(3):
        new = now.copy()
        for i in range(2, n - 1):
            new[i] = now[i] * w[0] + w[1] * now[i - 1]
        now = new
    return np.sum(now ** 2)


def largest(x: Any, w: Any) -> Any:
    n, m = x.shape
    total = 0.0
    for i in range(n // 2):
        for j in range(m // 3):
            top = x[2 * i, 3 * j]
            for a in range(2):
                for b in range(3):
                    if x[2 * i + a, 3 * j + b] > top:
                        top = x[2 * i + a, 3 * j + b]
            total += w[0] * top * top
    return total


def columns(x: Any, w: Any) -> Any:
    total = 0.0
    for i in range(len(x) - 1):
        total += x[i, 1] * w[0] + x[i, 2] ** 2
    return total


def backwards(x: Any, w: Any) -> Any:
    """The new array is filled from its end, and read behind the loop."""
    n, m = x.shape
    new = x.copy()
    for i in range(n - 2, 0, -1):
        for j in range(m - 1):
            new[i, j] = x[i - 1, j + 1] * w[0]
    return np.sum(new * x)


def leaves(x: Any, w: Any) -> Any:
    """The loop may end early: the rest is that of the copy."""
    new = x[:, 0].copy()
    for i in range(len(new)):
        if x[i, 0] > 1.0:
            break
        new[i] = w[0] * x[i, 0] ** 2
    return np.sum(new * w[1])


PROGRAMS: list[Callable[..., Any]] = [membrane, rod, largest, columns, backwards, leaves]
SIZES = [(5, 7), (4, 6), (3, 3), (2, 4), (1, 5), (6, 1), (2, 2), (9, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("f, size", [(f, size) for f in PROGRAMS for size in SIZES if size[1] > 2 or f is not columns])
def test_values_and_derivatives_are_right(f: Callable[..., Any], size: tuple[int, int]) -> None:
    x, w = RNG.normal(size=size), np.array([0.5, -2.0])
    compiled = jit(f, grad=(0, 1))
    expected = interpret(f, x, w)
    for _ in range(2):                                     # memory of an earlier call is not that of the next one
        value, gradients = compiled.value_and_grad(x, w)
        assert value == pytest.approx(expected, rel=1e-12)
        for got, want in zip(gradients, interpret(grad(f, argnums=(0, 1)), x, w)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)
    check_grads(f, (x, w), order=1)


@pytest.mark.parametrize("f", [membrane, rod, largest, columns])
def test_a_box_is_found(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = jit(f, grad=0).value_and_grad.inspect("optimized", RNG.normal(size=(6, 6)), np.ones(2))
    monkeypatch.setenv("JITAD_WITHOUT", covered_boxes.__name__.rpartition(".")[2])
    without = jit(f, grad=0).value_and_grad.inspect("optimized", RNG.normal(size=(6, 6)), np.ones(2))
    assert text.count("empty") > without.count("empty")


def test_cotangents_are_added_at_the_border_only() -> None:
    text = jit(rod, grad=0).value_and_grad.inspect("optimized", RNG.normal(size=(6, 6)), np.ones(2))
    assert "add_slice {acc = True}" in text
