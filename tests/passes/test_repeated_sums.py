"""Sums that an earlier loop has computed, under fast math, and choices of which only the value is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

X = np.array([[0.3, 1.2, -0.7, 0.9], [2.0, 0.1, 0.4, -1.3], [-0.2, -0.6, 0.8, 0.5]])
W = np.array([0.5, 1.5, 0.7, 1.1])


def log_sum(x: Any, w: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        highest = x[i, 0]
        for c in range(1, x.shape[1]):
            if x[i, c] > highest:
                highest = x[i, c]
        s = 0.0
        for c in range(x.shape[1]):
            s += math.exp(x[i, c] - highest)
        total += w[i] * (math.log(s) + highest)
    return total


def by_a_helper(x: Any, w: Any) -> float:
    def log_sum_exp(row: Any) -> Any:
        highest = row[0]
        for v in row:
            highest = max(highest, v)
        s = 0.0
        for v in row:
            s += np.exp(v - highest)
        return highest + np.log(s)
    return sum(log_sum_exp(row) for row in x) * w[0]


def from_one(x: Any, w: Any) -> float:
    """The sum does not begin at zero, and each addend is subtracted again."""
    total = 0.0
    for i in range(len(x)):
        s = 1.0
        for c in range(len(w)):
            s += np.exp(w[c] * x[i, c])
        t = 2.0
        for c in range(len(w)):
            t -= s * np.exp(w[c] * x[i, c])
        total += t * t
    return total


def another_array(x: Any, w: Any) -> float:
    """The second sum is of other elements."""
    e = np.zeros(len(w))
    s = t = 0.0
    for c in range(len(w)):
        e[c] = np.exp(w[c])
        s += e[c]
    for c in range(len(w)):
        e[c] = e[c] * w[c]
    for c in range(len(w)):
        t += 3.0 * e[c]
    return s * t + x[0, 0]


def fewer(x: Any, w: Any) -> float:
    """The second sum is of fewer elements, or of the same in another order."""
    s = t = u = 0.0
    for c in range(len(w)):
        s += np.exp(w[c])
    for c in range(len(w) - 1):
        t += s * np.exp(w[c])
    for c in range(len(w)):
        u += t * np.exp(w[len(w) - 1 - c])
    return s * t * u + x[0, 0]


def on_one_path(x: Any, w: Any) -> float:
    """The first loop runs on one path only."""
    s = t = 0.0
    if x[0, 0] > 0.5:
        for c in range(len(w)):
            s += np.exp(w[c])
    for c in range(len(w)):
        t += 2.0 * np.exp(w[c])
    return s * x[0, 1] + t


PROGRAMS = [log_sum, by_a_helper, from_one, another_array, fewer, on_one_path]


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., float]) -> None:
    strict, fast = jit(f, grad=(0, 1)), jit(f, grad=(0, 1), fastmath=True)
    for x, w in ((X, W), (X[::-1] + 0.4, W * 1.5)):
        value, grads = fast.value_and_grad(x, w)
        assert value == pytest.approx(f(x, w), rel=1e-12) and fast(x, w) == pytest.approx(value, rel=1e-12)
        for got, want in zip(grads, strict.grad(x, w)):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)
    check_grads(f, (X, W), order=1)


def ops(f: Callable[..., float], monkeypatch: pytest.MonkeyPatch, without: str = "", **options: Any) -> dict[str, int]:
    monkeypatch.setenv("JITAD_WITHOUT", without)
    text = str(jit(f, grad=0, **options).value_and_grad.inspect("optimized", X, W))
    monkeypatch.undo()
    return {name: text.count(f" = {name} ") for name in ("select", "add_at {acc = True}", "sub", "mul", "get")}


@pytest.mark.parametrize("f", [log_sum, by_a_helper], ids=lambda f: f.__name__)
def test_nothing_asks_which_was_the_highest(f: Callable[..., float], monkeypatch: pytest.MonkeyPatch) -> None:
    fast, before = ops(f, monkeypatch, fastmath=True), ops(f, monkeypatch, "repeated_sums", fastmath=True)
    assert fast["add_at {acc = True}"] == 0 < before["add_at {acc = True}"]
    assert fast["select"] < before["select"]
    assert ops(f, monkeypatch, "repeated_sums,unread_choices,algebra", fastmath=False) == \
        ops(f, monkeypatch, fastmath=False)


@pytest.mark.slow
def test_a_chosen_value_without_a_cotangent_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, w: Any) -> float:
        """What is chosen has no derivative by ``x``, in the first sum, and has one in the second."""
        s = 0.0
        for i in range(len(x)):
            best, most = w[0], x[i, 0]
            for c in range(1, len(w)):
                if w[c] * 0.5 < best:
                    best = w[c] * 0.5
            for c in range(1, len(w)):
                if x[i, c] > most:
                    most = x[i, c]
            s += best * most * most
        return s
    assert ops(f, monkeypatch)["select"] < ops(f, monkeypatch, "unread_choices")["select"]
    g = jit(f, grad=(0, 1))
    for w in (W, W[::-1].copy(), np.array([0.1, 5.0, 6.0, 7.0])):
        assert g(X, w) == f(X, w) and jit(f, grad=0)(X, w) == f(X, w)
        check_grads(f, (X, w), order=1)
