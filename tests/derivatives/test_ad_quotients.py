"""A quotient is not saved for the derivative by its denominator if its numerator can be computed again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad
from jitad.testing import check_grads


def shares(m: Any, v: Any) -> float:
    """For each pair a quotient, whose numerator is a product of elements that later days overwrite."""
    v = v.copy()
    total = 0.0
    for _ in range(3):
        force = np.zeros(len(v))
        for a in range(len(v)):
            for b in range(len(v)):
                force[a] += m[a, b] * v[b] / (1.0 + m[b, b] * m[b, b])
        for a in range(len(v)):
            v[a] = np.sin(v[a]) * 0.5 + 0.1 * force[a]
            total += v[a] * v[a]
    return total


def read_otherwise(m: Any, v: Any) -> float:
    """The quotient is a factor as well, and it decides."""
    v = v.copy()
    for i in range(len(v)):
        for j in range(len(v)):
            q = v[j] * m[i, j] / (2.0 + m[j, i])
            if q > 0.3:
                v[j] = np.sin(q) * q
    return np.sum(v * v)


def of_one(m: Any, v: Any) -> float:
    v = v.copy()
    for i in range(len(v)):
        for j in range(len(v)):
            v[j] = v[j] * 0.5 + 1.0 / (2.0 + m[j, i] * v[j])
    return np.sum(v * v)


def of_arrays(m: Any, v: Any) -> float:
    v = v.copy()
    for i in range(len(v)):
        v = v * 0.5 + (m[i] * v) / (3.0 + m[i] * m[i])
    return np.sum(v * v)


def squared(m: Any, v: Any) -> float:
    """The derivative of the angle reads the quotient twice in one op."""
    v = v.copy()
    for i in range(len(v)):
        for j in range(len(v)):
            v[j] = np.arctan2(v[j] * m[i, j] / (2.0 + m[j, i]), 1.0 + v[j])
    return np.sum(v * v)


ALL = [shares, read_otherwise, of_one, of_arrays, squared]
RNG = np.random.default_rng(8)
ARGS = (RNG.uniform(0.2, 1.5, (5, 5)), RNG.uniform(0.3, 1.2, 5))


@pytest.mark.slow
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"parallel": True}, {"fastmath": True}], ids=["", "parallel", "fastmath"])
def test_gradients(f: Callable[..., Any], options: dict[str, Any]) -> None:
    compiled = jit(f, grad=(0, 1), **options)
    value, slopes = compiled.value_and_grad(*ARGS)
    assert value == pytest.approx(f(*ARGS), rel=1e-12)
    for got, want in zip(slopes, interpret(value_and_grad(f, (0, 1)), *ARGS)[1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)
    check_grads(f, ARGS, order=1, modes=("rev",))


def test_nothing_is_saved_for_each_pair() -> None:
    text = str(value_and_grad(shares, (0, 1)).inspect("adjoint", *ARGS))
    assert "f64[3, ?, ?]" not in text and not re.search(r"f64\[\?, \?, \?\]", text)


def soft_bins(m: Any, v: Any) -> float:
    """Distances in units of a width that does not change in the loop."""
    bins = np.zeros(len(v))
    for i in range(len(m)):
        part, total, width = np.zeros(len(v)), 0.0, m[0, 0]
        for k in range(len(v)):
            d = (m[i, 1] - v[k]) / width
            part[k] = np.exp(-0.5 * d * d)
            total += part[k]
        for k in range(len(v)):
            bins[k] += part[k] / total
    return np.sum(bins * bins * v)


@pytest.mark.slow
def test_quotients_by_what_does_not_change_are_products_under_fastmath() -> None:
    saved = []
    for fastmath in (False, True):
        compiled = jit(soft_bins, grad=(0, 1), fastmath=fastmath)
        value, slopes = compiled.value_and_grad(*ARGS)
        assert value == pytest.approx(soft_bins(*ARGS), rel=1e-12)
        for got, want in zip(slopes, interpret(value_and_grad(soft_bins, (0, 1)), *ARGS)[1], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        saved.append(len(re.findall(r"empty .* : f64\[\?, \?\]", compiled.value_and_grad.inspect("adjoint", *ARGS))))
    assert saved[1] < saved[0]
