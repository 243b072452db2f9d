"""Branches whose sides call the same functions: values, errors of the side that is taken, derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit


def logistic(x, y):
    total = 0.0
    for i in range(len(x)):
        z = x[i] * y[0]
        if z >= 0.0:
            p = 1.0 / (1.0 + math.exp(-z))
        else:
            e = math.exp(z)
            p = e / (1.0 + e)
        total += p * x[i]
    return total


def softplus(x, y):
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0.0:
            out[i] = x[i] + math.log1p(math.exp(-x[i]))
        else:
            out[i] = math.log1p(math.exp(x[i]))
    return np.sum(out * out)


def soft_least(d, y):
    d, s = d.reshape(4, -1), y[0]
    new = np.zeros(d.shape)
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            a, b = d[i, j], d[i, 0] + d[0, j]
            if b < a:
                new[i, j] = b - s * math.log1p(math.exp((b - a) / s))
            else:
                new[i, j] = a - s * math.log1p(math.exp((a - b) / s))
    return np.sum(new * new)


def signed_root(x, y):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            total += math.log(x[i])
        else:
            total -= math.log(y[i] - x[i])
    return total


X, Y = np.random.default_rng(0).normal(0.0, 1.0, 44), np.full(44, 0.7)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fastmath", [False, True])
@pytest.mark.parametrize("f", [logistic, softplus, soft_least, signed_root])
def test_same_as_python_with_gradients(f, fastmath: bool) -> None:
    fast = jit(f, fastmath=fastmath)
    for scale in (1.0, 400.0):
        assert fast(scale * X, Y) == pytest.approx(f(scale * X, Y), rel=1e-12)
    assert interpret(f, X, Y) == pytest.approx(f(X, Y), rel=1e-12)
    check_grads(fast, (X, Y), order=1)
    large = grad(fast)(400.0 * X, Y)
    assert np.isfinite(large).all(), large


def test_only_the_side_that_is_taken_raises() -> None:
    f = jit(signed_root)
    x = np.abs(X)
    assert f(x, -1e3 * Y) == pytest.approx(signed_root(x, Y))
    x[30] = -0.5
    with pytest.raises(ValueError, match="math domain error"):
        f(x, -Y)
    assert f(x, Y) == pytest.approx(signed_root(x, Y))


def test_sides_become_one_call() -> None:
    for f in (logistic, softplus, soft_least):
        fast = jit(f)
        fast(X, Y)
        text = fast.inspect("optimized")
        assert text.count(" = exp ") <= 2, text            # one in the loop, one in the copy that checks
