"""Speculative loops before their checks: sums in order to the last bit, and the error of the failing iteration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from jitad.lowering.math import libmvec

from jitad import check_grads, grad, hvp, interpret, jit

N = 1300                                             # two chunks and a part of a third
X = np.random.default_rng(0).uniform(0.1, 3.0, N)


def entropy(x: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * math.log(x[i])
    return total


def table(x: Any, y: Any) -> Any:
    out, count, total = np.zeros(len(x) + 3), 0.0, 1.0
    for i in range(len(x)):
        r = math.sqrt(x[i]) * math.log(y[i])
        out[i] = r
        total += r
        count += 1.0
    return out, total, count


def stage(f: Any, *args: Any) -> str:
    return str(jit(f).inspect("optimized", *args))


def test_no_arrays_are_needed_where_only_checks_are_in_the_way() -> None:
    assert "empty" not in stage(entropy, X) and "^chunk" in stage(entropy, X)


@pytest.mark.skipif(libmvec.library() is None, reason="this C library has no libmvec")
def test_a_sum_in_order_vectorises() -> None:
    def total(x):
        s = 0.0
        for i in range(len(x)):
            s += np.exp(x[i]) * x[i]
        return s
    f = jit(total)
    f(X)
    assert "_exp" in f.inspect("asm") and "_ZGV" in f.inspect("asm") and "^chunk" not in f.inspect("optimized")
    terms = jit(lambda x: np.exp(x) * x)(X)
    assert f(X) == sum(terms.tolist())


@pytest.mark.parametrize("n", [1, 7, 511, 512, 513, 1024, N])
def test_values_and_gradients(n) -> None:
    f = jit(entropy, grad=True)
    terms = X[:n] * np.log(X[:n])
    assert f(X[:n]) == pytest.approx(sum(terms.tolist()), rel=1e-13)
    np.testing.assert_allclose(f.grad(X[:n]), np.log(X[:n]) + 1, rtol=1e-13)
    out, total, count = jit(table)(X[:n], X[::-1][:n])
    want = np.sqrt(X[:n]) * np.log(X[::-1][:n])
    np.testing.assert_allclose(out, [*want, 0, 0, 0], rtol=1e-13)
    assert count == n and total == pytest.approx(1.0 + sum(want.tolist()), rel=1e-13)


@pytest.mark.parametrize("at", [0, 3, 511, 512, 700, N - 1])
def test_what_fails_raises(at) -> None:
    x, y = X.copy(), X.copy()
    x[at] = -1.0
    with pytest.raises(ValueError, match="math domain error"):
        jit(entropy)(x)
    with pytest.raises(ValueError, match="math domain error"):
        jit(entropy, grad=True).value_and_grad(x)
    y[at] = 0.0
    with pytest.raises(ValueError, match="math domain error"):
        jit(table)(X, y)


def test_the_first_failure_is_the_one_that_is_raised() -> None:
    def both(x, y):
        total = 0.0
        for i in range(len(x)):
            a = math.log(x[i])
            total += a * math.sqrt(y[i])
        return total

    def failing_line(x, y):
        with pytest.raises(ValueError) as info:
            jit(both)(x, y)
        return info.traceback[-1].lineno + 1 - both.__code__.co_firstlineno
    x, y = X.copy(), X.copy()
    x[600], y[599] = -1.0, -1.0
    assert failing_line(x, y) == 4
    x[598] = -1.0
    assert failing_line(x, y) == 3


@pytest.mark.slow
def test_second_derivatives_and_meaning() -> None:
    check_grads(entropy, (X[:6],), order=2)
    assert interpret(entropy, X[:6]) == pytest.approx(entropy(X[:6]))


def test_gradients_of_longer_arrays_than_the_loop_reaches_are_zero_there() -> None:
    def part(x, y):
        total = 0.0
        for i in range(len(x)):
            total += x[i] * np.exp(y[i])
        return total
    x_bar, y_bar = jit(part, grad=(0, 1)).grad(X[:5], X[:9])
    np.testing.assert_allclose(x_bar, np.exp(X[:5]), rtol=1e-13)
    np.testing.assert_allclose(y_bar, [*(X[:5] * np.exp(X[:5])), 0, 0, 0, 0], rtol=1e-13)
    x_bar, y_bar = jit(part, grad=(0, 1)).grad(X[:0], X[:2])
    assert x_bar.shape == (0,) and y_bar.tolist() == [0.0, 0.0]
    with pytest.raises(IndexError):
        jit(part, grad=(0, 1)).grad(X[:9], X[:5])


def test_iterations_that_are_run_again_go_upwards() -> None:
    def product(x, w):
        return hvp(lambda v: entropy(v * w[0]), (x,), (np.ones_like(x),))
    text = jit(product).inspect("optimized", X, X)
    loops = [b for b in text.split("\n^") if b.startswith("loop")]
    assert loops and not any(" = sub " in b for b in loops)
    np.testing.assert_allclose(jit(product)(X, X), X[0] / X, rtol=1e-12)
    with pytest.raises(ValueError):
        jit(product)(-X, X)


@pytest.mark.slow
def test_loops_that_carry_frames_are_no_matter_of_sums() -> None:
    def halved(x):
        while x > 0.01:
            x = np.sin(x) * 0.5
        return x
    second = grad(grad(halved))
    check_grads(halved, (0.7,), order=2)
    assert jit(second)(0.7) == pytest.approx((grad(halved)(0.7 + 1e-5) - grad(halved)(0.7 - 1e-5)) / 2e-5, rel=1e-6)
