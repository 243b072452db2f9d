"""The reverse sweep reads sizes of arrays that it does not read otherwise (``ad/storage/kept_sizes.py``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitad import check_grads, jit


def rotated(a: Any, x: Any) -> float:
    """The size of the last result is a number that only the last iteration knows."""
    for _ in range(2):
        a = np.concatenate((a[1:], a[:1]))[np.argsort(x)]
    return (a * a).sum()


def test_a_size_behind_the_loop_that_computes_it() -> None:
    a, x = np.random.default_rng(0).normal(size=(5, 3)), np.array([0.5, -1.0, 2.0, 0.0, 1.0])
    check_grads(rotated, (a, x))
    np.testing.assert_allclose(jit(rotated, grad=True).grad(a, x), 2 * a)
