"""Quotients and remainders by powers of two are shifts: the reverse sweep computes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, spec

pytestmark = pytest.mark.any_level


def interleaved(x: Any, label: Any) -> float:
    """Every second state is a blank, the others stand for the letter at half of their index."""
    old, new, total = np.ones(2 * len(label) + 1), np.zeros(2 * len(label) + 1), 0.0
    for t in range(x.shape[0]):
        norm = 0.0
        for s in range(len(old)):
            v = old[s] + old[s - 1] if s > 0 else old[s]
            if s % 2 == 0:
                new[s] = v * x[t, 0]
            else:
                if s > 1 and label[s // 2] != label[s // 2 - 1]:
                    v += old[s - 2]
                new[s] = v * x[t, label[s // 2]]
            norm += new[s]
        for s in range(len(old)):
            old[s] = new[s] / norm
        total += norm * norm
    return total + old[0] * old[3]


def negative(x: Any, label: Any) -> float:
    """Of negative integers too: rounded down, and remainders of the divisor's sign."""
    total = 1.0
    for t in range(x.shape[0]):
        for s in range(-9, 9):
            if s % 4 == label[t] % 4:
                total = total * (1.0 + 0.1 * x[t, s // 4])
            else:
                total += x[t, (s + 1) % 2] * x[t, 0]
    return total


PROGRAMS = [interleaved, negative]
LABEL = np.array([1, 2, 2, 3, -1])


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float]) -> None:
    x = np.random.default_rng(0).random((5, 4))
    value, g = jit(f, grad=0).value_and_grad(x, LABEL)
    assert value == pytest.approx(f(x, LABEL), rel=1e-12)
    np.testing.assert_allclose(g, interpret(grad(f), x, LABEL), rtol=1e-11)
    check_grads(lambda u: f(u, LABEL), (x,), order=1)


def test_neither_parity_nor_letters_are_saved() -> None:
    text = jit(interleaved, grad=0).grad.inspect("optimized", spec("f64[:, :]"), spec("i64[:]"))
    assert " empty " in text and not any(" empty " in line and "f64" not in line for line in text.splitlines())
